// Runs the shim for a test: JSON lines in, one JSON line out for each. Every command names the plugin
// instance that it is for, so that several copies and several directories can live in one process.
import readline from "node:readline";
import { performance } from "node:perf_hooks";

const instances = new Map();
let finished = 0; // orders the ends of calls that run together

const commands = {
  /** Loads the shim by URL (a query makes it a second copy) and starts an instance of it. */
  async load({ instance, url, directory, client = "working" }) {
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
    const hooks = await module.default.server({ directory, client: { app: { log } } });
    instances.set(instance, { hooks, logs });
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

  /** Calls several hooks at the same time. */
  async together({ calls }) {
    return Promise.all(calls.map(commands.hook));
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

  async setup({ url, context }) {
    const module = await import(url);
    await module.default.setup(context);
    return {};
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
