//! Rules a write keeps (sessions.md 13: W1, W4, W12, W26, W34; R43).

mod support;

use serde_json::{Value, json};
use support::{
    NOW, assistant, ctx, log, mid, open, part, pid, project, projections, raw, session, sid, text,
    tokens, user, with_sessions, write,
};
use turnstone_core::event::EventKind;
use turnstone_core::model::{Part, RequestState, Session, Todo, UserRequest};
use turnstone_core::permission::{PermissionRule, RuleAction};
use turnstone_core::time::SessionSeq;
use turnstone_store::{
    Actor, Context, IdempotencyRecord, NewTurn, PromptDelivery, SessionFilter, ShareRecord, Store,
    StoreError, WriteOutcome,
};

fn kinds_after(store: &Store, from: usize) -> Vec<EventKind> {
    log(store).iter().skip(from).map(|event| event.kind).collect()
}

// --- ownership: W4, W34 -------------------------------------------------------------------------

#[test]
fn message_id_of_another_session_is_rejected() {
    let dir = tempfile::tempdir().expect("temp dir");
    let store = with_sessions(dir.path(), &["ses_a", "ses_c"]);
    write(&store, |tx| tx.messages().put(&user("ses_a", "msg_1", 1))).expect("written");
    let (before, rows) = (log(&store), projections(dir.path()));
    let refusals = [
        write(&store, |tx| tx.messages().put(&user("ses_c", "msg_1", 2)).map(drop)),
        write(&store, |tx| {
            let parts = [text("ses_c", "msg_1", "prt_1", "x")];
            tx.prompts().admit(&user("ses_c", "msg_1", 2), &parts, PromptDelivery::Queue).map(drop)
        }),
        write(&store, |tx| {
            let (id, message) = ("trn_1".parse().expect("id"), user("ses_c", "msg_1", 2));
            tx.turns().begin(&NewTurn { id, message, parts: vec![] }).map(drop)
        }),
    ];
    for refusal in refusals {
        let refusal = refusal.expect_err("refused");
        let known = matches!(refusal, StoreError::WrongOwner { .. } | StoreError::Conflict { .. });
        assert!(known, "{refusal:?}");
    }
    assert!(matches!(
        write(&store, |tx| tx.messages().remove(&sid("ses_c"), &mid("msg_1"))),
        Err(StoreError::NoMessage { .. })
    ));
    assert_eq!((log(&store), projections(dir.path())), (before, rows));
}

#[test]
fn part_cannot_move_between_messages() {
    let dir = tempfile::tempdir().expect("temp dir");
    let store = with_sessions(dir.path(), &["ses_a", "ses_c"]);
    write(&store, |tx| {
        tx.messages().put(&user("ses_a", "msg_a", 1))?;
        tx.messages().put(&user("ses_a", "msg_a2", 1))?;
        tx.messages().put(&user("ses_c", "msg_c", 1))?;
        tx.messages().put_part(&text("ses_a", "msg_a", "prt_a", "mine"))
    })
    .expect("written");
    let (before, rows) = (log(&store), projections(dir.path()));
    for (session, message, part) in [
        ("ses_c", "msg_a", "prt_new"),
        ("ses_c", "msg_c", "prt_a"),
        ("ses_a", "msg_c", "prt_new"),
        ("ses_a", "msg_a2", "prt_a"),
        ("ses_a", "msg_unknown", "prt_new"),
    ] {
        let refused =
            write(&store, move |tx| tx.messages().put_part(&text(session, message, part, "yours")));
        let refused = refused.expect_err("refused");
        let known = matches!(refused, StoreError::NoMessage { .. } | StoreError::WrongOwner { .. });
        assert!(known, "{session} {message} {part}: {refused:?}");
    }
    for refused in [
        write(&store, |tx| tx.messages().remove_part(&sid("ses_c"), &pid("prt_a"))),
        write(&store, |tx| tx.messages().append_text(&sid("ses_c"), &pid("prt_a"), "x").map(drop)),
    ] {
        assert!(matches!(refused, Err(StoreError::NoPart { .. })), "{refused:?}");
    }
    assert_eq!((log(&store), projections(dir.path())), (before, rows));
    // The table itself would not take it either.
    let forced = raw(dir.path());
    forced.execute_batch("PRAGMA foreign_keys = ON").expect("set");
    let moved = forced.execute("UPDATE part SET session = session + 1000", []);
    assert!(moved.is_err(), "part, message and session hang together");
}

