// Drives a real `opencode` through a few sessions and leaves what it wrote and what it says.
//
//   node record-sessions.mjs BINARY OUT today|old
//
// OUT/home/data/opencode is its data directory. OUT/shape/<id>.json holds every session as its HTTP API
// shows it, in the form of an export; OUT/export/<id>.json what `opencode export` prints for some of
// them, and with `today` OUT/sanitized/<id>.json what `opencode export --sanitize` prints.
import fs from "node:fs"
import path from "node:path"
import { startModel } from "./scripted-model.mjs"
import { environment, places, prepare, run, startServer } from "./run-opencode.mjs"

const [binary, out, age] = process.argv.slice(2)
const { work } = places(out)
const model = { providerID: "scripted", modelID: "scripted" }
const file = (name) => path.join(work, name)
const say = (text, script) => `${text} [[${script.map((step) => JSON.stringify(step)).join(",")}]]`
const dot = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

async function scenario(call) {
  const start = (body) => call("POST", "/session", body)
  const send = (id, parts, more) => call("POST", `/session/${id}/message`, { model, agent: "build", parts, ...more })
  const prompt = (id, text, more) => send(id, [{ type: "text", text }], more)

  const plain = await start({ title: "plain words" })
  await prompt(plain.id, say("hello", [{ reasoning: "I think.", text: "Hi there." }]))
  await prompt(plain.id, "and again", { system: "Be brief." })

  const tools = await start({ title: "tools" })
  await prompt(tools.id, say("write", [
    { text: "Writing.", tools: [{ name: "write", args: { filePath: file("new.txt"), content: "made\n" } }] },
    { tools: [{ name: "bash", args: { command: "echo out; echo err >&2", description: "says two words" } },
              { name: "read", args: { filePath: file("absent.txt") } }] },
    { tools: [{ name: "todowrite", args: { todos: [
      { id: "1", content: "first", status: "completed", priority: "high" },
      { id: "2", content: "second", status: "pending", priority: "low" }] } }] },
    { text: "Done." }]))
  await prompt(tools.id, say("edit", [
    { tools: [{ name: "edit", args: { filePath: file("notes.txt"), oldString: "two", newString: "three" } }] },
    { text: "Edited." }]))

  const failing = await start({ title: "failing" })
  await prompt(failing.id, say("fail", [{ status: 400, error: "the model says no" }]))

  const parent = await start({ title: "parent" })
  await prompt(parent.id, say("delegate", [
    { tools: [{ name: "task", args: { description: "look", prompt: "look around", subagent_type: "general" } }] },
    { text: "Back." }]))

  const mixed = await start({ title: "attachments" })
  await send(mixed.id, [
    { type: "text", text: say("see", [{ text: "Seen." }]) },
    { type: "file", mime: "text/plain", filename: "notes.txt", url: `file://${file("notes.txt")}`,
      source: { type: "file", path: "notes.txt", text: { value: "@notes.txt", start: 0, end: 10 } } },
    { type: "file", mime: "image/png", filename: "dot.png", url: dot },
    { type: "agent", name: "general", source: { value: "@general", start: 4, end: 12 } }])
  await call("PATCH", `/session/${mixed.id}`, { time: { archived: 1700000000000 } })

  const forked = await call("POST", `/session/${tools.id}/fork`, {})
  const messages = await call("GET", `/session/${forked.id}/message`)
  const newest = messages.filter((message) => message.info.role === "user").at(-1).info.id
  await call("POST", `/session/${forked.id}/revert`, { messageID: newest })

  if (age === "today")
    await start({ title: "described", metadata: { key: { nested: [1, 2.5, null] } },
                  permission: [{ permission: "bash", pattern: "rm *", action: "deny" }] })
  // Titles and summaries are written after the answer.
  await new Promise((quiet) => setTimeout(quiet, 800))
  return { plain: [tools.id], sanitized: age === "today" ? [tools.id, mixed.id, forked.id] : [] }
}

function save(dir, id, text) {
  fs.mkdirSync(path.join(out, dir), { recursive: true })
  fs.writeFileSync(path.join(out, dir, `${id}.json`), text)
}

async function shapes(call) {
  for (const { id } of await call("GET", "/session?limit=100")) {
    const info = await call("GET", `/session/${id}`)
    const messages = await call("GET", `/session/${id}/message`)
    save("shape", id, JSON.stringify({ info, messages }))
  }
}

prepare(out)
const scripted = await startModel()
const env = environment(out, scripted.url)
const { call, stop } = await startServer(binary, out, env)
try {
  const some = await scenario(call)
  await shapes(call)
  for (const id of some.plain) save("export", id, await run(binary, out, env, ["export", id]))
  for (const id of some.sanitized) save("sanitized", id, await run(binary, out, env, ["export", id, "--sanitize"]))
} finally {
  await stop()
  scripted.close()
}
