//! The tables, as numbered migrations. A released migration is never edited.

/// One step of the schema, applied in its own transaction.
pub(crate) struct Migration {
    /// The version the file has afterwards.
    pub(crate) version: i64,
    /// What to run.
    pub(crate) sql: &'static str,
}

/// Marks a file as ours: "TURN" in ASCII.
pub(crate) const APPLICATION_ID: i64 = 0x5455_524E;

/// All steps, oldest first.
pub(crate) const MIGRATIONS: &[Migration] = &[
    Migration { version: 1, sql: FIRST_TABLES },
    Migration { version: 2, sql: SEARCH },
    Migration { version: 3, sql: HISTORY },
    Migration { version: 4, sql: CREATION_ORDER },
];

/// The log and the projections.
///
/// `event` is the truth. A payload is stored there once; projection rows index it and point to the
/// event that carries the entity's newest image. A row's `num` is the cursor of the event that first
/// named it, so a rebuild gives the same numbers, and `num` order is the order of the stream.
const FIRST_TABLES: &str = "
CREATE TABLE actor (num INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE) STRICT;
CREATE TABLE event_kind (code INTEGER PRIMARY KEY, name TEXT NOT NULL) STRICT;

CREATE TABLE event (
  cursor INTEGER PRIMARY KEY,
  session INTEGER,
  seq INTEGER,
  sync_seq INTEGER,
  kind INTEGER NOT NULL,
  entity INTEGER NOT NULL,
  actor INTEGER NOT NULL,
  time INTEGER NOT NULL,
  version INTEGER NOT NULL,
  span INTEGER NOT NULL DEFAULT 1,
  payload TEXT,
  refs TEXT,
  text_from INTEGER,
  text_to INTEGER,
  sum INTEGER
) STRICT;
CREATE UNIQUE INDEX event_stream ON event (session, seq) WHERE session IS NOT NULL;
CREATE UNIQUE INDEX event_sync ON event (session, sync_seq) WHERE sync_seq IS NOT NULL;
CREATE INDEX event_global ON event (cursor) WHERE session IS NULL;

