//! What each step does to the store.

use serde_json::{Value, json};
use turnstone_core::id::{MessageId, PartId, ProjectId, SessionId, TurnId};
use turnstone_core::model::{
    Message, MessageBody, Part, PartBody, Project, RequestId, RequestState, Session,
    SessionFileDiff, SessionStatus, Todo, UserRequest,
};
use turnstone_core::permission::PermissionRule;
use turnstone_core::turn::{TurnEvent, TurnOutcome};
use turnstone_store::{EndTurn, NewTurn, PromptDelivery, ShareRecord, StoreError, Tx};

use super::{HistoryStep, PartSpec};

fn from_json<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("a value of the model")
}

/// The id of a session by its small number.
pub(crate) fn session_id(s: u8) -> SessionId {
    format!("ses_{s}").parse().expect("id")
}

fn message_id(s: u8, m: u8) -> MessageId {
    format!("msg_{s}_{m}").parse().expect("id")
}

pub(super) fn part_id(s: u8, m: u8, p: u8) -> PartId {
    format!("prt_{s}_{m}_{p}").parse().expect("id")
}

/// The one project.
pub(super) fn project_id() -> ProjectId {
    "p1".to_owned().try_into().expect("id")
}

fn user(n: u8) -> MessageBody {
    from_json(json!({"role": "user", "time": {"created": n}, "agent": "build",
        "model": {"providerID": "p", "modelID": "m"}}))
}

fn assistant(n: u8) -> MessageBody {
    from_json(
        json!({"role": "assistant", "time": {"created": 2}, "parentID": "msg_0", "modelID": "m",
        "providerID": "p", "mode": "build", "path": {"cwd": "/", "root": "/"}, "cost": n,
        "tokens": {"input": n, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}}}),
    )
}

/// A session by its small number, in one of its versions.
pub(super) fn session(s: u8, n: u8) -> Session {
    from_json(json!({"id": session_id(s), "slug": "s", "projectID": "p1", "directory": "/srv/p",
        "title": format!("title {n}"), "version": "1", "time": {"created": 1, "updated": n}}))
}

/// The session whose open turn changed, and the turn.
type TurnChange = Option<(u8, Option<TurnId>)>;

/// Takes one step; `count` names what is new, `turns` the newest turn of each session.
pub(super) fn apply_step(
    tx: &Tx<'_>,
    step: &HistoryStep,
    count: u32,
    turns: &[Option<TurnId>],
) -> Result<TurnChange, StoreError> {
    let turn_of = |s: u8| turns[usize::from(s)].clone().unwrap_or(turn_id(0));
    match step {
        HistoryStep::Begin { s } => return begin(tx, *s, count),
        HistoryStep::End { s, outcome } => return end(tx, *s, turn_of(*s), *outcome),
        HistoryStep::Move { s, event } => move_turn(tx, *s, &turn_of(*s), *event),
        HistoryStep::Retry { s, n } => retry(tx, *s, &turn_of(*s), *n),
        HistoryStep::Project { n } => tx.projects().put(&project(*n)).map(drop),
        HistoryStep::Approve { n, withdraw } => approve(tx, *n, *withdraw),
        HistoryStep::Session { s, n } => tx.sessions().put(&session(*s, *n)).map(drop),
        HistoryStep::Todos { s, n } => set_todos(tx, *s, *n),
        HistoryStep::Diff { s, n } => put_diff(tx, *s, *n),
        HistoryStep::Share { s, n } => put_share(tx, *s, *n),
        HistoryStep::Unshare { s } => tx.shares().remove(&session_id(*s)).map(drop),
        HistoryStep::Message { s, m, n } => put_message(tx, *s, *m, *n),
        HistoryStep::RemoveMessage { s, m } => {
            tx.messages().remove(&session_id(*s), &message_id(*s, *m))
        }
        HistoryStep::Part { s, m, p, body } => put_part(tx, (*s, *m, *p), body),
        HistoryStep::RemovePart { s, m, p } => {
            tx.messages().remove_part(&session_id(*s), &part_id(*s, *m, *p))
        }
        HistoryStep::Delta { s, m, p, text, .. } => {
            tx.messages().append_text(&session_id(*s), &part_id(*s, *m, *p), text).map(drop)
        }
        HistoryStep::Ask { s, n } => ask(tx, *s, *n),
        HistoryStep::Answer { n, yes } => answer(tx, *n, *yes),
        HistoryStep::Admit { s, n, queue } => admit(tx, *s, *n, *queue),
        HistoryStep::Promote { s, queue } => {
            tx.prompts().promote(&session_id(*s), delivery(*queue), None).map(drop)
        }
    }?;
    Ok(None)
}

