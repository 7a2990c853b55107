// The npm package as a client that leaves: node disposing-client.mjs VERSION URL. One call, then the main stub is disposed of.
import { WebSocket } from "ws";

globalThis.WebSocket ??= WebSocket;
const [version, url] = process.argv.slice(2);
const { newWebSocketRpcSession } = await import(`capnweb-${version}`);
const socket = new WebSocket(url);
const closed = new Promise((resolve) => socket.once("close", resolve));
await new Promise((resolve) => socket.once("open", resolve));
const main = newWebSocketRpcSession(socket);
await main.greet("x");
main[Symbol.dispose]();
await closed;
