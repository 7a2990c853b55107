//! Against the real program: what it wrote is imported, and our exports equal its own.
//!
//! Node and npm are needed; `interop/opencode` pins the versions and drives them. Only loopback and the
//! npm client use a network.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use fs_err as fs;
use serde_json::Value;
use turnstone_core::event::EventKind;
use turnstone_core::time::SessionSeq;
use turnstone_exchange::{IMPORT_ACTOR, RecordKind};
use turnstone_testkit::npm;

use crate::case::{
    ImportFixture, TestResult, assert_counts_add_up, counts, is_clean, is_unchanged,
};

/// The programs, installed once per lock file.
struct OpenCodePrograms {
    dir: PathBuf,
}

impl OpenCodePrograms {
    fn install() -> TestResult<Self> {
        let dir = npm::install(&interop_dir(), Path::new(env!("CARGO_TARGET_TMPDIR")))?;
        Ok(Self { dir })
    }

    fn binary(&self, name: &str) -> PathBuf {
        self.dir.join("node_modules").join(name).join("bin/opencode")
    }

    /// Lets a program write its sessions into `out`.
    fn run_script(&self, name: &str, out: &Path, age: &str) -> TestResult {
        run(program("node")
            .arg(interop_dir().join("record-sessions.mjs"))
            .args([&self.binary(name), out])
            .arg(age))
    }
}

#[expect(clippy::disallowed_methods, reason = "tests drive the real program themselves")]
fn program(name: &str) -> Command {
    Command::new(name)
}

fn interop_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../interop/opencode")
}

/// Runs a command; a missing program is a failure that says what to install.
fn run(command: &mut Command) -> TestResult {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| {
        format!("{name} cannot be run ({error}): install Node.js 20 or newer with npm, and git")
    })?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("{name} failed with {}: {said}", output.status).into())
}

/// The JSON files of a directory by name.
fn documents(dir: &Path) -> TestResult<BTreeMap<String, Value>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        found.insert(name, serde_json::from_slice(&fs::read(&path)?)?);
    }
    assert!(!found.is_empty(), "{} is empty", dir.display());
    Ok(found)
}

/// Every file below `dir` with its length, time and hash.
fn fingerprint(dir: &Path) -> TestResult<BTreeMap<PathBuf, String>> {
    let mut prints = BTreeMap::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            prints.insert(path.clone(), "directory".to_owned());
            prints.append(&mut fingerprint(&path)?);
        } else {
            let meta = fs::metadata(&path)?;
            let hash = blake3::hash(&fs::read(&path)?);
            prints.insert(path, format!("{} {:?} {hash}", meta.len(), meta.modified()?));
        }
    }
    Ok(prints)
}

/// The document without the figures old programs did not keep.
fn without_figures(mut document: Value) -> Value {
    if let Some(info) = document["info"].as_object_mut() {
        info.remove("cost");
        info.remove("tokens");
    }
    document
}

/// Takes the diff of the session out of an export: today's program keeps it apart, and its exports omit it.
fn take_session_diffs(document: &mut Value) -> Option<Value> {
    document.pointer_mut("/info/summary")?.as_object_mut()?.shift_remove("diffs")
}

