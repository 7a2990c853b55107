//! Runners: programs outside of the server that run models, the runner in its process, and the requests that
//! wait for them.
//!
//! External runners are known in memory only, and only as long as they send requests: a runner that dies leaves nothing
//! behind, and the prompts it did not take stay in the durable inbox.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use serde::Serialize;
use subtle::ConstantTimeEq;
use tokio::sync::Notify;
use turnstone_core::id::{MessageId, SessionId};
use turnstone_core::permission::CallerRole;
use turnstone_core::time::EpochMillis;
use turnstone_core::turn::TurnState;
use turnstone_engine::resolve_path;
use turnstone_store::{Actor, Context, PromptStatus, StoreError};

use crate::app::AppState;
use crate::error::ApiError;
use crate::prompt_runner::PromptRunner;
use crate::random;

/// A runner that sent no request for so long is gone, unless it drives a turn in its directory: a runner
/// at work need not look for more.
pub(crate) const RUNNER_TIMEOUT_MS: i64 = 45_000;
/// How often a waiting request looks by itself: another process may have changed something.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// A program that runs models for a directory and everything below it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct ModelRunner {
    /// Names it.
    pub(crate) id: String,
    /// What people call it.
    pub(crate) name: String,
    /// Where it takes prompts from.
    pub(crate) directory: PathBuf,
    /// When it expires unless it sends another request.
    pub(crate) until: EpochMillis,
}

impl ModelRunner {
    /// How the name of every runner begins in the log; no client can choose such a name.
    pub(crate) const ACTOR_PREFIX: &str = "runner ";

    /// The actor whose requests carry the token of this runner.
    pub(crate) fn actor(&self) -> Actor {
        // An id is short and printable, so it always is a name.
        Actor::new(format!("{}{}", Self::ACTOR_PREFIX, self.id)).unwrap_or_else(|_| Actor::system())
    }
}

/// A runner and the secret that identifies it.
struct RegisteredRunner {
    runner: ModelRunner,
    token: String,
}

/// What a runner may take up.
#[derive(Debug, Serialize)]
pub(crate) struct RunnerInbox {
    /// Sessions with waiting prompts and no open turn, the longest waiting first; a turn begun in one takes
    /// its next prompt up.
    pub(crate) sessions: Vec<SessionId>,
    /// Sessions whose turn waited for an answer, has it, and lost its driver (R28).
    pub(crate) resumable: Vec<SessionId>,
}

/// Who runs turns: programs outside, the runner of this process, and the commands of this process.
#[derive(Default)]
pub(crate) struct RunnerRegistry {
    runners: Mutex<BTreeMap<String, RegisteredRunner>>,
    /// Sessions in which a command runs as a turn of this process.
    commands: Mutex<BTreeSet<SessionId>>,
    /// Runs the turns that no program outside takes; empty if the server was started without an agent.
    in_process: OnceLock<Arc<dyn PromptRunner>>,
    /// Told whenever a prompt comes, a turn ends, or a runner comes or goes.
    changed: Arc<Notify>,
}

/// Random bytes in hexadecimal digits.
fn random_hex<const BYTES: usize>() -> Result<String, ApiError> {
    random::random_hex::<BYTES>().map_err(|error| ApiError::unexpected(&error))
}

/// True for a directory that is `root` or below it; one with `..` in it may lead anywhere.
fn is_below(directory: &Path, root: &Path) -> bool {
    let leads_up = directory.components().any(|part| part == Component::ParentDir);
    !leads_up && directory.starts_with(root)
}

