// opencode-memory-sidecar: the OpenCode plugin. It inserts a session's memory as the first message of
// its history, with exactly the bytes that the sidecar froze for it, and decides nothing itself.
// @ts-check

import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { closeSync, constants, fstatSync, lstatSync, openSync, readFileSync } from "node:fs";
import net from "node:net";
import { homedir } from "node:os";
import path from "node:path";
import { performance } from "node:perf_hooks";

/** @typedef {import("@opencode-ai/plugin").Hooks} Hooks */
/** @typedef {Parameters<NonNullable<Hooks["experimental.chat.messages.transform"]>>[1]["messages"]} Messages */
/** @typedef {Extract<Messages[number]["info"], { role: "user" }>} UserMessage */
/** @typedef {Parameters<NonNullable<Hooks["tool"]>[string]["execute"]>[1]} ToolContext */
/** @typedef {(level: "info" | "warn" | "error", message: string) => void} Log */

const VERSION = "0.1.0"; // the sidecar's that it comes with
const PROTOCOL = "1";
const FILE = "opencode-memory.js";
const MARKER = "<!-- opencode-agent-memory:snapshot:";

// Constant, so that our message is the same one on every request, and of the host's own form, so that
// other plugins can refer to it. The zero time in them sorts before every real id.
const MESSAGE_ID = "msg_000000000000OpencodeMemory";
const PART_ID = "prt_000000000000OpencodeMemory";

// With bytes held nothing is lost by going on with them; without, the session would start bare.
const DEADLINE_MS = { held: 500, bare: 2_000 };
const EVENT_DEADLINE_MS = 1_000;
const TOOL_DEADLINE_MS = 15_000; // a writer waits up to ten seconds for the one before it
const PARENT_DEADLINE_MS = 500;
// How long what can't go on without a sidecar waits for one that is starting; it takes half a second.
const START_DEADLINE_MS = 5_000;
const LAST_STEPS_MS = 2_000; // the user waits for the prompt of the shell
const START_POLL_MS = 50;
const HOOK_DEADLINE_MS = 10_000; // above all others together: in 2.x nothing else bounds a hook
const REGISTRATION_MS = 1_000;
const RESUBSCRIBE_MS = 1_000;
const START_AGAIN_MS = 30_000;
const SILENCE_MS = 5_000; // how long nobody waits again for a sidecar that missed a deadline

const MAX_SESSIONS = 256;
const MAX_FORK_DEPTH = 8;
const MAX_UNSENT_STEPS = 1_000;
const STEPS_IN_A_BATCH = 50; // they fit into a request's 64 KiB
const MAX_HEAD_BYTES = 16 * 1024;
const MAX_BODY_BYTES = 4 * 1024 * 1024;
const MAX_REASON_LENGTH = 300;

// ── The hooks ──────────────────────────────────────────────────────────────────────────────────────

/** OpenCode 1.x calls this once per project directory.
 * @type {import("@opencode-ai/plugin").Plugin} */
async function server(input) {
  const log = hostLog(input);
  /** @type {Set<string>} sessions whose next transform is the compaction request */
  const compacting = new Set();
  /** @type {Set<Promise<void>>} */
  const eventsUnderWay = new Set();

  /** @type {Hooks} */
  const hooks = {
    async "experimental.chat.messages.transform"(_, { messages }) {
      const sessionID = messages.find((message) => typeof message?.info?.sessionID === "string")
        ?.info.sessionID;
      if (sessionID === undefined) return;
      // Injected there, memory would be summarised into the history.
      if (compacting.delete(sessionID)) return;
      if (holdsSnapshot(messages)) return;
      if (!Object.isExtensible(messages)) {
        throw new Error(
          "another plugin froze the list of messages; disable it or load it after this one",
        );
      }
      const memory = await sessionMemory(log, {
        session_id: sessionID,
        parent_id: await parentOf(input, sessionID),
        epoch: epochOf(messages),
        directory: input.directory,
        config_directories: configDirectories(),
        first_id: messages.find(isUsable)?.info.id,
        origin: () => originOf(messages),
      });
      insert(memory, sessionID, messages);
    },

    async config({ plugin }) {
      warnOfOtherPlugin(log, plugin ?? []);
    },

    async "experimental.session.compacting"({ sessionID }) {
      compacting.add(sessionID);
    },

    async "chat.params"({ sessionID, agent }) {
      // A compaction right after another one has no messages, so transform could not tell its session.
      if (agent === "compaction") compacting.delete(sessionID);
    },

    async event({ event }) {
      const { sessionID, info } = /** @type {any} */ (event.properties);
      const session_id = sessionID ?? info?.id;
      if (event.type === "message.updated" && info?.role === "assistant") {
        if (!info.time?.completed) keep(answering, info.id, true);
        else if (answering.has(info.id)) noteStep(log, stepOf(info));
      }
      if (event.type === "session.created") {
        keep(parentBySession, session_id, info.parentID ?? null);
      }
      // A compaction that was aborted before its transform must not cost a later request its memory.
      if (["session.idle", "session.error", "session.deleted"].includes(event.type)) {
        compacting.delete(session_id);
      }
      if (event.type !== "session.compacted" && event.type !== "session.deleted") return;
      const sending = sendEvent(log, event.type.slice("session.".length), session_id);
      eventsUnderWay.add(sending);
      await sending;
      eventsUnderWay.delete(sending);
    },

    async dispose() {
      await Promise.all([...eventsUnderWay, sendLastSteps(log)]); // their own deadlines bound this
      for (const line of [promptLine, sideLine]) line.close();
    },

    async "tool.definition"({ toolID }, output) {
      if (!Object.hasOwn(TOOLS, toolID)) return;
      const { properties, required } = TOOLS[toolID];
      // The host marks every argument as required; `jsonSchema` is what it sends, though not in its types.
      const definition = /** @type {any} */ (output);
      definition.jsonSchema = { type: "object", properties, required, additionalProperties: false };
    },
  };
  return { ...guarded(hooks, log), tool: tools(input.directory, log) };
}

/** OpenCode 2.x calls this once per project directory; so does 1.x, for a reduced context of its own that has
 * no sessions. Each kind of request has a hook: all but the title's begin with the same bytes.
 * @param {any} context */
