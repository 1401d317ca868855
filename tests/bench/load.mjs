// Many clients at once, each with one request under way: the sidecar's own protocol on bare sockets.
import net from "node:net";
import { performance } from "node:perf_hooks";
import { obey } from "./commands.mjs";

await obey({
  /** Seconds per request, of so many clients for so long. */
  async load({ address, request, clients, milliseconds }) {
    const size = await once(address, request);
    const sockets = await Promise.all(Array.from({ length: clients }, () => connect(address)));
    const end = performance.now() + milliseconds;
    const started = performance.now();
    const counts = await Promise.all(sockets.map((socket) => ask(socket, request, size, end)));
    const seconds = (performance.now() - started) / 1_000;
    for (const socket of sockets) socket.destroy();
    return seconds / counts.reduce((sum, count) => sum + count, 0);
  },

  /** How many of so many simultaneous clients do not get the reply that one alone gets. */
  async burst({ address, request, clients }) {
    const size = await once(address, request);
    const one = async () => (await once(address, request)) === size;
    const got = await Promise.allSettled(Array.from({ length: clients }, one));
    return got.filter(({ value }) => value !== true).length;
  },
});

function connect(address) {
  return new Promise((resolve, reject) => {
    const socket = net.connect({ path: address });
    socket.on("connect", () => resolve(socket));
    socket.on("error", reject);
  });
}

/** The size of one reply on a connection of its own. */
async function once(address, request) {
  const socket = await connect(address);
  socket.write(request);
  let reply = Buffer.alloc(0);
  for await (const chunk of socket) {
    reply = Buffer.concat([reply, chunk]);
    const head = reply.indexOf("\r\n\r\n") + 4;
    const length = /content-length: (\d+)/i.exec(reply.toString("latin1", 0, head))?.[1];
    if (length && reply.length === head + Number(length)) break;
  }
  socket.destroy();
  if (!reply.toString("latin1", 0, 12).endsWith("200")) throw new Error(reply.toString("latin1"));
  return reply.length;
}

/** Requests one after the other until the end; every reply has this size. */
function ask(socket, request, size, end) {
  return new Promise((resolve, reject) => {
    let count = 0;
    let received = 0;
    socket.on("close", () => reject(new Error("closed under load")));
    socket.on("data", (chunk) => {
      received += chunk.length;
      if (received < size) return;
      received -= size;
      count++;
      if (performance.now() < end) socket.write(request);
      else resolve(count);
    });
    socket.write(request);
  });
}
