//! Small types and conversions that every crate uses: ids, moments, names of events, JSON forms.

use std::collections::BTreeSet;

use serde_json::{Number, Value, json};
use turnstone_core::call_context::{Actor, OwnerId};
use turnstone_core::change::{Evidence, FileMode, Oid, PathImage, TreeLeaf, UncoveredReason};
use turnstone_core::event::EventKind;
use turnstone_core::id::{IdClock, MessageId, ProjectId};
use turnstone_core::model::{
    Message, Project, ProjectAliasKind, RequestId, Session, SessionModel, SessionUsage, Todo,
    WorktreeCreationEvent,
};
use turnstone_core::permission::PermissionFile;
use turnstone_core::project_match::normalize_origin;
use turnstone_core::redact::{redact_prose, redact_text};
use turnstone_core::rel_path::RelPath;
use turnstone_core::time::{EpochMillis, LogCursor, SessionSeq};
use turnstone_core::turn::transition_table;
use turnstone_core::wire;

fn parse<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("the shape")
}

fn mint_after(newest: &str, random: [u8; 14]) -> String {
    let newest: MessageId = newest.parse().expect("an id");
    let tick = IdClock::default().next_timestamp(EpochMillis(1));
    MessageId::mint_after(Some(&newest), tick, random).as_str().to_owned()
}

/// Proves R30.
#[test]
fn id_after_the_newest_is_the_next_one() {
    let letters = [61; 14];
    let own = "msg_1de26d3e900100000000000000";
    assert_eq!(mint_after(own, letters), format!("msg_1de26d3e9002{}", "z".repeat(14)));
    // The time field is full, or has capital letters: no number that could be increased.
    assert_eq!(mint_after("msg_ffffffffffffa", letters), "msg_ffffffffffffb");
    assert_eq!(mint_after("msg_1DE26D3E9001a", letters), "msg_1DE26D3E9001b");
    assert_eq!(mint_after("msg_ffffffffffff9", letters), "msg_ffffffffffffA");
    assert_eq!(mint_after("msg_azz", letters), "msg_b");
    assert_eq!(mint_after("msg_zz", letters), "msg_zz0");
}

#[test]
fn random_bytes_become_letters_of_the_alphabet() {
    let tick = IdClock::default().next_timestamp(EpochMillis(1));
    let id = MessageId::mint(tick, [0, 9, 10, 35, 36, 61, 62, 123, 124, 255, 1, 2, 3, 4]);
    assert_eq!(&id.as_str()[16..], "09AZaz0z071234");
}

#[test]
fn project_ids_and_request_ids_are_shown_as_they_are() {
    let id: ProjectId = "4fe8a580".parse().expect("an id");
    assert_eq!((id.as_str(), id.to_string()), ("4fe8a580", "4fe8a580".to_owned()));
    let request = RequestId::Permission("per_a".parse().expect("an id"));
    assert_eq!(request.to_string(), "per_a");
}

#[test]
fn moments_and_positions_are_shown_as_numbers() {
    let moment = EpochMillis(1_000);
    assert_eq!(moment.plus(-1), EpochMillis(999));
    assert_eq!(moment.since(EpochMillis(400)), 600);
    let shown = [moment.to_string(), SessionSeq(7).to_string(), LogCursor(8).to_string()];
    assert_eq!(shown, ["1000", "7", "8"]);
}

#[test]
fn seven_kinds_are_numbered_by_opencode() {
    let durable = EventKind::ALL.iter().filter(|kind| kind.is_opencode_durable());
    let names: Vec<String> = durable.map(ToString::to_string).collect();
    assert_eq!(
        names,
        [
            "session.created",
            "session.updated",
            "session.deleted",
            "message.updated",
            "message.removed",
            "message.part.updated",
            "message.part.removed",
        ]
    );
    assert_eq!(String::from(EventKind::SessionCreated), "session.created");
    let empty: Vec<&EventKind> =
        EventKind::ALL.iter().filter(|kind| kind.has_no_payload()).collect();
    assert_eq!(empty, [&EventKind::ShareRemoved]);
}

/// Proves R27.
#[test]
fn only_the_lease_holder_writes_messages_and_changes() {
    for kind in [EventKind::MessageUpdated, EventKind::PartUpdated, EventKind::ChangeClosed] {
        assert!(kind.is_turn_owned(), "{kind}");
    }
    for kind in [EventKind::SessionUpdated, EventKind::OperationDone, EventKind::ShareCreated] {
        assert!(!kind.is_turn_owned(), "{kind}");
    }
}

#[test]
fn stored_words_are_the_words_of_the_data_directory() {
    let evidence = [Evidence::Named, Evidence::Window, Evidence::Recovered];
    assert_eq!(evidence.map(Evidence::as_str), ["named", "window", "recovered"]);
    let kinds = [
        ProjectAliasKind::RootCommit,
        ProjectAliasKind::Origin,
        ProjectAliasKind::CommonDir,
        ProjectAliasKind::Directory,
    ];
    let words = ["root-commit", "origin", "common-dir", "directory"];
    assert_eq!(kinds.map(ProjectAliasKind::as_str), words);
}

