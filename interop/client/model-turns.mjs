// Turns that a model drives: the same prompts, the same scripted model; in opencode its own loop asks it, on
// Turnstone a runner outside does. What is compared is what clients see of them.
import fs from "node:fs"
import path from "node:path"

/** A prompt that tells the scripted model what to do; see interop/opencode/scripted-model.mjs. */
const play = (words, ...steps) => [{ type: "text", text: `${words} [[${steps.map((step) => JSON.stringify(step)).join(",")}]]` }]
const prompt = (c, m, parts) => c.session.prompt({ sessionID: m.turns.id, agent: "build", model: { providerID: "scripted", modelID: "scripted" }, parts })
const messages = (c, m) => c.session.messages({ sessionID: m.turns.id })
const write = (m, name, content) => ({ name: "write", args: { filePath: path.join(m.work, name), content } })

/** All files of the project, as an answer. */
function files(_, m, dir = m.work, found = {}) {
  for (const entry of fs.readdirSync(dir, { withFileTypes: true })) {
    const file = path.join(dir, entry.name)
    if (entry.name === ".git") continue
    if (entry.isDirectory()) files(_, m, file, found)
    else found[path.relative(m.work, file)] = fs.readFileSync(file, "utf8")
  }
  return { data: found, response: { status: 200 } }
}

/** Steps for `@opencode-ai/sdk/v2`. */
export const turns = [
  ["turn create", async (c, m) => keep(m, "turns", await c.session.create({ title: "Turns" }))],
  ["turn plain", (c, m) => prompt(c, m, play("hello", { reasoning: "I think.", text: "Hi there." }))],
  ["turn plain messages", messages],
  ["turn write", async (c, m) => {
    const answer = await prompt(c, m, play("write", { text: "Writing.", tools: [write(m, "made/by.txt", "made\n")] }, { tools: [write(m, "a.txt", "ONE\ntwo\nthree\n")] }, { text: "Done." }))
    m.written = answer.data.info.parentID
    return answer
  }],
  ["turn write messages", messages],
  ["turn write files", files],
  ["turn write diff", (c, m) => c.session.diff({ sessionID: m.turns.id, messageID: m.written })],
  ["turn bash", (c, m) => prompt(c, m, play("run", { tools: [{ name: "bash", args: { command: "echo out; echo bash >> a.txt; rm src/lib.rs; exit 3", description: "changes files" } }] }, { text: "Ran." }))],
  ["turn bash messages", messages],
  ["turn bash files", files],
  ["turn error", (c, m) => prompt(c, m, play("fail", { status: 400, error: "the model says no" }))],
  ["turn error messages", messages],
  ["turn command", (c, m) => c.session.command({ sessionID: m.turns.id, command: "hello", arguments: 'you [[{"text":"Hello, you."}]]' })],
  ["turn async", async (c, m) => {
    const over = m.hears("session.idle")
    const answer = await c.session.promptAsync({ sessionID: m.turns.id, parts: play("later", { text: "By and by." }) })
    await over
    return answer
  }],
  ["turn async messages", messages],
  ["turn abort", async (c, m) => {
    const begun = m.hears("message.part.delta")
    const asked = prompt(c, m, play("stop me", { text: "I could go on", hangs: true }))
    await begun
    await c.session.abort({ sessionID: m.turns.id })
    return asked
  }],
  ["turn abort messages", messages],
  ["turn status", (c) => c.session.status()],
  ["turn revert", (c, m) => c.session.revert({ sessionID: m.turns.id, messageID: m.written })],
  ["turn revert files", files],
  ["turn revert messages", messages],
  ["turn unrevert", (c, m) => c.session.unrevert({ sessionID: m.turns.id })],
  ["turn unrevert files", files],
  ["turn revert again", (c, m) => c.session.revert({ sessionID: m.turns.id, messageID: m.written })],
  ["turn instead", (c, m) => prompt(c, m, play("instead", { text: "Another way.", tools: [write(m, "other.txt", "other\n")] }, { text: "Done otherwise." }))],
  ["turn instead messages", messages],
  ["turn instead files", files],
]

