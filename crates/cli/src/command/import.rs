//! `turnstone import`: imports sessions of OpenCode and reports every record.

use std::collections::BTreeMap;
use std::path::PathBuf;

use turnstone_engine::{Engine, EngineError, SnapshotAdoptionReport};
use turnstone_exchange::{
    ImportError, ImportProgress, ImportReport, ImportedRule, ImportedRules, Options, PlannedImport,
    RecordKind, SkippedRecord,
};
use turnstone_store::{Actor, Context, StoreError};

use super::imported_snapshots::{self, SnapshotImport};
use crate::app::CliApp;
use crate::caller_check::require_person;
use crate::error::CliError;
use crate::exit_code::ProgramExit;
use crate::number_format;
use crate::text;
use crate::ui::{ColumnKind, DIM_STYLE, TextTable, Ui, WARNING_STYLE, apply_style};

/// Import sessions from OpenCode
///
/// Without SOURCE, Turnstone looks for OpenCode's data directory in the usual places, and asks before it
/// imports if it runs on a terminal. SOURCE is OpenCode's data directory, its opencode.db, its older
/// storage/ directory, a file written by `opencode export` or `turnstone export`, or - to read such a file
/// from standard input. The source is never changed. Importing again adds what is new; an interrupted
/// import is finished by running it again.
///
/// The source is not trusted: an import does not change your existing projects and sessions. Permission
/// rules, approvals and start commands in the source are stored and listed, but have no effect unless you
/// pass --trust, which also works for a source that is already imported. Your own rules take precedence.
///
/// With --snapshots, the files that imported turns changed can be undone like those of other turns, as far as
/// OpenCode still has its snapshots of them; they are copied. What is missing is listed.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  turnstone import\n  turnstone import ~/.local/share/opencode\n  \
                        turnstone import --snapshots\n  opencode export ses_e21d | turnstone import -"
)]
pub(crate) struct ImportArgs {
    /// Directory, database or file to import [default: OpenCode's data directory]
    #[arg(value_hint = clap::ValueHint::AnyPath)]
    source: Option<PathBuf>,

    /// List everything that was not imported, with the reason
    #[arg(long)]
    full: bool,

    /// Copy OpenCode's snapshots, so that file changes of imported turns can be undone
    #[arg(long)]
    snapshots: bool,

    /// Activate the permission rules, approvals and start commands in SOURCE
    #[arg(long)]
    trust: bool,
}

/// Records listed per kind without --full.
const MAX_LISTED_REASONS: usize = 5;
/// Note on rules imported without --trust.
const NOT_IN_EFFECT: &str = "not in effect; import again with --trust to activate them";

/// Imports and prints the report.
///
/// # Errors
///
/// [`CliError::Source`] and [`CliError::Import`]; [`CliError::Refused`] if a tool uses --trust.
pub(crate) fn run(ui: &mut Ui, app: &CliApp, args: &ImportArgs) -> Result<ProgramExit, CliError> {
    if args.trust {
        require_person(app, "import with --trust")?;
    }
    let found = match &args.source {
        Some(source) => source.clone(),
        None => find_usual_source(ui, app)?,
    };
    let plan = PlannedImport::open(&found, &Options::default())?;
    let plan = if args.trust { plan.with_trust() } else { plan };
    let snapshots = args.snapshots.then(|| SnapshotImport::new(&found, &usual_places(app)));
    let (engine, ctx) = (app.open_engine()?, app.context());
    if !ui.wants_json() {
        ui.print_note(&format!("importing {}", text::sanitize_line(&plan.describe())));
    }
    let bar = ui.progress_bar("{bar:30} {pos}/{len} {msg} ({eta})");
    let mut progress_by_kind: BTreeMap<RecordKind, (u64, u64)> = BTreeMap::new();
    let done = plan.run(engine.store(), &ctx, &mut |progress: ImportProgress| {
        progress_by_kind.insert(progress.kind, (progress.done, progress.total));
        bar.set_length(progress_by_kind.values().map(|count| count.1).sum());
        bar.set_position(progress_by_kind.values().map(|count| count.0).sum());
        bar.set_message(progress.kind.name());
    });
    bar.finish_and_clear();
    match done {
        Ok(report) => {
            let ctx = Context { actor: Actor::import(), ..ctx };
            let adopted = match &snapshots {
                Some(snapshots) => Some(snapshots.adopt(ui, &engine, &ctx, &report)?),
                None => None,
            };
            complete_sessions(&engine, &ctx, &report)?;
            print_report(ui, &report, adopted.as_ref(), args.full)?;
            Ok(ProgramExit::Ok)
        }
        Err(ImportError::Store { source, report }) => {
            print_report(ui, &report, None, args.full)?;
            Err(CliError::Import(source))
        }
        Err(ImportError::Source(error)) => Err(error.into()),
    }
}

