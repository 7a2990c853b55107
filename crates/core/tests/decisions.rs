//! Small decisions that other crates rely on, each against a table of its cases.

use std::collections::{BTreeMap, BTreeSet};

use turnstone_core::change::{
    ChangeClaim, Evidence, FileChange, GitPosition, PathImage, UncoveredReason, find_contended,
};
use turnstone_core::event::EventKind;
use turnstone_core::id::ChangeId;
use turnstone_core::operation::{OperationKind, UndoExtent};
use turnstone_core::permission::{
    BuiltinAgent, PermissionFile, PermissionRule, RuleAction, RuleLayer, RuleSource,
    explain_each_layer, matches_wildcard,
};
use turnstone_core::redact::{redact, redact_prose, redact_text};
use turnstone_core::rel_path::RelPath;
use turnstone_core::retention::is_boundary;
use turnstone_core::tool_state::ToolPhase;
use turnstone_core::turn::TurnState;

fn path(text: &str) -> RelPath {
    text.parse().expect("a path")
}

fn uncovered() -> PathImage {
    PathImage::Uncovered { reason: UncoveredReason::TooLarge }
}

/// Proves R25.
#[test]
fn turns_steps_and_operations_are_boundaries() {
    let always = [
        EventKind::TurnAccepted,
        EventKind::TurnStarted,
        EventKind::TurnEnded,
        EventKind::OperationDone,
    ];
    for kind in EventKind::ALL {
        let is_always = always.contains(kind);
        assert_eq!(is_boundary(*kind, None), is_always, "{kind:?}");
        let is_part = *kind == EventKind::PartUpdated;
        for (first, is_step) in [("step-start", true), ("step-finish", true), ("text", false)] {
            let expected = is_always || (is_part && is_step);
            assert_eq!(is_boundary(*kind, Some(first)), expected, "{kind:?} {first}");
        }
    }
}

#[test]
fn turn_is_open_until_it_ends() {
    let open: Vec<_> = TurnState::ALL.into_iter().filter(|state| state.is_open()).collect();

    assert_eq!(open, [TurnState::Accepted, TurnState::Running, TurnState::Waiting]);
}

#[test]
fn states_are_displayed_by_their_stored_names() {
    assert_eq!(TurnState::Interrupted.to_string(), "interrupted");
    assert_eq!(ToolPhase::Completed.to_string(), "completed");
}

/// Proves R1.
#[test]
fn change_is_covered_only_if_both_sides_are() {
    let change =
        |before: PathImage, after: PathImage| FileChange { path: path("a"), before, after };

    assert!(PathImage::Absent.is_covered());
    assert!(!uncovered().is_covered());
    assert!(change(PathImage::Absent, PathImage::Absent).is_covered());
    assert!(!change(uncovered(), PathImage::Absent).is_covered());
    assert!(!change(PathImage::Absent, uncovered()).is_covered());
    assert!(!change(uncovered(), uncovered()).is_covered());
}

fn position(head: &str, branch: &str) -> GitPosition {
    GitPosition {
        head: Some(head.to_owned()),
        branch: Some(branch.to_owned()),
        ..GitPosition::default()
    }
}

/// Proves R5.
#[test]
fn unknown_git_position_equals_no_other() {
    let (one, unknown) = (position("a", "main"), GitPosition::unknown());

    assert!(one.is_same_position(&position("a", "main")));
    assert!(!one.is_same_position(&position("b", "main")));
    assert!(!one.is_same_position(&position("a", "other")));
    assert!(unknown.unknown);
    assert!(!unknown.is_same_position(&one));
    assert!(!one.is_same_position(&unknown));
    assert!(!unknown.is_same_position(&unknown));
    // Known to be somewhere, and the rest could not be read.
    let half = GitPosition { unknown: true, ..one.clone() };
    assert!(!half.is_same_position(&one));
    assert!(!one.is_same_position(&half));
}

