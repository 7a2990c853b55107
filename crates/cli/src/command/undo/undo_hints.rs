//! The commands to run next, as they can be typed in the current directory.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use turnstone_core::change::{ChangeRoot, UncoveredReason};
use turnstone_core::id::TurnId;
use turnstone_core::operation::{HeadTarget, OperationKind};
use turnstone_core::rel_path::RelPath;
use turnstone_engine::{Engine, UndoAspect, UndoPlan, UndoTarget};
use turnstone_snapshot::ConflictReason;
use turnstone_store::Context;

use super::undo_report::UndoResult;
use crate::app::CliApp;
use crate::command::exec::quote_os_word;
use crate::error::CliError;
use crate::number_format;
use crate::session_lookup;
use crate::text;
use crate::ui::Ui;

/// Shown length of a capture ID.
const SHORT_CAPTURE_LENGTH: usize = 12;
/// Conflicts with a hint each; the others are alike.
const MAX_CONFLICT_HINTS: usize = 3;

/// What the hints need to know.
pub(crate) struct UndoHints {
    /// Capture from before the turns, per store and path.
    before: BTreeMap<(String, RelPath), String>,
    directory: PathBuf,
    /// ` --session ID`, unless an undo without it is about the same turns.
    undo_flag: String,
    /// ` --session ID`, unless a redo without it is about the same session.
    redo_flag: String,
    /// True if the turns are what an undo without arguments undoes.
    is_newest_turn: bool,
    /// True if a later prompt replaced one of the turns in the conversation.
    has_replaced_turn: bool,
}

impl UndoHints {
    /// Finds the captures from before the turns, and how the session and the turns have to be named.
    pub(crate) fn collect(
        app: &CliApp,
        engine: &Engine,
        ctx: &Context,
        plan: &UndoPlan,
    ) -> Result<Self, CliError> {
        let mut before = BTreeMap::new();
        let own = plan.turns.iter().map(|turn| (&plan.session, turn));
        for (session, turn) in own.chain(plan.also.iter().map(|(session, turn)| (session, turn))) {
            for row in engine.store().read(ctx, |r| r.change_sets().of_turn(session, turn))? {
                let Some(capture) = row.before else { continue };
                // What the turn created has no content from before: restoring that would remove it.
                for change in row.set.changes.into_iter().filter(|it| it.before.leaf().is_some()) {
                    let key = (row.set.root.store.clone(), change.path);
                    before.entry(key).or_insert_with(|| capture.clone());
                }
            }
        }
        // The files have changed already: a directory that is gone must not hide what was done.
        let checkout = session_lookup::resolve_checkout(app, engine, ctx).ok();
        let all = engine.history().checkout_turns();
        let next_undo = |aspect| {
            let next = all.choose_undo(ctx, checkout.as_ref()?, 1, aspect).ok()?;
            Some(next.target)
        };
        let next_redo = checkout.as_ref().and_then(|scope| all.choose_redo(ctx, scope).ok());
        let flag = |is_next: bool| match is_next {
            true => String::new(),
            false => format!(" --session {}", plan.session),
        };
        let is_next_undo = next_undo(UndoAspect::Conversation).is_some_and(|next| {
            plan.turns.iter().any(|turn| next == UndoTarget::Turn(turn.clone()))
        });
        let is_newest_turn = match (plan.turns.as_slice(), next_undo(UndoAspect::Both)) {
            ([only], Some(UndoTarget::Turn(next))) => plan.also.is_empty() && next == *only,
            _ => false,
        };
        let turns = engine.store().read(ctx, |r| r.turns().list(&plan.session))?;
        let has_replaced_turn =
            turns.iter().any(|turn| turn.hidden && plan.turns.contains(&turn.id));
        let here = app.directory().unwrap_or(Path::new("/"));
        let directory = fs_err::canonicalize(here).unwrap_or_else(|_| here.to_owned());
        Ok(Self {
            before,
            directory,
            undo_flag: flag(is_next_undo),
            redo_flag: flag(next_redo.as_ref() == Some(&plan.session)),
            is_newest_turn,
            has_replaced_turn,
        })
    }

