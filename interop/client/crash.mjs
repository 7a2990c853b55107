// Pulls the plug under load: fifty clients write, the server is killed, and everything it had said yes to
// must still be true; a stream resumed from its last id must have missed nothing.
//
//   node crash.mjs TURNSTONE OUT [ROUNDS] [SEED]
import { prepare, start } from "./servers.mjs"

const [turnstone, out, rounds = "3", given] = process.argv.slice(2)
const seed = Number(given ?? Date.now() % 1e6)
let state = seed
const random = (n) => ((state = (state * 1103515245 + 12345) % 2147483648), state % n)
const CLIENTS = 50

const places = prepare(out)
const headers = { "content-type": "application/json", "x-opencode-directory": encodeURIComponent(places.work) }
const acknowledged = { sessions: new Map(), messages: new Map(), deleted: new Set() }

/** One client: makes sessions, renames them, says things, deletes some; notes what was answered with yes. */
async function client(url, stopped) {
  const call = async (method, route, body) => {
    const answer = await fetch(url + route, { method, headers, body: JSON.stringify(body) })
    const text = await answer.text()
    if (!answer.ok) throw new Error(`${method} ${route}: ${answer.status} ${text}`)
    return JSON.parse(text)
  }
  try {
    while (!stopped.now) {
      const made = await call("POST", "/session", { title: "made" })
      acknowledged.sessions.set(made.id, "made")
      // Asked for and not answered yet: both titles are right until the answer is here.
      const title = `renamed ${random(1e9)}`
      acknowledged.sessions.set(made.id, ["made", title])
      await call("PATCH", `/session/${made.id}`, { title })
      acknowledged.sessions.set(made.id, title)
      for (let n = 0; n < 2; n++) {
        const words = `said ${random(1e9)}`
        const said = await call("POST", `/session/${made.id}/message`, {
          noReply: true, agent: "build", model: { providerID: "p", modelID: "m" }, parts: [{ type: "text", text: words }] })
        acknowledged.messages.set(said.info.id, { session: made.id, words })
      }
      if (random(4) === 0) {
        acknowledged.sessions.set(made.id, null)
        await call("DELETE", `/session/${made.id}`)
        acknowledged.deleted.add(made.id)
      }
    }
  } catch (error) {
    // The server is gone in the middle of a call: that one was never acknowledged.
    if (!stopped.killed && !/fetch failed|terminated|ECONNRE|socket/.test(`${error} ${error.cause}`)) throw error
  }
}

/** Waits for a fact, a minute at most: a busy machine may be slow. */
async function until(fact, words) {
  for (let tries = 0; tries < 1200; tries++) {
    if (fact()) return
    await new Promise((later) => setTimeout(later, 50))
  }
  throw new Error(`seed ${seed}: ${words}`)
}

/** A reader that keeps every frame with its id; `after` is where it goes on. */
async function read(url, seen, stopped) {
  const after = seen.last ? { "last-event-id": seen.last } : {}
  try {
    const answer = await fetch(`${url}/event?directory=${encodeURIComponent(places.work)}`, { headers: { accept: "text/event-stream", ...after }, signal: stopped.signal })
    let text = ""
    for await (const chunk of answer.body.pipeThrough(new TextDecoderStream())) {
      text += chunk
      for (let end; (end = text.indexOf("\n\n")) >= 0; text = text.slice(end + 2)) {
        const lines = text.slice(0, end).split("\n")
        const id = lines.find((line) => line.startsWith("id:"))?.slice(3).trim()
        const data = lines.filter((line) => line.startsWith("data:")).map((line) => line.slice(5)).join("\n")
        seen.isConnected = true
        // The greeting repeats where the client was; it is no event of the log.
        if (!id || /"type":"server\./.test(data)) continue
        if (seen.ids.has(id)) throw new Error(`${id} came twice`)
        seen.ids.add(id)
        seen.last = id
        seen.events.push(JSON.parse(data))
      }
    }
  } catch (error) {
    if (/came twice/.test(error.message)) seen.wrong = error.message
  }
}

function expect(right, words) {
  if (!right) throw new Error(`seed ${seed}: ${words}`)
}

async function check(url) {
  const get = async (route) => {
    const answer = await fetch(url + route, { headers })
    return { status: answer.status, body: await answer.json() }
  }
  let looked = 0
  for (const [id, title] of acknowledged.sessions) {
    const { status, body } = await get(`/session/${id}`)
    if (acknowledged.deleted.has(id)) expect(status === 404, `${id} was deleted and is back`)
    else if (title === null) continue
    else {
      expect(status === 200, `${id} was acknowledged and is gone`)
      expect([title].flat().includes(body.title), `${id} is called ${body.title}, not ${title}`)
    }
    looked += 1
  }
  for (const [id, { session, words }] of acknowledged.messages) {
    if (acknowledged.sessions.get(session) === null) continue
    const { status, body } = await get(`/session/${session}/message/${id}`)
    expect(status === 200 && body.parts[0].text === words, `message ${id} was acknowledged and is gone`)
    looked += 1
  }
  const { body: busy } = await get("/session/status")
  expect(Object.keys(busy).length === 0, `stuck: ${JSON.stringify(busy)}`)
  return looked
}

const seen = { ids: new Set(), events: [], last: undefined }
let server = await start(turnstone, places), looked = 0
for (let round = 0; round < Number(rounds); round++) {
  const stopped = { now: false, killed: false }, stream = new AbortController()
  seen.isConnected = false
  const reading = read(server.url, seen, stream), before = acknowledged.messages.size
  await until(() => seen.isConnected, "the stream did not begin")
  const working = Promise.all(Array.from({ length: CLIENTS }, () => client(server.url, stopped)))
  await Promise.race([working, new Promise((later) => setTimeout(later, 700 + random(1500)))])
  await Promise.race([working, until(() => acknowledged.messages.size >= before + CLIENTS, "too few writes were acknowledged")])
  ;(stopped.now = true), (stopped.killed = true)
  await server.kill()
  await Promise.all([working, reading])
  server = await start(turnstone, places)
  looked = await check(server.url)
}
// What the stream missed while the server was away comes first; then everything acknowledged was announced.
const stream = new AbortController()
const reading = read(server.url, seen, stream)
const announced = (event) => event.properties?.info?.id ?? event.properties?.sessionID
const isComplete = () => {
  const ids = new Set(seen.events.map(announced))
  return [...acknowledged.sessions.keys(), ...acknowledged.messages.keys()].every((id) => ids.has(id))
}
// What is missing after a minute is named below.
await until(isComplete, "").catch(() => {})
const ids = new Set(seen.events.map(announced))
for (const id of [...acknowledged.sessions.keys(), ...acknowledged.messages.keys()]) expect(ids.has(id), `${id} was never announced (${acknowledged.deleted.has(id) ? "deleted" : JSON.stringify(acknowledged.sessions.get(id) ?? acknowledged.messages.get(id))})`)
expect(!seen.wrong, seen.wrong)
stream.abort()
await reading
await server.stop()
console.log(JSON.stringify({ seed, rounds: Number(rounds), clients: CLIENTS, looked, events: seen.events.length }))
