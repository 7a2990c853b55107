// The real `opencode attach` at work on a server: what a person does, key by key, and what they must see.
//
//   node tui.mjs SERVER OPENCODE OUT
//
// SERVER is the program that serves: turnstone, or opencode itself to check this script.
import fs from "node:fs"
import path from "node:path"
import { startRunner } from "./runner.mjs"
import { environment, modelOf, prepare, start } from "./servers.mjs"
import { terminal } from "./tmux-terminal.mjs"

const [serving, opencode, out] = process.argv.slice(2)
const model = await (await modelOf(opencode)).startModel()
const places = prepare(out, model.url)
let server = await start(serving, places)
const port = new URL(server.url).port
const runner = serving === opencode ? undefined : startRunner({ url: server.url, directory: places.work, model: model.url })
const headers = { "content-type": "application/json", "x-opencode-directory": encodeURIComponent(places.work) }

async function call(method, route, body) {
  const answer = await fetch(server.url + route, { method, headers, body: body && JSON.stringify(body) })
  const text = await answer.text()
  if (!answer.ok) throw new Error(`${method} ${route}: ${answer.status} ${text.slice(0, 400)}`)
  return text ? JSON.parse(text) : undefined
}
const say = (session, text) =>
  call("POST", `/session/${session}/message`, { noReply: true, agent: "build", model: { providerID: "scripted", modelID: "scripted" }, parts: [{ type: "text", text }] })

const done = []
const step = (name) => (done.push(name), console.error(`  ${name}`))
const session = await call("POST", "/session", { title: "Tide tables" })
await say(session.id, "the first word")
await say(session.id, "the second word")
await call("POST", "/session", { title: "Another one" })

const shown = terminal(out, [opencode, "attach", server.url, "--dir", places.work], { cwd: places.work, env: environment(places.home) })
try {
  await shown.sees("commands", { seconds: 90 })
  step("starts")

  await shown.type("/sessions")
  await shown.press("Enter")
  await shown.sees("Tide tables")
  await shown.sees("Another one")
  step("lists the sessions")

  await shown.type("Tide")
  await shown.sees("Another one", { gone: true })
  await shown.press("Enter")
  await shown.sees("the first word")
  await shown.sees("the second word")
  step("opens one and shows its messages")

  await say(session.id, "said meanwhile")
  await shown.sees("said meanwhile")
  step("shows what others write")

  await shown.type("/rename")
  await shown.press("Enter")
  await shown.sees("Rename")
  await shown.press("C-u")
  for (let n = 0; n < 12; n++) await shown.press("BSpace")
  await shown.type("Moon tables")
  await shown.press("Enter")
  await shown.sees("Moon tables")
  if ((await call("GET", `/session/${session.id}`)).title !== "Moon tables") throw new Error("the title is not stored")
  step("renames")

  await shown.type("How is the tide?")
  await shown.press("Enter")
  await shown.sees("How is the tide?")
  await shown.sees("All steps are done.")
  step("asks a model, which a runner outside answers for")

  await shown.type("!echo shell-$((40+2)); echo by-tui > tui.txt")
  await shown.press("Enter")
  await shown.sees("shell-42")
  if (fs.readFileSync(path.join(places.work, "tui.txt"), "utf8") !== "by-tui\n") throw new Error("the command did not run")
  step("runs a shell command")

  await shown.type("/undo")
  await shown.press("Enter")
  await shown.sees(/message(s)? reverted/)
  const undone = await call("GET", `/session/${session.id}`)
  if (!undone.revert) throw new Error("nothing is reverted")
  step("undoes")
  if (serving !== opencode && fs.existsSync(path.join(places.work, "tui.txt"))) throw new Error("the file of the command is still there")

  await shown.press("C-u")
  await shown.type("/redo")
  await shown.press("Enter")
  await shown.sees(/message(s)? reverted/, { gone: true })
  if ((await call("GET", `/session/${session.id}`)).revert) throw new Error("still reverted")
  if (serving !== opencode && !fs.existsSync(path.join(places.work, "tui.txt"))) throw new Error("the file of the command is not back")
  step("redoes")

  await shown.press("C-u")
  await shown.type("/fork")
  await shown.press("Enter")
  await shown.sees(/Fork/)
  await shown.press("Enter")
  await shown.sees("(fork #1)")
  step("forks")

  const newest = (await call("GET", "/session")).find((one) => /fork #1/.test(one.title))
  await server.kill()
  server = await start(serving, places, { port })
  await say(newest.id, "after the crash")
  await shown.sees("after the crash", { seconds: 60 })
  step("goes on after the server was killed")

  await shown.type("And now?")
  await shown.press("Enter")
  await shown.sees("And now?")
  await shown.sees(/And now\?[\s\S]*All steps are done\./)
  step("is answered again")

  await shown.press("C-c")
  console.log(JSON.stringify({ done }))
} catch (error) {
  console.error(error.message)
  process.exitCode = 1
} finally {
  shown.close()
  await runner?.close()
  await server.kill()
  model.close()
}
