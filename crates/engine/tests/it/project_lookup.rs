//! Projects are found again: after a move, a clone, a new remote, `git init`.

use std::path::Path;

use crate::engine_fixture::{NOW, ctx};
use turnstone_engine::{Engine, EngineError, EngineSettings, NewSession, OpenedProject};
use turnstone_process::GitEnvironment;

struct LookupFixture {
    dir: tempfile::TempDir,
    engine: Engine,
}

impl LookupFixture {
    #[expect(clippy::disallowed_methods, reason = "git is found where the tests find it")]
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("temp dir");
        let path = std::env::var_os("PATH").expect("a path");
        let git = GitEnvironment { path, ..GitEnvironment::default() };
        let settings = EngineSettings { git, ..EngineSettings::new(&dir.path().join("data")) };
        let engine = Engine::open(settings, NOW).expect("opens");
        Self { dir, engine }
    }

    fn make(&self, name: &str) -> std::path::PathBuf {
        let path = self.dir.path().join(name);
        fs_err::create_dir_all(&path).expect("made");
        path
    }

    fn open(&self, path: &Path) -> OpenedProject {
        self.engine.projects().open(&ctx(), path).expect("opens")
    }
}

#[expect(clippy::disallowed_methods, reason = "git itself makes the repositories of tests")]
fn git(dir: &Path, words: &[&str]) {
    let done = std::process::Command::new("git")
        .args(["-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"])
        .args(words)
        .current_dir(dir)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .output()
        .expect("git runs");
    assert!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
}

fn repository(dir: &Path) {
    git(dir, &["init", "-q"]);
    git(dir, &["commit", "-q", "--allow-empty", "-m", "one"]);
}

/// Proves R31.
#[test]
fn project_survives_git_init_and_new_remote() {
    let place = LookupFixture::new();
    let dir = place.make("app");
    let first = place.open(&dir).project;
    assert_eq!(first.vcs, None);
    repository(&dir);
    let second = place.open(&dir).project;
    assert_eq!((&second.id, second.vcs.as_deref()), (&first.id, Some("git")));
    git(&dir, &["remote", "add", "origin", "https://host.example/a/b.git"]);
    git(&dir, &["commit", "-q", "--amend", "--allow-empty", "-m", "another root"]);
    assert_eq!(place.open(&dir).project.id, first.id);
}

/// Proves R31.
#[test]
fn moved_checkout_and_linked_worktree_match_the_project() {
    let place = LookupFixture::new();
    let dir = place.make("app");
    repository(&dir);
    let first = place.open(&dir).project;
    git(&dir, &["worktree", "add", "-q", "-b", "side", "../side"]);
    let side = place.open(&place.dir.path().join("side"));
    assert_eq!((side.project.id, side.is_joined_clone), (first.id.clone(), false));
    assert_eq!(side.project.sandboxes.len(), 1);
    let inner = place.open(&place.make("app/src/deep"));
    assert_eq!(
        (&inner.project.id, &inner.root),
        (&first.id, &fs_err::canonicalize(&dir).expect("real"))
    );

    git(&dir, &["worktree", "remove", "../side"]);
    git(&dir, &["remote", "add", "origin", "git@host.example:a/b.git"]);
    place.open(&dir);
    let moved = place.dir.path().join("moved");
    fs_err::rename(&dir, &moved).expect("moved");
    let found = place.open(&moved);
    assert_eq!((found.project.id.clone(), found.is_joined_clone), (first.id, false));
    assert_eq!(found.moved_from, Some(first.worktree));
    assert_eq!(
        found.project.worktree,
        fs_err::canonicalize(&moved).expect("real").to_string_lossy()
    );
}

/// Proves R31.
#[test]
fn clone_with_same_origin_joins_other_clone_is_hinted() {
    let place = LookupFixture::new();
    let dir = place.make("app");
    repository(&dir);
    git(&dir, &["remote", "add", "origin", "https://host.example/a/b"]);
    let first = place.open(&dir).project;
    git(place.dir.path(), &["clone", "-q", "app", "second"]);
    let second = place.dir.path().join("second");
    git(&second, &["remote", "set-url", "origin", "ssh://git@host.example/a/b.git"]);
    let joined = place.open(&second);
    assert_eq!((&joined.project.id, joined.is_joined_clone), (&first.id, true));
    git(place.dir.path(), &["clone", "-q", "app", "fork"]);
    let fork = place.open(&place.dir.path().join("fork"));
    assert_ne!(fork.project.id, first.id);
    assert_eq!(fork.similar, [first.id]);
}

/// Proves R31.
#[test]
fn derived_project_equals_the_stored_one() {
    let place = LookupFixture::new();
    let plain = place.make("plain");
    let unborn = place.make("unborn");
    git(&unborn, &["init", "-q"]);
    let app = place.make("app");
    repository(&app);
    git(place.dir.path(), &["clone", "-q", "app", "fork"]);
    let fork = place.dir.path().join("fork");
    let projects = || place.engine.store().read(&ctx(), |r| r.projects().list()).expect("read");
    let derive =
        |path: &Path| place.engine.projects().find_or_derive(&ctx(), path).expect("derived");
    for path in [&plain, &unborn, &app, &fork] {
        let before = projects();
        let derived = derive(path);
        assert!(!derived.is_stored);
        assert_eq!(derive(path).project.id, derived.project.id);
        assert_eq!(projects(), before);
        let opened = place.open(path);
        assert_eq!((opened.project.id, opened.similar), (derived.project.id, derived.similar));
        assert_eq!(projects().len(), before.len() + 1);
        assert!(derive(path).is_stored);
    }
    // A project that was removed keeps its id to itself.
    let first = place.open(&plain).project.id;
    place.engine.projects().remove(&ctx(), &first, false).expect("removed");
    let derived = derive(&plain).project.id;
    assert_ne!(derived, first);
    assert_eq!(place.open(&plain).project.id, derived);
}

