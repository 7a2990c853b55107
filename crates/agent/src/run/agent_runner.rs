//! Takes prompts from the inbox and runs their turns, one thread for each session at work.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use turnstone_core::call_context::{Actor, Context};
use turnstone_core::id::{SessionId, TurnId};
use turnstone_core::model::Session;
use turnstone_core::permission::CallerRole;
use turnstone_core::time::EpochMillis;
use turnstone_core::turn::TurnState;
use turnstone_engine::{Engine, Result, Turn};

use super::deadline::WaitDeadline;
use super::gate::WaitGate;
use super::settings::RunSettings;
use super::turn_run::{RunSignal, TurnConclusion, TurnRun};
use super::turn_shared::{AnswerSignal, TurnShared};

/// Receives what the runner does.
pub trait RunObserver: Send + Sync {
    /// True if another program takes the prompts of this directory.
    fn is_taken(&self, directory: &Path) -> bool;

    /// A turn of a session has ended.
    fn turn_ended(&self, session: &SessionId);
}

/// How a runner is made.
pub struct AgentRunnerOptions {
    /// The engine whose prompts it answers.
    pub engine: Arc<Engine>,
    /// The configuration.
    pub settings: Arc<dyn RunSettings>,
    /// Receives what the runner does.
    pub observer: Arc<dyn RunObserver>,
    /// Turnstone's data directory.
    pub data: PathBuf,
    /// Reads the present time.
    pub clock: fn() -> EpochMillis,
}

/// Answers prompts in this process. Clones are the same runner.
#[derive(Clone)]
pub struct AgentRunner {
    shared: Arc<RunnerShared>,
}

/// What the threads of a runner share.
pub(crate) struct RunnerShared {
    pub(crate) engine: Arc<Engine>,
    pub(crate) settings: Arc<dyn RunSettings>,
    pub(crate) data: PathBuf,
    observer: Arc<dyn RunObserver>,
    clock: fn() -> EpochMillis,
    sessions: Mutex<RunningSessions>,
    changed: Condvar,
    is_stopping: AtomicBool,
}

#[derive(Default)]
struct RunningSessions {
    /// The sessions at work; true if there may be more to do than what runs.
    at_work: BTreeMap<SessionId, bool>,
    turns: BTreeMap<TurnId, RunningTurn>,
    /// How many titles are being written.
    titles: usize,
}

struct RunningTurn {
    sender: Sender<RunSignal>,
    gate: Arc<WaitGate>,
}

