// Runs the shim for a test: JSON lines in, one JSON line out for each. Every command names the plugin
// instance that it is for, so that several copies and several directories can live in one process.
import "./hurry.mjs";
import readline from "node:readline";
import { performance } from "node:perf_hooks";

const instances = new Map();
let finished = 0; // orders the ends of calls that run together

const commands = {
  /** Loads the shim by URL (a query makes it a second copy) and starts an instance of it. */
  async load({ instance, url, directory, client = "working", parents }) {
    const module = await import(url);
    const logs = [];
    const log = {
      working: async ({ body }) => logs.push(body),
      throwing: () => {
        throw new Error("the host's logger is broken");
      },
      rejecting: async () => {
        throw new Error("the host's logger is broken");
      },
    }[client];
    const asked = [];
    const get = ({ path: { id } }) => {
      asked.push(id);
      if (parents === "never") return new Promise(() => {});
      return Promise.resolve(id in parents ? { data: { id, parentID: parents[id] } } : {});
    };
    const toasts = [];
    const showToast = client === "working" ? async ({ body }) => toasts.push(body) : log;
    const tui = { showToast };
    const host = { app: { log }, tui, session: parents && { get } };
    const hooks = await module.default.server({ directory, client: host });
    instances.set(instance, { hooks, logs, toasts, asked });
    return { exports: Object.keys(module), id: module.default.id, hooks: Object.keys(hooks) };
  },

  /** Calls a hook the way the host does, and tells what became of its output. */
  async hook({ instance, name, input = {}, output = {}, freeze = false, times = 1 }) {
    const { hooks } = instances.get(instance);
    if (freeze) Object.freeze(output.messages);
    const list = output.messages;
    const started = performance.now();
    let threw = null;
    try {
      for (let i = 0; i < times; i++) {
        if (i > 0) list.shift();
        await hooks[name](input, output);
      }
    } catch (error) {
      threw = String(error);
    }
    const elapsed = performance.now() - started;
    return { threw, elapsed, finished: ++finished, messages: list };
  },

  /** Calls several hooks, or tools, at the same time. */
  async together({ calls }) {
    return Promise.all(calls.map(({ command = "hook", ...call }) => commands[command](call)));
  },

  /** Calls a tool the way the host does. The user who is asked answers with `consent`. */
  async tool({ instance, name, args, messages, consent = "yes" }) {
    const asked = [];
    const ask = async (question) => {
      asked.push(question);
      if (consent !== "yes") throw new Error("The user rejected permission to use this tool.");
    };
    const context = { sessionID: "ses_1", messageID: "msg_step", messages, ask };
    const started = performance.now();
    let outcome;
    try {
      const { hooks } = instances.get(instance);
      outcome = { result: await hooks.tool[name].execute(args, context) };
    } catch (error) {
      outcome = { threw: error.message };
    }
    return { ...outcome, asked, elapsed: performance.now() - started, finished: ++finished };
  },

  /** The tools as the host hands them to the model. */
  async tools({ instance }) {
    const { hooks } = instances.get(instance);
    const definitions = {};
    for (const [name, { description, args }] of Object.entries(hooks.tool)) {
      const output = { jsonSchema: { type: "object", properties: args } };
      await hooks["tool.definition"]({ toolID: name }, output);
      definitions[name] = { description, args, ...output };
    }
    const foreign = { jsonSchema: "untouched" };
    await hooks["tool.definition"]({ toolID: "bash" }, foreign);
    return { definitions, foreign };
  },

  /** The same history twice through the hook, the first inserted message edited by "another plugin". */
  async edited({ instance, first, second }) {
    const { hooks } = instances.get(instance);
    const transform = hooks["experimental.chat.messages.transform"];
    await transform({}, { messages: first });
    first[0].parts.unshift({ type: "text", text: "BOOT" });
    first[0].parts.at(-1).text += "edited";
    first[0].info.model.modelID = "edited";
    await transform({}, { messages: second });
    return { first, second };
  },

  /** The host's own message objects, after a hook has had them in its list. */
  async owned({ instance, messages }) {
    const { hooks } = instances.get(instance);
    await hooks["experimental.chat.messages.transform"]({}, { messages: [...messages] });
    return { messages };
  },

  async setup({ url, context }) {
    const module = await import(url);
    await module.default.setup(context);
    return {};
  },

  /** What the terminal UI was to show. */
  async toasts({ instance }) {
    return { toasts: instances.get(instance).toasts };
  },

  /** The sessions that the host was asked for. */
  async asked({ instance }) {
    return { asked: instances.get(instance).asked };
  },

  async logs({ instance }) {
    return { logs: instances.get(instance).logs };
  },
};

// When the input ends nothing here keeps the process alive: whether it ends is up to the shim.
for await (const line of readline.createInterface({ input: process.stdin })) {
  const { command, ...rest } = JSON.parse(line);
  let answer;
  try {
    answer = await commands[command](rest);
  } catch (error) {
    answer = { broken: String(error?.stack ?? error) };
  }
  process.stdout.write(JSON.stringify(answer) + "\n");
}
