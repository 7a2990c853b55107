// The npm package as server: node server.mjs VERSION. Prints its address and runs until stdin ends.
import http from "node:http";
import { WebSocket, WebSocketServer } from "ws";

globalThis.WebSocket ??= WebSocket;
const version = process.argv[2];
const { newWebSocketRpcSession, nodeHttpBatchRpcResponse, RpcTarget } = await import(`capnweb-${version}`);
let disposed = 0;

class Counter extends RpcTarget {
  #at;
  constructor(at) { super(); this.#at = at; }
  increment(by) { return (this.#at += by ?? 1); }
  get value() { return this.#at; }
  [Symbol.dispose]() { disposed++; }
}
class Main extends RpcTarget {
  #kept;
  echo(value) { return value; }
  greet(name) { return `hi ${name}`; }
  user() { return { name: "ann", ids: [1, 2, 3] }; }
  ids() { return [1, 2, 3]; }
  name(id) { return `n${id}`; }
  makeCounter(at) { return new Counter(at); }
  incrementCounter(counter, by) { return counter.increment(by); }
  async withCallback(callback) { return { got: await callback("tick") }; }
  keep(callback) { this.#kept = callback.dup(); return true; }
  drop() { this.#kept[Symbol.dispose](); return null; }
  disposed() { return disposed; }
  never() { return new Promise(() => {}); }
  failWithProps() { throw Object.assign(new RangeError("bad range"), { code: "E_RANGE", details: { a: [1] } }); }
  values() {
    return [undefined, null, NaN, Infinity, 12n, new Date(5), new Uint8Array([1, 2, 3]), [], { a: [] }, new TypeError("t")];
  }
  readable() { return new ReadableStream({ start(c) { c.enqueue("a"); c.enqueue(new Uint8Array([1, 2, 3])); c.close(); } }); }
  async consume(stream) {
    const chunks = [];
    for await (const chunk of stream) chunks.push(chunk);
    return chunks;
  }
  async writeTo(stream) {
    const writer = stream.getWriter();
    await writer.write("q");
    await writer.write(2);
    await writer.close();
    return "written";
  }
  async blobText(blob) { return `${blob.type} ${await blob.text()}`; }
  hangUp() { setTimeout(() => sockets.forEach((socket) => socket.terminate()), 10); return new Promise(() => {}); }
}

const sockets = new Set();
const server = http.createServer((request, response) => nodeHttpBatchRpcResponse(request, response, new Main()));
new WebSocketServer({ server }).on("connection", (socket) => {
  sockets.add(socket);
  newWebSocketRpcSession(socket, new Main());
});
server.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${server.address().port}/`));
process.stdin.resume().on("end", () => process.exit(0));
process.on("unhandledRejection", () => {});
