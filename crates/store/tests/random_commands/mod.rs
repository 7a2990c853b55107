//! Random histories: a list of numbers, read as commands to a store.

use serde_json::{Value, json};
use turnstone_core::id::TurnId;
use turnstone_core::model::{
    PartBody, RequestId, RequestState, Session, SessionStatus, UserRequest,
};
use turnstone_core::permission::{PermissionRule, RuleAction};
use turnstone_core::time::EpochMillis;
use turnstone_core::turn::{TurnEvent, TurnOutcome};
use turnstone_store::{
    Context, EndTurn, LeaseTakeoverPolicy, NewTurn, PromptDelivery, Result, ShareRecord, Store,
    StoreError, Tx, WriteOutcome,
};

use crate::support::{self, assistant, ctx, part, project, session, sid, text, tokens, user};

/// One command: what to do, and two numbers to choose with.
pub(crate) type Command = (u8, u16, u16);

/// How many commands there are.
pub(crate) const COMMANDS: u8 = 34;
/// What a command does to the store.
type CommandMutation = dyn FnMut(&Tx<'_>) -> Result<()> + Send;

const SESSIONS: u16 = 3;
const THINGS: u16 = 5;

/// Carries the commands out. A refusal is an answer like any other; anything else is a bug.
pub(crate) fn run_commands(store: &Store, commands: &[Command]) {
    for (index, command) in commands.iter().enumerate() {
        let now = EpochMillis(support::NOW.0 + index as i64);
        if let Err(error) = run(store, &ctx().at_time(now), *command) {
            assert!(is_refusal(&error), "{command:?}: {error}");
        }
    }
}

fn is_refusal(error: &StoreError) -> bool {
    !matches!(
        error,
        StoreError::Internal(_)
            | StoreError::Database { .. }
            | StoreError::Corrupt { .. }
            | StoreError::Io(_)
            | StoreError::Closed
            | StoreError::Poisoned { .. }
    )
}

fn run(store: &Store, ctx: &Context, (code, a, b): Command) -> Result<()> {
    let s = format!("ses_{}", a % SESSIONS);
    let m = format!("msg_{}_{}", a % SESSIONS, b % THINGS);
    let p = format!("prt_{}_{}", a % SESSIONS, (a / 7 + b) % (3 * THINGS));
    let ctx = leased(store, ctx, &s);
    let write = |ctx: &Context, run: Box<CommandMutation>| store.write(ctx, run).wait();
    match code % COMMANDS {
        0 => write(&ctx, Box::new(move |tx| projects(tx, a, b))),
        1 => {
            write(&ctx, Box::new(move |tx| ignore_outcome(tx.sessions().create(&shaped(&s, a, b)))))
        }
        2 => write(&ctx, Box::new(move |tx| ignore_outcome(tx.sessions().put(&shaped(&s, b, a))))),
        3 => write(
            &ctx,
            Box::new(move |tx| ignore_outcome(tx.messages().put(&user(&s, &m, json!(b))))),
        ),
        4 | 5 => write(
            &ctx,
            Box::new(move |tx| ignore_outcome(tx.messages().put(&assistant(&s, &m, json!(a))))),
        ),
        6..=12 => {
            let body = body(code.into(), b);
            write(
                &ctx,
                Box::new(move |tx| {
                    ignore_outcome(tx.messages().put_part(&part(&s, &m, &p, body.clone())))
                }),
            )
        }
        13..=15 => {
            let body = tool(b);
            write(
                &ctx,
                Box::new(move |tx| {
                    ignore_outcome(tx.messages().put_part(&part(&s, &m, &p, body.clone())))
                }),
            )
        }
        16..=18 => stream(store, &ctx, &s, &p, a, b),
        19 => edit_text(store, &ctx, &s, &p, |text| text.push_str("\u{1F426}!")),
        20 => edit_text(store, &ctx, &s, &p, |text| text.truncate((text.len() / 2) & !1)),
        21 => edit_text(store, &ctx, &s, &p, |_| {}),
        22 => {
            write(&ctx, Box::new(move |tx| tx.messages().remove_part(&sid(&s), &support::pid(&p))))
        }
        23 => write(&ctx, Box::new(move |tx| tx.messages().remove(&sid(&s), &support::mid(&m)))),
        24 => write(&ctx, Box::new(move |tx| put_session_values(tx, &s, b))),
        25 | 26 => turn(store, &ctx, &s, a, b),
        27 | 28 => move_turn(store, &ctx, &s, a, b),
        29 => write(&ctx, Box::new(move |tx| request(tx, &s, a, b))),
        30 => write(&ctx, Box::new(move |tx| inbox(tx, &s, &m, &p, b))),
        31 => write(&ctx, Box::new(move |tx| share(tx, &s, b))),
        32 => write(&ctx, Box::new(move |tx| approval(tx, a, b))),
        _ => write(&ctx, Box::new(move |tx| add_many_parts(tx, &s, &m, a))),
    }
}

fn ignore_outcome(changed: Result<WriteOutcome>) -> Result<()> {
    changed.map(drop)
}

/// Every other command is made by the holder of the lease.
fn leased(store: &Store, ctx: &Context, session: &str) -> Context {
    match store.leases().acquire(ctx, &sid(session), LeaseTakeoverPolicy::IfDead) {
        Ok(lease) => ctx.clone().with_lease(&lease),
        Err(_) => ctx.clone(),
    }
}

fn projects(tx: &Tx<'_>, a: u16, b: u16) -> Result<()> {
    let mut value = project(if a.is_multiple_of(2) { "p1" } else { "p2" });
    value.worktree = format!("/home/{}", b % 3);
    value.aliases = (0..b % 4)
        .map(|n| serde_json::from_value(json!({"kind": "directory", "value": format!("/{n}")})))
        .collect::<std::result::Result<_, _>>()?;
    ignore_outcome(tx.projects().put(&value))
}

fn shaped(id: &str, a: u16, b: u16) -> Session {
    let mut value = session(id);
    value.title = ["T", "", "a longer title", "%'\u{1F600}"][usize::from(b % 4)].to_owned();
    value.project = if a.is_multiple_of(5) { "p2" } else { "p1" }.parse().expect("id");
    value.parent = (b.is_multiple_of(3)).then(|| sid("ses_0"));
    value.path = (b.is_multiple_of(2)).then(|| "crates".to_owned());
    value.time.archived = (a.is_multiple_of(3)).then(|| 17.into());
    value.time.updated = (a % 50).into();
    if b.is_multiple_of(7) {
        value.metadata = json!({"big": "x".repeat(usize::from(b % 9) * 1000)}).as_object().cloned();
    }
    value
}

fn body(code: u16, b: u16) -> Value {
    match (code + b) % 13 {
        0 => json!({"type": "text", "text": "hello"}),
        1 | 2 => json!({"type": "text", "text": "", "time": {"start": 1}}),
        3 => json!({"type": "reasoning", "text": "hm", "time": {"start": 1.5}}),
        4 => json!({"type": "file", "mime": "text/plain", "url": "data:,x".repeat(500)}),
        5 => json!({"type": "agent", "name": "plan"}),
        6 => json!({"type": "step-start"}),
        7 => json!({"type": "step-finish", "reason": "stop", "cost": 0.1 * f64::from(b % 7),
                    "tokens": tokens(i64::from(b % 100))}),
        8 => json!({"type": "snapshot", "snapshot": "abc"}),
        9 => json!({"type": "patch", "hash": "abc", "files": ["/a", "/b"]}),
        10 => json!({"type": "subtask", "prompt": "p", "description": "d", "agent": "a"}),
        11 => json!({"type": "compaction", "auto": b.is_multiple_of(2)}),
        _ => json!({"type": "from-the-future", "cost": 1, "x": [1, {"y": null}]}),
    }
}

fn tool(b: u16) -> Value {
    let state = match b % 4 {
        0 => json!({"status": "pending", "input": {}, "raw": ""}),
        1 => json!({"status": "running", "input": {"n": b}, "time": {"start": 1}}),
        2 => json!({"status": "completed", "input": {"n": b}, "output": "o".repeat(usize::from(b)),
                    "title": "t", "metadata": {}, "time": {"start": 1, "end": 2}}),
        _ => json!({"status": "error", "input": {}, "error": "e", "time": {"start": 1, "end": 2}}),
    };
    json!({"type": "tool", "callID": "c", "tool": "bash", "state": state})
}

/// Several deltas at once, so that some of them meet in one group.
fn stream(store: &Store, ctx: &Context, s: &str, p: &str, a: u16, b: u16) -> Result<()> {
    let tickets: Vec<_> = (0..=a % 4)
        .map(|n| {
            let (s, p) = (sid(s), support::pid(p));
            let delta = format!("{n}\u{e4}").repeat(usize::from(b % 700));
            store.write(ctx, move |tx| tx.messages().append_text(&s, &p, &delta))
        })
        .collect();
    tickets.into_iter().try_for_each(|ticket| ticket.wait().map(drop))
}

fn edit_text(
    store: &Store,
    ctx: &Context,
    s: &str,
    p: &str,
    edit: impl Fn(&mut String) + Send + 'static,
) -> Result<()> {
    let mut part = store.read(ctx, |r| r.messages().get_part(&sid(s), &support::pid(p)))?;
    store
        .write(ctx, move |tx| {
            if let PartBody::Text(text) = &mut part.body
                && text.text.is_ascii()
            {
                edit(&mut text.text);
                if let Some(time) = &mut text.time {
                    time.end = Some(9.into());
                }
            }
            if let PartBody::Reasoning(text) = &mut part.body {
                text.time.end = Some(9.into());
            }
            ignore_outcome(tx.messages().put_part(&part))
        })
        .wait()
}

fn put_session_values(tx: &Tx<'_>, s: &str, b: u16) -> Result<()> {
    let todo = json!({"content": format!("{b}"), "status": "pending", "priority": "low"});
    let todos: Vec<_> = (0..b % 3)
        .map(|_| serde_json::from_value(todo.clone()))
        .collect::<std::result::Result<_, _>>()?;
    tx.sessions().set_todos(&sid(s), &todos)?;
    let diff = json!({"file": "a", "patch": "+x", "additions": b, "deletions": 0});
    ignore_outcome(tx.sessions().put_diff(&sid(s), &[serde_json::from_value(diff)?]))
}

fn turn_id(s: &str, n: u16) -> TurnId {
    format!("trn_{s}_{}", n % 4).parse().expect("id")
}

fn turn(store: &Store, ctx: &Context, s: &str, a: u16, b: u16) -> Result<()> {
    let m = format!("msg_{s}_turn_{}", b % 4);
    let parts = vec![text(s, &m, &format!("prt_{s}_turn_{}", b % 4), "go")];
    let new = NewTurn { id: turn_id(s, b), message: user(s, &m, json!(a % 2)), parts };
    let start = (sid(s), turn_id(s, b));
    store
        .write(ctx, move |tx| {
            tx.turns().begin(&new)?;
            tx.turns().transition(&start.0, &start.1, &TurnEvent::Started).map(drop)
        })
        .wait()
}

fn move_turn(store: &Store, ctx: &Context, s: &str, a: u16, b: u16) -> Result<()> {
    let (s, turn) = (sid(s), turn_id(s, b));
    store
        .write(ctx, move |tx| match a % 6 {
            0 => tx.turns().transition(&s, &turn, &TurnEvent::Asked).map(drop),
            1 => tx.turns().transition(&s, &turn, &TurnEvent::Answered).map(drop),
            2 | 3 => {
                let (attempt, next) = (b.into(), 3.into());
                let status =
                    SessionStatus::Retry { attempt, message: "busy".into(), next, action: None };
                tx.turns().set_retry(&s, &turn, &status)
            }
            n => {
                let outcome = if n == 4 { TurnOutcome::Completed } else { TurnOutcome::Failed };
                let end = EndTurn { session: s.clone(), turn: turn.clone(), outcome, error: None };
                tx.turns().end(&end).map(drop)
            }
        })
        .wait()
}

fn request(tx: &Tx<'_>, s: &str, a: u16, b: u16) -> Result<()> {
    let id = format!("per_{}_{s}", b % 4);
    if a.is_multiple_of(2) {
        let body = json!({"kind": "permission", "permission": "bash", "patterns": ["ls"]});
        let value = json!({"id": id, "sessionID": s, "body": body, "state": {"is": "pending"}});
        return ignore_outcome(tx.requests().add(&serde_json::from_value::<UserRequest>(value)?));
    }
    let id: RequestId = serde_json::from_value(json!(id))?;
    let state = json!({"is": "replied", "reply": "once"});
    ignore_outcome(tx.requests().resolve(&id, &serde_json::from_value::<RequestState>(state)?))
}

fn inbox(tx: &Tx<'_>, s: &str, m: &str, p: &str, b: u16) -> Result<()> {
    let delivery = if b.is_multiple_of(2) { PromptDelivery::Steer } else { PromptDelivery::Queue };
    if b.is_multiple_of(3) {
        return tx.prompts().promote(&sid(s), delivery, None).map(drop);
    }
    tx.prompts().admit(&user(s, m, json!(1)), &[text(s, m, p, "steer")], delivery).map(drop)
}

fn share(tx: &Tx<'_>, s: &str, b: u16) -> Result<()> {
    if b.is_multiple_of(3) {
        return ignore_outcome(tx.shares().remove(&sid(s)));
    }
    let url = format!("https://example.org/{}", b % 4);
    ignore_outcome(
        tx.shares().put(&sid(s), &ShareRecord { id: "x".into(), secret: "s".into(), url }),
    )
}

fn approval(tx: &Tx<'_>, a: u16, b: u16) -> Result<()> {
    let action = if b.is_multiple_of(3) { RuleAction::Deny } else { RuleAction::Allow };
    let rule = PermissionRule::new("bash", ["ls *", "rm *"][usize::from(b % 2)], action);
    let project = "p1".parse().expect("id");
    ignore_outcome(if a.is_multiple_of(3) {
        tx.projects().withdraw_rule(&project, &rule)
    } else {
        tx.projects().approve_rule(&project, &rule)
    })
}

/// Many rows in one transaction.
fn add_many_parts(tx: &Tx<'_>, s: &str, m: &str, a: u16) -> Result<()> {
    tx.messages().put(&assistant(s, m, json!(1)))?;
    (0..a % 30).try_for_each(|n| {
        let body = body(n, n);
        ignore_outcome(tx.messages().put_part(&part(s, m, &format!("prt_{m}_{n}"), body)))
    })
}
