// Lets a real `opencode` read the data in OUT, upgrading it if it is older, and prints its exports.
//
//   node reexport.mjs BINARY OUT ID…      writes OUT/upgraded/<id>.json
import fs from "node:fs"
import path from "node:path"
import { environment, run } from "./run-opencode.mjs"

const [binary, out, ...ids] = process.argv.slice(2)
fs.mkdirSync(path.join(out, "upgraded"), { recursive: true })
for (const id of ids)
  fs.writeFileSync(path.join(out, "upgraded", `${id}.json`), await run(binary, out, environment(out), ["export", id]))
