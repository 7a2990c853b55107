// Terminals as OpenCode's web client uses them: the SDK for requests and a WebSocket for input and output, on
// `turnstone serve` and on OpenCode itself.
//
//   bun pty.mjs TURNSTONE OPENCODE OUT
//
// Prints {same, different}: the labels of steps with equal results, and both results of the others.
import path from "node:path"
import { createOpencodeClient } from "@opencode-ai/sdk/v2"
import { prepare, start } from "./servers.mjs"

const [turnstone, opencode, out] = process.argv.slice(2)
const PASSWORD = "secret"

/** Replaces what no two servers share. */
function normalised(value, names) {
  let text = JSON.stringify(value ?? null)
  for (const [name, replacement] of names) text = text.replaceAll(name, replacement)
  return JSON.parse(text.replace(/"pid":\d+/g, '"pid":1').replace(/"ticket":"[^"]+"/g, '"ticket":"T"').replace(/Terminal \w{4}/g, "Terminal ID"))
}

/** One WebSocket: output as text, and the position that binary frames carry. */
function connect(server, id, { cursor = 0, ticket, route = "/pty" } = {}) {
  const url = new URL(`${server.url.replace("http", "ws")}${route}/${id}/connect`)
  url.searchParams.set(route === "/pty" ? "directory" : "location[directory]", server.work)
  url.searchParams.set("cursor", String(cursor))
  if (ticket) url.searchParams.set("ticket", ticket)
  const socket = new WebSocket(url)
  socket.binaryType = "arraybuffer"
  const seen = { text: "", cursors: [], closed: undefined }
  const waiting = new Set()
  const changed = () => waiting.forEach((check) => check())
  socket.addEventListener("message", ({ data }) => {
    if (typeof data === "string") seen.text += data
    else seen.cursors.push(JSON.parse(new TextDecoder().decode(new Uint8Array(data).subarray(1))).cursor)
    changed()
  })
  socket.addEventListener("close", ({ code }) => ((seen.closed = code), changed()))
  const until = (what, holds) => new Promise((done, failed) => {
    const late = setTimeout(() => failed(new Error(`${what}: ${JSON.stringify(seen)}`)), 60000)
    const check = () => holds(seen) && (clearTimeout(late), waiting.delete(check), done(seen))
    waiting.add(check)
    check()
  })
  return { socket, seen, until }
}

async function steps(server) {
  const authorization = `Basic ${btoa(`opencode:${PASSWORD}`)}`
  const client = createOpencodeClient({ baseUrl: server.url, directory: server.work, headers: { authorization } })
  const names = [[server.work, "DIRECTORY"]], results = {}
  const record = (label, value) => (results[label] = normalised(value, names))
  const call = async (label, answering) => {
    const { data, error, response } = await answering
    record(label, { status: response.status, body: data ?? error })
    return data
  }
  const heard = [], stop = new AbortController()
  const { stream } = await client.event.subscribe({}, { signal: stop.signal })
  const listening = (async () => {
    for await (const { type, properties } of stream) if (type.startsWith("pty.")) heard.push({ type, properties })
  })().catch(() => {})

  const made = await client.pty.create({ command: "/bin/bash", title: "web" })
  names.push([made.data.id, "FIRST"])
  record("create", { status: made.response.status, ...made.data })
  const { id } = made.data
  await call("list", client.pty.list())
  await call("get", client.pty.get({ ptyID: id }))
  await call("get unknown", client.pty.get({ ptyID: "pty_unknown" }))
  await call("update", client.pty.update({ ptyID: id, title: "renamed", size: { rows: 33, cols: 111 } }))
  await call("update bad size", client.pty.update({ ptyID: id, size: { rows: 0, cols: 1 } }))
  const refused = await client.pty.connectToken({ ptyID: id })
  record("token without header", { status: refused.response.status, body: refused.error })
  const token = (headers = { "x-opencode-ticket": "1" }) => client.pty.connectToken({ ptyID: id }, { headers })
  const issued = await call("token", token())

  const first = connect(server, id, { ticket: issued.ticket })
  await first.until("the position", ({ cursors }) => cursors.length)
  first.socket.send("stty size; printf 'ä😀\\n'; echo e''nd\r")
  await first.until("the output", ({ text }) => text.includes("\nend\r\n"))
  record("size", first.seen.text.includes("33 111\r\n"))
  record("text", first.seen.text.includes("ä😀\r\n"))
  // The client counts what it was sent; a second connection from there gets nothing twice.
  const position = first.seen.text.length
  const second = connect(server, id, { cursor: position, ticket: (await token()).data.ticket })
  await second.until("the position", ({ cursors }) => cursors.length)
  record("nothing twice", second.seen.text.includes("end"))
  record("position", second.seen.cursors[0] - second.seen.text.length === position)
  const used = connect(server, id, { ticket: issued.ticket })
  await used.until("the refusal", ({ closed }) => closed !== undefined)
  record("used ticket", used.seen.text === "" && used.seen.cursors.length === 0)
  second.socket.send("exit 5\r")
  record("closed", [(await first.until("the end", ({ closed }) => closed)).closed, (await second.until("the end", ({ closed }) => closed)).closed])
  await call("get ended", client.pty.get({ ptyID: id }))
  await call("list ended", client.pty.list())

  const other = await client.v2.pty.create({ location: { directory: server.work }, command: "/bin/cat" })
  const kept = other.data.data.id
  names.push([kept, "SECOND"])
  record("api create", { status: other.response.status, data: other.data.data })
  const apiToken = await client.v2.pty.connectToken({ ptyID: kept, location: { directory: server.work } }, { headers: { "x-opencode-ticket": "1" } })
  const third = connect(server, kept, { route: "/api/pty", ticket: apiToken.data.data.ticket })
  await third.until("the position", ({ cursors }) => cursors.length)
  third.socket.send("mirror\r")
  await third.until("the echo", ({ text }) => text.includes("mirror\r\nmirror\r\n"))
  third.socket.send("\u0004")
  record("api closed", (await third.until("the end", ({ closed }) => closed)).closed)
  const data = async (label, answering) => {
    const { data, error, response } = await answering
    record(label, { status: response.status, body: data?.data ?? error ?? null })
  }
  await data("api get ended", client.v2.pty.get({ ptyID: kept, location: { directory: server.work } }))
  await data("api remove", client.v2.pty.remove({ ptyID: kept, location: { directory: server.work } }))
  await data("api get removed", client.v2.pty.get({ ptyID: kept, location: { directory: server.work } }))
  for (let tries = 0; tries < 600 && !heard.some(({ type }) => type === "pty.deleted"); tries++) await new Promise((later) => setTimeout(later, 50))
  record("events", heard)
  stop.abort()
  await listening
  return results
}

const results = []
for (const [name, program] of [["turnstone", turnstone], ["opencode", opencode]]) {
  const server = await start(program, prepare(path.join(out, `pty-${name}`)), { env: { OPENCODE_SERVER_PASSWORD: PASSWORD } })
  try {
    results.push(await steps(server))
  } finally {
    await server.stop()
  }
}
const [ours, theirs] = results
const labels = Object.keys(ours), isSame = (label) => JSON.stringify(sorted(ours[label])) === JSON.stringify(sorted(theirs[label]))
function sorted(value) {
  if (Array.isArray(value)) return value.map(sorted)
  if (value === null || typeof value !== "object") return value
  return Object.fromEntries(Object.entries(value).sort().map(([key, inner]) => [key, sorted(inner)]))
}
console.log(JSON.stringify({
  same: labels.filter(isSame),
  different: Object.fromEntries(labels.filter((label) => !isSame(label)).map((label) => [label, { ours: ours[label], theirs: theirs[label] }])),
}))
process.exit(0)
