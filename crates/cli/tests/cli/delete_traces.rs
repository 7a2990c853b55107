//! Deleting a session: what it held is in no file of the data directory afterwards (R23).

use std::time::Duration;

use serde_json::{Value, json};
use turnstone_testkit::marker_scan::find_marker;

use crate::exec::run_program;
use crate::fixture::CliFixture;
use crate::serve_shell::TestServer;

/// The markers begin with letters that no other word begins with: the search index stores a word without what it
/// shares with the word before it.
const PROMPT_MARKER: &str = "xqprompt7f3a91marker";
const LONG_MARKER: &str = "jklong7f3a92marker";
const SPILL_MARKER: &str = "vkspill7f3a93marker";
const FILE_MARKER: &str = "zjfile7f3a94marker";
const GUARD_MARKER: &str = "qwguard7f3a95marker";
const MARKERS: [&str; 5] = [PROMPT_MARKER, LONG_MARKER, SPILL_MARKER, FILE_MARKER, GUARD_MARKER];

fn prompt(served: &TestServer, session: &str, key: &str, text: &str) {
    let body = json!({ "noReply": true, "parts": [{ "type": "text", "text": text }] });
    let path = format!("/session/{session}/message");
    let (status, answer) =
        crate::serve_shell::read_response(&mut served.request_with_key(key, &path, &body));
    assert_eq!(status, 200, "{answer}");
}

/// A session with a marker in its prompt, a part that is too long for the database, spilled output, a captured
/// file, and a guard of an undo.
fn create_marked_session(case: &CliFixture, served: &TestServer) -> String {
    let session = served.create_session();
    prompt(served, &session, "key-1", &format!("please do {PROMPT_MARKER} now"));
    prompt(served, &session, "key-2", &format!("{LONG_MARKER} {}", "long text ".repeat(40_000)));
    let run = |command: &str| {
        let (status, answer) = served.run_shell(&session, command);
        assert_eq!(status, 200, "{answer}");
    };
    run(&format!("echo {FILE_MARKER} > captured"));
    run(&format!("yes {SPILL_MARKER} | head -c 400000"));
    // The undo merges around what a person wrote, and its guard keeps what it displaces.
    let undone = case.path("p/undone");
    fs_err::write(&undone, "1\n2\n3\n4\n5\n").expect("written");
    run("sed -i s/1/one/ undone");
    fs_err::write(&undone, format!("one\n2\n3\n4\n{GUARD_MARKER}\n")).expect("written");
    let (status, undone) =
        served.request("POST", &format!("/turnstone/session/{session}/undo"), &json!({}));
    assert_eq!(status, 200, "{undone}");
    session
}

fn assert_no_traces(case: &CliFixture) {
    for marker in MARKERS {
        let found = find_marker(&case.data_dir(), marker).expect("scanned");
        assert!(found.is_empty(), "{marker} is in {found:?}");
    }
}

fn assert_all_traces(case: &CliFixture) {
    for marker in MARKERS {
        let found = find_marker(&case.data_dir(), marker).expect("scanned");
        assert!(!found.is_empty(), "{marker} was never stored");
    }
}

/// Proves R23.
#[test]
fn deleted_session_leaves_no_trace_in_the_data_directory() {
    let case = CliFixture::empty();
    let served = TestServer::start(&case);
    let other = served.create_session();
    prompt(&served, &other, "key-0", "another session that stays");
    let session = create_marked_session(&case, &served);
    let searched = run_program(&case, &["search", PROMPT_MARKER]);
    assert!(searched.out.contains(PROMPT_MARKER), "{searched:?}");
    assert_all_traces(&case);

    let (status, answer) =
        served.request("DELETE", &format!("/session/{session}?wait"), &Value::Null);
    assert_eq!((status, &answer), (200, &json!(true)));

    assert_no_traces(&case);
    assert_eq!(served.list_messages(&other).len(), 1, "other sessions stay");
    assert!(run_program(&case, &["doctor"]).code == 0);
}

