//! `turnstone permission`: lists, explains, answers, sets and revokes permissions.

use serde_json::json;
use turnstone_core::model::{PermissionAsk, PermissionReply, RequestBody, RequestId, UserRequest};
use turnstone_core::permission::{
    GateCaller, GatedOperation, PermissionRule, RuleAction, RuleExplanation, decide_gate,
};
use turnstone_core::redact::redact_text;
use turnstone_engine::{EffectiveRules, PermissionError, RuleScope};
use turnstone_store::WriteOutcome;

use super::todo::find_session_or_newest;
use crate::app::CliApp;
use crate::caller_check::require_person;
use crate::error::CliError;
use crate::exit_code::ProgramExit;
use crate::id_prefix::IdPrefix;
use crate::number_format;
use crate::project_flag;
use crate::project_location::ProjectLocation;
use crate::text;
use crate::ui::{ColumnKind, TextTable, Ui};

/// Subcommands of `permission`.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum PermissionCommand {
    /// List the permanent approvals of a project
    ///
    /// Does not list rules of `permission set`: `permission explain` shows those that match an action.
    #[command(after_help = "Example:\n  turnstone permission list")]
    List {
        /// Project ID or unique prefix [default: the project of this directory]
        #[arg(long, value_name = "ID")]
        project: Option<IdPrefix>,
    },
    /// Revoke a permanent approval
    #[command(after_help = "Example:\n  turnstone permission revoke bash \"git *\"")]
    Revoke {
        /// Permission, as `list` shows it
        permission: String,
        /// Pattern, as `list` shows it
        pattern: String,
        /// Project ID or unique prefix [default: the project of this directory]
        #[arg(long, value_name = "ID")]
        project: Option<IdPrefix>,
    },
    /// Show whether an action is allowed, and which rule decides
    ///
    /// Uses the rules of the newest session of this directory and of that session's parents. A `deny` in
    /// your own configuration is final. Otherwise the last of these sources with a matching rule decides:
    /// (1) built-in defaults, (2) built-in rules of the agent, (3) your configuration, (4) files of the
    /// project, (5) the agent's rules in your configuration, (6) the agent's rules in the files of the
    /// project, (7) stored project rules, (8) the session, (9) denials of parent sessions, (10) approvals.
    /// If no rule matches, you are asked. An agent that is neither built in nor configured has to ask for
    /// everything that is not denied, unless an approval allows it.
    ///
    /// For revert, worktree, start, delete, forget and checkpoint, the result depends on the caller: you, or
    /// a tool. Secrets in patterns are hidden.
    #[command(after_help = "Example:\n  turnstone permission explain bash \"rm -r build\"")]
    Explain {
        /// Permission, such as bash, edit or read
        permission: String,
        /// Command or path to check
        pattern: String,
        /// Session ID or unique prefix [default: the newest session of this directory]
        #[arg(long, value_name = "ID")]
        session: Option<IdPrefix>,
        /// Agent to check [default: the agent of the session's newest prompt]
        #[arg(long, value_name = "NAME")]
        agent: Option<String>,
    },
    /// List pending permission requests
    #[command(after_help = "Example:\n  turnstone permission pending")]
    Pending,
    /// Answer a permission request
    ///
    /// `once` allows this request only. `always` also stores a permanent approval for the project.
    /// `reject` denies this request and all other open requests of its session.
    #[command(after_help = "Example:\n  turnstone permission reply per_0197c2 always")]
    Reply {
        /// Request ID or unique prefix
        #[arg(value_name = "ID")]
        request: IdPrefix,
        /// Answer to give
        #[arg(value_enum)]
        answer: PermissionAnswer,
        /// Reason, passed on to the agent
        #[arg(long, value_name = "TEXT")]
        message: Option<String>,
    },
    /// Store a permission rule for a project
    #[command(after_help = "Example:\n  turnstone permission set bash \"rm *\" deny")]
    Set {
        /// Permission, such as bash, edit or revert
        permission: String,
        /// Command or path, with wildcards
        pattern: String,
        /// Action: allow, deny or ask
        #[arg(value_parser = action)]
        action: RuleAction,
        /// Project ID or unique prefix [default: the project of this directory]
        #[arg(long, value_name = "ID")]
        project: Option<IdPrefix>,
    },
    /// Remove a stored permission rule from a project
    #[command(after_help = "Example:\n  turnstone permission unset bash \"rm *\"")]
    Unset {
        /// Permission of the rule
        permission: String,
        /// Pattern of the rule
        pattern: String,
        /// Project ID or unique prefix [default: the project of this directory]
        #[arg(long, value_name = "ID")]
        project: Option<IdPrefix>,
    },
}

