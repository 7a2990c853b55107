// The example runner in Python, seen through the real `opencode attach`: streamed text, a permission dialog, the
// output of a tool, and to-dos.
//
//   node runner-example.mjs TURNSTONE OPENCODE PYTHON RUNNER OUT
import { spawn } from "node:child_process"
import { environment, prepare, start } from "./servers.mjs"
import { terminal } from "./tmux-terminal.mjs"

const [turnstone, opencode, python, example, out] = process.argv.slice(2)
const places = prepare(out, undefined, { bash: "ask" })
const server = await start(turnstone, places)
const runner = spawn(python, [example, server.url, places.work], { env: environment(places.home), stdio: ["ignore", "ignore", "inherit"] })
const get = async (route) => (await fetch(server.url + route, { headers: { "x-opencode-directory": encodeURIComponent(places.work) } })).json()
const shown = terminal(out, [opencode, "attach", server.url, "--dir", places.work], { cwd: places.work, env: environment(places.home) })
const done = []
const step = (name) => (done.push(name), console.error(`  ${name}`))
try {
  await shown.sees("commands", { seconds: 90 })
  await shown.type("What is here?")
  await shown.press("Enter")
  await shown.sees("I plan, then I list the files.")
  step("shows streamed text")
  await shown.sees("List the files")
  step("shows to-dos")
  await shown.sees("Permission required")
  await shown.sees("Allow once")
  step("asks for permission")
  await shown.press("Enter")
  await shown.sees(/a\.txt[\s\S]*docs/)
  await shown.sees("Permission required", { gone: true })
  step("shows the output of a tool")
  const [session] = await get("/session")
  const todos = await get(`/session/${session.id}/todo`)
  if (todos[0]?.status !== "completed") throw new Error(`the to-dos are ${JSON.stringify(todos)}`)
  step("stores the to-dos")
  console.log(JSON.stringify({ done }))
} catch (error) {
  console.error(error.message)
  process.exitCode = 1
} finally {
  shown.close()
  runner.kill()
  await server.kill()
}
