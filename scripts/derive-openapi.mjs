#!/usr/bin/env node
// Derives crates/server/src/doc/opencode.json from a recorded OpenAPI document of OpenCode.
//
//   scripts/derive-openapi.mjs RECORDED
//
// Kept: paths, parameters, schemas. Left out: every sentence of the other project. Rewritten: what an
// error looks like here, which routes are not offered, and what our ids are made of.
import { readFileSync, writeFileSync } from "node:fs";

const root = new URL("..", import.meta.url);
const recorded = JSON.parse(readFileSync(process.argv[2], "utf8"));
const table = readFileSync(new URL("crates/server/src/route/not_offered.rs", root), "utf8");
const notOffered = new Set(
  [...table.matchAll(/\(\s*"([A-Z]+)",\s*"([^"]+)",\s*"[^"]+",?\s*\)/g)].map(([, method, path]) => `${method} ${path}`),
);

const ids = Object.fromEntries(
  ["ses", "msg", "prt", "evt", "per", "que", "pty", "wrk"].flatMap((prefix) => [
    [`^${prefix}`, `^${prefix}_[A-Za-z0-9_-]{1,64}$`],
    [`^${prefix}_`, `^${prefix}_[A-Za-z0-9_-]{1,64}$`],
  ]),
);

// Words of others, and the promise that nothing is ever added to an object.
function clean(value) {
  if (Array.isArray(value)) return value.map(clean);
  if (value === null || typeof value !== "object") return value;
  const out = {};
  for (const [key, inner] of Object.entries(value)) {
    if (["description", "summary", "title", "example"].includes(key) && typeof inner === "string") continue;
    if (key === "examples" || key.startsWith("x-")) continue;
    if (key === "additionalProperties" && inner === false) continue;
    if (key === "pattern" && ids[inner]) out[key] = ids[inner];
    else out[key] = clean(inner);
  }
  return out;
}

const words = {
  200: "Done", 204: "Done, nothing to say", 400: "The request is not of the shape it must have",
  401: "A password is needed", 403: "A rule forbids it", 404: "Something that was named is not there", 409: "It would disturb something, or rests on an old state",
  413: "Too large", 500: "Something went wrong here", 501: "Not offered by this server",
  503: "Not at the moment: too much to do, no runner, or the database cannot write", 507: "No space left on the disk, or in the budget of undo data",
};
const error = (status) => ({ $ref: `#/components/responses/Refusal${status}` });
const refusals = Object.fromEntries(
  [400, 401, 403, 404, 409, 413, 500, 501, 503, 507].map((status) => [
    `Refusal${status}`,
    { description: words[status], content: { "application/json": { schema: { $ref: "#/components/schemas/Refusal" } } } },
  ]),
);
const text = { type: "string" };
const named = (name, data) => ({
  type: "object", required: ["name", "data"],
  properties: { name: { type: "string", enum: [name] }, data: { type: "object", required: ["message"], properties: { message: text, ...data } } },
});
const errors = {
  NotFoundError: named("NotFoundError", {}),
  BadRequestError: named("BadRequest", { kind: { type: "string", enum: ["Params", "Query", "Payload"] } }),
  NotOfferedError: named("NotOfferedError", {}),
  UnknownError: named("UnknownError", { ref: text }),
  TaggedError: { type: "object", required: ["_tag"], properties: { _tag: text, message: text } },
  RepositoryError: {
    type: "object", properties: { _tag: { const: "RepositoryError" }, message: { type: "string", description: "Why, in the words of git where it has some, and a hint what to do" } },
    required: ["_tag", "message"], description: "The repository of the directory is damaged, too large to be compared in time, or must not be used",
  },
  GitError: { type: "object", properties: { _tag: { const: "GitError" }, message: text }, required: ["_tag", "message"], description: "Git is missing or too old" },
  Refusal: { anyOf: ["NotFoundError", "BadRequestError", "NotOfferedError", "UnknownError", "TaggedError"].map((n) => ({ $ref: `#/components/schemas/${n}` })) },
};

refusals.RepositoryRefusal = {
  description: "The repository of the directory gives no answer or must not be used, or there is no usable git",
  content: { "application/json": { schema: { anyOf: ["RepositoryError", "GitError", "Refusal"].map((n) => ({ $ref: `#/components/schemas/${n}` })) } } },
};

