// Makes the answers of two servers comparable: what must differ gets a name instead.

const ID = /\b(ses|msg|prt|per|que|evt|wrk|pty)_[0-9A-Za-z]{20,}\b/g
const DAY = /\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT/g
const DATE = /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z/g

/** A normaliser for one server; ids are numbered in the order they are first seen. */
export function normaliser({ work, home }) {
  const names = new Map(), counts = {}
  const name = (id, prefix) => {
    if (prefix === "evt") return "evt#"
    if (!names.has(id)) names.set(id, `${prefix}#${(counts[prefix] = (counts[prefix] ?? 0) + 1)}`)
    return names.get(id)
  }
  const text = (value) => value
    .replaceAll(encodeURIComponent(work), "<project>").replaceAll(work, "<project>").replaceAll(home, "<home>")
    .replace(ID, name).replace(DATE, "<date>").replace(/err_[0-9a-f]{8}/g, "err#")
    .replace(/call_chat\d+_/g, "call_").replace(/http:\/\/127\.0\.0\.1:\d+/g, "<host>").replace(DAY, "<date>")
    .replace(/^index [0-9a-f]+\.\.[0-9a-f]+/gm, "index <objects>")
  const walk = (value, key) => {
    if (typeof value === "number") return value > 1.6e12 && value < 2.5e12 ? "<time>" : value
    if (typeof value === "string") return key === "slug" ? "<slug>" : key === "version" ? "<version>" : text(value)
    if (Array.isArray(value)) return value.map((one) => walk(one))
    // Only Turnstone ends a step that was cut off: that part must not shift the numbers of later ones.
    if (value?.type === "step-finish" && /^(aborted|failed|interrupted)$/.test(value.reason)) names.set(value.id, "prt#cut")
    if (value && typeof value === "object")
      return Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)).map(([k, v]) => [text(k), walk(v, k)]))
    return value
  }
  return walk
}

/** The places where two values differ: [place, theirs, ours]. */
export function differences(theirs, ours, place = "") {
  if (Object.is(theirs, ours)) return []
  const kind = (value) => (Array.isArray(value) ? "list" : value === null ? "null" : typeof value)
  if (kind(theirs) !== kind(ours) || !["list", "object"].includes(kind(theirs))) return [[place, theirs, ours]]
  if (kind(theirs) === "list" && theirs.length !== ours.length) return [[`${place}.length`, theirs, ours]]
  const keys = new Set([...Object.keys(theirs), ...Object.keys(ours)])
  return [...keys].flatMap((key) => differences(theirs[key], ours[key], `${place}.${key}`))
}