#[test]
fn requests_and_turns_stay_in_their_session() {
    let dir = tempfile::tempdir().expect("temp dir");
    let store = with_sessions(dir.path(), &["ses_a", "ses_c"]);
    let ask = |session: &str| -> UserRequest {
        let body = json!({"kind": "permission", "permission": "bash", "patterns": ["ls"]});
        let value = json!({"id": "per_1", "sessionID": session, "body": body,
            "state": {"is": "pending"}});
        serde_json::from_value(value).expect("request")
    };
    let (mine, yours) = (ask("ses_a"), ask("ses_c"));
    write(&store, move |tx| tx.requests().add(&mine)).expect("asked");
    let refused = write(&store, move |tx| tx.requests().add(&yours)).expect_err("refused");
    assert!(matches!(refused, StoreError::Conflict { .. }), "{refused:?}");
    let turn = |session: &str, message: &str| NewTurn {
        id: "trn_1".parse().expect("id"),
        message: user(session, message, 1),
        parts: vec![],
    };
    let (first, second) = (turn("ses_a", "msg_a"), turn("ses_c", "msg_c"));
    write(&store, move |tx| tx.turns().begin(&first)).expect("begun");
    let refused = write(&store, move |tx| tx.turns().begin(&second)).expect_err("refused");
    assert!(matches!(refused, StoreError::Conflict { .. }), "{refused:?}");
}

// --- idempotence --------------------------------------------------------------------------------