const paths = {};
for (const [path, methods] of Object.entries(recorded.paths)) {
  const place = path === "/api/fs/read/*" ? "/api/fs/read/{path}" : path;
  for (const [method, operation] of Object.entries(methods)) {
    if (!["get", "post", "put", "patch", "delete"].includes(method)) continue;
    const parameters = clean(operation.parameters ?? []).flatMap(spread).map((one) => ({ ...one, schema: shaped(path, one) }));
    if (place !== path) parameters.push({ name: "path", in: "path", required: true, schema: { type: "string", minLength: 1 } });
    const out = { operationId: operation.operationId, tags: [] };
    (paths[place] ??= {})[method] = out;
    if (notOffered.has(`${method.toUpperCase()} ${path}`)) {
      out.tags = ["not offered"];
      out.parameters = parameters.filter((one) => one.in === "path");
      out.responses = { 401: error(401), 501: error(501) };
      continue;
    }
    out.tags = ["opencode"];
    out.parameters = parameters;
    if (operation.requestBody) out.requestBody = lenient(clean(operation.requestBody), method);
    out.responses = {};
    for (const [status, answer] of Object.entries(operation.responses)) {
      if (status >= "300") continue;
      out.responses[status] = { description: words[status] ?? "Done" };
      if (answer.content) out.responses[status].content = clean(answer.content);
    }
    for (const status of [400, 401, 403, 404, 409, 413, 500, 501, 503, 507]) out.responses[status] = error(status);
    const readsRepository = /^\/(vcs(\/(status|diff|diff\/raw))?|file\/status)$/.test(path);
    if (readsRepository) out.responses[409] = { $ref: "#/components/responses/RepositoryRefusal" };
  }
}

// An object in a query is as many words.
function spread(one) {
  if (one.style !== "deepObject") return [one];
  const { style, explode, schema, ...rest } = one;
  return Object.entries(schema.properties).map(([key, inner]) => ({ ...rest, name: `${one.name}[${key}]`, schema: inner }));
}

// Where the recorded document says less, or something else, than is answered.
function shaped(path, { name, schema }) {
  const lists = ["/session", "/experimental/session"];
  const most = Number.MAX_SAFE_INTEGER;
  if (name === "workspace" || (name === "scope" && path !== "/session")) return { type: "string" };
  if (name === "messageID" && path.endsWith("/diff")) return { type: "string", pattern: "^(msg_[A-Za-z0-9_-]{1,64})?$" };
  if (name === "after" && path.endsWith("/history")) return { type: "integer", minimum: "@smallest", maximum: "@largest" };
  if (name === "limit" && path.endsWith("/history")) return { type: "integer", minimum: 1, maximum: 100 };
  if (name === "limit" && path.endsWith("/message")) return { type: "integer", minimum: path.startsWith("/api") ? 1 : 0, maximum: most };
  if (["limit", "start", "cursor"].includes(name) && lists.includes(path)) return { type: "string" };
  if (name === "limit" && path === "/api/fs/find") return { type: "integer", minimum: 0, maximum: 1000 };
  if (name === "limit" && path.startsWith("/api/")) return { type: "integer", minimum: 1, maximum: most };
  if (name === "context" && path === "/vcs/diff") return { type: "integer", minimum: 0, maximum: 2147483647 };
  return schema;
}

// In a body, null is the same as leaving out what may be left out; what is stored as it comes may be anything.
function lenient(body, method) {
  const schema = body.content?.["application/json"]?.schema;
  if (schema) body.content["application/json"].schema = loosen(schema);
  body.required = method === "patch" || needs(schema);
  return body;
}

function needs(schema) {
  if (!schema) return false;
  if (schema.$ref) return needs(recorded.components.schemas[schema.$ref.split("/").pop()]);
  return (schema.required ?? []).length > 0 || (schema.anyOf ?? []).length > 0;
}

