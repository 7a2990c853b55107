//! `turnstone db`: path, size, backup and compaction of the database.

use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use clap::Subcommand;
use serde_json::{Value, json};
use turnstone_store::{Context, DatabaseSizes, MaintenanceBudget, Store};

use crate::app::CliApp;
use crate::error::CliError;
use crate::exit_code::ProgramExit;
use crate::number_format;
use crate::time_format;
use crate::ui::{ColumnKind, TextTable, Ui};

/// Commands about the database.
#[derive(Debug, Subcommand)]
pub(crate) enum DbCommand {
    /// Print the path of the database
    #[command(after_help = "Example:\n  sqlite3 -readonly \"$(turnstone db path)\" .tables")]
    Path,
    Size(SizeArgs),
    Backup(BackupArgs),
    /// Free the space of data that is no longer needed
    ///
    /// Removes the remains of deleted sessions, superseded events and unused values, and shrinks the
    /// file. Existing sessions do not change.
    #[command(after_help = "Example:\n  turnstone db compact")]
    Compact,
}

/// Show the disk usage of the database
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  turnstone db size --sessions 10")]
pub(crate) struct SizeArgs {
    /// Show the N largest sessions
    #[arg(long, value_name = "N", default_value_t = 5)]
    sessions: usize,
}

/// Copy the database into a new data directory
///
/// The copy is consistent even while other processes write, and it is verified. Use it with --data DIR.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  turnstone db backup /mnt/stick/turnstone")]
pub(crate) struct BackupArgs {
    /// Directory to create [default: a new one in backup/ of the data directory]
    #[arg(value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    target: Option<PathBuf>,
}

/// Runs a command about the database.
///
/// # Errors
///
/// The error of the command.
pub(crate) fn run(ui: &mut Ui, app: &CliApp, command: &DbCommand) -> Result<ProgramExit, CliError> {
    match command {
        DbCommand::Path => print_path(ui, app),
        DbCommand::Size(args) => print_sizes(ui, app, args),
        DbCommand::Backup(args) => backup(ui, app, args),
        DbCommand::Compact => compact(ui, app),
    }
}

fn print_path(ui: &mut Ui, app: &CliApp) -> Result<ProgramExit, CliError> {
    let file = app.layout().database();
    if ui.wants_json() {
        ui.print_json(&json!({ "path": file }))?;
    } else {
        ui.print_bytes(file.as_os_str().as_bytes())?;
        ui.print_line("")?;
    }
    Ok(ProgramExit::Ok)
}

fn print_sizes(ui: &mut Ui, app: &CliApp, args: &SizeArgs) -> Result<ProgramExit, CliError> {
    let (store, ctx) = (app.open_store()?, app.context());
    let sizes = store.maintenance().measure_sizes(&ctx, args.sessions)?;
    if ui.wants_json() {
        ui.print_json(&sizes_json(&sizes))?;
        return Ok(ProgramExit::Ok);
    }
    let total = sizes.database + sizes.wal + sizes.blob_files + sizes.backups;
    let mut grid = TextTable::new(&[("", ColumnKind::Text), ("", ColumnKind::Number)]);
    for (name, bytes) in [
        ("database", sizes.database),
        ("  event log", sizes.log),
        ("  text", sizes.text),
        ("  values", sizes.blobs),
        ("  tables", sizes.projections),
        ("  search index", sizes.search),
        ("  other", sizes.other),
        ("  free pages", sizes.free),
        ("write-ahead log", sizes.wal),
        ("large values (blob/)", sizes.blob_files),
        ("backups (backup/)", sizes.backups),
        ("total", total),
    ] {
        grid.add_row(&[name.to_owned(), number_format::format_size(bytes)]);
    }
    ui.print_table(&grid)?;
    print_largest_sessions(ui, &store, &ctx, &sizes)?;
    for consumer in sizes.consumers.iter().filter(|consumer| consumer.bytes > 0) {
        let left = number_format::format_size(consumer.bytes);
        ui.print_dim_note(&format!("{} still has to read {left} of the log", consumer.name));
    }
    if sizes.free > sizes.database / 4 {
        ui.print_hint("`turnstone db compact` returns the free pages to the file system");
    }
    Ok(ProgramExit::Ok)
}

