// How a real `opencode` is run here: in a home of its own, with a scripted model, on loopback only.
import { execFile, execFileSync, spawn } from "node:child_process"
import fs from "node:fs"
import path from "node:path"
import { promisify } from "node:util"

const password = "interop"

/** The places below `out`: a home, and a git worktree to work in. */
export function places(out) {
  return { home: path.join(out, "home"), work: path.join(out, "work") }
}

/** Makes the home and the worktree. */
export function prepare(out) {
  const { home, work } = places(out)
  for (const dir of ["data", "config", "state", "cache", "tmp"]) fs.mkdirSync(path.join(home, dir), { recursive: true })
  fs.mkdirSync(work, { recursive: true })
  fs.writeFileSync(path.join(work, "notes.txt"), "one\ntwo\n")
  const env = { PATH: process.env.PATH, HOME: home, GIT_CONFIG_NOSYSTEM: "1" }
  const git = (...args) => execFileSync("git", args, { cwd: work, stdio: "ignore", env })
  git("init", "-q")
  git("add", ".")
  git("-c", "user.name=t", "-c", "user.email=t@example.invalid", "commit", "-qm", "first")
}

/** The whole environment of the program; nothing of the caller's but PATH. */
export function environment(out, modelUrl = "http://127.0.0.1:9/v1") {
  const { home } = places(out)
  const config = {
    autoupdate: false, share: "manual", model: "scripted/scripted", small_model: "scripted/scripted",
    permission: { edit: "allow", bash: "allow", webfetch: "deny", external_directory: "deny" },
    provider: { scripted: {
      npm: "@ai-sdk/openai-compatible", name: "Scripted",
      options: { baseURL: modelUrl, apiKey: "none" },
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

/** Runs the program once and resolves to what it printed. */
export async function run(binary, out, env, args) {
  const { work } = places(out)
  const { stdout } = await promisify(execFile)(binary, args, { cwd: work, env, encoding: "utf8", maxBuffer: 1 << 28 })
  return stdout
}

/** Starts `opencode serve`; resolves to {call, stop}. */
export async function startServer(binary, out, env) {
  const { work } = places(out)
  const child = spawn(binary, ["serve", "--port", "0", "--hostname", "127.0.0.1"], { cwd: work, env })
  process.on("exit", () => child.kill("SIGKILL"))
  let log = ""
  const url = await new Promise((ready, failed) => {
    const late = setTimeout(() => failed(new Error(`opencode did not start: ${log}`)), 60000)
    child.on("error", failed)
    child.on("exit", (code) => failed(new Error(`opencode ended with ${code}: ${log}`)))
    for (const stream of [child.stdout, child.stderr])
      stream.on("data", (chunk) => {
        log += chunk
        const found = /http:\/\/127\.0\.0\.1:\d+/.exec(log)
        if (found) (clearTimeout(late), ready(found[0]))
      })
  })
  const headers = {
    "content-type": "application/json", "x-opencode-directory": work,
    authorization: `Basic ${Buffer.from(`opencode:${password}`).toString("base64")}`,
  }
  async function call(method, route, body) {
    const answer = await fetch(url + route, { method, headers, body: body && JSON.stringify(body) })
    const text = await answer.text()
    if (!answer.ok) throw new Error(`${method} ${route}: ${answer.status} ${text.slice(0, 400)}`)
    return text ? JSON.parse(text) : undefined
  }
  // Killed, not asked: programs die like this, and the write-ahead log stays behind.
  const stop = () => new Promise((gone) => {
    child.removeAllListeners("exit")
    child.on("exit", gone)
    child.kill("SIGKILL")
  })
  return { call, stop }
}
