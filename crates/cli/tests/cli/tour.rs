//! `turnstone tour`: every claim holds, and nothing is left behind.

use crate::fixture::CliFixture;

#[test]
fn tour_passes_and_removes_its_files() {
    let case = CliFixture::empty();
    fs_err::create_dir(case.path("tmp")).expect("made");
    let mut tour = case.command("p", &["tour", "--json"]);
    tour.env("TMPDIR", case.path("tmp")).env("PATH", "/usr/local/bin:/usr/bin:/bin");
    let ran = case.run_command(&mut tour);
    assert_eq!(ran.code, 0, "{ran:?}");
    let report: serde_json::Value = serde_json::from_str(&ran.out).expect("JSON");
    assert_eq!(report["claims"].as_array().map(Vec::len), Some(15), "{report}");
    let left = fs_err::read_dir(case.path("tmp")).expect("listed").count();
    assert_eq!(left, 0);
    assert!(!case.data_dir().join("store").exists(), "the user's own data is not touched");
}