    /// How to get the content from before the turn back, if there was any.
    fn restore_remedy(&self, root: &ChangeRoot, path: &RelPath) -> String {
        match self.before.get(&(root.store.clone(), path.clone())) {
            Some(before) => {
                let before = before.get(..SHORT_CAPTURE_LENGTH).unwrap_or(before);
                let typed = self.shell_path(root, path);
                format!(
                    "`turnstone snapshot restore {before} {typed}` restores its content from before \
                     the turn and discards later changes (try --dry-run)"
                )
            }
            None => "edit or remove it by hand".to_owned(),
        }
    }

    /// A path of a root, relative to the current directory and quoted for a shell.
    fn shell_path(&self, root: &ChangeRoot, path: &RelPath) -> String {
        let path = Path::new(&root.path).join(OsStr::from_bytes(path.as_bytes()));
        quote_path(&relative_path(&self.directory, &path))
    }
}

/// A path as one word for a shell, which no program takes for an option.
fn quote_path(path: &Path) -> String {
    let path = match path.as_os_str().as_bytes().starts_with(b"-") {
        true => &Path::new(".").join(path),
        false => path,
    };
    quote_os_word(path.as_os_str())
}

/// The way from a directory to a path, both absolute.
fn relative_path(directory: &Path, path: &Path) -> PathBuf {
    let (from, to): (Vec<Component<'_>>, Vec<Component<'_>>) =
        (directory.components().collect(), path.components().collect());
    let shared = from.iter().zip(&to).take_while(|(one, other)| one == other).count();
    let up = from.iter().skip(shared).map(|_| Component::ParentDir);
    up.chain(to.iter().skip(shared).copied()).collect()
}

/// Prints the commands to run next.
pub(super) fn print_next_steps(ui: &mut Ui, shown: &UndoResult<'_>, hints: &UndoHints) {
    if hints.has_replaced_turn && shown.report.kind == OperationKind::Redo {
        ui.print_note(
            "note: a later prompt replaced this turn in the conversation; only its files are redone",
        );
    }
    print_conflict_hints(ui, shown, hints);
    let verb = shown.report.kind.as_str();
    if !shown.report.contended.is_empty() {
        let also = shown.plan.also.iter().map(|(_, turn)| turn);
        let mut turns: Vec<&TurnId> = shown.report.turns.iter().chain(also).collect();
        let undone = turns.len();
        let claimants = shown.report.contended.iter().flat_map(|it| &it.claimants);
        for claimant in claimants.filter(|it| !it.elsewhere) {
            if !turns.contains(&&claimant.turn) {
                turns.push(&claimant.turn);
            }
        }
        if turns.len() > undone {
            let turns: Vec<String> = turns.iter().map(ToString::to_string).collect();
            let turns = turns.join(" ");
            ui.print_hint(&format!(
                "these turns ran at the same time; {verb} them together: `turnstone {verb} {turns}`"
            ));
        }
    }
    let moves = shown.plan.head != HeadTarget::Stay;
    let flag = match shown.report.kind == OperationKind::Undo {
        true => &hints.undo_flag,
        false => &hints.redo_flag,
    };
    if shown.report.without_effect && moves {
        ui.print_hint(&format!(
            "`turnstone {verb}{flag} --conversation` changes only the conversation"
        ));
    }
    if shown.plan.is_head_last && !shown.report.remaining.is_empty() && !shown.dry_run {
        let count = number_format::format_counted(shown.report.remaining.len(), "file");
        let command = match shown.report.kind == OperationKind::Undo {
            true => undo_command(shown.plan, hints),
            false => format!("turnstone {verb}{flag}"),
        };
        ui.print_hint(&format!("{count} of these turns can still be {verb}ne: `{command}`"));
    }
    let has_effect = shown.changed() > 0 || (moves && !shown.report.without_effect);
    match (shown.dry_run, shown.report.kind) {
        (false, OperationKind::Undo) if has_effect => {
            let flag = &hints.redo_flag;
            ui.print_hint(&format!("`turnstone redo{flag}` reverses this undo"));
        }
        (false, OperationKind::Redo) if has_effect => {
            let command = undo_command(shown.plan, hints);
            ui.print_hint(&format!("`{command}` reverses this redo"));
        }
        _ => {}
    }
}