fn move_turn(tx: &Tx<'_>, s: u8, turn: &TurnId, event: u8) -> Result<(), StoreError> {
    let events = [TurnEvent::Started, TurnEvent::Asked, TurnEvent::Answered];
    tx.turns().transition(&session_id(s), turn, &events[usize::from(event)]).map(drop)
}

fn retry(tx: &Tx<'_>, s: u8, turn: &TurnId, n: u8) -> Result<(), StoreError> {
    let status: SessionStatus =
        from_json(json!({"type": "retry", "attempt": n, "message": "busy", "next": 5}));
    tx.turns().set_retry(&session_id(s), turn, &status)
}

fn put_share(tx: &Tx<'_>, s: u8, n: u8) -> Result<(), StoreError> {
    let share = ShareRecord { id: format!("{n}"), secret: "x".into(), url: "u".into() };
    tx.shares().put(&session_id(s), &share).map(drop)
}

fn put_message(tx: &Tx<'_>, s: u8, m: u8, n: u8) -> Result<(), StoreError> {
    let body = if m.is_multiple_of(2) { assistant(n) } else { user(n) };
    let message = Message { id: message_id(s, m), session: session_id(s), body };
    tx.messages().put(&message).map(drop)
}

fn put_part(tx: &Tx<'_>, (s, m, p): (u8, u8, u8), body: &PartSpec) -> Result<(), StoreError> {
    let (session, message) = (session_id(s), message_id(s, m));
    let (id, body) = (part_id(s, m, p), part_body(body));
    tx.messages().put_part(&Part { id, session, message, body }).map(drop)
}

fn admit(tx: &Tx<'_>, s: u8, n: u8, queue: bool) -> Result<(), StoreError> {
    let id = format!("msg_{s}_in{n}").parse().expect("id");
    let message = Message { id, session: session_id(s), body: user(0) };
    tx.prompts().admit(&message, &[], delivery(queue)).map(drop)
}

fn turn_id(n: u32) -> TurnId {
    format!("trn_{n}").parse().expect("id")
}

fn begin(tx: &Tx<'_>, s: u8, count: u32) -> Result<TurnChange, StoreError> {
    let turn = turn_id(count);
    let id = format!("msg_turn_{count}").parse().expect("id");
    let message = Message { id, session: session_id(s), body: user(1) };
    tx.turns().begin(&NewTurn { id: turn.clone(), message, parts: Vec::new() })?;
    Ok(Some((s, Some(turn))))
}

fn end(tx: &Tx<'_>, s: u8, turn: TurnId, outcome: u8) -> Result<TurnChange, StoreError> {
    let outcomes = [
        TurnOutcome::Completed,
        TurnOutcome::Failed,
        TurnOutcome::Aborted,
        TurnOutcome::Interrupted,
    ];
    let outcome = outcomes[usize::from(outcome)];
    tx.turns().end(&EndTurn { session: session_id(s), turn, outcome, error: None })?;
    Ok(Some((s, None)))
}

fn project(n: u8) -> Project {
    from_json(
        json!({"id": "p1", "worktree": format!("/srv/{n}"), "time": {"created": 1, "updated": n},
        "aliases": [{"kind": "directory", "value": format!("/srv/{n}")}]}),
    )
}

fn approve(tx: &Tx<'_>, n: u8, withdraw: bool) -> Result<(), StoreError> {
    let rule: PermissionRule =
        from_json(json!({"permission": "bash", "pattern": format!("p{n}"), "action": "allow"}));
    let done = if withdraw {
        tx.projects().withdraw_rule(&project_id(), &rule)
    } else {
        tx.projects().approve_rule(&project_id(), &rule)
    };
    done.map(drop)
}

