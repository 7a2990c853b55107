// Foreign web pages in a real Chromium, against `turnstone serve`: every way in which a page can send a request.
//
//   node foreign-pages.mjs TURNSTONE CHROMIUM OUT
//
// Prints {attacks, forbidden, foreign, revealed, rebound, changed, typed, allowed}: how many attacks ran, how many requests
// the server refused with 403, which requests of foreign pages got any other status, what they could read, the status
// of a page whose name was pointed at the server, which servers stored anything, into whose terminals a page typed, and what allowed pages could do. The server's own log of requests is the evidence.
import { spawn } from "node:child_process"
import fs from "node:fs"
import http from "node:http"
import path from "node:path"
import { chromium } from "playwright-core"
import { environment, prepare } from "./servers.mjs"

const [turnstone, browserPath, out] = process.argv.slice(2)
const SECRET = "the-title-of-a-session", USER = "opencode", PASSWORD = "s3cret"

/** Serves empty pages on every path; resolves to its port. Pages get their scripts from the test. */
async function servePages() {
  const server = http.createServer((_, answer) => answer.writeHead(200, { "content-type": "text/html" }).end("<!doctype html><title>page</title>"))
  await new Promise((ready) => server.listen(0, "0.0.0.0", ready))
  return { port: server.address().port, close: () => (server.closeAllConnections(), server.close()) }
}

/** Starts a server that logs every request; `lines()` gives what it logged since the last call. */
async function serve(name, cors, env = {}) {
  const places = prepare(path.join(out, name)), args = ["-v", "serve", "--port", "0", "--hostname", "127.0.0.1"]
  const child = spawn(turnstone, [...args, ...cors.flatMap((origin) => ["--cors", origin])], { cwd: places.work, env: { ...environment(places.home), ...env } })
  process.on("exit", () => child.kill("SIGKILL"))
  let log = "", taken = 0
  const url = await new Promise((ready, failed) => {
    const late = setTimeout(() => failed(new Error(`the server did not start: ${log}`)), 60000)
    child.on("exit", (code) => failed(new Error(`the server ended with ${code}: ${log}`)))
    for (const stream of [child.stdout, child.stderr])
      stream.on("data", (chunk) => {
        log += chunk
        const found = /http:\/\/127\.0\.0\.1:\d+/.exec(log)
        if (found) (clearTimeout(late), ready(found[0]))
      })
  })
  // The browser itself asks for the icon of a page that is shown, a refusal included.
  const all = () => [...log.matchAll(/\b([A-Z]+) (\/\S*) (\d{3}) in \d+ ms/g)].map(([, method, route, status]) => ({ method, route, status: Number(status) })).filter(({ route }) => route !== "/favicon.ico")
  const lines = () => { const every = all(), fresh = every.slice(taken); taken = every.length; return fresh }
  const headers = env.OPENCODE_SERVER_PASSWORD ? { authorization: `Basic ${Buffer.from(`${USER}:${PASSWORD}`).toString("base64")}` } : {}
  const ask = async (route, init = {}) => (await fetch(url + route, { ...init, headers: { "content-type": "application/json", ...headers } })).json()
  // Everything the ledger holds: whatever is stored adds to it.
  const state = async () => JSON.stringify(await Promise.all(["/session", "/project", "/turnstone/log?limit=500", "/turnstone/runner"].map((route) => ask(route))))
  return { url, places, lines, ask, state, stop: () => new Promise((gone) => (child.removeAllListeners("exit"), child.on("exit", gone), child.kill("SIGTERM"))) }
}

