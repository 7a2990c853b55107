//! Hostile values (R44): stored and read back as they are, and never taken for anything else.

mod support;

use serde_json::{Value, json};
use support::{
    NOW, assistant, ctx, mid, open, part, pid, project, session, sid, text, user, with_sessions,
    write,
};
use turnstone_core::id::{MessageId, PartId, ProjectId, SessionId};
use turnstone_core::model::{ExtraFields, PartBody, Session};
use turnstone_core::permission::{PermissionRule, RuleAction};
use turnstone_store::{
    Actor, Context, DataLayout, SessionFilter, ShareRecord, Store, StoreError, diagnose,
};

/// Values that have broken something somewhere.
fn hostile_texts() -> Vec<String> {
    let mut list: Vec<String> = [
        "",
        " ",
        "'",
        "\"",
        "''",
        "\\",
        "\\'",
        "`",
        ";",
        "--",
        "/*",
        "*/",
        "%",
        "_",
        "%%",
        "\\%",
        "a%b",
        "a_b",
        "'; DROP TABLE session; --",
        "\" OR 1=1 --",
        "x' UNION SELECT secret FROM
        share_secret --",
        "?1",
        ":id",
        "$x",
        "@a",
        "NULL",
        "null",
        "0",
        "-1",
        "1e999",
        "NaN",
        "\0",
        "a\0b",
        "\0\0",
        "\u{1}\u{7f}",
        "\r\n\t",
        "\u{feff}",
        "\u{202e}abc",
        "\u{fffd}",
        "\u{10ffff}",
        "e\u{301}",
        "\u{1F468}\u{200d}\u{1F469}",
        "../../etc/passwd",
        "/",
        "~",
        "~0~1",
        "{\"a\":1}",
        "[]",
        "<script>",
        "${HOME}",
        "%s%n",
        "\u{2028}",
    ]
    .iter()
    .map(|text| (*text).to_owned())
    .collect();
    list.push("long '%_\\ ".repeat(300));
    list.push("\u{e4}".repeat(20_000));
    list
}

fn map(value: &Value) -> ExtraFields {
    value.as_object().cloned().expect("an object")
}

fn hostile_session(n: usize, text: &str) -> Session {
    let mut value = session(&format!("ses_{n}"));
    value.title = text.to_owned();
    value.directory = text.to_owned();
    value.path = Some(text.to_owned());
    value.slug = text.to_owned();
    value.agent = Some(text.to_owned());
    value.metadata = Some(map(&json!({ text: { text: [text, { text: 1 }] } })));
    value.extra = map(&json!({ format!("x{text}"): text }));
    value
}

#[test]
fn hostile_text_round_trips_in_every_field() {
    let dir = tempfile::tempdir().expect("temp dir");
    let mut store = with_sessions(dir.path(), &[]);
    for (n, word) in hostile_texts().into_iter().enumerate() {
        let (s, m, p) = (format!("ses_{n}"), format!("msg_{n}"), format!("prt_{n}"));
        let given = hostile_session(n, &word);
        let tool = json!({"type": "tool", "callID": word, "tool": word, "state": {
            "status": "completed", "input": {&word: [&word]}, "output": word, "title": word,
            "metadata": {&word: word}, "time": {"start": 1, "end": 2}}});
        let parts = [text(&s, &m, &p, &word), part(&s, &m, &format!("{p}_t"), tool)];
        let todo = json!({"content": word, "status": word, "priority": word});
        let todos = vec![serde_json::from_value(todo).expect("todo")];
        let share = ShareRecord { id: word.clone(), secret: word.clone(), url: word.clone() };
        let (id, expected) = (sid(&s), (given.clone(), parts.clone(), share.clone()));
        let written = {
            let todos = todos.clone();
            let id = id.clone();
            write(&store, move |tx| {
                tx.sessions().create(&given)?;
                tx.messages().put(&user(&s, &m, n))?;
                parts.iter().try_for_each(|part| tx.messages().put_part(part).map(drop))?;
                tx.sessions().set_todos(&id, &todos)?;
                tx.shares().put(&id, &share)
            })
        };
        written.unwrap_or_else(|e| panic!("{word:.40?}: {e}"));
        let read = store.read(&ctx(), |r| {
            let parts = r.messages().get(&id, &mid(&format!("msg_{n}")))?.parts;
            Ok((
                (r.sessions().get(&id)?, parts, r.shares().find(&id)?.expect("shared")),
                r.sessions().todos(&id)?,
            ))
        });
        let ((found, parts, share), found_todos) = read.expect("reads");
        assert!(found == expected.0, "{word:.40?}");
        assert!(parts == expected.1, "{word:.40?}");
        assert!(share == expected.2 && found_todos == todos, "{word:.40?}");
    }
    store = store.rebuild(&ctx(), &mut |_| {}).expect("rebuilds").0;
    assert_eq!(store.maintenance().verify_projections().expect("verifies"), []);
    drop(store);
    assert_eq!(diagnose(&DataLayout::new(dir.path()), NOW).findings, []);
}