async function setup(context) {
  const isHost2 =
    typeof context?.session?.hook === "function" &&
    typeof context?.tool?.transform === "function" &&
    typeof context?.event?.subscribe === "function";
  if (!isHost2) return;
  const directory = String(context.location?.directory ?? process.cwd());
  /** @type {Log} 2.x has no log for plugins. Not on stdout, which may be anybody's protocol. */
  const log = (level, message) => console.error(`opencode-memory: ${level}: ${message}`);
  const insertMemory = async (/** @type {Context2Event} */ event) => {
    const { sessionID, messages } = event;
    if (typeof sessionID !== "string" || !Array.isArray(messages)) return;
    if (messages.some(holdsSnapshot2)) return;
    const { parent, root } = await lineageOf(context, sessionID);
    const epoch = epochOf2(messages);
    const memory = await sessionMemory(log, {
      session_id: sessionID,
      parent_id: parent,
      epoch,
      directory,
      config_directories: configDirectories(),
      origin: () => hash([epoch, root]),
    });
    insert2(memory, event);
  };
  await Promise.all([
    ...["context", "compaction", "generate"].map(async (kind) => {
      const { [kind]: hook } = guarded({ [kind]: insertMemory }, log);
      const bounded = (/** @type {Context2Event} */ event) => inTime(hook(event), HOOK_DEADLINE_MS);
      const failure = await failureOf(() => context.session.hook(kind, bounded));
      if (failure) log("warn", `This OpenCode has no hook for ${kind} requests: ${failure}.`);
    }),
    (async () => {
      const addAll = (/** @type {any} */ registry) => {
        for (const tool of tools2(directory, log)) registry.add(tool);
      };
      const failure = await failureOf(() => context.tool.transform(addAll));
      if (failure) log("error", `The memory tools could not be registered: ${failure}.`);
    })(),
  ]);
  const ending = new AbortController();
  const listening = listen2(context, directory, ending.signal, log);
  return async () => {
    ending.abort();
    await inTime(Promise.all([listening, sendLastSteps(log)]), START_DEADLINE_MS);
    for (const line of [promptLine, sideLine]) line.close();
  };
}

/** Why 2.x has not registered something; "" if it has. It must not be held up by it, either.
 * @param {() => unknown} register */
async function failureOf(register) {
  try {
    const registered = (async () => register())().then(() => true);
    return (await inTime(registered, REGISTRATION_MS)) ? "" : "it does not answer";
  } catch (error) {
    return reasonOf(error);
  }
}

/** What 2.x says of its sessions: the events of all directories come to each of them, live and once.
 * @param {any} context
 * @param {string} directory
 * @param {AbortSignal} signal
 * @param {Log} log */
async function listen2(context, directory, signal, log) {
  while (!signal.aborted) {
    try {
      for await (const event of context.event.subscribe({ signal })) {
        if (signal.aborted) return;
        if ((event?.location?.directory ?? directory) === directory) await receive2(event, log);
      }
    } catch {
      // It ended; what was missed is derived from the next request.
    }
    await pause(RESUBSCRIBE_MS, signal);
  }
}

/** @param {any} event
 * @param {Log} log */
async function receive2(event, log) {
  const { type, data } = event;
  const { sessionID, parentID } = data ?? {};
  if (typeof sessionID !== "string") return;
  if (type === "session.created") keep(lineageBySession, sessionID, { parent: parentID ?? null });
  if (type === "session.forked")
    keep(lineageBySession, sessionID, { parent: null, source: parentID });
  const step = stepOf2(event);
  if (step) noteStep(log, step);
  if (type === "session.compaction.ended") await sendEvent(log, "compacted", sessionID);
  if (type === "session.deleted") await sendEvent(log, "deleted", sessionID);
}

/** An error that left a hook would end the user's turn, so none leaves; each is told once.
 * @template {Record<string, any>} T
 * @param {T} hooks
 * @param {Log} log
 * @returns {T} */
function guarded(hooks, log) {
  const entries = Object.entries(hooks).map(([name, hook]) => {
    let told = "";
    return [
      name,
      async (/** @type {unknown[]} */ ...args) => {
        try {
          await hook(...args);
        } catch (error) {
          const reason = reasonOf(error);
          if (reason === told) return;
          told = reason;
          log("error", `The memory plugin did nothing in ${name}: ${reason}.`);
        }
      },
    ];
  });
  return /** @type {T} */ (Object.fromEntries(entries));
}

// ── The messages ───────────────────────────────────────────────────────────────────────────────────

/** Our id first, then the marker where only we put one: a user may paste our text anywhere else.
 * @param {Messages} messages */
function holdsSnapshot(messages) {
  if (messages.some((message) => message?.info?.id === MESSAGE_ID)) return true;
  if (messages.some((message) => isUsable(message) && message.parts[0]?.id === PART_ID))
    return true;
  if (!isUsable(messages[0]) || messages[0].info.role !== "user") return false;
  const part = messages[0].parts.find((part) => part?.type === "text");
  return part?.type === "text" && part.synthetic === true && String(part.text).startsWith(MARKER);
}

/** Which history head the host is on: the time of the newest completed compaction, the same in a fork.
 * Null where another plugin left messages that it cannot be read from.
 * @param {Messages} messages */
function epochOf(messages) {
  if (!messages.every(isUsable)) return null;
  const completed = new Set();
  for (const { info } of messages) {
    if (info.role !== "assistant" || info.summary !== true) continue;
    if (info.finish && !info.error) completed.add(info.parentID);
  }
  const times = messages
    .filter(({ info }) => info.role === "user" && completed.has(info.id))
    .filter(({ parts }) => parts.some((part) => part?.type === "compaction"))
    .map(({ info }) => info.time?.created);
  if (!times.every(Number.isFinite)) return null;
  return times.length === 0 ? "initial" : String(Math.max(...times));
}

/** How the history begins: the same in a session and in every fork of it, and in no other session.
 * @param {Messages} messages */
function originOf(messages) {
  const first = messages.find(isUsable);
  const texts = first?.parts.map((part) => (part?.type === "text" ? part.text : part?.type));
  return hash([epochOf(messages), first?.info.role, first?.info.time?.created, texts]);
}

/** @param {unknown} value */
function hash(value) {
  return createHash("sha256").update(JSON.stringify(value)).digest("hex");
}

/** As a message of its own, ahead of all others, or as the first part of the user's first message: for a
 * provider that takes no two user messages in a row. Stored nowhere either way.
 * @param {Memory} memory
 * @param {string} sessionID
 * @param {Messages} messages */
function insert({ text, placement }, sessionID, messages) {
  if (!text) return;
  const first = messages.findIndex((message) => isUsable(message) && message.info.role === "user");
  if (placement === "message" || first < 0) {
    messages.unshift(memoryMessage(sessionID, text, messages));
    return;
  }
  const { info, parts } = messages[first];
  // A new object: the list alone is made for this request, and the host reads its messages elsewhere too.
  messages[first] = { info, parts: [memoryPart(sessionID, info.id, text), ...parts] };
}

/** A new object on every call: other plugins edit what they find in the list.
 * @param {string} sessionID
 * @param {string} text
 * @param {Messages} messages
 * @returns {Messages[number]} */
function memoryMessage(sessionID, text, messages) {
  // What other plugins insert seldom has an agent and a model.
  const user = messages.findLast(
    (message) => message?.info?.role === "user" && message.info.agent && message.info.model,
  );
  const { agent, model } = /** @type {UserMessage} */ (user?.info ?? {});
  return {
    info: {
      id: MESSAGE_ID,
      sessionID,
      role: "user",
      time: { created: messages[0]?.info?.time?.created ?? 0 },
      agent,
      model: { ...model },
    },
    parts: [memoryPart(sessionID, MESSAGE_ID, text)],
  };
}

