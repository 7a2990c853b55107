//! Who may depend on whom: our own crates, and the libraries each of them may not know.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;

use crate::finding::{TidyFinding, TidyRule, assert_lines, assert_no_findings};
use crate::repository_files;

const DEPENDENCY_DIRECTION: TidyRule = TidyRule {
    name: "dependency-direction",
    remedy: "see the table of crates in ARCHITECTURE.md: move the code, or read the event log \
             instead of calling upwards",
};
const FORBIDDEN_DEPENDENCY: TidyRule = TidyRule {
    name: "forbidden-knowledge",
    remedy: "keep the library behind the crate that owns that power (ARCHITECTURE.md)",
};

/// The crates that never leave the repository.
const DEV_ONLY: [&str; 2] = ["testkit", "bench"];

/// Our crates by directory, and which of ours each may use; dev-only crates may use all.
const ALLOWED: [(&str, &[&str]); 13] = [
    ("core", &[]),
    ("store", &["core"]),
    ("process", &["core"]),
    ("snapshot", &["core"]),
    ("engine", &["core", "store", "snapshot", "process"]),
    ("agent", &["core", "engine"]),
    ("exchange", &["core", "store"]),
    ("capnweb", &[]),
    ("share", &["core", "store", "capnweb"]),
    ("server", &["core", "store", "process", "engine", "agent"]),
    ("cli", SHIPPED),
    ("testkit", ALL),
    ("bench", ALL),
];
const SHIPPED: &[&str] = &[
    "core", "store", "process", "snapshot", "engine", "agent", "exchange", "capnweb", "share",
    "server",
];
const ALL: &[&str] = &[
    "core", "store", "process", "snapshot", "engine", "agent", "exchange", "capnweb", "share",
    "server", "cli", "testkit", "bench",
];

/// Libraries a crate may not depend on.
const FORBIDDEN: [(&str, &[&str]); 9] = [
    (
        "core",
        &[
            "rusqlite",
            "tokio",
            "fs-err",
            "rustix",
            "gix",
            "axum",
            "reqwest",
            "getrandom",
            "tempfile",
            "clap",
        ],
    ),
    ("store", &["tokio", "axum", "gix", "clap", "reqwest"]),
    ("process", &["axum", "reqwest", "clap"]),
    ("snapshot", &["tokio", "axum", "reqwest", "clap"]),
    ("engine", &["axum", "reqwest", "clap"]),
    ("agent", &["axum", "gix", "clap"]),
    ("exchange", &["axum", "tokio"]),
    ("share", &["gix", "clap"]),
    ("server", &["gix", "clap"]),
];

/// Libraries that only these shipped crates may depend on.
const CONFINED: [(&str, &[&str]); 1] = [
    // The store owns our database; exchange opens the databases of other programs.
    ("rusqlite", &["store", "exchange"]),
];

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

/// Returns the package of one of our crates: `turnstone-store` for `store`.
fn package_of(name: &str) -> String {
    match name {
        "cli" => "turnstone".to_owned(),
        "capnweb" => "capnweb".to_owned(),
        _ => format!("turnstone-{name}"),
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

fn check_direction(package: &WorkspacePackage) -> Vec<TidyFinding> {
    let Some((_, allowed)) = ALLOWED.iter().find(|(name, _)| *name == package.name) else {
        let what = format!("unknown crate `{}`", package.name);
        return vec![DEPENDENCY_DIRECTION.report(&package.manifest, 1, what)];
    };
    let mut findings = Vec::new();
    if package.package != package_of(&package.name) {
        let what = format!("`{}` should be `{}`", package.package, package_of(&package.name));
        findings.push(DEPENDENCY_DIRECTION.report(
            &package.manifest,
            package.line_of("name"),
            what,
        ));
    }
    for name in ALL.iter().filter(|name| !allowed.contains(name)) {
        let other = package_of(name);
        if package.uses.contains(&other) {
            let what = format!("`{}` may not use `{other}`", package.package);
            findings.push(DEPENDENCY_DIRECTION.report(
                &package.manifest,
                package.line_of(&other),
                what,
            ));
        }
    }
    findings
}

fn check_forbidden(package: &WorkspacePackage) -> Vec<TidyFinding> {
    let name = package.name.as_str();
    let listed = FORBIDDEN.iter().filter(|(crate_name, _)| *crate_name == name);
    let confined =
        CONFINED.iter().filter(|(_, owners)| !DEV_ONLY.contains(&name) && !owners.contains(&name));
    let libraries: BTreeSet<&str> =
        listed.flat_map(|(_, all)| *all).chain(confined.map(|(one, _)| one)).copied().collect();
    let used = libraries.into_iter().filter(|one| package.uses.iter().any(|used| used == one));
    used.map(|library| {
        let what = format!("`{}` may not know `{library}`", package.package);
        FORBIDDEN_DEPENDENCY.report(&package.manifest, package.line_of(library), what)
    })
    .collect()
}

#[test]
fn crates_depend_only_downwards() {
    let findings: Vec<_> = load_workspace().iter().flat_map(check_direction).collect();
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
fn an_upward_dependency_is_found() {
    let bad = sample(
        "store",
        "turnstone-core.workspace = true\n\
         turnstone-engine.workspace = true\n\
         turnstone-testkit.workspace = true\n",
    );
    assert_lines(&check_direction(&bad), &[2, 3]);
    assert_lines(&check_direction(&sample("cli", "turnstone-bench.path")), &[1]);
    assert_lines(&check_direction(&sample("core", "capnweb.path")), &[1]);
}

#[test]
fn an_unknown_crate_is_found() {
    assert_lines(&check_direction(&sample("sidecar", "")), &[1]);
}

#[test]
fn a_crate_under_a_wrong_name_is_found() {
    let bad =
        WorkspacePackage { package: "store".to_owned(), ..sample("store", "name = \"store\"") };
    assert_lines(&check_direction(&bad), &[1]);
}

#[test]
fn a_test_may_use_the_testkit() {
    assert_lines(&check_direction(&sample("core", "dev:turnstone-testkit.path")), &[]);
}

#[test]
fn forbidden_library_is_reported() {
    let core = sample("core", "serde.workspace\nclap.workspace\nrusqlite.workspace\n");
    assert_lines(&check_forbidden(&core), &[2, 3]);
    assert_lines(&check_forbidden(&sample("server", "axum.version\nrusqlite.version")), &[2]);
    assert_lines(&check_forbidden(&sample("exchange", "rusqlite.version\ntokio.version")), &[2]);
    assert_lines(&check_forbidden(&sample("core", "dev:tempfile.version")), &[]);
}

#[test]
fn the_tables_name_known_crates_only() {
    let known = |name: &&str| ALL.contains(name);
    assert!(ALLOWED.iter().all(|(name, uses)| known(name) && uses.iter().all(&known)));
    assert!(FORBIDDEN.iter().all(|(name, _)| known(name)));
    assert!(ALL.iter().all(|name| ALLOWED.iter().any(|(listed, _)| listed == name)));
}