/** What a page tries; runs inside the page. Each reaches the server at least once. */
const ATTACKS = {
  "fetch cors": (url) => fetch(`${url}/session`).then((answer) => answer.text(), () => "refused"),
  "fetch with credentials": (url) => fetch(`${url}/session`, { credentials: "include" }).then((answer) => answer.text(), () => "refused"),
  "fetch no-cors": (url) => fetch(`${url}/vcs/status`, { mode: "no-cors", credentials: "include" }).then((answer) => answer.text(), () => "refused"),
  "fetch no-cors POST": (url) => fetch(`${url}/session`, { mode: "no-cors", method: "POST", credentials: "include", headers: { "content-type": "text/plain" }, body: "{}" }).then((answer) => answer.text(), () => "refused"),
  "fetch JSON POST (preflight)": (url) => fetch(`${url}/session`, { method: "POST", headers: { "content-type": "application/json" }, body: "{}" }).then((answer) => answer.text(), () => "refused"),
  "fetch DELETE (preflight)": (url) => fetch(`${url}/experimental/worktree`, { method: "DELETE", body: "{}" }).then((answer) => answer.text(), () => "refused"),
  "XMLHttpRequest": (url) => new Promise((done) => {
    const request = new XMLHttpRequest()
    request.withCredentials = true
    request.onload = () => done(request.responseText)
    request.onerror = () => done("refused")
    request.open("GET", `${url}/config`)
    request.send()
  }),
  "image": (url) => new Promise((done) => Object.assign(new Image(), { onload: () => done("loaded"), onerror: () => done("refused"), src: `${url}/file/content?path=a.txt` })),
  "script": (url) => new Promise((done) => document.head.append(Object.assign(document.createElement("script"), { onload: () => done("loaded"), onerror: () => done("refused"), src: `${url}/api/fs/read/a.txt` }))),
  "style sheet": (url) => new Promise((done) => document.head.append(Object.assign(document.createElement("link"), { rel: "stylesheet", onload: () => done("loaded"), onerror: () => done("refused"), href: `${url}/path` }))),
  "iframe": (url) => new Promise((done) => document.body.append(Object.assign(document.createElement("iframe"), { onload: () => done("refused"), src: `${url}/session` }))),
  "sandboxed iframe (origin null)": (url) => new Promise((done) => {
    addEventListener("message", ({ data }) => done(data), { once: true })
    const frame = Object.assign(document.createElement("iframe"), { sandbox: "allow-scripts" })
    frame.srcdoc = `<script>fetch(${JSON.stringify(url)} + "/session").then((answer) => answer.text(), () => "refused").then((text) => parent.postMessage(text, "*"))</${"script"}>`
    document.body.append(frame)
  }),
  "form GET": (url) => submit(url, "GET", "/project/current"),
  "form POST of JSON as text": (url) => submit(url, "POST", "/session"),
  "EventSource": (url) => new Promise((done) => {
    const source = new EventSource(`${url}/global/event`, { withCredentials: true })
    source.onmessage = ({ data }) => (source.close(), done(data))
    source.onerror = () => (source.close(), done("refused"))
  }),
  "WebSocket": (url) => new Promise((done) => {
    const socket = new WebSocket(`${url.replace("http", "ws")}/api/pty/x/connect`)
    socket.onopen = () => done("open")
    socket.onerror = () => done("refused")
  }),
  "WebSocket of a terminal": (url, terminal) => new Promise((done) => {
    const socket = new WebSocket(`${url.replace("http", "ws")}/pty/${terminal}/connect`)
    socket.onopen = () => (socket.send("typed by a page\r"), done("open"))
    socket.onerror = () => done("refused")
  }),
  "ticket of a terminal (preflight)": (url, terminal) => fetch(`${url}/pty/${terminal}/connect-token`, { method: "POST", credentials: "include", headers: { "x-opencode-ticket": "1" } }).then((answer) => answer.text(), () => "refused"),
  "beacon": (url) => (navigator.sendBeacon(`${url}/session`, new Blob(["{}"], { type: "text/plain" })), "refused"),
}

/** Submits a form into a frame; defined in every page. */
function submit(url, method, route) {
  return new Promise((done) => {
    const frame = Object.assign(document.createElement("iframe"), { name: `f${Math.random()}` })
    const form = Object.assign(document.createElement("form"), { method, action: url + route, target: frame.name, enctype: "text/plain" })
    form.append(Object.assign(document.createElement("input"), { name: '{"title":"by a form","x":"', value: '"}' }))
    document.body.append(frame, form)
    // Both come: the blank document of a new frame is not always announced.
    frame.onload = () => frame.contentWindow && done("refused")
    form.submit()
  })
}

/** Waits until the server has logged `count` requests since the last look. */
async function logged(server, count) {
  const seen = []
  for (let waited = 0; ; waited += 20) {
    seen.push(...server.lines())
    if (seen.length >= count) return seen
    if (waited > 30000) throw new Error(`only ${seen.length} of ${count} requests reached the server: ${JSON.stringify(seen)}`)
    await new Promise((done) => setTimeout(done, 20))
  }
}

const report = { attacks: 0, forbidden: 0, foreign: [], revealed: [], allowed: [], changed: [] }

