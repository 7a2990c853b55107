// The real `opencode run --attach` on `turnstone serve` with its own agent, and on opencode itself: what it prints and
// how it ends must be the same.
//
//   node opencode-run.mjs TURNSTONE OPENCODE OUT
//
// Prints {same, unexpected}; ends with 1 if anything differs.
import { execFile } from "node:child_process"
import fs from "node:fs"
import path from "node:path"
import { differences, normaliser } from "./normalise.mjs"
import { environment, modelOf, prepare, start } from "./servers.mjs"

const [turnstone, opencode, out] = process.argv.slice(2)
const { startModel } = await modelOf(opencode)
// Word by word: an argument with a space in it is quoted by the program.
const play = (words, ...steps) => `${words} [[${steps.map((step) => JSON.stringify(step)).join(",")}]]`.split(" ")

/** What is asked, one after another; `id` is the session of the first. */
const asked = (work, id) => [
  ["plain", [...play("hello", { text: "Hi there." })]],
  ["json", ["--format", "json", ...play("write", { text: "Writing.", tools: [{ name: "write", args: { filePath: path.join(work, "run.txt"), content: "by run\n" } }] }, { text: "Done." })]],
  ["bash", [...play("run", { tools: [{ name: "bash", args: { command: "echo from bash", description: "says it" } }] }, { text: "Ran." })]],
  ["the same session", ["--session", id, ...play("again", { text: "Once more." })]],
  ["the newest session", ["--continue", ...play("and again", { text: "As before." })]],
  ["a fork of it", ["--session", id, "--fork", ...play("elsewhere", { text: "In a fork." })]],
  ["a command", ["--command", "hello", ...play("you", { text: "Hello, you." })]],
  ["a file", ["--file", path.join(work, "a.txt"), "--", ...play("read it", { text: "Read." })]],
  ["an error", [...play("fail", { status: 400, error: "the model says no" })]],
  ["an error in json", ["--format", "json", ...play("fail", { status: 400, error: "the model says no" })]],
  ["no such session", ["--session", "ses_unknown", "hello"]],
]

/** Runs the program to its end: its code and what it printed. */
function run(url, { work, home }, words) {
  return new Promise((done) => {
    const options = { cwd: work, env: { ...environment(home), NO_COLOR: "1" }, timeout: 180000, killSignal: "SIGKILL" }
    const child = execFile(opencode, ["run", "--attach", url, ...words], options, (error, printed, complained) =>
      done({ code: error ? (error.code ?? error.signal) : 0, printed, complained }))
    child.stdin.end()
  })
}

/** Lines of JSON without what differs from run to run; other lines as they are. */
function lines(printed, json, normal) {
  const all = printed.split("\n").map((line) => line.trim()).filter(Boolean)
  return json ? all.map((line) => JSON.parse(line)).map(({ type, part, error }) => normal({ type, part: shape(part), error: error?.name })) : all.map((line) => normal(line))
}
const shape = (part) => part && { type: part.type, text: part.text, tool: part.tool, reason: part.reason, state: part.state && { status: part.state.status, input: part.state.input, output: part.state.output, title: part.state.title } }

async function drive(binary, name) {
  const model = await startModel(), places = prepare(path.join(out, name), model.url)
  const server = await start(binary, places, { agent: true }), client = prepare(path.join(out, `${name}-client`), model.url)
  // The client has a home of its own; it works where the server does.
  client.work = places.work
  try {
    const normal = normaliser(places), answers = []
    let id = ""
    for (let at = 0; at < asked("", "").length; at++) {
      const [label, words] = asked(places.work, id)[at]
      const { code, printed, complained } = await run(server.url, client, words)
      if (!id) id = (await (await fetch(`${server.url}/session?directory=${encodeURIComponent(places.work)}`)).json())[0]?.id ?? ""
      answers.push({ label, code, lines: lines(printed, words.includes("json"), normal), complained })
    }
    answers.push({ label: "files", code: 0, lines: [fs.existsSync(path.join(places.work, "run.txt")) && fs.readFileSync(path.join(places.work, "run.txt"), "utf8")] })
    return answers
  } finally {
    await server.kill()
    model.close()
  }
}

// Where the step of a refused request begins and ends is stored before the model is asked, and so shown.
const OUR_LINES = { "an error in json": ["step_start", "step_finish"] }
function withoutOurLines({ label, lines }) {
  const added = OUR_LINES[label] ?? []
  if (!added.every((type, at) => lines[at]?.type === type)) throw new Error(`${label}: the lines ${added} are not there any more`)
  return lines.slice(added.length)
}

const ours = await drive(turnstone, "ours"), theirs = await drive(opencode, "theirs")
fs.writeFileSync(path.join(out, "run.json"), JSON.stringify({ ours, theirs }, null, 1))
const report = { same: [], unexpected: [] }
for (const [at, their] of theirs.entries()) {
  const found = differences({ code: their.code, lines: their.lines }, { code: ours[at].code, lines: withoutOurLines(ours[at]) })
  if (found.length === 0) report.same.push(their.label)
  for (const [place, a, b] of found) report.unexpected.push({ label: their.label, place, theirs: a ?? null, ours: b ?? null, complained: ours[at].complained })
}
console.log(JSON.stringify(report, null, 2))
process.exitCode = report.unexpected.length === 0 ? 0 : 1