/// The same with links followed: one below `root` may lead out of it, also to what does not exist yet.
fn is_really_below(directory: &Path, root: &Path) -> Result<bool, ApiError> {
    let real = |path: &Path| resolve_path(path).map_err(|error| ApiError::unexpected(&error));
    let leads_up = directory.components().any(|part| part == Component::ParentDir);
    Ok((!leads_up || directory.is_dir()) && real(directory)?.starts_with(real(root)?))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl RunnerRegistry {
    /// Lets a program take prompts from `directory` and below.
    ///
    /// It has to send another request within [`RUNNER_TIMEOUT_MS`]; see [`RunnerRegistry::renew`]. Returns the token
    /// that identifies its requests for as long as it is known.
    ///
    /// # Errors
    ///
    /// The system has no random bytes.
    pub(crate) fn register(
        &self,
        name: &str,
        directory: &Path,
        now: EpochMillis,
    ) -> Result<(ModelRunner, String), ApiError> {
        let (id, token) = (random_hex::<8>()?, format!("token_{}", random_hex::<32>()?));
        let mut runners = lock(&self.runners);
        // Counted, so that it is one of a kind in any case.
        let runner = ModelRunner {
            id: format!("run_{:x}{:02x}{id}", now.0, runners.len()),
            name: name.to_owned(),
            directory: directory.to_owned(),
            until: now.plus(RUNNER_TIMEOUT_MS),
        };
        let known = RegisteredRunner { runner: runner.clone(), token: token.clone() };
        runners.insert(runner.id.clone(), known);
        drop(runners);
        self.notify_waiters();
        Ok((runner, token))
    }

    /// The runner with this token. Every token is compared, in constant time.
    fn find_by_token(&self, token: &[u8]) -> Option<ModelRunner> {
        let runners = lock(&self.runners);
        let mut found = None;
        for known in runners.values() {
            if bool::from(known.token.as_bytes().ct_eq(token)) {
                found = Some(known.runner.clone());
            }
        }
        found
    }

    /// Believes in a runner for another while; nothing if it is not known (any more).
    fn renew(&self, id: &str, now: EpochMillis) -> Option<ModelRunner> {
        let mut runners = lock(&self.runners);
        let runner = &mut runners.get_mut(id)?.runner;
        runner.until = now.plus(RUNNER_TIMEOUT_MS);
        Some(runner.clone())
    }

    /// Believes in the runners of a directory for another while: a turn in it is being driven.
    fn renew_in(&self, directory: &Path, now: EpochMillis) {
        let mut runners = lock(&self.runners);
        let there = runners.values_mut().map(|known| &mut known.runner);
        let there = there.filter(|runner| directory.starts_with(&runner.directory));
        there.for_each(|runner| runner.until = now.plus(RUNNER_TIMEOUT_MS));
    }

    /// Forgets a runner; true if it was known.
    pub(crate) fn remove(&self, id: &str) -> bool {
        let known = lock(&self.runners).remove(id).is_some();
        self.notify_waiters();
        known
    }

    /// The runners that are there; the others are forgotten.
    fn list(&self, now: EpochMillis, is_at_work: impl Fn(&Path) -> bool) -> Vec<ModelRunner> {
        let mut runners = lock(&self.runners);
        runners.retain(|_, RegisteredRunner { runner, .. }| {
            runner.until > now || is_at_work(&runner.directory)
        });
        runners.values().map(|known| known.runner.clone()).collect()
    }

    /// Lets a runner of this process take the prompts that no program outside takes; the first one counts.
    pub(crate) fn attach(&self, runner: Arc<dyn PromptRunner>) {
        self.in_process.get_or_init(|| runner);
    }

    /// The runner of this process.
    pub(crate) fn in_process(&self) -> Option<&Arc<dyn PromptRunner>> {
        self.in_process.get()
    }

    /// True while this process runs a turn of the session, or a command as one: either notices an abort by itself.
    pub(crate) fn runs_turn(&self, session: &SessionId) -> bool {
        let is_running = |runner: &Arc<dyn PromptRunner>| runner.is_running(session);
        lock(&self.commands).contains(session) || self.in_process().is_some_and(is_running)
    }

    /// Notes that a command runs as a turn of this process: it notices an abort by itself.
    pub(crate) fn mark_command_running(&self, session: &SessionId) {
        lock(&self.commands).insert(session.clone());
    }

    /// Removes a command that has ended, and wakes the requests that wait for that.
    pub(crate) fn mark_command_ended(&self, session: &SessionId) {
        lock(&self.commands).remove(session);
        self.notify_waiters();
    }

    /// Wakes every waiting request.
    pub(crate) fn notify_waiters(&self) {
        self.changed.notify_waiters();
    }
}

/// The runners that are there.
pub(crate) fn list_runners(app: &AppState) -> Vec<ModelRunner> {
    app.runners()
        .list(app.now(), |directory| app.in_flight().driven_turns.is_driven_below(directory))
}

/// The runner with this token, if it is there.
pub(crate) fn find_runner_by_token(app: &AppState, token: &[u8]) -> Option<ModelRunner> {
    let found = app.runners().find_by_token(token)?;
    // The token of a runner that is gone is not valid.
    list_runners(app).into_iter().find(|runner| runner.id == found.id)
}

/// The runner that makes a request; `None` if it is not made by one.
pub(crate) fn calling_runner(app: &AppState, ctx: &Context) -> Option<ModelRunner> {
    let runners = list_runners(app).into_iter();
    runners.filter(|_| ctx.role == CallerRole::Runner).find(|it| it.actor() == ctx.actor)
}

/// Refuses a runner that reaches beyond the directory it registered for.
///
/// # Errors
///
/// 403.
pub(crate) fn check_runner_directory(
    app: &AppState,
    ctx: &Context,
    directory: &Path,
) -> Result<(), ApiError> {
    if ctx.role != CallerRole::Runner {
        return Ok(());
    }
    match calling_runner(app, ctx) {
        Some(runner) if is_really_below(directory, &runner.directory)? => Ok(()),
        Some(_) | None => Err(ApiError::not_for_runners(
            "a runner works in the directory it registered for and below it",
        )),
    }
}

/// Refuses a runner that reaches for a session outside of its directory; whether there is such a session
/// is for the caller to say.
///
/// # Errors
///
/// 403.
pub(crate) fn check_session_reach(
    app: &AppState,
    ctx: &Context,
    session: &SessionId,
) -> Result<(), ApiError> {
    match app.engine().store().read(ctx, |r| r.sessions().find(session))? {
        Some(found) => check_runner_directory(app, ctx, Path::new(&found.directory)),
        None => Ok(()),
    }
}

/// True if a runner takes prompts from sessions in `directory`, one outside or that of this process.
pub(crate) fn has_runner(app: &AppState, directory: &Path) -> bool {
    app.runners().in_process().is_some() || has_external_runner(app, directory)
}

/// True if a program outside takes prompts from sessions in `directory`.
pub(crate) fn has_external_runner(app: &AppState, directory: &Path) -> bool {
    list_runners(app).iter().any(|runner| directory.starts_with(&runner.directory))
}

/// Tells the runners that a session has work: a prompt, or an answer that its turn waited for. The runner of
/// this process leaves it to one outside.
pub(crate) fn wake_runners(app: &AppState, session: &SessionId, directory: &Path) {
    app.runners().notify_waiters();
    if let Some(runner) = app.runners().in_process()
        && !has_external_runner(app, directory)
    {
        runner.wake(session);
    }
}

/// Extends the life of a runner that sent a request; `None` if it is gone.
pub(crate) fn renew_runner(app: &AppState, id: &str) -> Option<ModelRunner> {
    let is_there = list_runners(app).iter().any(|runner| runner.id == id);
    is_there.then(|| app.runners().renew(id, app.now())).flatten()
}

/// Notes that a turn in `directory` is being driven.
pub(crate) fn renew_runners_in(app: &AppState, directory: &Path) {
    app.runners().renew_in(directory, app.now());
}

/// What there is to do below `directory`, as soon as there is anything; nothing after `patience`.
pub(crate) async fn wait_for_runner_inbox(
    app: &AppState,
    ctx: &Context,
    directory: &Path,
    patience: Duration,
) -> Result<RunnerInbox, ApiError> {
    let until = tokio::time::Instant::now() + patience;
    loop {
        let stirred = app.runners().changed.notified();
        let (ctx, directory) = (ctx.clone(), directory.to_owned());
        let found = app.run_blocking(move |app| runner_inbox(app, &ctx, &directory)).await?;
        if !(found.sessions.is_empty() && found.resumable.is_empty())
            || tokio::time::Instant::now() >= until
        {
            return Ok(found);
        }
        let next = tokio::time::Instant::now() + POLL_INTERVAL;
        drop(tokio::time::timeout_at(next.min(until), stirred).await);
    }
}

fn runner_inbox(app: &AppState, ctx: &Context, directory: &Path) -> Result<RunnerInbox, ApiError> {
    let store = app.engine().store();
    let (sessions, answered) = store.read(ctx, |r| {
        let is_here = |id: &SessionId| {
            let place = r.sessions().get(id)?.directory;
            Ok::<_, StoreError>(is_below(Path::new(&place), directory))
        };
        let (mut sessions, mut answered) = (Vec::new(), Vec::new());
        for id in r.prompts().sessions_with_waiting()? {
            if is_here(&id)?
                && r.sessions().status(&id)? == turnstone_core::model::SessionStatus::Idle
            {
                sessions.push(id);
            }
        }
        for id in r.turns().sessions_with_open()? {
            let waits =
                r.turns().list(&id)?.last().is_some_and(|it| it.state == TurnState::Waiting);
            if waits && is_here(&id)? && r.requests().pending(Some(&id))?.is_empty() {
                answered.push(id);
            }
        }
        Ok((sessions, answered))
    })?;
    let mut resumable = Vec::new();
    for id in answered {
        if !store.leases().is_held(ctx, &id)? {
            resumable.push(id);
        }
    }
    Ok(RunnerInbox { sessions, resumable })
}

/// Waits until the turn that took a prompt up has ended; how it ended.
///
/// If no runner is left to take it up, `take` is called to do so; what it leaves in the
/// inbox is waited for.
pub(crate) async fn wait_for_turn_end<F>(
    app: &AppState,
    ctx: &Context,
    session: &SessionId,
    message: &MessageId,
    take: F,
) -> Result<Option<TurnState>, ApiError>
where
    F: Fn(&AppState) -> Result<(), ApiError> + Clone + Send + 'static,
{
    loop {
        let stirred = app.runners().changed.notified();
        let (ctx, id, message, take) =
            (ctx.clone(), session.clone(), message.clone(), take.clone());
        let status = app
            .run_blocking(move |app| {
                let read =
                    || app.engine().store().read(&ctx, |r| r.prompts().status(&id, &message));
                let status = read()?;
                if status != Some(PromptStatus::Waiting) {
                    return Ok(status);
                }
                take(app)?;
                Ok(read()?)
            })
            .await?;
        match status {
            None => return Ok(None),
            Some(PromptStatus::InTurn(_, state)) if !state.is_open() => return Ok(Some(state)),
            Some(PromptStatus::InTurn(..) | PromptStatus::Waiting) => {}
        }
        drop(tokio::time::timeout(POLL_INTERVAL, stirred).await);
    }
}
