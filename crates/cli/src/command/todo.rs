//! `turnstone todo`: the to-do list of a session.

use serde_json::json;
use turnstone_core::id::SessionId;
use turnstone_core::model::{Extra, Todo};
use turnstone_store::{Context, SessionFilter, Store};

use crate::app::App;
use crate::error::CliError;
use crate::exit::Exit;
use crate::place::Place;
use crate::reference::Prefix;
use crate::text;
use crate::ui::{Column, Grid, NAME, Ui, paint};

/// Sessions looked at together.
const PAGE: usize = 100;

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
    session: Option<Prefix>,
}

/// What to do with the list.
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
/// [`CliError::Refused`] for a number that is not on the list.
pub(crate) fn run(ui: &mut Ui, app: &App, args: &TodoArgs) -> Result<Exit, CliError> {
    let (store, ctx) = (app.open()?, app.context());
    let id = match chosen(app, &store, &ctx, args.session.as_ref())? {
        Some(id) => id,
        None => return Err(no_session()),
    };
    let (todos, seq) = store.read(&ctx, |r| Ok((r.todos(&id)?, r.session_seq(&id)?)))?;
    let wanted = match &args.command {
        None | Some(TodoCommand::List) => None,
        Some(TodoCommand::Set { text }) => Some(replaced(&todos, text)),
        Some(TodoCommand::Done { number }) => Some(ticked(todos.clone(), number)?),
    };
    let todos = match wanted {
        None => todos,
        Some(wanted) => {
            let (name, written) = (id.clone(), wanted.clone());
            // Somebody who changed the list meanwhile is not written over.
            let write = store.write(&ctx.expecting(seq), move |tx| tx.set_todos(&name, &written));
            write.wait()?;
            wanted
        }
    };
    print(ui, &id, &todos)?;
    Ok(Exit::Ok)
}

/// The session of the flag, or the newest one of this directory.
///
/// # Errors
///
/// What [`Prefix::session`] answers.
pub(super) fn chosen(
    app: &App,
    store: &Store,
    ctx: &Context,
    wanted: Option<&Prefix>,
) -> Result<Option<SessionId>, CliError> {
    if let Some(prefix) = wanted {
        return prefix.session(store, ctx).map(Some);
    }
    let projects = store.read(ctx, |r| r.projects())?;
    let place = Place::find(&projects, app.directory()?);
    let filter = SessionFilter { roots: true, ..SessionFilter::default() };
    let mut cursor: Option<String> = None;
    loop {
        let page = store.read(ctx, |r| r.list_sessions(&filter, cursor.as_deref(), PAGE))?;
        let here = page.items.iter().find(|row| place.holds(&row.session));
        match (here, page.next) {
            (Some(row), _) => return Ok(Some(row.session.id.clone())),
            (None, Some(next)) => cursor = Some(next),
            (None, None) => return Ok(None),
        }
    }
}

pub(super) fn no_session() -> CliError {
    CliError::Refused {
        what: "there is no session in this directory".to_owned(),
        hint: Some("turnstone session list --all".to_owned()),
    }
}

/// The new list; an entry of the same words keeps its state.
fn replaced(before: &[Todo], texts: &[String]) -> Vec<Todo> {
    let entry = |text: &String| {
        let known = before.iter().find(|todo| todo.content == *text).cloned();
        known.unwrap_or_else(|| Todo {
            content: text.clone(),
            status: "pending".to_owned(),
            priority: "medium".to_owned(),
            extra: Extra::new(),
        })
    };
    texts.iter().map(entry).collect()
}

fn ticked(mut todos: Vec<Todo>, numbers: &[u32]) -> Result<Vec<Todo>, CliError> {
    for number in numbers {
        let at = usize::try_from(*number).ok().and_then(|number| number.checked_sub(1));
        let Some(todo) = at.and_then(|at| todos.get_mut(at)) else {
            return Err(CliError::Refused {
                what: format!("there is no entry {number} on the list"),
                hint: Some("turnstone todo list".to_owned()),
            });
        };
        "completed".clone_into(&mut todo.status);
    }
    Ok(todos)
}

fn print(ui: &mut Ui, id: &SessionId, todos: &[Todo]) -> Result<(), CliError> {
    if ui.wants_json() {
        return ui.json(&json!(todos));
    }
    if todos.is_empty() {
        ui.note(&format!("nothing to do in {}", paint(NAME, id)));
        return Ok(());
    }
    let mut grid = Grid::new(&[
        ("", Column::Figure),
        ("STATUS", Column::Text),
        ("PRIORITY", Column::Text),
        ("WHAT", Column::Cut),
    ]);
    for (index, todo) in todos.iter().enumerate() {
        let number = (index + 1).to_string();
        let words = [&todo.status, &todo.priority, &todo.content].map(|it| text::clean_line(it));
        let [status, priority, what] = words;
        grid.row(&[number, status, priority, what]);
    }
    ui.table(&grid)
}
