// What every driver does: a command per line in, its answer per line out.
import readline from "node:readline";

/** @param {Record<string, (args: any) => any>} commands */
export async function obey(commands) {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const { command, ...args } = JSON.parse(line);
    let answer;
    try {
      answer = await commands[command](args);
    } catch (error) {
      answer = { failed: String(error?.stack ?? error) };
    }
    process.stdout.write(JSON.stringify(answer) + "\n");
  }
}
