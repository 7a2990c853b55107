//! Worktrees as sandboxes: OpenCode's names and branches (snapshots.md 5, 8.6), and nothing removed
//! that is not ours or exists nowhere else.

use std::path::{Path, PathBuf};

use crate::engine_fixture::ctx;
use crate::repository_fixture::{RepositoryFixture, git};
use turnstone_core::id::ProjectId;
use turnstone_core::model::{PermissionReply, WorktreeCreationEvent};
use turnstone_core::permission::CallerRole;
use turnstone_core::time::LogCursor;
use turnstone_core::wire;
use turnstone_engine::{
    EngineError, GateRefusal, NewSession, WorktreeError, WorktreeInfo, WorktreeRequest,
};
use turnstone_store::Context;

fn create_worktree(place: &RepositoryFixture, project: &ProjectId, name: &str) -> WorktreeInfo {
    let new = WorktreeRequest { name: Some(name.to_owned()), ..WorktreeRequest::default() };
    place.engine.projects().worktrees().create(&ctx(), project, &new).expect("made")
}

fn list_worktrees(place: &RepositoryFixture, project: &ProjectId) -> Vec<WorktreeInfo> {
    let stored = place.engine.store().read(&ctx(), |r| r.projects().find(project));
    let stored = stored.expect("reads").expect("stored");
    place.engine.projects().worktrees().list(&stored).expect("listed")
}

fn branches(dir: &Path) -> Vec<String> {
    let listed = git(dir, &["for-each-ref", "--format=%(refname:short)", "refs/heads"]);
    listed.lines().map(str::to_owned).collect()
}

fn only_here(error: WorktreeError) -> (usize, usize) {
    let WorktreeError::UnsavedWork { work, .. } = error else { panic!("{error:?}") };
    (work.changes.len(), work.commits.len())
}

#[test]
fn worktree_gets_slug_branch_and_data_directory() {
    let place = RepositoryFixture::new();
    let (dir, project) = place.project("app");

    let made = create_worktree(&place, &project, "My Feature Branch!");

    assert_eq!(made.name, "my-feature-branch");
    assert_eq!(made.branch.as_deref(), Some("turnstone/my-feature-branch"));
    let data = fs_err::canonicalize(place.dir.path().join("data")).expect("real");
    let expected = data.join("worktree").join(project.as_str()).join("my-feature-branch");
    assert_eq!(made.directory, expected);
    assert_eq!(fs_err::read_to_string(expected.join("file")).expect("there"), "one\n");
    assert_eq!(branches(&dir), ["main", "turnstone/my-feature-branch"]);
    let found = place
        .engine
        .store()
        .read(&ctx(), |r| r.projects().find(&project))
        .expect("read")
        .expect("there");
    assert_eq!(found.sandboxes, [expected.to_string_lossy()]);
    assert_eq!(place.open(&expected).project.id, project, "a root of the same project (R39)");

    let again = create_worktree(&place, &project, "my feature branch");
    assert!(again.name.starts_with("my-feature-branch-"), "{}", again.name);
    let unnamed =
        place.engine.projects().worktrees().create(&ctx(), &project, &WorktreeRequest::default());
    assert_eq!(unnamed.expect("made").name.split('-').count(), 2);
}

#[test]
fn detached_worktree_has_no_branch() {
    let place = RepositoryFixture::new();
    let (dir, project) = place.project("app");
    git(&dir, &["branch", "turnstone/x"]);
    let new = WorktreeRequest { name: Some("x".to_owned()), detached: true, from: None };

    let made = place.engine.projects().worktrees().create(&ctx(), &project, &new).expect("made");

    assert_eq!((made.name.as_str(), made.branch), ("x", None));
    assert_ne!(create_worktree(&place, &project, "x").name, "x", "the branch is somebody's");
}

#[test]
fn worktree_needs_repository_and_commit() {
    let place = RepositoryFixture::new();
    let plain = place.open(&place.make("plain")).project.id;
    let made =
        place.engine.projects().worktrees().create(&ctx(), &plain, &WorktreeRequest::default());
    assert!(matches!(made, Err(WorktreeError::NotGit(_))), "{made:?}");
    let removed =
        place.engine.projects().worktrees().remove(&ctx(), &plain, Path::new("/nowhere"), false);
    assert!(matches!(removed, Err(WorktreeError::NotGit(_))), "{removed:?}");

    let unborn = place.make("unborn");
    git(&unborn, &["init", "-q"]);
    let unborn = place.open(&unborn).project.id;
    let made =
        place.engine.projects().worktrees().create(&ctx(), &unborn, &WorktreeRequest::default());
    assert!(matches!(made, Err(WorktreeError::NoCommit(_))), "{made:?}");
}

