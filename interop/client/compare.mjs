// Asks the real `opencode` and `turnstone` the same and compares what they answer and announce.
//
//   node compare.mjs TURNSTONE OPENCODE OUT
//
// Prints one JSON document: {same, intended, unexpected, unused}. `intended` are the differences that
// intended-differences.mjs lists with their reasons; anything else, and a listed one that is gone, ends with 1.
import fs from "node:fs"
import path from "node:path"
import { createOpencodeClient as createFirst } from "@opencode-ai/sdk"
import { createOpencodeClient as createSecond } from "@opencode-ai/sdk/v2"
import { intended } from "./intended-differences.mjs"
import { differences, normaliser } from "./normalise.mjs"
import { startRunner } from "./runner.mjs"
import { first, run, second } from "./sdk-calls.mjs"
import { modelOf, prepare, start } from "./servers.mjs"
import { told, turns } from "./model-turns.mjs"

const [turnstone, opencode, out] = process.argv.slice(2)
const { startModel } = await modelOf(opencode)

/** Listens to the directory's events; `taken()` gives what came since it was last called, `hears` waits for the next of a type. */
async function listen(client) {
  const stop = new AbortController(), heard = [], waiting = []
  const { stream } = await client.event.subscribe({}, { signal: stop.signal })
  const hear = (event) => (heard.push(event), waiting.splice(0).forEach(([type, done]) => (event.type === type ? done(event) : waiting.push([type, done]))))
  const reading = (async () => { try { for await (const event of stream) hear(event) } catch {} })()
  const hears = (type) => new Promise((done) => waiting.push([type, done]))
  return { hears, taken: () => heard.splice(0), close: async () => (stop.abort(), await Promise.race([reading, new Promise((r) => setTimeout(r, 500))])) }
}

const quiet = (ms) => new Promise((done) => setTimeout(done, ms))

/** Drives a server; one that hangs is started anew, twice: what hangs is then not what is compared. */
async function drive(binary, name, expected = []) {
  for (let tries = 0; ; tries++) {
    try {
      return await driveOnce(binary, `${name}-${tries}`, expected)
    } catch (error) {
      if (tries === 2 || !/^hangs/.test(error.message)) throw error
      console.error(`${name} ${error.message}`)
    }
  }
}

const within = (seconds, what, work) =>
  Promise.race([work, new Promise((_, late) => setTimeout(() => late(new Error(`hangs: ${what}`)), seconds * 1000).unref())])

/** What is announced of a call follows its answer: waits for as much as the other server announced, then for quiet. A turn ends with `session.idle`. */
async function announced(ears, other = { heard: 0, all: [] }) {
  const ends = other.all.some(({ type }) => type === "session.idle")
  const heard = []
  for (let still = 0, waited = 0; still < 4; waited += 40) {
    await quiet(40)
    const more = ears.taken().filter((event) => !/^(server|plugin|catalog|integration|reference|file|lsp|models)/.test(event.type))
    heard.push(...more)
    const lacks = ends && !heard.some(({ type }) => type === "session.idle")
    still = more.length > 0 || (heard.length < other.heard && waited < 2000) || (lacks && waited < 10000) ? 0 : still + 1
  }
  return heard
}

async function driveOnce(binary, name, expected) {
  const model = await startModel(), places = prepare(path.join(out, name), model.url)
  const server = await start(binary, places)
  let runner
  try {
    const options = { baseUrl: server.url, directory: places.work }
    const clients = { second: createSecond(options), first: createFirst(options) }
    const ears = await within(20, "events", listen(clients.second))
    const normal = normaliser(places), memory = { work: places.work, hears: ears.hears }
    await quiet(500)
    ears.taken()
    const answers = []
    for (const [kind, steps] of [["second", second], ["first", first], ["second", turns]])
      for (const step of steps) {
        // Only the last steps ask a model; opencode asks it itself.
        if (steps === turns && binary === turnstone) runner ??= startRunner({ url: server.url, directory: places.work, model: model.url })
        const [answer] = await within(30, step[0], run(clients[kind], [step], memory))
        const events = await announced(ears, expected[answers.length])
        const shown = steps === turns ? told(events).map((line) => normal(line)) : events.map((event) => event.type)
        const all = events.map((event) => normal({ type: event.type, properties: event.properties }))
        answers.push({ ...answer, body: normal(answer.body), events: shown, heard: events.length, all })
      }
    await ears.close()
    return answers
  } finally {
    await runner?.close()
    await server.kill()
    model.close()
  }
}

const ours = await drive(turnstone, "turnstone")
const theirs = await drive(opencode, "opencode", ours)
fs.writeFileSync(path.join(out, "theirs.json"), JSON.stringify(theirs, null, 1))
fs.writeFileSync(path.join(out, "ours.json"), JSON.stringify(ours, null, 1))

const used = new Set(), report = { same: 0, intended: 0, unexpected: [], unused: [] }
for (const [index, their] of theirs.entries()) {
  const our = ours[index]
  const found = [
    ...differences({ status: their.status, body: their.body }, { status: our.status, body: our.body }),
    ...differences(their.events, our.events, ".events"),
  ]
  if (found.length === 0) report.same += 1
  for (const [place, a, b] of found) {
    const listed = intended.findIndex(({ at }) => at.test(`${their.label}${place}`))
    if (listed >= 0) (used.add(listed), (report.intended += 1))
    else report.unexpected.push({ label: their.label, place, theirs: a ?? "(nothing)", ours: b ?? "(nothing)" })
  }
}
report.unused = intended.filter((_, index) => !used.has(index)).map(({ at, why }) => `${at}: ${why}`)
console.log(JSON.stringify(report, null, 2))
process.exitCode = report.unexpected.length + report.unused.length === 0 ? 0 : 1