impl AgentRunner {
    /// Returns a runner that does nothing until it is woken.
    #[must_use]
    pub fn new(options: AgentRunnerOptions) -> Self {
        let AgentRunnerOptions { engine, settings, observer, data, clock } = options;
        let shared = RunnerShared {
            engine,
            settings,
            data,
            observer,
            clock,
            sessions: Mutex::default(),
            changed: Condvar::new(),
            is_stopping: AtomicBool::new(false),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Looks for work in a session: prompts in its inbox, or a turn that waited and has its answers.
    pub fn wake(&self, session: &SessionId) {
        if self.shared.is_stopping.load(Ordering::SeqCst) {
            return;
        }
        let mut sessions = self.shared.lock();
        if let Some(again) = sessions.at_work.get_mut(session) {
            *again = true;
            return;
        }
        sessions.at_work.insert(session.clone(), false);
        drop(sessions);
        let (shared, name) = (self.shared.clone(), session.clone());
        let thread = std::thread::Builder::new().name("agent".to_owned());
        if thread.spawn(move || shared.run_session(&name)).is_err() {
            // The next look finds the prompt again.
            self.shared.lock().at_work.remove(session);
        }
    }

    /// Runs a turn that this process has begun; then looks for more work in its session.
    pub fn run_begun(&self, turn: Turn) {
        self.shared.lock().at_work.entry(turn.session.clone()).or_insert(false);
        let shared = self.shared.clone();
        let session = turn.session.clone();
        let thread = std::thread::Builder::new().name("agent".to_owned());
        let run = move || {
            if let Ok(prepared) = shared.share_turn(turn.clone(), false) {
                shared.run_turn(prepared);
                shared.observer.turn_ended(&turn.session);
            }
            shared.run_session(&turn.session);
        };
        if thread.spawn(run).is_err() {
            // The turn has no process that runs it: recovery ends it.
            self.shared.lock().at_work.remove(&session);
        }
    }

    /// Waits until no title is being written any more, at most for `limit`.
    pub fn wait_for_titles(&self, limit: Duration) {
        let until = WaitDeadline::after(limit);
        let mut sessions = self.shared.lock();
        while sessions.titles > 0 && !until.remaining().is_zero() {
            let waited = self.shared.changed.wait_timeout(sessions, until.remaining());
            (sessions, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Looks for work in every session.
    ///
    /// # Errors
    ///
    /// The database cannot be read.
    pub fn wake_all(&self) -> Result<()> {
        for session in self.shared.list_work()? {
            self.wake(&session);
        }
        Ok(())
    }

    /// True while a turn of the session runs here.
    #[must_use]
    pub fn is_running(&self, session: &SessionId) -> bool {
        self.shared.lock().at_work.contains_key(session)
    }

    /// Ends what runs, as interrupted; turns that wait for a person go on waiting and are resumed by the next
    /// process. Returns when all have ended or `grace` has passed.
    pub fn stop(&self, grace: Duration) {
        self.shared.is_stopping.store(true, Ordering::SeqCst);
        let until = WaitDeadline::after(grace);
        let mut sessions = self.shared.lock();
        for turn in sessions.turns.values().filter(|turn| !turn.gate.is_suspended()) {
            // A turn that has just ended hears nothing any more.
            let _sent = turn.sender.send(RunSignal::Abort);
        }
        while sessions.turns.values().any(|turn| !turn.gate.is_suspended()) {
            let left = until.remaining();
            if left.is_zero() {
                return;
            }
            let waited = self.shared.changed.wait_timeout(sessions, left);
            (sessions, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl RunnerShared {
    /// Returns the context of a call of the engine, with the present time.
    pub(crate) fn context(&self) -> Context {
        Context::new(Actor::system(), (self.clock)()).with_role(CallerRole::Runner)
    }

    /// Returns a number between 0 and 1 that spreads the retries of clients.
    pub(crate) fn jitter(&self) -> f64 {
        // Clients do not fail in the same millisecond, and nothing secret depends on this.
        let millis = (self.clock)().0.rem_euclid(1_000);
        millis as f64 / 1_000.0
    }

    /// True once the process is about to end.
    pub(crate) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::SeqCst)
    }

    fn lock(&self) -> MutexGuard<'_, RunningSessions> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn list_work(&self) -> Result<Vec<SessionId>> {
        let ctx = self.context();
        let (mut found, open) = self.engine.store().read(&ctx, |r| {
            Ok((r.prompts().sessions_with_waiting()?, r.turns().sessions_with_open()?))
        })?;
        for session in open {
            if self.is_resumable(&ctx, &session)? && !found.contains(&session) {
                found.push(session);
            }
        }
        let mut work = Vec::new();
        for session in found {
            let row = self.engine.store().read(&ctx, |r| r.sessions().find(&session))?;
            let is_ours = |it: &Session| !self.observer.is_taken(Path::new(&it.directory));
            if row.as_ref().is_some_and(is_ours) {
                work.push(session);
            }
        }
        Ok(work)
    }

    /// True for a session whose turn waited, lost its process, and can go on.
    fn is_resumable(&self, ctx: &Context, session: &SessionId) -> Result<bool> {
        if self.engine.store().leases().is_held(ctx, session)? {
            return Ok(false);
        }
        Ok(self.engine.store().read(ctx, |r| {
            let is_waiting =
                r.turns().list(session)?.iter().any(|it| it.state == TurnState::Waiting);
            Ok(is_waiting && r.requests().pending(Some(session))?.is_empty())
        })?)
    }

    /// Runs the turns of a session until there is nothing left to do.
    fn run_session(self: Arc<Self>, session: &SessionId) {
        loop {
            while !self.is_stopping() {
                // Whatever the engine refuses now is found again by the next look.
                let Ok(Some((turn, is_resumed))) = self.next_turn(session) else { break };
                let Ok(shared) = self.share_turn(turn.clone(), is_resumed) else { break };
                self.run_turn(shared);
            }
            let mut sessions = self.lock();
            match sessions.at_work.get_mut(session) {
                Some(again) if *again && !self.is_stopping() => *again = false,
                Some(_) | None => {
                    sessions.at_work.remove(session);
                    return;
                }
            }
        }
    }

    fn next_turn(&self, session: &SessionId) -> Result<Option<(Turn, bool)>> {
        let ctx = self.context();
        let row = self.engine.store().read(&ctx, |r| r.sessions().get(session))?;
        if self.observer.is_taken(Path::new(&row.directory)) {
            return Ok(None);
        }
        if self.is_resumable(&ctx, session)? {
            match &row.parent {
                // The call that started the subagent goes on with it once its own turn is resumed.
                Some(parent) if self.has_open_turn(&ctx, parent)? => return Ok(None),
                // The answer would go nowhere: a subagent ends with the turn that called it.
                Some(_) => drop(self.engine.turns().aborts().request(&ctx, session)?),
                None => {
                    let resumed = self.engine.permissions().resume_turn(&ctx, session)?;
                    if let Some(resumed) = resumed {
                        return Ok(Some((resumed.turn, true)));
                    }
                }
            }
        }
        Ok(self.engine.turns().begin_next(&ctx, session)?.map(|turn| (turn, false)))
    }

    /// True if a session is there and has an open turn.
    fn has_open_turn(&self, ctx: &Context, session: &SessionId) -> Result<bool> {
        Ok(self.engine.store().read(ctx, |r| {
            let is_there = r.sessions().find(session)?.is_some();
            Ok(is_there && r.turns().list(session)?.iter().any(|turn| turn.state.is_open()))
        })?)
    }

    /// Returns what the threads of a turn share.
    fn share_turn(self: &Arc<Self>, turn: Turn, is_resumed: bool) -> Result<Arc<TurnShared>> {
        self.share_nested_turn(turn, is_resumed, None)
    }

    /// Returns what the threads of a turn share; `outer` is the turn whose call started it.
    pub(crate) fn share_nested_turn(
        self: &Arc<Self>,
        turn: Turn,
        is_resumed: bool,
        outer: Option<&TurnShared>,
    ) -> Result<Arc<TurnShared>> {
        let ctx = self.context();
        let session = self.engine.store().read(&ctx, |r| r.sessions().get(&turn.session))?;
        let directory = PathBuf::from(&session.directory);
        let place = self.engine.projects().find_or_derive(&ctx, &directory);
        // A directory that is gone has no root; what needs one fails with its own words.
        let worktree = place.map_or_else(|_| directory.clone(), |place| place.root);
        let outer_gate = outer.map(|outer| outer.gate.clone());
        let gate = Arc::new(WaitGate::new(self.engine.clone(), turn.clone(), outer_gate));
        Ok(Arc::new(TurnShared {
            runner: self.clone(),
            turn,
            directory,
            worktree,
            parent: session.parent,
            gate,
            answers: Arc::new(AnswerSignal::default()),
            depth: outer.map_or(0, |outer| outer.depth + 1),
            is_resumed,
            instructions: OnceLock::new(),
        }))
    }

    /// Runs a turn to its end, known to [`AgentRunner::stop`] meanwhile.
    pub(crate) fn run_turn(&self, shared: Arc<TurnShared>) -> TurnConclusion {
        let id = shared.turn.id.clone();
        let session = shared.turn.session.clone();
        let gate = shared.gate.clone();
        let run = TurnRun::new(shared);
        let sender = run.sender.clone();
        self.lock().turns.insert(id.clone(), RunningTurn { sender, gate });
        let conclusion = run.run();
        self.lock().turns.remove(&id);
        self.changed.notify_all();
        self.observer.turn_ended(&session);
        conclusion
    }

    /// Counts a title that is being written, for as long as the guard lives.
    pub(crate) fn count_title(self: &Arc<Self>) -> TitleGuard {
        self.lock().titles += 1;
        TitleGuard(self.clone())
    }

    /// Marks a session as being at work for as long as the guard lives; `None` if it is already.
    pub(crate) fn occupy(self: &Arc<Self>, session: &SessionId) -> Option<OccupiedSession> {
        let mut sessions = self.lock();
        if sessions.at_work.contains_key(session) {
            return None;
        }
        sessions.at_work.insert(session.clone(), false);
        Some(OccupiedSession { runner: self.clone(), session: session.clone() })
    }
}

/// A title that is being written.
pub(crate) struct TitleGuard(Arc<RunnerShared>);

impl Drop for TitleGuard {
    fn drop(&mut self) {
        self.0.lock().titles -= 1;
        self.0.changed.notify_all();
    }
}

/// A session that a subagent works in.
pub(crate) struct OccupiedSession {
    runner: Arc<RunnerShared>,
    session: SessionId,
}

impl Drop for OccupiedSession {
    fn drop(&mut self) {
        self.runner.lock().at_work.remove(&self.session);
    }
}