fn titles(store: &Store, filter: &SessionFilter) -> Vec<String> {
    let page = store.read(&ctx(), |r| r.sessions().list(filter, None, 1000)).expect("lists");
    let mut titles: Vec<String> = page.items.into_iter().map(|row| row.session.title).collect();
    titles.sort();
    titles
}

/// Proves R44.
#[test]
fn list_filters_match_literally() {
    let dir = tempfile::tempdir().expect("temp dir");
    let store = with_sessions(dir.path(), &[]);
    let words = hostile_texts();
    for (n, word) in words.clone().into_iter().enumerate() {
        let value = hostile_session(n, &word);
        write(&store, move |tx| tx.sessions().create(&value)).expect("created");
    }
    let lower = |text: &str| text.to_ascii_lowercase();
    for word in &words {
        let mut expected: Vec<String> =
            words.iter().filter(|w| lower(w).contains(&lower(word))).cloned().collect();
        expected.sort();
        let search = SessionFilter { search: Some(word.clone()), ..SessionFilter::default() };
        assert!(titles(&store, &search) == expected, "search {word:.40?}");
        let place = SessionFilter { directory: Some(word.clone()), ..SessionFilter::default() };
        assert!(titles(&store, &place) == std::slice::from_ref(word), "directory {word:.40?}");
        let below = format!("{word}/");
        let mut expected: Vec<String> =
            words.iter().filter(|w| *w == word || w.starts_with(&below)).cloned().collect();
        expected.sort();
        let path = SessionFilter { path: Some(word.clone()), ..SessionFilter::default() };
        assert!(titles(&store, &path) == expected, "path {word:.40?}");
        let actor = SessionFilter { actor: Some(word.clone()), ..SessionFilter::default() };
        assert!(titles(&store, &actor).is_empty(), "actor {word:.40?}");
        let found =
            store.read(&ctx(), |r| r.sessions().ids_with_prefix(word, 1000)).expect("finds");
        assert_eq!(found.len(), if word.is_empty() { words.len() } else { 0 }, "{word:.40?}");
        drop(store.read(&ctx(), |r| r.requests().state(word)).expect_err("no such request"));
    }
}

#[test]
fn megabyte_title_and_text_round_trip() {
    let dir = tempfile::tempdir().expect("temp dir");
    let store = with_sessions(dir.path(), &["ses_a"]);
    let long = format!("{}needle", "'\0%\u{e4}".repeat(200_000));
    let (title, body) = (long.clone(), long.clone());
    write(&store, move |tx| {
        tx.sessions().update(&sid("ses_a"), |s| {
            s.title.clone_from(&title);
            Ok(())
        })?;
        tx.messages().put(&user("ses_a", "msg_a", 1))?;
        tx.messages().put_part(&text("ses_a", "msg_a", "prt_a", &body))
    })
    .expect("written");
    let filter = SessionFilter { search: Some("NEEDLE".to_owned()), ..SessionFilter::default() };
    assert!(titles(&store, &filter) == [long.clone()]);
    let found =
        store.read(&ctx(), |r| r.messages().get_part(&sid("ses_a"), &pid("prt_a"))).expect("reads");
    assert!(found.body == text("ses_a", "msg_a", "prt_a", &long).body);
}

#[test]
fn path_filter_matches_only_its_subtree() {
    let dir = tempfile::tempdir().expect("temp dir");
    let store = with_sessions(dir.path(), &[]);
    for (n, path) in ["a%b", "a%b/c", "axb/c", "a%bc", "A%B/c"].into_iter().enumerate() {
        let mut value = session(&format!("ses_{n}"));
        (value.path, value.title) = (Some(path.to_owned()), path.to_owned());
        write(&store, move |tx| tx.sessions().create(&value)).expect("created");
    }
    let filter = SessionFilter { path: Some("a%b".to_owned()), ..SessionFilter::default() };
    assert_eq!(titles(&store, &filter), ["a%b", "a%b/c"]);
}

#[test]
fn invalid_ids_and_actors_are_rejected() {
    for word in hostile_texts() {
        assert!(word.parse::<SessionId>().is_err(), "{word:.40?}");
        assert!(
            format!("ses_{word}").parse::<SessionId>().is_err() || is_body(&word),
            "{word:.40?}"
        );
        assert!(format!("msg_{word}").parse::<MessageId>().is_err() || is_body(&word));
        assert!(format!("prt_{word}").parse::<PartId>().is_err() || is_body(&word));
        assert!(word.parse::<ProjectId>().is_err() || is_body(&word));
        let named = Actor::new(word.clone());
        assert_eq!(named.is_ok(), is_name(&word), "{word:.40?}");
        if let Ok(actor) = named {
            let dir = tempfile::tempdir().expect("temp dir");
            let store = open(dir.path());
            let ctx = Context::new(actor, NOW).with_idempotency_key(word.clone());
            store.write(&ctx, |tx| tx.projects().put(&project("p1"))).wait().expect("written");
            assert_eq!(support::log(&store)[0].actor, word);
        }
    }
}