/// An answer to a request.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum PermissionAnswer {
    Once,
    Always,
    Reject,
}

fn action(word: &str) -> Result<RuleAction, String> {
    RuleAction::parse(word).ok_or_else(|| "use allow, deny or ask".to_owned())
}

/// Runs a subcommand.
///
/// # Errors
///
/// [`CliError::Refused`] if there is no such approval.
pub(crate) fn run(
    ui: &mut Ui,
    app: &CliApp,
    command: &PermissionCommand,
) -> Result<ProgramExit, CliError> {
    match command {
        PermissionCommand::List { project } => list(ui, app, project.as_ref()),
        PermissionCommand::Revoke { permission, pattern, project } => {
            revoke(ui, app, (permission, pattern), project.as_ref())
        }
        PermissionCommand::Explain { permission, pattern, session, agent } => {
            explain(ui, app, (permission, pattern), (session.as_ref(), agent.as_deref()))
        }
        PermissionCommand::Pending => pending(ui, app),
        PermissionCommand::Reply { request, answer, message } => {
            reply(ui, app, request.as_str(), *answer, message.as_deref())
        }
        PermissionCommand::Set { permission, pattern, action, project } => {
            set(ui, app, &PermissionRule::new(permission, pattern, *action), project.as_ref())
        }
        PermissionCommand::Unset { permission, pattern, project } => unset(
            ui,
            app,
            &PermissionRule::new(permission, pattern, RuleAction::Ask),
            project.as_ref(),
        ),
    }
}

fn list(ui: &mut Ui, app: &CliApp, project: Option<&IdPrefix>) -> Result<ProgramExit, CliError> {
    let (engine, ctx) = (app.open_engine()?, app.context());
    let store = engine.store();
    let project = project_flag::resolve_project_or_current(app, &engine, &ctx, project)?;
    let (rules, here) = store.read(&ctx, |r| {
        Ok((r.projects().approved_rules(&project)?, r.projects().find(&project)?))
    })?;
    if ui.wants_json() {
        ui.print_json(&json!(rules))?;
    } else if rules.is_empty() {
        ui.print_note("this project has no permanent approvals");
    } else {
        let mut grid = TextTable::new(&[
            ("PERMISSION", ColumnKind::Text),
            ("ACTION", ColumnKind::Text),
            ("PATTERN", ColumnKind::Truncated),
        ]);
        for rule in &rules {
            let action = rule.action.as_str().to_owned();
            grid.add_row(&[rule.permission.clone(), action, rule.pattern.clone()]);
        }
        ui.print_table(&grid)?;
    }
    let imported = here.map_or(0, |it| it.imported_approvals.len() + it.imported_permission.len());
    if imported > 0 && !ui.wants_json() {
        ui.print_note(&format!(
            "{} not in effect; `turnstone import --trust SOURCE` activates imported rules",
            number_format::format_counted(imported, "imported rule")
        ));
    }
    Ok(ProgramExit::Ok)
}

fn revoke(
    ui: &mut Ui,
    app: &CliApp,
    (permission, pattern): (&str, &str),
    project: Option<&IdPrefix>,
) -> Result<ProgramExit, CliError> {
    require_person(app, "revoke approvals")?;
    let (engine, ctx) = (app.open_engine()?, app.context());
    let store = engine.store();
    let project = project_flag::resolve_project_or_current(app, &engine, &ctx, project)?;
    let rule = PermissionRule::new(permission, pattern, RuleAction::Allow);
    let outcome =
        store.write(&ctx, move |tx| tx.projects().withdraw_rule(&project, &rule)).wait()?;
    if outcome == WriteOutcome::No {
        return Err(CliError::Refused {
            what: format!("{permission} {pattern:?} has no permanent approval in this project"),
            hint: Some("`turnstone permission list` shows the approvals".to_owned()),
        });
    }
    let label = text::sanitize_line(&format!("{permission} {pattern:?}"));
    if ui.wants_json() {
        ui.print_json(&json!({ "permission": permission, "pattern": pattern, "revoked": true }))?;
    } else {
        ui.print_note(&format!("revoked the approval of {label}"));
    }
    Ok(ProgramExit::Ok)
}

