//! `turnstone permission`: what tools may do, why, and what is taken back.

use serde_json::json;
use turnstone_core::model::{PermissionAsk, PermissionReply, Request, RequestBody, RequestId};
use turnstone_core::permission::{Action, Caller, Explanation, Gate, Role, Rule, pass_gate};
use turnstone_core::redact::redact_text;
use turnstone_engine::{PermissionError, Rules};
use turnstone_store::Changed;

use super::todo::chosen;
use crate::app::App;
use crate::error::CliError;
use crate::exit::Exit;
use crate::place::Place;
use crate::reference::Prefix;
use crate::scope;
use crate::text;
use crate::ui::{Column, Grid, Ui};

/// What tools may do.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum PermissionCommand {
    /// List the permanent approvals of a project
    #[command(after_help = "Example:\n  turnstone permission list")]
    List {
        /// Project ID or unique prefix [default: the project of this directory]
        #[arg(long, value_name = "ID")]
        project: Option<Prefix>,
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
        project: Option<Prefix>,
    },
    /// Show whether an action is allowed, and which rule decides
    ///
    /// Uses the rules of the newest session of this directory and of its parents. A `deny` in your own
    /// configuration is final. Otherwise the last source with a matching rule decides, in this order:
    /// built-in defaults, agent, your configuration, files of the project, stored project rules,
    /// session, denials of parent sessions, approvals. For revert, worktree, start, delete, forget and
    /// checkpoint, the result depends on the caller: you, or a tool. Secrets in patterns are hidden.
    #[command(after_help = "Example:\n  turnstone permission explain bash \"rm -r build\"")]
    Explain {
        /// Permission, such as bash, edit or read
        permission: String,
        /// Command or path to check
        pattern: String,
        /// Session ID or unique prefix [default: the newest session of this directory]
        #[arg(long, value_name = "ID")]
        session: Option<Prefix>,
    },
    /// List the requests that wait for an answer
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
        request: Prefix,
        /// Answer to give
        #[arg(value_enum)]
        answer: Answer,
        /// Reason, shown to the requesting session
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
        action: Action,
        /// Project ID or unique prefix [default: the project of this directory]
        #[arg(long, value_name = "ID")]
        project: Option<Prefix>,
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
        project: Option<Prefix>,
    },
}

/// An answer to a request.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum Answer {
    Once,
    Always,
    Reject,
}

fn action(word: &str) -> Result<Action, String> {
    Action::parse(word).ok_or_else(|| "use allow, deny or ask".to_owned())
}

/// Lists, explains or takes back.
///
/// # Errors
///
/// [`CliError::Refused`] if there is no such approval.
pub(crate) fn run(ui: &mut Ui, app: &App, command: &PermissionCommand) -> Result<Exit, CliError> {
    match command {
        PermissionCommand::List { project } => list(ui, app, project.as_ref()),
        PermissionCommand::Revoke { permission, pattern, project } => {
            revoke(ui, app, (permission, pattern), project.as_ref())
        }
        PermissionCommand::Explain { permission, pattern, session } => {
            explain(ui, app, (permission, pattern), session.as_ref())
        }
        PermissionCommand::Pending => pending(ui, app),
        PermissionCommand::Reply { request, answer, message } => {
            reply(ui, app, request, *answer, message.as_deref())
        }
        PermissionCommand::Set { permission, pattern, action, project } => {
            set(ui, app, &Rule::new(permission, pattern, *action), project.as_ref())
        }
        PermissionCommand::Unset { permission, pattern, project } => {
            unset(ui, app, &Rule::new(permission, pattern, Action::Ask), project.as_ref())
        }
    }
}

fn list(ui: &mut Ui, app: &App, project: Option<&Prefix>) -> Result<Exit, CliError> {
    let (store, ctx) = (app.open()?, app.context());
    let project = scope::project(app, &store, &ctx, project)?;
    let (rules, here) =
        store.read(&ctx, |r| Ok((r.approvals(&project)?, r.find_project(&project)?)))?;
    if ui.wants_json() {
        ui.json(&json!(rules))?;
    } else if rules.is_empty() {
        ui.note("this project has no permanent approvals");
    } else {
        let mut grid = Grid::new(&[
            ("PERMISSION", Column::Text),
            ("ACTION", Column::Text),
            ("PATTERN", Column::Cut),
        ]);
        for rule in &rules {
            let action = rule.action.as_str().to_owned();
            grid.row(&[rule.permission.clone(), action, rule.pattern.clone()]);
        }
        ui.table(&grid)?;
    }
    let imported = here.map_or(0, |it| it.imported_approvals.len() + it.imported_permission.len());
    if imported > 0 && !ui.wants_json() {
        ui.note(&format!(
            "{imported} imported rules are not in effect; `turnstone import --trust SOURCE` activates them"
        ));
    }
    Ok(Exit::Ok)
}

