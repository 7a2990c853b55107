//! Prints plans and reports of undo and redo, with next steps.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use turnstone_core::change::GitPosition;
use turnstone_core::id::TurnId;
use turnstone_core::operation::{HeadTarget, OperationKind};
use turnstone_core::rel_path::RelPath;
use turnstone_engine::{Engine, OperationReport, RepositoryMove, RootReport, UndoPlan};
use turnstone_snapshot::{RestoreConflict, RestoreReport};
use turnstone_store::Context;

use crate::command::snapshot::{describe_conflict, describe_skip_reason, predict_report};
use crate::error::CliError;
use crate::exit_code::ProgramExit;
use crate::number_format;
use crate::text;
use crate::ui::{DIM_STYLE, ERROR_STYLE, SUCCESS_STYLE, Ui, WARNING_STYLE, apply_style};

/// Shown length of a commit ID.
const SHORT_COMMIT_LENGTH: usize = 8;

/// A report or a prediction.
pub(crate) struct UndoResult<'a> {
    plan: &'a UndoPlan,
    report: OperationReport,
    dry_run: bool,
}

impl<'a> UndoResult<'a> {
    /// The report of a plan if no file changes meanwhile.
    pub(crate) fn predicted(plan: &'a UndoPlan) -> Self {
        let root = |root: &turnstone_engine::RootPlan| RootReport {
            root: root.root.clone(),
            report: predict_report(&root.plan),
        };
        let report = plan.build_report(plan.roots.iter().map(root).collect());
        Self { plan, report, dry_run: true }
    }

    /// The report of an applied plan.
    pub(crate) const fn applied(plan: &'a UndoPlan, report: OperationReport) -> Self {
        Self { plan, report, dry_run: false }
    }

    fn sum(&self, count: impl Fn(&RestoreReport) -> usize) -> usize {
        self.report.roots.iter().map(|root| count(&root.report)).sum()
    }

    /// Skipped files change the exit code.
    fn exit_code(&self) -> ProgramExit {
        let clean = self.sum(|report| report.conflicts.len()) == 0;
        match clean && self.report.contended.is_empty() && !self.report.without_effect {
            true => ProgramExit::Ok,
            false => ProgramExit::Conflict,
        }
    }

    fn to_json(&self) -> Result<Value, CliError> {
        let mut value = serde_json::to_value(&self.report)?;
        value["session"] = json!(self.plan.session);
        value["also"] = json!(self.plan.also);
        value["unnamed"] = json!(self.plan.unnamed);
        value["dry_run"] = json!(self.dry_run);
        for (index, root) in self.plan.roots.iter().enumerate() {
            value["roots"][index]["windows"] = json!(root.windows);
        }
        Ok(value)
    }
}

/// Next steps for skipped paths.
pub(crate) struct ConflictHints {
    /// Capture from before the turns, per path.
    before: BTreeMap<RelPath, String>,
}

impl ConflictHints {
    /// Finds the captures from before the turns.
    pub(crate) fn collect(
        engine: &Engine,
        ctx: &Context,
        plan: &UndoPlan,
    ) -> Result<Self, CliError> {
        let mut before = BTreeMap::new();
        let own = plan.turns.iter().map(|turn| (&plan.session, turn));
        for (session, turn) in own.chain(plan.also.iter().map(|(session, turn)| (session, turn))) {
            for row in engine.store().read(ctx, |r| r.change_sets().of_turn(session, turn))? {
                let Some(capture) = row.before else { continue };
                for change in row.set.changes {
                    before.entry(change.path).or_insert_with(|| capture.clone());
                }
            }
        }
        Ok(Self { before })
    }
}

/// Present participle for progress messages.
pub(super) const fn progress_verb(kind: OperationKind) -> &'static str {
    match kind {
        OperationKind::Redo => "redoing",
        OperationKind::Undo
        | OperationKind::Jump
        | OperationKind::Branch
        | OperationKind::Checkpoint
        | OperationKind::Expire
        | OperationKind::Forget => "undoing",
    }
}