fn is_body(text: &str) -> bool {
    (1..=64).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

fn is_name(text: &str) -> bool {
    (1..=128).contains(&text.chars().count()) && !text.chars().any(char::is_control)
}

#[test]
fn foreign_cursors_are_rejected() {
    let dir = tempfile::tempdir().expect("temp dir");
    let store = with_sessions(dir.path(), &["ses_a"]);
    let mut words = hostile_texts();
    words.extend(
        ["zz", "g", "0x10", "ffffffffffffffffff", "\u{e4}".repeat(20).as_str()].map(str::to_owned),
    );
    for word in words {
        let id = sid("ses_a");
        let messages = store.read(&ctx(), |r| r.messages().list(&id, Some(&word), 10).map(|_| ()));
        let filter = SessionFilter::default();
        let sessions =
            store.read(&ctx(), |r| r.sessions().list(&filter, Some(&word), 10).map(|_| ()));
        for answer in [messages, sessions] {
            assert!(
                matches!(answer, Ok(()) | Err(StoreError::Invalid(_))),
                "{word:.40?}: {answer:?}"
            );
        }
    }
    let made_up = ["zz", "", "abc", "m1", "+1", "\u{e4}\u{e4}", "7fffffffffffffffff", "-1"];
    for bad in
        made_up.into_iter().chain(["mffffffffffffffff", "m+00000000000001", "m000000000000000A"])
    {
        let answer =
            store.read(&ctx(), |r| r.messages().list(&sid("ses_a"), Some(bad), 1).map(|_| ()));
        assert!(matches!(answer, Err(StoreError::Invalid(_))), "{bad:?}");
    }
}

#[test]
fn similar_rules_stay_distinct() {
    let dir = tempfile::tempdir().expect("temp dir");
    let store = with_sessions(dir.path(), &[]);
    let id: ProjectId = "p1".parse().expect("id");
    let words = hostile_texts();
    for (n, word) in words.clone().into_iter().enumerate() {
        let id = id.clone();
        let action = if n % 2 == 0 { RuleAction::Allow } else { RuleAction::Deny };
        write(&store, move |tx| {
            tx.projects().approve_rule(&id, &PermissionRule::new(&word, &word, action))
        })
        .expect("approved");
    }
    let found = store.read(&ctx(), |r| r.projects().approved_rules(&id)).expect("reads");
    assert_eq!(found.len(), words.len());
    for (n, (rule, word)) in found.iter().zip(&words).enumerate() {
        let action = if n % 2 == 0 { RuleAction::Allow } else { RuleAction::Deny };
        assert!(*rule == PermissionRule::new(word, word, action), "{word:.40?}");
    }
    let long = words.last().expect("one").clone();
    let rule = PermissionRule::new(&long, &long, RuleAction::Allow);
    let id2 = id.clone();
    write(&store, move |tx| tx.projects().withdraw_rule(&id2, &rule)).expect("withdrawn");
    let left = store.read(&ctx(), |r| r.projects().approved_rules(&id)).expect("reads");
    assert_eq!(left.len(), words.len() - 1);
    assert!(left.iter().all(|rule| rule.pattern != long));
}

fn nested(depth: usize) -> Value {
    (0..depth).fold(
        json!("deep"),
        |inner, n| {
            if n % 2 == 0 { json!([inner]) } else { json!({"k": inner}) }
        },
    )
}

#[test]
fn deep_values_are_stored_readable_or_rejected() {
    let dir = tempfile::tempdir().expect("temp dir");
    let store = with_sessions(dir.path(), &["ses_a"]);
    write(&store, |tx| tx.messages().put(&assistant("ses_a", "msg_a", 1))).expect("written");
    let mut kept = 0;
    for depth in [1, 60, 110, 118, 119, 120, 121, 122, 123, 124, 125, 126, 127, 128, 129, 400] {
        let p = format!("prt_{depth}");
        let body = json!({"type": "tool", "callID": "c", "tool": "t", "state": {"status": "running",
            "input": nested(depth), "time": {"start": 1}}});
        let given = part("ses_a", "msg_a", &p, body);
        let expected = given.clone();
        match write(&store, move |tx| tx.messages().put_part(&given)) {
            Ok(_) => {
                kept = depth;
                let found = store.read(&ctx(), |r| r.messages().get_part(&sid("ses_a"), &pid(&p)));
                assert!(found.expect("readable") == expected, "{depth}");
            }
            Err(error) => {
                assert!(matches!(error, StoreError::Invalid(_)), "{depth}: {error:?}");
                assert!(
                    store.read(&ctx(), |r| r.messages().get_part(&sid("ses_a"), &pid(&p))).is_err()
                );
            }
        }
        let metadata = map(&json!({ "deep": nested(depth) }));
        let set = write(&store, move |tx| {
            tx.sessions().update(&sid("ses_a"), |s| {
                s.metadata = Some(metadata.clone());
                Ok(())
            })
        });
        assert!(matches!(set, Ok(_) | Err(StoreError::Invalid(_))), "{depth}: {set:?}");
        assert!(store.read(&ctx(), |r| r.sessions().get(&sid("ses_a"))).is_ok(), "{depth}");
    }
    assert!(kept >= 110, "{kept}");
    assert_eq!(store.maintenance().verify_projections().expect("verifies"), []);
}

#[test]
fn unusual_numbers_round_trip() {
    let dir = tempfile::tempdir().expect("temp dir");
    let store = with_sessions(dir.path(), &[]);
    let odd = [
        json!(0),
        json!(-1),
        json!(0.1),
        json!(1e308),
        json!(-1e-300),
        json!(i64::MIN),
        json!(u64::MAX),
        json!(1_767_225_600_000.125),
    ];
    for (n, value) in odd.into_iter().enumerate() {
        let mut given = session(&format!("ses_{n}"));
        given.time = serde_json::from_value(
            json!({"created": value, "updated": value, "archived": value, "compacting": value}),
        )
        .expect("time");
        let expected = given.clone();
        let (s, m) = (format!("ses_{n}"), format!("msg_{n}"));
        let step = json!({"type": "step-finish", "reason": "stop", "cost": value, "tokens": {
            "input": value, "output": value, "reasoning": value,
            "cache": {"read": value, "write": value}}});
        let message = user(&s, &m, value.clone());
        let finish = part(&s, &m, &format!("prt_{n}"), step);
        let (sent, step) = (message.clone(), finish.clone());
        write(&store, move |tx| {
            tx.sessions().create(&given)?;
            tx.messages().put(&sent)?;
            tx.messages().put_part(&step)
        })
        .unwrap_or_else(|e| panic!("{value}: {e}"));
        let found = store.read(&ctx(), |r| {
            Ok((r.sessions().get(&expected.id)?, r.messages().get(&expected.id, &message.id)?))
        });
        let (found, with_parts) = found.expect("reads");
        assert_eq!(found, expected);
        assert_eq!((with_parts.message, &with_parts.parts[0]), (message, &finish));
    }
    store.rebuild(&ctx(), &mut |_| {}).expect("rebuilds");
}

#[test]
fn usage_saturates() {
    let dir = tempfile::tempdir().expect("temp dir");
    let store = with_sessions(dir.path(), &["ses_a"]);
    let most = i64::MAX;
    let step = json!({"type": "step-finish", "reason": "stop", "cost": 1e300, "tokens": {
        "input": most, "output": most, "reasoning": most, "cache": {"read": most, "write": most}}});
    for n in 0..3 {
        let finish = part("ses_a", "msg_a", &format!("prt_{n}"), step.clone());
        let answer = write(&store, move |tx| {
            tx.messages().put(&assistant("ses_a", "msg_a", 1))?;
            tx.messages().put_part(&finish)
        });
        assert!(matches!(answer, Ok(_) | Err(StoreError::Invalid(_))), "{answer:?}");
    }
    assert!(store.read(&ctx(), |r| r.sessions().usage(&sid("ses_a"))).is_ok());
    assert_eq!(store.maintenance().verify_projections().expect("verifies"), []);
}

#[test]
fn unknown_part_types_round_trip() {
    let dir = tempfile::tempdir().expect("temp dir");
    let store = with_sessions(dir.path(), &["ses_a"]);
    let bodies = [
        json!({"type": "x", "cost": "not a number", "tokens": [], "state": 7, "time": "never"}),
        json!({"type": "x", "tool": {"a": 1}, "text": null}),
        json!({"type": "", "state": {"status": {"deep": 1}}}),
    ];
    for (n, body) in bodies.into_iter().enumerate() {
        let given = part("ses_a", "msg_a", &format!("prt_{n}"), body);
        assert!(matches!(given.body, PartBody::Opaque(_)));
        let sent = given.clone();
        write(&store, move |tx| {
            tx.messages().put(&assistant("ses_a", "msg_a", 1))?;
            tx.messages().put_part(&sent)
        })
        .unwrap_or_else(|e| panic!("{n}: {e}"));
        let found =
            store.read(&ctx(), |r| r.messages().get_part(&sid("ses_a"), &given.id)).expect("reads");
        assert_eq!(found, given);
    }
}
