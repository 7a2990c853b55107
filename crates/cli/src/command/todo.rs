//! `turnstone todo`: the to-do list of a session.

use serde_json::json;
use turnstone_core::id::SessionId;
use turnstone_core::model::{ExtraFields, Todo};
use turnstone_engine::Engine;
use turnstone_store::Context;

use crate::app::CliApp;
use crate::error::CliError;
use crate::exit_code::ProgramExit;
use crate::id_prefix::IdPrefix;
use crate::session_lookup;
use crate::text;
use crate::ui::{ColumnKind, ID_STYLE, TextTable, Ui, apply_style};

/// Show or change the to-do list of a session
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  turnstone todo\n  turnstone todo set \"read the tide table\" \
                        \"fix the sum\"\n  turnstone todo done 1 2"
)]
pub(crate) struct TodoArgs {
    #[command(subcommand)]
    command: Option<TodoCommand>,

    /// Session ID or unique prefix [default: the newest session of this directory]
    #[arg(long, value_name = "ID", global = true)]
    session: Option<IdPrefix>,
}

/// Subcommands of `todo`.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum TodoCommand {
    /// Show the to-do list
    #[command(after_help = "Example:\n  turnstone todo list")]
    List,
    /// Replace the to-do list; entries that stay keep their state
    #[command(after_help = "Example:\n  turnstone todo set \"fix the sum\"")]
    Set {
        /// Text of each entry
        text: Vec<String>,
    },
    /// Mark entries as done
    #[command(after_help = "Example:\n  turnstone todo done 1 2")]
    Done {
        /// Numbers of the entries, as `list` shows them
        #[arg(required = true, value_name = "NUMBER")]
        #[arg(value_parser = clap::value_parser!(u32).range(1..))]
        number: Vec<u32>,
    },
}

/// Shows or changes the list.
///
/// # Errors
///
/// [`CliError::Refused`] if the list has no such entry.
pub(crate) fn run(ui: &mut Ui, app: &CliApp, args: &TodoArgs) -> Result<ProgramExit, CliError> {
    let (engine, ctx) = (app.open_engine()?, app.context());
    let id = match find_session_or_newest(app, &engine, &ctx, args.session.as_ref())? {
        Some(id) => id,
        None => return Err(session_lookup::no_session_error(app, &engine, &ctx)),
    };
    let store = engine.store();
    let (todos, seq) =
        store.read(&ctx, |r| Ok((r.sessions().todos(&id)?, r.sessions().seq(&id)?)))?;
    let wanted = match &args.command {
        None | Some(TodoCommand::List) => None,
        Some(TodoCommand::Set { text }) => Some(replace_entries(&todos, text)),
        Some(TodoCommand::Done { number }) => Some(complete_entries(todos.clone(), number)?),
    };
    let todos = match wanted {
        None => todos,
        Some(wanted) => {
            let (name, written) = (id.clone(), wanted.clone());
            // Fails if another process has changed the session since it was read.
            let write = store.write(&ctx.with_expected_seq(seq), move |tx| {
                tx.sessions().set_todos(&name, &written)
            });
            write.wait()?;
            wanted
        }
    };
    print_todos(ui, &id, &todos)?;
    Ok(ProgramExit::Ok)
}

/// The given session, or the newest of this directory.
///
/// # Errors
///
/// As [`IdPrefix::resolve_session`].
pub(super) fn find_session_or_newest(
    app: &CliApp,
    engine: &Engine,
    ctx: &Context,
    wanted: Option<&IdPrefix>,
) -> Result<Option<SessionId>, CliError> {
    if let Some(prefix) = wanted {
        return prefix.resolve_session(engine.store(), ctx).map(Some);
    }
    Ok(session_lookup::find_newest_session(app, engine, ctx)?.map(|session| session.id))
}

/// The new list; an entry with the same text keeps its state.
fn replace_entries(before: &[Todo], texts: &[String]) -> Vec<Todo> {
    let entry = |text: &String| {
        let known = before.iter().find(|todo| todo.content == *text).cloned();
        known.unwrap_or_else(|| Todo {
            content: text.clone(),
            status: "pending".to_owned(),
            priority: "medium".to_owned(),
            extra: ExtraFields::new(),
        })
    };
    texts.iter().map(entry).collect()
}

fn complete_entries(mut todos: Vec<Todo>, numbers: &[u32]) -> Result<Vec<Todo>, CliError> {
    for number in numbers {
        let at = usize::try_from(*number).ok().and_then(|number| number.checked_sub(1));
        let Some(todo) = at.and_then(|at| todos.get_mut(at)) else {
            return Err(CliError::Refused {
                what: format!("the to-do list has no entry {number}"),
                hint: Some("`turnstone todo list` shows the entries".to_owned()),
            });
        };
        "completed".clone_into(&mut todo.status);
    }
    Ok(todos)
}

fn print_todos(ui: &mut Ui, id: &SessionId, todos: &[Todo]) -> Result<(), CliError> {
    if ui.wants_json() {
        return ui.print_json(&json!(todos));
    }
    if todos.is_empty() {
        ui.print_note(&format!("the to-do list of session {} is empty", apply_style(ID_STYLE, id)));
        return Ok(());
    }
    let mut grid = TextTable::new(&[
        ("", ColumnKind::Number),
        ("STATUS", ColumnKind::Text),
        ("PRIORITY", ColumnKind::Text),
        ("WHAT", ColumnKind::Truncated),
    ]);
    for (index, todo) in todos.iter().enumerate() {
        let number = (index + 1).to_string();
        let words = [&todo.status, &todo.priority, &todo.content].map(|it| text::sanitize_line(it));
        let [status, priority, what] = words;
        grid.add_row(&[number, status, priority, what]);
    }
    ui.print_table(&grid)
}
