//! Opening: fresh, upgraded, newer, foreign, damaged, in the wrong place; always a clear answer.

mod support;

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use support::{NOW, ctx, open, project, raw, session, sid, with_sessions, write};
use turnstone_core::id::ProjectId;
use turnstone_store::{
    BlobHash, DataLayout, DatabaseOpenError, Options, Severity, Store, StoreError, diagnose,
};
use turnstone_testkit::crash::{run_concurrently, run_until_failpoint};

const CHILD: &str = "TURNSTONE_OPEN_CHILD";

fn try_open(dir: &Path) -> Result<Store, DatabaseOpenError> {
    Store::open(&Options::new(DataLayout::new(dir), NOW))
}

/// The error of opening, which names the path and has a remedy.
fn refused(dir: &Path) -> DatabaseOpenError {
    let error = try_open(dir).err().expect("refused");
    assert!(error.to_string().contains(&dir.display().to_string()), "{error}");
    assert!(!error.remedy().is_empty());
    error
}

fn hash(path: &Path) -> String {
    BlobHash::of(&fs_err::read(path).expect("read")).hex()
}

fn number(dir: &Path, pragma: &str) -> i64 {
    raw(dir).pragma_query_value(None, pragma, |row| row.get(0)).expect("pragma")
}

/// This test binary as a program that runs `child_opens_the_store` and nothing else.
#[expect(clippy::disallowed_methods, reason = "tests run themselves as another process")]
fn child(dir: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("own path"));
    command.args(["--exact", "child_opens_the_store", "--nocapture", "--test-threads=1"]);
    command.env(CHILD, dir);
    command
}

/// Opens the store named in the environment; as a test by itself it does nothing.
#[test]
#[expect(clippy::disallowed_methods, reason = "the parent says which store to open")]
fn child_opens_the_store() {
    let Some(dir) = std::env::var_os(CHILD) else {
        return;
    };
    let scenario = fail::FailScenario::setup();
    if std::env::var_os("FAILPOINTS").is_some() {
        std::panic::set_hook(Box::new(|_| std::process::abort()));
    }
    match try_open(Path::new(&dir)) {
        Ok(store) => {
            write(&store, |tx| tx.projects().put(&project("p1"))).expect("written");
            println!("opened");
        }
        Err(error) => println!("refused: {error} | {}", error.remedy()),
    }
    scenario.teardown();
}

#[test]
fn new_file_has_expected_pragmas() {
    let dir = tempfile::tempdir().expect("temp dir");
    let root = dir.path().join("new/data");
    let store = try_open(&root).expect("a missing parent is made");
    write(&store, |tx| tx.projects().put(&project("p1"))).expect("written");
    let mode: String =
        raw(&root).pragma_query_value(None, "journal_mode", |row| row.get(0)).expect("mode");
    assert_eq!(mode, "wal");
    assert_eq!(number(&root, "auto_vacuum"), 2);
    assert_eq!(number(&root, "application_id"), 0x5455_524E);
    let bits = |path: PathBuf| fs_err::metadata(path).expect("there").mode() & 0o777;
    for name in ["", "blob", "lock", "backup"] {
        assert_eq!(bits(root.join(name)), 0o700, "{name}");
    }
    for name in ["turnstone.db", "turnstone.db-wal", "turnstone.db-shm", "lock/open"] {
        assert_eq!(bits(root.join(name)), 0o600, "{name}");
    }
}

#[test]
fn many_threads_open_a_fresh_directory_at_once() {
    let dir = tempfile::tempdir().expect("temp dir");
    let path = dir.path();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|n| {
                scope.spawn(move || {
                    let store = open(path);
                    let id = format!("p{n}");
                    write(&store, move |tx| tx.projects().put(&project(&id))).expect("written");
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().expect("joins"));
    });
    let store = open(path);
    assert_eq!(store.read(&ctx(), |r| r.projects().list()).expect("reads").len(), 8);
    assert_eq!(diagnose(&DataLayout::new(path), NOW).findings, []);
}