/// Proves R8.
#[test]
fn windows_that_only_touch_do_not_contend() {
    let id = |text: &str| ChangeId::try_from(text.to_owned()).expect("an id");
    let claim = |name: &str, span| ChangeClaim {
        change: id(name),
        outer: None,
        evidence: Evidence::Window,
        span,
        paths: BTreeSet::from([path("a")]),
        shared: BTreeSet::new(),
    };
    let undone = BTreeSet::from([id("chg_one")]);
    let check =
        |span| find_contended(&undone, &[claim("chg_one", (10, 20)), claim("chg_two", span)]);

    assert_eq!(check((20, 30)), BTreeMap::new());
    assert_eq!(check((1, 10)), BTreeMap::new());
    let both = BTreeSet::from([id("chg_one"), id("chg_two")]);
    assert_eq!(check((19, 30)), BTreeMap::from([(path("a"), both)]));
}

#[test]
fn only_eviction_and_forgetting_run_in_the_background() {
    let background: Vec<_> =
        OperationKind::ALL.into_iter().filter(|kind| kind.is_background()).collect();

    assert_eq!(background, [OperationKind::Expire, OperationKind::Forget]);
}

#[test]
fn undo_extent_names_the_paths_it_covers() {
    let some = UndoExtent::Paths(vec![path("a"), path("b")]);

    assert!(some.contains_path(&path("b")) && !some.contains_path(&path("c")));
    assert!(UndoExtent::All.contains_path(&path("c")));
    assert!(!UndoExtent::Nothing.contains_path(&path("a")));
}

#[test]
fn builtin_agents_are_found_by_name() {
    let names: Vec<_> = BuiltinAgent::ALL.into_iter().map(BuiltinAgent::as_str).collect();

    assert_eq!(names, ["build", "plan", "general", "explore", "compaction", "title", "summary"]);
    for agent in BuiltinAgent::ALL {
        assert_eq!(BuiltinAgent::parse(agent.as_str()), Some(agent));
    }
    assert_eq!(BuiltinAgent::parse("Build"), None);
    let named = |keep: fn(BuiltinAgent) -> bool| -> Vec<&str> {
        BuiltinAgent::ALL
            .into_iter()
            .filter(|agent| keep(*agent))
            .map(BuiltinAgent::as_str)
            .collect()
    };
    assert_eq!(named(BuiltinAgent::is_subagent), ["general", "explore"]);
    assert_eq!(named(BuiltinAgent::is_hidden), ["compaction", "title", "summary"]);
}

/// Proves R38.
#[test]
fn each_layer_is_explained_alone_weakest_first() {
    let rule = |action| vec![PermissionRule::new("bash", "ls *", action)];
    let (session, builtin) = (rule(RuleAction::Deny), rule(RuleAction::Allow));
    let other = vec![PermissionRule::new("edit", "*", RuleAction::Deny)];
    let layers = [
        RuleLayer { source: RuleSource::Session, rules: &session },
        RuleLayer { source: RuleSource::Builtin, rules: &builtin },
        RuleLayer { source: RuleSource::User, rules: &other },
    ];
    let explained = explain_each_layer("bash", "ls -l", &layers);
    let shown: Vec<_> =
        explained.iter().map(|one| (one.source.map(RuleSource::as_str), one.action)).collect();

    assert_eq!(
        shown,
        [(Some("built-in defaults"), RuleAction::Allow), (Some("session"), RuleAction::Deny)]
    );
}

