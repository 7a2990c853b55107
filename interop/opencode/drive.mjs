// Drives a real `opencode` through a few sessions and leaves what it wrote.
//
//   node drive.mjs BINARY OUT [today|old]
//
// OUT gets its own home (OUT/home, data in OUT/home/data/opencode), a git worktree (OUT/work) and, per session,
// OUT/export/<id>.json; with `today` also OUT/sanitized/<id>.json. Only loopback is used.
import { execFileSync, spawn } from "node:child_process"
import fs from "node:fs"
import path from "node:path"
import { startModel } from "./model.mjs"

const [binary, out, age = "today"] = process.argv.slice(2)
const home = path.join(out, "home")
const work = path.join(out, "work")
const password = "interop"

function environment(model) {
  const config = {
    $schema: "https://opencode.ai/config.json",
    autoupdate: false, share: "manual", model: "scripted/scripted", small_model: "scripted/scripted",
    permission: { edit: "allow", bash: "allow", webfetch: "deny", external_directory: "deny" },
    provider: { scripted: {
      npm: "@ai-sdk/openai-compatible", name: "Scripted",
      options: { baseURL: model.url, apiKey: "none" },
      models: { scripted: {
        name: "Scripted", tool_call: true, reasoning: true, attachment: true,
        cost: { input: 1, output: 2, cache_read: 0.1, cache_write: 0 },
        limit: { context: 200000, output: 8000 },
      } },
    } },
  }
  return {
    PATH: process.env.PATH, HOME: home, TMPDIR: path.join(home, "tmp"), LANG: "C.UTF-8",
    XDG_DATA_HOME: path.join(home, "data"), XDG_CONFIG_HOME: path.join(home, "config"),
    XDG_STATE_HOME: path.join(home, "state"), XDG_CACHE_HOME: path.join(home, "cache"),
    OPENCODE_CONFIG_CONTENT: JSON.stringify(config), OPENCODE_SERVER_PASSWORD: password,
    OPENCODE_DISABLE_AUTOUPDATE: "1", OPENCODE_DISABLE_MODELS_FETCH: "1", OPENCODE_DISABLE_LSP_DOWNLOAD: "1",
    OPENCODE_DISABLE_DEFAULT_PLUGINS: "1", OPENCODE_DISABLE_SHARE: "1", OPENCODE_PURE: "1",
  }
}

function prepare() {
  for (const dir of ["data", "config", "state", "cache", "tmp"]) fs.mkdirSync(path.join(home, dir), { recursive: true })
  fs.mkdirSync(work, { recursive: true })
  const git = (...args) => execFileSync("git", args, {
    cwd: work, stdio: "ignore",
    env: { PATH: process.env.PATH, HOME: home, GIT_CONFIG_NOSYSTEM: "1" },
  })
  fs.writeFileSync(path.join(work, "notes.txt"), "one\ntwo\n")
  git("init", "-q")
  git("add", ".")
  git("-c", "user.name=t", "-c", "user.email=t@example.invalid", "commit", "-qm", "first")
}

async function startServer(env) {
  const child = spawn(binary, ["serve", "--port", "0", "--hostname", "127.0.0.1"], { cwd: work, env })
  let log = ""
  const url = await new Promise((ready, failed) => {
    const late = setTimeout(() => failed(new Error(`opencode did not start: ${log}`)), 30000)
    child.on("exit", (code) => failed(new Error(`opencode ended with ${code}: ${log}`)))
    for (const stream of [child.stdout, child.stderr])
      stream.on("data", (chunk) => {
        log += chunk
        const found = /http:\/\/127\.0\.0\.1:\d+/.exec(log)
        if (found) (clearTimeout(late), ready(found[0]))
      })
  })
  const headers = {
    "content-type": "application/json",
    authorization: `Basic ${Buffer.from(`opencode:${password}`).toString("base64")}`,
    "x-opencode-directory": work,
  }
  async function call(method, route, body) {
    const answer = await fetch(url + route, { method, headers, body: body && JSON.stringify(body) })
    const text = await answer.text()
    if (!answer.ok) throw new Error(`${method} ${route}: ${answer.status} ${text.slice(0, 400)}`)
    return text ? JSON.parse(text) : undefined
  }
  // Killed, not asked: a real program dies like this too, and the write-ahead log stays behind.
  const stop = () => new Promise((gone) => (child.removeAllListeners("exit"), child.on("exit", gone), child.kill("SIGKILL")))
  return { call, stop }
}