#[test]
fn two_processes_open_a_fresh_directory_at_once() {
    for _ in 0..5 {
        let dir = tempfile::tempdir().expect("temp dir");
        let limit = Duration::from_secs(60);
        let ends =
            run_concurrently(&mut child(dir.path()), &mut child(dir.path()), limit).expect("ran");
        for end in [&ends.0, &ends.1] {
            assert!(end.acknowledged.iter().any(|line| line.contains("opened")), "{end:?}");
        }
        let store = open(dir.path());
        assert_eq!(store.read(&ctx(), |r| r.projects().list()).expect("reads").len(), 1);
    }
}

#[test]
fn crash_during_migration_leaves_a_whole_version() {
    let dir = tempfile::tempdir().expect("temp dir");
    let layout = DataLayout::new(dir.path());
    let die_in_migration = |nth: u32| {
        let point = format!("store::in_migration={nth}*off->panic");
        run_until_failpoint(&mut child(dir.path()), &point, Duration::from_secs(60)).expect("died");
    };
    // Killed in its second step, a creation leaves a database of the first version, without a name.
    die_in_migration(1);
    for end in ["", "-wal"] {
        let [from, to] = ["turnstone.db.new", "turnstone.db"].map(|it| format!("{it}{end}"));
        fs_err::rename(dir.path().join(from), dir.path().join(to)).expect("named");
    }
    assert_eq!(number(dir.path(), "user_version"), 1);

    die_in_migration(0);

    assert_eq!(number(dir.path(), "user_version"), 1, "the step under way left nothing");
    let later = turnstone_core::time::EpochMillis(NOW.0 + 1);
    let store = Store::open(&Options::new(layout.clone(), later)).expect("opens");
    write(&store, |tx| tx.projects().put(&project("p1"))).expect("written");
    assert!(number(dir.path(), "user_version") > 1);
    let saved = fs_err::read_dir(layout.backups()).expect("lists").count();
    assert_eq!(saved, 2, "a file with something in it is saved before each attempt");
    assert_eq!(diagnose(&layout, NOW).worst().filter(|s| *s > Severity::Note), None);
}

#[test]
fn a_crash_during_a_rebuild_is_finished_by_the_next_open() {
    let dir = tempfile::tempdir().expect("temp dir");
    drop(with_sessions(dir.path(), &["ses_a", "ses_b"]));
    let before = support::projections(dir.path());
    for skip in [0, 3, 12, 14] {
        let mark =
            "INSERT OR REPLACE INTO note VALUES ('rebuild', '{\"step\":\"clear\",\"table\":0}')";
        raw(dir.path()).execute(mark, []).expect("marked");
        let point = format!("store::in_rebuild={skip}*off->panic");
        run_until_failpoint(&mut child(dir.path()), &point, Duration::from_secs(60)).expect("died");
        let seen = diagnose(&DataLayout::new(dir.path()), NOW);
        assert!(seen.findings.iter().any(|f| f.what.contains("rebuild")), "{:?}", seen.findings);

        let store = open(dir.path());

        assert_eq!(support::projections(dir.path()), before, "after {skip}");
        assert_eq!(store.maintenance().verify_projections().expect("verifies"), []);
    }
}

