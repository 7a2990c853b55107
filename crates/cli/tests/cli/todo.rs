//! `turnstone todo`: the list of the newest session here, or of any other.

use crate::fixture::CliFixture;

#[test]
fn todo_list_is_set_completed_and_shown() {
    let case = CliFixture::with_sessions();
    let set = case.run(&["todo", "set", "read the chart", "fix the sum"]);
    assert_eq!(set.code, 0, "{set:?}");
    let done = case.run(&["todo", "done", "2"]);
    assert_eq!(done.code, 0, "{done:?}");
    let list = case.run(&["todo"]);
    assert_eq!(list.out, case.run(&["todo", "list"]).out);
    let lines: Vec<Vec<&str>> =
        list.out.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[1], ["1", "pending", "medium", "read", "the", "chart"]);
    assert_eq!(lines[2], ["2", "completed", "medium", "fix", "the", "sum"]);
    // What was on the list keeps its state; it is the session's own list, of no other.
    case.run(&["todo", "set", "fix the sum", "tell them"]);
    let todos = case.run_json(&["todo", "--session", "ses_aaa1"]);
    assert_eq!(
        (&todos[0]["status"], &todos[1]["status"]),
        (&"completed".into(), &"pending".into())
    );
    assert_eq!(case.run_json(&["todo", "list", "--session", "ses_two4"]), serde_json::json!([]));
}

#[test]
fn todo_refuses_unknown_number_and_missing_session() {
    let case = CliFixture::with_sessions();
    case.run(&["todo", "set", "one"]);
    let done = case.run(&["todo", "done", "1", "7"]);
    assert_eq!(done.code, 1);
    assert!(done.err.contains("no entry 7"), "{}", done.err);
    assert_eq!(case.run_json(&["todo"])[0]["status"], "pending", "nothing is ticked off");
    let nowhere = case.run_in("nowhere", &["todo"]);
    assert_eq!(nowhere.code, 1);
    assert!(nowhere.err.contains("error: no session in "), "{}", nowhere.err);
}
