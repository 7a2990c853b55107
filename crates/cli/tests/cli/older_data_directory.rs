//! A data directory that an earlier version wrote: it opens, and what was cut off is finished.
//!
//! `fixtures/b813feb` holds the archive and the script that made it with commit b813feb. Paths in a
//! data directory are absolute, so it is unpacked where it was made, one test run at a time.

use std::fs::File;
use std::path::{Path, PathBuf};

use assert_cmd::Command;
use serde_json::Value;

use crate::fixture::read_file;

const ROOT: &str = "/tmp/turnstone-b813feb";

/// The unpacked directory, removed at the end.
struct OlderDataDirectory {
    _lock: File,
}

impl OlderDataDirectory {
    fn unpack() -> Self {
        let lock =
            fs_err::File::create(format!("{ROOT}.lock")).expect("a lock file").into_parts().0;
        lock.lock().expect("locked");
        fs_err::remove_dir_all(ROOT).ok();
        fs_err::create_dir_all(Path::new(ROOT).join("home")).expect("made");
        let archive = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/fixtures/b813feb/data-directory.tar.gz");
        Command::new("tar").arg("-xzf").arg(archive).args(["-C", ROOT]).assert().success();
        Self { _lock: lock }
    }

    fn path(project: &str, name: &str) -> PathBuf {
        Path::new(ROOT).join(project).join(name)
    }

    fn run(&self, project: &str, args: &[&str]) -> Value {
        let mut command = Command::cargo_bin("turnstone").expect("the program");
        command.current_dir(Self::path(project, "")).args(args).arg("--json");
        command.env_clear().env("PATH", "/usr/bin:/bin").env("HOME", Self::path("home", ""));
        command.env("TURNSTONE_DATA", Self::path("data", ""));
        let done = command.assert().success();
        serde_json::from_slice(&done.get_output().stdout).expect("JSON")
    }

    fn names(project: &str) -> Vec<String> {
        let entries = fs_err::read_dir(Self::path(project, "")).expect("listed");
        let name = |entry: std::io::Result<fs_err::DirEntry>| {
            entry.expect("an entry").file_name().to_string_lossy().into_owned()
        };
        let mut names: Vec<String> = entries.map(name).collect();
        names.sort();
        names
    }

    /// How many of the forty files hold what the turn wrote.
    fn files_after_turn() -> usize {
        let text = |n: usize| read_file(&Self::path("undone", &format!("file-{n}")));
        (1..=40).filter(|n| text(*n) == format!("after {n}\n")).count()
    }
}

impl Drop for OlderDataDirectory {
    fn drop(&mut self) {
        fs_err::remove_dir_all(ROOT).ok();
    }
}

/// Proves R17, R45 and R46: an interrupted undo and an open window of an earlier version are finished.
#[test]
fn data_directory_of_b813feb_opens_and_recovers() {
    let older = OlderDataDirectory::unpack();
    let names = OlderDataDirectory::names("undone");
    assert!(names.iter().any(|name| name.starts_with(".turnstone-tmp-")), "cut off: {names:?}");
    assert_eq!(OlderDataDirectory::files_after_turn(), 10);

    let log = older.run("undone", &["log"]);

    let names = OlderDataDirectory::names("undone");
    assert_eq!(names.len(), 41, "forty files and the merged one: {names:?}");
    assert_eq!(OlderDataDirectory::files_after_turn(), 0);
    let merged = OlderDataDirectory::path("undone", "merged");
    assert_eq!(read_file(&merged), "one\ntwo\nthree\nfour\nFIVE\n", "the person's edit stays");
    assert!(log.to_string().contains("\"undo\""), "{log}");

    older.run("undone", &["redo"]);
    assert_eq!(OlderDataDirectory::files_after_turn(), 40);
    assert_eq!(read_file(&merged), "ONE\ntwo\nthree\nfour\nFIVE\n");
    assert_eq!(read_file(&OlderDataDirectory::path("undone", "added")), "new\n");

    let log = older.run("running", &["log"]);
    assert!(log.to_string().contains("\"recovered\""), "the window is closed: {log}");
    older.run("running", &["undo"]);
    assert_eq!(OlderDataDirectory::names("running"), ["kept"]);
    assert_eq!(read_file(&OlderDataDirectory::path("running", "kept")), "kept\n");

    older.run("running", &["doctor"]);
}