#[test]
fn newer_schema_opens_read_only() {
    let dir = tempfile::tempdir().expect("temp dir");
    drop(with_sessions(dir.path(), &["ses_a"]));
    raw(dir.path()).pragma_update(None, "user_version", 99).expect("set");
    let before = hash(&dir.path().join("turnstone.db"));

    let store = open(dir.path());

    let reason = store.read_only_reason().expect("read-only").to_owned();
    assert!(reason.contains("newer version") && reason.contains("99"), "{reason}");
    assert_eq!(store.read(&ctx(), |r| r.sessions().get(&sid("ses_a"))).expect("reads").title, "T");
    let refused = write(&store, |tx| tx.sessions().put(&session("ses_a"))).expect_err("refused");
    assert!(matches!(refused, StoreError::ReadOnly { .. }), "{refused}");
    assert!(refused.to_string().contains("newer version"), "{refused}");
    let lease =
        store.leases().acquire(&ctx(), &sid("ses_a"), turnstone_store::LeaseTakeoverPolicy::Force);
    assert!(matches!(lease, Err(StoreError::ReadOnly { .. })));
    drop(store);
    assert_eq!(hash(&dir.path().join("turnstone.db")), before);
    assert_eq!(diagnose(&DataLayout::new(dir.path()), NOW).worst(), Some(Severity::Warning));
}

#[test]
fn foreign_database_is_rejected_unchanged() {
    let dir = tempfile::tempdir().expect("temp dir");
    raw(dir.path()).execute_batch("CREATE TABLE session (id TEXT)").expect("made");
    let before = hash(&dir.path().join("turnstone.db"));
    let error = refused(dir.path());
    assert!(matches!(error, DatabaseOpenError::Foreign { .. }), "{error}");
    assert!(error.remedy().contains("import"));
    assert_eq!(hash(&dir.path().join("turnstone.db")), before);
    assert!(!dir.path().join("turnstone.db-journal").exists());
    assert_eq!(diagnose(&DataLayout::new(dir.path()), NOW).worst(), Some(Severity::Error));
}

#[test]
fn non_database_is_rejected_unchanged() {
    for content in ["not a database at all, but long enough to be one ".repeat(100), "x".to_owned()]
    {
        let dir = tempfile::tempdir().expect("temp dir");
        let file = dir.path().join("turnstone.db");
        fs_err::write(&file, &content).expect("written");
        let error = refused(dir.path());
        assert!(matches!(error, DatabaseOpenError::Corrupt { .. }), "{error:?}");
        assert!(error.remedy().contains("salvage"));
        assert_eq!(fs_err::read_to_string(&file).expect("read"), content);
        assert_eq!(diagnose(&DataLayout::new(dir.path()), NOW).worst(), Some(Severity::Error));
    }
}

#[test]
fn empty_file_opens_as_new_store() {
    let dir = tempfile::tempdir().expect("temp dir");
    fs_err::write(dir.path().join("turnstone.db"), "").expect("written");
    assert!(diagnose(&DataLayout::new(dir.path()), NOW).is_sound());
    let store = open(dir.path());
    write(&store, |tx| tx.projects().put(&project("p1"))).expect("written");
}

#[test]
fn a_directory_in_place_of_the_database_is_refused() {
    let dir = tempfile::tempdir().expect("temp dir");
    fs_err::create_dir(dir.path().join("turnstone.db")).expect("made");
    let error = refused(dir.path());
    assert!(matches!(error, DatabaseOpenError::Foreign { .. }), "{error}");
    assert_eq!(diagnose(&DataLayout::new(dir.path()), NOW).worst(), Some(Severity::Error));
}

#[test]
fn a_file_in_place_of_the_data_directory_is_refused() {
    let dir = tempfile::tempdir().expect("temp dir");
    let root = dir.path().join("data");
    fs_err::write(&root, "x").expect("written");
    let error = refused(&root);
    assert!(matches!(error, DatabaseOpenError::Directory { .. }), "{error}");
    let below = refused(&root.join("below"));
    assert!(matches!(below, DatabaseOpenError::Directory { .. }), "{below}");
}