#[test]
fn current_database_imports_and_exports_match_opencode() -> TestResult {
    let case = ImportFixture::new()?;
    let out = case.path("today");
    OpenCodePrograms::install()?.run_script("opencode-today", &out, "today")?;
    let data = out.join("home/data/opencode");
    assert!(data.join("opencode.db-wal").exists(), "the program was killed, its log is there");
    let before = fingerprint(&data)?;

    let report = case.import(&data)?;

    assert_eq!(fingerprint(&data)?, before, "the source is as it was");
    assert!(is_clean(&report), "{report:#?}");
    let shapes = documents(&out.join("shape"))?;
    assert_eq!(counts(&report, RecordKind::Session).1, shapes.len() as u64, "{report:#?}");
    assert_eq!(counts(&report, RecordKind::Todo).1, 2);
    assert!(counts(&report, RecordKind::Diff).1 >= 1, "{report:#?}");
    let exports: Vec<_> =
        shapes.clone().into_iter().chain(documents(&out.join("export"))?).collect();
    let mut with_diffs = 0;
    for (id, theirs) in exports {
        let mut ours = case.export(&id)?;
        if let Some(diffs) = take_session_diffs(&mut ours) {
            let stored = fs::read(data.join(format!("storage/session_diff/{id}.json")))?;
            assert_eq!(diffs, serde_json::from_slice::<Value>(&stored)?, "{id}");
            with_diffs += 1;
        }
        assert_eq!(ours, theirs, "{id}");
    }
    assert!(with_diffs > 0, "no session has a diff");
    for (id, theirs) in documents(&out.join("sanitized"))? {
        let mut ours = case.export_redacted(&id)?;
        take_session_diffs(&mut ours);
        assert_eq!(ours, theirs, "{id}");
    }
    assert_events_gapless(&case, shapes.keys())?;
    let again = case.import(&data.join("opencode.db"))?;
    assert!(is_unchanged(&again), "{again:#?}");
    Ok(())
}

/// W7: an imported session has events, numbered without a gap, all by the import.
fn assert_events_gapless<'a>(
    case: &ImportFixture,
    ids: impl Iterator<Item = &'a String>,
) -> TestResult {
    for id in ids {
        let page = case.store.read(&case.ctx(), |r| {
            r.log().stream_after(&id.parse().expect("an id"), SessionSeq(0), 10_000)
        })?;
        assert_eq!(page.events[0].kind, EventKind::SessionCreated);
        for (index, event) in page.events.iter().enumerate() {
            assert_eq!(event.seq, Some(SessionSeq(index as i64 + 1)));
            assert_eq!(event.actor, IMPORT_ACTOR);
        }
    }
    Ok(())
}

#[test]
fn first_database_version_imports_as_opencode_upgrades_it() -> TestResult {
    let case = ImportFixture::new()?;
    let programs = OpenCodePrograms::install()?;
    let out = case.path("first");
    programs.run_script("opencode-first", &out, "old")?;

    let report = case.import(&out.join("home/data/opencode"))?;

    assert_counts_add_up(&report);
    assert!(is_clean(&report), "{report:#?}");
    let shapes = documents(&out.join("shape"))?;
    for (id, shape) in &shapes {
        assert_eq!(&without_figures(case.export(id)?), shape, "{id}");
    }
    let exported = documents(&out.join("export"))?;
    run(program("node")
        .arg(interop_dir().join("reexport.mjs"))
        .args([&programs.binary("opencode-today"), &out])
        .args(exported.keys()))?;
    for (id, upgraded) in documents(&out.join("upgraded"))? {
        assert_eq!(case.export(&id)?, upgraded, "{id}");
    }
    Ok(())
}

#[test]
fn last_json_storage_version_is_imported_completely() -> TestResult {
    let case = ImportFixture::new()?;
    let out = case.path("json");
    OpenCodePrograms::install()?.run_script("opencode-json", &out, "old")?;
    let data = out.join("home/data/opencode");
    let before = fingerprint(&data.join("storage"))?;

    let report = case.import(&data)?;

    assert_eq!(fingerprint(&data.join("storage"))?, before, "the source is as it was");
    assert!(is_clean(&report), "{report:#?}");
    for (id, shape) in documents(&out.join("shape"))? {
        let mut ours = without_figures(case.export(&id)?);
        // Written in the background: it is there or not when the program ends.
        take_session_diffs(&mut ours);
        assert_eq!(ours, shape, "{id}");
    }
    let again = case.import(&data.join("storage"))?;
    assert!(is_unchanged(&again), "{again:#?}");
    Ok(())
}
