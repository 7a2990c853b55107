//! The command itself: chooses session, agent and model, stores the prompt, and follows the run.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Number;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use turnstone_agent::configuration::ConfiguredRunSettings;
use turnstone_agent::run::{
    AgentRunner, AgentRunnerOptions, CostLimitedSettings, RunObserver, RunSettings, SettingsFailure,
};
use turnstone_core::id::SessionId;
use turnstone_core::model::{
    ExtraFields, Message, MessageBody, Part, PartBody, Session, UserMessage, UserTime,
};
use turnstone_core::permission::CallerRole;
use turnstone_engine::{
    Engine, NewSession, Prompt, PromptDelivery, PromptOutcome, PromptRouting, PromptSubmission,
    Turn,
};
use turnstone_process::end_git_commands;
use turnstone_store::{Context, StoreError};

use super::agent_choice::{AnsweringAgent, choose_agent};
use super::prompt_parts::read_prompt;
use super::run_args::{RunArgs, RunFormat};
use super::run_follower::{AnswerPolicy, RunFollower, RunOutput};
use super::run_summary::finish_run;
use super::terminal_events::TerminalEvents;
use crate::agent_settings::agent_settings;
use crate::app::CliApp;
use crate::clock;
use crate::command::exec::find_parent_session;
use crate::error::CliError;
use crate::exit_code::ProgramExit;
use crate::project_location::ProjectLocation;
use crate::session_lookup;
use crate::ui::{DIM_STYLE, Ui, apply_style};

/// How long a title may take after everything else is done.
const TITLE_WAIT: Duration = Duration::from_secs(5);
/// How long the agent may take to end after the output was closed.
const STOP_GRACE: Duration = Duration::from_secs(5);

/// Nothing else takes prompts here.
struct RunAlone;

impl RunObserver for RunAlone {
    fn is_taken(&self, _: &Path) -> bool {
        false
    }

    fn turn_ended(&self, _: &SessionId) {}
}

/// Answers a prompt.
///
/// # Errors
///
/// The prompt could not be stored, or was not answered.
pub(crate) fn run(ui: &mut Ui, app: &CliApp, args: &RunArgs) -> Result<ProgramExit, CliError> {
    let parts = read_prompt(ui, app, args)?;
    let ctx = app.context();
    let (engine, recovered) = app.open_recovered_engine(&ctx)?;
    session_lookup::report_recovery(ui, 0, recovered);
    let engine = Arc::new(engine);
    let settings = Arc::new(agent_settings(app, &engine)?);
    let known = find_session(app, &engine, &ctx, args)?;
    let directory = match &known {
        Some(session) => PathBuf::from(&session.directory),
        None => app.directory()?.to_owned(),
    };
    let place = settings.load(&directory).map_err(|failure| settings_error(&failure))?;
    let recent = session_lookup::find_newest_session(app, &engine, &ctx)?;
    let chosen = choose_agent(&engine, &ctx, &place, (known.as_ref(), recent.as_ref()), args)?;
    // A model that cannot be used is an error before anything is stored.
    let agent = settings.agent(&directory, &chosen.agent);
    let agent = agent.map_err(|failure| settings_error(&failure))?;
    let model = settings.model(&directory, &chosen.model, &agent);
    drop(model.map_err(|failure| settings_error(&failure))?);
    let session = match known {
        Some(session) => session,
        None => create_session(app, &engine, &directory, args)?,
    };
    let runner = create_runner(app, &engine, settings, args);
    answer(ui, app, (&engine, &runner), args, (&session.id, &chosen, parts))
}

fn answer(
    ui: &mut Ui,
    app: &CliApp,
    (engine, runner): (&Arc<Engine>, &AgentRunner),
    args: &RunArgs,
    (session, chosen, parts): (&SessionId, &AnsweringAgent, Vec<PartBody>),
) -> Result<ProgramExit, CliError> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])
        .map_err(|source| CliError::File { what: "cannot handle signals".to_owned(), source })?;
    let ctx = app.context();
    let begun = engine.store().read(&ctx, |r| r.log().last_cursor())?;
    let turn = begin_turn(engine, &ctx, session, chosen, parts)?;
    let is_json = ui.wants_json() || args.format == RunFormat::Json;
    if !is_json {
        let (agent, model) = (&chosen.agent, &chosen.model);
        let line = format!("> {agent} · {}/{}", model.provider, model.model);
        ui.print_note(&apply_style(DIM_STYLE, crate::text::sanitize_line(&line)));
    }
    runner.run_begun(turn.clone());
    let output = match is_json {
        true => RunOutput::Json(args.thinking),
        false => RunOutput::Terminal(Box::new(TerminalEvents::new(ui, session, args.thinking))),
    };
    let policy = answer_policy(ui, app, args, is_json);
    let follower = RunFollower::new(app, (engine, runner), session, (policy, output));
    let followed = follower.follow(ui, &mut signals, begun);
    let report = match followed {
        Ok(report) => report,
        Err(error) => {
            runner.stop(STOP_GRACE);
            end_git_commands();
            return Err(error);
        }
    };
    if report.signals > 1 {
        end_git_commands();
        return Ok(ProgramExit::CommandCode(130));
    }
    if report.signals == 0 {
        runner.wait_for_titles(TITLE_WAIT);
    }
    let finished = finish_run(ui, (engine, &app.context()), &turn, begun, &report);
    app.run_maintenance(engine);
    end_git_commands();
    finished
}

