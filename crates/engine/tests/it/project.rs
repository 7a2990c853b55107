//! Projects looked after by people: listed, relinked, removed (R31, R39; snapshots.md 8.4, 8.5).

use std::path::Path;

use crate::engine_fixture::ctx;
use crate::repository_fixture::{RepositoryFixture, git};
use turnstone_core::id::{ProjectId, SessionId};
use turnstone_engine::{EngineError, NewSession, SnapshotAccess, WorktreeError, WorktreeRequest};
use turnstone_store::SessionFilter;

fn session(place: &RepositoryFixture, dir: &Path) -> SessionId {
    place.engine.projects().create_session(&ctx(), dir, &NewSession::default()).expect("made").id
}

/// What somebody sees who asks for the sessions of a project.
fn list_sessions(place: &RepositoryFixture, project: &ProjectId) -> Vec<SessionId> {
    let filter = SessionFilter { project: Some(project.clone()), ..SessionFilter::default() };
    let page = place.engine.store().read(&ctx(), |r| r.sessions().list(&filter, None, 100));
    let mut found: Vec<SessionId> =
        page.expect("listed").items.into_iter().map(|row| row.session.id).collect();
    found.sort();
    found
}

/// Proves R31.
#[test]
fn sessions_stay_visible_when_directory_changes() {
    let place = RepositoryFixture::new();
    let dir = place.make("app");
    let first = session(&place, &dir);
    let sees = |what: &str| {
        let project = place.open(&dir).project.id;
        assert!(list_sessions(&place, &project).contains(&first), "after {what}");
    };
    git(&dir, &["init", "-q"]);
    sees("git init");
    git(&dir, &["commit", "-q", "--allow-empty", "-m", "one"]);
    sees("a first commit");
    git(&dir, &["remote", "add", "origin", "https://host.example/a/b"]);
    sees("a remote");
    git(&dir, &["remote", "set-url", "origin", "https://host.example/c/d"]);
    sees("another remote");
    git(&dir, &["commit", "-q", "--amend", "--allow-empty", "-m", "another root"]);
    sees("a rebase of the root");
    fs_err::remove_dir_all(dir.join(".git")).expect("removed");
    sees("the end of the repository");
    git(&dir, &["init", "-q"]);
    git(&dir, &["commit", "-q", "--allow-empty", "-m", "again"]);
    sees("a new repository");
}

/// Proves R31.
#[test]
fn folder_sessions_move_into_new_repository_project() {
    let place = RepositoryFixture::new();
    let (one, two) = (place.make("ws/one"), place.make("ws/two"));
    let both = [session(&place, &one), session(&place, &two)];
    let elsewhere = session(&place, &place.make("other"));
    git(&place.make("ws"), &["init", "-q"]);

    let opened = place.open(&one).project.id;

    assert_eq!(place.open(&two).project.id, opened);
    let found = list_sessions(&place, &opened);
    assert!(both.iter().all(|session| found.contains(session)), "{found:?}");
    assert!(!found.contains(&elsewhere));
}

#[test]
fn projectless_sessions_are_adopted() {
    let place = RepositoryFixture::new();
    let (dir, project) = place.project("app");
    let put = |id: &str, directory: &str| {
        let global = serde_json::json!({"id": "global", "worktree": "/",
            "time": {"created": 1, "updated": 1}});
        let global = serde_json::from_value(global).expect("project");
        let session: turnstone_core::model::Session = serde_json::from_value(serde_json::json!({
            "id": id, "slug": "a-b", "projectID": "global", "directory": directory, "title": "T",
            "version": "1", "time": {"created": 1, "updated": 1}}))
        .expect("session");
        let write = move |tx: &turnstone_store::Tx<'_>| {
            tx.projects().put(&global)?;
            tx.sessions().create(&session)
        };
        place.engine.store().write(&ctx(), write).wait().expect("made");
    };
    put("ses_here", &dir.to_string_lossy());
    put("ses_empty", "");
    put("ses_elsewhere", "/somewhere/else");

    assert_eq!(place.open(&dir).project.id, project);

    assert_eq!(list_sessions(&place, &project), ["ses_here".parse().expect("an id")]);
    let global = "global".parse().expect("an id");
    assert_eq!(list_sessions(&place, &global).len(), 2);
}