function loosen(schema) {
  if (Array.isArray(schema)) return schema.map(loosen);
  if (schema === null || typeof schema !== "object") return schema;
  if (schema.$ref) return loosen(clean(recorded.components.schemas[schema.$ref.split("/").pop()]));
  const out = {};
  for (const [key, inner] of Object.entries(schema)) {
    if (key !== "properties") {
      out[key] = ["enum", "required", "const"].includes(key) ? inner : loosen(inner);
      continue;
    }
    out.properties = {};
    for (const [name, one] of Object.entries(inner)) {
      if (name === "source") out.properties[name] = {};
      else if ((schema.required ?? []).includes(name)) out.properties[name] = loosen(one);
      else out.properties[name] = { anyOf: [loosen(one), { type: "null" }] };
    }
  }
  return out;
}

const schemas = { ...clean(recorded.components.schemas), ...errors };
for (const name of ["SessionsResponse", "SessionMessagesResponse"]) {
  const cursor = { type: ["string", "null"] };
  schemas[name].properties.cursor.properties = { previous: cursor, next: cursor };
}

// With `noReply` the answer to a prompt is the prompt.
for (const path of ["/session/{sessionID}/message", "/session/{sessionID}/command"]) {
  const answer = paths[path].post.responses[200].content["application/json"].schema;
  answer.properties.info = { $ref: "#/components/schemas/Message" };
}
const asks = paths["/api/session/{sessionID}/permission"].post.requestBody.content["application/json"].schema;
const call = { type: "object", required: ["type", "messageID", "callID"], properties: { type: { type: "string", enum: ["tool"] }, messageID: { type: "string", pattern: ids["^msg"] }, callID: text } };
asks.properties.source = { anyOf: [call, { type: "null" }] };
// Sizes and titles of terminals have an upper limit here, and a request without a body is refused, as OpenCode does.
for (const prefix of ["/pty", "/api/pty"]) {
  const bodies = [paths[prefix].post.requestBody, paths[`${prefix}/{ptyID}`].put.requestBody];
  for (const body of bodies) {
    body.required = true;
    body.content["application/json"].schema.properties.title.anyOf[0].maxLength = 1000;
  }
  const { size } = bodies[1].content["application/json"].schema.properties;
  for (const side of ["rows", "cols"]) size.anyOf[0].properties[side].maximum = 4096;
}
// Only absolute paths are directories.
for (const body of [paths["/experimental/worktree"].delete.requestBody, paths["/experimental/worktree/reset"].post.requestBody]) {
  body.content["application/json"].schema.properties.directory.pattern = "^/";
}
// Outside of a repository there is no branch.
const textOrNull = { anyOf: [text, { type: "null" }] };
schemas.VcsInfo = { type: "object", properties: { branch: textOrNull, default_branch: textOrNull }, required: ["branch", "default_branch"] };
const replay = paths["/sync/replay"].post.requestBody.content["application/json"].schema;
replay.properties.events.items.properties.aggregateID = { type: "string", pattern: ids["^ses"] };
paths["/sync/history"].post.requestBody.content["application/json"].schema = { type: "object", additionalProperties: { type: "number" } };
for (const name of Object.keys(schemas).filter((name) => name.startsWith("OutputFormat"))) schemas[name] = loosen(schemas[name]);

// Only what is used, from the routes inwards.
const used = new Set();
const visit = (value) => {
  if (value === null || typeof value !== "object") return;
  const name = typeof value.$ref === "string" ? value.$ref.split("/").pop() : undefined;
  if (name && !used.has(name)) {
    used.add(name);
    visit(schemas[name]);
  }
  Object.values(value).forEach(visit);
};
visit(paths);
visit(refusals);
const kept = Object.fromEntries(Object.entries(schemas).filter(([name]) => used.has(name)).sort());
// One line for each path and each schema: short enough to carry, and a change can be read.
const lines = (map) => Object.entries(map).map(([key, value]) => `${JSON.stringify(key)}: ${JSON.stringify(value)}`).join(",\n");
const out = `{"paths": {\n${lines(paths)}\n},\n"components": {"responses": {\n${lines(refusals)}\n},\n"schemas": {\n${lines(kept)}\n}}}\n`;
// A number JavaScript does not have.
writeFileSync(new URL("crates/server/src/doc/opencode.json", root), out.replaceAll('"@largest"', "9223372036854775807").replaceAll('"@smallest"', "-9223372036854775808"));
