//! Plans and reports of undo and redo, in words that say what to do next.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use turnstone_core::change::GitPoint;
use turnstone_core::id::TurnId;
use turnstone_core::operation::{HeadMove, OperationKind};
use turnstone_core::path::RelPath;
use turnstone_engine::{Engine, GitNote, OperationReport, RootReport, UndoPlan};
use turnstone_snapshot::{Conflict, Report};
use turnstone_store::Context;

use crate::command::snapshot::{foreseen, reason, why};
use crate::error::CliError;
use crate::exit::Exit;
use crate::figure;
use crate::text;
use crate::ui::{BAD, DIM, GOOD, Ui, WARN, paint};

/// Digits of a commit or a capture that people are shown.
const SHORT: usize = 8;

/// What was done, or would be.
pub(crate) struct Shown<'a> {
    plan: &'a UndoPlan,
    report: OperationReport,
    dry_run: bool,
}

impl<'a> Shown<'a> {
    /// What a plan comes to if nothing changes meanwhile.
    pub(crate) fn foreseen(plan: &'a UndoPlan) -> Self {
        let root = |root: &turnstone_engine::RootPlan| RootReport {
            root: root.root.clone(),
            report: foreseen(&root.plan),
        };
        let report = plan.report(plan.roots.iter().map(root).collect());
        Self { plan, report, dry_run: true }
    }

    /// What came of a plan.
    pub(crate) const fn done(plan: &'a UndoPlan, report: OperationReport) -> Self {
        Self { plan, report, dry_run: false }
    }

    fn sum(&self, count: impl Fn(&Report) -> usize) -> usize {
        self.report.roots.iter().map(|root| count(&root.report)).sum()
    }

    /// A file that was left alone is told by the exit code.
    fn exit(&self) -> Exit {
        let clean = self.sum(|report| report.conflicts.len()) == 0;
        match clean && self.report.contended.is_empty() && !self.report.without_effect {
            true => Exit::Ok,
            false => Exit::Conflict,
        }
    }