type Write = Box<dyn Fn(&turnstone_store::Tx<'_>) -> turnstone_store::Result<()> + Send>;

fn every_write() -> Vec<(&'static str, Write)> {
    let rule = PermissionRule::new("bash", "ls", RuleAction::Allow);
    let share = ShareRecord { id: "x".into(), secret: "s".into(), url: "u".into() };
    let todos: Vec<Todo> =
        serde_json::from_value(json!([{"content": "c", "status": "pending", "priority": "low"}]))
            .expect("todos");
    let diff = serde_json::from_value(json!({"file": "f", "additions": 1, "deletions": 0}));
    let diff = vec![diff.expect("diff")];
    let ask: UserRequest = serde_json::from_value(json!({"id": "per_1", "sessionID": "ses_a",
        "body": {"kind": "permission", "permission": "bash", "patterns": ["ls"]},
        "state": {"is": "pending"}}))
    .expect("request");
    let reply: RequestState =
        serde_json::from_value(json!({"is": "replied", "reply": "once"})).expect("reply");
    let id = ask.id.clone();
    let project_id: turnstone_core::id::ProjectId = "p1".parse().expect("id");
    let mut list: Vec<(&'static str, Write)> = vec![
        ("project", Box::new(|tx| tx.projects().put(&project("p1")).map(drop))),
        ("create session", Box::new(|tx| tx.sessions().create(&session("ses_a")).map(drop))),
        ("put session", Box::new(|tx| tx.sessions().put(&session("ses_a")).map(drop))),
        ("message", Box::new(|tx| tx.messages().put(&user("ses_a", "msg_1", 1)).map(drop))),
        (
            "part",
            Box::new(|tx| tx.messages().put_part(&text("ses_a", "msg_1", "prt_1", "x")).map(drop)),
        ),
        (
            "long part",
            Box::new(|tx| {
                let long = "y".repeat(400_000);
                tx.messages().put_part(&text("ses_a", "msg_1", "prt_2", &long)).map(drop)
            }),
        ),
        (
            "prompt",
            Box::new(|tx| {
                let parts = [text("ses_a", "msg_p", "prt_p", "go")];
                tx.prompts()
                    .admit(&user("ses_a", "msg_p", 1), &parts, PromptDelivery::Queue)
                    .map(drop)
            }),
        ),
        (
            "no delta",
            Box::new(|tx| tx.messages().append_text(&sid("ses_a"), &pid("prt_1"), "").map(drop)),
        ),
    ];
    list.push((
        "todos",
        Box::new(move |tx| tx.sessions().set_todos(&sid("ses_a"), &todos).map(drop)),
    ));
    list.push(("diff", Box::new(move |tx| tx.sessions().put_diff(&sid("ses_a"), &diff).map(drop))));
    list.push(("share", Box::new(move |tx| tx.shares().put(&sid("ses_a"), &share).map(drop))));
    list.push((
        "approve",
        Box::new(move |tx| tx.projects().approve_rule(&project_id, &rule).map(drop)),
    ));
    list.push(("ask", Box::new(move |tx| tx.requests().add(&ask).map(drop))));
    list.push(("reply", Box::new(move |tx| tx.requests().resolve(&id, &reply).map(drop))));
    list
}

#[test]
fn repeating_any_write_writes_nothing() {
    let dir = tempfile::tempdir().expect("temp dir");
    let mut store = open(dir.path());
    for round in 0..3 {
        let before = log(&store);
        for (name, run) in every_write() {
            let answer = write(&store, move |tx| run(tx));
            answer.unwrap_or_else(|e| panic!("{name}, round {round}: {e}"));
        }
        if round > 0 {
            assert_eq!(log(&store), before, "round {round}");
        }
        drop(store);
        store = open(dir.path());
    }
}

#[test]
fn a_session_created_twice_is_the_same_or_a_conflict() {
    let dir = tempfile::tempdir().expect("temp dir");
    let store = with_sessions(dir.path(), &["ses_a"]);
    let long = |end: char| {
        let mut value = session("ses_long");
        value.metadata = json!({"m": format!("{}{end}", "x".repeat(5_000))}).as_object().cloned();
        value
    };
    let (first, same, other) = (long('a'), long('a'), long('b'));
    let put = |value: Session| write(&store, move |tx| tx.sessions().create(&value));
    assert_eq!(put(first).expect("created"), WriteOutcome::Created);
    assert_eq!(put(same).expect("repeated"), WriteOutcome::No);
    let refused = put(other).expect_err("differs in a long string alone");
    assert!(matches!(refused, StoreError::Conflict { .. }), "{refused:?}");
    // A late repeat of the first call, after the session has moved on.
    write(&store, |tx| {
        tx.sessions().update(&sid("ses_a"), |s| {
            s.title = "renamed".into();
            Ok(())
        })
    })
    .expect("renamed");
    assert_eq!(put(session("ses_a")).expect("repeated"), WriteOutcome::No);
    let now = store.read(&ctx(), |r| r.sessions().get(&sid("ses_a"))).expect("reads");
    assert_eq!(now.title, "renamed");
}

/// R43: a call of several transactions is known by its first event, and its answer is kept.
#[test]
fn idempotency_record_has_first_event_and_first_answer() {
    let dir = tempfile::tempdir().expect("temp dir");
    let store = with_sessions(dir.path(), &["ses_a"]);
    let rename = |store: &Store, ctx: &Context, title: &'static str| {
        let run = store.write(ctx, move |tx| {
            tx.sessions().update(&sid("ses_a"), |s| {
                s.title = title.to_owned();
                Ok(())
            })?;
            Ok(tx.last_appended())
        });
        run.wait().expect("written").expect("an event").cursor
    };
    let key = ctx().with_idempotency_key("k1");
    assert_eq!(store.idempotency().find(&key).expect("reads"), IdempotencyRecord::default());
    let refused = store.write(&key, |tx| tx.remove_missing_message()).wait();
    assert!(refused.is_err());
    assert_eq!(
        store.idempotency().find(&key).expect("reads").first_event,
        None,
        "nothing was begun"
    );
    let first = rename(&store, &key, "first");
    rename(&store, &key, "second");
    let begun = IdempotencyRecord { first_event: Some(first), answer: None };
    assert_eq!(
        store.idempotency().find(&key).expect("reads"),
        begun,
        "its first event, not its last"
    );
    drop(store);
    let store = open(dir.path());
    assert_eq!(store.idempotency().find(&key).expect("reads"), begun, "after reopening too");
    store.idempotency().store_answer(&key, "one".to_owned()).expect("kept");
    store.idempotency().store_answer(&key, "two".to_owned()).expect("kept");
    assert_eq!(store.idempotency().find(&key).expect("reads").answer.as_deref(), Some("one"));
    let bob = Context::new(Actor::new("bob").expect("actor"), NOW).with_idempotency_key("k1");
    assert_eq!(store.idempotency().find(&bob).expect("reads"), IdempotencyRecord::default());
    // Maintenance in between is not covered by the key.
    let other = ctx().with_idempotency_key("k2");
    rename(&store, &other.without_preconditions(), "third");
    assert_eq!(store.idempotency().find(&other).expect("reads"), IdempotencyRecord::default());
}

