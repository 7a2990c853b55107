// The npm package as client: node client.mjs VERSION URL. Fails with the first thing that is wrong.
import assert from "node:assert/strict";
import { WebSocket } from "ws";

globalThis.WebSocket ??= WebSocket;
const [version, url] = process.argv.slice(2);
const capnweb = await import(`capnweb-${version}`);
const { newHttpBatchRpcSession, newWebSocketRpcSession, RpcTarget } = capnweb;
const minor = Number(version.split(".")[1]);
const streams = minor >= 5, props = minor >= 8, typed = minor >= 11;
const failure = (promise) => promise.then((value) => assert.fail(`resolved to ${value}`), (error) => error);
const batch = () => newHttpBatchRpcSession(url);

async function batches() {
  {
    const main = batch();
    const [greeting, count] = await Promise.all([main.greet(main.user().name), main.makeCounter(4).increment(2)]);
    assert.equal(greeting, "hi ann");
    assert.equal(count, 6);
  }
  {
    const main = batch();
    const [coded, missing, echoed] = await Promise.all([
      failure(main.failWithProps()), failure(main.nosuch()), main.echo({ a: [1, [2]], u: undefined })]);
    assert.ok(coded instanceof RangeError);
    if (props) assert.equal(coded.code, "E_RANGE");
    assert.equal(missing.message, "'nosuch' is not a function.");
    assert.deepEqual(echoed, { a: [1, [2]], u: undefined });
  }
  {
    const main = batch();
    const names = await main.ids().map((id) => ({ i: id, n: main.name(id) }));
    assert.deepEqual(names, [{ i: 1, n: "n1" }, { i: 2, n: "n2" }, { i: 3, n: "n3" }]);
  }
  {
    const main = batch();
    const start = Date.now();
    const [told, refused] = await Promise.all([main.notify(() => {}), failure(main.withCallback(() => 1))]);
    assert.equal(told, "ok");
    assert.match(refused.message, /cannot wait for the peer/);
    assert.ok(Date.now() - start < 5000, "refused at once");
  }
  const wrong = await fetch(url, { method: "POST", body: '["pull",7]\n\r\n' });
  assert.equal(wrong.status, 200);
  assert.match(await wrong.text(), /^\["abort",\["error","Error","no such export ID: 7"\]\]$/);
  assert.equal((await fetch(url, { method: "PUT" })).status, 405);
  assert.equal(await (await fetch(url, { method: "POST", body: "" })).text(), "");
}

async function values(main) {
  const list = [null, undefined, true, 0, -1.5, 2 ** 53 - 1, Infinity, -Infinity, "", "ünï 😀", [], [[]], {},
    { a: { b: [1] } }, 12345678901234567890n, new Date(1757214689123), new Uint8Array([1, 2, 255])];
  if (props) list.push(new Date(NaN));
  if (typed) list.push(new Int16Array([1, -2]), new Float64Array([0.5]), new Uint8Array(3).buffer, new URL("https://example.com/a"));
  for (const value of list) assert.deepEqual(plain(await main.echo(value)), plain(value));
  assert.ok(Number.isNaN(await main.echo(NaN)));
  const error = await main.echo(Object.assign(new TypeError("mine"), { code: "C" }));
  assert.ok(error instanceof TypeError && error.message === "mine");
  if (props) assert.equal(error.code, "C");
  if (streams) {
    const headers = await main.echo(new Headers({ a: "b" }));
    assert.equal(headers.get("a"), "b");
    const request = await main.echo(new Request("https://example.com/", { method: "POST", body: "text" }));
    assert.equal(await request.text(), "text");
    const response = await main.echo(new Response("body", { status: 201 }));
    assert.equal(response.status, 201);
    assert.equal(await response.text(), "body");
  }
}
// Buffer or Uint8Array: the versions differ.
const plain = (value) =>
  value instanceof Uint8Array ? [...value] : value instanceof Date ? `${value.getTime()}` : value;

async function flows(main) {
  const read = [];
  for await (const chunk of await main.readable()) read.push(plain(chunk));
  assert.deepEqual(read, ["a", [1, 2, 3]]);
  const source = new ReadableStream({ start(c) { for (let i = 0; i < 500; i++) c.enqueue("x".repeat(1000)); c.close(); } });
  assert.equal((await main.consume(source)).length, 500);
  const broken = new ReadableStream({ start(c) { c.enqueue(1); }, pull(c) { c.error(new Error("torn")); } });
  assert.match((await failure(main.consume(broken))).message, /torn/);
  const written = [];
  const sink = new WritableStream({ write(chunk) { written.push(chunk); } });
  assert.equal(await main.writeTo(sink), "written");
  assert.deepEqual(written, ["q", 2]);
  if (props) {
    const blob = await main.echoBlob(new Blob(["hello ", "world"], { type: "text/plain" }));
    assert.equal(await blob.text(), "hello world");
    assert.equal(blob.type, "text/plain");
  }
}

