//! `turnstone tour`: every claim holds, and nothing is left behind.

use crate::case::Case;

#[test]
fn the_tour_holds_what_it_claims_and_leaves_nothing_behind() {
    let case = Case::empty();
    fs_err::create_dir(case.place("tmp")).expect("made");
    let mut tour = case.command("p", &["tour", "--json"]);
    tour.env("TMPDIR", case.place("tmp")).env("PATH", "/usr/local/bin:/usr/bin:/bin");
    let ran = case.ran(&mut tour);
    assert_eq!(ran.code, 0, "{ran:?}");
    let told: serde_json::Value = serde_json::from_str(&ran.out).expect("JSON");
    assert_eq!(told["claims"].as_array().map(Vec::len), Some(12), "{told}");
    let left = fs_err::read_dir(case.place("tmp")).expect("listed").count();
    assert_eq!(left, 0);
    assert!(!case.data().join("store").exists(), "the user's own data is not touched");
}
