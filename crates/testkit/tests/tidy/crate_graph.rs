//! The manifests against the table of crates: who uses whom, and which libraries a crate may not have.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;

use crate::crate_table::{CRATES, DEVELOPMENT_CRATES, package_of};
use crate::finding::{TidyFinding, TidyRule, assert_lines, assert_no_findings};
use crate::repository_files;

const DEPENDENCY_DIRECTION: TidyRule = TidyRule {
    name: "dependency-direction",
    remedy: "see the table of crates in ARCHITECTURE.md: move the code, or read the event log \
             instead of calling upwards; the table is crates/testkit/tests/tidy/crate_table.rs",
};
const FORBIDDEN_DEPENDENCY: TidyRule = TidyRule {
    name: "forbidden-library",
    remedy: "keep the library in the crate that owns the capability (ARCHITECTURE.md)",
};

struct WorkspacePackage {
    /// The directory below `crates/`, which is also the short name of the crate.
    name: String,
    /// The name in the manifest.
    package: String,
    manifest: String,
    text: String,
    /// Names of the packages of its normal and build dependencies.
    uses: Vec<String>,
}

impl WorkspacePackage {
    fn line_of(&self, dependency: &str) -> usize {
        let line = self.text.lines().position(|line| line.trim_start().starts_with(dependency));
        line.map_or(1, |index| index + 1)
    }
}

fn parse_packages(metadata: &Value, text_of: impl Fn(&str) -> String) -> Vec<WorkspacePackage> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let string = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let packages = list(&metadata["packages"]);
    let read = packages.iter().map(|package| {
        let manifest = string(&package["manifest_path"]).replace('\\', "/");
        let name = manifest.rsplit('/').nth(1).unwrap_or_default().to_owned();
        let manifest = format!("crates/{name}/Cargo.toml");
        let dependencies = list(&package["dependencies"]);
        let uses = dependencies.iter().filter(|one| one["kind"] != "dev");
        WorkspacePackage {
            package: string(&package["name"]),
            text: text_of(&manifest),
            uses: uses.map(|one| string(&one["name"])).collect(),
            manifest,
            name,
        }
    });
    read.collect()
}

fn load_workspace() -> Vec<WorkspacePackage> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .current_dir(repository_files::root())
        .output()
        .expect("cargo starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata = serde_json::from_slice(&output.stdout).expect("cargo writes JSON");
    let packages =
        parse_packages(&metadata, |path| repository_files::find_text(path).unwrap_or_default());
    assert!(!packages.is_empty(), "the workspace has no packages");
    packages
}

/// Compares the manifest of a crate with the cell "uses" of its row.
fn check_uses(package: &WorkspacePackage) -> Vec<TidyFinding> {
    let name = package.name.as_str();
    let report = |line_of: &str, what: String| {
        DEPENDENCY_DIRECTION.report(&package.manifest, package.line_of(line_of), what)
    };
    let is_development = DEVELOPMENT_CRATES.iter().any(|(one, _)| *one == name);
    let row = CRATES.iter().find(|row| row.name == name);
    let mut findings = Vec::new();
    if package.package != package_of(name) {
        let what = format!("`{}` should be `{}`", package.package, package_of(name));
        findings.push(report("name", what));
    }
    let Some(row) = row else {
        if !is_development {
            findings.push(report("name", format!("unknown crate `{name}`")));
        }
        return findings;
    };
    let development = DEVELOPMENT_CRATES.iter().map(|(name, _)| *name);
    for other in CRATES.iter().map(|row| row.name).chain(development) {
        let dependency = package_of(other);
        match (row.uses.contains(&other), package.uses.contains(&dependency)) {
            (false, true) => {
                let what = format!("`{}` may not use `{dependency}`", package.package);
                findings.push(report(&dependency, what));
            }
            (true, false) => {
                let what = format!("the table says that `{name}` uses `{other}`; it does not");
                findings.push(report("[dependencies]", what));
            }
            _ => {}
        }
    }
    findings
}