/// Proves R31.
#[test]
fn lookup_recovers_sessions_of_moved_directory_only() {
    let place = LookupFixture::new();
    let (old, empty) = (place.make("old"), place.make("empty"));
    for dir in [&old, &empty] {
        repository(dir);
        git(dir, &["remote", "add", "origin", &format!("https://host.example{}", dir.display())]);
        git(dir, &["commit", "-q", "--allow-empty", "--amend", "-m", &dir.to_string_lossy()]);
    }
    let session =
        place.engine.projects().create_session(&ctx(), &old, &NewSession::default()).expect("made");
    place.open(&empty);
    let moved = |name: &str| place.dir.path().join(name);
    fs_err::rename(&old, moved("new")).expect("moved");
    fs_err::rename(&empty, moved("still-empty")).expect("moved");
    let derive = |path: &Path| place.engine.projects().find_or_derive(&ctx(), path).expect("found");
    assert!(derive(&moved("new")).is_stored);
    let session =
        place.engine.store().read(&ctx(), |r| r.sessions().get(&session.id)).expect("read");
    assert!(session.directory.ends_with("/new"), "{}", session.directory);
    assert!(!derive(&moved("still-empty")).is_stored, "no session is lost there");
}

#[test]
fn session_stores_directory_and_relative_path() {
    let place = LookupFixture::new();
    let dir = place.make("app");
    repository(&dir);
    let inner = place.make("app/src");
    let session = place.engine.projects().create_session(&ctx(), &inner, &NewSession::default());
    let session = session.expect("made");
    assert_eq!(session.path.as_deref(), Some("src"));
    assert!(session.directory.ends_with("/app/src"), "{}", session.directory);
    let gone = place.engine.projects().create_session(
        &ctx(),
        Path::new("/nowhere/at/all"),
        &NewSession::default(),
    );
    assert!(gone.is_err());
}

/// A `git` that says one thing and fails.
fn failing(dir: &Path, words: &str) -> Engine {
    use std::os::unix::fs::PermissionsExt;
    let bin = dir.join("bin");
    fs_err::create_dir_all(&bin).expect("made");
    let script = format!("#!/bin/sh\necho '{words}' >&2\nexit 128\n");
    fs_err::write(bin.join("git"), script).expect("written");
    let may_run = std::fs::Permissions::from_mode(0o755);
    fs_err::set_permissions(bin.join("git"), may_run).expect("set");
    let path = std::env::join_paths([bin.as_path(), Path::new("/bin")]).expect("a path");
    let git = GitEnvironment { path, ..GitEnvironment::default() };
    let settings = EngineSettings { git, ..EngineSettings::new(&dir.join("data")) };
    Engine::open(settings, NOW).expect("opens")
}

#[test]
fn failing_git_is_an_error_but_missing_git_is_not() {
    let dir = tempfile::tempdir().expect("temp dir");
    let (work, plain) = (dir.path().join("work"), dir.path().join("plain"));
    fs_err::create_dir(&work).expect("made");
    fs_err::create_dir(&plain).expect("made");
    git(&work, &["init", "-q"]);

    let engine = failing(dir.path(), "fatal: bad object HEAD");
    let opened = engine.projects().open(&ctx(), &work);
    assert!(matches!(opened, Err(EngineError::Git(_))), "{opened:?}");
    assert!(engine.store().read(&ctx(), |r| r.projects().list()).expect("reads").is_empty());
    // Where there is no repository git is not asked.
    assert_eq!(
        engine.projects().open(&ctx(), &plain).expect("a plain directory").project.vcs,
        None
    );
    drop(engine);

    let without = GitEnvironment { path: dir.path().into(), ..GitEnvironment::default() };
    let settings = EngineSettings { git: without, ..EngineSettings::new(&dir.path().join("data")) };
    let engine = Engine::open(settings, NOW).expect("opens");
    let known = engine.projects().open(&ctx(), &work).expect("works without git");
    assert_eq!(known.project.vcs.as_deref(), Some("git"));
    let same = engine.projects().open(&ctx(), &work).expect("works without git");
    assert_eq!(same.project.id, known.project.id);
}

/// The report of the security review: its author wrote `x/config`.
#[test]
fn bare_repository_inside_clone_belongs_to_clone() {
    let place = LookupFixture::new();
    let clone = place.make("clone");
    git(&clone, &["init", "-q"]);
    git(&clone, &["commit", "-q", "--allow-empty", "-m", "one"]);
    git(&clone, &["clone", "-q", "--bare", ".", "x"]);
    let opened = place.open(&clone.join("x"));
    assert_eq!(opened.root, fs_err::canonicalize(&clone).expect("real"));
    assert_eq!(opened.project.id, place.open(&clone).project.id);

    // Alone it is a plain folder.
    git(&clone, &["clone", "-q", "--bare", ".", "../alone"]);
    assert_eq!(place.open(&place.dir.path().join("alone")).project.vcs, None);
}

#[test]
fn git_file_without_back_pointer_is_rejected() {
    let place = LookupFixture::new();
    let (victim, hostile) = (place.make("victim"), place.make("hostile"));
    git(&victim, &["init", "-q"]);
    git(&victim, &["commit", "-q", "--allow-empty", "-m", "one"]);
    fs_err::write(hostile.join(".git"), "gitdir: ../victim/.git\n").expect("written");
    let refused = place.engine.projects().open(&ctx(), &hostile).unwrap_err();
    assert!(matches!(refused, EngineError::Repository(_)), "{refused}");
    assert!(place.engine.projects().repositories().find(&hostile).is_err());
}
