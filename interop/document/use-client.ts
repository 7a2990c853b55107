// A client of the generated types: it compiles only if the document is what it should be, and it is run
// against the server that gave the document.
import createClient from "openapi-fetch";
import type { paths } from "./schema.js";

declare const process: { env: Record<string, string | undefined>; exitCode?: number };

const client = createClient<paths>({ baseUrl: process.env.TURNSTONE_URL ?? "" });

function need<T>(what: string, got: { data?: T; error?: unknown }): T {
  if (got.data === undefined) throw new Error(`${what}: ${JSON.stringify(got.error)}`);
  return got.data;
}

const made = need("create", await client.POST("/session", { body: { title: "typed" } }));
const title: string = need("get", await client.GET("/session/{sessionID}", { params: { path: { sessionID: made.id } } })).title;
const listed = need("list", await client.GET("/api/session", { params: { query: { limit: 1 } } }));
const agents = need("agents", await client.GET("/agent"));
const missing = await client.GET("/session/{sessionID}", { params: { path: { sessionID: "ses_none" } } });
if (title !== "typed" || listed.data.length !== 1 || agents[0]?.name !== "build" || missing.response.status !== 404) {
  throw new Error(JSON.stringify({ title, listed, agents, missing: missing.error }));
}
need("delete", await client.DELETE("/session/{sessionID}", { params: { path: { sessionID: made.id } } }));