trait MissingMessage {
    fn remove_missing_message(&self) -> turnstone_store::Result<String>;
}

impl MissingMessage for turnstone_store::Tx<'_> {
    fn remove_missing_message(&self) -> turnstone_store::Result<String> {
        self.messages().remove(&sid("ses_a"), &mid("msg_none")).map(|()| String::new())
    }
}

// --- clearing: W1 -------------------------------------------------------------------------------

type Clear = fn(&mut Session);

fn full_session() -> Session {
    let mut value = serde_json::to_value(session("ses_a")).expect("value");
    let more = json!({"workspaceID": "wrk_1", "path": "crates", "parentID": "ses_p",
        "summary": {"additions": 1, "deletions": 2, "files": 3}, "share": {"url": "https://e.org"},
        "agent": "build", "model": {"id": "m", "providerID": "p"}, "metadata": {"k": 1},
        "permission": [{"permission": "bash", "pattern": "*", "action": "ask"}],
        "revert": {"messageID": "msg_1"},
        "time": {"created": 1, "updated": 1, "archived": 5, "compacting": 6}});
    let both = value.as_object_mut().expect("object");
    both.extend(more.as_object().cloned().expect("object"));
    serde_json::from_value(value).expect("session")
}

#[test]
fn clearing_an_optional_field_clears_it() {
    let clear: [(&str, Clear); 12] = [
        ("workspaceID", |s| s.workspace = None),
        ("path", |s| s.path = None),
        ("parentID", |s| s.parent = None),
        ("summary", |s| s.summary = None),
        ("share", |s| s.share = None),
        ("agent", |s| s.agent = None),
        ("model", |s| s.model = None),
        ("metadata", |s| s.metadata = None),
        ("permission", |s| s.permission = None),
        ("revert", |s| s.revert = None),
        ("archived", |s| s.time.archived = None),
        ("compacting", |s| s.time.compacting = None),
    ];
    for (field, clear) in clear {
        let dir = tempfile::tempdir().expect("temp dir");
        let store = with_sessions(dir.path(), &[]);
        write(&store, |tx| tx.sessions().create(&full_session())).expect("created");
        let mut expected = full_session();
        clear(&mut expected);
        assert_ne!(expected, full_session(), "{field}");

        write(&store, move |tx| {
            tx.sessions().update(&sid("ses_a"), |s| {
                clear(s);
                Ok(())
            })
        })
        .expect("cleared");

        let get =
            |store: &Store| store.read(&ctx(), |r| r.sessions().get(&sid("ses_a"))).expect("reads");
        assert_eq!(get(&store), expected, "{field}");
        assert_eq!(kinds_after(&store, 2), [EventKind::SessionUpdated], "{field}");
        let payload = log(&store).last().and_then(|e| e.payload.clone()).expect("payload");
        assert!(
            payload.get(field).or_else(|| payload["time"].get(field)).is_none(),
            "{field}: {payload}"
        );
        drop(store);
        let mut store = open(dir.path());
        assert_eq!(get(&store), expected, "{field} after reopening");
        store = store.rebuild(&ctx(), &mut |_| {}).expect("rebuilds").0;
        assert_eq!(get(&store), expected, "{field} after a rebuild");
        let column: i64 = raw(dir.path())
            .query_row(
                "SELECT (path IS NULL) + (parent IS NULL) + (workspace IS NULL) + (archived IS NULL)
                 FROM session WHERE id = 'ses_a'",
                [],
                |row| row.get(0),
            )
            .expect("reads");
        let projected = ["path", "parentID", "workspaceID", "archived"].contains(&field);
        assert_eq!(column, i64::from(projected), "{field}");
    }
}

