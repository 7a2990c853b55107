//! `turnstone snapshot du` and `gc`: disk usage and garbage collection.

use serde_json::{Value, json};
use turnstone_snapshot::{DiskUsageReport, GcOutcome, ListedStore, StoreRegistry};

use super::directory_store::DirectoryStore;
use super::list::to_json;
use crate::app::CliApp;
use crate::error::CliError;
use crate::exit_code::ProgramExit;
use crate::number_format;
use crate::text;
use crate::time_format;
use crate::ui::{ColumnKind, TextTable, Ui};

/// Show the disk usage of captures
///
/// Shows the store of this directory in detail, and one line for each other store.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  turnstone snapshot du --largest 10")]
pub(crate) struct DuArgs {
    /// Show the N paths that use the most space
    #[arg(long, value_name = "N", default_value_t = 5)]
    largest: usize,
}

/// Remove old captures and free their space
///
/// Captures are kept for `snapshot.keep_days` (default 7) days, and longer while a session needs them
/// for undo. The store of a deleted directory is removed after the same time. Runs automatically once a
/// day.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  turnstone snapshot gc --dry-run")]
pub(crate) struct GcArgs {
    /// Show what would be removed and exit
    #[arg(long)]
    dry_run: bool,
}

pub(super) fn print_disk_usage(
    ui: &mut Ui,
    app: &CliApp,
    args: &DuArgs,
) -> Result<ProgramExit, CliError> {
    let registry = StoreRegistry::new(app.layout().root());
    let stores = registry.list_stores().map_err(turnstone_snapshot::SnapshotError::from)?;
    let here = match DirectoryStore::open_current(ui, app) {
        Ok(store) => Some(store),
        // The other stores are still shown.
        Err(CliError::Snapshot(turnstone_snapshot::SnapshotError::Untracked(_))) => None,
        Err(error) => return Err(error),
    };
    let detail =
        here.as_ref().map(|store| store.handle.reader().disk_usage(args.largest)).transpose()?;
    if ui.wants_json() {
        let all: Vec<Value> = stores.iter().map(store_json).collect();
        ui.print_json(&json!({
            "root": here.as_ref().map(|store| store.root()),
            "here": detail.as_ref().map(to_json).transpose()?,
            "stores": all,
            "total": stores.iter().map(|store| store.bytes).sum::<u64>(),
        }))?;
        return Ok(ProgramExit::Ok);
    }
    if let (Some(store), Some(detail)) = (&here, &detail) {
        print_current_store(ui, app, store, detail)?;
        ui.print_line("")?;
    }
    print_stores(ui, app, &stores)?;
    if let Some(store) = here {
        store.finish_with_maintenance(app);
    }
    Ok(ProgramExit::Ok)
}

fn store_json(store: &ListedStore) -> Value {
    json!({
        "id": store.id,
        "root": store.root.as_ref().map(|root| &root.path),
        "root_exists": store.root_exists,
        "bytes": store.bytes,
        "used": store.used,
        "gone_since": store.gone_since,
    })
}

fn print_current_store(
    ui: &mut Ui,
    app: &CliApp,
    store: &DirectoryStore,
    detail: &DiskUsageReport,
) -> Result<(), CliError> {
    let usage = &detail.usage;
    let root = text::sanitize_line(&store.root().to_string_lossy());
    let packs = number_format::format_counted(usage.packs, "pack");
    ui.print_line(&format!(
        "{root}: {} in {packs}",
        number_format::format_size(usage.bytes + usage.loose)
    ))?;
    let mut grid = TextTable::new(&[
        ("PINNED BY", ColumnKind::Truncated),
        ("CAPTURES", ColumnKind::Number),
        ("UNIQUE", ColumnKind::Number),
        ("SHARED", ColumnKind::Number),
        ("NEWEST", ColumnKind::Text),
    ]);
    for group in &detail.groups {
        grid.add_row(&[
            group.group.clone(),
            number_format::format_count(group.captures),
            number_format::format_size(group.unique),
            number_format::format_size(group.shared),
            time_format::format_local_time(group.newest.0, app.now()),
        ]);
    }
    ui.print_table(&grid)?;
    if detail.unpinned > 0 {
        let free = number_format::format_size(detail.unpinned);
        ui.print_dim_note(&format!("{free} not pinned; `turnstone snapshot gc` frees this space"));
    }
    let last = usage.last_gc.map(|last| time_format::format_local_time(last.0, app.now()));
    ui.print_dim_note(&format!("last maintenance: {}", last.as_deref().unwrap_or("never")));
    if !detail.largest.is_empty() {
        ui.print_line("")?;
        let columns = [
            ("LARGEST PATHS", ColumnKind::Truncated),
            ("VERSIONS", ColumnKind::Number),
            ("SIZE", ColumnKind::Number),
        ];
        let mut grid = TextTable::new(&columns);
        for path in &detail.largest {
            let versions = number_format::format_count(path.versions);
            grid.add_row(&[
                path.path.to_string(),
                versions,
                number_format::format_size(path.bytes),
            ]);
        }
        ui.print_table(&grid)?;
    }
    Ok(())
}

