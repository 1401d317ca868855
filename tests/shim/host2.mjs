// OpenCode 2 as its documents and sources describe it, as far as a plugin can see it: locations, sessions, the four
// kinds of model request with their hooks, events, tools. It never ran; a real 2.x may differ. JSON lines in, one
// JSON line out for each.
import "./hurry.mjs";
import readline from "node:readline";

const locations = new Map(); // name -> { directory, hooks, streams, tools, cleanups, subscriptions }
const sessions = new Map(); // id -> { id, location, rows, parentID, fork, agent, model }
let count = 0;
let now = 0;

const newId = (kind) => `${kind}_${String(++count).padStart(12, "0")}AbCdEfGhIjKlMn`;
const text = (role, value) => ({
  id: newId("msg"),
  role,
  content: [{ type: "text", text: value }],
});

function emit(type, data, { to = [...locations.values()], location } = {}) {
  const { created = ++now, ...rest } = data ?? {};
  const event = { id: newId("evt"), created, type, data: data && rest };
  if (location) event.location = { directory: location };
  for (const { streams } of to) for (const push of streams) push(event);
}

function contextOf(location, given) {
  const context = {
    location: {
      directory: location.directory,
      project: { id: "p", canonical: location.directory },
    },
    options: {},
    session: {
      async hook(kind, callback) {
        if (given.without?.includes(kind)) throw new Error(`no hook ${kind}`);
        if (given.silent) await new Promise(() => {});
        location.hooks[kind].push(callback);
      },
      async get({ sessionID }) {
        location.asked.push(sessionID);
        if (given.get === "never") return new Promise(() => {});
        if (given.get === "fails") throw new Error("no such session");
        const { id, parentID, fork } = sessions.get(sessionID);
        return { id, parentID, ...(given.get === "no-fork" ? {} : { fork }) };
      },
    },
    tool: {
      async transform(callback) {
        if (given.silent) await new Promise(() => {});
        callback({ add: (tool) => location.tools.set(tool.name, tool) });
      },
    },
    event: {
      subscribe({ signal }) {
        location.subscriptions++;
        return stream(location, signal, location.subscriptions > 1 ? given.later : given.events);
      },
    },
  };
  return context;
}

async function* stream(location, signal, fault) {
  if (fault === "throws") throw new Error("no events");
  if (fault === "none") return;
  const waiting = [];
  let wake = () => {};
  const push = (event) => {
    waiting.push(event);
    wake();
  };
  location.streams.add(push);
  if (fault !== "deaf") signal.addEventListener("abort", () => wake());
  try {
    while (!signal.aborted) {
      while (waiting.length > 0) yield waiting.shift();
      await new Promise((resolve) => (wake = resolve));
    }
  } finally {
    location.streams.delete(push);
  }
}

/** Each kind's hooks run one after another; a rejection fails the request. */
async function request(session, kind, messages) {
  const location = locations.get(session.location);
  const event = {
    sessionID: session.id,
    agent: session.agent,
    model: session.model,
    system: [{ type: "text", text: `You are ${session.agent}.` }],
    messages: structuredClone(messages),
    tools: {},
    options: {},
  };
  for (const callback of location.hooks[kind]) await callback(event);
  for (const message of event.messages) message.content.map((part) => part.type); // as its core does
  return { kind, messages: event.messages };
}

/** From now on the history begins with a summary. */
async function checkpoint(session, { native = false, events = 1 }) {
  const summary = `<conversation-checkpoint><summary>S${++count}</summary></conversation-checkpoint>`;
  const content = [{ type: "compaction", encrypted: `c${count}` }];
  session.rows = native
    ? [{ id: newId("msg"), role: "assistant", content }]
    : [text("user", summary)];
  for (let n = 0; n < events; n++) await commands.compacted({ session: session.id });
}

const others = {
  prunes: (event) => {
    for (const message of event.messages)
      if (message.role === "assistant") message.content = [{ type: "text", text: "[pruned]" }];
  },
  appends: (event) => {
    for (const message of event.messages)
      message.content = message.content.map((part, n) => ({
        ...part,
        metadata: { id: `part-${n}` },
      }));
  },
  prepends: (event) => {
    const first = event.messages.find((message) => message.role === "user");
    first.content = [
      { type: "text", text: `Note. ${first.content[0].text}` },
      ...first.content.slice(1),
    ];
  },
  inserts: (event) =>
    event.messages.unshift(text("user", "From another plugin.")) && (event.messages[0].id = "x"),
  replaces: (event) => (event.messages = event.messages.map((message) => ({ ...message }))),
  freezes: (event) => Object.freeze(event.messages),
};