#[test]
fn unshare_and_clear_take_effect() {
    let dir = tempfile::tempdir().expect("temp dir");
    let mut store = with_sessions(dir.path(), &["ses_a"]);
    let share = ShareRecord { id: "x".into(), secret: "s".into(), url: "u".into() };
    let todo: Todo =
        serde_json::from_value(json!({"content": "c", "status": "s", "priority": "p"}))
            .expect("todo");
    write(&store, move |tx| {
        tx.shares().put(&sid("ses_a"), &share)?;
        tx.sessions().set_todos(&sid("ses_a"), std::slice::from_ref(&todo))?;
        tx.shares().remove(&sid("ses_a"))?;
        tx.sessions().set_todos(&sid("ses_a"), &[])
    })
    .expect("written");
    for round in 0..2 {
        let read = store.read(&ctx(), |r| {
            Ok((r.shares().find(&sid("ses_a"))?, r.sessions().todos(&sid("ses_a"))?))
        });
        assert_eq!(read.expect("reads"), (None, vec![]), "round {round}");
        store = store.rebuild(&ctx(), &mut |_| {}).expect("rebuilds").0;
    }
    let left: i64 = raw(dir.path())
        .query_row("SELECT count(*) FROM share_secret", [], |row| row.get(0))
        .expect("reads");
    assert_eq!(left, 0, "the secret is gone");
}

// --- lost updates: W12; expected_seq: R43 -------------------------------------------------------

#[test]
fn concurrent_updates_are_not_lost() {
    let dir = tempfile::tempdir().expect("temp dir");
    let store = with_sessions(dir.path(), &["ses_a"]);
    let other = open(dir.path());
    std::thread::scope(|scope| {
        for n in 0..25 {
            let store = if n % 2 == 0 { &store } else { &other };
            scope.spawn(move || {
                write(store, move |tx| {
                    tx.sessions().update(&sid("ses_a"), |s| {
                        let map = s.metadata.get_or_insert_default();
                        let count = map.get("n").and_then(Value::as_i64).unwrap_or(0);
                        map.insert("n".into(), json!(count + 1));
                        map.insert(format!("key {n}"), json!(n));
                        Ok(())
                    })
                })
                .expect("updated");
            });
        }
    });
    let found = store.read(&ctx(), |r| r.sessions().get(&sid("ses_a"))).expect("reads");
    let map = found.metadata.expect("metadata");
    assert_eq!((map["n"].clone(), map.len()), (json!(25), 26));
    assert_eq!(
        store.read(&ctx(), |r| r.sessions().seq(&sid("ses_a"))).expect("reads"),
        SessionSeq(26)
    );
}

#[test]
fn concurrent_field_updates_do_not_overwrite_each_other() {
    let dir = tempfile::tempdir().expect("temp dir");
    let store = with_sessions(dir.path(), &["ses_a"]);
    let stale = store.read(&ctx(), |r| r.sessions().get(&sid("ses_a"))).expect("reads");
    write(&store, |tx| {
        tx.messages().put(&assistant("ses_a", "msg_1", 1))?;
        tx.messages().put_part(&step("prt_1", 0.5, 10))
    })
    .expect("counted");
    // Somebody puts back the whole session as they knew it: what is counted is no field of it.
    write(&store, move |tx| tx.sessions().put(&stale)).expect("written");
    let usage = store.read(&ctx(), |r| r.sessions().usage(&sid("ses_a"))).expect("reads");
    assert_eq!((usage.cost, usage.input), (500_000_000_000, 10));
}

