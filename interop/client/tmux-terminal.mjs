// A terminal that a program draws on and a script reads: tmux, with a socket of its own.
import { execFileSync, spawnSync } from "node:child_process"
import path from "node:path"

const sleep = (ms) => new Promise((done) => setTimeout(done, ms))

/** Runs `words` in a terminal of 140 × 45; resolves to {screen, type, press, sees, close}. */
export function terminal(out, words, { cwd, env }) {
  const socket = path.join(out, "tmux.sock")
  const tmux = (...args) => execFileSync("tmux", ["-S", socket, "-f", "/dev/null", ...args], { encoding: "utf8", env: { ...env, TERM: "xterm-256color" } })
  const quoted = words.map((word) => `'${word.replaceAll("'", `'\\''`)}'`).join(" ")
  const variables = Object.entries(env).flatMap(([key, value]) => ["-e", `${key}=${value}`])
  tmux("new-session", "-d", "-s", "t", "-x", "140", "-y", "45", "-c", cwd, ...variables, quoted)
  const screen = () => tmux("capture-pane", "-p", "-t", "t")
  /** Waits until the screen shows `wanted` (or does not, with `gone`). */
  async function sees(wanted, { gone = false, seconds = 120 } = {}) {
    let shown = ""
    for (let tries = 0; tries < seconds * 5; tries++) {
      shown = screen()
      const found = wanted instanceof RegExp ? wanted.test(shown) : shown.includes(wanted)
      if (found !== gone) return shown
      await sleep(200)
    }
    throw new Error(`the terminal ${gone ? "still shows" : "never showed"} ${wanted}:\n${shown.replace(/\n\s*\n+/g, "\n")}`)
  }
  return {
    screen, sees,
    type: async (text) => (tmux("send-keys", "-t", "t", "-l", text), await sleep(400)),
    press: async (...keys) => { for (const key of keys) (tmux("send-keys", "-t", "t", key), await sleep(400)) },
    close: () => spawnSync("tmux", ["-S", socket, "kill-server"]),
  }
}
