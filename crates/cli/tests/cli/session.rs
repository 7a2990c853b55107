//! `turnstone session`: lists, transcripts, and what changes a session.

use insta::assert_snapshot;

use crate::fixture::{CliFixture, HOSTILE_TITLE, list_all_sessions};

#[test]
fn session_list_shows_checkout_and_counts_others() {
    let case = CliFixture::with_sessions();
    let ran = case.run(&["session", "list"]);
    assert_eq!(ran.code, 0);
    assert_snapshot!(ran.out, @r"
    ID        UPDATED           TITLE
    ses_aaa1  2024-05-01 10:40  Fix the tide table
    ses_abc3  2024-05-01 10:20  A very long title that no terminal of eighty columns could ever show whole
    ");
    assert_snapshot!(ran.err, @r"
    1 more session elsewhere in this project (--project)
    1 more session in other projects (--all)
    ");
    // A directory below the checkout sees the same, another checkout its own.
    assert_eq!(case.run_in("p/src", &["session", "list"]).out, ran.out);
    let other = case.run_in("p-two", &["session", "list"]);
    assert_snapshot!(other.out, @r"
    ID        UPDATED           TITLE
    ses_two4  2024-05-01 10:10  In the other checkout
    ");
    assert_snapshot!(other.err, @r"
    2 more sessions elsewhere in this project (--project)
    1 more session in other projects (--all)
    ");
}

#[test]
fn session_list_of_empty_directory_says_so() {
    let case = CliFixture::with_sessions();
    let ran = case.run_in("nowhere", &["session", "list"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, ""));
    assert_snapshot!(ran.err, @r"
    no sessions in ~/nowhere
    4 more sessions elsewhere (--all)
    ");
    let empty = CliFixture::empty().run(&["session", "list", "--json"]);
    let none = "{\n  \"sessions\": [],\n  \"next_cursor\": null\n}\n";
    assert_eq!((empty.code, empty.out.as_str()), (0, none));
}

#[test]
fn session_list_is_truncated_to_narrow_terminal() {
    let case = CliFixture::with_sessions();
    let all = ["session", "list", "--all", "--children"];
    let whole = case.run(&all);
    assert!(whole.out.contains("could ever show whole"), "{}", whole.out);
    let mut command = case.command("p", &all);
    let narrow = case.run_command(command.env("TURNSTONE_WIDTH", "72"));
    assert!(narrow.out.contains('…'), "{}", narrow.out);
    assert!(!narrow.out.contains("could ever show whole"), "{}", narrow.out);
    // The titles are cut, the ids never are.
    assert_eq!(narrow.out.matches("ses_").count(), 5);
}

#[test]
fn session_list_json_has_sessions_and_cursor() {
    let case = CliFixture::with_sessions();
    let page = case.run(&["session", "list", "--all", "--json", "-n", "1"]);
    assert_eq!(page.err, "", "the cursor is in the document");
    let page: serde_json::Value = serde_json::from_str(&page.out).expect("JSON");
    let cursor = page["next_cursor"].as_str().expect("a cursor");
    let next = case.run_json(&["session", "list", "--all", "--cursor", cursor]);
    assert_eq!(
        (&next["sessions"][0]["id"], &next["next_cursor"]),
        (&"ses_abc3".into(), &().into())
    );
    let all = case.run_json(&["session", "list", "--all", "--actor", "ada"]);
    let none = case.run_json(&["session", "list", "--all", "--actor", "bob"]);
    assert_eq!(none["sessions"].as_array().map(Vec::len), Some(0));
    let list = &all["sessions"];
    let ids: Vec<&str> =
        list.as_array().expect("array").iter().filter_map(|s| s["id"].as_str()).collect();
    assert_eq!(ids, ["ses_aaa1", "ses_abc3", "ses_two4", "ses_far5"]);
    let first = &list[0];
    assert_eq!(first["title"], "Fix the tide table");
    assert_eq!(first["projectID"], "tide");
    assert_eq!(first["time"]["updated"], crate::fixture::START_MILLIS + 40 * 60_000);
    assert_eq!(first["tokens"]["cache"]["read"], 7000);
}

#[test]
fn session_list_page_prints_cursor_of_the_next() {
    let case = CliFixture::with_sessions();
    let mut seen = Vec::new();
    let mut cursor: Option<String> = None;
    for _ in 0..9 {
        let mut args = vec!["session", "list", "--project", "--limit", "1"];
        args.extend(cursor.iter().flat_map(|cursor| ["--cursor", cursor]));
        let ran = case.run(&args);
        seen.extend(ran.out.lines().skip(1).filter_map(|l| l.split(' ').next()).map(str::to_owned));
        cursor =
            ran.err.split("--cursor ").nth(1).map(|rest| rest.trim_end_matches("`\n").to_owned());
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(seen, ["ses_aaa1", "ses_abc3", "ses_two4"]);
    let bad = case.run(&["session", "list", "--cursor", "' OR 1=1"]);
    assert_eq!(
        (bad.code, bad.err.lines().next()),
        (1, Some("error: this is not a cursor of a session list"))
    );
}

#[test]
fn title_search_treats_wildcards_as_text() {
    let case = CliFixture::with_sessions();
    let found = case.run(&["session", "list", "--all", "--children", "--search", "tide"]);
    assert_eq!(found.out.matches("ses_").count(), 2);
    let wild = case.run(&["session", "list", "--all", "--search", "%"]);
    assert_snapshot!(wild.err, @r#"
    no sessions with "%" in the title
    "#);
}

#[test]
fn session_show_prints_transcript() {
    let case = CliFixture::with_sessions();
    let mut command = case.command("p", &["session", "show", "ses_aaa1"]);
    let ran = case.run_command(command.env("TURNSTONE_WIDTH", "70"));
    assert_snapshot!(ran.out, @r"
    Fix the tide table
    ses_aaa1 · updated 2024-05-01 10:40 · ~/p

    ── user · to build · 2024-05-01 10:00 ────────────────────────────────
    The tide table is wrong by an hour in summer.
    Please mend it, and tell me in a few words what was the matter with
    it.
    [file] tide.txt (text/plain)

    ── assistant · build · acme/gull-2 · 2024-05-01 10:00 ────────────────
      one
      two
      three
      … 2 more lines
    ✓ bash  grep -n tide table.rs (2.5 s)
        1: tide
        2: tide
        3: tide
        4: tide
        5: tide
        … 2 more lines
    ✗ edit  /p/table.rs (failed)
        oldString not found
    It forgot summer time. Mended.
    · step ended: stop · 1,200 tokens in, 340 out · $0.0123
    ± 1 file changed: /p/table.rs

    ── assistant · build · acme/gull-2 · 2024-05-01 10:01 ────────────────
    ✗ APIError: the model is away

    To do
    [x] read the table
    [>] mend ␛[1mit

    3 messages · $0.0123 · 1,200 tokens in, 340 out, 56 reasoning, 7,000
    cached
    ");
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
}

#[test]
fn full_transcript_shows_everything() {
    let case = CliFixture::with_sessions();
    let ran = case.run(&["session", "show", "aaa1", "--full"]);
    for text in ["  five\n", "7: tide\n", "step started at 4b825dc6"] {
        assert!(ran.out.contains(text), "{text}: {}", ran.out);
    }
    let newest = case.run(&["session", "show", "aaa1", "--limit", "1"]);
    assert!(newest.out.contains("the model is away") && !newest.out.contains("Please mend it"));
    assert!(newest.out.contains("newest 1 message ·"), "{}", newest.out);
    assert!(newest.err.starts_with("omit --limit"), "{}", newest.err);
}

#[test]
fn transcript_json_has_export_shape() {
    let case = CliFixture::with_sessions();
    let shown = case.run_json(&["session", "show", "aaa1"]);
    assert_eq!(shown["info"]["id"], "ses_aaa1");
    assert_eq!(
        shown["messages"][1]["parts"][2]["state"]["input"]["command"],
        "grep -n tide table.rs"
    );
    assert_eq!(shown["todos"][0]["status"], "completed");
}

#[test]
fn ids_resolve_by_unique_prefix() {
    let case = CliFixture::with_sessions();
    for typed in ["ses_aaa1", "ses_aaa", "aaa1", "aaa"] {
        assert_eq!(case.run(&["session", "show", typed]).code, 0, "{typed}");
    }
    let several = case.run(&["session", "show", "ses_a"]);
    assert_eq!((several.code, several.out.as_str()), (1, ""));
    assert_snapshot!(several.err, @r#"
    error: session ID "ses_a" is ambiguous; it matches 3 sessions:
      ses_aaa1  Fix the tide table
      ses_aab2  Look for tides
      ses_abc3  A very long title that no terminal of eighty columns could ever show whole
    hint: use a longer prefix of the ID
    "#);
    let none = case.run(&["session", "show", "zzz"]);
    assert_eq!(none.code, 1);
    assert_snapshot!(none.err, @r#"
    error: no session matches "zzz"
    hint: `turnstone session list --all` lists all sessions
    "#);
    assert_eq!(case.run(&["session", "show", "a/b"]).code, 2);
}

#[test]
fn rename_sets_the_title() {
    let case = CliFixture::with_sessions();
    let ran = case.run(&["session", "rename", "abc", "Short"]);
    assert_eq!(
        (ran.code, ran.out.as_str(), ran.err.as_str()),
        (0, "", "renamed ses_abc3 to \"Short\"\n")
    );
    assert_eq!(case.run_json(&["session", "show", "abc"])["info"]["title"], "Short");
    assert_eq!(case.run_json(&["session", "rename", "abc", "Shorter"])["title"], "Shorter");
    let empty = case.run(&["session", "rename", "abc", " "]);
    assert_eq!(empty.code, 1);
    assert!(empty.err.starts_with("error: the title is empty\nhint: "), "{}", empty.err);
}

#[test]
fn archived_sessions_are_hidden_until_unarchived() {
    let case = CliFixture::with_sessions();
    let ran = case.run(&["session", "archive", "aaa", "abc"]);
    assert_eq!(ran.err, "ses_aaa1 archived\nses_abc3 archived\n");
    assert_eq!(case.run(&["session", "archive", "aaa"]).err, "ses_aaa1 already archived\n");
    assert_eq!(case.run(&["session", "list"]).out, "");
    let listed = case.run(&["session", "list", "--archived"]);
    assert!(listed.out.contains("Fix the tide table (archived)"), "{}", listed.out);
    let back = case.run_json(&["session", "unarchive", "aaa"]);
    assert_eq!((&back[0]["id"], back[0]["time"].get("archived")), (&"ses_aaa1".into(), None));
    // One unknown id and nothing is touched.
    let before = list_all_sessions(&case);
    assert_eq!(case.run(&["session", "archive", "aaa", "zzz"]).code, 1);
    assert_eq!(list_all_sessions(&case), before);
}

#[test]
fn delete_dry_run_prints_tree_and_changes_nothing() {
    let case = CliFixture::with_sessions();
    let before = list_all_sessions(&case);
    let ran = case.run(&["session", "delete", "aaa", "far", "--dry-run"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    assert_snapshot!(ran.out, @r"
    ses_aaa1  Fix the tide table  (3 messages, 9 parts)
      ses_aab2  Look for tides  (0 messages, 0 parts)
    ses_far5  ␛]0;owned␇␛[31mred␛[2J<U+202E>end  (0 messages, 0 parts)
    to delete: 3 sessions, 3 messages, 9 parts
    ");
    let plan = case.run_json(&["session", "delete", "aaa", "--dry-run"]);
    assert_eq!((&plan[1]["parent"], &plan[0]["parts"]), (&"ses_aaa1".into(), &9.into()));
    assert_eq!(list_all_sessions(&case), before);
}

#[test]
fn delete_keeps_and_names_an_imported_share() {
    let case = CliFixture::with_sessions();
    let share = turnstone_store::ShareRecord {
        id: "s1".into(),
        secret: "open-sesame".into(),
        url: "https://hub.example/\u{1b}s1".into(),
    };
    let (session, put) = ("ses_far5".parse().expect("an id"), share.clone());
    let store = case.open_store();
    let ctx = CliFixture::context();
    store.write(&ctx, move |tx| tx.shares().put(&session, &put)).wait().expect("stored");
    drop(store);
    let ran = case.run(&["session", "delete", "far", "--yes"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.err.contains("the share https://hub.example/␛s1: it is still public"), "{ran:?}");
    assert!(!ran.err.contains("sesame"), "{ran:?}");
    let kept = case.open_store().read(&ctx, |r| r.shares().list_unrevoked()).expect("reads");
    assert_eq!(kept.into_iter().map(|kept| kept.share).collect::<Vec<_>>(), [share]);
}

#[test]
fn delete_requires_confirmation() {
    let case = CliFixture::with_sessions();
    let before = list_all_sessions(&case);
    let refused = case.run(&["session", "delete", "aaa"]);
    assert_eq!(refused.code, 1);
    assert_snapshot!(refused.err, @r"
    ses_aaa1  Fix the tide table  (3 messages, 9 parts)
      ses_aab2  Look for tides  (0 messages, 0 parts)
    to delete: 2 sessions, 3 messages, 9 parts
    error: aborted: not confirmed
    hint: `--dry-run` only shows the plan, `--yes` skips the confirmation
    ");
    assert_eq!(list_all_sessions(&case), before);
    let done = case.run(&["session", "delete", "aaa", "aab", "--yes"]);
    assert_eq!((done.code, done.err.as_str()), (0, "deleted 2 sessions\n"));
    let left: Vec<String> = list_all_sessions(&case)
        .as_array()
        .expect("array")
        .iter()
        .map(|session| session["id"].as_str().expect("id").to_owned())
        .collect();
    assert_eq!(left, ["ses_abc3", "ses_two4", "ses_far5"]);
    assert_eq!(case.run(&["session", "show", "ses_aaa1"]).code, 1);
}

#[test]
fn hostile_title_is_escaped() {
    let case = CliFixture::with_sessions();
    for args in [
        vec!["session", "list", "--all", "--color", "always"],
        vec!["session", "show", "far"],
        vec!["session", "delete", "far", "--dry-run"],
        vec!["session", "delete", "far"],
        vec!["session", "rename", "far", HOSTILE_TITLE],
    ] {
        let ran = case.run(&args);
        for text in [&ran.out, &ran.err] {
            assert!(
                !text.contains("\u{1b}[31m") && !text.contains("\u{1b}]0"),
                "{args:?}: {text:?}"
            );
            assert!(!text.contains(['\u{7}', '\u{202e}']), "{args:?}: {text:?}");
        }
    }
    assert_eq!(case.run_json(&["session", "show", "far"])["info"]["title"], HOSTILE_TITLE);
    let json = case.run(&["session", "show", "far", "--json"]);
    assert!(!json.out.contains('\u{1b}') && json.out.contains("\\u001b"), "{}", json.out);
}