const model = { providerID: "scripted", modelID: "scripted" }
const file = (name) => path.join(work, name)
const say = (text, script) => `${text} [[${script.map((step) => JSON.stringify(step)).join(",")}]]`

async function scenario({ call }) {
  const prompt = (id, text, more = {}) =>
    call("POST", `/session/${id}/message`, { model, agent: "build", parts: [{ type: "text", text }], ...more })

  const plain = await call("POST", "/session", { title: "plain words" })
  await prompt(plain.id, say("hello", [{ reasoning: "I think.", text: "Hi there." }]))
  await prompt(plain.id, "and again", { system: "Be brief." })

  const tools = await call("POST", "/session", { title: "tools" })
  await prompt(tools.id, say("write", [
    { text: "Writing.", tools: [{ name: "write", args: { filePath: file("new.txt"), content: "made\n" } }] },
    { tools: [{ name: "bash", args: { command: "echo out; echo err >&2", description: "says two words" } },
              { name: "read", args: { filePath: file("absent.txt") } }] },
    { tools: [{ name: "todowrite", args: { todos: [
      { id: "1", content: "first", status: "completed", priority: "high" },
      { id: "2", content: "second", status: "pending", priority: "low" }] } }] },
    { text: "Done." }]))
  const first = await prompt(tools.id, say("edit", [
    { tools: [{ name: "edit", args: { filePath: file("notes.txt"), oldString: "two", newString: "three" } }] },
    { text: "Edited." }]))

  const failing = await call("POST", "/session", { title: "failing" })
  await prompt(failing.id, say("fail", [{ status: 400, error: "the model says no" }]))

  const parent = await call("POST", "/session", { title: "parent" })
  await prompt(parent.id, say("delegate", [
    { tools: [{ name: "task", args: { description: "look", prompt: "look around", subagent_type: "general" } }] },
    { text: "Back." }]))

  const mixed = await call("POST", "/session", { title: "attachments" })
  await call("POST", `/session/${mixed.id}/message`, { model, agent: "build", parts: [
    { type: "text", text: say("see", [{ text: "Seen." }]) },
    { type: "file", mime: "text/plain", filename: "notes.txt", url: `file://${file("notes.txt")}`,
      source: { type: "file", path: "notes.txt", text: { value: "@notes.txt", start: 0, end: 10 } } },
    { type: "file", mime: "image/png", filename: "dot.png", url: "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==" },
    { type: "agent", name: "general", source: { value: "@general", start: 4, end: 12 } }] })
  await call("PATCH", `/session/${mixed.id}`, { time: { archived: 1700000000000 } })

  const forked = await call("POST", `/session/${tools.id}/fork`, {})
  const messages = await call("GET", `/session/${forked.id}/message`)
  const target = messages.filter((message) => message.info.role === "user").at(-1).info.id
  await call("POST", `/session/${forked.id}/revert`, { messageID: target })

  if (age === "today") {
    await call("POST", "/session", {
      title: "described", metadata: { key: { nested: [1, 2.5, null] } },
      permission: [{ permission: "bash", pattern: "rm *", action: "deny" }] })
  }
  await new Promise((quiet) => setTimeout(quiet, 700))
  void first
}

function exports(env) {
  const db = path.join(home, "data/opencode/opencode.db")
  const list = JSON.parse(run(env, ["session", "list", "--format", "json", "-n", "100"]) || "[]").map((s) => s.id)
  for (const dir of ["export", "sanitized"]) fs.mkdirSync(path.join(out, dir), { recursive: true })
  void db
  for (const id of list) {
    fs.writeFileSync(path.join(out, "export", `${id}.json`), run(env, ["export", id]))
    if (age === "today") fs.writeFileSync(path.join(out, "sanitized", `${id}.json`), run(env, ["export", id, "--sanitize"]))
  }
  return list
}

function run(env, args) {
  return execFileSync(binary, args, { cwd: work, env, encoding: "utf8", maxBuffer: 1 << 28, stdio: ["ignore", "pipe", "ignore"] })
}

prepare()
const scripted = await startModel()
const env = environment(scripted)
const mark = Date.now()
const server = await startServer(env)
console.error("started", Date.now() - mark)
try {
  await scenario(server)
} finally {
  await server.stop()
}
console.error("scenario", Date.now() - mark)
const ids = exports(env)
console.error("exports", Date.now() - mark)
scripted.close()
console.log(JSON.stringify({ sessions: ids }))