/// Proves R39.
#[test]
fn missing_directory_error_suggests_relink_which_fixes_it() {
    let place = RepositoryFixture::new();
    let dir = place.make("app");
    let inner = place.make("app/src");
    let project = place.open(&dir).project.id;
    let id = session(&place, &dir);
    let below = session(&place, &inner);
    let moved = place.dir.path().join("moved");
    fs_err::rename(&dir, &moved).expect("moved");
    let cover = |place: &RepositoryFixture, id: &SessionId| {
        let found = place.engine.store().read(&ctx(), |r| r.sessions().get(id)).expect("there");
        place.engine.snapshots().open_for_session(&found, ctx().now)
    };
    match cover(&place, &id) {
        Err(error @ EngineError::RootGone { .. }) => {
            assert!(error.to_string().contains("project relink"), "{error}");
        }
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("covered"),
    }

    let done = place.engine.projects().relink(&ctx(), &project, &moved).expect("relinked");

    let moved = fs_err::canonicalize(moved).expect("real").to_string_lossy().into_owned();
    assert_eq!(done.project.worktree, moved);
    assert_eq!(done.moved_from, Some(dir.to_string_lossy().into_owned()));
    assert_eq!(done.sessions.len(), 1, "the other one has a project of its own: {done:?}");
    assert!(matches!(cover(&place, &id), Ok(SnapshotAccess::Available(_))));
    let place = place.reopen();
    assert_eq!(place.open(Path::new(&moved)).project.id, project);
    assert!(cover(&place, &below).is_err());
}

/// Proves R31.
#[test]
fn relink_joins_clone_with_its_sessions() {
    let place = RepositoryFixture::new();
    let (dir, first) = place.project("app");
    git(place.dir.path(), &["clone", "-q", "app", "fork"]);
    let fork = fs_err::canonicalize(place.dir.path().join("fork")).expect("real");
    let other = place.open(&fork);
    assert_eq!(other.similar, std::slice::from_ref(&first));
    let session = session(&place, &fork);

    let done = place.engine.projects().relink(&ctx(), &first, &fork).expect("relinked");

    assert_eq!((done.taken_from, done.moved_from), (Some(other.project.id), None));
    assert_eq!(done.project.worktree, dir.to_string_lossy());
    assert_eq!(done.project.sandboxes, [fork.to_string_lossy()]);
    assert_eq!(place.open(&fork).project.id, first);
    assert_eq!(list_sessions(&place, &first), [session]);
}

#[test]
fn project_removal_keeps_the_user_directory() {
    let place = RepositoryFixture::new();
    let (dir, project) = place.project("app");
    let id = session(&place, &dir);
    place
        .engine
        .snapshots()
        .open(&dir, ctx().now)
        .expect("a store")
        .capture(&turnstone_snapshot::PinGroup::new("g"), ctx().now)
        .expect("captured");
    let (kept_dir, kept) = place.project("kept");
    let kept_session = session(&place, &kept_dir);
    let new = WorktreeRequest { name: Some("x".to_owned()), ..WorktreeRequest::default() };
    let made = place.engine.projects().worktrees().create(&ctx(), &project, &new).expect("made");
    fs_err::write(made.directory.join("new"), "only here").expect("written");

    let plan = place.engine.projects().plan_removal(&ctx(), &project).expect("a plan");
    assert_eq!(plan.sessions, std::slice::from_ref(&id));
    assert_eq!((plan.stores.len(), plan.worktrees.len()), (1, 1));
    let refused = place.engine.projects().remove(&ctx(), &project, false);
    assert!(matches!(refused, Err(WorktreeError::UnsavedWork { .. })), "{refused:?}");
    assert_eq!(list_sessions(&place, &project), [id], "nothing has changed");

    let removed = place.engine.projects().remove(&ctx(), &project, true).expect("removed");

    assert!(removed.kept.is_empty(), "{removed:?}");
    assert!(!made.directory.exists() && dir.join("file").exists() && dir.join(".git").exists());
    assert!(list_sessions(&place, &project).is_empty());
    let store = place.dir.path().join("data/store").join(&plan.stores[0].0);
    assert!(!store.exists());
    let listed = place.engine.projects().list(&ctx()).expect("listed");
    assert_eq!(listed.iter().map(|it| &it.project.id).collect::<Vec<_>>(), [&kept]);
    assert_eq!((listed[0].sessions, listed[0].exists), (1, true));
    assert_eq!(list_sessions(&place, &kept), [kept_session]);
    let again = place.engine.projects().remove(&ctx(), &project, true);
    assert!(matches!(again, Err(WorktreeError::Engine(EngineError::NoProject(_)))), "{again:?}");
    assert_ne!(place.open(&dir).project.id, project, "what was granted there is not inherited");
}

