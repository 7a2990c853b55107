// A small agent that knows nothing of Turnstone but its native routes: takes prompts from the inbox, asks an
// OpenAI-compatible model, runs `write` and `bash`, and tells the server of every step before and after it.
import { spawn } from "node:child_process"
import fs from "node:fs"
import path from "node:path"

const TOOLS = ["write", "bash"].map((name) => ({ type: "function", function: { name, parameters: { type: "object" } } }))
const sleep = (ms) => new Promise((done) => setTimeout(done, ms))

/** Runs for the sessions of a directory until it is closed; goes on when the server was started anew. */
export function startRunner({ url, directory, model }) {
  let stopped = false, token
  const headers = { "content-type": "application/json", "x-opencode-directory": encodeURIComponent(directory) }
  async function call(method, route, body, lease) {
    const own = { ...headers, ...(token && { "x-turnstone-token": token }), ...(lease && { "x-turnstone-lease": lease }) }
    const answer = await fetch(url + route, { method, headers: own, body: body && JSON.stringify(body) })
    const text = await answer.text()
    if (!answer.ok) throw Object.assign(new Error(`${method} ${route}: ${answer.status} ${text.slice(0, 400)}`), { status: answer.status })
    return text ? JSON.parse(text) : undefined
  }

  /** Drives one turn to its end, or until somebody else ended it. */
  async function drive(session, begun) {
    const stop = new AbortController()
    const post = (what, body = {}) => call("POST", `/turnstone/session/${session}/turn/${begun.turn}/${what}`, body, begun.lease)
    // A turn that was stopped is over for every call of ours: this is how we hear of it in time.
    const beating = setInterval(() => post("beat").catch((error) => error.status === 410 && stop.abort()), 200)
    try {
      const answer = (request) => call("GET", `/turnstone/session/${session}/request/${request}`)
      const turn = { post, answer, session, directory, model, signal: stop.signal, info: begun.prompt.info, said: [said(begun.prompt)] }
      while (await step(turn)) {
        const { messages } = await post("steer")
        turn.said.push(...messages.map(said))
      }
      await post("end", { outcome: "completed" })
    } catch (error) {
      if (stop.signal.aborted || error.status === 410) return
      const failure = error.failure ?? { name: "UnknownError", data: { message: error.message } }
      await post("end", { outcome: "failed", error: failure }).catch(() => {})
    } finally {
      clearInterval(beating)
    }
  }

  async function serve() {
    // A token of before a restart is worth nothing; registering needs none.
    token = undefined
    const registered = await call("POST", "/turnstone/runner", { name: "scripted", directory })
    const { runner } = registered
    token = registered.token
    while (!stopped) {
      const { sessions } = await call("GET", `/turnstone/runner/${runner.id}/inbox?wait=2000`)
      for (const session of sessions) {
        const begun = await call("POST", `/turnstone/session/${session}/turn`, {}).catch((error) => {
          if (error.status !== 409) throw error
        })
        if (begun?.turn) drive(session, begun)
      }
    }
    await call("DELETE", `/turnstone/runner/${runner.id}`)
  }
  const serving = (async () => {
    // A server that was killed comes back, and does not know us any more.
    while (!stopped) await serve().catch(() => sleep(100))
  })()
  return { close: () => ((stopped = true), serving) }
}

/** A prompt as the model reads it. */
const said = ({ parts }) => ({ role: "user", content: parts.filter((part) => part.type === "text").map((part) => part.text).join("\n") })

/** One model call and its tools; true if the model wants to go on. */
async function step(turn) {
  const { providerID, modelID } = turn.info.model
  const asked = await fetch(`${turn.model}/chat/completions`, {
    method: "POST", signal: turn.signal, headers: { "content-type": "application/json", authorization: "Bearer none" },
    body: JSON.stringify({ model: modelID, stream: true, messages: turn.said, tools: TOOLS }),
  })
  if (!asked.ok) throw await refused(asked)
  const { messageID } = await turn.post("step", { providerID, modelID, agent: turn.info.agent })
  const put = (part) => turn.post(`step/${messageID}/part`, part)
  const open = {}, tools = []
  let reason, usage
  const add = async (type, text) => {
    if (type === "text" && open.reasoning) await seal("reasoning")
    open[type] ??= { ...(await put({ type, text: "", time: { start: Date.now() } })), text: "" }
    open[type].text += text
    await turn.post("delta", { partID: open[type].id, text })
  }
  const seal = async (type) => {
    const part = open[type]
    delete open[type]
    if (part) await put({ ...part, time: { ...part.time, end: Date.now() } })
  }
  for await (const chunk of chunks(asked.body)) {
    usage = chunk.usage ?? usage
    const { delta, finish_reason: finish } = chunk.choices[0] ?? {}
    reason = finish ?? reason
    if (delta?.reasoning_content) await add("reasoning", delta.reasoning_content)
    if (delta?.content) await add("text", delta.content)
    for (const { id, function: { name, arguments: input } } of delta?.tool_calls ?? []) {
      const pending = { type: "tool", callID: id, tool: name, state: { status: "pending", input: {}, raw: "" } }
      tools.push({ id, name, input, part: await put(pending) })
    }
  }
  for (const tool of tools) await run(turn, messageID, tool, () => seal("text"))
  await seal("reasoning")
  await seal("text")
  await turn.post(`step/${messageID}/end`, { reason: reason.replace("_", "-"), cost: 0, tokens: tokens(usage) })
  const calls = tools.map(({ id, name, input }) => ({ id, type: "function", function: { name, arguments: input } }))
  turn.said.push({ role: "assistant", content: "", ...(calls.length && { tool_calls: calls }) })
  turn.said.push(...tools.map(({ id, answer }) => ({ role: "tool", tool_call_id: id, content: answer })))
  return reason === "tool_calls" && !tools.some((tool) => tool.rejected)
}

