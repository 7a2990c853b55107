//! `turnstone stats`.

use insta::assert_snapshot;

use crate::fixture::CliFixture;

#[test]
fn stats_counts_sessions_tokens_models_and_tools() {
    let case = CliFixture::with_sessions();
    let ran = case.run(&["stats"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    assert_snapshot!(ran.out, @r"
    Overview
    sessions                  5
    messages                  3
    days                      1
    cost                $0.0123
    cost per day        $0.0123
    tokens                8,596
      input               1,200
      output                340
      reasoning              56
      cache read          7,000
      cache write             0
    tokens per session    1,719
      median                  0

    MODEL        MESSAGES  INPUT  OUTPUT  CACHED     COST
    acme/gull-2         2  1,200     396   7,000  $0.0123

    TOOL  CALLS   SHARE  FAILED
    bash      1  50.0 %       0
    edit      1  50.0 %       1
    ");
}

#[test]
fn stats_are_available_as_json() {
    let case = CliFixture::with_sessions();
    let stats = case.run_json(&["stats"]);
    assert_eq!((&stats["sessions"], &stats["messages"]), (&5.into(), &3.into()));
    assert_eq!(stats["cost"], 0.0123);
    assert_eq!(stats["tokens"]["cache"]["read"], 7000);
    assert_eq!(stats["tokens_per_session"]["median"], 0.0);
    assert_eq!(
        (&stats["models"][0]["model"], &stats["models"][0]["messages"]),
        (&"acme/gull-2".into(), &2.into())
    );
    assert_eq!(
        (&stats["tools"][1]["tool"], &stats["tools"][1]["errors"]),
        (&"edit".into(), &1.into())
    );
}

#[test]
fn stats_filter_by_project_and_days() {
    let case = CliFixture::with_sessions();
    let sessions = |args: &[&str]| case.run_json(&[&["stats"], args].concat())["sessions"].clone();
    assert_eq!(sessions(&["--project"]), 4);
    assert_eq!(sessions(&["--project", "quay"]), 1);
    assert_eq!(sessions(&["--project", "ti"]), 4);
    assert_eq!(sessions(&["--days", "0"]), 0, "all of it is of 2024");
    assert_eq!(sessions(&["--days", "36500"]), 5);
    let limited = case.run_json(&["stats", "--tools", "1", "--models", "0"]);
    assert_eq!(limited["tools"].as_array().map(Vec::len), Some(1));
    assert_eq!(limited["models"].as_array().map(Vec::len), Some(0));
    let outside = case.run_in("nowhere", &["stats", "--project"]);
    assert_eq!(outside.code, 1);
    assert_snapshot!(outside.err, @r"
    error: ~/nowhere does not belong to a project
    hint: choose a project with `--project ID`, or run `turnstone exec` here to create one
    ");
    assert_eq!(case.run(&["stats", "--project", "zz"]).code, 1);
}