    fn json(&self) -> Result<Value, CliError> {
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
pub(crate) struct Hints {
    /// The capture from before the turns, for each path.
    before: BTreeMap<RelPath, String>,
}

impl Hints {
    /// Looks up what the paths held before the turns.
    pub(crate) fn gather(
        engine: &Engine,
        ctx: &Context,
        plan: &UndoPlan,
    ) -> Result<Self, CliError> {
        let mut before = BTreeMap::new();
        let own = plan.turns.iter().map(|turn| (&plan.session, turn));
        for (session, turn) in own.chain(plan.also.iter().map(|(session, turn)| (session, turn))) {
            for row in engine.store().read(ctx, |r| r.turn_changes(session, turn))? {
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
pub(super) const fn verb(kind: OperationKind) -> &'static str {
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
pub(crate) fn print(ui: &mut Ui, shown: &Shown<'_>, hints: &Hints) -> Result<Exit, CliError> {
    if ui.wants_json() {
        ui.json(&shown.json()?)?;
        return Ok(shown.exit());
    }
    for note in &shown.report.git {
        tell_git(ui, note);
    }
    for (root, planned) in shown.report.roots.iter().zip(&shown.plan.roots) {
        if shown.report.roots.len() > 1 {
            ui.line(&format!("in {}", text::clean_line(&root.root.path)))?;
        }
        print_root(ui, &root.report, &planned.windows, shown.dry_run)?;
    }
    print_rest(ui, shown)?;
    tell_sum(ui, shown);
    tell_next(ui, shown, hints);
    Ok(shown.exit())
}

fn tell_git(ui: &mut Ui, note: &GitNote) {
    let point = |point: &GitPoint| {
        if point.unknown {
            return "cannot be read".to_owned();
        }
        let commit = point.head.as_deref().map_or("no commit", |id| id.get(..SHORT).unwrap_or(id));
        match &point.branch {
            Some(branch) => format!("{} {commit}", text::clean_line(branch)),
            None => commit.to_owned(),
        }
    };
    let mark = match note.before.unknown || note.now.unknown {
        true => paint(WARN, "git may have moved:"),
        false => paint(WARN, "git has moved:"),
    };
    let (before, now) = (point(&note.before), point(&note.now));
    ui.note(&format!("{mark} {before} → {now}; files are undone, commits never"));
}

fn print_root(
    ui: &mut Ui,
    report: &Report,
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
            let path = text::clean_line(&path.to_string());
            let words = paint(GOOD, format!("{words:<9}"));
            ui.line(&format!("{words}  {path}{}", paint(DIM, seen)))?;
        }
    }
    for Conflict { path, why: reason } in &report.conflicts {
        row(ui, &paint(BAD, "conflict "), path, why(*reason))?;
    }
    for (path, skipped) in &report.not_covered {
        row(ui, &paint(WARN, "no cover "), path, reason(*skipped))?;
    }
    Ok(())
}

fn print_rest(ui: &mut Ui, shown: &Shown<'_>) -> Result<(), CliError> {
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
        row(ui, &paint(BAD, "contended"), &contended.path, &words)?;
    }
    for (_, path, reason) in &shown.report.not_covered {
        row(ui, &paint(WARN, "no cover "), path, reason)?;
    }
    for (_, path) in &shown.plan.unnamed {
        row(ui, &paint(WARN, "left     "), path, "seen changing, but not named by a tool")?;
    }
    Ok(())
}

fn row(ui: &mut Ui, mark: &str, path: &RelPath, words: &str) -> Result<(), CliError> {
    let path = text::clean_line(&path.to_string());
    ui.line(&format!("{mark}  {path}  {}", paint(DIM, format!("({words})"))))
}

fn tell_sum(ui: &mut Ui, shown: &Shown<'_>) {
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
            format!("{} {}", figure::count(*count), if shown.dry_run { planned } else { done })
        })
        .collect();
    let all = list.join(", ");
    match (list.is_empty(), shown.dry_run) {
        (true, true) => ui.note("no file would change"),
        (true, false) => ui.note("no file had to change"),
        (false, true) => ui.note(&format!("{all}; nothing was changed")),
        (false, false) => ui.note(&all),
    }
    match (shown.report.without_effect, shown.dry_run) {
        (true, true) => ui.note("no file could follow: the conversation would stay where it is"),
        (true, false) => ui.note("no file could follow: the conversation stays where it is"),
        (false, _) => {}
    }
}

/// The commands that help.
fn tell_next(ui: &mut Ui, shown: &Shown<'_>, hints: &Hints) {
    let conflicts = shown.report.roots.iter().flat_map(|root| &root.report.conflicts);
    for Conflict { path, .. } in conflicts.take(3) {
        let name = text::clean_line(&path.to_string());
        match hints.before.get(path) {
            Some(before) => {
                let before = before.get(..12).unwrap_or(before);
                ui.hint(&format!(
                    "{name} is as it was; `turnstone snapshot restore {before} {name}` makes it \
                     what it was before the turn, later changes included (--dry-run shows it)"
                ));
            }
            None => ui.hint(&format!("{name} is as it was; change it by hand")),
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
        ui.hint(&format!(
            "these ran at the same time; {word} them together: `turnstone {word} {turns}`"
        ));
    }
    let moves = shown.plan.head != HeadMove::Stay;
    if shown.report.without_effect && moves {
        let word = shown.report.kind.as_str();
        ui.hint(&format!("`turnstone {word} --conversation` moves the conversation alone"));
    }
    let changed =
        shown.sum(|report| report.restored.len() + report.removed.len() + report.merged.len());
    match (shown.dry_run, shown.report.kind) {
        (false, OperationKind::Undo) if changed > 0 => {
            ui.hint("`turnstone redo` brings it back");
        }
        (false, OperationKind::Redo) if changed > 0 => {
            ui.hint("`turnstone undo` takes it back again");
        }
        _ => {}
    }
}