#[test]
fn stale_expected_seq_returns_current_seq_and_writes_nothing() {
    let dir = tempfile::tempdir().expect("temp dir");
    let store = with_sessions(dir.path(), &["ses_a"]);
    write(&store, |tx| tx.messages().put(&user("ses_a", "msg_1", 1))).expect("written");
    let (before, rows) = (log(&store), projections(dir.path()));
    let late = ctx().with_expected_seq(SessionSeq(1));
    let refused = store
        .write(&late, |tx| {
            tx.messages().put(&user("ses_a", "msg_2", 2))?;
            tx.messages().put(&user("ses_a", "msg_3", 3))
        })
        .wait()
        .expect_err("refused");
    let StoreError::Stale { session, expected, current } = &refused else { panic!("{refused:?}") };
    assert_eq!((session.as_str(), *expected, *current), ("ses_a", SessionSeq(1), SessionSeq(2)));
    assert_eq!((log(&store), projections(dir.path())), (before, rows));
    store
        .write(&ctx().with_expected_seq(SessionSeq(2)), |tx| {
            tx.messages().put(&user("ses_a", "msg_2", 2))?;
            tx.messages().put(&user("ses_a", "msg_3", 3))
        })
        .wait()
        .expect("one expectation covers the call");
    // Ten at once expect the same number: one goes through.
    let through = std::thread::scope(|scope| {
        let tries: Vec<_> = (0..10)
            .map(|n| {
                let store = &store;
                scope.spawn(move || {
                    let m = format!("msg_race_{n}");
                    let ctx = ctx().with_expected_seq(SessionSeq(4));
                    store
                        .write(&ctx, move |tx| tx.messages().put(&user("ses_a", &m, 9)))
                        .wait()
                        .is_ok()
                })
            })
            .collect();
        tries
            .into_iter()
            .map(std::thread::ScopedJoinHandle::join)
            .filter(|r| matches!(r, Ok(true)))
            .count()
    });
    assert_eq!(through, 1);
}

// --- everything is an event: W26; usage ---------------------------------------------------------

fn step(id: &str, cost: f64, input: i64) -> Part {
    let body = json!({"type": "step-finish", "reason": "stop", "cost": cost,
        "tokens": tokens(input)});
    part("ses_a", "msg_1", id, body)
}

#[test]
fn todo_share_permission_and_diff_are_events() {
    let dir = tempfile::tempdir().expect("temp dir");
    let store = with_sessions(dir.path(), &["ses_a"]);
    let todo = json!([{"content": "c", "status": "s", "priority": "p"}]);
    let todos: Vec<Todo> = serde_json::from_value(todo.clone()).expect("todos");
    let diff = vec![serde_json::from_value(json!({"additions": 1, "deletions": 0})).expect("diff")];
    let share = ShareRecord { id: "x".into(), secret: "s3cret".into(), url: "u".into() };
    let rule = PermissionRule::new("bash", "*", RuleAction::Ask);
    write(&store, move |tx| {
        tx.sessions().set_todos(&sid("ses_a"), &todos)?;
        tx.shares().put(&sid("ses_a"), &share)?;
        tx.sessions().update(&sid("ses_a"), |s| {
            s.permission = Some(vec![rule.clone()]);
            Ok(())
        })?;
        tx.sessions().put_diff(&sid("ses_a"), &diff)?;
        tx.projects().approve_rule(&"p1".parse().expect("id"), &rule)?;
        tx.projects().withdraw_rule(&"p1".parse().expect("id"), &rule)?;
        tx.shares().remove(&sid("ses_a"))
    })
    .expect("written");
    let kinds = [
        EventKind::TodoUpdated,
        EventKind::ShareCreated,
        EventKind::SessionUpdated,
        EventKind::DiffUpdated,
        EventKind::ApprovalGranted,
        EventKind::ApprovalWithdrawn,
        EventKind::ShareRemoved,
    ];
    assert_eq!(kinds_after(&store, 2), kinds);
    let events = log(&store);
    assert_eq!(events[2].payload.as_ref().map(|p| &p["todos"]), Some(&todo));
    let all = format!("{events:?}");
    assert!(!all.contains("s3cret"), "a secret is never in the log");
}

