//! Forks into a worktree: the files of the point, and nothing that depends on the original.

use std::path::{Path, PathBuf};

use turnstone_core::id::{MessageId, SessionId};
use turnstone_core::model::Session;
use turnstone_engine::{
    CommandEnd, Engine, ForkedWorktree, NewSession, UndoOptions, UndoTarget, WorktreeError,
    WorktreeRequest,
};
use turnstone_process::{CommandExit, OutputLimits, OutputRecorder};
use turnstone_store::SessionFilter;

use crate::engine_fixture::{NOW, ctx};
use crate::repository_fixture::RepositoryFixture;

/// A repository with a session in it.
struct ForkFixture {
    place: RepositoryFixture,
    dir: PathBuf,
    session: Session,
}

impl ForkFixture {
    fn new() -> Self {
        let place = RepositoryFixture::new();
        let (dir, _) = place.project("app");
        let session = place.engine.projects().create_session(&ctx(), &dir, &NewSession::default());
        Self { session: session.expect("a session"), place, dir }
    }

    fn engine(&self) -> &Engine {
        &self.place.engine
    }

    /// A command that changes files; its prompt.
    fn exec(&self, session: &Session, work: impl FnOnce(&Path)) -> MessageId {
        let execution =
            self.engine().turns().commands().begin_exec(&ctx(), session, "work").expect("begins");
        work(Path::new(&session.directory));
        let kept = Box::new(
            OutputRecorder::new(OutputLimits { head: 8, tail: 8, spill: 0 }, None).finish(),
        );
        let turn = execution.turn.id.clone();
        let end =
            CommandEnd::Exited { exit: CommandExit::Code(0), kept: Some(kept), aborted: false };
        self.engine().turns().commands().end(&ctx(), execution, &end).expect("ends");
        let turns =
            self.engine().store().read(&ctx(), |r| r.turns().list(&session.id)).expect("reads");
        turns.into_iter().find(|row| row.id == turn).expect("the turn").message
    }

    fn fork(&self, at: Option<&MessageId>) -> Result<ForkedWorktree, WorktreeError> {
        let new = WorktreeRequest { name: Some("apart".to_owned()), ..WorktreeRequest::default() };
        self.engine().history().forks().fork_into_worktree(&ctx(), &self.session.id, at, &new)
    }

    fn undo(&self, session: &SessionId) {
        let options = UndoOptions::default();
        let plan = self.engine().history().plan_undo(&ctx(), session, &UndoTarget::Last, &options);
        let plan = plan.expect("a plan");
        let report = self.engine().history().apply(&ctx(), &plan).expect("applied");
        assert!(report.is_complete(), "{report:?}");
    }
}

fn put(dir: &Path, name: &str, text: &str) {
    fs_err::write(dir.join(name), text).expect("written");
}

fn has(dir: &Path, name: &str) -> Option<String> {
    fs_err::read_to_string(dir.join(name)).ok()
}

/// Proves R12, R40.
#[test]
fn worktree_fork_has_files_of_point_and_own_undo() {
    let home = ForkFixture::new();
    home.exec(&home.session, |dir| put(dir, "f", "one\n"));
    put(&home.dir, "mine", "a person's\n");
    let second = home.exec(&home.session, |dir| put(dir, "f", "two\n"));
    put(&home.dir, "later", "later\n");

    let forked = home.fork(Some(&second)).expect("forks");

    let dir = forked.worktree.directory.clone();
    assert_eq!(forked.session.directory, dir.to_string_lossy());
    assert_eq!(has(&dir, "f").as_deref(), Some("one\n"), "before the second prompt");
    assert_eq!(has(&dir, "mine").as_deref(), Some("a person's\n"), "never committed");
    assert_eq!((has(&dir, "later"), has(&dir, "file")), (None, Some("one\n".to_owned())));
    let origin = forked.session.origin.clone().expect("an origin");
    assert_eq!((origin.session, origin.message), (home.session.id.clone(), Some(second)));

    // An undo in the copy changes only the copy.
    home.undo(&forked.session.id);
    assert_eq!((has(&dir, "f"), has(&home.dir, "f")), (None, Some("two\n".to_owned())));
    // The original goes, with its store: the copy depends on nothing of it.
    home.engine().store().delete_session(&ctx(), &home.session.id).expect("deleted");
    let options = UndoOptions::default();
    let plan =
        home.engine().history().plan_redo(&ctx(), &forked.session.id, &UndoTarget::Last, &options);
    home.engine().history().apply(&ctx(), &plan.expect("a plan")).expect("applied");
    assert_eq!(has(&dir, "f").as_deref(), Some("one\n"));
}

