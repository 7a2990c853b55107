//! `turnstone session list`

use serde_json::Value;
use turnstone_core::id::ProjectId;
use turnstone_core::model::Session;
use turnstone_core::wire;
use turnstone_store::{Context, Reader, SessionFilter, SessionRow, Store, StoreError};

use crate::app::App;
use crate::error::CliError;
use crate::exit::Exit;
use crate::figure;
use crate::moment;
use crate::place::Place;
use crate::reference::Prefix;
use crate::scope;
use crate::text;
use crate::ui::{Column, Grid, Ui};

/// List sessions, newest change first
///
/// Shows the sessions of the checkout you are in; a line on stderr says how many there are
/// elsewhere. Archived sessions and those that other sessions started are left out unless asked
/// for.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  turnstone session list\n  \
                        turnstone session list --all --search tide\n  \
                        turnstone session list --json | jq -r '.[].id'")]
pub(crate) struct ListArgs {
    /// Of every project, wherever it is
    #[arg(long, short, conflicts_with = "project")]
    all: bool,

    /// Of the whole project you are in, or of the one with this id
    #[arg(long, value_name = "ID", num_args = 0..=1)]
    project: Option<Option<Prefix>>,

    /// Archived ones too
    #[arg(long)]
    archived: bool,

    /// Sessions that other sessions started, too
    #[arg(long)]
    children: bool,

    /// With these characters in the title
    #[arg(long, short, value_name = "TEXT")]
    search: Option<String>,

    /// At most this many
    #[arg(long, short = 'n', value_name = "N", default_value_t = 50)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,

    /// Go on where an earlier list ended
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
}

/// Which sessions are wanted.
enum Scope {
    Everywhere,
    Project(ProjectId),
    Here(Place),
}

impl Scope {
    fn holds(&self, session: &Session) -> bool {
        match self {
            Self::Everywhere => true,
            Self::Project(id) => session.project == *id,
            Self::Here(place) => place.holds(session),
        }
    }

    /// True if a session is of the same project although it is not in scope.
    fn is_near(&self, session: &Session) -> bool {
        match self {
            Self::Everywhere | Self::Project(_) => false,
            Self::Here(place) => place.shares_project(session),
        }
    }
}

/// A page of the list, and what is not on it.
#[derive(Default)]
struct Page {
    rows: Vec<SessionRow>,
    next: Option<String>,
    /// In the same project, but not in this checkout.
    near: usize,
    /// In other projects.
    far: usize,
}

pub(super) fn run(ui: &mut Ui, app: &App, args: &ListArgs) -> Result<Exit, CliError> {
    let (store, ctx) = (app.open()?, app.context());
    let scope = wanted(app, &store, &ctx, args)?;
    let filter = SessionFilter {
        roots: !args.children,
        search: args.search.clone(),
        archived: args.archived,
        ..SessionFilter::default()
    };
    let page = store.read(&ctx, |r| read_page(r, &scope, &filter, args))?;
    if ui.wants_json() {
        let info = |row: &SessionRow| wire::session_info(&row.session, row.usage);
        ui.json(&Value::Array(page.rows.iter().map(info).collect()))?;
    } else if page.rows.is_empty() {
        tell_none(ui, &scope, args);
    } else {
        print(ui, app, &scope, &page.rows)?;
    }
    tell_rest(ui, &scope, &page);
    Ok(Exit::Ok)
}

fn wanted(app: &App, store: &Store, ctx: &Context, args: &ListArgs) -> Result<Scope, CliError> {
    if args.all {
        return Ok(Scope::Everywhere);
    }
    if let Some(wanted) = &args.project {
        return Ok(Scope::Project(scope::project(app, store, ctx, wanted.as_ref())?));
    }
    let projects = store.read(ctx, |r| r.projects())?;
    Ok(Scope::Here(Place::find(&projects, app.directory()?)))
}

/// Reads the page, and on the first one counts what lies outside of the scope.
fn read_page(
    reader: &Reader<'_>,
    scope: &Scope,
    filter: &SessionFilter,
    args: &ListArgs,
) -> Result<Page, StoreError> {
    let cursor = args.cursor.as_deref();
    let limit = args.limit as usize;
    if let Scope::Everywhere = scope {
        let listed = reader.list_sessions(filter, cursor, limit)?;
        return Ok(Page { rows: listed.items, next: listed.next, ..Page::default() });
    }
    let all = reader.list_sessions(filter, cursor, usize::MAX - 1)?.items;
    let mut page = Page::default();
    let mut seen = 0;
    let mut more = false;
    for (index, row) in all.into_iter().enumerate() {
        match &row.session {
            session if !scope.holds(session) => {
                page.near += usize::from(scope.is_near(session));
                page.far += usize::from(!scope.is_near(session));
            }
            _ if page.rows.len() < limit => {
                page.rows.push(row);
                seen = index + 1;
            }
            _ => more = true,
        }
    }
    if more {
        page.next = reader.list_sessions(filter, cursor, seen)?.next;
    }
    if cursor.is_some() {
        (page.near, page.far) = (0, 0);
    }
    Ok(page)
}

/// Says that there is nothing to show.
fn tell_none(ui: &mut Ui, scope: &Scope, args: &ListArgs) {
    let place = match scope {
        Scope::Everywhere => String::new(),
        Scope::Project(id) => format!(" in project {id}"),
        Scope::Here(place) => format!(" in {}", text::clean_line(&place.root)),
    };
    let called = args.search.as_deref().map(|words| format!(" with {words:?} in the title"));
    ui.note(&format!("no sessions{place}{}", called.unwrap_or_default()));
}

fn print(ui: &mut Ui, app: &App, scope: &Scope, rows: &[SessionRow]) -> Result<(), CliError> {
    let now = app.now();
    let updated = |session: &Session| moment::near(moment::millis(&session.time.updated), now);
    let title = |session: &Session| match &session.time.archived {
        Some(_) => format!("{} (archived)", session.title),
        None => session.title.clone(),
    };
    if let Scope::Here(_) = scope {
        let columns = [("ID", Column::Text), ("UPDATED", Column::Text), ("TITLE", Column::Cut)];
        let mut grid = Grid::new(&columns);
        for SessionRow { session, .. } in rows {
            grid.row(&[session.id.to_string(), updated(session), title(session)]);
        }
        return ui.table(&grid);
    }
    let columns = [
        ("ID", Column::Text),
        ("UPDATED", Column::Text),
        ("TITLE", Column::Cut),
        ("DIRECTORY", Column::Cut),
    ];
    let mut grid = Grid::new(&columns);
    for SessionRow { session, .. } in rows {
        let directory = session.directory.clone();
        grid.row(&[session.id.to_string(), updated(session), title(session), directory]);
    }
    ui.table(&grid)
}

/// Says what is not on the page, and how to see it.
fn tell_rest(ui: &mut Ui, scope: &Scope, page: &Page) {
    if page.near > 0 {
        ui.aside(&format!("+ {} elsewhere in this project (--project)", figure::count(page.near)));
    }
    if page.far > 0 {
        let other = match scope {
            Scope::Here(Place { project: None, .. }) => "elsewhere",
            Scope::Here(_) | Scope::Project(_) | Scope::Everywhere => "in other projects",
        };
        ui.aside(&format!("+ {} {other} (--all)", figure::count(page.far)));
    }
    if let Some(cursor) = &page.next {
        ui.hint(&format!("there are more: repeat with `--cursor {cursor}`"));
    }
}
