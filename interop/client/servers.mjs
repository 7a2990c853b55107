// The two servers, each in a home and a project of its own that hold the same files.
import { execFileSync, spawn } from "node:child_process"
import fs from "node:fs"
import path from "node:path"
import { pathToFileURL } from "node:url"

const CONFIG = {
  $schema: "https://opencode.ai/config.json", autoupdate: false, share: "disabled",
  model: "scripted/scripted", small_model: "scripted/scripted",
  permission: { edit: "allow", bash: "allow", webfetch: "deny", external_directory: "deny" },
  command: { hello: { template: "Say hello to $ARGUMENTS", description: "greets" } },
  provider: { scripted: {
    npm: "@ai-sdk/openai-compatible", name: "Scripted", options: { baseURL: "http://127.0.0.1:9/v1", apiKey: "none" },
    models: { scripted: { name: "Scripted", tool_call: true, limit: { context: 200000, output: 8000 } } },
  } },
}

const FILES = {
  "a.txt": "one\ntwo\nthree\n", "src/main.rs": "fn main() {}\n", "src/lib.rs": "pub fn twice(n: u32) -> u32 { n * 2 }\n",
  ".gitignore": "ignored.txt\n", "ignored.txt": "never seen\n", "docs/Ünï.md": "# Ünï\n",
}

/** The scripted model, which lives beside the real program. */
export const modelOf = (opencode) => import(pathToFileURL(path.resolve(opencode, "../../../../scripted-model.mjs")).href)

/** Makes home and project below `out`; commits have fixed dates, so that both have the same ids. */
export function prepare(out, modelUrl, permission = {}) {
  const home = path.join(out, "home"), work = path.join(out, "project")
  for (const dir of ["data", "config", "state", "cache", "tmp", "run"]) fs.mkdirSync(path.join(home, dir), { recursive: true, mode: 0o700 })
  for (const [name, text] of Object.entries(FILES)) {
    fs.mkdirSync(path.dirname(path.join(work, name)), { recursive: true })
    fs.writeFileSync(path.join(work, name), text)
  }
  const config = structuredClone(CONFIG)
  Object.assign(config.permission, permission)
  if (modelUrl) config.provider.scripted.options.baseURL = modelUrl
  fs.mkdirSync(path.join(home, "config/opencode"), { recursive: true })
  fs.writeFileSync(path.join(home, "config/opencode/opencode.json"), JSON.stringify(config, null, 2))
  const date = "2026-01-02T03:04:05Z"
  const env = { PATH: process.env.PATH, HOME: home, GIT_CONFIG_NOSYSTEM: "1", GIT_AUTHOR_DATE: date, GIT_COMMITTER_DATE: date,
                GIT_AUTHOR_NAME: "t", GIT_AUTHOR_EMAIL: "t@example.invalid", GIT_COMMITTER_NAME: "t", GIT_COMMITTER_EMAIL: "t@example.invalid" }
  const git = (...args) => execFileSync("git", args, { cwd: work, stdio: "ignore", env })
  git("init", "-q", "-b", "main")
  git("add", ".")
  git("commit", "-qm", "first")
  return { home, work }
}

function environment(home) {
  return {
    PATH: process.env.PATH, HOME: home, TMPDIR: path.join(home, "tmp"), LANG: "C.UTF-8", SHELL: "/bin/bash", USER: "tester",
    XDG_DATA_HOME: path.join(home, "data"), XDG_CONFIG_HOME: path.join(home, "config"),
    XDG_STATE_HOME: path.join(home, "state"), XDG_CACHE_HOME: path.join(home, "cache"), XDG_RUNTIME_DIR: path.join(home, "run"),
    OPENCODE_DISABLE_AUTOUPDATE: "1", OPENCODE_DISABLE_MODELS_FETCH: "1", OPENCODE_DISABLE_LSP_DOWNLOAD: "1",
    OPENCODE_DISABLE_DEFAULT_PLUGINS: "1", OPENCODE_PURE: "1",
  }
}

/** Starts `BINARY serve` in a project, turnstone with its own agent only if `more.agent` is set; resolves to {url, work, home, pid, stop, kill}. */
export async function start(binary, { home, work }, more = {}) {
  const args = ["serve", "--port", String(more.port ?? 0), "--hostname", "127.0.0.1"]
  // With a runner outside, or without any: prompts must not be answered by the server's own agent.
  if (path.basename(binary) === "turnstone" && !more.agent) args.push("--no-agent")
  const child = spawn(binary, args, { cwd: work, env: { ...environment(home), ...more.env } })
  process.on("exit", () => child.kill("SIGKILL"))
  let log = ""
  const url = await new Promise((ready, failed) => {
    const late = setTimeout(() => failed(new Error(`${binary} did not start: ${log}`)), 90000)
    child.on("error", failed)
    child.on("exit", (code) => failed(new Error(`${binary} ended with ${code}: ${log}`)))
    for (const stream of [child.stdout, child.stderr])
      stream.on("data", (chunk) => {
        log += chunk
        const found = /http:\/\/127\.0\.0\.1:\d+/.exec(log)
        if (found) (clearTimeout(late), ready(found[0]))
      })
  })
  // A request that comes too early may never be answered by opencode: ask until one is.
  for (let tries = 0; ; tries++) {
    const asked = fetch(`${url}/session?directory=${encodeURIComponent(work)}`, { signal: AbortSignal.timeout(15000) })
    const answered = await asked.then((answer) => answer.arrayBuffer(), () => undefined)
    if (answered) break
    if (tries === 5) throw new Error(`${binary} does not answer: ${log}`)
  }
  const end = (signal) => new Promise((gone) => {
    child.removeAllListeners("exit")
    child.on("exit", gone)
    child.kill(signal)
  })
  return { url, work, home, pid: child.pid, log: () => log, stop: () => end("SIGTERM"), kill: () => end("SIGKILL") }
}

export { environment }