#[test]
fn usage_follows_added_and_removed_steps() {
    let dir = tempfile::tempdir().expect("temp dir");
    let mut store = with_sessions(dir.path(), &["ses_a"]);
    let usage = |store: &Store| {
        let found = store.read(&ctx(), |r| r.sessions().usage(&sid("ses_a"))).expect("reads");
        (found.cost, found.input, found.output, found.cache_write)
    };
    let unit = 1_000_000_000_000;
    write(&store, |tx| {
        tx.messages().put(&assistant("ses_a", "msg_1", 1))?;
        tx.messages().put_part(&step("prt_1", 0.1, 10))?;
        tx.messages().put_part(&step("prt_2", 0.2, 20))?;
        tx.messages().put_part(&step("prt_3", 1.0, 30))
    })
    .expect("written");
    assert_eq!(usage(&store), (unit * 13 / 10, 60, 63, 12));
    write(&store, |tx| tx.messages().put_part(&step("prt_3", 2.0, 31))).expect("changed");
    assert_eq!(usage(&store), (unit * 23 / 10, 61, 64, 12));
    write(&store, |tx| tx.messages().remove_part(&sid("ses_a"), &pid("prt_1"))).expect("removed");
    assert_eq!(usage(&store), (unit * 22 / 10, 51, 53, 8));
    store = store.rebuild(&ctx(), &mut |_| {}).expect("rebuilds").0;
    assert_eq!(usage(&store), (unit * 22 / 10, 51, 53, 8));
    // A part that becomes something else counts no more.
    write(&store, |tx| tx.messages().put_part(&text("ses_a", "msg_1", "prt_2", "a text now")))
        .expect("changed");
    assert_eq!(usage(&store), (unit * 2, 31, 32, 4));
    assert_eq!(store.maintenance().verify_projections().expect("verifies"), []);
    write(&store, |tx| tx.messages().remove(&sid("ses_a"), &mid("msg_1"))).expect("removed");
    assert_eq!(usage(&store), (0, 0, 0, 0));
    store = store.rebuild(&ctx(), &mut |_| {}).expect("rebuilds").0;
    assert_eq!(usage(&store), (0, 0, 0, 0));
}

/// Proves R43.
#[test]
fn every_event_records_actor_and_client() {
    let dir = tempfile::tempdir().expect("temp dir");
    let store = with_sessions(dir.path(), &["ses_a"]);
    let by = |client: Option<&str>| {
        let mut by = Context::new(Actor::new("grace").expect("a name"), NOW);
        by.client = client.map(str::to_owned);
        by
    };
    let clients = [None, Some("cli"), Some("http opencode/1.18"), Some("cli")];
    for (n, client) in (0..).zip(clients) {
        let message = user("ses_a", &format!("msg_{n}"), n);
        store.write(&by(client), move |tx| tx.messages().put(&message)).wait().expect("written");
    }
    let said: Vec<_> = log(&store).into_iter().skip(2).map(|it| (it.actor, it.client)).collect();
    let wanted = clients.map(|client| ("grace".to_owned(), client.map(str::to_owned)));
    assert_eq!(said, wanted);
    // A key is the user's, whichever program repeats it; and a user is found by any program.
    let key = by(Some("cli")).with_idempotency_key("k");
    store.idempotency().store_answer(&key, "one".to_owned()).expect("stored");
    let again = by(None).with_idempotency_key("k");
    let found = store.idempotency().find(&again).expect("reads");
    assert_eq!(found.answer.as_deref(), Some("one"));
    let filter = |actor: &str| SessionFilter { actor: Some(actor.to_owned()), ..<_>::default() };
    let made = by(Some("http x"));
    let mut session = store.read(&ctx(), |r| r.sessions().get(&sid("ses_a"))).expect("there");
    session.id = sid("ses_new");
    store.write(&made, move |tx| tx.sessions().create(&session)).wait().expect("made");
    let count = |filter: &SessionFilter| {
        store.read(&ctx(), |r| r.sessions().list(filter, None, 10)).expect("a list").items.len()
    };
    assert_eq!((count(&filter("grace")), count(&filter("grac"))), (1, 0));
    let owner = store.read(&ctx(), |r| r.sessions().actor(&sid("ses_new"))).expect("there");
    assert_eq!(owner, "grace");
}