async function objects(main) {
  const counter = await main.makeCounter(10);
  assert.equal(await counter.increment(5), 15);
  assert.equal(await counter.value, 15);
  assert.equal(await main.incrementCounter(counter, 2), 17);
  const made = main.makeCounter(1);
  assert.equal(await main.incrementCounter(made), 2);
  made[Symbol.dispose]();
  counter[Symbol.dispose]();
  for (const one of await main.twice(1)) one[Symbol.dispose]();
  assert.deepEqual(await main.withCallback((text) => `${text}!`), { got: "tick!" });
  class Square extends RpcTarget { square(i) { return i * i; } }
  assert.equal((await main.callSquare(new Square(), 5)).result, 25);
  assert.equal((await main.callFunction((x) => x + 1, 41)).result, 42);
  assert.match((await failure(main.callFunction(() => { throw new RangeError("back"); }, 1))).message, /back/);
  let released = 0;
  await main.keep(Object.assign(() => 1, { [Symbol.dispose]() { released++; } }));
  assert.equal(released, 0);
  await main.drop();
  await main.greet("x");
  assert.equal(released, 1);
  const leak = await failure(main.leak());
  assert.equal(leak.message, "internal error");
  if (props) assert.match(leak.incident, /^\d+-\d+$/);
  assert.match((await failure(main.greet(5))).message, /argument 1: expected a string, got a number/);
  const ids = main.ids();
  const nested = await ids.map((id) => ({ id, all: main.makeCounter(id).increment(1) }));
  ids[Symbol.dispose]();
  assert.deepEqual(nested, [{ id: 1, all: 2 }, { id: 2, all: 3 }, { id: 3, all: 4 }]);
}

async function accounting(main) {
  const before = await main.disposed();
  for (let round = 0; round < 100; round++) {
    await Promise.all(Array.from({ length: 100 }, async (_, i) => {
      const counter = await main.makeCounter(i);
      assert.equal(await counter.increment(1), i + 1);
      counter[Symbol.dispose]();
    }));
  }
  await main.greet("x");
  assert.equal((await main.disposed()) - before, 10000);
}

// The server's own tables: one export, the main object, for each session, and nothing else. What was given
// back travels after the answers, so the server is asked until it has arrived; a leak stays.
async function nothingHeld(sessions) {
  let held;
  for (let tries = 0; tries < 6000; tries++) {
    held = await (await fetch(new URL("stats", url))).json();
    if (held.sessions === sessions && held.exports === sessions && !held.imports && !held.heldBytes) return;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  assert.deepEqual(held, { sessions, exports: sessions, imports: 0, heldBytes: 0, outgoingBytes: 0 }, "leaked");
}

async function disconnect() {
  const socket = new WebSocket(url.replace("http", "ws"));
  await new Promise((resolve) => socket.once("open", resolve));
  const main = newWebSocketRpcSession(socket);
  const pending = failure(main.never());
  await main.greet("x");
  socket.terminate();
  assert.match((await pending).message, /Peer closed WebSocket: 1006|WebSocket connection failed/);
}

async function close() {
  const socket = new WebSocket(url.replace("http", "ws"));
  await new Promise((resolve) => socket.once("open", resolve));
  const closed = new Promise((resolve) => socket.once("close", (code, reason) => resolve([code, String(reason)])));
  socket.send('["pull",7]');
  assert.deepEqual(await closed, [3000, "no such export ID: 7"]);
}

// One character more than npm itself takes: in one frame, and in several.
async function tooLarge() {
  for (const parts of [1, 4]) {
    const socket = new WebSocket(url.replace("http", "ws"));
    socket.on("error", () => {});
    await new Promise((resolve) => socket.once("open", resolve));
    const closed = new Promise((resolve) => socket.once("close", (code, reason) => resolve([code, String(reason)])));
    const text = "x".repeat((32 * 1024 * 1024) / parts + 1);
    for (let part = 1; part <= parts; part++) socket.send(text, { fin: part === parts });
    assert.deepEqual(await closed, [1009, "Incoming message exceeds maximum size of 33554432 bytes."]);
  }
}

// npm limits neither the calls under way nor those of a batch.
async function many(main) {
  const calls = (main) => Promise.all(Array.from({ length: 12000 }, (_, i) => main.greet(`${i}`)));
  assert.equal((await calls(main))[11999], "hi 11999");
  assert.equal((await calls(batch()))[11999], "hi 11999");
}

await batches();
await nothingHeld(0);
const main = newWebSocketRpcSession(url.replace("http", "ws"));
for (const part of [values, objects, ...(streams ? [flows] : []), accounting, many]) {
  await part(main);
  await nothingHeld(1);
}
await disconnect();
await close();
await tooLarge();
await nothingHeld(1);
assert.equal(await main.greet("still here"), "hi still here");
main[Symbol.dispose]();
console.log("ok");
process.exit(0);