/// Proves R39.
#[test]
fn write_in_other_project_root_is_captured_and_undone() {
    let place = RepositoryFixture::new();
    let (dir, project) = place.project("app");
    let new = WorktreeRequest { name: Some("x".to_owned()), ..WorktreeRequest::default() };
    let made = place.engine.projects().worktrees().create(&ctx(), &project, &new).expect("made");
    let session = session(&place, &dir);
    let engine = &place.engine;
    let turn = begin(&place, &session);
    let nowhere = place.dir.path().join("nowhere");
    let paths = ["file".into(), made.directory.join("file"), nowhere.clone()];
    let call = engine.tool_calls().open_named(&ctx(), &turn, None, &paths).expect("opens");
    assert_eq!((call.other_roots.len(), &call.outside[..]), (1, std::slice::from_ref(&nowhere)));
    assert!(call.is_covered(), "but for one path");
    let (here, there) = (dir.join("file"), made.directory.join("file"));
    for path in [&here, &there] {
        fs_err::write(path, "two\n").expect("written");
    }
    let closed = engine.tool_calls().close(&ctx(), &turn, &call).expect("closes");
    assert_eq!((closed.changes.len(), closed.other_roots[0].changes.len()), (1, 1));
    let done = turnstone_core::turn::TurnOutcome::Completed;
    engine.turns().end(&ctx(), &turn, done, None).expect("ends");

    let options = turnstone_engine::UndoOptions::default();
    let last = turnstone_engine::UndoTarget::Last;
    let plan = engine.history().plan_undo(&ctx(), &session, &last, &options).expect("a plan");
    let report = engine.history().apply(&ctx(), &plan).expect("applied");

    assert_eq!(report.outside, [nowhere.to_string_lossy()]);
    assert!(!report.is_complete() && report.roots.len() == 2, "{report:?}");
    for path in [&here, &there] {
        assert_eq!(fs_err::read_to_string(path).expect("there"), "one\n");
    }
}

/// Proves R12.
#[test]
fn undo_works_after_directory_move() {
    for relinked in [true, false] {
        let place = RepositoryFixture::new();
        let (dir, project) = place.project("app");
        git(&dir, &["remote", "add", "origin", "https://host.example/a/b"]);
        place.open(&dir);
        let id = session(&place, &dir);
        let turn = begin(&place, &id);
        let call = place
            .engine
            .tool_calls()
            .open_named(&ctx(), &turn, None, &["file".into()])
            .expect("opens");
        fs_err::write(dir.join("file"), "two\n").expect("written");
        place.engine.tool_calls().close(&ctx(), &turn, &call).expect("closes");
        let done = turnstone_core::turn::TurnOutcome::Completed;
        place.engine.turns().end(&ctx(), &turn, done, None).expect("ends");
        drop(call);
        let moved = place.dir.path().join("moved");
        fs_err::rename(&dir, &moved).expect("moved");

        match relinked {
            true => {
                drop(place.engine.projects().relink(&ctx(), &project, &moved).expect("relinked"))
            }
            false => assert_eq!(place.open(&moved).project.id, project),
        }

        assert_eq!(list_sessions(&place, &project), std::slice::from_ref(&id));
        let found = place.engine.store().read(&ctx(), |r| r.sessions().get(&id)).expect("there");
        assert!(found.directory.ends_with("/moved"), "{}", found.directory);
        let options = turnstone_engine::UndoOptions::default();
        let last = turnstone_engine::UndoTarget::Last;
        let plan = place.engine.history().plan_undo(&ctx(), &id, &last, &options).expect("a plan");
        assert!(place.engine.history().apply(&ctx(), &plan).expect("applied").is_complete());
        assert_eq!(fs_err::read_to_string(moved.join("file")).expect("there"), "one\n");
    }
}

fn begin(place: &RepositoryFixture, session: &SessionId) -> turnstone_engine::Turn {
    let body = serde_json::json!({"role": "user", "time": {"created": 1}, "agent": "build",
        "model": {"providerID": "p", "modelID": "m"}});
    let message = turnstone_core::model::Message {
        id: "msg_1".parse().expect("an id"),
        session: session.clone(),
        body: serde_json::from_value(body).expect("user"),
    };
    let prompt = turnstone_engine::Prompt { message, parts: Vec::new() };
    place.engine.turns().begin(&ctx(), prompt).expect("begins")
}