/// The command that undoes the turns of a plan.
fn undo_command(plan: &UndoPlan, hints: &UndoHints) -> String {
    if hints.is_newest_turn {
        return "turnstone undo".to_owned();
    }
    let turns = plan.turns.iter().chain(plan.also.iter().map(|(_, turn)| turn));
    turns.fold("turnstone undo".to_owned(), |command, turn| format!("{command} {turn}"))
}

fn print_conflict_hints(ui: &mut Ui, shown: &UndoResult<'_>, hints: &UndoHints) {
    let verb = if shown.report.kind == OperationKind::Undo { "undo" } else { "redo" };
    // What is in the way for good does not keep the turn: it has to be named then.
    let again = match (shown.dry_run, shown.report.kind) {
        (false, OperationKind::Undo) => format!("run `{}`", undo_command(shown.plan, hints)),
        _ => format!("repeat the {verb}"),
    };
    let conflicts =
        shown.report.roots.iter().flat_map(|root| {
            root.report.conflicts.iter().map(move |conflict| (&root.root, conflict))
        });
    for (root, conflict) in conflicts.take(MAX_CONFLICT_HINTS) {
        let name = text::sanitize_line(&conflict.path.to_string());
        let remedy = match conflict.why {
            ConflictReason::ReadOnly => {
                format!("make it and its directory writable, then {again}")
            }
            ConflictReason::Immutable => format!(
                "`lsattr -d` shows whether it or its directory is immutable (i) or append-only (a); \
                 `chattr -i -a` ends that, then {again}"
            ),
            ConflictReason::NoSpace => format!("free disk space, then {again}"),
            ConflictReason::InTheWay => format!("move what is in its place, then {again}"),
            ConflictReason::OnlyCopy => {
                format!("move the file in the place of the original, then {again}")
            }
            ConflictReason::Overlap
            | ConflictReason::NotMergeable
            | ConflictReason::Changed
            | ConflictReason::Refused
            | ConflictReason::ModeChanged
            | ConflictReason::ChangedSinceCreation
            | ConflictReason::Removed
            | ConflictReason::Recreated
            | ConflictReason::KindChanged => hints.restore_remedy(root, &conflict.path),
        };
        ui.print_hint(&format!("{name} was not changed; {remedy}"));
    }
    print_skipped_hint(ui, shown, &again);
}

/// How to go on with files that a symbolic link leads to, or that cannot be read.
fn print_skipped_hint(ui: &mut Ui, shown: &UndoResult<'_>, again: &str) {
    let has = |wanted: UncoveredReason| {
        let mut skipped = shown.report.roots.iter().flat_map(|root| &root.report.not_covered);
        skipped.any(|(_, reason)| *reason == wanted)
    };
    if has(UncoveredReason::BehindLink) {
        ui.print_hint(&format!(
            "move the symbolic link away that took a directory's place, then {again}"
        ));
    }
    if has(UncoveredReason::Unreadable) {
        ui.print_hint(&format!("make the unreadable files readable, then {again}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_relative_to_the_current_directory() {
        let relative = |directory: &str, path: &str| {
            relative_path(Path::new(directory), Path::new(path)).to_string_lossy().into_owned()
        };

        assert_eq!(relative("/p", "/p/a/b"), "a/b");
        assert_eq!(relative("/p/src", "/p/a"), "../a");
        assert_eq!(relative("/p/src/x", "/p/src/y z"), "../y z");
        assert_eq!(relative("/q", "/p/a"), "../p/a");
    }

    #[test]
    fn quoted_path_is_no_option_and_names_its_file() {
        assert_eq!(quote_path(Path::new("-dash")), "./-dash");
        assert_eq!(quote_path(Path::new("a b")), "'a b'");
        assert_eq!(quote_path(Path::new(OsStr::from_bytes(b"\xffb'in"))), r"$'\xffb\'in'");
    }
}