/// Brings imported sessions to the position that their source had reverted them to.
fn complete_sessions(
    engine: &Engine,
    ctx: &Context,
    report: &ImportReport,
) -> Result<(), CliError> {
    for session in &report.sessions {
        match engine.history().imported_sessions().adopt_revert(ctx, session) {
            Ok(_) => {}
            // It is used here meanwhile: then its position in the source no longer counts.
            Err(EngineError::Store(StoreError::Busy(_) | StoreError::NoSession(_))) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// The places where OpenCode keeps its data.
fn usual_places(app: &CliApp) -> Vec<PathBuf> {
    let home = app.user_git_config().home.as_ref().map(|home| home.join(".local/share"));
    let named = app.environment_variables().iter().find(|(name, _)| name == "XDG_DATA_HOME");
    let named = named.map(|(_, value)| PathBuf::from(value)).filter(|path| path.is_absolute());
    let mut places: Vec<PathBuf> =
        named.into_iter().chain(home).map(|place| place.join("opencode")).collect();
    places.dedup();
    places
}

/// OpenCode's data directory in one of the usual places; on a terminal, after a question.
fn find_usual_source(ui: &mut Ui, app: &CliApp) -> Result<PathBuf, CliError> {
    let places = usual_places(app);
    let shown = |place: &PathBuf| text::sanitize_line(&place.to_string_lossy());
    let Some(found) = places.iter().find(|place| place.is_dir()) else {
        let places: Vec<String> = places.iter().map(shown).collect();
        return Err(CliError::Refused {
            what: format!("no data of OpenCode in {}", places.join(" or ")),
            hint: Some("`turnstone import SOURCE` imports from another place".to_owned()),
        });
    };
    let question = format!("import the sessions in {}?", shown(found));
    if ui.can_ask() && !ui.confirm(&question)? {
        return Err(CliError::Refused { what: "aborted: not confirmed".to_owned(), hint: None });
    }
    Ok(found.clone())
}

fn print_report(
    ui: &mut Ui,
    report: &ImportReport,
    adopted: Option<&SnapshotAdoptionReport>,
    full: bool,
) -> Result<(), CliError> {
    if ui.wants_json() {
        let mut value = serde_json::to_value(report)?;
        if let Some(adopted) = adopted {
            value["snapshots"] = serde_json::to_value(adopted)?;
        }
        return ui.print_json(&value);
    }
    let mut grid = TextTable::new(&[
        ("KIND", ColumnKind::Text),
        ("FOUND", ColumnKind::Number),
        ("IMPORTED", ColumnKind::Number),
        ("UNCHANGED", ColumnKind::Number),
        ("ORPHANED", ColumnKind::Number),
        ("REJECTED", ColumnKind::Number),
    ]);
    for (kind, counts) in &report.kinds {
        grid.add_row(&[
            kind.name().to_owned(),
            number_format::format_count(counts.found),
            number_format::format_count(counts.imported),
            number_format::format_count(counts.unchanged),
            number_format::format_count(counts.orphaned),
            number_format::format_count(counts.rejected_count),
        ]);
    }
    if report.kinds.is_empty() {
        ui.print_note("nothing to import");
    } else {
        ui.print_table(&grid)?;
    }
    for (kind, counts) in &report.kinds {
        print_skipped(ui, *kind, "rejected", (&counts.rejected, counts.rejected_count), full);
        print_skipped(ui, *kind, "orphaned", (&counts.orphans, counts.orphaned), full);
    }
    if let Some(adopted) = adopted {
        let listed = if full { usize::MAX } else { MAX_LISTED_REASONS };
        imported_snapshots::print_adopted(ui, adopted, listed);
    }
    print_rules(ui, &report.untrusted, NOT_IN_EFFECT, full);
    print_rules(ui, &report.trusted, "now in effect", full);
    for note in &report.notes {
        ui.print_note(&format!(
            "{} {}",
            apply_style(WARNING_STYLE, "note:"),
            text::sanitize_line(note)
        ));
    }
    Ok(())
}

/// Lists records that were not imported, with reasons.
fn print_skipped(
    ui: &mut Ui,
    kind: RecordKind,
    what: &str,
    (skipped, count): (&[SkippedRecord], u64),
    full: bool,
) {
    let shown = if full { skipped.len() } else { skipped.len().min(MAX_LISTED_REASONS) };
    for SkippedRecord { id, reason } in skipped.iter().take(shown) {
        let (id, reason) = (text::sanitize_line(id), text::sanitize_line(reason));
        ui.print_note(&format!(
            "{} {kind} {id}: {reason}",
            apply_style(WARNING_STYLE, format!("{what}:"))
        ));
    }
    print_remaining_count(ui, count, (shown, skipped.len()), what);
}

/// Reports the permission rules of the source and whether they are active.
fn print_rules(ui: &mut Ui, carried: &ImportedRules, outcome: &str, full: bool) {
    if carried.is_empty() {
        return;
    }
    let ImportedRules { rules, approvals, commands, listed } = carried;
    let counts =
        [(*rules, "permission rule"), (*approvals, "approval"), (*commands, "start command")];
    let counts: Vec<String> = counts
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| number_format::format_counted(count, what))
        .collect();
    ui.print_note(&format!(
        "{} {} {outcome}",
        apply_style(WARNING_STYLE, "note:"),
        counts.join(" and ")
    ));
    let shown = if full { listed.len() } else { listed.len().min(MAX_LISTED_REASONS) };
    for rule in listed.iter().take(shown) {
        let ImportedRule { of, permission, pattern, action } = rule;
        ui.print_note(&text::sanitize_line(&format!("  {of}: {permission} {pattern:?} {action}")));
    }
    print_remaining_count(ui, rules + approvals + commands, (shown, listed.len()), "rules");
}

/// Prints how many more there are; `listed` is how many the report contains.
fn print_remaining_count(ui: &mut Ui, count: u64, (shown, listed): (usize, usize), what: &str) {
    let more = count.saturating_sub(shown as u64);
    if more > 0 {
        let hint = if shown < listed { " (--full lists them)" } else { "" };
        ui.print_note(&apply_style(DIM_STYLE, format!("{more} more {what}{hint}")));
    }
}