/** @param {string} sessionID
 * @param {string} messageID
 * @param {string} text
 * @returns {Messages[number]["parts"][number]} */
function memoryPart(sessionID, messageID, text) {
  // Not marked synthetic, the text would show as the user's own and be taken for the title.
  return { id: PART_ID, sessionID, messageID, type: "text", text, synthetic: true };
}

/** @param {Messages[number]} message */
function isUsable(message) {
  return typeof message?.info === "object" && message.info && Array.isArray(message.parts);
}

// ── The messages of 2.x ────────────────────────────────────────────────────────────────────────────────

/** @typedef {{ type: string, text?: string }} Content */
/** @typedef {{ id?: string, role: string, content: Content[] }} Message2 */
/** @typedef {{ sessionID: string, messages: Message2[] }} Context2Event */

/** Which history head the host is on: the checkpoint that it begins with, or, where the provider has compacted
 * it, what that left. By its text, since a fork has it under another id.
 * @param {Message2[]} messages */
function epochOf2(messages) {
  const first = messages.find((message) => Array.isArray(message?.content));
  const text = first?.content.find((part) => part?.type === "text")?.text;
  if (first?.role === "user" && text?.startsWith("<conversation-checkpoint>")) return hash(text);
  const parts = messages.flatMap((message) => message?.content ?? []);
  const compaction = parts.find((part) => part?.type === "compaction");
  return compaction ? hash(compaction) : "initial";
}

/** A second copy of this plugin has been here: its message has our id; its part stands before the user's own,
 * which tells it from our text where the user has pasted it.
 * @param {Message2} message */
function holdsSnapshot2(message) {
  if (message?.id === MESSAGE_ID) return true;
  const [first, theirs] = Array.isArray(message?.content) ? message.content : [];
  return message?.role === "user" && theirs && String(first?.text).startsWith(MARKER);
}

/** No cache hint goes on it: they are four, and the host uses them all.
 * @param {Memory} memory
 * @param {Context2Event} event */
function insert2({ text, placement }, event) {
  if (!text) return;
  const { messages } = event;
  const part = { type: "text", text };
  const first = messages.findIndex(
    (message) => message?.role === "user" && Array.isArray(message.content),
  );
  const copy = [...messages]; // the host takes a new list as well, and this one may be frozen
  if (placement === "message" || first < 0) {
    copy.unshift({ id: MESSAGE_ID, role: "user", content: [part] });
  } else {
    copy[first] = { ...messages[first], content: [part, ...messages[first].content] };
  }
  event.messages = copy;
}

/**
 * A subagent's parent, and the session that a fork is a copy of.
 * @typedef {{ parent: string | null, source?: string }} Lineage
 * @type {Map<string, Lineage>}
 */
const lineageBySession = new Map();

/** The parent, and the oldest session that this one is a copy of, maybe of a copy: itself, mostly.
 * @param {any} context
 * @param {string} sessionID
 * @returns {Promise<{ parent: string | null, root: string }>} */
async function lineageOf(context, sessionID) {
  const { parent, source } = await lineageStep(context, sessionID);
  let root = sessionID;
  let next = source;
  for (let step = 0; next !== undefined && step < MAX_FORK_DEPTH; step++) {
    root = next;
    ({ source: next } = await lineageStep(context, root));
  }
  return { parent, root };
}

/** @param {any} context
 * @param {string} sessionID
 * @returns {Promise<Lineage>} */
async function lineageStep(context, sessionID) {
  const known = lineageBySession.get(sessionID);
  if (known) return known;
  const asked = (async () => context.session.get({ sessionID }))();
  const answer = await inTime(
    asked.catch(() => undefined),
    PARENT_DEADLINE_MS,
  );
  if (!answer) return { parent: null }; // the prompt must not wait for it
  const info = answer.data ?? answer;
  const lineage = { parent: info.parentID ?? null, source: info.fork?.sessionID };
  keep(lineageBySession, sessionID, lineage);
  return lineage;
}

// ── The tools ──────────────────────────────────────────────────────────────────────────────────────
// They stand before everything else in the prompt, so they are constant: made by `make tools`, and
// registered whether or not the sidecar can be reached.

/** @typedef {{ description: string, properties: Record<string, any>, required: string[] }} Tool */

/** @type {Record<string, Tool>} */
// prettier-ignore
const TOOLS = {
  memory_list: {"description": "List the memory blocks: label, scope, size and limit, description. The memory at the start of the conversation is a snapshot and does not change; this tool works on the blocks as they are now.", "properties": {"scope": {"type": "string", "description": "global: the user's, in every project; project: this project's folder.", "enum": ["global", "project"]}}, "required": []},
  memory_get: {"description": "Read one memory block as it is now, with its exact value. The memory at the start of the conversation is a snapshot and does not change; this tool works on the blocks as they are now.", "properties": {"label": {"description": "The block's label, as memory_list shows it.", "type": "string"}, "scope": {"type": "string", "description": "global: the user's, in every project; project: this project's folder.", "enum": ["global", "project"]}}, "required": ["label"]},
  memory_set: {"description": "Give a memory block a whole new value, or make a new block (in the project unless scope is global). To change a part of a block, use memory_replace. Keep what is worth knowing in later sessions: preferences, conventions, decisions, traps.", "properties": {"label": {"description": "The block's label, as memory_list shows it.", "type": "string"}, "scope": {"type": "string", "description": "global: the user's, in every project; project: this project's folder.", "enum": ["global", "project"]}, "value": {"description": "The block's whole new value.", "type": "string"}, "description": {"description": "What belongs into the block; kept if left out.", "type": "string"}, "limit": {"description": "How many characters it may hold; kept if left out.", "type": "integer"}}, "required": ["label", "value"]},
  memory_replace: {"description": "Replace text in a memory block: one place with oldText and newText, or several with edits, judged on the end state. oldText must match the block as it is now exactly once; an empty newText removes it. The memory at the start of the conversation is a snapshot and does not change; this tool works on the blocks as they are now.", "properties": {"label": {"description": "The block's label, as memory_list shows it.", "type": "string"}, "scope": {"type": "string", "description": "global: the user's, in every project; project: this project's folder.", "enum": ["global", "project"]}, "oldText": {"description": "The text to replace: it must occur exactly once in the block as it is now.", "type": "string"}, "newText": {"description": "What stands there afterwards, literally.", "type": "string"}, "edits": {"description": "Several edits instead of oldText and newText, made in this order: all of them, or none.", "type": "array", "items": {"type": "object", "properties": {"oldText": {"description": "The text to replace: it must occur exactly once in the block as it is now.", "type": "string"}, "newText": {"description": "What stands there afterwards, literally.", "type": "string"}}, "required": ["oldText", "newText"], "additionalProperties": false}}}, "required": ["label"]},
  memory_delete: {"description": "Delete a memory block and its file. Only when the user wants that, or all it says has gone into another block.", "properties": {"label": {"description": "The block's label, as memory_list shows it.", "type": "string"}, "scope": {"type": "string", "description": "global: the user's, in every project; project: this project's folder.", "enum": ["global", "project"]}}, "required": ["label"]},
  memory_oversized: {"description": "List the memory blocks that are over their limit, and by how much, so that they can be consolidated. The memory at the start of the conversation is a snapshot and does not change; this tool works on the blocks as they are now.", "properties": {"scope": {"type": "string", "description": "global: the user's, in every project; project: this project's folder.", "enum": ["global", "project"]}}, "required": []},
};

