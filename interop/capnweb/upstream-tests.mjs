// Runs capnweb's own tests against a server outside: node upstream-tests.mjs CHECKOUT HOST:PORT
//   CHECKOUT  a checkout of github.com/cloudflare/capnweb, with vitest 3 and ws installed in it
//   HOST:PORT a server whose `/` offers their TestTarget, such as this crate's example
// Their "HTTP requests" and "WebSockets" tests connect to it as they are. The tests whose harness serves a
// plain TestTarget in memory are run too, with the harness connected to the server; those among them that
// look into the transport in memory are left out, by name.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { spawnSync } from "node:child_process";

const [checkout, host] = process.argv.slice(2);
const at = (name) => join(checkout, name);
const IN_MEMORY = "    this.client = new RpcSession<T>(this.clientTransport);\n\n" +
  "    this.server = new RpcSession(this.serverTransport, target, serverOptions);\n";
const OUTSIDE = `
    if ((target as any).constructor === TestTarget && !serverOptions) {
      outside = true;
      let socket: any = new WebSocket("ws://" + inject("testServerHost"));
      let early: string[] = [], inbox: string[] = [], waiting: any[] = [], dead: any;
      socket.onopen = () => { early.forEach((text) => socket.send(text)); };
      socket.onmessage = (event: any) => (reached.add(expect.getState().currentTestName), waiting.length ? waiting.shift()[0](event.data) : inbox.push(event.data));
      socket.onclose = (event: any) => {
        dead = new Error(\`closed \${event.code} \${event.reason}\`);
        waiting.forEach((one) => one[1](dead));
      };
      this.client = new RpcSession<T>({
        async send(text: string) { socket.readyState === 0 ? early.push(text) : socket.send(text); },
        receive: () => inbox.length ? Promise.resolve(inbox.shift()!)
          : dead ? Promise.reject(dead) : new Promise<string>((...both) => waiting.push(both)),
        abort() { socket.close(); },
      } as any);
      // Read from the server before the check, below.
      this.server = { held: undefined, getStats() { return this.held; }, close: () => socket.close() } as any;
    } else {
${IN_MEMORY}    }
`;
// The server's own tables. It has one export for each session, its main object, and makes an import of the
// client's main object only when it calls it; npm counts both. Their tests of sockets leave a session open, so
// what was held before a test is not its own. What was given back last may still be on its way, so the server
// is asked again for a while; a leak stays.
const HELD = `
const reached = new Set<any>();
afterAll(() => console.log("tests answered by the server, besides its own:\\n" + [...reached].sort().join("\\n") + "\\n" + reached.size));
async function readStats() {
  let stats = await (await fetch("http://" + inject("testServerHost") + "/stats")).json();
  return { imports: stats.imports, exports: stats.exports - stats.sessions, bytes: stats.heldBytes };
}
let before: any;
beforeEach(async () => { before = await readStats(); });
async function heldByServer() {
  let held: any;
  for (let tries = 0; tries < 500; tries++) {
    held = await readStats();
    if (JSON.stringify(held) === JSON.stringify(before)) break;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  expect(held.bytes, "bytes held by the server").toBe(before.bytes);
  return { imports: held.imports - before.imports + 1, exports: held.exports - before.exports + 1 };
}

`;
const LOOK_INSIDE = [
  "pipelines through a pending promise without pulling the resolution", "keeps an adopted RpcPromise lazy",
  "stays lazy when a deferred promise is resolved with dup()",
  "preserves brokenness of a bare stub it was constructed from",
  "delivers the unwrapped abort reason to onRpcBroken (not the payload wrapper)",
];

let text = readFileSync(at("__tests__/index.test.ts"), "utf8");
const replace = (from, to) => {
  if (!text.includes(from)) throw new Error(`their tests have changed; not found: ${from}`);
  text = text.replace(from, to);
};
replace(IN_MEMORY, OUTSIDE);
// A network takes longer than a microtask.
replace("async function pumpMicrotasks() {",
  "let outside = false;\nasync function pumpMicrotasks() {\n  if (outside) await new Promise((r) => setTimeout(r, 40));");
replace("      this.checkAllDisposed();\n    } catch", `
      if ("held" in this.server) (this.server as any).held = await heldByServer();
      this.checkAllDisposed();
    } catch`);
replace("      expect.soft(true, message).toBe(false);\n    }", `      expect.soft(true, message).toBe(false);
    } finally {
      outside = false;
      if ("held" in this.server) (this.server as any).close();
    }`);
replace("class TestHarness<", `${HELD}class TestHarness<`);
replace("import { expect, it,", "import { afterAll, beforeEach, expect, it,");
for (const name of LOOK_INSIDE) replace(`it("${name}"`, `it.skip("${name}"`);
writeFileSync(at("__tests__/outside.test.ts"), text);
writeFileSync(at("__tests__/outside-host.ts"),
  `export const setup = (project: any) => project.provide("testServerHost", ${JSON.stringify(host)});\n`);
// What newer Nodes have by themselves.
writeFileSync(at("__tests__/outside-node.ts"), `import { WebSocket } from "ws";
(globalThis as any).WebSocket ??= WebSocket;
(globalThis as any).navigator ??= { userAgent: "Node.js" };\n`);
writeFileSync(at("vitest.outside.config.ts"), `export default { esbuild: { target: "es2022" }, test: {
  include: ["__tests__/outside.test.ts"], globalSetup: ["__tests__/outside-host.ts"],
  setupFiles: ["__tests__/outside-node.ts"] } };\n`);
const ran = spawnSync("npx", ["vitest", "run", "--config", "vitest.outside.config.ts"], { cwd: checkout, stdio: "inherit" });
process.exit(ran.status ?? 1);
