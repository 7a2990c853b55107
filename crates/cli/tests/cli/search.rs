//! `turnstone search`.

use insta::assert_snapshot;

use crate::exec::{exec_shell, run_program};
use crate::fixture::CliFixture;

#[test]
fn search_hits_are_grouped_by_session() {
    let case = CliFixture::with_sessions();
    let ran = case.run(&["search", "summer"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    assert_snapshot!(ran.out, @r"
    ses_aaa1  Fix the tide table
      text · 2024-05-01 10:00  It forgot summer time. Mended.
      text · 2024-05-01 10:00  The tide table is wrong by an hour in summer. Please mend it, and tell me in a few words what was the matter with it.
    ");
    let titles = case.run(&["search", "--kind", "title", "tide*"]);
    assert_snapshot!(titles.out, @r"
    ses_aab2  Look for tides

    ses_aaa1  Fix the tide table
    ");
}

#[test]
fn search_hits_are_available_as_json() {
    let case = CliFixture::with_sessions();
    let found = case.run_json(&["search", "grep", "-k", "tool"]);
    let hits = &found["hits"];
    assert_eq!(found["next_cursor"], serde_json::Value::Null);
    assert_eq!(hits.as_array().map(Vec::len), Some(1));
    let hit = &hits[0];
    assert_eq!((&hit["session"], &hit["message"]), (&"ses_aaa1".into(), &"msg_2".into()));
    assert_eq!((&hit["kind"], &hit["title"]), (&"tool".into(), &"Fix the tide table".into()));
    let at = |index: usize| hit["matches"][0][index].as_u64().expect("offset") as usize;
    assert_eq!(&hit["snippet"].as_str().expect("text")[at(0)..at(1)], "grep");
    let titles = case.run_json(&["search", "grep", "-k", "title"]);
    assert_eq!(titles["hits"].as_array().map(Vec::len), Some(0));
}

#[test]
fn search_filters_by_session_project_and_limit() {
    let case = CliFixture::with_sessions();
    let hits = |args: &[&str]| {
        case.run_json(&[&["search", "tide*"], args].concat())["hits"].as_array().map(Vec::len)
    };
    let all = hits(&[]);
    assert_eq!(
        hits(&["--session", "aaa"]).map(|n| n + 1),
        all,
        "the child's title is the other one"
    );
    assert_eq!(hits(&["--project=tide"]), all);
    assert_eq!(hits(&["--project=quay"]), Some(0));
    assert_eq!(hits(&["--project"]), all);
    assert_eq!(hits(&["--limit", "1"]), Some(1));
    assert_eq!((hits(&["--actor", "ada"]), hits(&["--actor", "bob"])), (all, Some(0)));
    let page = case.run(&["search", "tide*", "-n", "1", "--json"]);
    assert!(page.err.is_empty() && page.out.contains("\"next_cursor\": \""), "{page:?}");
    assert_eq!(case.run(&["session", "archive", "aaa"]).code, 0);
    assert_eq!(hits(&["--session", "aaa"]), Some(0));
    assert_eq!(hits(&["--archived"]), all);
}

#[test]
fn search_page_prints_cursor_of_the_next() {
    let case = CliFixture::with_sessions();
    let first = case.run(&["search", "tide*", "-n", "2"]);
    let cursor = first.err.split("--cursor ").nth(1).map(|rest| rest.trim_end_matches("`\n"));
    let rest = case.run(&["search", "tide*", "--cursor", cursor.expect("a cursor")]);
    assert_eq!((rest.code, rest.err.as_str()), (0, ""));
    assert!(!rest.out.is_empty());
    assert_eq!(case.run(&["search", "tide*", "--cursor", "'; DROP"]).code, 1);
}

#[test]
fn search_without_hits_says_so() {
    let case = CliFixture::with_sessions();
    let ran = case.run(&["search", "lighthouse", "\u{1b}[1mkeeper"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, ""));
    assert_eq!(ran.err, "no matches for lighthouse ␛[1mkeeper\n");
    let none = case.run(&["search", "\"'*"]);
    assert_eq!(none.code, 1);
    assert_snapshot!(none.err, @"error: the query has no word to search for");
    assert_eq!(case.run(&["search"]).code, 2);
}

#[test]
fn long_search_hit_is_truncated_around_the_match() {
    let case = CliFixture::with_sessions();
    let mut command = case.command("p", &["search", "matter", "--color", "always"]);
    let ran = case.run_command(command.env("TURNSTONE_WIDTH", "72"));
    assert_snapshot!(ran.out.replace('\u{1b}', "␛"), @r"
    ␛[36mses_aaa1␛[0m  ␛[1mFix the tide table␛[0m
      ␛[2mtext · 2024-05-01 10:00␛[0m  …ds what was the ␛[1m␛[33mmatter␛[0m with it.
    ");
}

#[test]
fn search_finds_paths_that_commands_changed() {
    let case = CliFixture::empty();
    let hits = |args: &[&str]| {
        let found = case.run_json(&[&["search"], args].concat());
        found["hits"].as_array().expect("hits").clone()
    };
    // The command does not name the files.
    exec_shell(&case, "mkdir -p src; echo > src/quay''side.rs; exit 1");
    exec_shell(&case, "mv src/quay* src/har''bour.rs");
    let found = hits(&["quayside.rs"]);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found.iter().all(|hit| hit["kind"] == "path" && hit["part"].is_null()));
    assert_eq!(found[0]["snippet"], "src/quayside.rs");
    assert_eq!(found[1]["snippet"], "src/harbour.rs src/quayside.rs");
    assert!(found[0]["message"].as_str().is_some_and(|id| id.starts_with("msg_")));
    assert_eq!(hits(&["harbour", "--kind", "path", "--actor", "ada"]).len(), 1);
    assert_eq!(hits(&["harbour", "--actor", "bob"]).len(), 0);
    assert_eq!(run_program(&case, &["undo", "--last", "2"]).code, 0);
    assert_eq!(hits(&["quayside"]).len(), 2, "what was undone is found, too");
    let session = found[0]["session"].as_str().expect("an id");
    assert_eq!(run_program(&case, &["session", "delete", session, "--yes"]).code, 0);
    assert_eq!(hits(&["quayside"]).len(), 0);
}