/// Past participle for messages about files.
const fn past_participle(kind: OperationKind) -> &'static str {
    match kind {
        OperationKind::Undo => "undone",
        OperationKind::Redo => "redone",
        OperationKind::Jump
        | OperationKind::Branch
        | OperationKind::Checkpoint
        | OperationKind::Expire
        | OperationKind::Forget => "changed",
    }
}

/// Prints the report and the next steps.
pub(crate) fn print_result(
    ui: &mut Ui,
    shown: &UndoResult<'_>,
    hints: &ConflictHints,
) -> Result<ProgramExit, CliError> {
    if ui.wants_json() {
        ui.print_json(&shown.to_json()?)?;
        return Ok(shown.exit_code());
    }
    for note in &shown.report.git {
        print_git_moved(ui, note);
    }
    for (root, planned) in shown.report.roots.iter().zip(&shown.plan.roots) {
        if shown.report.roots.len() > 1 {
            ui.print_line(&format!("in {}", text::sanitize_line(&root.root.path)))?;
        }
        print_root_report(ui, &root.report, &planned.windows, shown.dry_run)?;
    }
    print_unresolved(ui, shown)?;
    print_totals(ui, shown);
    print_next_steps(ui, shown, hints);
    Ok(shown.exit_code())
}

fn print_git_moved(ui: &mut Ui, note: &RepositoryMove) {
    let point = |point: &GitPosition| {
        if point.unknown {
            return "unreadable".to_owned();
        }
        let commit = point
            .head
            .as_deref()
            .map_or("no commit", |id| id.get(..SHORT_COMMIT_LENGTH).unwrap_or(id));
        match &point.branch {
            Some(branch) => format!("{} {commit}", text::sanitize_line(branch)),
            None => commit.to_owned(),
        }
    };
    let mark = match note.before.unknown || note.now.unknown {
        true => apply_style(WARNING_STYLE, "git HEAD may have moved:"),
        false => apply_style(WARNING_STYLE, "git HEAD has moved:"),
    };
    let (before, now) = (point(&note.before), point(&note.now));
    ui.print_note(&format!("{mark} {before} → {now}; only files are changed, never commits"));
}

fn print_root_report(
    ui: &mut Ui,
    report: &RestoreReport,
    windows: &[RelPath],
    dry_run: bool,
) -> Result<(), CliError> {
    for (done, planned, paths) in [
        ("restored", "restore", &report.restored),
        ("removed", "remove", &report.removed),
        ("merged", "merge", &report.merged),
    ] {
        let verb = if dry_run { planned } else { done };
        for path in paths {
            let seen = if windows.contains(path) { "  (window)" } else { "" };
            let path = text::sanitize_line(&path.to_string());
            let verb = apply_style(SUCCESS_STYLE, format!("{verb:<9}"));
            ui.print_line(&format!("{verb}  {path}{}", apply_style(DIM_STYLE, seen)))?;
        }
    }
    for RestoreConflict { path, why: reason } in &report.conflicts {
        print_path(ui, &apply_style(ERROR_STYLE, "conflict "), path, describe_conflict(*reason))?;
    }
    for (path, skipped) in &report.not_covered {
        print_path(
            ui,
            &apply_style(WARNING_STYLE, "skipped  "),
            path,
            describe_skip_reason(*skipped),
        )?;
    }
    Ok(())
}

fn print_unresolved(ui: &mut Ui, shown: &UndoResult<'_>) -> Result<(), CliError> {
    let own = &shown.plan.session;
    for contended in &shown.report.contended {
        let others: BTreeSet<String> = contended
            .claimants
            .iter()
            .filter(|claimant| !shown.plan.turns.contains(&claimant.turn))
            .map(|claimant| match claimant.session == *own {
                true => claimant.turn.to_string(),
                false => format!("{} of {}", claimant.turn, claimant.session),
            })
            .collect();
        let others: Vec<String> = others.into_iter().collect();
        let reason = format!("may also have been changed by {}", others.join(", "));
        print_path(ui, &apply_style(ERROR_STYLE, "contended"), &contended.path, &reason)?;
    }
    for (_, path, reason) in &shown.report.not_covered {
        print_path(ui, &apply_style(WARNING_STYLE, "skipped  "), path, reason)?;
    }
    for (_, path) in &shown.plan.unnamed {
        print_path(
            ui,
            &apply_style(WARNING_STYLE, "skipped  "),
            path,
            "changed while a command ran, not named by a tool",
        )?;
    }
    Ok(())
}