/** @param {string} directory
 * @param {Log} log
 * @returns {NonNullable<Hooks["tool"]>} */
function tools(directory, log) {
  const entries = Object.entries(TOOLS).map(([name, { description }]) => {
    const execute = (/** @type {any} */ args, /** @type {ToolContext} */ context) =>
      runTool(name, args ?? {}, context, directory, log);
    // Older hosts fail on every prompt where an argument is not zod's; `tool.definition` has them all.
    return [name, { description, args: {}, execute }];
  });
  return Object.fromEntries(entries);
}

/** @param {string} name
 * @param {Record<string, any>} args
 * @param {ToolContext} context
 * @param {string} directory
 * @param {Log} log */
async function runTool(name, args, context, directory, log) {
  const label = String(args.label ?? "");
  // The user's settings want it; the host remembers what the user always allows.
  const approve = () =>
    context.ask({ permission: name, patterns: [label], always: ["*"], metadata: args });
  const caller = { session_id: context.sessionID, turn_id: turnOf(context), approve };
  return { title: label, output: await callTool(name, args, caller, directory, log), metadata: {} };
}

/** The tools for 2.x, where a refusal must be an answer like any other. Directly the model's, not behind the host's
 * tool that runs code.
 * @param {string} directory
 * @param {Log} log */
function tools2(directory, log) {
  return Object.entries(TOOLS).map(([name, { description, properties, required }]) => ({
    name,
    description,
    input: { type: "object", properties, required, additionalProperties: false },
    options: { codemode: false },
    async execute(/** @type {any} */ args, /** @type {any} */ context) {
      const caller = { session_id: context?.sessionID, turn_id: String(context?.messageID) };
      try {
        return { content: await callTool(name, args ?? {}, caller, directory, log) };
      } catch (error) {
        return { content: reasonOf(error) };
      }
    },
  }));
}

/** The sidecar checks the arguments and words the answer. A refusal is thrown: the model can act on it.
 * @param {string} name
 * @param {Record<string, any>} args
 * @param {{ session_id: string, turn_id: string, approve?: () => Promise<unknown> }} caller
 * @param {string} directory
 * @param {Log} log */
async function callTool(name, args, { approve, ...caller }, directory, log) {
  const call = { ...caller, directory, config_directories: configDirectories(), arguments: args };
  const path = `/v1/tools/${name}`;
  const send = () => sideLine.ask(path, call, TOOL_DEADLINE_MS);
  let reply = await withSidecar(log, send, START_DEADLINE_MS);
  if (reply.status === 403 && approve) {
    await approve();
    reply = await sideLine.ask(path, { ...call, approved: true }, TOOL_DEADLINE_MS);
  }
  if (reply.status !== 200) throw new Error(errorMessage(reply.status, reply.text));
  return reply.text;
}

/** Which of the user's messages the agent is working on; the host does not say, but it lists them.
 * @param {ToolContext & { messages?: Messages }} context */
function turnOf({ messages, messageID }) {
  const asked = messages?.findLast?.(
    (message) => message?.info?.role === "user" && message.info.id !== MESSAGE_ID,
  );
  return asked?.info.id ?? messageID;
}

// ── Session bytes ──────────────────────────────────────────────────────────────────────────────────

/**
 * What a session is given, and where it stands. The text "" is the sidecar's decision to insert nothing;
 * null means that the session went without, because the sidecar could not be asked. `began` is the ETag of
 * an earlier epoch's bytes with which this one has begun, for the same reason.
 * @typedef {{ text: string | null, placement: "message" | "part" }} Memory
 * @typedef {Memory & { epoch: string | null, first_id?: string, origin: string, etag?: string,
 *   began?: string }} Held
 * @typedef {{
 *   session_id: string,
 *   parent_id: string | null,
 *   epoch: string | null,
 *   directory: string,
 *   config_directories: string[],
 *   first_id?: string,
 *   origin: () => string,
 * }} Question
 */

/** @type {Map<string, Held>} the least recently used session stands first */
const heldBySession = new Map();

/** What to insert. It never fails: the bytes last seen keep the prompt's head in place.
 * @param {Log} log
 * @param {Question} question
 * @returns {Promise<Memory>} */
async function sessionMemory(log, question) {
  const { first_id, ...asked } = question;
  const { session_id, epoch } = asked;
  const last = heldBySession.get(session_id);
  // An unknown epoch says nothing against the bytes at hand.
  const sameEpoch = last && (last.epoch === epoch || last.epoch === null || epoch === null);
  // After a compaction the old bytes are better than none: with memory unchanged they are the new ones.
  const { text = null, placement = "message" } = last ?? {};
  // A long first message is not to be hashed on every request.
  const isHashed = sameEpoch && last.epoch !== null && last.first_id === first_id;
  const origin = isHashed ? last.origin : asked.origin();
  /** @type {Held} */
  const held = sameEpoch
    ? { ...last, epoch: epoch ?? last.epoch, first_id, origin }
    : { epoch, first_id, origin, text, placement };
  const deadline = sameEpoch && held.text !== null ? DEADLINE_MS.held : DEADLINE_MS.bare;
  let current = held;
  try {
    // Bytes at hand are used at once: the sidecar is started for the requests to come.
    const patience = held.text === null ? START_DEADLINE_MS : 0;
    const message = { ...asked, origin, began: held.began };
    const send = () => promptLine.ask("/v1/snapshot", message, deadline, held.etag);
    const reply = await withSidecar(log, send, patience);
    current = accepted(reply, session_id, held);
    noteAnswer(log, session_id);
    if (sameEpoch && held.text === null && current.text) {
      log(
        "warn",
        `Memory joined session ${session_id} after it had begun without; ` +
          "this costs one miss of the provider's prompt cache.",
      );
    }
  } catch (error) {
    noteFailure(log, session_id, error);
    current = { ...held, began: last?.etag ?? last?.began };
  }
  keep(heldBySession, session_id, current);
  return current;
}

/** @param {Reply} reply
 * @param {string} session_id
 * @param {Held} held
 * @returns {Held} */
