//! `turnstone auth`: keys of providers.

use serde_json::{Value, json};
use turnstone_config::{
    AuthFile, ConfigSources, Configuration, KeySource, Secret, StoredKey, StoredKeyKind,
};

use crate::app::CliApp;
use crate::caller_check::require_person;
use crate::configuration::config_environment;
use crate::error::CliError;
use crate::exit_code::ProgramExit;
use crate::text;
use crate::ui::{ColumnKind, TextTable, Ui};

/// The longest key that is accepted.
const MAX_KEY_BYTES: usize = 16 << 10;

/// Subcommands of `auth`.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum AuthCommand {
    /// Store the key of a provider
    ///
    /// Asks for the key without showing it, or reads it from standard input if that is not a terminal.
    /// The key is stored in `auth.json` of the data directory, which only you can read. It is sent to
    /// the provider's address in the catalogue or in your own configuration, and nowhere else.
    #[command(after_help = "Examples:\n  turnstone auth set anthropic\n  \
        pass show anthropic | turnstone auth set anthropic")]
    Set {
        /// Provider, as `turnstone models --all` shows it
        provider: String,
    },
    /// List the providers with a key, and where it comes from
    ///
    /// The keys themselves are never shown.
    #[command(after_help = "Example:\n  turnstone auth list")]
    List,
    /// Remove the stored key of a provider
    #[command(after_help = "Example:\n  turnstone auth remove anthropic")]
    Remove {
        /// Provider, as `list` shows it
        provider: String,
    },
}

/// Runs a subcommand.
///
/// # Errors
///
/// The keys cannot be read or written, or an agent runs this program.
pub(crate) fn run(
    ui: &mut Ui,
    app: &CliApp,
    command: &AuthCommand,
) -> Result<ProgramExit, CliError> {
    match command {
        AuthCommand::Set { provider } => set(ui, app, provider),
        AuthCommand::List => list(ui, app),
        AuthCommand::Remove { provider } => remove(ui, app, provider),
    }
}

/// The user's own configuration: keys do not depend on a project.
fn user_configuration(app: &CliApp) -> Result<Configuration, CliError> {
    let environment = config_environment(app);
    Ok(Configuration::load(&ConfigSources { environment: &environment, project: None })?)
}

fn set(ui: &mut Ui, app: &CliApp, provider: &str) -> Result<ProgramExit, CliError> {
    require_person(app, "store keys")?;
    let refused = |what: &str, hint: &str| CliError::Refused {
        what: what.to_owned(),
        hint: Some(hint.to_owned()),
    };
    if provider.trim().is_empty() || provider.chars().any(|c| c.is_control() || c == '/') {
        return Err(refused("a provider is a name without slashes", "as in `anthropic`"));
    }
    let shown = text::sanitize_line(provider);
    let key = ui.read_secret(&format!("Key for {shown}: "), MAX_KEY_BYTES)?;
    let key = key.trim();
    if key.is_empty() {
        return Err(refused("the key is empty", "nothing was stored"));
    }
    if key.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err(refused("a key has no spaces or line breaks in it", "nothing was stored"));
    }
    AuthFile::store(app.layout().root(), provider, &Secret::new(key.to_owned()))?;
    ui.print_note(&format!("stored the key for {shown}"));
    let config = user_configuration(app)?;
    if !config.providers().iter().any(|known| known.id == provider) {
        ui.print_hint(&format!(
            "no provider is called {shown} yet; `turnstone models --all` lists them"
        ));
    }
    Ok(ProgramExit::Ok)
}

/// One line of the list: provider, kind of the key, and where it is.
struct ListedKey {
    provider: String,
    kind: &'static str,
    source: String,
    is_usable: bool,
}

fn list(ui: &mut Ui, app: &CliApp) -> Result<ProgramExit, CliError> {
    let auth = AuthFile::read(&config_environment(app))?;
    let mut listed: Vec<ListedKey> = auth.list().into_iter().map(stored_key).collect();
    for provider in user_configuration(app)?.providers() {
        let source = match &provider.key_source {
            Some(KeySource::Variable(name)) => name.clone(),
            Some(KeySource::Configuration) => "apiKey in your configuration".to_owned(),
            Some(KeySource::Stored) | None => continue,
        };
        let kind = match &provider.key_source {
            Some(KeySource::Variable(_)) => "variable",
            _ => "configured",
        };
        listed.push(ListedKey { provider: provider.id.clone(), kind, source, is_usable: true });
    }
    listed.sort_by(|a, b| a.provider.cmp(&b.provider));
    if ui.wants_json() {
        let key = |it: &ListedKey| json!({ "provider": it.provider, "kind": it.kind, "source": it.source, "usable": it.is_usable });
        ui.print_json(&Value::from(listed.iter().map(key).collect::<Vec<_>>()))?;
        return Ok(ProgramExit::Ok);
    }
    if listed.is_empty() {
        ui.print_note("no provider has a key");
        ui.print_hint("run `turnstone auth set PROVIDER`");
        return Ok(ProgramExit::Ok);
    }
    let columns = ["PROVIDER", "KIND", "SOURCE", ""];
    let mut grid = TextTable::new(&columns.map(|heading| (heading, ColumnKind::Text)));
    for it in listed {
        let note = if it.is_usable { "" } else { "cannot be used: only keys are supported" };
        grid.add_row(&[it.provider, it.kind.to_owned(), it.source, note.to_owned()]);
    }
    ui.print_table(&grid)?;
    Ok(ProgramExit::Ok)
}

fn stored_key(stored: &StoredKey) -> ListedKey {
    let kind = match stored.kind {
        StoredKeyKind::Api => "key",
        StoredKeyKind::OAuth => "sign-in",
        StoredKeyKind::WellKnown => "organisation",
    };
    ListedKey {
        provider: stored.provider.clone(),
        kind,
        source: stored.source.display().to_string(),
        is_usable: stored.kind == StoredKeyKind::Api,
    }
}

fn remove(ui: &mut Ui, app: &CliApp, provider: &str) -> Result<ProgramExit, CliError> {
    require_person(app, "remove keys")?;
    let shown = text::sanitize_line(provider);
    if !AuthFile::remove(app.layout().root(), provider)? {
        return Err(CliError::Refused {
            what: format!("no key is stored for {shown}"),
            hint: Some("`turnstone auth list` shows the keys and where they are".to_owned()),
        });
    }
    ui.print_note(&format!("removed the key for {shown}"));
    Ok(ProgramExit::Ok)
}
