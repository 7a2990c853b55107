//! What differs from the recordings on purpose, each with its row in the documentation.

use std::collections::BTreeSet;

use crate::compare::Difference;

/// One intended difference.
pub(crate) struct KnownDifference {
    /// Labels of requests; `*` stands for anything.
    pub(crate) label: &'static str,
    /// Where in the answer; `*` stands for anything.
    pub(crate) at: &'static str,
    /// How the row in `docs/http.md` or `docs/events.md` begins that says why.
    pub(crate) listed: &'static str,
    /// False if it depends on who is faster.
    pub(crate) always: bool,
}

pub(crate) const fn must_differ(
    label: &'static str,
    at: &'static str,
    listed: &'static str,
) -> KnownDifference {
    KnownDifference { label, at, listed, always: true }
}

pub(crate) const fn may_differ(
    label: &'static str,
    at: &'static str,
    listed: &'static str,
) -> KnownDifference {
    KnownDifference { label, at, listed, always: false }
}

/// Every intended difference that the recordings show.
pub(crate) const TABLE: &[KnownDifference] = &[
    // What each server is.
    must_differ("*", "body*/version", "`version`"),
    must_differ("*", "body/state", "`GET /path`"),
    must_differ("config", "body/username", "`GET /config`: `username`"),
    must_differ("config", "body/share", "`GET /config` |"),
    must_differ("*", "*/apiKey", "`GET /config`, `/config/providers`"),
    must_differ("config.providers", "body/*", "`GET /provider`, `/api/integration`"),
    must_differ("gzip", "body/*", "`GET /provider`, `/api/integration`"),
    must_differ("provider", "body/*", "`GET /provider`, `/api/integration`"),
    must_differ("api.model", "body/*", "`GET /provider`, `/api/integration`"),
    must_differ("api.provider", "body/*", "`GET /provider`, `/api/integration`"),
    must_differ("api.integration", "body/*", "`GET /provider`, `/api/integration`"),
    must_differ("provider.auth", "body/*", "`GET /provider/auth`"),
    must_differ("agent", "body/*", "`GET /agent`, `/command`"),
    must_differ("warm", "body/*", "`GET /agent`, `/command`"),
    must_differ("api.agent", "body/*", "`GET /agent`, `/command`"),
    must_differ("command", "body/*", "`GET /agent`, `/command`"),
    must_differ("api.command", "body/*", "`GET /agent`, `/command`"),
    must_differ("messages after summarize", "body/*/text", "`GET /agent`, `/command`"),
    must_differ("skill", "body/-", "`GET /skill`"),
    must_differ("api.skill", "body/data/-", "`GET /skill`"),
    must_differ("tool.ids", "body/-", "`GET /lsp`"),
    may_differ("pty.shells", "body*", "`GET /pty/shells`"),
    must_differ("workspace.adapter", "body/-", "`GET /lsp`"),
    must_differ("global.config", "body/$schema", "`GET /global/config`"),
    must_differ("project.*", "body/time/initialized", "`project.time.initialized`"),
    // Files.
    must_differ("find.file", "body/-", "`GET /find/file`"),
    must_differ("api.fs.find", "body/data/-", "`GET /find/file`"),
    must_differ("api.fs.read", "header/content-type", "`GET /api/fs/read/*`"),
    must_differ("file.status", "body/+", "`GET /file/status`"),
    must_differ("worktree.create", "body/branch", "branch of a new worktree"),
    must_differ("q directory project", "status", "`GET /project/current`, `/file`, `/find`"),
    must_differ("*", "*/origin", "`origin` of a fork"),
    // What a turn shows.
    must_differ("*", "body*/info/summary", "`summary` of a prompt"),
    must_differ("*", "body*/summary*", "`session.summary`"),
    must_differ(
        "messages after abort",
        "body/*/parts/+",
        "an answer that was aborted or whose process died",
    ),
    must_differ(
        "messages before revert",
        "body/*/parts/+",
        "an answer that was aborted or whose process died",
    ),
    must_differ(
        "aborted tool msgs",
        "body/*/parts/+",
        "an answer that was aborted or whose process died",
    ),
    must_differ(
        "tui interrupt POST *",
        "body/parts/+",
        "an answer that was aborted or whose process died",
    ),
    must_differ(
        "after crash b",
        "body/*/parts/+",
        "an answer that was aborted or whose process died",
    ),
    must_differ(
        "after continue b",
        "body/*/parts/+",
        "an answer that was aborted or whose process died",
    ),
    must_differ(
        "a2 after crash",
        "body/*/parts/+",
        "an answer that was aborted or whose process died",
    ),
    must_differ(
        "event message.part.updated step-finish",
        "shape/part/tokens/total",
        "an answer that was aborted or whose process died",
    ),
    must_differ(
        "event message.part.updated step-finish",
        "shape/part/snapshot",
        "an answer that was aborted or whose process died",
    ),
    must_differ("diff", "body/+", "`GET /session/{id}/diff` without `messageID`"),
    must_differ("diff unknown msg", "status", "`GET /session/{id}/diff` of an unknown"),
    must_differ("err unknown session diff", "status", "`GET /session/{id}/diff` of an unknown"),
    must_differ("*", "body/revert/diff", "`session.revert.diff`"),
    must_differ("revert while shared", "body/revert/snapshot", "`session.revert.diff`"),
    must_differ("web web-*do POST *", "body/revert/snapshot", "`session.revert.diff`"),
    must_differ("revert unknown msg", "status", "`POST /session/{id}/revert` of an unknown"),
    must_differ("fork unknown msg", "status", "`POST /session/{id}/fork` with an unknown message"),
    must_differ("err limit nan", "body/-", "`POST /session/{id}/fork` with an unknown message"),
    must_differ("session.list*", "body/-", "`POST /session/{id}/fork` with an unknown message"),
    must_differ("err limit nan", "body/*/cost", "`POST /session/{id}/fork`: cost"),
    must_differ("err limit nan", "body/*/tokens/*", "`POST /session/{id}/fork`: cost"),
    must_differ("session.list*", "body/*/cost", "`POST /session/{id}/fork`: cost"),
    must_differ("session.list*", "body/*/tokens/*", "`POST /session/{id}/fork`: cost"),
    must_differ("llm 40*", "body/parts/+", "an answer whose model call failed"),
    must_differ("msgs after abort retry", "body/*/parts/+", "an answer whose model call failed"),
    // Prompts.
    must_differ("prompt bad model", "status", "… with an unknown model"),
    must_differ(
        "prompt bad agent",
        "status",
        "`POST /session/{id}/message`, `/prompt_async` with an unknown agent",
    ),
    must_differ(
        "prompt llm 400",
        "status",
        "`POST /session/{id}/message`, `/prompt_async` with an unknown agent",
    ),
    must_differ(
        "prompt own messageID",
        "status",
        "`POST /session/{id}/message`, `/prompt_async` with an unknown agent",
    ),
    must_differ("own messageID dup same session", "status", "… with an existing `messageID`"),
    must_differ("dup msgs", "body/*/parts/-", "… with an existing `messageID`"),
    must_differ(
        "own messageID dup other session",
        "status",
        "… with a `messageID` of another session",
    ),
    must_differ(
        "session.list limit default",
        "body/*/agent",
        "… with a `messageID` of another session",
    ),
    must_differ(
        "session.list limit default",
        "body/*/model",
        "… with a `messageID` of another session",
    ),
    must_differ("command unknown", "status", "`POST /session/{id}/command` of an unknown"),
    must_differ("share*", "status", "`POST /session/{id}/share`"),
    must_differ("*shared", "body/share", "`share` of a session"),
    must_differ("rename while sync fails", "body/share", "`share` of a session"),
    must_differ("unshare", "body/share", "`share` of a session"),
    must_differ("fork get", "body/cost", "`POST /session/{id}/fork`: cost"),
    must_differ("fork get", "body/tokens/*", "`POST /session/{id}/fork`: cost"),
    // What real clients did.
    must_differ("tui *GET /session", "body*/revert/diff", "`session.revert.diff`"),
    must_differ("tui *GET */todo", "body/-", "`GET /session/{id}/todo` after a revert"),
    must_differ("tui *GET */diff", "body/+", "`GET /session/{id}/diff` without `messageID`"),
    must_differ("tui fork*", "body/cost", "`POST /session/{id}/fork`: cost"),
    must_differ("tui fork*", "body/tokens/*", "`POST /session/{id}/fork`: cost"),
    must_differ("tui rename*", "body/cost", "`POST /session/{id}/fork`: cost"),
    must_differ("tui rename*", "body/tokens/*", "`POST /session/{id}/fork`: cost"),
    must_differ("tui *GET /session*", "body*/cost", "`POST /session/{id}/fork`: cost"),
    must_differ("tui *GET /session*", "body*/tokens/*", "`POST /session/{id}/fork`: cost"),
    must_differ("tui *GET /session*", "body*/agent", "`POST /session/{id}/summarize`"),
    must_differ("tui *GET /session*", "body*/model", "`POST /session/{id}/summarize`"),
    must_differ("web web-fork*", "body/cost", "`POST /session/{id}/fork`: cost"),
    must_differ("web web-fork*", "body/tokens/*", "`POST /session/{id}/fork`: cost"),
    must_differ("tui share*", "status", "`POST /session/{id}/share`"),
    must_differ("run run-share*/share", "status", "`POST /session/{id}/share`"),
    must_differ("run run-command*", "body/*", "(the runner runs subtasks as steps)"),
    must_differ("run run-badmodel*", "status", "… with an unknown model"),
    must_differ("run run2-llmerror*", "body/parts/+", "an answer whose model call failed"),
    must_differ("tui slash-command*", "body/*", "(the runner runs subtasks as steps)"),
    must_differ("* event file.*", "*", "`file.watcher.updated`, `plugin.added`"),
    must_differ("* event session.diff", "missing/*", "`session.diff` |"),
    must_differ(
        "* event message.part.updated tool pending",
        "shape",
        "`message.part.updated` of a tool",
    ),
    must_differ("tui event message.removed", "order/*", "`message.removed` of several"),
    must_differ("tui event session.deleted", "shape/info/summary", "`session.summary`"),
    must_differ("tui event session.deleted", "shape/info/*", "`POST /session/{id}/summarize`"),
    must_differ("tui event *", "*/ses_e21ea2921*", "(the runner runs subtasks as steps)"),
    must_differ(
        "run event *",
        "*/ses_e21db1334ffeCCLY2eSKM4achr",
        "(the runner runs subtasks as steps)",
    ),
    must_differ(
        "tui event *",
        "missing/ses_e21e9ff5b*",
        "(the runner makes a subagent's session whole)",
    ),
    must_differ(
        "run event session.created",
        "shape/*",
        "(the runner makes a subagent's session whole)",
    ),
    must_differ("run event session.created", "more/*", "(it listens once its session is there)"),
    must_differ("run event *", "missing/ses_e21dade69*", "(its directory has a stream of its own)"),
    // A server that was killed.
    must_differ(
        "before crash b",
        "body/*/state/metadata",
        "(the runner shows no output of running tools)",
    ),
    must_differ(
        "after * b",
        "body/*/metadata/output",
        "(the runner shows no output of running tools)",
    ),
    must_differ("after * b", "body/*/info/error", "a turn that runs when the server is killed"),
    must_differ("after * b", "body/*/time/*", "a turn that runs when the server is killed"),
    must_differ("after * b", "body/*/state/*", "a turn that runs when the server is killed"),
    must_differ(
        "a2 after crash",
        "body/*/info/error",
        "a turn that runs when the server is killed",
    ),
    must_differ("a2 after crash", "body/*/time/*", "a turn that runs when the server is killed"),
    must_differ("a2 * crash", "body/*/text", "a text that is still being streamed"),
    must_differ("status after", "body/*", "… that waits for an answer"),
    must_differ("perm after", "body/+", "… that waits for an answer"),
    must_differ("history *tool pending", "shape", "`message.part.updated` of a tool"),
    // What is refused.
    must_differ("preflight noauth", "*", "a preflight (`OPTIONS`)"),
    must_differ("preflight evil", "*", "a preflight (`OPTIONS`)"),
    must_differ("cors preflight", "*", "a preflight (`OPTIONS`)"),
    must_differ("401 with origin", "*", "any request from a web page"),
    must_differ("cors get ok", "*", "any request from a web page"),
    must_differ("cors get bad", "*", "any request from a web page"),
    must_differ("cors opencode.ai", "*", "any request from a web page"),
    must_differ("err 404*", "status", "any unknown path"),
    must_differ("err method", "status", "an unsupported method"),
    must_differ("head session", "header/content-type", "`HEAD`"),
    must_differ("noauth manifest", "status", "`/site.webmanifest`"),
    must_differ("err bad id", "status", "an invalid id"),
    must_differ("err invalid json *", "status", "a body that is not JSON"),
    must_differ("err invalid json create", "body/*", "`POST /session` with a body"),
    must_differ("err wrong types create", "body/*", "`POST /session` with a body"),
    must_differ("err text content type", "body/*", "`POST /session` with a body"),
    must_differ("workspace unknown", "status", "an unknown `workspace`"),
    must_differ("part.update badtype", "body/data/message", "text quoted in an error"),
    must_differ("search pct", "body/-", "`GET /session?search=`"),
    // The second interface.
    must_differ("api.session.active busy", "body/data/*", "`GET /api/session/active`"),
    must_differ("api.permission.saved", "body/data/+", "`GET /api/permission/saved`"),
    must_differ(
        "api.session.message list",
        "body/*",
        "`GET /api/session/{id}/message`, `/context`",
    ),
    must_differ(
        "api.session.context",
        "body/data/+",
        "`GET /api/session/{id}/message`, `/context`",
    ),
    must_differ("api.session.history", "body/data/+", "`/api/session/{id}/event`, `/history`"),
    must_differ("v2 prompt*", "body/data/admittedSeq", "`/api/session/{id}/event`, `/history`"),
    must_differ("v2 *get", "body*/agent", "`GET /api/session/{id}/message`, `/context`"),
    must_differ("v2 *get", "body*/model", "`GET /api/session/{id}/message`, `/context`"),
    must_differ("v2 *get", "body*/tokens/*", "`GET /api/session/{id}`: tokens"),
    must_differ("v2 as v1 messages", "body/+", "`GET /api/session/{id}/message`, `/context`"),
    must_differ("v2 *", "body*.prompt.admitted", "… `prompt.admitted`"),
    must_differ("v2 *", "body*/durable/seq", "`/api/session/{id}/event`, `/history`"),
    must_differ("v2 *", "body*/textID", "… `textID`"),
    must_differ("v2 *", "body*/content/*/id", "… `textID`"),
    must_differ("v2 messages2", "body/data/-", "… `agent.switched`, `model.switched`"),
    must_differ("v2 *", "body*.step.ended/data/files", "… `step.ended`: `files`"),
    must_differ("v2 *", "body*/model/variant", "… `model.variant`"),
    must_differ("v2 *", "body*.model.switched", "… a prompt that chooses"),
    must_differ("v2 *", "body*/+session.next.agent.switched", "… a prompt that chooses"),
    // What the recording or the runner of this test cannot tell.
    must_differ("status retry", "body/*", "(the runner shows no retry)"),
    must_differ(
        "structured output",
        "body/info/structured",
        "(the runner makes no structured answers)",
    ),
    must_differ("tools off get", "body/cost", "(the recording does not hold the first step)"),
    must_differ("tools off get", "body/tokens/*", "(the recording does not hold the first step)"),
    must_differ(
        "running msgs",
        "body/*/state/metadata",
        "(the runner shows no output of running tools)",
    ),
    must_differ(
        "aborted tool msgs",
        "body/*/state/*",
        "(the runner leaves a tool that is stopped)",
    ),
    must_differ("parts msgs", "body/*", "(the runner runs subtasks as steps)"),
    must_differ("session.list limit default", "body/order", "(the runner runs subtasks as steps)"),
    // Events.
    must_differ("open *", "frame/id", "`/event`, `/global/event` | no `id`"),
    must_differ("resume /event", "*", "`/event`, `/global/event` | no `id`"),
    must_differ("api event", "end", "`/api/event`"),
    must_differ("*event plugin.added", "*", "`file.watcher.updated`, `plugin.added`"),
    must_differ("*event catalog.updated", "*", "`file.watcher.updated`, `plugin.added`"),
    must_differ("*event reference.updated", "*", "`file.watcher.updated`, `plugin.added`"),
    must_differ("*event integration.updated", "*", "`file.watcher.updated`, `plugin.added`"),
    must_differ("event session.diff", "shape", "`session.diff` |"),
    must_differ(
        "event *",
        "more/ses_e21ba66c4ffevvek9TiU1rlt2H",
        "(recorded from the first prompt to its retry)",
    ),
    must_differ("event session.status", "missing/ses_e21ba66c4*", "(the runner shows no retry)"),
    must_differ("event session.next.*", "*", "`session.next.*` on `/event`"),
    must_differ("event tui.command.execute", "shape/command", "`POST /tui/execute-command`"),
    must_differ(
        "event message.part.updated tool pending",
        "shape",
        "`message.part.updated` of a tool",
    ),
    must_differ("event session.*", "more/ses_e21d7c*", "a fork |"),
    must_differ("event message*removed", "missing/*", "of something that does not exist"),
    must_differ("event session.*", "missing/", "of something that does not exist"),
    must_differ(
        "event message.removed",
        "order/ses_e21d7e96cffeUWwmatp71xELYW",
        "`message.removed` of several",
    ),
    must_differ(
        "event session.error",
        "order/ses_e21d6da03ffe976JOHedh5lN7i",
        "`session.error` of a file",
    ),
    may_differ("event session.diff", "missing/*", "`session.diff`"),
    must_differ("event *", "more/ses_e21d6d3a6ffeuBEvspWltArfje", "`session.next.*` on `/event`"),
    must_differ(
        "event session.*",
        "missing/ses_e21d70140ffeRCmPi0jSppwxeX",
        "… with a `messageID` of another session",
    ),
    must_differ(
        "event session.updated",
        "missing/ses_e21d76e99ffe42dtJ8VTQbkaoU",
        "(the runner makes a subagent's session whole)",
    ),
    must_differ(
        "event session.updated",
        "missing/ses_e21d783b8ffeMse1Z2GvKsXhYQ",
        "(the runner makes a subagent's session whole)",
    ),
    must_differ(
        "event session.updated",
        "missing/ses_e21d6ddc5ffeROppYbyMEfja6X",
        "(the runner makes a subagent's session whole)",
    ),
    must_differ(
        "event message.updated",
        "order/ses_e21d7e948ffe3p4XD8B9Gy68Za",
        "(the second prompt waits for the first answer)",
    ),
    must_differ(
        "event session.status",
        "missing/ses_e21d700f0ffe3sUtfFPozN8Xyx",
        "(the runner shows no retry)",
    ),
    must_differ("event session.status retry", "shape", "(the runner shows no retry)"),
    must_differ("event session.compacted", "*", "(the runner summarises as it answers)"),
    must_differ(
        "event session.*",
        "missing/ses_e21d6fa45ffeKdxYeghho52cmT",
        "(compaction in the middle of a turn is the agent's)",
    ),
    must_differ(
        "event message.part.updated compaction",
        "shape",
        "(compaction in the middle of a turn is the agent's)",
    ),
];