fn create_runner(
    app: &CliApp,
    engine: &Arc<Engine>,
    settings: Arc<ConfiguredRunSettings>,
    args: &RunArgs,
) -> AgentRunner {
    let settings: Arc<dyn RunSettings> = match args.max_cost {
        Some(limit) => Arc::new(CostLimitedSettings::new(settings, limit)),
        None => settings,
    };
    AgentRunner::new(AgentRunnerOptions {
        engine: engine.clone(),
        settings,
        observer: Arc::new(RunAlone),
        data: app.layout().root().to_owned(),
        clock: clock::now,
    })
}

fn settings_error(failure: &SettingsFailure) -> CliError {
    let message = failure.data.get("message").and_then(serde_json::Value::as_str);
    CliError::Refused {
        what: message.unwrap_or("the configuration cannot be used").to_owned(),
        hint: None,
    }
}

/// The session to continue, if one is named or wanted.
fn find_session(
    app: &CliApp,
    engine: &Engine,
    ctx: &Context,
    args: &RunArgs,
) -> Result<Option<Session>, CliError> {
    if args.session.is_none() && !args.continues {
        return Ok(None);
    }
    let wanted = args.session.as_ref();
    let found = session_lookup::resolve_session_or_newest(app, engine, ctx, wanted)?;
    // The agent would work on files that the person does not see here, and `undo` would not find its turn.
    if !ProjectLocation::find(engine, ctx, app.directory()?)?.contains_session(&found) {
        return Err(CliError::Refused {
            what: format!("session {} belongs to {}", found.id, found.directory),
            hint: Some("change to that directory, then run the command again".to_owned()),
        });
    }
    Ok(Some(found))
}

fn create_session(
    app: &CliApp,
    engine: &Engine,
    directory: &Path,
    args: &RunArgs,
) -> Result<Session, CliError> {
    let ctx = &app.context();
    let parent = find_parent_session(app, engine, ctx)?;
    let new = NewSession { title: args.title.clone(), parent, ..NewSession::default() };
    Ok(engine.projects().create_session(ctx, directory, &new)?)
}

/// Stores the prompt and begins its turn in this process.
fn begin_turn(
    engine: &Engine,
    ctx: &Context,
    session: &SessionId,
    chosen: &AnsweringAgent,
    parts: Vec<PartBody>,
) -> Result<Turn, CliError> {
    let busy = || CliError::Store(StoreError::Busy(session.clone()));
    if engine.store().leases().is_held(ctx, session)? {
        return Err(busy());
    }
    let id = engine.turns().new_message_id(ctx, session)?;
    let user = UserMessage {
        time: UserTime { created: Number::from(ctx.now.0), extra: ExtraFields::new() },
        format: None,
        summary: None,
        agent: chosen.agent.clone(),
        model: chosen.model.clone(),
        system: None,
        tools: None,
        extra: ExtraFields::new(),
    };
    let mut stored = Vec::new();
    for body in parts {
        let (session, message) = (session.clone(), id.clone());
        stored.push(Part { id: engine.turns().new_part_id(ctx)?, session, message, body });
    }
    let message = Message { id, session: session.clone(), body: MessageBody::User(user) };
    let new = PromptSubmission {
        prompt: Prompt { message, parts: stored },
        rules: Vec::new(),
        routing: PromptRouting::RunHere(PromptDelivery::Queue),
    };
    match engine.turns().admit_prompt(ctx, &new)? {
        PromptOutcome::TurnBegun(turn) => Ok(turn),
        // Another process began a turn in between; the prompt waits in its inbox.
        PromptOutcome::Admitted(_) | PromptOutcome::StoredOnly => Err(busy()),
    }
}

/// Who answers: nobody without a terminal, and never the agent in whose process tree this runs.
fn answer_policy(ui: &Ui, app: &CliApp, args: &RunArgs, is_json: bool) -> AnswerPolicy {
    match app.role() {
        CallerRole::Person if args.auto => AnswerPolicy::AllowOnce,
        CallerRole::Person if ui.can_ask() && !is_json => AnswerPolicy::Ask,
        CallerRole::Person | CallerRole::Tool | CallerRole::Runner | CallerRole::Named => {
            AnswerPolicy::Refuse
        }
    }
}