/** Announces a tool, asks if it may, runs it, and tells what came of it. */
async function run(turn, messageID, tool, begun) {
  const input = JSON.parse(tool.input), { touches, wants, work } = TOOL[tool.name] ?? TOOL.unknown
  await turn.post("tool", { messageID, partID: tool.part.id, callID: tool.id, tool: tool.name, input, touches: touches(input) })
  await begun()
  const ask = wants && { ...wants(input), tool: { messageID, callID: tool.id }, waits: true }
  tool.rejected = ask && !(await allowed(turn, ask))
  const done = tool.rejected ? { error: REJECTED } : await work(input, turn).catch((error) => ({ error: error.message }))
  await turn.post(`tool/${tool.part.id}/end`, done)
  tool.answer = done.output ?? done.error
}

const REJECTED = "The user rejected permission to use this specific tool call."

/** True if the rules allow it, or a person does. */
async function allowed(turn, ask) {
  const { verdict, requestID } = await turn.post("permission", ask)
  if (verdict !== "pending") return verdict === "allowed"
  for (;;) {
    const { is, reply } = await turn.answer(requestID)
    if (is === "pending") await sleep(50)
    else return await turn.post("continue"), reply !== undefined && reply !== "reject"
  }
}

const TOOL = {
  write: {
    touches: ({ filePath }) => ({ paths: [filePath] }),
    work: async ({ filePath, content }, { directory }) => {
      const exists = fs.existsSync(filePath)
      fs.mkdirSync(path.dirname(filePath), { recursive: true })
      fs.writeFileSync(filePath, content)
      const metadata = { diagnostics: {}, filepath: filePath, exists, truncated: false }
      return { output: "Wrote file successfully.", title: path.relative(directory, filePath), metadata }
    },
  },
  bash: {
    touches: () => "anything",
    wants: ({ command }) => ({ permission: "bash", patterns: [command], always: [`${command.split(" ")[0]} *`], metadata: { command } }),
    work: ({ command }, { session, directory, signal }) => new Promise((done) => {
      // A `turnstone` that the command starts knows by this that it is a tool and not a person.
      const env = { ...process.env, TURNSTONE_SESSION: session }
      const child = spawn("/bin/bash", ["-c", command], { cwd: directory, env, signal, stdio: ["ignore", "pipe", "pipe"] })
      let output = ""
      for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (output += chunk))
      child.on("error", (error) => done({ error: error.message }))
      child.on("close", (exit) => ((output ||= "(no output)"), done({ output, title: command, metadata: { output, exit, truncated: false } })))
    }),
  },
  unknown: { touches: () => "nothing", work: async () => ({ error: "there is no such tool" }) },
}

/** The pieces of a streamed answer. */
async function* chunks(body) {
  let rest = ""
  for await (const bytes of body.pipeThrough(new TextDecoderStream())) {
    const lines = (rest + bytes).split("\n")
    rest = lines.pop()
    for (const line of lines) if (line.startsWith("data: {")) yield JSON.parse(line.slice(6))
  }
}

function tokens({ prompt_tokens: read, completion_tokens: wrote, total_tokens: total, ...more }) {
  const cached = more.prompt_tokens_details?.cached_tokens ?? 0, thought = more.completion_tokens_details?.reasoning_tokens ?? 0
  return { total, input: read - cached, output: wrote - thought, reasoning: thought, cache: { read: cached, write: 0 } }
}

/** What clients are shown when the provider refuses. */
async function refused(answer) {
  const responseBody = await answer.text()
  const { message } = JSON.parse(responseBody).error
  const data = { message, statusCode: answer.status, isRetryable: false, responseHeaders: Object.fromEntries(answer.headers), responseBody, metadata: { url: answer.url } }
  return Object.assign(new Error(message), { failure: { name: "APIError", data } })
}