CREATE TABLE stream (
  session INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  seq INTEGER NOT NULL DEFAULT 0,
  sync_seq INTEGER NOT NULL DEFAULT -1,
  owner TEXT,
  epoch INTEGER NOT NULL DEFAULT 0,
  compacted_seq INTEGER NOT NULL DEFAULT 0,
  scanned_seq INTEGER NOT NULL DEFAULT 0,
  deleted INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE TABLE chunk (
  num INTEGER PRIMARY KEY,
  part INTEGER NOT NULL,
  start INTEGER NOT NULL,
  text TEXT NOT NULL,
  sum INTEGER
) STRICT;
CREATE UNIQUE INDEX chunk_part ON chunk (part, start);

CREATE TABLE blob (hash BLOB PRIMARY KEY, size INTEGER NOT NULL, data BLOB) STRICT;
CREATE TABLE blob_use (
  hash BLOB NOT NULL, cursor INTEGER NOT NULL, PRIMARY KEY (hash, cursor)
) STRICT, WITHOUT ROWID;
CREATE INDEX blob_use_cursor ON blob_use (cursor);
CREATE TABLE blob_doomed (
  hash BLOB PRIMARY KEY, time INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

CREATE TABLE outbox (
  num INTEGER PRIMARY KEY AUTOINCREMENT,
  session INTEGER NOT NULL,
  cursor INTEGER NOT NULL,
  time INTEGER NOT NULL
) STRICT;
CREATE TABLE consumer (
  name TEXT PRIMARY KEY, cursor INTEGER NOT NULL, time INTEGER NOT NULL,
  resync INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE TABLE idempotency (
  actor INTEGER NOT NULL, key TEXT NOT NULL, result TEXT NOT NULL, time INTEGER NOT NULL,
  PRIMARY KEY (actor, key)
) STRICT, WITHOUT ROWID;
CREATE TABLE share_secret (
  session INTEGER PRIMARY KEY, secret TEXT NOT NULL
) STRICT;
CREATE TABLE purge (
  session INTEGER PRIMARY KEY, time INTEGER NOT NULL, announced INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE TABLE note (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;

CREATE TABLE project (
  num INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  worktree TEXT NOT NULL,
  image INTEGER NOT NULL
) STRICT;
CREATE TABLE project_alias (
  kind TEXT NOT NULL, value TEXT NOT NULL,
  project INTEGER NOT NULL REFERENCES project (num) ON DELETE CASCADE,
  PRIMARY KEY (kind, value, project)
) STRICT, WITHOUT ROWID;

CREATE TABLE session (
  num INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  project INTEGER NOT NULL REFERENCES project (num) ON DELETE CASCADE,
  parent TEXT,
  workspace TEXT,
  directory TEXT NOT NULL,
  path TEXT,
  title TEXT NOT NULL,
  created REAL NOT NULL,
  updated REAL NOT NULL,
  archived REAL,
  actor INTEGER NOT NULL,
  hidden INTEGER NOT NULL DEFAULT 0,
  shared INTEGER NOT NULL DEFAULT 0,
  image INTEGER NOT NULL,
  cost INTEGER NOT NULL DEFAULT 0,
  tokens_input INTEGER NOT NULL DEFAULT 0,
  tokens_output INTEGER NOT NULL DEFAULT 0,
  tokens_reasoning INTEGER NOT NULL DEFAULT 0,
  tokens_cache_read INTEGER NOT NULL DEFAULT 0,
  tokens_cache_write INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX session_updated ON session (updated, num);
CREATE INDEX session_project ON session (project, updated);
CREATE INDEX session_parent ON session (parent) WHERE parent IS NOT NULL;

CREATE TABLE message (
  num INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  session INTEGER NOT NULL REFERENCES session (num) ON DELETE CASCADE,
  role TEXT NOT NULL,
  turn INTEGER,
  created REAL NOT NULL,
  actor INTEGER NOT NULL,
  image INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX message_session ON message (session, num);

CREATE TABLE part (
  num INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  message INTEGER NOT NULL,
  session INTEGER NOT NULL,
  type TEXT NOT NULL,
  tool TEXT,
  open INTEGER NOT NULL DEFAULT 0,
  text_len INTEGER,
  image INTEGER NOT NULL,
  FOREIGN KEY (session, message) REFERENCES message (session, num) ON DELETE CASCADE
) STRICT;
CREATE INDEX part_message ON part (session, message, num);
CREATE INDEX part_open ON part (session) WHERE open = 1;

CREATE TABLE todo (
  session INTEGER PRIMARY KEY REFERENCES session (num) ON DELETE CASCADE,
  image INTEGER NOT NULL
) STRICT;

CREATE TABLE turn (
  num INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  session INTEGER NOT NULL REFERENCES session (num) ON DELETE CASCADE,
  message TEXT NOT NULL,
  state TEXT NOT NULL,
  started INTEGER,
  ended INTEGER,
  image INTEGER NOT NULL,
  status INTEGER
) STRICT;
CREATE INDEX turn_session ON turn (session, num);
CREATE INDEX turn_open ON turn (session) WHERE ended IS NULL;

CREATE TABLE request (
  num INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  session INTEGER NOT NULL REFERENCES session (num) ON DELETE CASCADE,
  kind TEXT NOT NULL,
  pending INTEGER NOT NULL,
  asked INTEGER NOT NULL,
  resolved INTEGER
) STRICT;
CREATE INDEX request_pending ON request (session) WHERE pending = 1;

CREATE TABLE approval (
  project INTEGER NOT NULL REFERENCES project (num) ON DELETE CASCADE,
  permission TEXT NOT NULL,
  pattern TEXT NOT NULL,
  action TEXT NOT NULL,
  granted INTEGER NOT NULL,
  PRIMARY KEY (project, permission, pattern)
) STRICT, WITHOUT ROWID;

CREATE TABLE input (
  num INTEGER PRIMARY KEY,
  message TEXT NOT NULL UNIQUE,
  session INTEGER NOT NULL REFERENCES session (num) ON DELETE CASCADE,
  delivery TEXT NOT NULL,
  admitted INTEGER NOT NULL,
  promoted INTEGER
) STRICT;
CREATE INDEX input_waiting ON input (session, num) WHERE promoted IS NULL;

CREATE TABLE share (
  session INTEGER PRIMARY KEY REFERENCES session (num) ON DELETE CASCADE,
  id TEXT NOT NULL,
  url TEXT NOT NULL,
  image INTEGER NOT NULL
) STRICT;
CREATE TABLE diff (
  session INTEGER PRIMARY KEY REFERENCES session (num) ON DELETE CASCADE,
  image INTEGER NOT NULL
) STRICT;
";

/// The search index: a consumer of the log. Contentless, so the text stays stored once.
///
/// `body` is the text, `camel` the words inside its camelCase identifiers, `scope` the session and
/// the kind as words, so that the index itself narrows by them. FTS5 merges nothing by itself: its
/// merges know no limit, `search::segment_merge` runs them in steps that keep within R23.
const SEARCH: &str = "
CREATE VIRTUAL TABLE search USING fts5(
  body, camel, scope, content='', contentless_delete=1,
  tokenize='unicode61 remove_diacritics 2', detail=full
);
INSERT INTO search (search, rank) VALUES ('pgsz', 16000);
INSERT INTO search (search, rank) VALUES ('automerge', 0);
INSERT INTO search (search, rank) VALUES ('crisismerge', 1999);
INSERT INTO search (search, rank) VALUES ('usermerge', 8);
CREATE TABLE search_doc (
  num INTEGER PRIMARY KEY, session INTEGER NOT NULL, message INTEGER, kind INTEGER NOT NULL,
  image INTEGER NOT NULL, digest INTEGER NOT NULL
) STRICT;
CREATE INDEX search_doc_owner ON search_doc (session, message);
";

/// What calls did to files, and what was done to the history.
///
/// What a change set holds is in its event: the tables only find it. `root` is the store of the
/// files' captures; `opened` and `closed` are places in the log, so that two change sets of one root
/// tell whether they overlapped. `taken` says what is undone of a change set: `paths` is a list,
/// or absent for all of it. A session without a `head` stands at its end.
const HISTORY: &str = "
CREATE TABLE change (
  num INTEGER PRIMARY KEY,
  id TEXT NOT NULL,
  session INTEGER NOT NULL REFERENCES session (num) ON DELETE CASCADE,
  turn TEXT NOT NULL,
  root TEXT NOT NULL,
  evidence TEXT NOT NULL,
  opened INTEGER NOT NULL,
  closed INTEGER
) STRICT;
CREATE UNIQUE INDEX change_session ON change (session, id);
CREATE INDEX change_turn ON change (turn);
CREATE INDEX change_root ON change (root, closed);

CREATE TABLE operation (
  num INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  session INTEGER NOT NULL REFERENCES session (num) ON DELETE CASCADE,
  kind TEXT NOT NULL,
  planned INTEGER NOT NULL,
  done INTEGER
) STRICT;
CREATE INDEX operation_session ON operation (session, num);
CREATE INDEX operation_open ON operation (session) WHERE done IS NULL;

CREATE TABLE taken (
  change TEXT PRIMARY KEY,
  session INTEGER NOT NULL REFERENCES session (num) ON DELETE CASCADE,
  operation INTEGER NOT NULL,
  paths TEXT
) STRICT;
CREATE INDEX taken_session ON taken (session);

CREATE TABLE head (
  session INTEGER PRIMARY KEY REFERENCES session (num) ON DELETE CASCADE,
  operation INTEGER NOT NULL,
  message TEXT NOT NULL,
  part TEXT
) STRICT;
";

/// The order of the lists that go by creation: a page reads its own rows.
const CREATION_ORDER: &str = "
CREATE INDEX session_created ON session (created DESC, id) WHERE hidden = 0;
";

/// The projection tables, in the order in which they can be emptied.
pub(crate) const PROJECTION_TABLES: &[&str] = &[
    "head",
    "taken",
    "operation",
    "change",
    "diff",
    "share",
    "input",
    "approval",
    "request",
    "turn",
    "todo",
    "part",
    "message",
    "session",
    "project_alias",
    "project",
];
