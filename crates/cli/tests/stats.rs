//! `turnstone stats`.

mod case;

use case::Case;
use insta::assert_snapshot;

#[test]
fn everything_is_counted() {
    let case = Case::filled();
    let ran = case.run(&["stats"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    assert_snapshot!(ran.out, @"");
}

#[test]
fn the_figures_are_there_in_json() {
    let case = Case::filled();
    let stats = case.json(&["stats"]);
    assert_eq!((&stats["sessions"], &stats["messages"]), (&5.into(), &3.into()));
    assert_eq!(stats["cost"], 0.0123);
    assert_eq!(stats["tokens"]["cache"]["read"], 7000);
    assert_eq!(stats["tokensPerSession"]["median"], 0.0);
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
fn a_project_and_some_days_can_be_singled_out() {
    let case = Case::filled();
    let sessions = |args: &[&str]| case.json(&[&["stats"], args].concat())["sessions"].clone();
    assert_eq!(sessions(&["--project"]), 4);
    assert_eq!(sessions(&["--project", "quay"]), 1);
    assert_eq!(sessions(&["--project", "ti"]), 4);
    assert_eq!(sessions(&["--days", "0"]), 0, "all of it is of 2024");
    assert_eq!(sessions(&["--days", "36500"]), 5);
    let limited = case.json(&["stats", "--tools", "1", "--models", "0"]);
    assert_eq!(limited["tools"].as_array().map(Vec::len), Some(1));
    assert_eq!(limited["models"].as_array().map(Vec::len), Some(0));
    let outside = case.run_in("nowhere", &["stats", "--project"]);
    assert_eq!(outside.code, 1);
    assert_snapshot!(outside.err, @"");
    assert_eq!(case.run(&["stats", "--project", "zz"]).code, 1);
}
