// A scripted model that speaks OpenAI's Responses: the n-th call of a conversation plays the n-th step.
//
// A step is {text?, tools?: [{name, args}]} or {name, input} for a custom tool. Keeps what tools answered.
import http from "node:http"

function outputOf(step, call) {
  const items = []
  if (step.text) {
    items.push({
      type: "message", id: `msg_${call}`, role: "assistant", status: "completed",
      content: [{ type: "output_text", text: step.text, annotations: [] }],
    })
  }
  step.tools?.forEach((tool, index) => {
    const ids = { id: `item_${call}_${index}`, call_id: `call_${call}_${index}`, status: "completed", name: tool.name }
    items.push("input" in tool
      ? { type: "custom_tool_call", ...ids, input: tool.input }
      : { type: "function_call", ...ids, arguments: JSON.stringify(tool.args) })
  })
  return items
}

function play(res, step, call, model) {
  const send = (type, more) => res.write(`event: ${type}\ndata: ${JSON.stringify({ type, ...more })}\n\n`)
  const output = outputOf(step, call)
  const response = { id: `resp_${call}`, object: "response", model }
  res.writeHead(200, { "content-type": "text/event-stream" })
  send("response.created", { response: { ...response, status: "in_progress", output: [] } })
  output.forEach((item, at) => {
    send("response.output_item.added", { output_index: at, item: { ...item, status: "in_progress" } })
    send("response.output_item.done", { output_index: at, item })
  })
  const usage = { input_tokens: 100, output_tokens: 20, total_tokens: 120 }
  send("response.completed", { response: { ...response, status: "completed", output, usage } })
  res.end()
}

const isAnswer = (item) => /_call_output$/.test(item.type ?? "")

/** Starts the server on a free port of loopback; resolves to {url, answers, close}. */
export async function startResponsesModel(steps) {
  let calls = 0
  const answers = []
  const server = http.createServer(async (req, res) => {
    let text = ""
    for await (const chunk of req) text += chunk
    if (req.method === "GET") return res.end(JSON.stringify({ data: [], models: [] }))
    const body = JSON.parse(text)
    const done = body.input.filter(isAnswer)
    answers.splice(0, answers.length, ...done.map((item) => JSON.stringify(item.output)))
    // Parallel calls are answered together, so steps are counted by what they asked for.
    let step = 0
    for (let left = done.length; step < steps.length && left >= (steps[step].tools?.length ?? Infinity); step++) {
      left -= steps[step].tools.length
    }
    play(res, steps[step] ?? { text: "All steps are done." }, ++calls, body.model)
  })
  await new Promise((ready) => server.listen(0, "127.0.0.1", ready))
  const close = () => (server.closeAllConnections(), server.close())
  return { url: `http://127.0.0.1:${server.address().port}/v1`, answers, close }
}