fn explain(
    ui: &mut Ui,
    app: &CliApp,
    (permission, pattern): (&str, &str),
    (session, agent): (Option<&IdPrefix>, Option<&str>),
) -> Result<ProgramExit, CliError> {
    let (engine, ctx) = (app.open_engine()?, app.context());
    let session = find_session_or_newest(app, &engine, &ctx, session)?;
    let rules = engine.permissions().rules();
    let rules = match &session {
        Some(id) => rules.resolve(&ctx, RuleScope::Session { session: id, agent })?,
        None => {
            let directory = app.directory()?;
            let roots = [ProjectLocation::find(&engine, &ctx, directory)?.root];
            rules.resolve(&ctx, RuleScope::Directory { directory, roots: &roots, agent })?
        }
    };
    if let Some(gate) = GatedOperation::parse(permission) {
        return explain_gate(ui, &rules, gate, pattern);
    }
    let names = match &session {
        Some(id) => engine.permissions().list_names(&ctx, id, (permission, pattern))?,
        None => vec![pattern.to_owned()],
    };
    let rules = rules.with_real_prefixes()?;
    let strictness = |name: &&String| match rules.explain(permission, name).action {
        RuleAction::Deny => 0,
        RuleAction::Ask => 1,
        RuleAction::Allow => 2,
    };
    let name = names.iter().min_by_key(strictness).map_or(pattern, String::as_str);
    let decision = without_secrets(rules.explain(permission, name));
    let each = rules.explain_each(permission, name);
    let each: Vec<RuleExplanation> = each.into_iter().map(without_secrets).collect();
    if ui.wants_json() {
        let mut value = json!(decision);
        value["layers"] = json!(each);
        if name != pattern {
            value["name"] = json!(name);
        }
        ui.print_json(&value)?;
        return Ok(ProgramExit::Ok);
    }
    ui.print_line(&explanation_line(&decision))?;
    if name != pattern {
        ui.print_note(&format!("decided for another name of it: {}", text::sanitize_line(name)));
    }
    for other in each.iter().rev().filter(|other| **other != decision) {
        ui.print_line(&format!("  overrides {}", explanation_line(other)))?;
    }
    Ok(ProgramExit::Ok)
}

/// Explains a gated operation for the user and for a tool.
fn explain_gate(
    ui: &mut Ui,
    rules: &EffectiveRules,
    gate: GatedOperation,
    pattern: &str,
) -> Result<ProgramExit, CliError> {
    let decide = |caller| without_secrets(decide_gate(gate, pattern, caller, &rules.layers()));
    let (you, tool) = (decide(GateCaller::Person), decide(GateCaller::Model));
    if ui.wants_json() {
        let mut value = json!(you);
        value["tool"] = json!(tool);
        ui.print_json(&value)?;
        return Ok(ProgramExit::Ok);
    }
    ui.print_line(&format!("you     {}", explanation_line(&you)))?;
    ui.print_line(&format!("a tool  {}", explanation_line(&tool)))?;
    Ok(ProgramExit::Ok)
}

/// Redacts the pattern: configuration files may contain tokens.
fn without_secrets(mut explanation: RuleExplanation) -> RuleExplanation {
    if let Some(rule) = &mut explanation.rule {
        rule.pattern = redact_text(&rule.pattern);
    }
    explanation
}

fn explanation_line(decision: &RuleExplanation) -> String {
    let line = match (&decision.rule, decision.source) {
        (Some(rule), Some(source)) => format!(
            "{}, by rule {} of {}{}: permission {}, pattern {:?}",
            decision.action.as_str(),
            decision.index.unwrap_or_default() + 1,
            source.as_str(),
            if decision.is_final { " (final)" } else { "" },
            rule.permission,
            rule.pattern,
        ),
        _ => format!("{}, because no rule matches", decision.action.as_str()),
    };
    text::sanitize_line(&line)
}

fn pending(ui: &mut Ui, app: &CliApp) -> Result<ProgramExit, CliError> {
    let (store, ctx) = (app.open_store()?, app.context());
    let waiting = store.read(&ctx, |r| r.requests().pending(None))?;
    let waiting: Vec<(UserRequest, PermissionAsk)> =
        waiting.into_iter().filter_map(permission_request).collect();
    if ui.wants_json() {
        ui.print_json(&json!(waiting.iter().map(|(request, _)| request).collect::<Vec<_>>()))?;
    } else if waiting.is_empty() {
        ui.print_note("no pending requests");
    } else {
        let mut grid = TextTable::new(&[
            ("ID", ColumnKind::Text),
            ("SESSION", ColumnKind::Text),
            ("PERMISSION", ColumnKind::Text),
            ("PATTERN", ColumnKind::Truncated),
        ]);
        for (request, ask) in waiting {
            let (id, session) = (request.id.to_string(), request.session.to_string());
            grid.add_row(&[id, session, ask.permission, ask.patterns.join(", ")]);
        }
        ui.print_table(&grid)?;
    }
    Ok(ProgramExit::Ok)
}

/// The request, if it asks for a permission.
fn permission_request(request: UserRequest) -> Option<(UserRequest, PermissionAsk)> {
    match &request.body {
        RequestBody::Permission(ask) => {
            let ask = ask.clone();
            Some((request, ask))
        }
        RequestBody::Question(_) => None,
    }
}