/// Waits until no file holds a marker any more; a server removes them within about a minute.
fn await_no_traces(case: &CliFixture) {
    for _ in 0..2400 {
        let is_left =
            |marker: &&str| !find_marker(&case.data_dir(), marker).expect("scanned").is_empty();
        if !MARKERS.iter().any(is_left) {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_no_traces(case);
}

/// Proves R23.
#[test]
fn server_removes_traces_by_itself_even_if_killed_after_its_answer() {
    let case = CliFixture::empty();
    let served = TestServer::start(&case);
    let session = create_marked_session(&case, &served);
    let (status, answer) = served.request("DELETE", &format!("/session/{session}"), &Value::Null);
    assert_eq!((status, &answer), (200, &json!(true)));
    served.kill();

    let _served = TestServer::start(&case);

    await_no_traces(&case);
}

/// Proves R23.
#[test]
fn session_delete_leaves_no_trace_and_names_forks_and_backups() {
    let case = CliFixture::empty();
    let served = TestServer::start(&case);
    let session = create_marked_session(&case, &served);
    let other = served.create_session();
    prompt(&served, &other, "key-0", "another session");
    drop(served);
    let forked = run_program(&case, &["fork", &other, "--json"]);
    assert_eq!(forked.code, 0, "{forked:?}");
    let fork: Value = serde_json::from_str(&forked.out).expect("JSON");

    let deleted = run_program(&case, &["session", "delete", "--yes", &session]);

    assert_eq!(deleted.code, 0, "{deleted:?}");
    assert_no_traces(&case);
    let backup = run_program(&case, &["db", "backup"]);
    assert_eq!(backup.code, 0, "{backup:?}");
    let deleted = run_program(&case, &["session", "delete", "--yes", &other]);
    let fork = fork["session"]["id"].as_str().expect("an id");
    assert!(deleted.err.contains(&format!("kept: {fork} is a fork")), "{deleted:?}");
    assert!(deleted.err.contains("kept: 1 backup in "), "{deleted:?}");
}

/// Proves R23.
#[test]
fn delete_that_waits_says_so_if_another_process_reads() {
    let case = CliFixture::empty();
    let served = TestServer::start(&case);
    let session = create_marked_session(&case, &served);
    let store = case.open_store();
    let path = format!("/session/{session}?wait");

    let read = store.read(&CliFixture::context(), |r| {
        r.sessions().get(&session.parse().expect("an id"))?;
        Ok(served.request("DELETE", &path, &Value::Null))
    });

    let (status, answer) = read.expect("read");
    assert_eq!((status, &answer["_tag"]), (503, &json!("ErasurePendingError")), "{answer}");
    assert!(answer["message"].as_str().expect("text").contains("is deleted"), "{answer}");
    drop(store);
    assert_eq!(served.request("GET", &format!("/session/{session}"), &Value::Null).0, 404);
    await_no_traces(&case);
}

/// Proves R23.
#[test]
fn deleting_a_session_whose_command_runs_disturbs_no_other_command() {
    let case = CliFixture::empty();
    let served = TestServer::start(&case);
    let session = served.create_session();
    let started = case.path("p/started");
    std::thread::scope(|scope| {
        let shell = scope.spawn(|| {
            served.run_shell(&session, "touch started; while [ ! -e stop ]; do sleep 0.1; done")
        });
        while !started.exists() {
            std::thread::sleep(Duration::from_millis(20));
        }
        let path = format!("/session/{session}");
        assert_eq!(served.request("DELETE", &path, &Value::Null).0, 200);

        let status = run_program(&case, &["status"]);
        let ran = run_program(&case, &["exec", "--", "true"]);

        assert_eq!((status.code, ran.code), (0, 0), "{status:?} {ran:?}");
        for text in [&status.err, &ran.err] {
            assert!(!text.contains("does not exist"), "{text}");
            assert!(!text.contains("is running here"), "{text}");
        }
        fs_err::write(case.path("p/stop"), "").expect("written");
        shell.join().expect("answered");
    });
}