/// Finds libraries in the manifest that give what the crate may nowhere know.
fn check_forbidden(package: &WorkspacePackage) -> Vec<TidyFinding> {
    let rows = CRATES.iter().filter(|row| row.name == package.name);
    let boundaries = rows.flat_map(|row| row.boundaries);
    let forbidden = boundaries.filter(|boundary| boundary.exceptions.is_empty());
    let libraries: BTreeSet<&str> =
        forbidden.flat_map(|boundary| boundary.capability.libraries).copied().collect();
    let used = libraries.into_iter().filter(|one| package.uses.iter().any(|used| used == one));
    used.map(|library| {
        let what = format!("`{}` may not know `{library}`", package.package);
        FORBIDDEN_DEPENDENCY.report(&package.manifest, package.line_of(library), what)
    })
    .collect()
}

#[test]
fn crates_depend_only_downwards() {
    let findings: Vec<_> = load_workspace().iter().flat_map(check_uses).collect();
    assert_no_findings(&findings);
}

#[test]
fn crates_avoid_forbidden_libraries() {
    let findings: Vec<_> = load_workspace().iter().flat_map(check_forbidden).collect();
    assert_no_findings(&findings);
}

fn sample(name: &str, manifest: &str) -> WorkspacePackage {
    let names = manifest.lines().filter_map(|line| line.split_once('.'));
    let dependencies: Vec<Value> = names
        .map(|(name, _)| {
            let (name, kind) =
                name.strip_prefix("dev:").map_or((name, None), |it| (it, Some("dev")));
            serde_json::json!({ "name": name, "kind": kind })
        })
        .collect();
    let metadata = serde_json::json!({ "packages": [{
        "name": package_of(name),
        "manifest_path": format!("/sample/crates/{name}/Cargo.toml"),
        "dependencies": dependencies,
    }]});
    parse_packages(&metadata, |_| manifest.to_owned()).remove(0)
}

#[test]
fn upward_dependency_is_reported() {
    let bad = sample(
        "store",
        "turnstone-core.workspace = true\n\
         turnstone-engine.workspace = true\n\
         turnstone-testkit.workspace = true\n",
    );
    assert_lines(&check_uses(&bad), &[2, 3]);
    assert_lines(&check_uses(&sample("core", "capnweb.path")), &[1]);
}

#[test]
fn unused_entry_of_the_table_is_reported() {
    assert_lines(&check_uses(&sample("store", "x.y\n[dependencies]\n")), &[2]);
}

#[test]
fn unknown_crate_is_reported() {
    assert_lines(&check_uses(&sample("sidecar", "")), &[1]);
}

#[test]
fn crate_with_a_wrong_name_is_reported() {
    let bad =
        WorkspacePackage { package: "capnp".to_owned(), ..sample("capnweb", "name = \"capnp\"") };
    assert_lines(&check_uses(&bad), &[1]);
}

#[test]
fn tests_may_use_the_testkit() {
    assert_lines(&check_uses(&sample("core", "dev:turnstone-testkit.path")), &[]);
    assert_lines(&check_uses(&sample("bench", "turnstone-engine.path")), &[]);
}

#[test]
fn forbidden_library_is_reported() {
    let core = sample("core", "serde.workspace\ngetrandom.workspace\nrusqlite.workspace\n");
    assert_lines(&check_forbidden(&core), &[2, 3]);
    assert_lines(&check_forbidden(&sample("server", "axum.version\nrusqlite.version")), &[2]);
    assert_lines(&check_forbidden(&sample("exchange", "rusqlite.version\ntokio.version")), &[2]);
    assert_lines(&check_forbidden(&sample("core", "dev:tempfile.version")), &[]);
}

#[test]
fn the_table_names_known_crates_only() {
    let is_known = |name: &&str| CRATES.iter().any(|row| row.name == *name);
    assert!(CRATES.iter().all(|row| row.uses.iter().all(is_known)));
}