#[test]
fn removing_clean_worktree_removes_branch_and_sandbox() {
    let place = RepositoryFixture::new();
    let (dir, project) = place.project("app");
    let made = create_worktree(&place, &project, "x");
    place
        .engine
        .projects()
        .create_session(&ctx(), &made.directory, &NewSession::default())
        .expect("made");

    let removed =
        place.engine.projects().worktrees().remove(&ctx(), &project, Path::new("x"), false);

    let removed = removed.expect("removed");
    assert!(removed.capture.is_some() && removed.lost.is_empty(), "{removed:?}");
    assert!(!made.directory.exists());
    assert_eq!(branches(&dir), ["main"]);
    assert_eq!(git(&dir, &["worktree", "list"]).lines().count(), 1);
    let found = place
        .engine
        .store()
        .read(&ctx(), |r| r.projects().find(&project))
        .expect("read")
        .expect("there");
    assert!(found.sandboxes.is_empty() && found.worktrees.is_empty(), "{found:?}");
    let gone = place.engine.projects().worktrees().remove(&ctx(), &project, &made.directory, false);
    assert!(gone.is_ok(), "what is not there is removed: {gone:?}");
}

#[test]
fn unsaved_work_needs_force_and_is_captured() {
    let place = RepositoryFixture::new();
    let (dir, project) = place.project("app");
    let made = create_worktree(&place, &project, "x");
    fs_err::write(made.directory.join("new"), "not committed").expect("written");
    let which = Path::new("x");
    let refused = place.engine.projects().worktrees().remove(&ctx(), &project, which, false);
    assert_eq!(only_here(refused.expect_err("refused")), (1, 0));
    git(&made.directory, &["add", "."]);
    git(&made.directory, &["commit", "-q", "-m", "only here"]);
    let tip = git(&made.directory, &["rev-parse", "HEAD"]);
    let refused = place.engine.projects().worktrees().remove(&ctx(), &project, which, false);
    assert_eq!(only_here(refused.expect_err("refused")), (0, 1));
    let refused = place.engine.projects().worktrees().reset(&ctx(), &project, which, false);
    assert_eq!(only_here(refused.expect_err("refused")), (0, 1));
    assert!(made.directory.join("new").exists() && branches(&dir).len() == 2);

    let removed =
        place.engine.projects().worktrees().remove(&ctx(), &project, which, true).expect("removed");

    assert_eq!(
        removed.branch,
        Some(("turnstone/x".to_owned(), tip.clone())),
        "reported, to find it by"
    );
    assert_eq!(git(&dir, &["cat-file", "-t", &tip]), "commit");
    assert!(removed.capture.is_some() && !made.directory.exists());
}

#[test]
fn detached_commits_count_as_unsaved_work() {
    let place = RepositoryFixture::new();
    let (_, project) = place.project("app");
    let new = WorktreeRequest { name: Some("x".to_owned()), detached: true, from: None };
    let made = place.engine.projects().worktrees().create(&ctx(), &project, &new).expect("made");
    git(&made.directory, &["commit", "-q", "--allow-empty", "-m", "nowhere else"]);

    let refused =
        place.engine.projects().worktrees().remove(&ctx(), &project, Path::new("x"), false);

    assert_eq!(only_here(refused.expect_err("refused")), (0, 1));
}

#[test]
fn user_branch_is_never_deleted() {
    let place = RepositoryFixture::new();
    let (dir, project) = place.project("app");
    let made = create_worktree(&place, &project, "x");
    git(&made.directory, &["switch", "-q", "-c", "mine"]);
    git(&made.directory, &["commit", "-q", "--allow-empty", "-m", "mine"]);

    let removed =
        place.engine.projects().worktrees().remove(&ctx(), &project, Path::new("x"), true);

    assert_eq!(removed.expect("removed").branch.expect("ours").0, "turnstone/x");
    assert_eq!(branches(&dir), ["main", "mine"]);
}

