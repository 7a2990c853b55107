// A scripted model: an OpenAI-compatible server on loopback that plays what the prompt tells it to.
//
// The newest user text that contains `[[ step, step, … ]]` (JSON objects) is the script; the n-th model
// call after it plays the n-th step. A step: {text?, reasoning?, tools?: [{name, args}], status?, error?,
// hangs?}; one that hangs says its text and then nothing more. A prompt with the words `play NAME` plays the
// script of that name instead, if the server was started with one.
import http from "node:http"

const words = (content) =>
  typeof content === "string" ? content
  : Array.isArray(content) ? content.map((part) => part.text ?? "").join("\n")
  : ""

function scriptOf(messages, named) {
  for (let at = messages.length - 1; at >= 0; at--) {
    if (messages[at].role !== "user") continue
    const text = words(messages[at].content)
    const steps = named[/play ([a-z]+)/.exec(text)?.[1]]
    if (steps) return { steps, at }
    const found = /\[\[([\s\S]*)\]\]/.exec(text)
    if (found) return { steps: JSON.parse(`[${found[1]}]`), at }
  }
  return { steps: [], at: messages.length - 1 }
}

function stepFor(body, named) {
  const { steps, at } = scriptOf(body.messages ?? [], named)
  if (!body.tools?.length) return { text: "A generated title" }
  const done = body.messages.slice(at + 1).filter((message) => message.role === "assistant").length
  return steps[done] ?? { text: "All steps are done." }
}

function play(res, step, id, model) {
  const send = (delta, finish = null, more = {}) =>
    res.write(`data: ${JSON.stringify({
      id, object: "chat.completion.chunk", created: 1, model,
      choices: [{ index: 0, delta, finish_reason: finish }], ...more,
    })}\n\n`)
  send({ role: "assistant", content: "" })
  if (step.reasoning) send({ reasoning_content: step.reasoning })
  if (step.text) send({ content: step.text })
  if (step.hangs) return
  step.tools?.forEach((tool, index) =>
    send({ tool_calls: [{
      index, id: `call_${id}_${index}`, type: "function",
      function: { name: tool.name, arguments: JSON.stringify(tool.args ?? {}) },
    }] }))
  send({}, step.tools ? "tool_calls" : "stop")
  const usage = {
    prompt_tokens: 1200, completion_tokens: 40, total_tokens: 1240,
    prompt_tokens_details: { cached_tokens: 100 },
    completion_tokens_details: { reasoning_tokens: step.reasoning ? 10 : 0 },
  }
  res.write(`data: ${JSON.stringify({ id, object: "chat.completion.chunk", created: 1, model, choices: [], usage })}\n\n`)
  res.end("data: [DONE]\n\n")
}

/** Starts the server on a free port of loopback; resolves to {url, answers, close}: answers of the tools. */
export async function startModel(named = {}) {
  let calls = 0
  const answers = []
  const server = http.createServer(async (req, res) => {
    let text = ""
    for await (const chunk of req) text += chunk
    if (req.method === "GET") return res.end(JSON.stringify({ data: [{ id: "scripted" }] }))
    const body = JSON.parse(text)
    const step = stepFor(body, named)
    if (body.tools?.length) {
      answers.splice(0, answers.length, ...body.messages.filter(({ role }) => role === "tool").map(({ content }) => words(content)))
    }
    if (step.status) {
      res.writeHead(step.status, { "content-type": "application/json" })
      return res.end(JSON.stringify({ error: { message: step.error ?? "scripted failure", type: "scripted" } }))
    }
    res.writeHead(200, { "content-type": "text/event-stream" })
    play(res, step, `chat${++calls}`, body.model)
  })
  await new Promise((ready) => server.listen(0, "127.0.0.1", ready))
  const { port } = server.address()
  return { url: `http://127.0.0.1:${port}/v1`, answers, close: () => (server.closeAllConnections(), server.close()) }
}
