//! Prints plans and reports of undo and redo, with next steps.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::{Value, json};
use turnstone_core::change::{BoundedPaths, GitPosition};
use turnstone_core::id::{SessionId, TurnId};
use turnstone_core::operation::OperationKind;
use turnstone_core::rel_path::RelPath;
use turnstone_engine::{
    ContendedPath, MissingCapture, OperationReport, RepositoryMove, RootReport, UndoAspect,
    UndoPlan, UnmovedReason,
};
use turnstone_snapshot::{RestoreConflict, RestoreReport};

use super::directory_lines::{listed_directories, print_directories};
use super::undo_hints::{UndoHints, print_next_steps};
use crate::command::snapshot::{
    describe_conflict, describe_skip_reason, describe_stored_reason, predict_report,
};
use crate::error::CliError;
use crate::exit_code::ProgramExit;
use crate::number_format;
use crate::text;
use crate::trace_text::{count_foreign_changes, list_paths};
use crate::ui::{DIM_STYLE, ERROR_STYLE, SUCCESS_STYLE, Ui, WARNING_STYLE, apply_style};

/// Shown length of a commit ID.
const SHORT_COMMIT_LENGTH: usize = 8;

/// A report or a prediction.
pub(crate) struct UndoResult<'a> {
    pub(super) plan: &'a UndoPlan,
    pub(super) report: OperationReport,
    pub(super) dry_run: bool,
    scope: UndoAspect,
    /// Commands that were running in the same root.
    open_windows: Vec<OpenWindow>,
    /// Project and directory of the session, if they are named.
    project: Option<Value>,
}

/// A command that runs in a root whose files change: it sees the change.
#[derive(Debug, Serialize)]
pub(crate) struct OpenWindow {
    /// Its session.
    pub(crate) session: SessionId,
    /// Its turn.
    pub(crate) turn: TurnId,
    /// True if this program was started by that command.
    pub(crate) enclosing: bool,
}

impl<'a> UndoResult<'a> {
    /// The report of a plan if no file changes meanwhile.
    pub(crate) fn predicted(plan: &'a UndoPlan, scope: UndoAspect) -> Self {
        let root = |root: &turnstone_engine::RootPlan| RootReport {
            root: root.root.clone(),
            report: predict_report(&root.plan),
        };
        let report = plan.build_report(plan.roots.iter().map(root).collect());
        Self { plan, report, dry_run: true, scope, open_windows: Vec::new(), project: None }
    }

    /// The report of an applied plan.
    pub(crate) const fn applied(
        plan: &'a UndoPlan,
        scope: UndoAspect,
        report: OperationReport,
    ) -> Self {
        Self { plan, report, dry_run: false, scope, open_windows: Vec::new(), project: None }
    }

    /// Adds the commands that were running in the same root.
    pub(crate) fn with_open_windows(self, open_windows: Vec<OpenWindow>) -> Self {
        Self { open_windows, ..self }
    }

    /// Names project and directory.
    pub(crate) fn in_project(self, project: Value) -> Self {
        Self { project: Some(project), ..self }
    }

    fn sum(&self, count: impl Fn(&RestoreReport) -> usize) -> usize {
        self.report.roots.iter().map(|root| count(&root.report)).sum()
    }

    /// A known path that could not be changed changes the exit code.
    fn exit_code(&self) -> ProgramExit {
        match self.report.is_complete() && !self.report.without_effect {
            true => ProgramExit::Ok,
            false => ProgramExit::Conflict,
        }
    }

    /// True if every file was changed while a command ran: the usual case needs no remark.
    fn is_window_only(&self) -> bool {
        self.report.roots.iter().zip(&self.plan.roots).all(|(root, planned)| {
            let RestoreReport { restored, removed, merged, .. } = &root.report;
            let mut paths = restored.iter().chain(removed).chain(merged);
            paths.all(|path| planned.windows.contains(path))
        })
    }

