//! Follows a run in the log: shows what happens, asks what is to be asked, and passes Ctrl-C on.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use signal_hook::iterator::Signals;
use turnstone_agent::run::AgentRunner;
use turnstone_core::id::SessionId;
use turnstone_core::model::{
    MessageBody, MessageFailure, PermissionReply, RequestBody, RequestId, UserRequest,
};
use turnstone_core::permission::CallerRole;
use turnstone_core::time::LogCursor;
use turnstone_engine::Engine;
use turnstone_store::{FeedBody, FeedCache, FeedEvent, FeedSession};

use super::json_events::{failure_line, part_event, part_line};
use super::person_answer::{Decision, OpenQuestion, TypedAnswer, store_answer};
use super::terminal_events::TerminalEvents;
use super::usage_total::UsageTotal;
use crate::app::CliApp;
use crate::error::CliError;
use crate::text;
use crate::ui::Ui;

/// Events read at once.
const PAGE: usize = 200;
/// How long the log is waited for before signals and the spinner are looked after.
const IDLE_INTERVAL: Duration = Duration::from_millis(100);

/// Who answers requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AnswerPolicy {
    /// The person at the terminal.
    Ask,
    /// Everything is allowed once that no rule denies.
    AllowOnce,
    /// Nobody: everything is refused.
    Refuse,
}

/// In which form events are printed.
pub(super) enum RunOutput {
    /// For people.
    Terminal(Box<TerminalEvents>),
    /// As lines of JSON; true if reasoning belongs to them.
    Json(bool),
}

/// What a run came to.
#[derive(Default)]
pub(super) struct RunReport {
    /// What its answers used.
    pub(super) usage: UsageTotal,
    /// The session and those of its subagents.
    pub(super) sessions: BTreeSet<SessionId>,
    /// What was refused because nobody could be asked.
    pub(super) refused: Vec<String>,
    /// Why the newest answer failed.
    pub(super) failure: Option<MessageFailure>,
    /// How many signals asked the run to end.
    pub(super) signals: u32,
}

/// A run that is followed.
pub(super) struct RunFollower<'r> {
    app: &'r CliApp,
    engine: &'r Engine,
    runner: &'r AgentRunner,
    session: SessionId,
    policy: AnswerPolicy,
    output: RunOutput,
    asked: VecDeque<UserRequest>,
    question: Option<OpenQuestion>,
    report: RunReport,
}

impl<'r> RunFollower<'r> {
    pub(super) fn new(
        app: &'r CliApp,
        (engine, runner): (&'r Engine, &'r AgentRunner),
        session: &SessionId,
        (policy, output): (AnswerPolicy, RunOutput),
    ) -> Self {
        let sessions = BTreeSet::from([session.clone()]);
        Self {
            app,
            engine,
            runner,
            session: session.clone(),
            policy,
            output,
            asked: VecDeque::new(),
            question: None,
            report: RunReport { sessions, ..RunReport::default() },
        }
    }

    /// Follows the log from `cursor` until the session has nothing to do, or a second signal came.
    ///
    /// # Errors
    ///
    /// The output or the log cannot be used any more; the run goes on.
    pub(super) fn follow(
        mut self,
        ui: &mut Ui,
        signals: &mut Signals,
        mut cursor: LogCursor,
    ) -> Result<RunReport, CliError> {
        let (store, mut memo) = (self.engine.store(), FeedCache::default());
        loop {
            let came = u32::try_from(signals.pending().count()).unwrap_or(u32::MAX);
            if came > 0 && self.take_signal(ui, came)? {
                return Ok(self.report);
            }
            if self.question.is_some() {
                self.poll_question(ui)?;
                continue;
            }
            if let Some(request) = self.asked.pop_front() {
                self.take_request(ui, request)?;
                continue;
            }
            // Before the log is read: what the run wrote last is in it once it is over.
            let is_running = self.runner.is_running(&self.session);
            let mark = store.commit_watch().mark();
            let ctx = self.app.context();
            let page = store.read(&ctx, |r| r.feed().after(cursor, PAGE, &mut memo))?;
            cursor = page.next;
            if page.events.is_empty() {
                if !is_running {
                    self.interrupt(ui)?;
                    return Ok(self.report);
                }
                if let RunOutput::Terminal(events) = &mut self.output {
                    events.idle();
                }
                let _woken = store.commit_watch().wait(mark, IDLE_INTERVAL);
            }
            for event in &page.events {
                self.take_event(ui, event)?;
            }
        }
    }

