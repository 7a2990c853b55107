// What both servers are asked, call by call, through the real SDK.
//
// A step is [label, call]; `m` keeps what later steps need. The SDK's second entry point takes flat
// arguments, the first takes path, query and body apart; each drives its own sessions.
import path from "node:path"

const text = (words) => [{ type: "text", text: words }]

/** Steps for `@opencode-ai/sdk/v2`. */
export const second = [
  ["health", (c) => c.global.health()],
  ["path", (c) => c.path.get()],
  ["project.current", (c) => c.project.current()],
  ["project.list", (c) => c.project.list()],
  ["vcs", (c) => c.vcs.get()],
  ["file.list", (c) => c.file.list({ path: "." })],
  ["file.list src", (c) => c.file.list({ path: "src" })],
  ["file.read", (c) => c.file.read({ path: "a.txt" })],
  ["file.read absent", (c) => c.file.read({ path: "nowhere.txt" })],
  ["file.status clean", (c) => c.file.status()],
  ["find.text", (c) => c.find.text({ pattern: "twice" })],
  ["find.files", (c) => c.find.files({ query: "main" })],
  ["find.symbols", (c) => c.find.symbols({ query: "main" })],
  ["session.list empty", (c) => c.session.list()],
  ["session.status idle", (c) => c.session.status()],
  ["permission.list", (c) => c.permission.list()],
  ["question.list", (c) => c.question.list()],
  ["lsp", (c) => c.lsp.status()],
  ["mcp", (c) => c.mcp.status()],
  ["formatter", (c) => c.formatter.status()],
  ["capabilities", (c) => c.experimental.capabilities.get()],
  ["resource", (c) => c.experimental.resource.list()],
  ["worktree.list", (c) => c.worktree.list()],

  ["session.create nothing", async (c, m) => keep(m, "plain", await c.session.create())],
  ["session.create titled", async (c, m) =>
    keep(m, "titled", await c.session.create({ title: "Titled", metadata: { k: 1 }, permission: [{ permission: "bash", pattern: "rm *", action: "deny" }] }))],
  ["session.create child", async (c, m) => keep(m, "child", await c.session.create({ parentID: m.titled.id, title: "kid" }))],
  ["session.create preferring", async (c, m) =>
    keep(m, "preferring", await c.session.create({ agent: "build", model: { id: "scripted", providerID: "scripted" } }))],
  ["session.get", (c, m) => c.session.get({ sessionID: m.titled.id })],
  ["session.children", (c, m) => c.session.children({ sessionID: m.titled.id })],
  ["session.rename", (c, m) => c.session.update({ sessionID: m.titled.id, title: "Renamed" })],
  ["session.archive", (c, m) => c.session.update({ sessionID: m.plain.id, time: { archived: 1700000000000 } })],
  ["session.rules are appended", (c, m) =>
    c.session.update({ sessionID: m.titled.id, permission: [{ permission: "bash", pattern: "mv *", action: "ask" }] })],
  ["session.metadata is replaced", (c, m) => c.session.update({ sessionID: m.titled.id, metadata: { deep: { a: [1, 2.5, null] } } })],
  ["session.list", (c) => c.session.list()],
  ["session.list roots", (c) => c.session.list({ roots: true })],
  ["session.list limit", (c) => c.session.list({ limit: 1 })],
  ["session.list search", (c) => c.session.list({ search: "RENAM" })],
  ["session.list later", (c) => c.session.list({ start: 4102444800000 })],
  ["session.list project", (c) => c.session.list({ scope: "project" })],
  ["session.todo", (c, m) => c.session.todo({ sessionID: m.titled.id })],
  ["session.messages none", (c, m) => c.session.messages({ sessionID: m.titled.id })],

  ["prompt noReply", async (c, m) =>
    keep(m, "first", await c.session.prompt({ sessionID: m.titled.id, noReply: true, parts: text("remember this") }))],
  ["prompt noReply with its own id", (c, m) => {
    m.chosen = m.first.info.id.slice(0, -4) + "zzzz"
    return c.session.prompt({ sessionID: m.titled.id, noReply: true, messageID: m.chosen, parts: text("and this") })
  }],
  ["prompt noReply no parts", (c, m) => c.session.prompt({ sessionID: m.titled.id, noReply: true, parts: [] })],
  ["prompt noReply with a file", (c, m) => c.session.prompt({ sessionID: m.titled.id, noReply: true, parts: [
    ...text("see"), { type: "file", mime: "text/plain", filename: "a.txt", url: `file://${path.join(m.work, "a.txt")}` }] })],
  ["prompt noReply with lines of a file", (c, m) => c.session.prompt({ sessionID: m.titled.id, noReply: true, parts: [
    { type: "file", mime: "text/plain", filename: "a.txt", url: `file://${path.join(m.work, "a.txt")}?start=2&end=3` }] })],
  ["prompt noReply with a directory", (c, m) => c.session.prompt({ sessionID: m.titled.id, noReply: true, parts: [
    { type: "file", mime: "application/x-directory", filename: "src", url: `file://${path.join(m.work, "src")}` }] })],
  ["prompt noReply with a missing file", (c, m) => c.session.prompt({ sessionID: m.titled.id, noReply: true, parts: [
    { type: "file", mime: "text/plain", filename: "no.txt", url: `file://${path.join(m.work, "no.txt")}` }] })],
  ["prompt noReply with an agent", (c, m) => c.session.prompt({ sessionID: m.titled.id, noReply: true, parts: [
    { type: "agent", name: "general", source: { value: "@general", start: 0, end: 8 } }] })],
  ["prompt noReply with data", (c, m) => c.session.prompt({ sessionID: m.titled.id, noReply: true, parts: [
    { type: "file", mime: "text/plain", filename: "n.txt", url: "data:text/plain;base64,aGVsbG8K" }] })],
  ["session.messages", (c, m) => c.session.messages({ sessionID: m.titled.id })],
  ["session.messages newest two", (c, m) => c.session.messages({ sessionID: m.titled.id, limit: 2 })],
  ["session.message", (c, m) => c.session.message({ sessionID: m.titled.id, messageID: m.first.info.id })],
  ["part.update", (c, m) => {
    const part = { ...m.first.parts[0], text: "remember that" }
    return c.part.update({ sessionID: part.sessionID, messageID: part.messageID, partID: part.id, part })
  }],
  ["session.message changed", (c, m) => c.session.message({ sessionID: m.titled.id, messageID: m.first.info.id })],
  ["part.update of another", (c, m) => {
    const part = { ...m.first.parts[0] }
    return c.part.update({ sessionID: part.sessionID, messageID: part.messageID, partID: "prt_000000000000AAAAAAAAAAAAAA", part })
  }],
  ["part.delete", (c, m) => c.part.delete({ sessionID: m.titled.id, messageID: m.first.info.id, partID: m.first.parts[0].id })],
  ["session.deleteMessage", (c, m) => c.session.deleteMessage({ sessionID: m.titled.id, messageID: m.chosen })],
  ["session.messages after", (c, m) => c.session.messages({ sessionID: m.titled.id })],

  ["shell", async (c, m) => keep(m, "shell", await c.session.shell({ sessionID: m.preferring.id, agent: "build", command: "echo hello; printf 'by shell\\n' > made.txt" }))],
  ["shell messages", (c, m) => c.session.messages({ sessionID: m.preferring.id })],
  ["file.status dirty", (c) => c.file.status()],
  ["vcs.status dirty", (c) => c.vcs.status()],
  ["session.diff", (c, m) => c.session.diff({ sessionID: m.preferring.id })],
  ["session.fork", async (c, m) => keep(m, "forked", await c.session.fork({ sessionID: m.titled.id }))],
  ["fork messages", async (c, m) => keep(m, "copied", await c.session.messages({ sessionID: m.forked.id }))],
  ["session.fork again", async (c, m) => keep(m, "again", await c.session.fork({ sessionID: m.forked.id }))],
  ["session.revert", (c, m) => c.session.revert({ sessionID: m.forked.id, messageID: m.copied.at(-2).info.id })],
  ["session.messages reverted", (c, m) => c.session.messages({ sessionID: m.forked.id })],
  ["session.revert further", (c, m) => c.session.revert({ sessionID: m.forked.id, messageID: m.copied.at(-4).info.id })],
  ["session.unrevert", (c, m) => c.session.unrevert({ sessionID: m.forked.id })],
  ["session.unrevert again", (c, m) => c.session.unrevert({ sessionID: m.forked.id })],
  ["session.revert and prompt", (c, m) => c.session.revert({ sessionID: m.forked.id, messageID: m.copied.at(-2).info.id })],
  ["prompt noReply behind a revert", (c, m) => c.session.prompt({ sessionID: m.forked.id, noReply: true, parts: text("instead") })],
  ["session.messages on the branch", (c, m) => c.session.messages({ sessionID: m.forked.id })],
  ["session.revert of a message that is nowhere", (c, m) => c.session.revert({ sessionID: m.forked.id, messageID: "msg_unknown" })],
  ["session.abort", (c, m) => c.session.abort({ sessionID: m.titled.id })],
  ["session.abort unknown", (c) => c.session.abort({ sessionID: "ses_unknown" })],
  ["session.share", (c, m) => c.session.share({ sessionID: m.titled.id })],
  ["session.unshare", (c, m) => c.session.unshare({ sessionID: m.titled.id })],

  ["tui.toast", (c) => c.tui.showToast({ message: "hi", variant: "info" })],
  ["tui.append", (c) => c.tui.appendPrompt({ text: "abc" })],
  ["tui.select", (c, m) => c.tui.selectSession({ sessionID: m.titled.id })],
  ["tui.select unknown", (c) => c.tui.selectSession({ sessionID: "ses_nope" })],
  ["app.log", (c) => c.app.log({ service: "x", level: "info", message: "m" })],

  ["unknown session", (c) => c.session.get({ sessionID: "ses_unknown" })],
  ["malformed session", (c) => c.session.get({ sessionID: "foo" })],
  ["unknown message", (c, m) => c.session.message({ sessionID: m.titled.id, messageID: "msg_unknown" })],
  ["malformed message", (c, m) => c.session.message({ sessionID: m.titled.id, messageID: "foo" })],
  ["missing parts", (c, m) => c.session.prompt({ sessionID: m.titled.id })],
  ["wrong title", (c, m) => c.session.update({ sessionID: m.titled.id, title: 5 })],
  ["unknown permission", (c) => c.permission.reply({ requestID: "per_unknown", reply: "once" })],
  ["unknown question", (c) => c.question.reply({ requestID: "que_unknown", answers: [["A"]] })],
  ["unknown project", (c) => c.project.update({ projectID: "nope", name: "x" })],
  ["project.update", (c, m) => c.project.update({ projectID: m.plain.projectID, name: "golden", icon: { color: "blue" } })],
  ["v2 location", (c) => c.v2.location.get()],
  ["v2 session.list", (c) => c.v2.session.list({ limit: 2 })],
  ["v2 unknown session", (c) => c.v2.session.get({ sessionID: "ses_unknown" })],
  ["v2 malformed session", (c) => c.v2.session.get({ sessionID: "foo" })],
  ["v2 fs.list", (c) => c.v2.fs.list({ path: "src" })],
  ["v2 fs.find", (c) => c.v2.fs.find({ query: "main" })],
  ["session.delete", (c, m) => c.session.delete({ sessionID: m.again.id })],
  ["session.delete twice", (c, m) => c.session.delete({ sessionID: m.again.id })],
  ["session.delete parent", (c, m) => c.session.delete({ sessionID: m.titled.id })],
  ["session.get child of it", (c, m) => c.session.get({ sessionID: m.child.id })],
  ["session.list at the end", (c) => c.session.list()],
]

