//! Known advisories: no locked package has a version that one of them is about.
//!
//! The RustSec database is a git repository and cannot be fetched everywhere, so `audit/rustsec.jsonl`
//! holds what matters of it, with its date. `scripts/advisories update` takes a newer one.

use semver::{Version, VersionReq};
use serde_json::Value;

use crate::finding::{TidyFinding, TidyRule, assert_lines, assert_no_findings};
use crate::repository_files;

const ADVISORY: TidyRule = TidyRule {
    name: "advisory",
    remedy: "`cargo update -p` to a version that is not affected, or put the id into ACCEPTED with the \
             reason why it cannot hurt us",
};
const DATABASE: TidyRule = TidyRule {
    name: "advisory-database",
    remedy: "write the file with `scripts/advisories update`, never by hand",
};

const LOCK_FILE: &str = "Cargo.lock";
const ADVISORY_FILE: &str = "audit/rustsec.jsonl";

/// Advisories that cannot hurt us, each with the reason.
const ACCEPTED: [(&str, &str); 0] = [];

/// A package of the lock file.
struct LockedPackage<'a> {
    line: usize,
    name: &'a str,
    version: &'a str,
}

fn parse_lock_file(lock: &str) -> Vec<LockedPackage<'_>> {
    let lines: Vec<&str> = lock.lines().collect();
    let pairs = lines.windows(2).enumerate().filter_map(|(index, pair)| {
        let (first, second) = (pair.first()?, pair.last()?);
        let name = first.strip_prefix("name = ")?.trim_matches('"');
        let version = second.strip_prefix("version = ")?.trim_matches('"');
        Some(LockedPackage { line: index + 1, name, version })
    });
    pairs.collect()
}

/// True unless a requirement lets the version out; a requirement that is none lets nothing out.
fn is_affected(advisory: &Value, version: &Version) -> bool {
    let lists = ["patched", "unaffected"].into_iter().filter_map(|key| advisory[key].as_array());
    let requirements = lists.flatten().filter_map(Value::as_str);
    !requirements.filter_map(|text| VersionReq::parse(text).ok()).any(|req| req.matches(version))
}

fn check_advisories(lock: &str, kept: &str, accepted: &[(&str, &str)]) -> Vec<TidyFinding> {
    let mut lines = kept.lines().map(serde_json::from_str::<Value>);
    let head = lines.next().and_then(Result::ok).unwrap_or_default();
    let advisories: Vec<Value> = lines.filter_map(Result::ok).collect();
    let mut findings = Vec::new();
    let has_shape = |one: &Value| one["id"].is_string() && one["package"].is_string();
    if head["date"].as_str().is_none()
        || head["advisories"].as_u64() != u64::try_from(advisories.len()).ok()
        || !advisories.iter().all(has_shape)
    {
        findings.push(DATABASE.report(ADVISORY_FILE, 1, "it is not as it was written"));
    }
    for package in parse_lock_file(lock) {
        let Ok(version) = Version::parse(package.version) else {
            findings.push(ADVISORY.report(LOCK_FILE, package.line, "a version that is none"));
            continue;
        };
        let about = advisories.iter().filter(|one| one["package"] == package.name);
        for advisory in about.filter(|one| is_affected(one, &version)) {
            let text = |key: &str| advisory[key].as_str().unwrap_or_default();
            if !accepted.iter().any(|(id, _)| *id == text("id")) {
                let what = format!("{} {version}: {}: {}", package.name, text("id"), text("title"));
                findings.push(ADVISORY.report(LOCK_FILE, package.line, what));
            }
        }
    }
    findings
}

#[test]
fn no_locked_package_has_a_known_advisory() {
    let read = |path| repository_files::find_text(path).expect("the file is committed");
    let (lock, kept) = (read(LOCK_FILE), read(ADVISORY_FILE));
    assert!(
        parse_lock_file(&lock).len() > 100 && kept.lines().count() > 1_000,
        "nothing was compared"
    );
    assert_no_findings(&check_advisories(&lock, &kept, &ACCEPTED));
}

const SAMPLE_LOCK: &str = r#"[[package]]
name = "good"
version = "1.2.3"

[[package]]
name = "bad"
version = "1.2.3"

[[package]]
name = "abandoned"
version = "0.1.0"
"#;

const SAMPLE_ADVISORIES: &str = r#"{"date": "2026-01-01", "advisories": 4}
{"id": "A-1", "package": "good", "patched": [">= 1.2.3"], "unaffected": [], "title": "patched"}
{"id": "A-2", "package": "good", "patched": [], "unaffected": ["< 1.3.0"], "title": "unaffected"}
{"id": "A-3", "package": "bad", "patched": [">= 1.2.4"], "unaffected": ["< 1.0.0"], "title": "hole"}
{"id": "A-4", "package": "abandoned", "patched": [], "unaffected": [], "title": "unmaintained"}
"#;

#[test]
fn affected_versions_are_reported() {
    assert_lines(&check_advisories(SAMPLE_LOCK, SAMPLE_ADVISORIES, &[]), &[6, 10]);
    assert_lines(&check_advisories(SAMPLE_LOCK, SAMPLE_ADVISORIES, &[("A-4", "sample")]), &[6]);
}

#[test]
fn damaged_database_is_reported() {
    let shorter: Vec<&str> = SAMPLE_ADVISORIES.lines().take(4).collect();
    assert_lines(&check_advisories("", &shorter.join("\n"), &[]), &[1]);
    assert_lines(&check_advisories("", "", &[]), &[1]);
}