#[test]
fn worktree_fork_at_head_copies_current_files() {
    let home = ForkFixture::new();
    home.exec(&home.session, |dir| put(dir, "f", "one\n"));
    home.exec(&home.session, |dir| put(dir, "g", "two\n"));
    home.undo(&home.session.id);
    put(&home.dir, "mine", "a person's\n");

    let forked = home.fork(None).expect("forks");

    let dir = forked.worktree.directory;
    assert_eq!((has(&dir, "f"), has(&dir, "g")), (Some("one\n".to_owned()), None));
    assert_eq!(has(&dir, "mine").as_deref(), Some("a person's\n"));
    // The commit is the checkout's; what was never committed differs from it.
    assert!(forked.report.restored.iter().any(|path| path.to_string() == "mine"));
    home.undo(&forked.session.id);
    assert_eq!((has(&dir, "f"), has(&home.dir, "f")), (None, Some("one\n".to_owned())));
}

/// Proves R42.
#[test]
fn worktree_fork_without_capture_is_rejected() {
    let home = ForkFixture::new();
    // A named write captures its path alone; there is no baseline.
    let prompt = crate::engine_fixture::prompt(&home.session.id, "u1");
    let message = prompt.message.id.clone();
    let turn = home.engine().turns().begin(&ctx(), prompt).expect("begins");
    let call =
        home.engine().tool_calls().open_named(&ctx(), &turn, None, &["f".into()]).expect("opens");
    put(&home.dir, "f", "one\n");
    home.engine().tool_calls().close(&ctx(), &turn, &call).expect("closes");
    let outcome = turnstone_core::turn::TurnOutcome::Completed;
    home.engine().turns().end(&ctx(), &turn, outcome, None).expect("ends");

    let refused = home.fork(Some(&message));

    assert!(matches!(refused, Err(WorktreeError::NoCapture { .. })), "{refused:?}");
    let project = home
        .engine()
        .store()
        .read(&ctx(), |r| r.projects().find(&home.session.project))
        .expect("read")
        .expect("there");
    assert!(project.worktrees.is_empty() && project.sandboxes.is_empty(), "{project:?}");
}

#[test]
fn worktree_fork_in_plain_directory_is_rejected() {
    let place = RepositoryFixture::new();
    let dir = place.make("plain");
    let session =
        place.engine.projects().create_session(&ctx(), &dir, &NewSession::default()).expect("made");
    let refused = place.engine.history().forks().fork_into_worktree(
        &ctx(),
        &session.id,
        None,
        &WorktreeRequest::default(),
    );
    assert!(matches!(refused, Err(WorktreeError::NotGit(_))), "{refused:?}");
}

/// Cut off at every named point: no worktree that is ready, no session anybody sees, and the next
/// one goes through.
/// Proves R12, R40.
#[test]
fn failed_worktree_fork_leaves_nothing() {
    let scenario = fail::FailScenario::setup();
    let points = [
        "engine::fork_captures",
        "engine::fork_filled",
        "engine::fork_begun",
        "engine::fork_copies",
    ];
    for point in points {
        let home = ForkFixture::new();
        home.exec(&home.session, |dir| put(dir, "f", "one\n"));
        fail::cfg(point, "return").expect("armed");
        let failed = home.fork(None);
        fail::remove(point);
        assert!(failed.is_err(), "{point}");
        let filter = SessionFilter::default();
        let listed = home.engine().store().read(&ctx(), |r| r.sessions().list(&filter, None, 9));
        assert_eq!(listed.expect("reads").items.len(), 1, "{point}: the original alone");
        let engine = home.engine();
        let project = engine.store().read(&ctx(), |r| r.projects().find(&home.session.project));
        let project = project.expect("reads").expect("stored");
        for listed in engine.projects().worktrees().list(&project).expect("lists") {
            // Filled and known before the copy began: a checkout like any other.
            assert!(listed.ready && point.ends_with("begun") | point.ends_with("copies"));
            let removed = engine.projects().worktrees().remove(
                &ctx(),
                &home.session.project,
                &listed.directory,
                true,
            );
            removed.expect("removed");
        }
        let later = ctx().at_time(turnstone_core::time::EpochMillis(NOW.0 + 3_600_000));
        let new = WorktreeRequest { name: Some("apart".to_owned()), ..WorktreeRequest::default() };
        let forked =
            engine.history().forks().fork_into_worktree(&later, &home.session.id, None, &new);
        assert_eq!(forked.expect("forks").worktree.name, "apart", "{point}");
        engine.history().forks().fork_session(&later, &home.session.id, None).expect("forks");
        let all = SessionFilter { archived: true, ..SessionFilter::default() };
        let listed = engine.store().read(&ctx(), |r| r.sessions().list(&all, None, 9));
        assert_eq!(listed.expect("reads").items.len(), 3, "{point}: what was half is gone");
    }
    scenario.teardown();
}
