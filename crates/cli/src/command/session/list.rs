//! `turnstone session list`

use serde_json::{Value, json};
use turnstone_core::id::ProjectId;
use turnstone_core::model::Session;
use turnstone_core::wire;
use turnstone_engine::Engine;
use turnstone_store::{Context, ReadTx, SessionFilter, SessionRow, StoreError};

use crate::app::CliApp;
use crate::error::CliError;
use crate::exit_code::ProgramExit;
use crate::id_prefix::IdPrefix;
use crate::number_format;
use crate::project_flag;
use crate::project_location::ProjectLocation;
use crate::text;
use crate::time_format;
use crate::ui::{ColumnKind, TextTable, Ui};

/// List sessions, most recently updated first
///
/// Shows the sessions of the current checkout, and on stderr how many there are elsewhere. Archived
/// sessions and child sessions are shown only on request.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  turnstone session list\n  \
                        turnstone session list --all --search tide\n  \
                        turnstone session list --actor ci-bot\n  \
                        turnstone session list --json | jq -r '.sessions[].id'")]
pub(crate) struct SessionListArgs {
    /// List the sessions of all projects
    #[arg(long, short, conflicts_with = "project")]
    all: bool,

    /// List the sessions of the whole current project, or of the project with this ID
    #[arg(long, value_name = "ID", num_args = 0..=1)]
    project: Option<Option<IdPrefix>>,

    /// Include archived sessions
    #[arg(long)]
    archived: bool,

    /// Include child sessions
    #[arg(long)]
    children: bool,

    /// List only sessions with this text in the title
    #[arg(long, short, value_name = "TEXT")]
    search: Option<String>,

    /// List only sessions that this actor created
    #[arg(long, value_name = "NAME")]
    actor: Option<String>,

    /// Maximum number of sessions
    #[arg(long, short = 'n', value_name = "N", default_value_t = 50)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,

    /// Continue from the cursor of a previous list
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
}

/// Which sessions to list.
enum SessionListScope {
    AllProjects,
    Project(ProjectId),
    Checkout(ProjectLocation),
}

impl SessionListScope {
    fn contains(&self, session: &Session) -> bool {
        match self {
            Self::AllProjects => true,
            Self::Project(id) => session.project == *id,
            Self::Checkout(place) => place.contains_session(session),
        }
    }

    /// True if a session is in the same project but not in scope.
    fn is_same_project(&self, session: &Session) -> bool {
        match self {
            Self::AllProjects | Self::Project(_) => false,
            Self::Checkout(place) => place.has_same_project(session),
        }
    }
}

/// A page of the list, with counts of sessions outside of it.
#[derive(Default)]
struct SessionListPage {
    rows: Vec<SessionRow>,
    next: Option<String>,
    /// In the same project, but not in this checkout.
    elsewhere_in_project: usize,
    /// In other projects.
    in_other_projects: usize,
}

pub(super) fn run(
    ui: &mut Ui,
    app: &CliApp,
    args: &SessionListArgs,
) -> Result<ProgramExit, CliError> {
    let (engine, ctx) = (app.open_engine()?, app.context());
    let store = engine.store();
    let scope = resolve_scope(app, &engine, &ctx, args)?;
    let filter = SessionFilter {
        roots: !args.children,
        search: args.search.clone(),
        archived: args.archived,
        actor: args.actor.clone(),
        ..SessionFilter::default()
    };
    let page = store.read(&ctx, |r| read_page(r, &scope, &filter, args))?;
    if ui.wants_json() {
        let info = |row: &SessionRow| wire::session_info(&row.session, row.usage);
        let sessions: Vec<Value> = page.rows.iter().map(info).collect();
        ui.print_json(&json!({ "sessions": sessions, "next_cursor": page.next }))?;
    } else if page.rows.is_empty() {
        print_empty(ui, &scope, args);
    } else {
        print_sessions(ui, app, &scope, &page.rows)?;
    }
    print_remaining(ui, &scope, &page);
    Ok(ProgramExit::Ok)
}

fn resolve_scope(
    app: &CliApp,
    engine: &Engine,
    ctx: &Context,
    args: &SessionListArgs,
) -> Result<SessionListScope, CliError> {
    if args.all {
        return Ok(SessionListScope::AllProjects);
    }
    if let Some(wanted) = &args.project {
        return Ok(SessionListScope::Project(project_flag::resolve_project_or_current(
            app,
            engine,
            ctx,
            wanted.as_ref(),
        )?));
    }
    let location = ProjectLocation::find(engine, ctx, app.directory()?)?;
    Ok(SessionListScope::Checkout(location))
}

