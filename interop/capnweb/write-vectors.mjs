// Writes the golden vectors of crates/capnweb/tests/vectors from the npm package itself:
//   npm ci && node write-vectors.mjs ../../crates/capnweb/tests/vectors
// Data only: what capnweb 0.12.0 sends, and what it refuses.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { RpcSession, RpcTarget, deserialize, serialize } from "capnweb-0.12";

const out = process.argv[2];
const lines = (name, list) => writeFileSync(join(out, name), list.join("\n") + "\n");

// Values without capabilities, as serialize() prints them.
const error = Object.assign(new RangeError("bad range"), { code: "E_RANGE", details: { a: [1] } });
const cause = new Error("outer", { cause: new TypeError("inner") });
const bytes = new Uint8Array([1, 2, 3, 255, 61]);
const buffer = new Uint8Array(16).fill(7).buffer;
const values = [
  null, true, false, 0, -0, 1, -1, 0.1, 123.456, 1e20, 1e21, 1.5e-7, 5e-324, 2 ** 53 - 1, -(2 ** 53) + 1,
  Number.MAX_VALUE, Infinity, -Infinity, NaN, "", "text", "\u0000\u001f\"\\\b\f\n\r\t/", "ünïcödé 😀 \u2028", undefined,
  [], [[]], [1, [2, [3]]], [undefined, null], {}, { a: 1, b: { c: [true] } }, { "": 0, " ": 1 },
  0n, 12n, -123456789012345678901234567890n, new Date(0), new Date(1757214689123), new Date(-1), new Date(NaN),
  new Uint8Array(), bytes, new Uint8Array([1]), new Uint8Array([1, 61]), buffer, new DataView(buffer),
  new Int8Array(buffer), new Uint8ClampedArray(buffer), new Int16Array(buffer), new Uint16Array(buffer),
  new Int32Array(buffer), new Uint32Array(buffer), new BigInt64Array(buffer), new BigUint64Array(buffer),
  new Float32Array(buffer), new Float64Array(buffer), new Error("plain"), new TypeError(""), error, cause,
  new AggregateError([new Error("one"), 2], "many"), new URL("https://example.com/a?b=c#d"), new Headers(),
  new Headers([["accept", "text/html"], ["x-one", "1"], ["x-one", "2"]]), new Request("https://example.com/"),
  new Request("https://example.com/", { method: "DELETE", headers: { a: "b" }, redirect: "manual" }),
  new Response(null), new Response(null, { status: 404, statusText: "no", headers: { a: "b" } }),
];
lines("values.txt", values.map((value) => serialize(value)));

// What deserialize() makes of hostile or unusual texts: "+" and the text printed again, or "-".
const odd = [
  "[]", "[1,2]", '["zzz",1]', "[null]", "[{}]", '["undefined"]', '["undefined",1]', '["inf",1]', '["nan"]',
  '["bigint"]', '["bigint",1]', '["bigint","12x"]', '["bigint","007"]', '["bigint","-5"]',
  `["bigint","${"9".repeat(16384)}"]`, `["bigint","${"9".repeat(16385)}"]`, `["bigint","-${"9".repeat(16384)}"]`,
  '["date"]', '["date","x"]', '["date",null]', '["date",5,"extra"]', '["bytes"]', '["bytes",1]', '["bytes","AQ=="]',
  '["bytes","AQ"]', '["bytes","AQID","Nope"]', '["bytes","AQID","Int16Array"]', '["bytes","AQI","Int16Array"]',
  '["bytes","AQID","Uint8Array"]', '["bytes","AQID",5]', '["error"]', '["error","Error"]', '["error",1,"x"]',
  '["error","Error","m"]', '["error","Error","m",null,5]', '["error","Error","m",null,[[1]]]', '["url"]', '["url",1]',
  '["url","https://example.com/"]', '["url","https://example.com/",1]', '["headers"]', '["headers",{}]',
  '["headers",[["a","b"]]]', '["headers",[["a"]]]', '["request","https://example.com/"]',
  '["request","https://example.com/",null]', '["request","https://example.com/",{"body":["nan"],"method":"POST"}]',
  '["response",5,{}]', '["response",null,{}]', '["response","text",{}]', '["response",null]', '["blob","a/b"]',
  '["blob","a/b","text"]', '["remap",0,[],[]]', '["export","x"]', '["promise",true]', '["import",true]',
  '["pipeline",0,[true]]', '["pipeline"]', '["import",0,"x"]', '["readable"]', "{}", '{"a":[]}', '{"a":[[]]}',
  '{"a":1,"a":2}', "1e400", '"\\ud800"', "nul", "{", '{"a":1,}', "'a'", "01", "NaN", "[[[[[[[]]]]]]]", '[["push"]]',
  "[[".repeat(255) + "]]".repeat(255), "[[".repeat(256) + "]]".repeat(256),
  '{"a":'.repeat(255) + "1" + "}".repeat(255), '{"a":'.repeat(256) + "1" + "}".repeat(256),
];
const verdict = (text) => {
  try {
    deserialize(text);
    return `+${text}`;
  } catch {
    return `-${text}`;
  }
};
lines("value-validity.txt", odd.map(verdict));