function accepted({ status, headers, text }, session_id, held) {
  const { epoch, first_id, origin } = held;
  const etag = headers.get("etag");
  if (![200, 204, 304].includes(status)) throw refusal(status, text);
  if (headers.get("memory-session") !== session_id) {
    throw new Failure("unusable", "it is for another session");
  }
  if (status === 304 && held.etag !== undefined) return held;
  if (status === 204) return { epoch, first_id, origin, text: "", placement: "message" };
  if (status !== 200) throw new Failure("unusable", "nothing was to be left unchanged");
  if (!text.startsWith(MARKER)) throw new Failure("unusable", "its text lacks the marker");
  if (!/^"[!#-~]+"$/.test(etag ?? "")) throw new Failure("unusable", "it lacks an ETag");
  const placement = headers.get("memory-placement") === "part" ? "part" : "message";
  return { epoch, first_id, origin, etag, text, placement };
}

/** Keeps what is known of a session; of too many, the least recently used is forgotten.
 * @template T
 * @param {Map<string, T>} bySession
 * @param {string} session_id
 * @param {T} known */
function keep(bySession, session_id, known) {
  bySession.delete(session_id);
  bySession.set(session_id, known);
  const [oldest] = bySession.keys();
  if (bySession.size > MAX_SESSIONS) bySession.delete(oldest);
}

/** @type {Map<string, string | null>} the session that started it, for a subagent's; else null */
const parentBySession = new Map();

/** The host says it when it creates a session, and on request for one that it has had from before.
 * @param {import("@opencode-ai/plugin").PluginInput} input
 * @param {string} session_id */
async function parentOf(input, session_id) {
  const known = parentBySession.get(session_id);
  if (known !== undefined) return known;
  try {
    const asked = input.client.session.get({ path: { id: session_id } });
    const data = (await inTime(asked, PARENT_DEADLINE_MS))?.data;
    const parent = data?.parentID ?? null;
    if (data) keep(parentBySession, session_id, parent);
    return parent;
  } catch {
    return null; // it only decides what a subagent is given, and the prompt must not wait for it
  }
}

/** What was promised, or undefined if it takes too long.
 * @template T
 * @param {Promise<T>} promise
 * @param {number} milliseconds */
async function inTime(promise, milliseconds) {
  const ended = new AbortController();
  try {
    return await Promise.race([promise, pause(milliseconds, ended.signal)]);
  } finally {
    ended.abort();
  }
}

/** @param {number} milliseconds
 * @param {AbortSignal} [signal]
 * @returns {Promise<undefined>} */
function pause(milliseconds, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, signal?.aborted ? 0 : milliseconds, undefined);
    signal?.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve(undefined);
    });
  });
}

/** Hints only: the sidecar derives the same from the next request, or from the snapshot's age.
 * @param {Log} log
 * @param {string} type
 * @param {string} session_id */
async function sendEvent(log, type, session_id) {
  if (type === "deleted") heldBySession.delete(session_id);
  try {
    const events = [{ type, session_id }];
    const { status, text } = await sideLine.ask("/v1/events", { events }, EVENT_DEADLINE_MS);
    if (status < 200 || status > 299) throw refusal(status, text);
    noteAnswer(log, session_id);
  } catch (error) {
    noteFailure(log, session_id, error);
  }
  if (type === "deleted") troubles.delete(session_id);
}

// ── Usage ──────────────────────────────────────────────────────────────────────────────────────────────

/** @type {Map<string, true>} the answers that have begun here: those that a fork has copied never did */
const answering = new Map();
/** @type {Map<string, object>} finished steps that no sidecar has taken yet, each once */
const unsentSteps = new Map();
/** @type {Promise<void> | null} */
let sendingSteps = null;

/** One assistant message is one step, and one request to the model.
 * @param {any} info of a message that is complete */
function stepOf(info) {
  const { sessionID, id, time, providerID, modelID, agent, mode, error, summary, tokens, cost } =
    info;
  return {
    session_id: sessionID,
    message_id: id,
    parent_id: parentBySession.get(sessionID) ?? null,
    started_at: time.created / 1000,
    finished_at: time.completed / 1000,
    provider: String(providerID),
    model: String(modelID),
    agent: String(agent ?? mode),
    outcome: error ? (error.name === "MessageAbortedError" ? "aborted" : "failed") : "done",
    compaction: summary === true,
    ...tokensOf(tokens, cost),
  };
}

/** @type {Map<string, { agent?: string, model?: any, created?: number }>} steps of 2.x that have begun, by message */
const begunSteps2 = new Map();

/** @param {any} event
 * @returns {object | undefined} */
function stepOf2({ id, type, created, data }) {
  const { sessionID, assistantMessageID, agent, model, tokens, cost } = data;
  const message_id = String(assistantMessageID ?? id);
  if (type === "session.step.started") keep(begunSteps2, message_id, { agent, model, created });
  const isCompaction = /^session\.compaction\.(ended|failed)$/.test(type);
  if (!isCompaction && !/^session\.step\.(ended|failed)$/.test(type)) return;
  if (isCompaction && !tokens) return;
  const begun = begunSteps2.get(message_id) ?? {};
  const finished = Number.isFinite(created) ? created : Date.now();
  const used = model ?? begun.model;
  return {
    session_id: sessionID,
    message_id,
    parent_id: lineageBySession.get(sessionID)?.parent ?? null,
    started_at: (begun.created ?? finished) / 1000,
    finished_at: finished / 1000,
    provider: String(used?.providerID ?? ""),
    model: String(used?.id ?? used?.modelID ?? ""),
    agent: isCompaction ? "compaction" : String(begun.agent ?? ""),
    outcome: type.endsWith(".failed") ? "failed" : "done",
    compaction: isCompaction,
    ...tokensOf(tokens, cost),
  };
}

/** What the provider has not counted is 0.
 * @param {any} tokens
 * @param {unknown} cost in dollars */
function tokensOf(tokens, cost) {
  const count = (/** @type {unknown} */ value) => Math.max(0, Math.round(Number(value) || 0));
  return {
    input: count(tokens?.input),
    output: count(tokens?.output),
    reasoning: count(tokens?.reasoning),
    cache_read: count(tokens?.cache?.read),
    cache_write: count(tokens?.cache?.write),
    cost: Math.max(0, Number(cost) || 0),
  };
}

/** @param {Log} log
 * @param {{ session_id?: unknown, message_id?: unknown }} step */
function noteStep(log, step) {
  const key = `${step.session_id} ${step.message_id}`;
  unsentSteps.delete(key); // the host says some twice, and the last is right
  unsentSteps.set(key, step);
  const [oldest] = unsentSteps.keys();
  if (unsentSteps.size > MAX_UNSENT_STEPS) unsentSteps.delete(oldest);
  sendSteps(log);
}

/** Sends what there is; what is not taken goes with the next step, or at the latest when the host ends.
 * @param {Log} log
 * @param {number} [patience] in milliseconds
 * @returns {Promise<void>} */
