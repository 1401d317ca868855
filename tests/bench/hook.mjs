// Times the shim's hook. Each instance is a copy of the shim for itself, so that two servers can be
// compared from one process.
import { performance } from "node:perf_hooks";
import { obey } from "./commands.mjs";

const instances = new Map();
const histories = new Map();
const PART_BYTES = 20_000;

await obey({
  /** A copy of the shim that finds its sidecar in `data`. `shim` is a path: of a URL, Bun drops the query. */
  async load({ name, shim, data, directory }) {
    const { default: plugin } = await import(`${shim}?${name}`);
    const client = {
      app: { log: async ({ body }) => console.error(body.message) },
      session: { get: async ({ path: { id } }) => ({ data: { id } }) },
    };
    const hooks = await plugin.server({ directory, client });
    const transform = hooks["experimental.chat.messages.transform"];
    instances.set(name, { transform, data, turn: 0 });
    return {};
  },

  /** The text that a session is given. */
  async text({ name, session }) {
    const messages = history(session);
    await call(use(name), messages);
    return messages[0].parts[0].text;
  },

  /** Milliseconds of each call, each after a pause of so many. The sessions take turns, and go on where
   * the last block ended. */
  async time({ name, sessions, calls, bytes, pause = 0 }) {
    const instance = use(name);
    const samples = [];
    for (let i = 0; i < calls; i++) {
      const session = sessions[instance.turn++ % sessions.length];
      if (pause) await new Promise((resolve) => setTimeout(resolve, pause));
      samples.push(await call(instance, history(session, bytes)));
    }
    return samples;
  },
});

/** The instance, with the environment that it is to find. */
function use(name) {
  const instance = instances.get(name);
  process.env.XDG_DATA_HOME = instance.data;
  return instance;
}

async function call({ transform }, messages) {
  const before = messages.length;
  const started = performance.now();
  await transform({}, { messages });
  const took = performance.now() - started;
  if (messages.length === before) throw new Error("the hook inserted nothing");
  return took;
}

/** A history of about so many bytes, as the host hands it over: the list is the hook's, for this call. */
function history(sessionID, bytes = 0) {
  const key = `${sessionID} ${bytes}`;
  if (!histories.has(key)) histories.set(key, makeHistory(sessionID, bytes));
  return [...histories.get(key)];
}

function makeHistory(sessionID, bytes) {
  const count = Math.max(1, Math.ceil(bytes / PART_BYTES));
  return Array.from({ length: count }, (_, i) => {
    const user = i % 2 === 0;
    const model = { providerID: "stub", modelID: "stub" };
    const info = { id: `msg_${i}`, sessionID, time: { created: i } };
    const role = user ? { role: "user", agent: "build", model } : { role: "assistant" };
    // Its own beginning: sessions that begin alike are forks of one another.
    const text = sessionID + "x".repeat(Math.min(bytes, PART_BYTES));
    return { info: { ...info, ...role }, parts: [{ id: `prt_${i}`, type: "text", text }] };
  });
}