const commands = {
  /** Loads the plugin for a directory. */
  async setup({ location: name, directory, url, before = [], after = [], beside, ...given }) {
    const location = (beside && locations.get(name)) || {
      directory,
      streams: new Set(),
      tools: new Map(),
      hooks: { context: [], compaction: [], generate: [], title: [] },
      cleanups: [],
      asked: [],
      subscriptions: 0,
    };
    locations.set(name, location);
    const add = (list) => {
      for (const other of list)
        for (const kind of ["context", "compaction", "generate"])
          location.hooks[kind].push(async (event) => void others[other](event));
    };
    add(before);
    const { default: plugin } = await import(url);
    location.cleanups.push(await plugin.setup(contextOf(location, given)));
    add(after);
    await new Promise((resolve) => setTimeout(resolve)); // its subscription begins
    const hooked = Object.entries(location.hooks).filter(([, list]) => list.length > 0);
    return {
      id: plugin.id,
      hooks: hooked.map(([kind]) => kind),
      copies: location.hooks.context.length,
      tools: [...location.tools.keys()],
    };
  },

  /** Unloads it, as for a reload or at the end. */
  async unload({ location: name }) {
    for (const cleanup of locations.get(name).cleanups.splice(0)) await cleanup?.();
    return { listeners: locations.get(name).streams.size };
  },

  /** How many listen to events now: they are live only. */
  async listeners({ location: name }) {
    return { listeners: locations.get(name).streams.size };
  },

  /** The sessions that the plugin asked for. */
  async asked({ location: name }) {
    return { asked: locations.get(name).asked };
  },

  /** A session that another process of the host has made, or gone on with. */
  async adopt({ session }) {
    sessions.set(session.id, session);
    return {};
  },

  async stored({ session: id }) {
    return { session: sessions.get(id) };
  },

  async create({ location, parent, announced = true }) {
    const session = { id: newId("ses"), location, rows: [], agent: "build", model: { id: "m" } };
    if (parent) session.parentID = parent;
    sessions.set(session.id, session);
    if (announced) emit("session.created", { sessionID: session.id, parentID: parent });
    await settle();
    return { session: session.id };
  },

  /** One turn: a request for each step. */
  async prompt({ session: id, text: value, steps = 1 }) {
    const session = sessions.get(id);
    session.rows.push(text("user", value));
    const requests = [];
    for (let step = 0; step < steps; step++) {
      requests.push(await request(session, "context", session.rows));
      session.rows.push(text("assistant", `Answer ${step}.`));
    }
    return { requests };
  },

  async generate({ session: id }) {
    const session = sessions.get(id);
    return {
      requests: [await request(session, "generate", [...session.rows, text("user", "Ping.")])],
    };
  },

  async title({ session: id }) {
    return { requests: [await request(sessions.get(id), "title", sessions.get(id).rows)] };
  },

  /** The hook runs before success is known. The event may be lost, late or doubled. */
  async compact({ session: id, fails = false, native = false, events = 1 }) {
    const session = sessions.get(id);
    const requests = [await request(session, "compaction", session.rows)];
    if (fails) emit("session.compaction.failed", { sessionID: id, reason: "manual", error: "no" });
    else await checkpoint(session, { native, events });
    await settle();
    return { requests };
  },

  /** One step for which the context is too small: it is compacted, after so many failures, and sent again. The
   * event comes when the step is over. */
  async overflow({ session: id, text: value, failures = 0 }) {
    const session = sessions.get(id);
    const prompt = text("user", value);
    const requests = [await request(session, "context", [...session.rows, prompt])];
    for (let failure = 0; failure <= failures; failure++) {
      requests.push(await request(session, "compaction", session.rows));
      if (failure < failures) emit("session.compaction.failed", { sessionID: id, error: "no" });
    }
    await checkpoint(session, { events: 0 });
    session.rows.push(prompt);
    const again = await request(session, "context", session.rows);
    await commands.compacted({ session: id });
    return { requests, again: [again] };
  },

  async compacted({ session: id }) {
    emit("session.compaction.ended", { sessionID: id, reason: "manual", text: "S", recent: "" });
    await settle();
    return {};
  },

  /** A copy with new ids; `through` so many rows. */
  async fork({ session: id, through, announced = true }) {
    const source = sessions.get(id);
    const rows = source.rows.slice(0, through ?? source.rows.length);
    const fork = { sessionID: id, boundary: { type: "through", messageID: rows.at(-1)?.id } };
    const copy = { ...source, id: newId("ses"), parentID: undefined, fork };
    copy.rows = rows.map((row) => ({ ...structuredClone(row), id: newId("msg") }));
    sessions.set(copy.id, copy);
    if (announced)
      emit("session.forked", { sessionID: copy.id, parentID: id, boundary: fork.boundary });
    await settle();
    return { session: copy.id };
  },

  async revert({ session: id, to }) {
    const session = sessions.get(id);
    session.undone = session.rows;
    session.rows = session.rows.slice(0, to);
    emit("session.revert.committed", { sessionID: id, to });
    return {};
  },

  async unrevert({ session: id }) {
    const session = sessions.get(id);
    session.rows = session.undone;
    return {};
  },

  async erase({ session: id, row }) {
    sessions.get(id).rows.splice(row, 1);
    return {};
  },

  async remove({ session: id }) {
    emit("session.deleted", { sessionID: id });
    await settle();
    return {};
  },

  async choose({ session: id, ...what }) {
    Object.assign(sessions.get(id), what);
    return {};
  },

  async together({ sessions: ids }) {
    const calls = ids.map((session) => commands.prompt({ session, text: "At once." }));
    return { turns: (await Promise.all(calls)).map(({ requests }) => requests) };
  },

  async tool({ location, name, args, session }) {
    const tool = locations.get(location).tools.get(name);
    const answer = await tool.execute(args, {
      sessionID: session,
      messageID: "msg_1",
      agent: "build",
    });
    return { answer, input: tool.input, options: tool.options };
  },

  /** Whatever reaches a hook, it neither throws nor hangs. */
  async call({ location, event, frozen }) {
    const [callback] = locations.get(location).hooks.context;
    const given = event === "undefined" ? undefined : event;
    const messages = given?.messages;
    await callback(frozen ? Object.freeze(given) : given);
    return { event: given ?? null, own: messages ?? null };
  },

  async emit({ type, data, location }) {
    emit(type, data, { location });
    await settle();
    return {};
  },
};

/** Events are live and asynchronous; whoever listens has had them after a few turns of the loop. */
const settle = () => new Promise((resolve) => setTimeout(resolve, 20));

for await (const line of readline.createInterface({ input: process.stdin })) {
  const { command, ...args } = JSON.parse(line);
  let answer;
  try {
    answer = await commands[command](args);
  } catch (error) {
    answer = { broken: String(error.stack) };
  }
  process.stdout.write(JSON.stringify(answer) + "\n");
}