    /// Asks the run to end at the first signal; true at the second.
    fn take_signal(&mut self, ui: &mut Ui, came: u32) -> Result<bool, CliError> {
        let was_asked = self.report.signals > 0;
        self.report.signals += came;
        self.interrupt(ui)?;
        if was_asked {
            return Ok(true);
        }
        ui.print_note("turnstone: the run is being ended; Ctrl-C again ends it at once");
        self.abort()?;
        Ok(false)
    }

    fn abort(&mut self) -> Result<(), CliError> {
        self.question = None;
        self.asked.clear();
        self.engine.turns().aborts().request(&self.app.context(), &self.session)?;
        Ok(())
    }

    fn interrupt(&mut self, ui: &mut Ui) -> Result<(), CliError> {
        match &mut self.output {
            RunOutput::Terminal(events) => events.interrupt(ui),
            RunOutput::Json(_) => Ok(()),
        }
    }

    fn take_event(&mut self, ui: &mut Ui, event: &FeedEvent) -> Result<(), CliError> {
        let Some(session) = &event.session else { return Ok(()) };
        if let FeedBody::Session(then) = &event.body
            && then.session.parent.as_ref().is_some_and(|it| self.report.sessions.contains(it))
        {
            self.report.sessions.insert(session.id.clone());
        }
        if !self.report.sessions.contains(&session.id) {
            return Ok(());
        }
        self.note(session, event);
        match &mut self.output {
            RunOutput::Terminal(events) => show_event(ui, events, event),
            RunOutput::Json(shows_reasoning) => {
                let is_own = session.id == self.session;
                let line = is_own.then(|| json_line(self.app, event, *shows_reasoning)).flatten();
                match line {
                    Some(line) => {
                        ui.print_line(&text::escape_json(&line))?;
                        ui.flush()
                    }
                    None => Ok(()),
                }
            }
        }
    }

    /// Keeps what an event says about the run as a whole.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the rest is only shown")]
    fn note(&mut self, session: &FeedSession, event: &FeedEvent) {
        match &event.body {
            FeedBody::Message(message) => {
                self.report.usage.take(message);
                if let MessageBody::Assistant(said) = &message.body
                    && session.id == self.session
                {
                    self.report.failure.clone_from(&said.error);
                }
            }
            FeedBody::RequestAsked(request) => self.asked.push_back((**request).clone()),
            FeedBody::RequestResolved { id, .. } => self.asked.retain(|request| request.id != *id),
            _ => {}
        }
    }

    /// Answers a request as the policy says, or begins to ask.
    fn take_request(&mut self, ui: &mut Ui, request: UserRequest) -> Result<(), CliError> {
        if self.report.signals > 0 {
            return Ok(());
        }
        let is_permission = matches!(request.id, RequestId::Permission(_));
        match self.policy {
            AnswerPolicy::Ask => {
                self.interrupt(ui)?;
                self.question = Some(OpenQuestion::new(request));
                self.show_question(ui);
                Ok(())
            }
            AnswerPolicy::AllowOnce if is_permission => {
                let decision = Decision::Permission(PermissionReply::Once, None);
                self.answer(ui, &request, &decision)
            }
            AnswerPolicy::AllowOnce | AnswerPolicy::Refuse => {
                self.report.refused.push(describe(&request));
                let decision = match is_permission {
                    true => Decision::Permission(PermissionReply::Reject, None),
                    false => Decision::Dismissed,
                };
                self.answer(ui, &request, &decision)
            }
        }
    }