#[test]
fn only_own_worktrees_are_removed_or_reset() {
    let place = RepositoryFixture::new();
    let (dir, project) = place.project("app");
    git(&dir, &["worktree", "add", "-q", "-b", "side", "../side"]);
    let side = fs_err::canonicalize(place.dir.path().join("side")).expect("real");
    let stranger = place.make("stranger");
    let inside = place.make(&format!("data/worktree/{}/not-made", project.as_str()));
    for path in [&side, &stranger, &inside, &dir] {
        for force in [false, true] {
            let removed = place.engine.projects().worktrees().remove(&ctx(), &project, path, force);
            assert!(removed.is_err(), "{}", path.display());
            let reset = place.engine.projects().worktrees().reset(&ctx(), &project, path, force);
            assert!(reset.is_err(), "{}", path.display());
        }
        assert!(path.is_dir());
    }
    let reset = place.engine.projects().worktrees().reset(&ctx(), &project, &dir, true);
    assert!(matches!(reset, Err(WorktreeError::Primary(_))), "{reset:?}");

    create_worktree(&place, &project, "x");
    let listed = list_worktrees(&place, &project);
    let shown: Vec<(&str, bool)> = listed.iter().map(|it| (it.name.as_str(), it.made)).collect();
    assert_eq!(shown, [("x", true), ("side", false)], "never the main checkout (section 8.6)");
}

#[test]
fn reset_restores_default_branch_and_keeps_ignored_files() {
    let place = RepositoryFixture::new();
    let (dir, project) = place.project("app");
    let made = create_worktree(&place, &project, "x");
    let at = |name: &str| made.directory.join(name);
    fs_err::write(at(".git-not"), "untracked").expect("written");
    fs_err::write(at("file"), "changed").expect("written");
    fs_err::write(dir.join("file"), "two\n").expect("written");
    git(&dir, &["commit", "-q", "-am", "two"]);
    let exclude = PathBuf::from(git(&dir, &["rev-parse", "--git-path", "info/exclude"]));
    fs_err::write(dir.join(exclude), ".env\n").expect("written");
    fs_err::write(at(".env"), "secret").expect("written");
    let which = Path::new("x");
    let refused = place.engine.projects().worktrees().reset(&ctx(), &project, which, false);
    assert_eq!(only_here(refused.expect_err("refused")), (2, 0));

    let reset =
        place.engine.projects().worktrees().reset(&ctx(), &project, which, true).expect("reset");

    assert_eq!(reset.commit, git(&dir, &["rev-parse", "main"]));
    assert_eq!(fs_err::read_to_string(at("file")).expect("there"), "two\n");
    assert!(!at(".git-not").exists() && at(".env").exists());
    let handle = place.engine.snapshots().open(&made.directory, ctx().now).expect("a store");
    let capture = handle.reader().find_capture(&reset.capture.expect("captured")).expect("kept");
    let kept = handle.reader().list_files(&capture).expect("listed");
    assert!(kept.iter().any(|file| file.path.to_string() == ".git-not"), "{kept:?}");
}

#[test]
fn removal_finishes_interrupted_create_or_remove() {
    let scenario = fail::FailScenario::setup();
    let place = RepositoryFixture::new();
    let (dir, project) = place.project("app");
    fail::cfg("engine::worktree_noted", "return").expect("set");
    let new = WorktreeRequest { name: Some("x".to_owned()), ..WorktreeRequest::default() };
    assert!(place.engine.projects().worktrees().create(&ctx(), &project, &new).is_err());
    fail::remove("engine::worktree_noted");
    let place = place.reopen();
    let listed = list_worktrees(&place, &project);
    assert!(!listed[0].ready, "{listed:?}");
    place
        .engine
        .projects()
        .worktrees()
        .remove(&ctx(), &project, Path::new("x"), false)
        .expect("removed");

    create_worktree(&place, &project, "x");
    fail::cfg("engine::worktree_removed", "return").expect("set");
    assert!(
        place
            .engine
            .projects()
            .worktrees()
            .remove(&ctx(), &project, Path::new("x"), false)
            .is_err()
    );
    fail::remove("engine::worktree_removed");
    let place = place.reopen();
    place
        .engine
        .projects()
        .worktrees()
        .remove(&ctx(), &project, Path::new("x"), false)
        .expect("removed");
    assert_eq!(branches(&dir), ["main"]);
    assert!(list_worktrees(&place, &project).is_empty());
    scenario.teardown();
}

