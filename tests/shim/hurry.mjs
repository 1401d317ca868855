// With HURRY, the shim's deadlines pass so many times as fast, and the times it measures are its own.
import { performance } from "node:perf_hooks";

const hurry = Number(process.env.HURRY ?? 1);
const [realTimer, realNow] = [setTimeout, performance.now.bind(performance)];
globalThis.setTimeout = (call, ms, ...rest) => realTimer(call, ms / hurry, ...rest);
performance.now = () => realNow() * hurry;
