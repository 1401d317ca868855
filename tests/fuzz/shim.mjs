// Fuzzes the plugin in the host's own runtime: FIRST COUNT SECONDS. Each case is one number, which says what a
// sidecar answers to a few requests at once; the same number is the same case. Ends with 1 and the case's
// number if the plugin threw, hung, kept a connection, or gave a session what is not its own.
import { mkdtempSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import net from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { performance } from "node:perf_hooks";

const [first, count, seconds] = process.argv.slice(-3).map(Number);
const MARKER = "<!-- opencode-agent-memory:snapshot:1 -->\n";
const SESSIONS = ["ses_0", "ses_1", "ses_2"];
const SPEED = 100; // the plugin's deadlines pass a hundred times as fast, and its times of silence at once
const HANG_MS = 10_000;

const realTimer = setTimeout;
globalThis.setTimeout = (call, ms, ...rest) => realTimer(call, ms / SPEED, ...rest);
const realNow = performance.now.bind(performance);
performance.now = () => realNow() * SPEED * SPEED;
const pause = (ms) => new Promise((resolve) => realTimer(resolve, ms));

/** A generator of its own, so that a case can be repeated (mulberry32). */
function random(seed) {
  return (below) => {
    seed = (seed + 0x6d2b79f5) | 0;
    let value = Math.imul(seed ^ (seed >>> 15), seed | 1);
    value ^= value + Math.imul(value ^ (value >>> 7), value | 61);
    return ((value ^ (value >>> 14)) >>> 0) % below;
  };
}

function textOf(session, filler = "") {
  return `${MARKER}of ${session};${filler}\n`;
}

function reply(session, { status = "200 OK", body = textOf(session), without, ...changed } = {}) {
  const headers = {
    "Memory-Protocol": "1",
    "Memory-Session": session,
    "Memory-Placement": "message",
    "Content-Type": "text/plain; charset=utf-8",
    ETag: `"${session}"`,
    "Content-Length": String(Buffer.byteLength(body)),
    ...changed,
  };
  const lines = Object.entries(headers).filter(([name]) => name !== without);
  const head = lines.map(([name, value]) => `${name}: ${value}\r\n`).join("");
  return Buffer.from(`HTTP/1.1 ${status}\r\n${head}\r\n${body}`);
}

const STATUSES = [
  "200 OK",
  "204 No Content",
  "304 Not Modified",
  "302 Found",
  "400 Bad",
  "403 No",
  "500 No",
];
STATUSES.push("501 No", "503 No", "99 Odd", "1000 Odd", "abc");

/** What the sidecar does with a request: bytes to send, in which pieces and when, and whether it hangs up. */
function behaviour(below, session, other) {
  const noise = Buffer.from(Array.from({ length: below(200) }, () => below(256)));
  const whole = reply(session, { body: textOf(session, "x".repeat(below(3) * below(30_000))) });
  const headers = [
    "Memory-Protocol",
    "Memory-Session",
    "ETag",
    "Content-Length",
    "Memory-Placement",
  ];
  const header = headers[below(headers.length)];
  switch (below(16)) {
    case 0: {
      const head = whole.indexOf("\r\n\r\n");
      const flipped = Buffer.from(whole);
      for (let n = below(4); n >= 0; n--) flipped[below(head)] = below(256);
      return { send: flipped };
    }
    case 1:
      return { send: whole.subarray(0, below(whole.length)), end: true };
    case 2:
      return { send: Buffer.concat([whole, whole]) };
    case 3:
      return { send: noise, end: below(2) === 0 };
    case 4:
      return { send: Buffer.alloc(0) };
    case 5:
      return { send: whole, wait: 50 }; // after the deadline
    case 6:
      return { send: reply(other) }; // another session's, whole
    case 7:
      return { send: reply(session, { "Content-Length": String(2 ** (below(60) + 1)) }) };
    case 8:
      return { send: Buffer.alloc(0), end: true };
    case 9:
      return { send: Buffer.concat([whole, noise]), end: true };
    case 10:
      return { send: reply(session, { without: header }) };
    case 11:
      return { send: reply(session, { status: STATUSES[below(STATUSES.length)] }) };
    case 12:
      return { send: reply(session, { [header]: noise.toString("latin1") }) };
    case 13:
      return {
        send: Buffer.concat([reply(session, { status: "204 No Content", body: "" }), noise]),
      };
    case 14:
      return {
        send: Buffer.concat([Buffer.from("HTTP/1.1 200 OK\r\n"), Buffer.alloc(20_000, 120)]),
      };
    default:
      return { send: whole };
  }
}

let below = random(0);
let answered = 0;
let given = 0;
const open = new Set();
const server = net.createServer((socket) => {
  open.add(socket);
  socket.on("close", () => open.delete(socket));
  socket.on("error", () => {});
  let received = Buffer.alloc(0);
  socket.on("data", (chunk) => {
    received = Buffer.concat([received, chunk]);
    const head = received.indexOf("\r\n\r\n");
    if (head < 0) return;
    const length = Number(/Content-Length: (\d+)/.exec(received.toString("latin1", 0, head))?.[1]);
    if (received.length < head + 4 + length) return;
    const { session_id } = JSON.parse(received.toString("utf8", head + 4, head + 4 + length));
    received = received.subarray(head + 4 + length);
    answer(socket, session_id ?? "none");
  });
});

async function answer(socket, session) {
  answered++;
  const other = SESSIONS[(SESSIONS.indexOf(session) + 1) % SESSIONS.length];
  const { send, wait = 0, end = false } = behaviour(below, session, other);
  const pieces = [send];
  if (below(3) === 0 && send.length < 2_000) {
    pieces.length = 0;
    const size = 1 + below(20);
    for (let at = 0; at < send.length; at += size) pieces.push(send.subarray(at, at + size));
  }
  if (wait) await pause(wait);
  for (const piece of pieces) {
    if (!socket.writable) return;
    socket.write(piece);
    if (pieces.length > 1) await null;
  }
  if (end) socket.end();
}

function fault(number, what) {
  console.error(`case ${number}: ${what}`);
  process.exit(1);
}

async function run(number, hooks) {
  below = random(number);
  const asked = Array.from({ length: 1 + below(4) }, () => SESSIONS[below(SESSIONS.length)]);
  if (below(4) === 0) {
    const type = below(2) ? "session.compacted" : "session.deleted";
    hooks.event({ event: { type, properties: { sessionID: SESSIONS[below(3)] } } });
  }
  const calls = asked.map(async (sessionID) => {
    const info = { id: "msg_1", sessionID, role: "user", time: { created: 1 } };
    const messages = [{ info, parts: [{ type: "text", text: "hello" }] }];
    await hooks["experimental.chat.messages.transform"]({}, { messages });
    if (messages.length === 1) return;
    given++;
    const { text } = messages[0].parts[0];
    // A head that lies about the length may cut a text; it can't make it another session's.
    const own = textOf(sessionID).slice(0, -1);
    if (!text.startsWith(own) && !own.startsWith(text)) {
      fault(number, `${sessionID} was given ${JSON.stringify(text.slice(0, 80))}`);
    }
    if (messages.length !== 2) fault(number, `${messages.length} messages`);
  });
  const hung = realTimer(() => fault(number, "it hangs"), HANG_MS);
  try {
    await Promise.all(calls);
  } catch (error) {
    fault(number, `it threw ${error}`);
  }
  clearTimeout(hung);
}

const home = mkdtempSync(path.join(tmpdir(), "ocm-"));
process.env.HOME = process.env.XDG_DATA_HOME = process.env.XDG_CONFIG_HOME = home;
process.on("exit", () => rmSync(home, { recursive: true }));
process.on("unhandledRejection", (error) => fault("?", `unhandled: ${error}`));
const socket = path.join(home, "s");
await new Promise((resolve) => server.listen(socket, resolve));
mkdirSync(path.join(home, "opencode", "agent-memory"), { recursive: true });
writeFileSync(
  path.join(home, "opencode", "agent-memory", "endpoint.json"),
  JSON.stringify({ version: "999", instance: "fuzz", socket }),
);
const url = new URL("../../plugin-shim/opencode-memory.js", import.meta.url);
const shim = (await import(url)).default;
const client = { app: { log: async () => {} }, session: { get: async () => ({}) } };
const hooks = await shim.server({ directory: "/project", client });

const until = realNow() + seconds * 1000;
let number = first;
for (; number < first + count && realNow() < until; number++) await run(number, hooks);
await pause(100);
// Not every closed socket says so here.
const left = [...open].filter((socket) => socket.readyState !== "closed").length;
if (left > 2) fault(number, `it keeps ${left} connections open`);
await hooks.dispose();
server.close();
const cases = number - first;
// Enough to have tested something: on a busy machine many of the hurried deadlines pass first.
if (answered < cases / 4 || given < cases / 10)
  fault(number, `only ${answered} answers, ${given} texts given`);
console.log(`${cases} cases, none at fault`);