fn revoke(
    ui: &mut Ui,
    app: &App,
    (permission, pattern): (&str, &str),
    project: Option<&Prefix>,
) -> Result<Exit, CliError> {
    by_a_person(app)?;
    let (store, ctx) = (app.open()?, app.context());
    let project = scope::project(app, &store, &ctx, project)?;
    let rule = Rule::new(permission, pattern, Action::Allow);
    let taken = store.write(&ctx, move |tx| tx.withdraw(&project, &rule)).wait()?;
    if taken == Changed::No {
        return Err(CliError::Refused {
            what: format!("{permission} {pattern:?} has no permanent approval in this project"),
            hint: Some("`turnstone permission list` shows the approvals".to_owned()),
        });
    }
    let words = text::clean_line(&format!("{permission} {pattern:?}"));
    if ui.wants_json() {
        ui.json(&json!({ "permission": permission, "pattern": pattern, "revoked": true }))?;
    } else {
        ui.note(&format!("revoked the approval of {words}; the other rules apply again"));
    }
    Ok(Exit::Ok)
}

fn explain(
    ui: &mut Ui,
    app: &App,
    (permission, pattern): (&str, &str),
    session: Option<&Prefix>,
) -> Result<Exit, CliError> {
    let (engine, ctx) = (app.engine()?, app.context());
    let session = chosen(app, engine.store(), &ctx, session)?;
    let rules = match &session {
        Some(id) => engine.rules_of(&ctx, id)?,
        None => {
            let (directory, projects) =
                (app.directory()?, engine.store().read(&ctx, |r| r.projects())?);
            let root = Place::find(&projects, directory).root;
            Rules::from(engine.rules_in(directory, &[root])?)
        }
    };
    if let Some(gate) = Gate::parse(permission) {
        return explain_gate(ui, &rules, gate, pattern);
    }
    let told = without_secrets(rules.explain(permission, pattern));
    let each = rules.explain_each(permission, pattern);
    let each: Vec<Explanation> = each.into_iter().map(without_secrets).collect();
    if ui.wants_json() {
        let mut value = json!(told);
        value["layers"] = json!(each);
        ui.json(&value)?;
        return Ok(Exit::Ok);
    }
    ui.line(&words(&told))?;
    for other in each.iter().rev().filter(|other| **other != told) {
        ui.line(&format!("  over {}", words(other)))?;
    }
    Ok(Exit::Ok)
}

/// Who may pass a gate unasked.
fn explain_gate(ui: &mut Ui, rules: &Rules, gate: Gate, pattern: &str) -> Result<Exit, CliError> {
    let told = |caller| without_secrets(pass_gate(gate, pattern, caller, &rules.layers()));
    let (you, tool) = (told(Caller::Person), told(Caller::Model));
    if ui.wants_json() {
        let mut value = json!(you);
        value["tool"] = json!(tool);
        ui.json(&value)?;
        return Ok(Exit::Ok);
    }
    ui.line(&words(&you))?;
    ui.line(&format!("  for a tool {}", words(&tool)))?;
    Ok(Exit::Ok)
}

/// Patterns come from configuration files, and people write tokens into them.
fn without_secrets(mut told: Explanation) -> Explanation {
    if let Some(rule) = &mut told.rule {
        rule.pattern = redact_text(&rule.pattern);
    }
    told
}

fn words(told: &Explanation) -> String {
    let line = match (&told.rule, told.source) {
        (Some(rule), Some(source)) => format!(
            "{}: {} {:?}, rule {} of: {}{}",
            told.action.as_str(),
            rule.permission,
            rule.pattern,
            told.index.unwrap_or_default() + 1,
            source.as_str(),
            if told.is_final { " (final)" } else { "" },
        ),
        _ => format!("{}: no rule matches", told.action.as_str()),
    };
    text::clean_line(&line)
}

