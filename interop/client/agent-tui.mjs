// The real `opencode attach` on `turnstone serve` with its own agent: every dialog and view that an agent needs, in
// one session, with a person who edits the same file and a server that is killed.
//
//   node agent-tui.mjs TURNSTONE OPENCODE OUT
import fs from "node:fs"
import path from "node:path"
import { environment, modelOf, prepare, start } from "./servers.mjs"
import { terminal } from "./tmux-terminal.mjs"

const [turnstone, opencode, out] = process.argv.slice(2)
const work = path.join(out, "project"), tide = path.join(work, "tide.txt")
const touch = (name) => ({ tools: [{ name: "bash", args: { command: `touch ${name}`, description: "touches" } }] })
const option = (label) => ({ label, description: `the colour ${label}` })
const scripts = {
  allow: [{ text: "I ask first.", ...touch("asked.txt") }, { text: "Touched it." }],
  choose: [{ tools: [{ name: "question", args: { questions: [{ question: "Which colour?", header: "Colour", options: [option("blue"), option("red")] }] } }] }, { text: "Colour is known." }],
  delegate: [{ tools: [{ name: "task", args: { description: "Look around", prompt: "play child", subagent_type: "general" } }] }, { text: "The helper is back." }],
  child: [{ tools: [{ name: "read", args: { filePath: path.join(work, "a.txt") } }] }, { text: "Child has looked." }],
  plan: [{ tools: [{ name: "todowrite", args: { todos: [{ content: "Measure the tide", status: "in_progress", priority: "high" }, { content: "Write it down", status: "pending", priority: "low" }] } }] }, { text: "Planned." }],
  write: [
    { reasoning: "I think.", text: "Streamed words.", tools: [{ name: "write", args: { filePath: tide, content: "low\nmiddle\nhigh\n" } }] },
    { tools: [{ name: "edit", args: { filePath: tide, oldString: "high", newString: "HIGHEST" } }] },
    { text: "Both are written." },
  ],
  after: [{ text: "After the compaction." }],
  hang: [{ text: "Half of a sentence", hangs: true }],
  again: [touch("again.txt"), { text: "Touched again." }],
  last: [{ text: "The last word." }],
}
const model = await (await modelOf(opencode)).startModel(scripts)
const places = prepare(out, model.url, { bash: "ask" })
let server = await start(turnstone, places, { agent: true })
const port = new URL(server.url).port
const headers = { "x-opencode-directory": encodeURIComponent(places.work) }
const get = async (route) => (await fetch(server.url + route, { headers })).json()
const read = () => fs.readFileSync(tide, "utf8")
const check = (holds, what) => {
  if (!holds) throw new Error(what)
}

const shown = terminal(out, [opencode, "attach", server.url, "--dir", places.work], { cwd: places.work, env: environment(places.home) })
const done = []
const step = (name) => (done.push(name), console.error(`  ${name}`))
const say = async (text) => (await shown.type(text), await shown.press("Enter"))
const command = async (name) => (await shown.press("C-u"), await say(name))
async function restart() {
  await server.kill()
  server = await start(turnstone, places, { port, agent: true })
}
try {
  await shown.sees("commands", { seconds: 90 })
  await say("play allow")
  await shown.sees("I ask first.")
  await shown.sees("Permission required")
  await shown.press("Enter")
  await shown.sees("Touched it.")
  check(fs.existsSync(path.join(work, "asked.txt")), "the allowed command did not run")
  step("asks for permission, once")

  await say("play choose")
  await shown.sees("Which colour?")
  await shown.press("Enter")
  await shown.sees("Colour is known.")
  step("asks a question")

  await say("play delegate")
  await shown.sees("The helper is back.")
  const [session] = (await get("/session")).filter((one) => !one.parentID)
  const [child] = await get(`/session/${session.id}/children`)
  check(child?.title === "Look around (@general subagent)", "the subagent has no session")
  await shown.press("C-x", "Down")
  await shown.sees("Child has looked.")
  await shown.press("Up")
  await shown.sees("The helper is back.")
  step("shows the subagent")

  await say("play plan")
  await shown.sees("Planned.")
  await shown.sees(/Todo[\s\S]*Measure the tide/)
  step("shows the to-dos")

  await say("play write")
  await shown.sees("Streamed words.")
  await shown.sees("Both are written.")
  await shown.sees("HIGHEST")
  check(read() === "low\nmiddle\nHIGHEST\n", `the file is ${read()}`)
  step("writes and edits")

  fs.writeFileSync(tide, `mine\n${read()}`)
  await command("/undo")
  await shown.sees(/message(s)? reverted/)
  check(read() === "mine\n", `after the undo the file is ${read()}`)
  step("undoes, and keeps what a person wrote")

  await command("/redo")
  await shown.sees(/message(s)? reverted/, { gone: true })
  check(read() === "mine\nlow\nmiddle\nHIGHEST\n", `after the redo the file is ${read()}`)
  step("redoes")

  await command("/compact")
  await shown.sees("A generated title")
  await command("play after")
  await shown.sees("After the compaction.")
  step("compacts, and goes on")

  await say("play hang")
  await shown.sees("Half of a sentence")
  await restart()
  const said = (await get(`/session/${session.id}/message`)).at(-1)
  check(said.parts.some((part) => part.text === "Half of a sentence"), "the text is lost")
  check(said.info.error?.name === "MessageAbortedError", `the turn is not marked: ${JSON.stringify(said.info.error)}`)
  step("keeps the text of a server that was killed")

  await command("play again")
  await shown.sees("Permission required")
  for (let status; status !== "waiting"; ) status = (await get(`/turnstone/session/${session.id}`)).turn?.state
  await restart()
  await shown.sees("Permission required")
  await shown.press("Enter")
  await shown.sees("Touched again.")
  check(fs.existsSync(path.join(work, "again.txt")), "the command did not run")
  step("shows again what waited for an answer")

  await say("play last")
  await shown.sees("The last word.")
  step("answers the next prompt")
  await shown.press("C-c")
  console.log(JSON.stringify({ done }))
} catch (error) {
  console.error(error.message)
  process.exitCode = 1
} finally {
  shown.close()
  await server.kill()
  model.close()
}