/// Proves R38.
#[test]
fn commas_between_rules_are_kept_without_trailing_ones() {
    let read = |text: &str| {
        let file = PermissionFile::parse(text).expect("a valid file");
        file.shared_rules("/home/user").expect("valid rules").len()
    };

    assert_eq!(read(r#"{"permission": {"edit": "allow", "bash": "ask"}, "list": [1, 2]}"#), 2);
    assert_eq!(read(r#"{"list": [1, 2, 3], "permission": {"edit": "allow"}}"#), 1);
    assert!(PermissionFile::parse("{\"permission\": {\"edit\": \"allow\" /x*/ }}").is_err());
}

#[test]
fn wildcard_piece_is_searched_anywhere() {
    assert!(matches_wildcard("xxxabc", "*ab*c"));
    assert!(matches_wildcard("xxxab", "x*ab*"));
    assert!(!matches_wildcard("xxxab", "*ab*b"));
}

#[test]
fn document_is_redacted_as_json() {
    assert_eq!(redact_text(r#"{"password":"S\"S S"}"#), r#"{"password":"[redacted]"}"#);
    // Nothing is hidden: the text stays as it was written.
    assert_eq!(redact_text("{ \"name\" : \"x\" }"), "{ \"name\" : \"x\" }");
}

#[test]
fn basic_login_is_hidden_by_what_it_decodes_to() {
    // `dTpw` is `u:p`; `word` decodes to bytes without a colon.
    assert_eq!(redact_prose("it sent Basic dTpw to us"), "it sent Basic [redacted] to us");
    assert_eq!(redact_prose("a Basic word of it"), "a Basic word of it");
}

#[test]
fn login_flag_belongs_to_the_command_on_its_own_line() {
    let other = "curl --version\ndocker run -u node:node image";
    assert_eq!(redact_prose(other), other);
    assert_eq!(
        redact_prose("curl -s \\\n  -u ada:hunter https://h"),
        "curl -s \\\n  -u ada:[redacted] https://h"
    );
    let accent = "caf\u{e9}\nrun -u node:node image";
    assert_eq!(redact_prose(accent), accent);
}

#[test]
fn header_is_hidden_to_the_end_of_its_line() {
    assert_eq!(redact_text("curl -H X-Key: S S\nls"), "curl -H X-Key: [redacted]\nls");
    assert_eq!(redact_text("curl -H X-Key:\nls"), "curl -H X-Key:\nls");
}

#[test]
fn empty_masked_and_path_like_values_are_shown() {
    for text in ["token=\"\"", "token=***", "secret://host/path"] {
        assert_eq!(redact_text(text), text);
    }
    assert_eq!(redact_text("token=S"), "token=[redacted]");
}

#[test]
fn words_are_shown_in_prose_and_mixed_values_hidden() {
    let word = "the password: internationalisation";
    assert_eq!(redact_prose(word), word);
    assert_eq!(redact_prose("the password: interNationalisation"), "the password: [redacted]");
}

#[test]
fn random_text_is_hidden_only_if_all_kinds_alternate() {
    let hidden = format!("{}a", "aaBB11".repeat(6));
    assert_eq!(redact_text(&hidden), "[redacted]");
    // One change less than half of the pairs, and no digits at all.
    for shown in ["aaBB11".repeat(6), "aB".repeat(20)] {
        assert_eq!(redact_text(&shown), shown);
    }
}

#[test]
fn several_urls_are_split_between_characters() {
    assert_eq!(
        redact_text("https://\u{e9},https://u:S@two/x"),
        "https://\u{e9},https://[redacted]@two/x"
    );
}

#[test]
fn webhooks_are_hidden_behind_a_password_with_a_slash() {
    assert_eq!(
        redact_text("https://u:S/S@hooks.slack.com/services/TSECRET/x"),
        "https://[redacted]@hooks.slack.com/services/[redacted]/[redacted]"
    );
    for text in
        ["https://x.example/bottle/a", "https://x.example/a:b/c", "https://x.example/v1b2c3d/x"]
    {
        assert_eq!(redact_text(text), text);
    }
}

#[test]
fn keys_that_become_the_same_are_numbered() {
    let mut value = serde_json::json!({ "token=a1": 1, "token=b2": 2, "token=c3": 3 });
    redact(&mut value);
    let keys: BTreeSet<&str> =
        value.as_object().expect("a table").keys().map(String::as_str).collect();

    let same = "token=[redacted]";
    assert_eq!(keys, BTreeSet::from([same, "token=[redacted] (2)", "token=[redacted] (3)"]));
}

#[test]
fn path_has_parts_and_a_name() {
    let nested = path("src/deep/a.rs");

    assert_eq!(nested.parts().collect::<Vec<_>>(), [&b"src"[..], b"deep", b"a.rs"]);
    assert_eq!(nested.name(), b"a.rs");
    assert_eq!(path("a").name(), b"a");
}