/// Opens the store in `dir` as somebody who is not root: root may write everywhere.
fn open_as_other_user(dir: &Path) -> String {
    let place = tempfile::tempdir().expect("temp dir");
    let root = fs_err::metadata(place.path()).expect("there").uid() == 0;
    let mut command = child(dir);
    if root {
        // The build directory may be closed to others.
        let program = place.path().join("program");
        fs_err::copy(command.get_program(), &program).expect("copied");
        let bits = std::fs::Permissions::from_mode(0o755);
        fs_err::set_permissions(place.path(), bits).expect("opened");
        let mut copy = Command::new_like(&command, &program);
        copy.uid(65_534).gid(65_534);
        command = copy;
    }
    let done = command.output().expect("ran");
    String::from_utf8_lossy(&done.stdout).into_owned()
}

trait NewLike {
    fn new_like(other: &Command, program: &Path) -> Command;
}

impl NewLike for Command {
    /// The same call of another program.
    #[expect(clippy::disallowed_methods, reason = "tests run themselves as another user")]
    fn new_like(other: &Command, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.args(other.get_args());
        for (key, value) in other.get_envs() {
            command.env(key, value.unwrap_or_default());
        }
        command
    }
}

fn give_to_other_user(path: &Path) {
    if fs_err::metadata(path).expect("there").uid() == 0 {
        std::os::unix::fs::chown(path, Some(65_534), Some(65_534)).expect("given");
    }
}

fn for_each_entry(dir: &Path, act: &dyn Fn(&Path)) {
    act(dir);
    for entry in fs_err::read_dir(dir).expect("lists") {
        let path = entry.expect("entry").path();
        if path.is_dir() { for_each_entry(&path, act) } else { act(&path) }
    }
}

#[test]
fn a_read_only_file_is_refused_by_name() {
    let dir = tempfile::tempdir().expect("temp dir");
    drop(with_sessions(dir.path(), &["ses_a"]));
    for_each_entry(dir.path(), &give_to_other_user);
    let file = dir.path().join("turnstone.db");
    fs_err::set_permissions(&file, std::fs::Permissions::from_mode(0o400)).expect("set");
    let before = hash(&file);
    let said = open_as_other_user(dir.path());
    assert!(said.contains("refused") && said.contains("turnstone.db cannot be written"), "{said}");
    assert!(said.contains("make it writable"), "{said}");
    assert_eq!(hash(&file), before);
}

#[test]
fn a_read_only_directory_is_refused_by_name() {
    let dir = tempfile::tempdir().expect("temp dir");
    drop(with_sessions(dir.path(), &["ses_a"]));
    let name = dir.path().display().to_string();
    // It belongs to somebody else, who lets others look.
    for_each_entry(dir.path(), &|path| {
        let mode = if path.is_dir() { 0o555 } else { 0o444 };
        fs_err::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("set");
    });
    if fs_err::metadata(dir.path()).expect("there").uid() != 0 {
        // Its owner may make it writable again, and does.
        return;
    }
    let said = open_as_other_user(dir.path());
    assert!(said.contains("refused") && said.contains(&name), "{said}");
    assert!(said.contains("--data"), "{said}");
    let store = open(dir.path());
    let known: ProjectId = "p1".parse().expect("id");
    assert!(store.read(&ctx(), |r| r.projects().find(&known)).expect("reads").is_some());
}

#[test]
fn a_directory_with_other_things_in_it_keeps_its_permissions() {
    let mode = |path: &std::path::Path| {
        fs_err::metadata(path).expect("metadata").permissions().mode() & 0o777
    };
    let dir = tempfile::tempdir().expect("temp dir");
    let (mine, fresh) = (dir.path().join("mine"), dir.path().join("new/deep"));
    fs_err::create_dir(&mine).expect("made");
    fs_err::write(mine.join("notes.txt"), "mine").expect("written");
    fs_err::set_permissions(&mine, std::fs::Permissions::from_mode(0o755)).expect("opened");
    drop(open(&mine));
    assert_eq!(mode(&mine), 0o755);
    assert_eq!(mode(&mine.join("turnstone.db")), 0o600);
    drop(open(&fresh));
    assert_eq!(mode(&fresh), 0o700);
}
