//! `turnstone snapshot du` and `gc`: what takes space, and giving it back.

use serde_json::{Value, json};
use turnstone_snapshot::{DiskUse, ListedStore, Registry, Swept};

use super::history::value;
use super::site::Site;
use crate::app::App;
use crate::error::CliError;
use crate::exit::Exit;
use crate::figure;
use crate::moment;
use crate::text;
use crate::ui::{Column, Grid, Ui};

/// Say what the captures take
///
/// Shows this directory's store in detail and every other one on a line.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  turnstone snapshot du --largest 10")]
pub(crate) struct DuArgs {
    /// Show the N paths whose versions take most
    #[arg(long, value_name = "N", default_value_t = 5)]
    largest: usize,
}

/// Give back the space of captures that are too old
///
/// Captures are kept for `snapshot.keep_days` (7); what sessions pin stays whatever its age. A
/// store whose directory is gone is removed after the same time. Runs by itself once a day.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  turnstone snapshot gc --dry-run")]
pub(crate) struct GcArgs {
    /// Print what would go, and stop
    #[arg(long)]
    dry_run: bool,
}

pub(super) fn du(ui: &mut Ui, app: &App, args: &DuArgs) -> Result<Exit, CliError> {
    let registry = Registry::new(app.layout().root());
    let stores = registry.list().map_err(turnstone_snapshot::VaultError::from)?;
    let here = match Site::here(ui, app) {
        Ok(site) => Some(site),
        // The other stores are worth a look all the same.
        Err(CliError::Snapshot(turnstone_snapshot::VaultError::Untracked(_))) => None,
        Err(error) => return Err(error),
    };
    let detail = here.as_ref().map(|site| site.vault.disk_use(args.largest)).transpose()?;
    if ui.wants_json() {
        let all: Vec<Value> = stores.iter().map(store_json).collect();
        ui.json(&json!({
            "root": here.as_ref().map(|site| site.root()),
            "here": detail.as_ref().map(value).transpose()?,
            "stores": all,
            "total": stores.iter().map(|store| store.bytes).sum::<u64>(),
        }))?;
        return Ok(Exit::Ok);
    }
    if let (Some(site), Some(detail)) = (&here, &detail) {
        print_here(ui, app, site, detail)?;
        ui.line("")?;
    }
    print_stores(ui, app, &stores)?;
    if let Some(site) = here {
        site.close(app);
    }
    Ok(Exit::Ok)
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

fn print_here(ui: &mut Ui, app: &App, site: &Site, detail: &DiskUse) -> Result<(), CliError> {
    let usage = &detail.usage;
    let root = text::clean_line(&site.root().to_string_lossy());
    let packs = figure::counted(usage.packs, "pack");
    ui.line(&format!("{root}: {} in {packs}", figure::size(usage.bytes + usage.loose)))?;
    let mut grid = Grid::new(&[
        ("KEPT BY", Column::Cut),
        ("CAPTURES", Column::Figure),
        ("ALONE", Column::Figure),
        ("SHARED", Column::Figure),
        ("NEWEST", Column::Text),
    ]);
    for group in &detail.groups {
        grid.row(&[
            group.group.clone(),
            figure::count(group.captures),
            figure::size(group.unique),
            figure::size(group.shared),
            moment::near(group.newest.0, app.now()),
        ]);
    }
    ui.table(&grid)?;
    if detail.unpinned > 0 {
        let free = figure::size(detail.unpinned);
        ui.aside(&format!("{free} are kept by nothing; `turnstone snapshot gc` frees them"));
    }
    let last = usage.last_gc.map(|last| moment::near(last.0, app.now()));
    ui.aside(&format!("last upkeep: {}", last.as_deref().unwrap_or("never")));
    if !detail.largest.is_empty() {
        ui.line("")?;
        let columns = [
            ("LARGEST PATHS", Column::Cut),
            ("VERSIONS", Column::Figure),
            ("SIZE", Column::Figure),
        ];
        let mut grid = Grid::new(&columns);
        for path in &detail.largest {
            let versions = figure::count(path.versions);
            grid.row(&[path.path.to_string(), versions, figure::size(path.bytes)]);
        }
        ui.table(&grid)?;
    }
    Ok(())
}

fn print_stores(ui: &mut Ui, app: &App, stores: &[ListedStore]) -> Result<(), CliError> {
    if stores.is_empty() {
        ui.note("no directory has been captured yet");
        return Ok(());
    }
    let columns =
        [("DIRECTORY", Column::Cut), ("SIZE", Column::Figure), ("LAST USE", Column::Text)];
    let mut grid = Grid::new(&columns);
    for store in stores {
        let root = store.root.as_ref().map(|root| root.path.to_string_lossy().into_owned());
        let root = match (root, store.root_exists) {
            (Some(root), true) => root,
            (Some(root), false) => format!("{root} (gone)"),
            (None, _) => format!("unknown ({})", store.id),
        };
        let used = store.used.map_or_else(|| "-".to_owned(), |at| moment::near(at.0, app.now()));
        grid.row(&[root, figure::size(store.bytes), used]);
    }
    let total = stores.iter().map(|store| store.bytes).sum();
    grid.row(&["total".to_owned(), figure::size(total), String::new()]);
    ui.table(&grid)
}

pub(super) fn gc(ui: &mut Ui, app: &App, args: &GcArgs) -> Result<Exit, CliError> {
    let site = Site::here(ui, app)?;
    let mut sweep = site.sweep(app, u64::MAX)?;
    sweep.dry_run = args.dry_run;
    let swept = site.vault.gc(&sweep)?;
    let registry = Registry::new(app.layout().root());
    let gone = registry.remove_gone(site.keep(), app.now(), args.dry_run);
    let gone = gone.map_err(turnstone_snapshot::VaultError::from)?;
    if ui.wants_json() {
        let mut all = value(&swept)?;
        all["removed_stores"] = gone.iter().map(store_json).collect();
        all["dry_run"] = args.dry_run.into();
        ui.json(&all)?;
        return Ok(Exit::Ok);
    }
    tell(ui, &swept, &gone, args.dry_run);
    Ok(Exit::Ok)
}

fn tell(ui: &mut Ui, swept: &Swept, gone: &[ListedStore], dry_run: bool) {
    let Swept { expired, gc } = swept;
    let verb = if dry_run { "would go" } else { "gone" };
    for group in &gc.dropped_groups {
        ui.note(&format!("{verb}: everything kept by {}", text::clean_line(group)));
    }
    if *expired > 0 {
        ui.note(&format!("{verb}: {} that are too old", figure::counted(*expired, "capture")));
    }
    for store in gone {
        let root = store.root.as_ref().map(|root| root.path.to_string_lossy().into_owned());
        let root = text::clean_line(&root.unwrap_or_default());
        let size = figure::size(store.bytes);
        ui.note(&format!("{verb}: the store of {root}, which is gone ({size})"));
    }
    if dry_run {
        let free = figure::size(gc.dropped_bytes);
        match (*expired, gc.dropped_bytes) {
            (0, 0) => ui.note("nothing is too old; nothing would go"),
            (0, _) => ui.note(&format!("{free} would become free")),
            _ => ui.note(&format!("{free} or more would become free")),
        }
    } else {
        let (before, after) = (figure::size(gc.bytes_before), figure::size(gc.bytes_after));
        ui.note(&format!("{before} before, {after} now"));
    }
}