/// What is not asked, and why not.
pub(crate) const SKIPPED: &[(&str, &str)] = &[
    (
        "sync.history",
        "sessions come in another order; histories are compared with what streams tell",
    ),
    ("sync.history after", "numbers are each server's own: asked with ours"),
    ("sync.history unknown", "numbers are each server's own: asked with ours"),
    ("*(model)", "what streams told the client of its model"),
    ("tui shell*", "a command needs the program itself; the SDK's comparison runs it"),
    ("shell*", "a command needs the program itself; the SDK's comparison runs it"),
    ("*overflow*", "compaction in the middle of a turn is the agent's"),
    ("auto*compact*", "compaction in the middle of a turn is the agent's"),
];

/// Fails for each difference that is in no row, and for each row that nothing differs by.
pub(crate) fn check_differences(found: &[Difference], table: &[KnownDifference]) {
    let mut used = BTreeSet::new();
    let mut unlisted = Vec::new();
    for one in found {
        let row = table.iter().position(|row| {
            is_pattern_match(row.label, &one.label) && is_pattern_match(row.at, &one.at)
        });
        match row {
            Some(row) => drop(used.insert(row)),
            None => unlisted
                .push(format!("{} | {} | {} | {}", one.label, one.at, one.recorded, one.ours)),
        }
    }
    assert!(
        unlisted.is_empty(),
        "{} differ without a reason:\n{}",
        unlisted.len(),
        unlisted.join("\n")
    );
    let idle = table.iter().enumerate().filter(|(nth, row)| row.always && !used.contains(nth));
    let idle: Vec<_> = idle.map(|(_, row)| (row.label, row.at)).collect();
    assert!(idle.is_empty(), "these do not differ (any more): {idle:?}");
}

/// True if `text` is what `pattern` says; `*` stands for anything.
pub(crate) fn is_pattern_match(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((head, rest)) => text.strip_prefix(head).is_some_and(|text| {
            rest.is_empty()
                || (0..=text.len())
                    .any(|at| text.is_char_boundary(at) && is_pattern_match(rest, &text[at..]))
        }),
    }
}
