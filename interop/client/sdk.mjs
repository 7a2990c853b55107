// The real SDK, both entry points, on `turnstone serve` under whichever runtime runs this script.
//
//   node sdk.mjs TURNSTONE OUT      or      bun sdk.mjs TURNSTONE OUT
//
// Prints {runtime, answers, heard}: the status of every call, and the types of the events of the stream.
import path from "node:path"
import { createOpencodeClient as createFirst } from "@opencode-ai/sdk"
import { createOpencodeClient as createSecond } from "@opencode-ai/sdk/v2"
import { first, run, second } from "./sdk-calls.mjs"
import { prepare, start } from "./servers.mjs"

const [turnstone, out] = process.argv.slice(2)
const runtime = process.versions.bun ? "bun" : "node"
const places = prepare(path.join(out, runtime)), server = await start(turnstone, places)
try {
  const options = { baseUrl: server.url, directory: places.work }
  const clients = [[createSecond(options), second], [createFirst(options), first]]
  const stop = new AbortController(), heard = new Set()
  const { stream } = await clients[0][0].event.subscribe({}, { signal: stop.signal })
  const ended = new Promise((done) => {
    (async () => {
      // The last step deletes a session: its event is the last that is waited for.
      for await (const { type } of stream) {
        if (type !== "server.heartbeat") heard.add(type)
        if (type === "session.deleted" && stop.last) return
      }
    })().catch(() => {}).then(done)
  })
  const answers = []
  for (const [client, steps] of clients) {
    const answered = await run(client, steps, { work: places.work })
    answers.push(...answered.map(({ label, status }) => ({ label, status })))
  }
  stop.last = true
  const made = await clients[0][0].session.create()
  await clients[0][0].session.delete({ sessionID: made.data.id })
  await Promise.race([ended, new Promise((_, late) => setTimeout(() => late(new Error("no session.deleted in 60 s")), 60000).unref())])
  stop.abort()
  console.log(JSON.stringify({ runtime, answers, heard: [...heard].sort() }))
} finally {
  await server.stop()
}
process.exit(0)