/// Allow what an agent waits for
///
/// The person's way to answer a request, short for `turnstone permission reply ID once`. It is refused to commands that
/// an agent runs. `turnstone permission pending` lists the requests; the ID of the only one can be omitted.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  turnstone approve\n  turnstone approve per_0197c2 --always")]
pub(crate) struct ApproveArgs {
    /// Request ID or unique prefix [default: the only pending request]
    #[arg(value_name = "ID")]
    request: Option<IdPrefix>,
    /// Allow the same in this project from now on
    #[arg(long)]
    always: bool,
}

/// Allows a request.
///
/// # Errors
///
/// An agent runs this, or the request is not pending.
pub(crate) fn approve(
    ui: &mut Ui,
    app: &CliApp,
    args: &ApproveArgs,
) -> Result<ProgramExit, CliError> {
    let answer = if args.always { PermissionAnswer::Always } else { PermissionAnswer::Once };
    // Every ID begins with nothing: without one, the only request is meant.
    reply(ui, app, args.request.as_ref().map_or("", IdPrefix::as_str), answer, None)
}

fn reply(
    ui: &mut Ui,
    app: &CliApp,
    typed: &str,
    answer: PermissionAnswer,
    message: Option<&str>,
) -> Result<ProgramExit, CliError> {
    require_person(app, "answer requests")?;
    let (engine, ctx) = (app.open_engine()?, app.context());
    let waiting =
        engine.permissions().pending(&ctx, None)?.into_iter().filter_map(permission_request);
    let found: Vec<_> =
        waiting.filter(|(request, _)| request.id.as_str().starts_with(typed)).collect();
    let refused = |what: String| CliError::Refused {
        what,
        hint: Some("`turnstone permission pending` lists the pending requests".to_owned()),
    };
    let [(request, _)] = found.as_slice() else {
        let count = if found.is_empty() { "no pending request" } else { "more than one request" };
        return Err(refused(format!("{count} matches \"{typed}\"")));
    };
    let RequestId::Permission(id) = &request.id else {
        return Err(refused(format!("{} is not a permission request", request.id)));
    };
    let answer = match answer {
        PermissionAnswer::Once => PermissionReply::Once,
        PermissionAnswer::Always => PermissionReply::Always,
        PermissionAnswer::Reject => PermissionReply::Reject,
    };
    let done =
        engine.permissions().reply(&ctx, id, answer, message).map_err(|error| match error {
            PermissionError::Engine(error) => error.into(),
            PermissionError::Reply(error) => refused(error.to_string()),
        })?;
    if ui.wants_json() {
        let resolved: Vec<String> = done.resolved.iter().map(ToString::to_string).collect();
        ui.print_json(&json!({ "granted": done.granted, "resolved": resolved }))?;
    } else {
        ui.print_note(&format!("answered {id}"));
    }
    Ok(ProgramExit::Ok)
}

fn set(
    ui: &mut Ui,
    app: &CliApp,
    rule: &PermissionRule,
    project: Option<&IdPrefix>,
) -> Result<ProgramExit, CliError> {
    require_person(app, "change rules")?;
    let (engine, ctx) = (app.open_engine()?, app.context());
    let project = project_flag::resolve_project_or_current(app, &engine, &ctx, project)?;
    engine.permissions().rules().set(&ctx, &project, rule)?;
    if ui.wants_json() {
        ui.print_json(&json!(rule))?;
    } else {
        let line = format!("{} {:?}: {}", rule.permission, rule.pattern, rule.action.as_str());
        ui.print_note(&text::sanitize_line(&line));
    }
    Ok(ProgramExit::Ok)
}

fn unset(
    ui: &mut Ui,
    app: &CliApp,
    rule: &PermissionRule,
    project: Option<&IdPrefix>,
) -> Result<ProgramExit, CliError> {
    require_person(app, "change rules")?;
    let (engine, ctx) = (app.open_engine()?, app.context());
    let project = project_flag::resolve_project_or_current(app, &engine, &ctx, project)?;
    let label = format!("{} {:?}", rule.permission, rule.pattern);
    if !engine.permissions().rules().unset(&ctx, &project, rule)? {
        return Err(CliError::Refused {
            what: format!("this project has no stored rule for {label}"),
            hint: Some(
                "`turnstone permission explain` shows the rules and their sources".to_owned(),
            ),
        });
    }
    if ui.wants_json() {
        ui.print_json(
            &json!({ "permission": rule.permission, "pattern": rule.pattern, "removed": true }),
        )?;
    } else {
        ui.print_note(&text::sanitize_line(&format!("removed the rule for {label}")));
    }
    Ok(ProgramExit::Ok)
}