    /// True if there are recorded files, and an earlier operation did all that this one is to do.
    fn was_done_before(&self) -> bool {
        let wanted = self.report.kind == OperationKind::Undo;
        let has_paths = self.plan.changes.iter().any(|part| !part.paths.is_empty());
        has_paths
            && self
                .plan
                .changes
                .iter()
                .all(|part| part.paths.iter().all(|path| part.taken.contains(path) == wanted))
    }

    /// Number of files that were or would be changed.
    pub(super) fn changed(&self) -> usize {
        let files = |report: &RestoreReport| {
            report.restored.len() + report.removed.len() + report.merged.len()
        };
        self.sum(files) + self.sum(|report| report.directories.len())
    }

    fn to_json(&self) -> Result<Value, CliError> {
        let mut value = serde_json::to_value(&self.report)?;
        value["session"] = json!(self.plan.session);
        if let Some(project) = &self.project {
            value["project"].clone_from(project);
        }
        value["also"] = json!(self.plan.also);
        value["unnamed"] = json!(self.plan.unnamed);
        value["dry_run"] = json!(self.dry_run);
        value["open_windows"] = json!(self.open_windows);
        for (index, root) in self.plan.roots.iter().enumerate() {
            value["roots"][index]["windows"] = json!(root.windows);
            value["roots"][index]["linked_elsewhere"] = json!(root.plan.linked_elsewhere);
        }
        Ok(value)
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
    hints: &UndoHints,
) -> Result<ProgramExit, CliError> {
    if ui.wants_json() {
        ui.print_json(&shown.to_json()?)?;
        return Ok(shown.exit_code());
    }
    for note in &shown.report.git {
        print_git_moved(ui, note);
    }
    let explain_windows = !shown.is_window_only();
    for (root, planned) in shown.report.roots.iter().zip(&shown.plan.roots) {
        let windows: &[RelPath] = if explain_windows { &planned.windows } else { &[] };
        if shown.report.roots.len() > 1 {
            ui.print_line(&format!("in {}", text::sanitize_line(&root.root.path)))?;
        }
        print_root_report(ui, &root.report, windows, shown.dry_run)?;
        print_directories(ui, &root.report, &planned.plan, shown.dry_run)?;
    }
    print_unresolved(ui, shown)?;
    print_totals(ui, shown);
    print_next_steps(ui, shown, hints);
    Ok(shown.exit_code())
}

fn print_git_moved(ui: &mut Ui, note: &RepositoryMove) {
    if note.now == GitPosition::default() {
        let mark = apply_style(WARNING_STYLE, "the git repository is gone:");
        ui.print_note(&format!("{mark} .git is never captured, so only files can be restored"));
        return;
    }
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
            let seen = if windows.contains(path) { "  (changed while a command ran)" } else { "" };
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

/// Who else may have changed a path.
fn describe_contention(contended: &ContendedPath, plan: &UndoPlan) -> String {
    let others: BTreeSet<String> = contended
        .claimants
        .iter()
        .filter(|claimant| !plan.turns.contains(&claimant.turn))
        .map(|claimant| match claimant.session == plan.session {
            true => claimant.turn.to_string(),
            false => format!("{} of {}", claimant.turn, claimant.session),
        })
        .collect();
    let others: Vec<String> = others.into_iter().collect();
    let operations: Vec<String> = contended.operations.iter().map(ToString::to_string).collect();
    match (others.is_empty(), operations.is_empty()) {
        (true, false) => format!("changed by {} while the command ran", operations.join(", ")),
        (false, false) => format!(
            "may also have been changed by {}, and by {} while the command ran",
            others.join(", "),
            operations.join(", ")
        ),
        (true, true) if contended.by_others => {
            "also changed by others while the command ran".to_owned()
        }
        (_, true) => format!("may also have been changed by {}", others.join(", ")),
    }
}

fn print_unresolved(ui: &mut Ui, shown: &UndoResult<'_>) -> Result<(), CliError> {
    for contended in &shown.report.contended {
        let reason = describe_contention(contended, shown.plan);
        print_path(ui, &apply_style(ERROR_STYLE, "contended"), &contended.path, &reason)?;
    }
    for (_, path, reason) in &shown.report.not_covered {
        let reason = describe_stored_reason(reason);
        print_path(ui, &apply_style(WARNING_STYLE, "skipped  "), path, reason)?;
    }
    for path in &shown.report.outside {
        let (mark, path) = (apply_style(WARNING_STYLE, "skipped  "), text::sanitize_line(path));
        let reason = apply_style(DIM_STYLE, "(outside of every captured directory)");
        ui.print_line(&format!("{mark}  {path}  {reason}"))?;
    }
    print_removed_repositories(ui, &shown.report.git)?;
    for lost in &shown.report.lost {
        let mark = apply_style(WARNING_STYLE, "unknown  ");
        let root = text::sanitize_line(&lost.root.path);
        let why = match lost.missing {
            MissingCapture::Before => "there was no space to capture it before the command",
            MissingCapture::After => "it could not be captured after the command",
        };
        let reason = format!("what turn {} changed here was not recorded: {why}", lost.turn);
        ui.print_line(&format!(
            "{mark}  {root}  {}",
            apply_style(DIM_STYLE, format!("({reason})"))
        ))?;
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

fn print_removed_repositories(ui: &mut Ui, found: &[RepositoryMove]) -> Result<(), CliError> {
    for repository in found.iter().filter(|repository| repository.removed) {
        let mark = apply_style(WARNING_STYLE, "skipped  ");
        let path = text::sanitize_line(&format!("{}/.git", repository.root.path));
        let reason = apply_style(DIM_STYLE, "(removed by the turn; it is never captured)");
        ui.print_line(&format!("{mark}  {path}  {reason}"))?;
    }
    Ok(())
}

fn print_path(ui: &mut Ui, mark: &str, path: &RelPath, reason: &str) -> Result<(), CliError> {
    let path = text::sanitize_line(&path.to_string());
    ui.print_line(&format!("{mark}  {path}  {}", apply_style(DIM_STYLE, format!("({reason})"))))
}

fn print_totals(ui: &mut Ui, shown: &UndoResult<'_>) {
    let left = shown.sum(|report| report.conflicts.len()) + shown.report.contended.len();
    let uncovered = shown.sum(|report| report.not_covered.len())
        + shown.report.not_covered.len()
        + shown.report.outside.len()
        + shown.report.git.iter().filter(|repository| repository.removed).count();
    let counts = [
        (shown.sum(|report| report.restored.len()), "restored", "to restore"),
        (shown.sum(|report| report.removed.len()), "removed", "to remove"),
        (shown.sum(|report| report.merged.len()), "merged", "to merge"),
        (left, "in conflict", "in conflict"),
    ];
    let mut list: Vec<String> = counts
        .iter()
        .filter(|(count, ..)| *count > 0)
        .map(|(count, done, planned)| {
            let what = if shown.dry_run { planned } else { done };
            format!("{} {what}", number_format::format_counted(*count, "file"))
        })
        .collect();
    let skipped = uncovered + shown.plan.unnamed.len();
    if skipped > 0 {
        // A directory that is skipped stands for everything in it.
        let what = if shown.dry_run { "to skip" } else { "skipped" };
        list.push(format!("{} {what}", number_format::format_counted(skipped, "path")));
    }
    let directories = shown.sum(|report| listed_directories(report).count());
    if directories > 0 {
        let what = if shown.dry_run { "to change" } else { "changed" };
        list.push(format!("{} {what}", number_format::format_counted(directories, "directory")));
    }
    let all = list.join(", ");
    match (list.is_empty(), shown.dry_run) {
        (true, _) if shown.scope == UndoAspect::Conversation => {
            ui.print_note("files are left as they are (--conversation)");
        }
        (true, true) => ui.print_note("no recorded file would change"),
        (true, false) => ui.print_note("no recorded file was changed"),
        (false, true) => ui.print_note(&format!("{all} (dry run: no file was changed)")),
        (false, false) => ui.print_note(&all),
    }
    if list.is_empty() {
        print_why_nothing_changed(ui, shown);
    }
    print_foreign_changes(ui, &shown.report);
    print_unobserved(ui, shown);
    print_linked_elsewhere(ui, shown);
    if shown.report.without_effect {
        let verb = if shown.dry_run { "would" } else { "does" };
        let done = past_participle(shown.report.kind);
        ui.print_note(&format!("no files could be {done}: the conversation {verb} not change"));
    } else {
        print_unmoved_conversations(ui, shown);
    }
}

/// Says why there was nothing to do, or what of it is not known.
fn print_why_nothing_changed(ui: &mut Ui, shown: &UndoResult<'_>) {
    if shown.was_done_before() {
        let done = past_participle(shown.report.kind);
        ui.print_note(&format!("note: the files of these turns are {done} already"));
    } else if shown.scope != UndoAspect::Conversation && shown.report.is_complete() {
        // Nothing is known of these, so it would be wrong to say that there was nothing to undo.
        ui.print_note(
            "note: owners of files, and the permissions of the project directory itself, are not recorded",
        );
    }
}

/// Names files that are written in place although they have names that the undo is not about.
fn print_linked_elsewhere(ui: &mut Ui, shown: &UndoResult<'_>) {
    for root in &shown.plan.roots {
        let files = BoundedPaths::new(root.plan.linked_elsewhere.clone());
        let verb = match files.count() {
            0 => continue,
            1 => "has other names (hard links), which change with it",
            _ => "have other names (hard links), which change with them",
        };
        ui.print_note(&format!("note: {} {verb}", list_paths(&files)));
    }
}

/// Names the conversations of several sessions that do not follow the files.
fn print_unmoved_conversations(ui: &mut Ui, shown: &UndoResult<'_>) {
    let done = past_participle(shown.report.kind);
    for left in &shown.report.conversations_left {
        let reason = match left.reason {
            UnmovedReason::Running => "a turn of it is running".to_owned(),
            UnmovedReason::LaterTurns => format!("later turns of it are not {done}"),
            UnmovedReason::Changed => "it went on meanwhile".to_owned(),
        };
        ui.print_note(&format!(
            "note: the conversation of session {} stays: {reason}",
            left.session
        ));
    }
}

/// Prints how many files others changed while the commands ran.
fn print_foreign_changes(ui: &mut Ui, report: &OperationReport) {
    let count: u64 = report.foreign.iter().map(|it| it.paths.count()).sum();
    if count > 0 {
        ui.print_note(&format!("{} left alone", count_foreign_changes(count)));
    }
}

/// Prints what no capture looks at: whether it was changed is not known.
fn print_unobserved(ui: &mut Ui, shown: &UndoResult<'_>) {
    for it in &shown.report.unobserved {
        let root = text::sanitize_line(&it.root.path);
        match it.skipped {
            None => ui.print_note(&format!(
                "note: files in {root} are not captured; what commands change there cannot be undone"
            )),
            Some(_) if !it.written.is_empty() => {
                let paths = list_paths(&it.written);
                ui.print_note(&format!(
                    "note: not captured in {root}: {paths}; what the command wrote there cannot be undone"
                ));
            }
            Some(count) => {
                let count = usize::try_from(count).unwrap_or(usize::MAX);
                let paths = number_format::format_counted(count, "path");
                let reasons: Vec<&str> =
                    it.reasons.iter().map(|reason| describe_stored_reason(reason)).collect();
                ui.print_note(&format!(
                    "note: not captured in {root}: {paths} ({}); what commands change there cannot \
                     be undone",
                    reasons.join(", ")
                ));
            }
        }
    }
}
