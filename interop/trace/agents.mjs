// Runs real coding agents, whose shells are sandboxed, and a static Go program (which has threads, signals and no
// libc), plain and below `turnstone exec`, and compares. Run by hand: the agents are large, and `go` may be missing.
//
// npm install; node agents.mjs [codex] [opencode] [go]     TURNSTONE_PROGRAM names the program; as root, also as user 65534.
//
// What must hold: the same exit code, the same files, the same answers of the tools; every changed path is traced,
// a file that a person saves meanwhile is not the agent's, and the undo leaves exactly that file.
import { execFileSync, spawn } from "node:child_process"
import fs from "node:fs"
import path from "node:path"
import { fileURLToPath } from "node:url"
import { isDeepStrictEqual } from "node:util"

import { startModel } from "../opencode/scripted-model.mjs"
import { startResponsesModel } from "./responses-model.mjs"

const here = path.dirname(fileURLToPath(import.meta.url))
const turnstone = path.resolve(process.env.TURNSTONE_PROGRAM ?? path.join(here, "../../target/debug/turnstone"))
const unprivileged = 65534
const files = { "a.txt": "alpha\nbeta\ngamma\n", "b.txt": "one\ntwo\n", "doomed.txt": "x\n", "src/main.rs": "fn main() {}\n" }

const shells = [
  "sed -i s/two/TWO/ b.txt && echo made > created.txt && rm doomed.txt",
  "mkdir -p deep/er && mv src deep/er/src && ln -s er deep/link && echo through > deep/link/file",
  "ls /nonexistent",
  // Until the person has saved a file.
  "touch waiting; while [ ! -e person.txt ]; do sleep 0.05; done; rm waiting; git init -q . && git add a.txt",
]
const patch = "*** Begin Patch\n*** Update File: a.txt\n@@\n alpha\n-beta\n+BETA\n gamma\n*** End Patch\n"

const agents = {
  codex: {
    start: () => startResponsesModel([
      { text: "Patching.", tools: [{ name: "apply_patch", input: patch }] },
      ...shells.map((cmd) => ({ tools: [{ name: "exec_command", args: { cmd, yield_time_ms: 30000 } }] })),
      { tools: [{ name: "exec_command", args: { cmd: "echo par1 > par1.txt" } }, { name: "exec_command", args: { cmd: "echo par2 > par2.txt" } }] },
      { text: "Done." },
    ]),
    prepare(home, url) {
      fs.mkdirSync(path.join(home, "codex"))
      fs.writeFileSync(path.join(home, "codex/config.toml"), [
        'model = "gpt-5.5"', 'model_provider = "scripted"', 'approval_policy = "never"', 'sandbox_mode = "workspace-write"',
        "check_for_update_on_startup = false", "[model_providers.scripted]", 'name = "scripted"', `base_url = "${url}"`,
        'wire_api = "responses"', 'env_key = "SCRIPTED_KEY"', "[analytics]", "enabled = false", "",
      ].join("\n"))
      return { CODEX_HOME: path.join(home, "codex"), SCRIPTED_KEY: "none" }
    },
    command: [path.join(here, "node_modules/.bin/codex"), "exec", "--skip-git-repo-check", "Change the project."],
  },
  opencode: {
    start: startModel,
    prepare(home, url) {
      const config = {
        model: "scripted/one", small_model: "scripted/one", autoupdate: false, share: "disabled",
        provider: { scripted: {
          npm: "@ai-sdk/openai-compatible", options: { baseURL: url, apiKey: "none" },
          models: { one: { name: "one", tool_call: true, limit: { context: 100000, output: 8000 } } },
        } },
        permission: { bash: "allow", edit: "allow" },
      }
      fs.writeFileSync(path.join(home, "opencode.json"), JSON.stringify(config))
      return { OPENCODE_CONFIG: path.join(home, "opencode.json"), OPENCODE_DISABLE_MODELS_FETCH: "1" }
    },
    command: [path.join(here, "node_modules/opencode/bin/opencode"), "run"],
    // As an argument it would be quoted once more.
    prompt: `[[ ${[
      { tools: [{ name: "write", args: { filePath: "$WORK/written.txt", content: "by a tool\n" } }] },
      ...shells.map((command) => ({ tools: [{ name: "bash", args: { command, description: "scripted" } }] })),
    ].map((step) => JSON.stringify(step)).join(", ")} ]]`,
  },
}

function run(command, { cwd, env, account }, input = "") {
  return new Promise((resolve, reject) => {
    const child = spawn(command[0], command.slice(1), { cwd, env, ...account, stdio: "pipe" })
    child.stdin.on("error", () => {})
    child.stdin.end(input)
    let [out, err] = ["", ""]
    child.stdout.on("data", (chunk) => (out += chunk))
    child.stderr.on("data", (chunk) => (err += chunk))
    child.on("error", reject)
    child.on("close", (code, signal) => resolve({ code: code ?? signal, out, err }))
  })
}

/** Every file and link below a folder but those of git's database, with its content. */
function readTree(folder, prefix = "") {
  const found = {}
  for (const entry of fs.readdirSync(path.join(folder, prefix), { withFileTypes: true })) {
    const name = path.join(prefix, entry.name)
    if (entry.name === ".git") continue
    if (entry.isDirectory()) Object.assign(found, readTree(folder, name))
    else if (entry.isSymbolicLink()) found[name] = `-> ${fs.readlinkSync(path.join(folder, name))}`
    else found[name] = fs.readFileSync(path.join(folder, name), "utf8")
  }
  return found
}