fn print_largest_sessions(
    ui: &mut Ui,
    store: &Store,
    ctx: &Context,
    sizes: &DatabaseSizes,
) -> Result<(), CliError> {
    if sizes.sessions.is_empty() {
        return Ok(());
    }
    let columns = [
        ("LARGEST SESSIONS", ColumnKind::Text),
        ("SIZE", ColumnKind::Number),
        ("TITLE", ColumnKind::Truncated),
    ];
    let mut grid = TextTable::new(&columns);
    for session in &sizes.sessions {
        let found = store.read(ctx, |r| r.sessions().find(&session.session))?;
        let title = found.map_or_else(|| "(deleted)".to_owned(), |session| session.title);
        grid.add_row(&[
            session.session.to_string(),
            number_format::format_size(session.bytes),
            title,
        ]);
    }
    ui.print_line("")?;
    ui.print_table(&grid)
}

fn sizes_json(sizes: &DatabaseSizes) -> Value {
    let kind = |kind: &turnstone_store::EventKindSize| {
        json!({
            "kind": kind.kind.name(),
            "rows": kind.rows,
            "stubs": kind.stubs,
            "bytes": kind.bytes,
        })
    };
    let session = |session: &turnstone_store::SessionSize| json!({ "id": session.session, "bytes": session.bytes });
    let consumer = |consumer: &turnstone_store::ConsumerBacklog| json!({ "name": consumer.name, "bytes": consumer.bytes, "resync": consumer.resync });
    json!({
        "database": sizes.database,
        "wal": sizes.wal,
        "free": sizes.free,
        "log": sizes.log,
        "text": sizes.text,
        "blobs": sizes.blobs,
        "blob_files": sizes.blob_files,
        "projections": sizes.projections,
        "search": sizes.search,
        "other": sizes.other,
        "backups": sizes.backups,
        "kinds": sizes.kinds.iter().map(kind).collect::<Vec<_>>(),
        "sessions": sizes.sessions.iter().map(session).collect::<Vec<_>>(),
        "consumers": sizes.consumers.iter().map(consumer).collect::<Vec<_>>(),
    })
}

fn backup(ui: &mut Ui, app: &CliApp, args: &BackupArgs) -> Result<ProgramExit, CliError> {
    let (store, ctx) = (app.open_store()?, app.context());
    let default_target =
        || app.layout().backups().join(time_format::format_file_timestamp(app.now()));
    let target = args.target.clone().unwrap_or_else(default_target);
    let done = store.maintenance().back_up(&ctx, &target)?;
    if ui.wants_json() {
        ui.print_json(&json!({
            "path": done.path,
            "bytes": done.bytes,
            "events": done.events,
            "values": done.values,
            "value_bytes": done.value_bytes,
            "missing": done.missing,
        }))?;
    } else {
        ui.print_bytes(done.path.as_os_str().as_bytes())?;
        ui.print_line("")?;
        let size = number_format::format_size(done.bytes + done.value_bytes);
        ui.print_note(&format!(
            "copied {}, {size}; the copy is verified",
            number_format::format_counted(done.events, "event")
        ));
    }
    if done.missing.is_empty() {
        return Ok(ProgramExit::Ok);
    }
    let missing = number_format::format_counted(done.missing.len(), "large value");
    Err(CliError::Refused {
        what: format!("{missing} could not be copied: missing or damaged in the data directory"),
        hint: Some("run `turnstone doctor`".to_owned()),
    })
}

fn compact(ui: &mut Ui, app: &CliApp) -> Result<ProgramExit, CliError> {
    let (engine, ctx) = (app.open_engine()?, app.context());
    let store = engine.store();
    let before = store.maintenance().measure_sizes(&ctx, 0)?;
    engine.maintenance().session_eraser().finish_deletions(&ctx)?;
    let done = store.maintenance().run(&ctx, MaintenanceBudget::unlimited())?;
    if done.finished {
        store.maintenance().record_run(ctx.now)?;
    }
    let after = store.maintenance().measure_sizes(&ctx, 0)?;
    let all = |sizes: &DatabaseSizes| sizes.database + sizes.wal + sizes.blob_files;
    let (before, after) = (all(&before), all(&after));
    if ui.wants_json() {
        ui.print_json(&json!({
            "before": before,
            "after": after,
            "compacted": done.compacted,
            "freed_bytes": done.freed_bytes,
            "removed_files": done.removed_files,
            "finished": done.finished,
        }))?;
        return Ok(ProgramExit::Ok);
    }
    ui.print_note(&format!(
        "{} before, {} after",
        number_format::format_size(before),
        number_format::format_size(after)
    ));
    if !done.finished {
        ui.print_dim_note("not finished: other processes use the database; try again later");
    }
    Ok(ProgramExit::Ok)
}