/// Proves R37.
#[test]
fn tool_needs_permission_to_remove_or_reset() {
    let place = RepositoryFixture::new();
    let (_, project) = place.project("app");
    let made = create_worktree(&place, &project, "x");
    let tool = ctx().with_role(CallerRole::Tool);
    let which = Path::new("x");
    let unanswered = place.engine.projects().worktrees().remove(&tool, &project, which, true);
    let Err(WorktreeError::Engine(EngineError::PermissionRefused { why, .. })) = unanswered else {
        panic!("{unanswered:?}")
    };
    assert_eq!(why, GateRefusal::NoSession);

    place
        .engine
        .projects()
        .create_session(&ctx(), &made.directory, &NewSession::default())
        .expect("made");
    let reset = place.engine.projects().worktrees().reset(&tool, &project, which, true);
    assert!(
        matches!(reset, Err(WorktreeError::Engine(EngineError::PermissionPending { .. }))),
        "{reset:?}"
    );
    let tool = Context { request: Some("removal".to_owned()), ..tool };
    let removed = place.engine.projects().worktrees().remove(&tool, &project, which, true);
    let Err(WorktreeError::Engine(EngineError::PermissionPending { request, .. })) = removed else {
        panic!("{removed:?}")
    };
    assert!(made.directory.is_dir(), "nothing was done");
    let once = PermissionReply::Once;
    place.engine.permissions().reply(&ctx(), &request, once, None).expect("answered");
    place.engine.projects().worktrees().remove(&tool, &project, which, true).expect("removed");
    assert!(!made.directory.exists());
}

/// The events about worktrees, in OpenCode's shapes.
fn worktree_events(place: &RepositoryFixture) -> Vec<(String, serde_json::Value)> {
    let log =
        place.engine.store().read(&ctx(), |r| r.log().after(LogCursor(0), 1000)).expect("reads");
    let events = log.events.into_iter().filter(|event| event.kind.name().starts_with("worktree."));
    events
        .map(|event| {
            let payload = event.payload.expect("a payload");
            let created: WorktreeCreationEvent = serde_json::from_value(payload).expect("decodes");
            (event.kind.name().to_owned(), wire::worktree_info(&created))
        })
        .collect()
}

#[test]
fn worktree_ready_and_failed_events_are_sent() {
    let place = RepositoryFixture::new();
    let (dir, project) = place.project("app");
    let made = create_worktree(&place, &project, "one");
    let ready = serde_json::json!({"name": "one", "branch": "turnstone/one"});
    assert_eq!(worktree_events(&place), [("worktree.ready".to_owned(), ready)]);
    // Where the checkout belongs nothing can be made.
    let folder = made.directory.parent().expect("a folder").to_owned();
    fs_err::remove_dir_all(&made.directory).expect("removed");
    git(&dir, &["worktree", "prune"]);
    fs_err::remove_dir(&folder).expect("removed");
    fs_err::write(dir.join(".git/worktrees"), "in the way").expect("written");

    let new = WorktreeRequest { name: Some("two".to_owned()), ..WorktreeRequest::default() };
    let failed = place.engine.projects().worktrees().create(&ctx(), &project, &new);

    assert!(matches!(failed, Err(WorktreeError::Git(_))), "{failed:?}");
    let events = worktree_events(&place);
    assert_eq!(events.len(), 2, "{events:?}");
    assert_eq!(events[1].0, "worktree.failed");
    assert!(events[1].1["message"].as_str().is_some_and(|why| !why.is_empty()), "{events:?}");
    let known = place
        .engine
        .store()
        .read(&ctx(), |r| r.projects().find(&project))
        .expect("read")
        .expect("there")
        .worktrees;
    assert!(known.iter().all(|made| made.name != "two"), "nothing is left to know: {known:?}");
    // The log is the truth: it is there after a restart.
    assert_eq!(worktree_events(&place.reopen()), events);
}

#[test]
fn worktree_plans_change_nothing() {
    let place = RepositoryFixture::new();
    let (dir, project) = place.project("app");
    let made = create_worktree(&place, &project, "tried");
    let tip = git(&dir, &["rev-parse", "main"]);
    let which = Path::new("tried");

    let plan =
        place.engine.projects().worktrees().plan_removal(&ctx(), &project, which).expect("a plan");
    assert!(plan.lost.is_empty() && plan.directory == made.directory, "{plan:?}");
    assert_eq!(plan.branch, Some(("turnstone/tried".to_owned(), tip.clone())));
    fs_err::write(made.directory.join("new"), "x").expect("written");
    let plan =
        place.engine.projects().worktrees().plan_reset(&ctx(), &project, which).expect("a plan");
    assert_eq!((plan.commit, plan.branch), (Some(tip), None));
    assert_eq!(plan.lost.changes, ["new"]);
    let strange = place.engine.projects().worktrees().plan_removal(&ctx(), &project, &dir);
    assert!(matches!(strange, Err(WorktreeError::Primary(_))), "{strange:?}");

    assert!(made.directory.join("new").exists());
    assert_eq!(branches(&dir), ["main", "turnstone/tried"]);
}