#[test]
fn every_turn_event_may_be_repeated_or_is_refused() {
    let repeats: BTreeSet<String> =
        transition_table().iter().map(|row| format!("{:?}", row.repeat)).collect();
    assert!(!repeats.contains("Moves"), "{repeats:?}");
}

#[test]
fn paths_are_found_by_bytes_and_shown_quoted() {
    let path: RelPath = "src/a".parse().expect("a path");
    let paths: BTreeSet<RelPath> = [path.clone()].into();
    assert!(paths.contains(b"src/a".as_slice()) && !paths.contains(b"src".as_slice()));
    assert_eq!(format!("{path:?}"), "\"src/a\"");
}

#[test]
fn origin_on_this_machine_names_no_repository() {
    assert_eq!(normalize_origin("file://host/srv/a.git"), None);
    assert_eq!(normalize_origin("FILE://host/srv/a.git"), None);
    assert_eq!(normalize_origin("c:/srv/a"), None);
    assert_eq!(normalize_origin("ab:srv/a.git").as_deref(), Some("ab/srv/a"));
}

#[test]
fn models_are_the_same_with_the_default_variant() {
    let model = |id: &str, provider: &str, variant: Option<&str>| -> SessionModel {
        let mut value = json!({ "id": id, "providerID": provider });
        if let Some(variant) = variant {
            value["variant"] = json!(variant);
        }
        parse(value)
    };
    let plain = model("m", "p", None);
    assert!(plain.is_same(&model("m", "p", Some("default"))));
    for other in [model("n", "p", None), model("m", "q", None), model("m", "p", Some("high"))] {
        assert!(!plain.is_same(&other), "{other:?}");
    }
}

#[test]
fn roots_of_a_project_are_absolute_and_not_the_whole_machine() {
    let time = json!({ "created": 1, "updated": 1 });
    let project: Project = parse(json!({
        "id": "p", "worktree": "/", "sandboxes": ["/one", "two"], "time": time
    }));
    let roots: Vec<_> = project.roots().map(|root| root.to_string_lossy().into_owned()).collect();
    assert_eq!(roots, ["/one"]);
}

#[test]
fn costs_are_written_as_javascript_writes_them() {
    let cost = |cost: i64| SessionUsage { cost, ..SessionUsage::default() }.cost_number();
    assert_eq!(cost(2_000_000_000_000), Number::from(2));
    assert_eq!(cost(12_300_000_000), Number::from_f64(0.0123).expect("finite"));
    assert_eq!(cost(-3_000_000_000_000).to_string(), "-3");
}

fn session(more: &Value) -> Session {
    let mut value = json!({
        "id": "ses_a", "slug": "s", "projectID": "p", "directory": "/p", "version": "1",
        "title": "T", "time": { "created": 1, "updated": 1 }
    });
    for (key, field) in more.as_object().expect("fields") {
        value[key] = field.clone();
    }
    wire::parse_session(value).expect("a session")
}

#[test]
fn imported_usage_is_shown_until_parts_are_added() {
    let foreign = session(&json!({ "cost": 1.5 }));
    let none = SessionUsage::default();
    let (cost, tokens) = wire::cost_and_tokens(&foreign, none);
    assert_eq!((cost.to_string(), &tokens["input"]), ("1.5".to_owned(), &json!(0)));
    let more = SessionUsage { cost: 500_000_000_000, input: 3, ..none };
    let (cost, tokens) = wire::cost_and_tokens(&foreign, more);
    assert_eq!((cost.to_string(), &tokens["input"]), ("2".to_owned(), &json!(3)));
    assert!(session(&json!({})).usage_base.is_none());
    let counts =
        json!({ "input": 7, "output": 0, "reasoning": 0, "cache": { "read": 0, "write": 0 } });
    let foreign = session(&json!({ "tokens": counts }));
    assert_eq!(wire::cost_and_tokens(&foreign, none).1["input"], 7);
}

#[test]
fn finished_session_keeps_its_archive_time_and_its_cost() {
    let archived = session(&json!({ "time": { "created": 1, "updated": 1, "archived": 5 } }));
    let usage = SessionUsage { cost: 1_000_000_000_000, ..SessionUsage::default() };
    let shown = wire::session_info(&archived, usage);
    assert_eq!((&shown["time"]["archived"], &shown["cost"]), (&json!(5), &json!(1)));
}

#[test]
fn lists_are_shown_as_opencode_shows_them() {
    let todo: Todo = parse(json!({ "content": "c", "status": "pending", "priority": "low" }));
    assert_eq!(
        wire::todos_info(&[todo]),
        json!([{ "content": "c", "status": "pending", "priority": "low" }])
    );
    let diffs = json!([{ "file": "a", "additions": 1, "deletions": 0, "status": "added" }]);
    let parsed = wire::parse_file_diffs(diffs.clone()).expect("diffs");
    assert_eq!((parsed.len(), wire::file_diffs_info(&parsed)), (1, diffs));
    let ready: WorktreeCreationEvent = parse(json!({ "directory": "/w", "name": "n" }));
    assert_eq!(wire::worktree_info(&ready), json!({ "name": "n" }));
}