// Sessions: every message that two npm peers send each other.
class Counter extends RpcTarget {
  constructor(at) { super(); this.at = at; }
  increment(by = 1) { return (this.at += by); }
  get value() { return this.at; }
}
class Main extends RpcTarget {
  echo(value) { return value; }
  greet(name) { return `hi ${name}`; }
  user() { return { name: "ann", ids: [1, 2, 3] }; }
  ids() { return [1, 2, 3]; }
  name(id) { return `n${id}`; }
  makeCounter(at) { return new Counter(at); }
  twice(at) { const counter = new Counter(at); return [counter, counter]; }
  async withCallback(callback) { return { got: await callback("tick") }; }
  keep(callback) { this.kept = callback.dup(); return true; }
  drop() { this.kept[Symbol.dispose](); return null; }
  fail(kind) { throw kind === "props" ? error : new TypeError("plain"); }
  readable() {
    return new ReadableStream({ start(c) { c.enqueue("a"); c.enqueue(bytes); c.close(); } });
  }
  async consume(stream) {
    const chunks = [];
    for await (const chunk of stream) chunks.push(chunk);
    return chunks;
  }
  async writeTo(stream) {
    const writer = stream.getWriter();
    await writer.write("q");
    await writer.close();
    return "written";
  }
  async request(request) { return `${request.method} ${request.url} ${await request.text()}`; }
  response() { return new Response("body", { status: 201, headers: { a: "b" } }); }
  blob() { return new Blob(["hello"], { type: "text/plain" }); }
}
class Transport {
  inbox = []; waiting = null;
  constructor(log) { this.log = log; }
  send(text) { this.log.push(text); this.peer.deliver(text); }
  deliver(text) { if (this.waiting) { this.waiting(text); this.waiting = null; } else this.inbox.push(text); }
  receive() { return this.inbox.length ? Promise.resolve(this.inbox.shift()) : new Promise((r) => (this.waiting = r)); }
  abort() {}
}
const log = [];
const [left, right] = [new Transport(log), new Transport(log)];
left.peer = right;
right.peer = left;
const keep = [new RpcSession(right, new Main())];
const main = new RpcSession(left, undefined).getRemoteMain();
const quiet = (promise) => promise.catch((reason) => reason);
await main.greet("bob");
await main.echo([1, "two", { three: 3n }]);
await main.greet(main.user().name);
await main.ids().map((id) => ({ i: id, n: main.name(id) }));
await quiet(main.ids().map((id) => [id, main.ids().map((inner) => inner)]));
const counter = await main.makeCounter(10);
await counter.increment(5);
await counter.value;
await quiet(main.echo(counter));
counter[Symbol.dispose]();
await main.withCallback((tick) => `${tick}!`);
await main.keep(() => 1);
await main.drop();
for (const one of await main.twice(1)) one[Symbol.dispose]();
await quiet(main.fail("props"));
await quiet(main.fail("plain"));
await quiet(main.nosuch());
await quiet(main.fail("plain").deeper.still());
for await (const chunk of await main.readable()) keep.push(chunk);
await main.consume(new ReadableStream({ start(c) { c.enqueue(1); c.enqueue("two"); c.close(); } }));
await quiet(main.consume(new ReadableStream({ start(c) { c.enqueue(1); }, pull(c) { c.error(error); } })));
const writable = new WritableStream({ write() {} });
await main.writeTo(writable);
await main.request(new Request("https://example.com/", { method: "POST", body: "content" }));
await (await main.response()).text();
await (await main.blob()).text();
await main.echo(new Blob(["blob"]));
right.deliver("[]");
await new Promise((resolve) => setTimeout(resolve, 20));
lines("messages.txt", log);
process.exit(0);
