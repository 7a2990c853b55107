//! `turnstone permission`: what tools may do, why, and what is taken back.

use serde_json::json;
use turnstone_core::permission::{
    Action, BuiltinAgent, Directories, Rule, agent_rules, defaults, from_config,
};
use turnstone_engine::{BaseRules, Rules, newest_prompt, read_rules};
use turnstone_store::{Changed, Reader};

use super::todo::chosen;
use crate::app::App;
use crate::error::CliError;
use crate::exit::Exit;
use crate::reference::Prefix;
use crate::scope;
use crate::text;
use crate::ui::{Column, Grid, Ui};

/// What tools may do.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum PermissionCommand {
    /// List what was approved for good in a project
    List {
        /// The project: its id, or a beginning no other id has; without one, that of this directory
        #[arg(long, value_name = "ID")]
        project: Option<Prefix>,
    },
    /// Take an approval back
    #[command(after_help = "Example:\n  turnstone permission revoke bash \"git *\"")]
    Revoke {
        /// The permission, as `list` shows it
        permission: String,
        /// The pattern, as `list` shows it
        pattern: String,
        /// The project: its id, or a beginning no other id has; without one, that of this directory
        #[arg(long, value_name = "ID")]
        project: Option<Prefix>,
    },
    /// Say whether something is allowed, and which rule decides
    ///
    /// The rules of the newest session of this directory count, and those of its parents.
    #[command(after_help = "Example:\n  turnstone permission explain bash \"rm -r build\"")]
    Explain {
        /// The permission, such as bash, edit or read
        permission: String,
        /// What for: a command or a path
        pattern: String,
        /// The session: its id, or a beginning no other id has
        #[arg(long, value_name = "ID")]
        session: Option<Prefix>,
    },
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
    }
}

fn list(ui: &mut Ui, app: &App, project: Option<&Prefix>) -> Result<Exit, CliError> {
    let (store, ctx) = (app.open()?, app.context());
    let project = scope::project(app, &store, &ctx, project)?;
    let rules = store.read(&ctx, |r| r.approvals(&project))?;
    if ui.wants_json() {
        ui.json(&json!(rules))?;
    } else if rules.is_empty() {
        ui.note("nothing was approved for good in this project");
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
    Ok(Exit::Ok)
}

fn revoke(
    ui: &mut Ui,
    app: &App,
    (permission, pattern): (&str, &str),
    project: Option<&Prefix>,
) -> Result<Exit, CliError> {
    let (store, ctx) = (app.open()?, app.context());
    let project = scope::project(app, &store, &ctx, project)?;
    let rule = Rule::new(permission, pattern, Action::Allow);
    let taken = store.write(&ctx, move |tx| tx.withdraw(&project, &rule)).wait()?;
    if taken == Changed::No {
        return Err(CliError::Refused {
            what: format!("{permission} {pattern:?} was not approved in this project"),
            hint: Some("turnstone permission list".to_owned()),
        });
    }
    let words = text::clean_line(&format!("{permission} {pattern:?}"));
    if ui.wants_json() {
        ui.json(&json!({ "permission": permission, "pattern": pattern, "revoked": true }))?;
    } else {
        ui.note(&format!("{words} is asked about again, or decided by the other rules"));
    }
    Ok(Exit::Ok)
}

fn explain(
    ui: &mut Ui,
    app: &App,
    (permission, pattern): (&str, &str),
    session: Option<&Prefix>,
) -> Result<Exit, CliError> {
    let (store, ctx) = (app.open()?, app.context());
    let session = chosen(app, &store, &ctx, session)?;
    let setting = app.settings()?.permission;
    let user = match &setting {
        Some(setting) => from_config(setting, &home(app))
            .map_err(|error| CliError::Refused { what: error.to_string(), hint: None })?,
        None => Vec::new(),
    };
    let builtin = defaults(&Directories::default());
    let base = BaseRules { builtin, user, ..BaseRules::default() };
    let rules = match &session {
        None => Rules::from(base),
        Some(id) => store.read(&ctx, |r: &Reader<'_>| {
            let agent = match newest_prompt(r, id)? {
                Some(prompt) => Some(prompt.agent),
                None => r.get_session(id)?.agent,
            };
            let agent = agent.as_deref().and_then(BuiltinAgent::parse);
            let agent = agent.unwrap_or(BuiltinAgent::Build);
            let agent = agent_rules(agent, &Directories::default());
            read_rules(r, id, &BaseRules { agent, ..base })
        })?,
    };
    let told = rules.explain(permission, pattern);
    if ui.wants_json() {
        ui.json(&json!(told))?;
        return Ok(Exit::Ok);
    }
    let line = match (&told.rule, told.source) {
        (Some(rule), Some(source)) => format!(
            "{}: {} {:?}, rule {} of: {}",
            told.action.as_str(),
            rule.permission,
            rule.pattern,
            told.index.unwrap_or_default() + 1,
            source.as_str()
        ),
        _ => format!("{}: no rule is about it", told.action.as_str()),
    };
    ui.line(&text::clean_line(&line))?;
    Ok(Exit::Ok)
}

/// What `~` stands for in a rule.
fn home(app: &App) -> String {
    let home = app.git().home.as_deref().unwrap_or(std::path::Path::new("~"));
    home.to_string_lossy().into_owned()
}
