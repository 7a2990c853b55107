// The npm package under load, for `turnstone-bench capnweb`.
//   node bench.mjs server          prints its address and serves until stdin ends
//   node bench.mjs client          reads lines "MODE URL MILLIS", answers each with calls and seconds
// The modes are those of the Rust load generator, written the same way: a call is greet("bob").
import http from "node:http";
import { WebSocket, WebSocketServer } from "ws";
import { createInterface } from "node:readline";
import { newHttpBatchRpcSession, newWebSocketRpcSession, nodeHttpBatchRpcResponse, RpcTarget } from "capnweb-0.12";

globalThis.WebSocket ??= WebSocket;
const IN_FLIGHT = 64, BATCH = 64;

class Main extends RpcTarget {
  greet(name) { return `hi ${name}`; }
}

function serve() {
  const server = http.createServer((request, response) => nodeHttpBatchRpcResponse(request, response, new Main()));
  server.on("connection", (socket) => socket.setNoDelay(true));
  new WebSocketServer({ server, perMessageDeflate: false })
    .on("connection", (socket) => newWebSocketRpcSession(socket, new Main()));
  server.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${server.address().port}/`));
  process.stdin.resume().on("end", () => process.exit(0));
}

async function checked(promise) {
  const text = await promise;
  if (text !== "hi bob") throw new Error(`answered with ${text}`);
}

// `workers` loops on one session, each with one call under way.
async function socket(url, workers, millis) {
  const main = newWebSocketRpcSession(url.replace("http", "ws"));
  await checked(main.greet("bob"));
  const begun = performance.now();
  let calls = 0;
  const loop = async () => {
    while (performance.now() - begun < millis) {
      await checked(main.greet("bob"));
      calls++;
    }
  };
  await Promise.all(Array.from({ length: workers }, loop));
  const seconds = (performance.now() - begun) / 1000;
  main[Symbol.dispose]();
  return `${calls} ${seconds}`;
}

async function batches(url, millis) {
  const begun = performance.now();
  let calls = 0;
  while (performance.now() - begun < millis) {
    const main = newHttpBatchRpcSession(url);
    await Promise.all(Array.from({ length: BATCH }, () => checked(main.greet("bob"))));
    calls += BATCH;
  }
  return `${calls} ${(performance.now() - begun) / 1000}`;
}

async function drive() {
  for await (const line of createInterface({ input: process.stdin })) {
    const [mode, url, millis] = line.split(" ");
    const run = { sequential: () => socket(url, 1, millis), flight: () => socket(url, IN_FLIGHT, millis),
      batch: () => batches(url, millis) }[mode];
    console.log(await run());
  }
  process.exit(0);
}

await (process.argv[2] === "server" ? serve() : drive());