    fn show_question(&self, ui: &mut Ui) {
        if let Some(question) = &self.question {
            question.lines().iter().for_each(|line| ui.print_note(line));
            ui.begin_question(&question.prompt());
        }
    }

    /// Takes a typed line, or notices that the request was answered elsewhere.
    fn poll_question(&mut self, ui: &mut Ui) -> Result<(), CliError> {
        let Some(mut question) = self.question.take() else { return Ok(()) };
        let typed = ui.poll_answer(IDLE_INTERVAL)?;
        let Some(line) = typed else {
            let permissions = self.engine.permissions();
            let state = permissions.request_state(&self.app.context(), &question.request.id)?;
            match state.is_pending() {
                true => self.question = Some(question),
                false => ui.print_note("\nanswered elsewhere"),
            }
            return Ok(());
        };
        match question.read(&line) {
            TypedAnswer::Decided(decision) => self.answer(ui, &question.request, &decision),
            TypedAnswer::More => {
                self.question = Some(question);
                self.show_question(ui);
                Ok(())
            }
            TypedAnswer::Unclear => {
                ui.begin_question(&question.prompt());
                self.question = Some(question);
                Ok(())
            }
        }
    }

    /// Stores an answer. One that the rules forbid is a refusal; if this caller may not answer at all, the run ends.
    fn answer(
        &mut self,
        ui: &mut Ui,
        request: &UserRequest,
        decision: &Decision,
    ) -> Result<(), CliError> {
        let ctx = self.app.context();
        let Err(error) = store_answer(self.engine, &ctx, request, decision) else { return Ok(()) };
        if !self.engine.permissions().request_state(&ctx, &request.id)?.is_pending() {
            return Ok(());
        }
        self.interrupt(ui)?;
        ui.print_note(&format!("turnstone: {}", text::sanitize_line(&error.to_string())));
        let refusal = Decision::Permission(PermissionReply::Reject, None);
        let refused = match self.app.role() {
            CallerRole::Person => store_answer(self.engine, &ctx, request, &refusal).is_ok(),
            CallerRole::Tool | CallerRole::Runner | CallerRole::Named => false,
        };
        if refused { Ok(()) } else { self.abort() }
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the rest is not shown")]
fn show_event(ui: &mut Ui, events: &mut TerminalEvents, event: &FeedEvent) -> Result<(), CliError> {
    match &event.body {
        FeedBody::Message(message) => {
            events.message(message);
            Ok(())
        }
        FeedBody::Part(part) => events.part(ui, part),
        FeedBody::PartDelta { part, text, .. } => events.delta(ui, part, text),
        FeedBody::PartRemoved { part, .. } => events.removed(ui, part),
        FeedBody::Status(status) => events.status(ui, status, event.time),
        _ => Ok(()),
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the rest has no line")]
fn json_line(app: &CliApp, event: &FeedEvent, shows_reasoning: bool) -> Option<String> {
    let session = &event.session.as_ref()?.id;
    let line = match &event.body {
        FeedBody::Part(part) => {
            let (kind, part) = part_event(part, shows_reasoning)?;
            part_line(kind, part, session, app.now())
        }
        FeedBody::Turn { error: Some(error), .. } => failure_line(error, session, app.now()),
        _ => return None,
    };
    Some(turnstone_core::lone_surrogates::encode_json(&line.to_string()).into_owned())
}

fn describe(request: &UserRequest) -> String {
    match &request.body {
        RequestBody::Permission(ask) => {
            text::sanitize_line(&format!("{} {}", ask.permission, ask.patterns.join(", ")))
        }
        RequestBody::Question(_) => "a question".to_owned(),
    }
}