/** A program that needs no library: many goroutines that change files while signals preempt them. */
const goProgram = `package main
import ("fmt"; "os"; "sync"; "time")
func must(err error) { if err != nil { panic(err) } }
func main() {
	must(os.WriteFile("waiting", nil, 0o644))
	for _, err := os.Stat("person.txt"); err != nil; _, err = os.Stat("person.txt") { time.Sleep(10 * time.Millisecond) }
	must(os.Remove("waiting")); must(os.WriteFile("created.txt", []byte("made\\n"), 0o644))
	must(os.Remove("doomed.txt")); must(os.MkdirAll("deep/er", 0o755)); must(os.Rename("src", "deep/er/src"))
	must(os.Symlink("er", "deep/link")); must(os.WriteFile("deep/link/file", []byte("through"), 0o600)); must(os.Chmod("b.txt", 0o700))
	var all sync.WaitGroup
	for part := 0; part < 8; part++ {
		all.Add(1)
		go func(part int) {
			defer all.Done()
			sum := 0
			for i := 0; i < 40; i++ {
				for j := 0; j < 200000; j++ { sum += j % (i + 1) }
				name := fmt.Sprintf("deep/%d-%d", part, i)
				must(os.WriteFile(name+".tmp", []byte(fmt.Sprint(sum)), 0o644)); must(os.Rename(name+".tmp", name))
			}
		}(part)
	}
	all.Wait()
}
`

agents.go = {
  start: async () => ({ url: "", answers: [], close() {} }),
  prepare(home) {
    fs.writeFileSync(path.join(home, "main.go"), goProgram)
    const env = { ...process.env, CGO_ENABLED: "0" }
    execFileSync("go", ["build", "-o", path.join(home, "program"), path.join(home, "main.go")], { cwd: home, env, stdio: "inherit" })
    return {}
  },
  command: ["../program"],
}

/** A person who saves a file once the agent's shell waits for it. */
function startPerson(work) {
  const timer = setInterval(() => {
    if (!fs.existsSync(path.join(work, "waiting"))) return
    fs.writeFileSync(path.join(work, "person.txt.tmp"), "by a person\n")
    fs.renameSync(path.join(work, "person.txt.tmp"), path.join(work, "person.txt"))
    clearInterval(timer)
  }, 20)
  return () => clearInterval(timer)
}

function must(holds, what, shown) {
  if (holds) return
  throw new Error(`${what}: ${typeof shown === "string" ? shown : JSON.stringify(shown, null, 1)}`)
}

const same = (one, other) => isDeepStrictEqual(one, other)
// Times and the numbers of processes differ from run to run.
const masked = (answers, home) =>
  answers.map((answer) => answer.replaceAll(home, "HOME").replace(/[0-9a-f]{6,}|[0-9]+(\.[0-9]+)?/g, "N"))

async function runAgent(agent, account, isTraced) {
  // Codex puts no programs below /tmp, and its sandbox needs one.
  const home = fs.mkdtempSync("/var/tmp/agent-")
  const work = path.join(home, "work")
  for (const [name, text] of Object.entries(files)) {
    fs.mkdirSync(path.dirname(path.join(work, name)), { recursive: true })
    fs.writeFileSync(path.join(work, name), text)
  }
  const model = await agent.start()
  const env = {
    PATH: process.env.PATH, HOME: home, TERM: "dumb", TURNSTONE_DATA: path.join(home, "data"),
    ...agent.prepare(home, model.url),
  }
  if (account.uid) (await run(["chown", "-R", `${account.uid}:${account.gid}`, home], { cwd: home, env, account: {} }))
  const place = { cwd: work, env, account }
  const input = agent.prompt?.replaceAll("$WORK", work)
  const stop = startPerson(work)
  const ended = await run(isTraced ? [turnstone, "exec", "--", ...agent.command] : agent.command, place, input)
  stop()
  model.close()
  return { ...ended, home, work, place, tree: readTree(work), answers: masked(model.answers, home) }
}

async function check(name, account) {
  const agent = agents[name]
  const plain = await runAgent(agent, account, false)
  const traced = await runAgent(agent, account, true)
  must(plain.code === 0 && plain.tree["created.txt"] === "made\n", "the agent itself fails here", plain)
  must(same([plain.code, plain.tree], [traced.code, traced.tree]), "not the same result", { plain, traced })
  must(same(plain.answers, traced.answers), "the tools answered otherwise", [plain.answers, traced.answers])

  const log = await run([turnstone, "log", "--json"], traced.place)
  const turn = JSON.parse(log.out).entries.findLast((entry) => entry.type === "turn")
  const untraced = turn.files.filter((file) => file.evidence !== "traced")
  must(untraced.length === 0 && !turn.traces[0].untraced, "not everything is traced", turn)
  const changed = Object.keys({ ...files, ...traced.tree }).filter((file) => files[file] !== traced.tree[file])
  const listed = turn.files.map((file) => file.path)
  const missing = changed.filter((file) => file !== "person.txt" && !listed.includes(file))
  must(missing.length === 0 && !listed.includes("person.txt"), "not the agent's changes", { missing, listed })
  must(same(turn.traces[0].others.paths, ["person.txt"]), "the person's file is not named", turn.traces)

  const undone = await run([turnstone, "undo"], traced.place)
  must(same(readTree(traced.work), { ...files, "person.txt": "by a person\n" }), "not undone", [undone, readTree(traced.work)])
  for (const { home } of [plain, traced]) fs.rmSync(home, { recursive: true })
  console.log(`${name} as user ${account.uid ?? process.getuid()}: ${listed.length} paths traced, ${plain.answers.length} answers equal, undone`)
}

const chosen = process.argv.slice(2)
for (const name of Object.keys(agents).filter((name) => chosen.length === 0 || chosen.includes(name))) {
  await check(name, {})
  if (process.getuid() === 0) await check(name, { uid: unprivileged, gid: unprivileged })
}