fn set_todos(tx: &Tx<'_>, s: u8, n: u8) -> Result<(), StoreError> {
    let todo: Todo =
        from_json(json!({"content": format!("do {n}"), "status": "pending", "priority": "low"}));
    tx.sessions().set_todos(&session_id(s), &vec![todo; usize::from(n)]).map(drop)
}

fn put_diff(tx: &Tx<'_>, s: u8, n: u8) -> Result<(), StoreError> {
    let diff: SessionFileDiff =
        from_json(json!({"file": format!("f{n}"), "additions": n, "deletions": 0}));
    tx.sessions().put_diff(&session_id(s), &vec![diff; usize::from(n)]).map(drop)
}

fn ask(tx: &Tx<'_>, s: u8, n: u8) -> Result<(), StoreError> {
    let request: UserRequest =
        from_json(json!({"id": format!("per_{n}"), "sessionID": session_id(s),
        "body": {"kind": "permission", "permission": "bash", "patterns": ["*"]},
        "state": {"is": "pending"}}));
    tx.requests().add(&request).map(drop)
}

fn answer(tx: &Tx<'_>, n: u8, yes: bool) -> Result<(), StoreError> {
    let id: RequestId = from_json(json!(format!("per_{n}")));
    let reply = if yes { "once" } else { "reject" };
    let state: RequestState = from_json(json!({"is": "replied", "reply": reply}));
    tx.requests().resolve(&id, &state).map(drop)
}

const fn delivery(queue: bool) -> PromptDelivery {
    if queue { PromptDelivery::Queue } else { PromptDelivery::Steer }
}

fn part_body(body: &PartSpec) -> PartBody {
    let value = match body {
        PartSpec::Text { text, open } => {
            let time = if *open { json!({"start": 1}) } else { json!({"start": 1, "end": 2}) };
            json!({"type": "text", "text": text, "time": time})
        }
        PartSpec::Seal { .. } => unreachable!("made concrete before"),
        PartSpec::Reasoning { text } => {
            json!({"type": "reasoning", "text": text, "time": {"start": 1}})
        }
        PartSpec::Tool { phase, n, long } => {
            let output = "x".repeat(*long as usize) + &n.to_string();
            let (input, time) = (json!({"n": n}), json!({"start": 1, "end": 2}));
            let state = match phase {
                0 => json!({"status": "pending", "input": input, "raw": ""}),
                1 => json!({"status": "running", "input": input, "time": {"start": 1},
                    "metadata": {"output": output}}),
                2 => json!({"status": "completed", "input": input, "time": time, "output": output,
                    "title": "", "metadata": {}}),
                _ => json!({"status": "error", "input": input, "time": time, "error": output}),
            };
            json!({"type": "tool", "callID": "c", "tool": "bash", "state": state})
        }
        PartSpec::StepStart { n } => json!({"type": "step-start", "snapshot": format!("{n}")}),
        PartSpec::StepFinish { n } => json!({"type": "step-finish", "reason": "stop", "cost": n,
            "tokens": {"input": n, "output": n, "reasoning": 0, "cache": {"read": 0, "write": 1}}}),
        PartSpec::Other { which, n } => match which {
            0 => json!({"type": "file", "mime": "text/plain", "url": format!("file:///{n}")}),
            1 => json!({"type": "agent", "name": format!("{n}")}),
            2 => json!({"type": "snapshot", "snapshot": format!("{n}")}),
            3 => json!({"type": "patch", "hash": format!("{n}"), "files": []}),
            4 => {
                json!({"type": "subtask", "prompt": "p", "description": "d", "agent": format!("{n}")})
            }
            5 => json!({"type": "retry", "attempt": n, "time": {"created": 1},
                "error": {"name": "UnknownError", "data": {"message": "m"}}}),
            6 => json!({"type": "compaction", "auto": *n == 0}),
            _ => json!({"type": "later", "field": n}),
        },
    };
    PartBody::parse_lenient(value).expect("a part")
}
