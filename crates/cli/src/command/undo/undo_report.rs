//! Plans and reports of undo and redo, in words that say what to do next.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use turnstone_core::change::GitPosition;
use turnstone_core::id::TurnId;
use turnstone_core::operation::{HeadMove, OperationKind};
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

/// Digits of a commit or a capture that people are shown.
const SHORT_COMMIT_LENGTH: usize = 8;

/// What was done, or would be.
pub(crate) struct UndoResult<'a> {
    plan: &'a UndoPlan,
    report: OperationReport,
    dry_run: bool,
}

impl<'a> UndoResult<'a> {
    /// What a plan comes to if nothing changes meanwhile.
    pub(crate) fn predicted(plan: &'a UndoPlan) -> Self {
        let root = |root: &turnstone_engine::RootPlan| RootReport {
            root: root.root.clone(),
            report: predict_report(&root.plan),
        };
        let report = plan.build_report(plan.roots.iter().map(root).collect());
        Self { plan, report, dry_run: true }
    }

    /// What came of a plan.
    pub(crate) const fn applied(plan: &'a UndoPlan, report: OperationReport) -> Self {
        Self { plan, report, dry_run: false }
    }

    fn sum(&self, count: impl Fn(&RestoreReport) -> usize) -> usize {
        self.report.roots.iter().map(|root| count(&root.report)).sum()
    }

    /// A file that was left alone is told by the exit code.
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

/// What helps with paths that were left alone.
pub(crate) struct ConflictHints {
    /// The capture from before the turns, for each path.
    before: BTreeMap<RelPath, String>,
}

impl ConflictHints {
    /// Looks up what the paths held before the turns.
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

/// What is done to turns, as a word.
pub(super) const fn progress_verb(kind: OperationKind) -> &'static str {
    match kind {
        OperationKind::Redo => "bringing back",
        OperationKind::Undo
        | OperationKind::Jump
        | OperationKind::Branch
        | OperationKind::Checkpoint
        | OperationKind::Expire
        | OperationKind::Forget => "taking back",
    }
}

/// Prints what was done, or would be, and what a person can do about the rest.
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
            return "cannot be read".to_owned();
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
        true => apply_style(WARNING_STYLE, "git may have moved:"),
        false => apply_style(WARNING_STYLE, "git has moved:"),
    };
    let (before, now) = (point(&note.before), point(&note.now));
    ui.print_note(&format!("{mark} {before} → {now}; files are undone, commits never"));
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
        let words = if dry_run { planned } else { done };
        for path in paths {
            let seen = if windows.contains(path) { "  (window)" } else { "" };
            let path = text::sanitize_line(&path.to_string());
            let words = apply_style(SUCCESS_STYLE, format!("{words:<9}"));
            ui.print_line(&format!("{words}  {path}{}", apply_style(DIM_STYLE, seen)))?;
        }
    }
    for RestoreConflict { path, why: reason } in &report.conflicts {
        print_path(ui, &apply_style(ERROR_STYLE, "conflict "), path, describe_conflict(*reason))?;
    }
    for (path, skipped) in &report.not_covered {
        print_path(
            ui,
            &apply_style(WARNING_STYLE, "no cover "),
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
        let words = format!("perhaps changed by {}", others.join(", "));
        print_path(ui, &apply_style(ERROR_STYLE, "contended"), &contended.path, &words)?;
    }
    for (_, path, reason) in &shown.report.not_covered {
        print_path(ui, &apply_style(WARNING_STYLE, "no cover "), path, reason)?;
    }
    for (_, path) in &shown.plan.unnamed {
        print_path(
            ui,
            &apply_style(WARNING_STYLE, "left     "),
            path,
            "seen changing, but not named by a tool",
        )?;
    }
    Ok(())
}

fn print_path(ui: &mut Ui, mark: &str, path: &RelPath, words: &str) -> Result<(), CliError> {
    let path = text::sanitize_line(&path.to_string());
    ui.print_line(&format!("{mark}  {path}  {}", apply_style(DIM_STYLE, format!("({words})"))))
}

fn print_totals(ui: &mut Ui, shown: &UndoResult<'_>) {
    let left = shown.sum(|report| report.conflicts.len()) + shown.report.contended.len();
    let uncovered = shown.sum(|report| report.not_covered.len()) + shown.report.not_covered.len();
    let counts = [
        (shown.sum(|report| report.restored.len()), "restored", "to restore"),
        (shown.sum(|report| report.removed.len()), "removed", "to remove"),
        (shown.sum(|report| report.merged.len()), "merged", "to merge"),
        (left + shown.plan.unnamed.len(), "left alone", "to leave alone"),
        (uncovered, "not covered", "not covered"),
    ];
    let list: Vec<String> = counts
        .iter()
        .filter(|(count, ..)| *count > 0)
        .map(|(count, done, planned)| {
            format!(
                "{} {}",
                number_format::format_count(*count),
                if shown.dry_run { planned } else { done }
            )
        })
        .collect();
    let all = list.join(", ");
    match (list.is_empty(), shown.dry_run) {
        (true, true) => ui.print_note("no file would change"),
        (true, false) => ui.print_note("no file had to change"),
        (false, true) => ui.print_note(&format!("{all}; nothing was changed")),
        (false, false) => ui.print_note(&all),
    }
    match (shown.report.without_effect, shown.dry_run) {
        (true, true) => {
            ui.print_note("no file could follow: the conversation would stay where it is")
        }
        (true, false) => ui.print_note("no file could follow: the conversation stays where it is"),
        (false, _) => {}
    }
}

/// The commands that help.
fn print_next_steps(ui: &mut Ui, shown: &UndoResult<'_>, hints: &ConflictHints) {
    let conflicts = shown.report.roots.iter().flat_map(|root| &root.report.conflicts);
    for RestoreConflict { path, .. } in conflicts.take(3) {
        let name = text::sanitize_line(&path.to_string());
        match hints.before.get(path) {
            Some(before) => {
                let before = before.get(..12).unwrap_or(before);
                ui.print_hint(&format!(
                    "{name} is as it was; `turnstone snapshot restore {before} {name}` makes it \
                     what it was before the turn, later changes included (--dry-run shows it)"
                ));
            }
            None => ui.print_hint(&format!("{name} is as it was; change it by hand")),
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
        let (word, turns) = (shown.report.kind.as_str(), turns.join(" "));
        ui.print_hint(&format!(
            "these ran at the same time; {word} them together: `turnstone {word} {turns}`"
        ));
    }
    let moves = shown.plan.head != HeadMove::Stay;
    if shown.report.without_effect && moves {
        let word = shown.report.kind.as_str();
        ui.print_hint(&format!("`turnstone {word} --conversation` moves the conversation alone"));
    }
    let changed =
        shown.sum(|report| report.restored.len() + report.removed.len() + report.merged.len());
    match (shown.dry_run, shown.report.kind) {
        (false, OperationKind::Undo) if changed > 0 => {
            ui.print_hint("`turnstone redo` brings it back");
        }
        (false, OperationKind::Redo) if changed > 0 => {
            ui.print_hint("`turnstone undo` takes it back again");
        }
        _ => {}
    }
}