/** Steps for `@opencode-ai/sdk`. */
export const first = [
  ["v1 project.current", (c) => c.project.current()],
  ["v1 path", (c) => c.path.get()],
  ["v1 session.create", async (c, m) => keep(m, "one", await c.session.create({ body: { title: "v1" } }))],
  ["v1 session.get", (c, m) => c.session.get({ path: { id: m.one.id } })],
  ["v1 session.update", (c, m) => c.session.update({ path: { id: m.one.id }, body: { title: "v1 renamed" } })],
  ["v1 session.prompt noReply", async (c, m) =>
    keep(m, "said", await c.session.prompt({ path: { id: m.one.id }, body: { noReply: true, parts: text("by the first") } }))],
  ["v1 session.messages", (c, m) => c.session.messages({ path: { id: m.one.id } })],
  ["v1 session.message", (c, m) => c.session.message({ path: { id: m.one.id, messageID: m.said.info.id } })],
  ["v1 session.todo", (c, m) => c.session.todo({ path: { id: m.one.id } })],
  ["v1 session.children", (c, m) => c.session.children({ path: { id: m.one.id } })],
  ["v1 session.fork", (c, m) => c.session.fork({ path: { id: m.one.id }, body: {} })],
  ["v1 session.shell", (c, m) => c.session.shell({ path: { id: m.one.id }, body: { agent: "build", command: "echo v1" } })],
  ["v1 session.abort", (c, m) => c.session.abort({ path: { id: m.one.id } })],
  ["v1 file.read", (c) => c.file.read({ query: { path: "a.txt" } })],
  ["v1 find.files", (c) => c.find.files({ query: { query: "lib" } })],
  ["v1 session.delete", (c, m) => c.session.delete({ path: { id: m.one.id } })],
  ["v1 unknown session", (c) => c.session.get({ path: { id: "ses_unknown" } })],
]

function keep(m, name, answer) {
  if (answer.data) m[name] = answer.data
  return answer
}

/** Runs the steps; resolves to [{label, status, body}]. A call the SDK throws on has status 0. */
export async function run(client, steps, memory) {
  const answers = []
  for (const [label, call] of steps) {
    let answer
    try {
      const { data, error, response } = await call(client, memory)
      answer = { label, status: response?.status ?? 0, body: data ?? error ?? null }
      if (error instanceof Error) answer.body = { thrown: error.message, cause: error.cause?.body ?? null }
    } catch (error) {
      answer = { label, status: 0, body: { thrown: error.message } }
    }
    answers.push(answer)
  }
  return answers
}
