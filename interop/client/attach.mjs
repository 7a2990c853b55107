// What `opencode run --attach` asks of a server, step by step, by the SDK under whichever runtime runs this script: the
// program itself is one executable with Bun inside, and there is none for Node.js.
//
//   node attach.mjs TURNSTONE OPENCODE OUT      or      bun attach.mjs TURNSTONE OPENCODE OUT
//
// Prints {runtime, parts, output, shell, heard, made}: the parts of the answer, what its command and a shell command
// printed, the types of the events until the session is idle, and the file that the command wrote.
import fs from "node:fs"
import path from "node:path"
import { createOpencodeClient } from "@opencode-ai/sdk/v2"
import { startRunner } from "./runner.mjs"
import { modelOf, prepare, start } from "./servers.mjs"

const [turnstone, opencode, out] = process.argv.slice(2)
const runtime = process.versions.bun ? "bun" : "node"
const { startModel } = await modelOf(opencode)
const model = await startModel(), places = prepare(path.join(out, `attach-${runtime}`), model.url)
const server = await start(turnstone, places)
const runner = startRunner({ url: server.url, directory: places.work, model: model.url })
const must = ({ data, error, response }) => {
  if (error) throw new Error(`${response?.status}: ${JSON.stringify(error)}`)
  return data
}
try {
  const client = createOpencodeClient({ baseUrl: server.url, directory: places.work })
  const permission = ["question", "plan_enter", "plan_exit"].map((name) => ({ permission: name, pattern: "*", action: "deny" }))
  const session = must(await client.session.create({ permission }))
  must(await client.config.get())
  const stop = new AbortController(), heard = new Set()
  const { stream } = await client.event.subscribe({}, { signal: stop.signal })
  const idle = (async () => {
    for await (const { type } of stream) {
      if (type !== "server.heartbeat") heard.add(type)
      if (type === "session.idle") return
    }
    throw new Error("the stream ended before the session was idle")
  })()
  const command = "echo from bash; printf 'by attach\\n' > made.txt"
  const steps = [{ tools: [{ name: "bash", args: { command, description: "says it" } }] }, { text: "Ran." }]
  const text = `run [[${steps.map((step) => JSON.stringify(step)).join(",")}]]`
  must(await client.session.prompt({ sessionID: session.id, agent: "build", parts: [{ type: "text", text }] }))
  await idle
  stop.abort()
  const messages = must(await client.session.messages({ sessionID: session.id }))
  const parts = messages.filter(({ info }) => info.role === "assistant").flatMap((message) => message.parts)
  const output = parts.filter(({ type }) => type === "tool").map(({ state }) => state.output ?? state.error)
  const made = fs.readFileSync(path.join(places.work, "made.txt"), "utf8")
  const ran = must(await client.session.shell({ sessionID: session.id, agent: "build", command: "echo from shell" }))
  const shown = must(await client.session.message({ sessionID: session.id, messageID: (ran.info ?? ran).id }))
  const shell = shown.parts.filter(({ type }) => type === "tool").map(({ state }) => state.output)
  console.log(JSON.stringify({ runtime, parts: parts.map(({ type }) => type), output, shell, heard: [...heard].sort(), made }))
} finally {
  await runner.close()
  await server.stop()
  model.close()
}
process.exit(0)