#[test]
fn imported_tools_are_exported_unless_the_message_has_its_own() {
    let message = |more: Value| -> Message {
        let mut value = json!({
            "id": "msg_a", "sessionID": "ses_a", "role": "user", "time": { "created": 1 },
            "agent": "build", "model": { "providerID": "p", "modelID": "m" }
        });
        for (key, field) in more.as_object().expect("fields") {
            value[key] = field.clone();
        }
        wire::parse_message(value).expect("a message")
    };
    let imported = message(json!({ "importedTools": { "bash": false } }));
    assert_eq!(imported.body.role(), "user");
    assert_eq!(wire::message_export(&imported)["tools"], json!({ "bash": false }));
    let own = message(json!({ "tools": { "bash": true }, "importedTools": { "bash": false } }));
    assert_eq!(wire::message_export(&own)["tools"], json!({ "bash": true }));
}

#[test]
fn stored_message_is_shown_with_its_ids() {
    let mut out = String::new();
    let (id, session) = ("msg_a".parse().expect("an id"), "ses_a".parse().expect("an id"));
    wire::write_message(&mut out, r#"{"role":"user"}"#, &id, &session).expect("written");
    let shown: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(shown, json!({ "id": "msg_a", "sessionID": "ses_a", "role": "user" }));
}

#[test]
fn single_slash_in_a_rule_file_is_an_error_of_the_json() {
    let text = "{ \"permission\": { \"bash\": / \"allow\" /* a */ } }";
    let error = PermissionFile::parse(text).expect_err("no JSON");
    // A comment is blanked, so the place is that of the slash.
    assert!(error.to_string().contains("line 1 column 27"), "{error}");
}

#[test]
fn secrets_are_hidden_at_the_edges_of_lines_and_urls() {
    for (text, shown) in [
        ("x\ncurl -u ada:s3cret", "x\ncurl -u [redacted]"),
        ("git http://a:b@h/x,http://c:d@i/y", "git http://[redacted]@h/x,http://[redacted]@i/y"),
        ("http://ada:pa/ss1@h/x", "http://[redacted]@h/x"),
        ("http://hooks.h/a", "http://hooks.h/a"),
        ("http://hooks.h/a/b", "http://hooks.h/a/[redacted]"),
        ("http://h/a/b", "http://h/a/b"),
    ] {
        assert_eq!(redact_text(text), shown);
        assert_eq!(redact_prose("no secret"), "no secret");
    }
}

#[test]
fn actors_and_owners_keep_their_names() {
    let actor = Actor::new("ada").expect("an actor");
    assert_eq!((actor.as_str(), OwnerId::new("o-1".to_owned()).as_str()), ("ada", "o-1"));
}

#[test]
fn object_names_are_read_and_shown_digit_by_digit() {
    let text = "0123456789abcdeffedcba98765432100f1e2d3c";
    let blob: Oid = text.parse().expect("an object name");
    assert_eq!((blob.to_string().as_str(), format!("{blob:?}").as_str()), (text, text));
    let leaf = TreeLeaf { blob, mode: FileMode::Exec };
    let images = [
        PathImage::Present { leaf, perm: 0o700 },
        PathImage::Absent,
        PathImage::Uncovered { reason: UncoveredReason::Ignored },
    ];
    assert_eq!(images.map(|image| image.leaf()), [Some(leaf), None, None]);
    let reasons = images.map(|image| image.uncovered_reason());
    assert_eq!(reasons, [None, None, Some(UncoveredReason::Ignored)]);
    let modes = [FileMode::File, FileMode::Exec, FileMode::Link].map(FileMode::octal);
    assert_eq!(modes, ["100644", "100755", "120000"]);
}

#[test]
fn session_that_is_being_created_shows_no_private_field() {
    let hidden: Session = parse(json!({
        "id": "ses_a", "slug": "s", "projectID": "p", "directory": "/p", "version": "1",
        "title": "T", "time": { "created": 1, "updated": 1, "archived": 9 },
        "turnstone.creating": true, "other": 1
    }));
    let usage = SessionUsage { input: 4, ..SessionUsage::default() };
    let shown = wire::session_info(&hidden, usage);
    assert_eq!((&shown["title"], &shown["other"]), (&json!("T"), &json!(1)));
    assert!(shown.get("turnstone.creating").is_none() && shown["time"].get("archived").is_none());
    assert_eq!(shown["tokens"]["input"], 0);
}

#[test]
fn foreign_cost_is_shown_digit_by_digit() {
    let foreign = session(&json!({ "cost": 0.123_456_789_012_345_6 }));
    let (cost, _) = wire::cost_and_tokens(&foreign, SessionUsage::default());
    assert_eq!(cost.to_string(), "0.1234567890123456");
}