function sendSteps(log, patience = 0) {
  sendingSteps ??= sendBatches(log, patience).finally(() => {
    sendingSteps = null;
  });
  return sendingSteps;
}

/** Before the host ends, which waits for nothing else: a sidecar that is away is started and waited for.
 * @param {Log} log */
async function sendLastSteps(log) {
  await sendSteps(log);
  await sendSteps(log, LAST_STEPS_MS);
}

/** @param {Log} log
 * @param {number} patience in milliseconds */
async function sendBatches(log, patience) {
  while (unsentSteps.size > 0) {
    const batch = [...unsentSteps].slice(0, STEPS_IN_A_BATCH);
    try {
      const steps = batch.map(([, step]) => step);
      const send = () => sideLine.ask("/v1/usage", { steps }, EVENT_DEADLINE_MS);
      const { status, text } = await withSidecar(log, send, patience);
      if (status >= 500) throw refusal(status, text);
      // Refused for good or taken: either way it is done with.
      for (const [key, step] of batch) if (unsentSteps.get(key) === step) unsentSteps.delete(key);
      if (status !== 204) throw refusal(status, text);
    } catch (error) {
      noteFailure(log, "usage", error);
      return;
    }
  }
}

/** The directories of the host's global configuration, in the host's order. */
function configDirectories() {
  const { XDG_CONFIG_HOME, OPENCODE_CONFIG_DIR } = process.env;
  const directories = [
    path.resolve(XDG_CONFIG_HOME || path.join(homedir(), ".config"), "opencode"),
  ];
  if (OPENCODE_CONFIG_DIR) directories.push(path.resolve(OPENCODE_CONFIG_DIR));
  return [...new Set(directories)];
}

// ── The connection ─────────────────────────────────────────────────────────────────────────────────
// HTTP is spoken by hand because in the host's runtime `fetch` sends loopback requests to HTTP_PROXY, and
// `node:http` does not report a request that was given up.

/**
 * @typedef {{ version: string, instance: string }} Instance
 * @typedef {Instance & ({ socket: string } | { port: number, token: string })} Endpoint
 * @typedef {{ socket: net.Socket, endpoint: Endpoint, reused: boolean }} Connection
 * @typedef {{ status: number, headers: Map<string, string>, text: string }} Reply
 * @typedef {{
 *   path: string,
 *   body: Buffer,
 *   etag: string | undefined,
 *   resolve: (reply: Reply) => void,
 *   reject: (failure: Failure) => void,
 *   timer: NodeJS.Timeout,
 * }} Request
 */

/** One persistent connection, with one request at a time on it; the others wait for their turn. */
class Line {
  /** @type {Connection | null} */
  #connection = null;
  /** @type {{ request: Request, read: (chunk: Buffer) => Reply | null, heard: boolean } | null} */
  #inFlight = null;
  /** @type {Request[]} */
  #waiting = [];
  #silentUntil = 0;