/// Reads a page; on the first page, also counts the sessions outside of the scope.
fn read_page(
    reader: &ReadTx<'_>,
    scope: &SessionListScope,
    filter: &SessionFilter,
    args: &SessionListArgs,
) -> Result<SessionListPage, StoreError> {
    let cursor = args.cursor.as_deref();
    let limit = args.limit as usize;
    if let SessionListScope::AllProjects = scope {
        let listed = reader.sessions().list(filter, cursor, limit)?;
        return Ok(SessionListPage {
            rows: listed.items,
            next: listed.next,
            ..SessionListPage::default()
        });
    }
    let all = reader.sessions().list(filter, cursor, usize::MAX - 1)?.items;
    let mut page = SessionListPage::default();
    let mut seen = 0;
    let mut more = false;
    for (index, row) in all.into_iter().enumerate() {
        match &row.session {
            session if !scope.contains(session) => {
                page.elsewhere_in_project += usize::from(scope.is_same_project(session));
                page.in_other_projects += usize::from(!scope.is_same_project(session));
            }
            _ if page.rows.len() < limit => {
                page.rows.push(row);
                seen = index + 1;
            }
            _ => more = true,
        }
    }
    if more {
        page.next = reader.sessions().list(filter, cursor, seen)?.next;
    }
    if cursor.is_some() {
        (page.elsewhere_in_project, page.in_other_projects) = (0, 0);
    }
    Ok(page)
}

/// Reports an empty list.
fn print_empty(ui: &mut Ui, scope: &SessionListScope, args: &SessionListArgs) {
    let place = match scope {
        SessionListScope::AllProjects => String::new(),
        SessionListScope::Project(id) => format!(" in project {id}"),
        SessionListScope::Checkout(place) => format!(" in {}", text::sanitize_line(&place.root)),
    };
    let called = args.search.as_deref().map(|words| format!(" with {words:?} in the title"));
    ui.print_note(&format!("no sessions{place}{}", called.unwrap_or_default()));
}

fn print_sessions(
    ui: &mut Ui,
    app: &CliApp,
    scope: &SessionListScope,
    rows: &[SessionRow],
) -> Result<(), CliError> {
    let now = app.now();
    let updated = |session: &Session| {
        time_format::format_local_time(time_format::number_to_millis(&session.time.updated), now)
    };
    let title = |session: &Session| match &session.time.archived {
        Some(_) => format!("{} (archived)", session.title),
        None => session.title.clone(),
    };
    if let SessionListScope::Checkout(_) = scope {
        let columns = [
            ("ID", ColumnKind::Text),
            ("UPDATED", ColumnKind::Text),
            ("TITLE", ColumnKind::Truncated),
        ];
        let mut grid = TextTable::new(&columns);
        for SessionRow { session, .. } in rows {
            grid.add_row(&[session.id.to_string(), updated(session), title(session)]);
        }
        return ui.print_table(&grid);
    }
    let columns = [
        ("ID", ColumnKind::Text),
        ("UPDATED", ColumnKind::Text),
        ("TITLE", ColumnKind::Truncated),
        ("DIRECTORY", ColumnKind::Truncated),
    ];
    let mut grid = TextTable::new(&columns);
    for SessionRow { session, .. } in rows {
        let directory = session.directory.clone();
        grid.add_row(&[session.id.to_string(), updated(session), title(session), directory]);
    }
    ui.print_table(&grid)
}

/// Reports what is not on this page.
fn print_remaining(ui: &mut Ui, scope: &SessionListScope, page: &SessionListPage) {
    if page.elsewhere_in_project > 0 {
        ui.print_dim_note(&format!(
            "{} elsewhere in this project (--project)",
            number_format::format_counted(page.elsewhere_in_project, "more session")
        ));
    }
    if page.in_other_projects > 0 {
        let other = match scope {
            SessionListScope::Checkout(ProjectLocation { project: None, .. }) => "elsewhere",
            SessionListScope::Checkout(_)
            | SessionListScope::Project(_)
            | SessionListScope::AllProjects => "in other projects",
        };
        ui.print_dim_note(&format!(
            "{} {other} (--all)",
            number_format::format_counted(page.in_other_projects, "more session")
        ));
    }
    if let Some(cursor) = page.next.as_ref().filter(|_| !ui.wants_json()) {
        ui.print_hint(&format!("for more sessions, add `--cursor {cursor}`"));
    }
}
