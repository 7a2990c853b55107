//! What differs from the recordings on purpose, each with its row in the documentation.

use std::collections::BTreeSet;

use crate::compare::Difference;

/// One intended difference.
pub(crate) struct Row {
    /// Labels of requests; `*` stands for anything.
    pub(crate) label: &'static str,
    /// Where in the answer; `*` stands for anything.
    pub(crate) at: &'static str,
    /// How the row in `docs/http.md` or `docs/events.md` begins that says why.
    pub(crate) listed: &'static str,
    /// False if it depends on who is faster.
    pub(crate) always: bool,
}

pub(crate) const fn row(label: &'static str, at: &'static str, listed: &'static str) -> Row {
    Row { label, at, listed, always: true }
}

pub(crate) const fn sometimes(label: &'static str, at: &'static str, listed: &'static str) -> Row {
    Row { label, at, listed, always: false }
}

/// Every intended difference that the recordings show.
pub(crate) const TABLE: &[Row] = &[
    // What each server is.
    row("*", "body*/version", "`version`"),
    row("*", "body/state", "`GET /path`"),
    row("config", "body/username", "`GET /config`: `username`"),
    row("config", "body/share", "`GET /config` |"),
    row("*", "*/apiKey", "`GET /config`, `/config/providers`"),
    row("config.providers", "body/*", "`GET /provider`, `/api/integration`"),
    row("gzip", "body/*", "`GET /provider`, `/api/integration`"),
    row("provider", "body/*", "`GET /provider`, `/api/integration`"),
    row("api.model", "body/*", "`GET /provider`, `/api/integration`"),
    row("api.provider", "body/*", "`GET /provider`, `/api/integration`"),
    row("api.integration", "body/*", "`GET /provider`, `/api/integration`"),
    row("provider.auth", "body/*", "`GET /provider/auth`"),
    row("agent", "body/*", "`GET /agent`, `/command`"),
    row("warm", "body/*", "`GET /agent`, `/command`"),
    row("api.agent", "body/*", "`GET /agent`, `/command`"),
    row("command", "body/*", "`GET /agent`, `/command`"),
    row("api.command", "body/*", "`GET /agent`, `/command`"),
    row("messages after summarize", "body/*/text", "`GET /agent`, `/command`"),
    row("skill", "body/-", "`GET /skill`"),
    row("api.skill", "body/data/-", "`GET /skill`"),
    row("tool.ids", "body/-", "`GET /skill`"),
    row("pty.shells", "body/-", "`GET /skill`"),
    row("workspace.adapter", "body/-", "`GET /skill`"),
    row("global.config", "body/$schema", "`GET /global/config`"),
    row("project.*", "body/time/initialized", "`project.time.initialized`"),
    // Files.
    row("find.file", "body/-", "`GET /find/file`"),
    row("api.fs.find", "body/data/-", "`GET /find/file`"),
    row("api.fs.read", "header/content-type", "`GET /api/fs/read/*`"),
    row("file.status", "body/+", "`GET /file/status`"),
    row("q directory project", "status", "`GET /project/current`, `/file`, `/find`"),
    // What a turn shows.
    row("*", "body*/info/summary", "`summary` of a prompt"),
    row("*", "body*/summary*", "`session.summary`"),
    sometimes("*", "body*/snapshot", "`snapshot` of a step"),
    row("diff", "body/+", "`GET /session/{id}/diff` without `messageID`"),
    row("diff unknown msg", "status", "`GET /session/{id}/diff` of an unknown"),
    row("err unknown session diff", "status", "`GET /session/{id}/diff` of an unknown"),
    row("*", "body/revert/diff", "`session.revert.diff`"),
    row("revert unknown msg", "status", "`POST /session/{id}/revert` of an unknown"),
    row("fork unknown msg", "status", "`POST /session/{id}/fork` with an unknown message"),
    row("err limit nan", "body/-", "`POST /session/{id}/fork` with an unknown message"),
    row("session.list*", "body/-", "`POST /session/{id}/fork` with an unknown message"),
    row("err limit nan", "body/*/cost", "`POST /session/{id}/fork`: cost"),
    row("err limit nan", "body/*/tokens/*", "`POST /session/{id}/fork`: cost"),
    row("session.list*", "body/*/cost", "`POST /session/{id}/fork`: cost"),
    row("session.list*", "body/*/tokens/*", "`POST /session/{id}/fork`: cost"),
    row("llm 40*", "body/parts/+", "an answer whose model call failed"),
    row("msgs after abort retry", "body/*/parts/+", "an answer whose model call failed"),
    // Prompts.
    row("prompt bad model", "status", "… with a model that is none"),
    row(
        "prompt bad agent",
        "status",
        "`POST /session/{id}/message`, `/prompt_async` with an agent",
    ),
    row("prompt llm 400", "status", "`POST /session/{id}/message`, `/prompt_async` with an agent"),
    row(
        "prompt own messageID",
        "status",
        "`POST /session/{id}/message`, `/prompt_async` with an agent",
    ),
    row("own messageID dup same session", "status", "… with a `messageID` that is there"),
    row("dup msgs", "body/*/parts/-", "… with a `messageID` that is there"),
    row("own messageID dup other session", "status", "… with a `messageID` of another session"),
    row("session.list limit default", "body/*/agent", "… with a `messageID` of another session"),
    row("session.list limit default", "body/*/model", "… with a `messageID` of another session"),
    row("command unknown", "status", "`POST /session/{id}/command` of an unknown"),
    row("share*", "status", "`POST /session/{id}/share`"),
    row("*shared", "body/share", "`share` of a session"),
    row("rename while sync fails", "body/share", "`share` of a session"),
    row("unshare", "body/share", "`share` of a session"),
    row("fork get", "body/cost", "`POST /session/{id}/fork`: cost"),
    row("fork get", "body/tokens/*", "`POST /session/{id}/fork`: cost"),
    // What real clients did.
    row("tui *GET /session", "body*/revert/diff", "`session.revert.diff`"),
    row("tui *GET */todo", "body/-", "`GET /session/{id}/todo` after a revert"),
    row("tui *GET */diff", "body/+", "`GET /session/{id}/diff` without `messageID`"),
    row("tui fork*", "body/cost", "`POST /session/{id}/fork`: cost"),
    row("tui fork*", "body/tokens/*", "`POST /session/{id}/fork`: cost"),
    row("tui rename*", "body/cost", "`POST /session/{id}/fork`: cost"),
    row("tui rename*", "body/tokens/*", "`POST /session/{id}/fork`: cost"),
    row("tui *GET /session*", "body*/cost", "`POST /session/{id}/fork`: cost"),
    row("tui *GET /session*", "body*/tokens/*", "`POST /session/{id}/fork`: cost"),
    row("tui *GET /session*", "body*/agent", "`POST /session/{id}/summarize`"),
    row("tui *GET /session*", "body*/model", "`POST /session/{id}/summarize`"),
    row("web web-fork*", "body/cost", "`POST /session/{id}/fork`: cost"),
    row("web web-fork*", "body/tokens/*", "`POST /session/{id}/fork`: cost"),
    row("tui share*", "status", "`POST /session/{id}/share`"),
    row("run run-share*/share", "status", "`POST /session/{id}/share`"),
    row("run run-command*", "body/*", "(the runner runs subtasks as steps)"),
    row("run run-badmodel*", "status", "… with a model that is none"),
    row("run run2-llmerror*", "body/parts/+", "an answer whose model call failed"),
    row("tui slash-command*", "body/*", "(the runner runs subtasks as steps)"),
    row("* event file.*", "*", "`file.watcher.updated`, `plugin.added`"),
    row("* event session.diff", "missing/*", "`session.diff` |"),
    row("* event message.part.updated tool pending", "shape", "`message.part.updated` of a tool"),
    sometimes("* event *", "shape/part/snapshot", "`snapshot` of a step"),
    row("tui event message.removed", "order/*", "`message.removed` of several"),
    row("tui event session.deleted", "shape/info/summary", "`session.summary`"),
    row("tui event session.deleted", "shape/info/*", "`POST /session/{id}/summarize`"),
    row("tui event *", "*/ses_e21ea2921*", "(the runner runs subtasks as steps)"),
    row("run event *", "*/ses_e21db1334ffeCCLY2eSKM4achr", "(the runner runs subtasks as steps)"),
    row("tui event *", "missing/ses_e21e9ff5b*", "(the runner makes a subagent's session whole)"),
    row("run event session.created", "shape/*", "(the runner makes a subagent's session whole)"),
    row("run event session.created", "more/*", "(it listens once its session is there)"),
    row("run event *", "missing/ses_e21dade69*", "(its directory has a stream of its own)"),
    // A server that was killed.
    row("before crash b", "body/*/state/metadata", "(the runner shows no output of running tools)"),
    row("after * b", "body/*/metadata/output", "(the runner shows no output of running tools)"),
    row("after * b", "body/*/info/error", "a turn that runs when the server is killed"),
    row("after * b", "body/*/time/*", "a turn that runs when the server is killed"),
    row("after * b", "body/*/state/*", "a turn that runs when the server is killed"),
    row("a2 after crash", "body/*/info/error", "a turn that runs when the server is killed"),
    row("a2 after crash", "body/*/time/*", "a turn that runs when the server is killed"),
    row("a2 * crash", "body/*/text", "a text that is still being said"),
    row("status after", "body/*", "… that waits for an answer"),
    row("perm after", "body/+", "… that waits for an answer"),
    sometimes("history *", "shape/part/snapshot", "`snapshot` of a step"),
    row("history *tool pending", "shape", "`message.part.updated` of a tool"),
    // What is refused.
    row("preflight noauth", "*", "a preflight (`OPTIONS`)"),
    row("preflight evil", "*", "a preflight (`OPTIONS`)"),
    row("cors preflight", "*", "a preflight (`OPTIONS`)"),
    row("401 with origin", "*", "any request of a web page"),
    row("cors get ok", "*", "any request of a web page"),
    row("cors get bad", "*", "any request of a web page"),
    row("cors opencode.ai", "*", "any request of a web page"),
    row("err 404*", "status", "any unknown path"),
    row("err method", "status", "a method a path does not have"),
    row("head session", "header/content-type", "`HEAD`"),
    row("noauth manifest", "status", "`/site.webmanifest`"),
    row("err bad id", "status", "any id that is none"),
    row("err invalid json *", "status", "a body that is not JSON"),
    row("err invalid json create", "body/*", "`POST /session` with a body"),
    row("err wrong types create", "body/*", "`POST /session` with a body"),
    row("err text content type", "body/*", "`POST /session` with a body"),
    row("workspace unknown", "status", "`workspace` that is not there"),
    row("part.update badtype", "body/data/message", "what a refusal quotes"),
    row("search pct", "body/-", "`GET /session?search=`"),
    // The second interface.
    row("api.session.active busy", "body/data/*", "`GET /api/session/active`"),
    row("api.permission.saved", "body/data/+", "`GET /api/permission/saved`"),
    row("api.session.message list", "body/*", "`GET /api/session/{id}/message`, `/context`"),
    row("api.session.context", "body/data/+", "`GET /api/session/{id}/message`, `/context`"),
    row("api.session.history", "body/data/+", "`/api/session/{id}/event`, `/history`"),
    row("v2 prompt*", "body/data/admittedSeq", "`/api/session/{id}/event`, `/history`"),
    row("v2 *get", "body*/agent", "`GET /api/session/{id}/message`, `/context`"),
    row("v2 *get", "body*/model", "`GET /api/session/{id}/message`, `/context`"),
    row("v2 *get", "body*/tokens/*", "`GET /api/session/{id}`: tokens"),
    row("v2 as v1 messages", "body/+", "`GET /api/session/{id}/message`, `/context`"),
    row("v2 *", "body*.prompt.admitted", "… `prompt.admitted`"),
    row("v2 *", "body*/durable/seq", "`/api/session/{id}/event`, `/history`"),
    row("v2 *", "body*/textID", "… `textID`"),
    row("v2 *", "body*/content/*/id", "… `textID`"),
    row("v2 messages2", "body/data/-", "… `agent.switched`, `model.switched`"),
    row("v2 *", "body*.step.ended/data/files", "… `step.ended`: `files`"),
    row("v2 *", "body*/model/variant", "… `model.variant`"),
    row("v2 *", "body*.model.switched", "… a prompt that chooses"),
    row("v2 *", "body*/+session.next.agent.switched", "… a prompt that chooses"),
    // What the recording or the runner of this test cannot tell.
    row("status retry", "body/*", "(the runner shows no retry)"),
    row("structured output", "body/info/structured", "(the runner makes no structured answers)"),
    row("tools off get", "body/cost", "(the recording does not hold the first step)"),
    row("tools off get", "body/tokens/*", "(the recording does not hold the first step)"),
    row("running msgs", "body/*/state/metadata", "(the runner shows no output of running tools)"),
    row("aborted tool msgs", "body/*/state/*", "(the runner leaves a tool that is stopped)"),
    row("parts msgs", "body/*", "(the runner runs subtasks as steps)"),
    row("session.list limit default", "body/order", "(the runner runs subtasks as steps)"),
    // Events.
    row("open *", "frame/id", "`/event`, `/global/event` | no `id`"),
    row("resume /event", "*", "`/event`, `/global/event` | no `id`"),
    row("api event", "end", "`/api/event`"),
    row("*event plugin.added", "*", "`file.watcher.updated`, `plugin.added`"),
    row("*event catalog.updated", "*", "`file.watcher.updated`, `plugin.added`"),
    row("*event reference.updated", "*", "`file.watcher.updated`, `plugin.added`"),
    row("*event integration.updated", "*", "`file.watcher.updated`, `plugin.added`"),
    row("event session.diff", "shape", "`session.diff` |"),
    row(
        "event *",
        "more/ses_e21ba66c4ffevvek9TiU1rlt2H",
        "(recorded from the first prompt to its retry)",
    ),
    row("event session.status", "missing/ses_e21ba66c4*", "(the runner shows no retry)"),
    row("event session.next.*", "*", "`session.next.*` on `/event`"),
    row("event tui.command.execute", "shape/command", "`POST /tui/execute-command`"),
    sometimes("event message.part.updated step-*", "shape/part/snapshot", "`snapshot` of a step"),
    row("event message.part.updated tool pending", "shape", "`message.part.updated` of a tool"),
    row("event session.*", "more/ses_e21d7c*", "a fork |"),
    row("event message*removed", "missing/*", "what is not there"),
    row("event session.*", "missing/", "what is not there"),
    row(
        "event message.removed",
        "order/ses_e21d7e96cffeUWwmatp71xELYW",
        "`message.removed` of several",
    ),
    row("event session.error", "order/ses_e21d6da03ffe976JOHedh5lN7i", "`session.error` of a file"),
    sometimes("event session.diff", "missing/*", "`session.diff`"),
    row("event *", "more/ses_e21d6d3a6ffeuBEvspWltArfje", "`session.next.*` on `/event`"),
    row(
        "event session.*",
        "missing/ses_e21d70140ffeRCmPi0jSppwxeX",
        "… with a `messageID` of another session",
    ),
    row(
        "event session.updated",
        "missing/ses_e21d76e99ffe42dtJ8VTQbkaoU",
        "(the runner makes a subagent's session whole)",
    ),
    row(
        "event session.updated",
        "missing/ses_e21d783b8ffeMse1Z2GvKsXhYQ",
        "(the runner makes a subagent's session whole)",
    ),
    row(
        "event session.updated",
        "missing/ses_e21d6ddc5ffeROppYbyMEfja6X",
        "(the runner makes a subagent's session whole)",
    ),
    row(
        "event message.updated",
        "order/ses_e21d7e948ffe3p4XD8B9Gy68Za",
        "(the second prompt waits for the first answer)",
    ),
    row(
        "event session.status",
        "missing/ses_e21d700f0ffe3sUtfFPozN8Xyx",
        "(the runner shows no retry)",
    ),
    row("event session.status retry", "shape", "(the runner shows no retry)"),
    row("event session.compacted", "*", "(the runner summarises as it answers)"),
    row(
        "event session.*",
        "missing/ses_e21d6fa45ffeKdxYeghho52cmT",
        "(compaction in the middle of a turn is the agent's)",
    ),
    row(
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
pub(crate) fn settle(found: &[Difference], table: &[Row]) {
    let mut used = BTreeSet::new();
    let mut unlisted = Vec::new();
    for one in found {
        let row = table.iter().position(|row| fits(row.label, &one.label) && fits(row.at, &one.at));
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
pub(crate) fn fits(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((head, rest)) => text.strip_prefix(head).is_some_and(|text| {
            rest.is_empty()
                || (0..=text.len()).any(|at| text.is_char_boundary(at) && fits(rest, &text[at..]))
        }),
    }
}