fn pending(ui: &mut Ui, app: &App) -> Result<Exit, CliError> {
    let (store, ctx) = (app.open()?, app.context());
    let waiting = store.read(&ctx, |r| r.pending_requests(None))?;
    let waiting: Vec<(Request, PermissionAsk)> = waiting.into_iter().filter_map(asks).collect();
    if ui.wants_json() {
        ui.json(&json!(waiting.iter().map(|(request, _)| request).collect::<Vec<_>>()))?;
    } else if waiting.is_empty() {
        ui.note("no requests are pending");
    } else {
        let mut grid = Grid::new(&[
            ("ID", Column::Text),
            ("SESSION", Column::Text),
            ("PERMISSION", Column::Text),
            ("PATTERN", Column::Cut),
        ]);
        for (request, ask) in waiting {
            let (id, session) = (request.id.to_string(), request.session.to_string());
            grid.row(&[id, session, ask.permission, ask.patterns.join(", ")]);
        }
        ui.table(&grid)?;
    }
    Ok(Exit::Ok)
}

/// A request for a permission.
fn asks(request: Request) -> Option<(Request, PermissionAsk)> {
    match &request.body {
        RequestBody::Permission(ask) => {
            let ask = ask.clone();
            Some((request, ask))
        }
        RequestBody::Question(_) => None,
    }
}

fn reply(
    ui: &mut Ui,
    app: &App,
    typed: &Prefix,
    answer: Answer,
    message: Option<&str>,
) -> Result<Exit, CliError> {
    by_a_person(app)?;
    let (engine, ctx) = (app.engine()?, app.context());
    let waiting = engine.pending_requests(&ctx, None)?.into_iter().filter_map(asks);
    let found: Vec<_> =
        waiting.filter(|(request, _)| request.id.as_str().starts_with(typed.as_str())).collect();
    let refused = |what: String| CliError::Refused {
        what,
        hint: Some("`turnstone permission pending` lists the open requests".to_owned()),
    };
    let [(request, _)] = found.as_slice() else {
        let count = if found.is_empty() { "no request" } else { "more than one request" };
        return Err(refused(format!("{count} that waits begins with {}", typed.as_str())));
    };
    let RequestId::Permission(id) = &request.id else {
        return Err(refused(format!("{} is no request for a permission", request.id)));
    };
    let answer = match answer {
        Answer::Once => PermissionReply::Once,
        Answer::Always => PermissionReply::Always,
        Answer::Reject => PermissionReply::Reject,
    };
    let base = engine.base_rules(&ctx, &request.session)?;
    let done =
        engine.reply_permission(&ctx, id, answer, message, &base).map_err(|error| match error {
            PermissionError::Engine(error) => error.into(),
            PermissionError::Reply(error) => refused(error.to_string()),
        })?;
    if ui.wants_json() {
        let resolved: Vec<String> = done.resolved.iter().map(ToString::to_string).collect();
        ui.json(&json!({ "granted": done.granted, "resolved": resolved }))?;
    } else {
        ui.note(&format!("answered {id}"));
    }
    Ok(Exit::Ok)
}

fn set(ui: &mut Ui, app: &App, rule: &Rule, project: Option<&Prefix>) -> Result<Exit, CliError> {
    by_a_person(app)?;
    let (engine, ctx) = (app.engine()?, app.context());
    let project = scope::project(app, engine.store(), &ctx, project)?;
    engine.set_rule(&ctx, &project, rule)?;
    if ui.wants_json() {
        ui.json(&json!(rule))?;
    } else {
        let line = format!("{} {:?}: {}", rule.permission, rule.pattern, rule.action.as_str());
        ui.note(&text::clean_line(&line));
    }
    Ok(Exit::Ok)
}

fn unset(ui: &mut Ui, app: &App, rule: &Rule, project: Option<&Prefix>) -> Result<Exit, CliError> {
    by_a_person(app)?;
    let (engine, ctx) = (app.engine()?, app.context());
    let project = scope::project(app, engine.store(), &ctx, project)?;
    let words = format!("{} {:?}", rule.permission, rule.pattern);
    if !engine.unset_rule(&ctx, &project, rule)? {
        return Err(CliError::Refused {
            what: format!("this project has no stored rule for {words}"),
            hint: Some(
                "`turnstone permission explain` shows the rules and their sources".to_owned(),
            ),
        });
    }
    if ui.wants_json() {
        ui.json(
            &json!({ "permission": rule.permission, "pattern": rule.pattern, "removed": true }),
        )?;
    } else {
        ui.note(&text::clean_line(&format!("removed the rule for {words}")));
    }
    Ok(Exit::Ok)
}

/// Rules and answers are given by people: a tool could open its own gate with them (R37).
pub(crate) fn by_a_person(app: &App) -> Result<(), CliError> {
    match app.role() {
        Role::Person => Ok(()),
        Role::Tool | Role::Runner | Role::Named => Err(CliError::Refused {
            what: "only a person can do this, not a command that an agent runs".to_owned(),
            hint: Some("run it in your own terminal".to_owned()),
        }),
    }
}
