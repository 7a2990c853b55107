// Asks the real `opencode` and `turnstone` the same and compares what they answer and announce.
//
//   node compare.mjs TURNSTONE OPENCODE OUT
//
// Prints one JSON document: {same, intended, unexpected, unused}. `intended` are the differences that
// differences.mjs lists with their reasons; anything else, and a listed one that is gone, ends with 1.
import fs from "node:fs"
import path from "node:path"
import { createOpencodeClient as createFirst } from "@opencode-ai/sdk"
import { createOpencodeClient as createSecond } from "@opencode-ai/sdk/v2"
import { intended } from "./differences.mjs"
import { differences, normaliser } from "./normal.mjs"
import { first, run, second } from "./script.mjs"
import { prepare, start } from "./servers.mjs"

const [turnstone, opencode, out] = process.argv.slice(2)

/** Listens to the directory's events; `taken()` gives what came since it was last called. */
async function listen(client) {
  const stop = new AbortController(), heard = []
  const { stream } = await client.event.subscribe({}, { signal: stop.signal })
  const reading = (async () => { try { for await (const event of stream) heard.push(event) } catch {} })()
  return { taken: () => heard.splice(0), close: async () => (stop.abort(), await Promise.race([reading, new Promise((r) => setTimeout(r, 500))])) }
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

/** What is announced of a call follows its answer: waits for as much as the other server announced, then for quiet. */
async function announced(ears, wanted) {
  const heard = []
  for (let still = 0, waited = 0; still < 4; waited += 40) {
    await quiet(40)
    const more = ears.taken().filter((event) => !/^(server|plugin|catalog|integration|reference|file|lsp|models)/.test(event.type))
    heard.push(...more)
    still = more.length > 0 || (heard.length < wanted && waited < 2000) ? 0 : still + 1
  }
  return heard
}

async function driveOnce(binary, name, expected) {
  const places = prepare(path.join(out, name))
  const server = await start(binary, places)
  try {
    const options = { baseUrl: server.url, directory: places.work }
    const clients = { second: createSecond(options), first: createFirst(options) }
    const normal = normaliser(places), memory = { work: places.work }
    const ears = await within(20, "events", listen(clients.second))
    await quiet(500)
    ears.taken()
    const answers = []
    for (const [kind, steps] of [["second", second], ["first", first]])
      for (const step of steps) {
        const [answer] = await within(30, step[0], run(clients[kind], [step], memory))
        const events = await announced(ears, expected[answers.length]?.events.length ?? 0)
        answers.push({ ...answer, body: normal(answer.body), events: events.map((event) => normal({ type: event.type, properties: event.properties })) })
      }
    await ears.close()
    return answers
  } finally {
    await server.kill()
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
    ...differences(their.events.map((event) => event.type), our.events.map((event) => event.type), ".events"),
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