/** Lets a page of `origin` try everything on a server; what it read and what the server answered go to the report. */
async function attack(context, server, origin) {
  server.lines()
  const page = await context.newPage()
  const record = (name, lines, seen) => {
    report.attacks += 1
    report.forbidden += lines.filter(({ status }) => status === 403).length
    report.foreign.push(...lines.filter(({ status }) => status !== 403).map((line) => ({ origin, name, ...line })))
    if (seen.some((text) => text !== "refused" && text !== "" && !/ForbiddenOrigin/.test(text)) || seen.some((text) => text.includes(SECRET)))
      report.revealed.push({ origin, name, seen })
  }
  for (const [name, run] of Object.entries(ATTACKS)) {
    await page.goto(origin)
    const result = await page.evaluate(`(() => { ${submit}; return (${run})(${JSON.stringify(server.url)}, ${JSON.stringify(server.terminal)}) })()`)
    const lines = await logged(server, 1)
    const frames = page.frames().slice(1).filter((frame) => frame.url().startsWith(server.url))
    record(name, lines, [String(result), ...(await Promise.all(frames.map((frame) => frame.content())))])
  }
  // The page sends its own tab, and a new one, to the server.
  await page.goto(origin)
  const navigated = page.waitForURL(`${server.url}/session`)
  await page.evaluate((url) => { location.href = `${url}/session` }, server.url)
  await navigated
  record("navigation", await logged(server, 1), [await page.content()])
  await page.goto(origin)
  const opened = page.waitForEvent("popup")
  await page.evaluate((url) => { open(`${url}/config`) }, server.url)
  const popup = await opened
  await popup.waitForLoadState()
  record("new window", await logged(server, 1), [await popup.content()])
  await popup.close()
  await page.close()
}

const pages = await servePages()
const allowed = `http://localhost:${pages.port}`
// The second has no `--cors`, and a password that the user has already given to the browser.
const open = await serve("open", [allowed])
const locked = await serve("locked", [], { OPENCODE_SERVER_PASSWORD: PASSWORD, OPENCODE_SERVER_USERNAME: USER })
for (const server of [open, locked]) {
  await server.ask("/session", { method: "POST", body: JSON.stringify({ title: SECRET }) })
  // What somebody types into its terminal ends in a file.
  server.typed = path.join(server.places.work, "typed")
  const command = { command: "/bin/sh", args: ["-c", `read line; echo "$line" > typed; sleep 600`] }
  server.terminal = (await server.ask("/pty", { method: "POST", body: JSON.stringify(command) })).id
}

const browser = await chromium.launch({
  executablePath: browserPath,
  args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--host-resolver-rules=MAP *.example 127.0.0.1"],
})
try {
  const context = await browser.newContext()
  const before = [await open.state(), await locked.state()]

  // The user signs in at the server's own origin; from then on the browser adds the password by itself.
  const own = await context.newPage()
  await own.goto(locked.url.replace("//", `//${USER}:${PASSWORD}@`) + "/global/health")
  const signedIn = await own.goto(`${locked.url}/global/health`)
  if (signedIn.status() !== 200) throw new Error(`the browser does not keep the password: ${signedIn.status()}`)

  // Another port of the same address is same-site; other names are cross-site.
  await Promise.all([open, locked].map(async (server) => {
    for (const name of ["127.0.0.1", "evil.example"]) await attack(context, server, `http://${name}:${pages.port}/`)
  }))

  // A name of the attacker's that leads to the server itself.
  open.lines()
  const rebound = await own.goto(`http://evil.example:${new URL(open.url).port}/session`)
  report.rebound = rebound.status()
  await logged(open, 1)

  const after = [await open.state(), await locked.state()]
  report.changed = ["open", "locked"].filter((_, at) => before[at] !== after[at])
  report.typed = ["open", "locked"].filter((_, at) => fs.existsSync([open, locked][at].typed))

  // Pages that may ask: the server's own origin, with and without password, and the one named by --cors.
  const read = async (page, url) => ({
    listed: (await page.evaluate((at) => fetch(`${at}/session`).then((answer) => answer.text()), url)).includes(SECRET),
    posted: await page.evaluate((at) => fetch(`${at}/session`, { method: "POST", headers: { "content-type": "application/json" }, body: "{}" }).then((answer) => answer.status), url),
    streamed: await page.evaluate((at) => new Promise((done) => {
      const source = new EventSource(`${at}/global/event`)
      source.onmessage = ({ data }) => (source.close(), done(JSON.parse(data).payload.type))
      source.onerror = () => (source.close(), done("refused"))
    }), url),
  })
  for (const [at, url] of [[`${open.url}/global/health`, open.url], [`${locked.url}/global/health`, locked.url], [`${allowed}/`, open.url]]) {
    await own.goto(at)
    const terminal = (url === locked.url ? locked : open).terminal
    const attached = await own.evaluate(`(${ATTACKS["WebSocket of a terminal"]})(${JSON.stringify(url)}, ${JSON.stringify(terminal)})`)
    report.allowed.push({ ...(await read(own, url)), attached })
  }
} finally {
  await browser.close()
  await Promise.all([open.stop(), locked.stop()])
  pages.close()
}
fs.writeFileSync(path.join(out, "pages.json"), JSON.stringify(report, null, 1))
console.log(JSON.stringify(report, null, 2))