fn print_path(ui: &mut Ui, mark: &str, path: &RelPath, reason: &str) -> Result<(), CliError> {
    let path = text::sanitize_line(&path.to_string());
    ui.print_line(&format!("{mark}  {path}  {}", apply_style(DIM_STYLE, format!("({reason})"))))
}

fn print_totals(ui: &mut Ui, shown: &UndoResult<'_>) {
    let left = shown.sum(|report| report.conflicts.len()) + shown.report.contended.len();
    let uncovered = shown.sum(|report| report.not_covered.len()) + shown.report.not_covered.len();
    let counts = [
        (shown.sum(|report| report.restored.len()), "restored", "to restore"),
        (shown.sum(|report| report.removed.len()), "removed", "to remove"),
        (shown.sum(|report| report.merged.len()), "merged", "to merge"),
        (left, "in conflict", "in conflict"),
        (uncovered + shown.plan.unnamed.len(), "skipped", "to skip"),
    ];
    let list: Vec<String> = counts
        .iter()
        .filter(|(count, ..)| *count > 0)
        .map(|(count, done, planned)| {
            let what = if shown.dry_run { planned } else { done };
            format!("{} {what}", number_format::format_counted(*count, "file"))
        })
        .collect();
    let all = list.join(", ");
    match (list.is_empty(), shown.dry_run) {
        (true, true) => ui.print_note("no file would change"),
        (true, false) => ui.print_note("no file had to be changed"),
        (false, true) => ui.print_note(&format!("{all} (dry run: no file was changed)")),
        (false, false) => ui.print_note(&all),
    }
    if shown.report.without_effect {
        let verb = if shown.dry_run { "would" } else { "does" };
        let done = past_participle(shown.report.kind);
        ui.print_note(&format!("no files could be {done}: the conversation {verb} not change"));
    }
}

/// Prints the commands to run next.
fn print_next_steps(ui: &mut Ui, shown: &UndoResult<'_>, hints: &ConflictHints) {
    let conflicts = shown.report.roots.iter().flat_map(|root| &root.report.conflicts);
    for RestoreConflict { path, .. } in conflicts.take(3) {
        let name = text::sanitize_line(&path.to_string());
        match hints.before.get(path) {
            Some(before) => {
                let before = before.get(..12).unwrap_or(before);
                ui.print_hint(&format!(
                    "{name} was not changed; `turnstone snapshot restore {before} {name}` restores its \
                     content from before the turn and discards later changes (try --dry-run)"
                ));
            }
            None => ui.print_hint(&format!("{name} was not changed; edit it by hand")),
        }
    }
    if !shown.report.contended.is_empty() {
        let mut turns: Vec<&TurnId> = shown.report.turns.iter().collect();
        let claimants = shown.report.contended.iter().flat_map(|it| &it.claimants);
        for claimant in claimants {
            if !turns.contains(&&claimant.turn) {
                turns.push(&claimant.turn);
            }
        }
        let turns: Vec<String> = turns.iter().map(ToString::to_string).collect();
        let (verb, turns) = (shown.report.kind.as_str(), turns.join(" "));
        ui.print_hint(&format!(
            "these turns ran at the same time; {verb} them together: `turnstone {verb} {turns}`"
        ));
    }
    let moves = shown.plan.head != HeadTarget::Stay;
    if shown.report.without_effect && moves {
        let verb = shown.report.kind.as_str();
        ui.print_hint(&format!("`turnstone {verb} --conversation` changes only the conversation"));
    }
    let changed =
        shown.sum(|report| report.restored.len() + report.removed.len() + report.merged.len());
    match (shown.dry_run, shown.report.kind) {
        (false, OperationKind::Undo) if changed > 0 => {
            ui.print_hint("`turnstone redo` reverses this undo");
        }
        (false, OperationKind::Redo) if changed > 0 => {
            ui.print_hint("`turnstone undo` reverses this redo");
        }
        _ => {}
    }
}