  /** Sends one request. The deadline counts from here, whether it waits for its turn or for the reply.
   * @param {string} path
   * @param {object} message
   * @param {number} deadline
   * @param {string} [etag]
   * @returns {Promise<Reply>} */
  ask(path, message, deadline, etag) {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => this.#expire(request), deadline);
      const body = Buffer.from(JSON.stringify(message));
      const request = { path, body, etag, resolve, reject, timer };
      this.#waiting.push(request);
      this.#sendNext();
    });
  }

  /** Unless a request is under way: another directory's instance may have sent it. */
  close() {
    if (!this.#inFlight) this.#disconnect();
  }

  #sendNext() {
    if (this.#inFlight) return;
    const request = this.#waiting.shift();
    if (request) this.#send(request);
  }

  /** @param {Request} request */
  #send(request) {
    this.#inFlight = { request, read: replyReader(), heard: false };
    if (performance.now() < this.#silentUntil) return this.#settle(new Failure("silent"));
    try {
      this.#connection ??= this.#connect();
    } catch (error) {
      return this.#settle(error instanceof Failure ? error : new Failure("away", reasonOf(error)));
    }
    this.#connection.socket.write(requestBytes(request, this.#connection.endpoint));
  }

  /** @param {Reply | Failure} outcome */
  #settle(outcome) {
    if (!this.#inFlight) return;
    const { request } = this.#inFlight;
    this.#inFlight = null;
    clearTimeout(request.timer);
    if (outcome instanceof Failure) request.reject(outcome);
    else request.resolve(outcome);
    this.#sendNext();
  }

  /** @param {Request} request */
  #expire(request) {
    if (this.#inFlight?.request === request) {
      this.#silentUntil = performance.now() + SILENCE_MS;
      this.#disconnect(); // so that a late reply cannot be taken for the next one
      this.#settle(new Failure("silent"));
    } else {
      this.#waiting.splice(this.#waiting.indexOf(request), 1);
      request.reject(new Failure("silent"));
    }
  }

  #connect() {
    const endpoint = readEndpoint();
    if (isOutdated(endpoint)) throw new Failure("outdated", endpoint.version);
    const socket = net.connect(
      "socket" in endpoint ? { path: endpoint.socket } : { host: "127.0.0.1", port: endpoint.port },
    );
    const opened = { socket, endpoint, reused: false };
    socket.unref(); // the deadline of a request under way keeps the process alive, and nothing else
    socket.setNoDelay(true);
    socket.on("data", (chunk) => this.#receive(opened, chunk));
    socket.on("error", (error) => this.#lose(opened, new Failure("away", error.message)));
    for (const event of ["end", "close"]) {
      socket.on(event, () => this.#lose(opened, new Failure("away", "it closed the connection")));
    }
    return opened;
  }

  /** @param {Connection} from
   * @param {Buffer} chunk */
  #receive(from, chunk) {
    if (from !== this.#connection) return;
    if (!this.#inFlight) return this.#disconnect(); // nobody asked
    this.#inFlight.heard = true;
    try {
      const reply = this.#inFlight.read(chunk);
      if (!reply) return;
      checkSender(reply, from.endpoint);
      from.reused = true;
      if (reply.headers.get("connection")?.toLowerCase() === "close") this.#disconnect();
      this.#settle(reply);
    } catch (error) {
      this.#lose(from, new Failure("unusable", reasonOf(error)));
    }
  }

  /** @param {Connection} lost
   * @param {Failure} failure */
  #lose(lost, failure) {
    if (lost !== this.#connection) return;
    this.#disconnect();
    // The sidecar may have closed an idle connection, or been restarted, just as this request left.
    if (lost.reused && this.#inFlight && !this.#inFlight.heard) this.#send(this.#inFlight.request);
    else this.#settle(failure);
  }

  #disconnect() {
    this.#connection?.socket.destroy();
    this.#connection = null;
  }
}

// One each per process, so that a tool call that waits for a lock can't hold up a prompt.
const promptLine = new Line();
const sideLine = new Line();

/** A file of the sidecar's own folder, which is the host's data directory on every platform.
 * @param {string} name */
function sidecarFile(name) {
  const data = process.env.XDG_DATA_HOME || path.join(homedir(), ".local", "share");
  return path.resolve(data, "opencode", "agent-memory", name);
}

/** @returns {Endpoint} */
function readEndpoint() {
  const file = sidecarFile("endpoint.json");
  try {
    const { version, instance, socket, port, token } = JSON.parse(readOwn(file));
    const run = { version: String(version), instance: String(instance) };
    if (typeof socket === "string" && isOwn(lstatSync(socket))) return { ...run, socket };
    if (Number.isInteger(port) && /^[0-9a-f]+$/i.test(token)) return { ...run, port, token };
  } catch {
    // Absent, unreadable, half written or another user's: the sidecar mends them all when it starts.
  }
  throw new Error(`no endpoint in ${file}`);
}

/** What another user made, or could have changed, is not trusted. Windows has no owner numbers.
 * @param {import("node:fs").Stats} status */
function isOwn({ uid, mode }) {
  const user = process.geteuid?.();
  return user === undefined || (uid === user && (mode & 0o022) === 0);
}

/** A regular file of this user's.
 * @param {string} file */
function readOwn(file) {
  const descriptor = openSync(file, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0));
  try {
    const status = fstatSync(descriptor);
    if (!status.isFile() || !isOwn(status)) throw new Error(`${file} is not this user's own`);
    return readFileSync(descriptor, "utf8");
  } finally {
    closeSync(descriptor);
  }
}

/** @param {Request} request
 * @param {Endpoint} endpoint */
function requestBytes({ path, body, etag }, endpoint) {
  const overTcp = "port" in endpoint;
  const lines = [
    `POST ${path} HTTP/1.1`,
    `Host: ${overTcp ? `127.0.0.1:${endpoint.port}` : "localhost"}`,
    `Memory-Protocol: ${PROTOCOL}`,
    "Content-Type: application/json",
    `Content-Length: ${body.length}`,
  ];
  if (overTcp) lines.push(`Authorization: Bearer ${endpoint.token}`);
  if (etag !== undefined) lines.push(`If-None-Match: ${etag}`);
  return Buffer.concat([Buffer.from(lines.join("\r\n") + "\r\n\r\n"), body]);
}

/** A port is free again when its sidecar is gone, and anybody may listen there. The name of a run is told
 * by the endpoint file alone, and to nobody without the token.
 * @param {Reply} reply
 * @param {Endpoint & Instance} endpoint */
function checkSender({ headers }, endpoint) {
  if ("port" in endpoint && headers.get("memory-instance") !== endpoint.instance) {
    throw new Error("it is not from the sidecar that published the endpoint");
  }
}

/** Reads one reply from chunks cut anywhere: null until it is complete, an error if it cannot be one. */
function replyReader() {
  /** @type {ReturnType<typeof parseHead> | null} */
  let head = null;
  /** @type {Buffer[]} */
  let chunks = [];
  let size = 0;

  return (/** @type {Buffer} */ chunk) => {
    chunks.push(chunk);
    size += chunk.length;
    if (!head) {
      const bytes = Buffer.concat(chunks);
      const end = bytes.indexOf("\r\n\r\n");
      if ((end < 0 ? size : end) > MAX_HEAD_BYTES) throw new Error("its head is too large");
      chunks = [bytes];
      if (end < 0) return null;
      head = parseHead(bytes.toString("latin1", 0, end));
      chunks = [bytes.subarray(end + 4)];
      size = chunks[0].length;
    }
    if (size > head.length) throw new Error("it is longer than it says");
    if (size < head.length) return null;
    const { status, headers } = head;
    // One per reply: a decoder that has thrown may keep state. The bytes go on unchanged, BOM included.
    const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
    return { status, headers, text: decoder.decode(Buffer.concat(chunks)) };
  };
}

/** @param {string} head */
function parseHead(head) {
  const [statusLine, ...lines] = head.split("\r\n");
  const status = Number(/^HTTP\/1\.1 (\d{3})( |$)/.exec(statusLine)?.[1]);
  if (!status) throw new Error("it is not HTTP/1.1");
  /** @type {Map<string, string>} */
  const headers = new Map();
  for (const line of lines) {
    const colon = line.indexOf(":");
    headers.set(line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim());
  }
  // A sidecar of another protocol says so in a 501, under its own number.
  if (headers.get("memory-protocol") !== PROTOCOL && status !== 501) {
    throw new Error(`it is not of memory protocol ${PROTOCOL}`);
  }
  if (status === 204 || status === 304) return { status, headers, length: 0 };
  const length = headers.get("content-length") ?? "";
  if (headers.has("transfer-encoding") || !/^\d+$/.test(length)) {
    throw new Error("it does not say its length");
  }
  if (Number(length) > MAX_BODY_BYTES) throw new Error("it is too large");
  return { status, headers, length: Number(length) };
}

// ── Starting the sidecar ───────────────────────────────────────────────────────────────────────────

let startedAt = -Infinity;
let isStarting = false;

/** Sends a request, and where no sidecar can be reached starts one and sends it again, for so long.
 * @param {Log} log
 * @param {() => Promise<Reply>} send
 * @param {number} patience in milliseconds */
async function withSidecar(log, send, patience) {
  const giveUpAt = performance.now() + patience;
  for (;;) {
    try {
      const reply = await send();
      if (isStarting) log("info", "The memory sidecar was not running; it has been started.");
      isStarting = false;
      startedAt = -Infinity; // if it goes again, it is started again
      return reply;
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      if (error.kind === "outdated") {
        await (handingOver ??= handOver(log, error.message));
        continue;
      }
      if (error.kind !== "away" || !startSidecar(log)) throw error;
      if (performance.now() >= giveUpAt) {
        if (patience > 0) isStarting = false; // the next one is not to wait as long again
        throw error;
      }
      await pause(START_POLL_MS);
    }
  }
}

/** Whether a sidecar is starting. Of many that are started at once, by many hosts, one stays.
 * @param {Log} log */
function startSidecar(log) {
  if (performance.now() - startedAt < START_AGAIN_MS) return isStarting;
  const [program, ...args] = readLauncher().command;
  if (!program) return false;
  startedAt = performance.now();
  isStarting = true;
  /** @param {string} reason */
  const fail = (reason) => {
    isStarting = false;
    log(
      "error",
      `The memory sidecar did not start (${reason}); \`opencode-memory start\` says why.`,
    );
  };
  // From the home folder, and detached: it belongs to the user, and outlives this host.
  const options = { cwd: homedir(), detached: true, stdio: /** @type {const} */ ("ignore") };
  const child = spawn(program, args, { ...options, windowsHide: true });
  child.on("error", (error) => fail(error.message));
  child.on("exit", (code, signal) => {
    if (signal)
      startedAt = -Infinity; // it was killed, and the next one need not wait
    else if (isStarting && code !== 0) fail(`it ended with ${code}`);
  });
  child.unref();
  return true;
}

/** What `opencode-memory install` recorded; only a full path is run, never what PATH may find.
 * @returns {{ version: string, command: string[] }} */
function readLauncher() {
  try {
    const { version, command } = JSON.parse(readOwn(sidecarFile("launcher.json")));
    const isCommand = command.every((/** @type {unknown} */ word) => typeof word === "string");
    if (isCommand && path.isAbsolute(command[0])) return { version: String(version), command };
  } catch {
    // not installed by the command, or by an older one
  }
  return { version: "0", command: [] };
}

/** @type {Promise<void> | null} set once in a process's life: what starts may still be the old version */
let handingOver = null;

/** Whether a sidecar of before the last upgrade runs, and the launcher would start a newer one.
 * @param {Instance} running */
function isOutdated({ version }) {
  return !handingOver && isOlder(version, VERSION) && isOlder(version, readLauncher().version);
}

/** By PEP 440: with letters behind its numbers, a version is one of before the release. What is no version
 * is older than none.
 * @param {string} version
 * @param {string} other */
function isOlder(version, other) {
  const [mine, theirs] = [version, other].map((each) => /^(\d+(?:\.\d+)*)(.*)$/.exec(each));
  if (!mine || !theirs) return false;
  const compared = (/** @type {number} */ group) =>
    mine[group].localeCompare(theirs[group], "en", { numeric: true });
  return (compared(1) || Number(!mine[2]) - Number(!theirs[2]) || compared(2)) < 0;
}

/** Asks the older sidecar to finish its requests and end; then none answers, and the new one is started.
 * @param {Log} log
 * @param {string} message */
async function handOver(log, message) {
  await null; // until it is known to be under way, and so not begun again
  log("info", message);
  try {
    const { instance } = readEndpoint();
    // Whatever it replies, and in whatever protocol, it ends or it does not.
    await sideLine
      .ask("/v1/stop", { instance, hand_over: true }, EVENT_DEADLINE_MS)
      .catch(() => {});
    const giveUpAt = performance.now() + EVENT_DEADLINE_MS;
    while (readEndpoint().instance === instance && performance.now() < giveUpAt) {
      await pause(START_POLL_MS);
    }
  } catch {
    // It has withdrawn its endpoint: it is ending.
  }
  for (const line of [promptLine, sideLine]) line.close();
}

// ── Failures and the host's log ────────────────────────────────────────────────────────────────────

const SENTENCES = {
  /** @param {string} reason */
  away: (reason) => `cannot be reached (${reason}); start it with \`opencode-memory start\``,
  silent: () => "did not answer in time; if this lasts, run `opencode-memory restart`",
  /** @param {string} reason */
  unusable: (reason) =>
    `sent a reply that cannot be used: ${reason}; run \`opencode-memory restart\``,
  /** @param {string} reason */
  refused: (reason) => `refused: ${reason}`,
  /** @param {string} reason */
  mismatched: (reason) => `speaks another protocol: ${reason}`,
  /** @param {string} version */
  outdated: (version) => `is still version ${version}; ${VERSION} takes its place`,
};

/** Why the sidecar gave no answer, as a sentence for the host's log. */
class Failure extends Error {
  /** @param {keyof typeof SENTENCES} kind
   * @param {string} [reason] */
  constructor(kind, reason = "") {
    const sentence = `The memory sidecar ${SENTENCES[kind](reason)}`.replace(/\.?$/, ".");
    super(`${sentence} Sessions go on with the memory they have.`);
    this.kind = kind;
  }
}

/** @param {number} status
 * @param {string} text */
function refusal(status, text) {
  const reason = errorMessage(status, text).replace(/\s+/g, " ").slice(0, MAX_REASON_LENGTH);
  return new Failure(status === 501 ? "mismatched" : "refused", reason);
}

/** @param {number} status
 * @param {string} text */
function errorMessage(status, text) {
  try {
    return String(JSON.parse(text).error.message);
  } catch {
    return `HTTP status ${status}`; // not one of the sidecar's own errors
  }
}

/** @type {Map<string, string>} what the log was last told: of the sidecar (""), or of one session */
const troubles = new Map();

/** @param {Log} log
 * @param {string} session_id */
function noteAnswer(log, session_id) {
  const recovered = [troubles.delete(""), troubles.delete(session_id)].includes(true);
  if (recovered) log("info", "The memory sidecar answers again.");
}

/** Told when the kind of trouble changes, not once per request.
 * @param {Log} log
 * @param {string} session_id
 * @param {unknown} error */
function noteFailure(log, session_id, error) {
  const failure = error instanceof Failure ? error : new Failure("unusable", reasonOf(error));
  const { kind, message } = failure;
  const subject = kind === "refused" ? session_id : "";
  if (troubles.get(subject) === kind) return;
  troubles.set(subject, kind);
  const needsTheUser =
    kind === "mismatched" || (kind === "away" && readLauncher().command.length === 0);
  log(needsTheUser ? "error" : "warn", message);
}

let isOtherPluginTold = false;

/** It would inject the same blocks a second time, and other bytes after every edit.
 * @param {Log} log
 * @param {unknown[]} plugins as the host's configuration names them: a package, a URL, or [that, options] */
function warnOfOtherPlugin(log, plugins) {
  const other = plugins
    .map((plugin) => String(Array.isArray(plugin) ? plugin[0] : plugin))
    .find((name) => /(^|[/\\])opencode-agent-memory([@/.\\]|$)/.test(name) && !name.endsWith(FILE));
  if (other === undefined || isOtherPluginTold) return;
  isOtherPluginTold = true;
  log(
    "error",
    `opencode-agent-memory is loaded beside this plugin (${other}), and injects the same memory a second ` +
      "time. Take it out of OpenCode's configuration; its memory blocks stay where they are.",
  );
}

let isToastShown = false;

/** An error is what the user has to act on, so the first one shows in the terminal UI as well. Nothing
 * here is worth waiting for, and the host's client may fail like anything else.
 * @param {import("@opencode-ai/plugin").PluginInput} input
 * @returns {Log} */
function hostLog({ client }) {
  return (level, message) => {
    if (level === "error" && !isToastShown) {
      isToastShown = true;
      const body = { title: "Memory", message, variant: /** @type {const} */ ("error") };
      attempt(() => client.tui.showToast({ body }));
    }
    attempt(() => client.app.log({ body: { service: "opencode-memory", level, message } }));
  };
}

/** @param {() => Promise<unknown>} act */
async function attempt(act) {
  try {
    await act();
  } catch {
    // There is no other place to tell it.
  }
}

/** @param {unknown} error */
function reasonOf(error) {
  return error instanceof Error ? error.message : String(error);
}

export default { id: "opencode-memory", server, setup };