fn print_stores(ui: &mut Ui, app: &CliApp, stores: &[ListedStore]) -> Result<(), CliError> {
    if stores.is_empty() {
        ui.print_note("no captures yet");
        return Ok(());
    }
    let columns = [
        ("DIRECTORY", ColumnKind::Truncated),
        ("SIZE", ColumnKind::Number),
        ("LAST USED", ColumnKind::Text),
    ];
    let mut grid = TextTable::new(&columns);
    for store in stores {
        let root = store.root.as_ref().map(|root| root.path.to_string_lossy().into_owned());
        let root = match (root, store.root_exists) {
            (Some(root), true) => root,
            (Some(root), false) => format!("{root} (deleted)"),
            (None, _) => format!("unknown ({})", store.id),
        };
        let used = store
            .used
            .map_or_else(|| "-".to_owned(), |at| time_format::format_local_time(at.0, app.now()));
        grid.add_row(&[root, number_format::format_size(store.bytes), used]);
    }
    let total = stores.iter().map(|store| store.bytes).sum();
    grid.add_row(&["total".to_owned(), number_format::format_size(total), String::new()]);
    ui.print_table(&grid)
}

pub(super) fn collect_garbage(
    ui: &mut Ui,
    app: &CliApp,
    args: &GcArgs,
) -> Result<ProgramExit, CliError> {
    let store = DirectoryStore::open_current(ui, app)?;
    let mut sweep = store.build_sweep(app, u64::MAX)?;
    sweep.dry_run = args.dry_run;
    let swept = store.handle.maintenance().collect_garbage(&sweep)?;
    let registry = StoreRegistry::new(app.layout().root());
    let gone = registry.remove_orphaned_stores(store.retention_millis(), app.now(), args.dry_run);
    let gone = gone.map_err(turnstone_snapshot::SnapshotError::from)?;
    if ui.wants_json() {
        let mut all = to_json(&swept)?;
        all["removed_stores"] = gone.iter().map(store_json).collect();
        all["dry_run"] = args.dry_run.into();
        ui.print_json(&all)?;
        return Ok(ProgramExit::Ok);
    }
    print_gc_result(ui, &swept, &gone, args.dry_run);
    Ok(ProgramExit::Ok)
}

fn print_gc_result(ui: &mut Ui, swept: &GcOutcome, gone: &[ListedStore], dry_run: bool) {
    let GcOutcome { expired, gc } = swept;
    let verb = if dry_run { "would remove" } else { "removed" };
    for group in &gc.dropped_groups {
        ui.print_note(&format!("{verb} the captures of {}", text::sanitize_line(group)));
    }
    if *expired > 0 {
        ui.print_note(&format!(
            "{verb} {}",
            number_format::format_counted(*expired, "old capture")
        ));
    }
    for store in gone {
        let root = store.root.as_ref().map(|root| root.path.to_string_lossy().into_owned());
        let root = text::sanitize_line(&root.unwrap_or_default());
        let size = number_format::format_size(store.bytes);
        ui.print_note(&format!("{verb} the store of the deleted directory {root} ({size})"));
    }
    if dry_run {
        let free = number_format::format_size(gc.dropped_bytes);
        match (*expired, gc.dropped_bytes) {
            (0, 0) => ui.print_note("nothing to remove"),
            (0, _) => ui.print_note(&format!("would free {free}")),
            _ => ui.print_note(&format!("would free at least {free}")),
        }
    } else {
        let (before, after) = (
            number_format::format_size(gc.bytes_before),
            number_format::format_size(gc.bytes_after),
        );
        ui.print_note(&format!("{before} before, {after} after"));
    }
}