/** A command that has to be asked for, and what a person says to it. */
const asking = (reply) => async (c, m) => {
  const asked = m.hears("permission.asked")
  const parts = play(reply, { tools: [{ name: "bash", args: { command: "touch asked.txt", description: "touches" } }] }, { text: "Touched." })
  const answer = c.session.prompt({ sessionID: m.careful.id, agent: "build", model: { providerID: "scripted", modelID: "scripted" }, parts })
  await asked
  m.open = await c.permission.list()
  await c.permission.reply({ requestID: m.open.data[0].id, reply })
  return answer
}

const sleep = (ms) => new Promise((done) => setTimeout(done, ms))

/** A second prompt that comes while a tool of the first runs: both are answered by the same run. */
async function steered(c, m) {
  const ready = path.join(m.work, "ready"), go = path.join(m.work, "go")
  const command = `touch ${ready}; while [ ! -e ${go} ]; do sleep 0.05; done; rm ${ready} ${go}`
  const first = prompt(c, m, play("first", { tools: [{ name: "bash", args: { command, description: "waits" } }] }, { text: "Never said." }))
  while (!fs.existsSync(ready)) await sleep(20)
  const second = prompt(c, m, play("second", { text: "To both." }))
  while (!(await messages(c, m)).data.some(({ parts }) => /^second/.test(parts[0]?.text))) await sleep(20)
  fs.writeFileSync(go, "")
  return { data: [(await first).data, (await second).data], response: { status: 200 } }
}

turns.push(
  ["turn steered", steered],
  ["turn steered messages", messages],
  ["turn careful", async (c, m) => keep(m, "careful", await c.session.create({ title: "Careful", permission: [{ permission: "bash", pattern: "*", action: "ask" }] }))],
  ["turn rejected", asking("reject")],
  ["turn rejected requests", (_, m) => m.open],
  ["turn rejected files", files],
  ["turn allowed", asking("once")],
  ["turn allowed messages", (c, m) => c.session.messages({ sessionID: m.careful.id })],
  ["turn allowed files", files],
)

function keep(m, name, answer) {
  if (answer.data) m[name] = answer.data
  return answer
}

/**
 * What is told of a turn, in its order, a line each; then its texts. Left out: what is written in the background
 * whenever it comes to it (titles, figures, diffs), the same said again, as the output of a tool while it runs, and
 * when a text is whole, which races with its tools.
 */
export function told(events) {
  const lines = [], texts = new Map()
  let status
  const say = (line) => lines.push(line)
  for (const { type, properties: p } of events) {
    if (type === "session.status") {
      if (p.status.type !== status) say((status = p.status.type))
    } else if (type === "session.idle") {
      if (!lines.includes(type)) say(type)
    } else if (/^(session\.error|message\.removed|message\.part\.removed|permission|command)/.test(type)) {
      say(p.error ? `${type} ${p.error.name}` : type)
    } else if (type === "message.part.delta") {
      texts.set(p.partID, (texts.get(p.partID) ?? "") + p.delta)
    } else if (type === "message.part.updated") {
      const { part } = p, more = part.state?.status ?? part.reason ?? ""
      if (!("text" in part)) say(`${part.type} ${more}`.trim())
      else if (!texts.has(part.id)) (texts.set(part.id, part.text), say(part.type))
    } else if (type === "message.updated" && p.info.role === "user") {
      if (!p.info.summary) say("prompt")
    } else if (type === "message.updated") {
      const { finish, error, time } = p.info
      if (time.completed) say(`answer is whole ${error?.name ?? finish}`)
      else if (!finish) say("answer")
    }
  }
  return [...lines.filter((line, at) => line !== lines[at - 1]), ...texts.values()]
}
