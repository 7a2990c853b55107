//! An undo or redo that was interrupted and that this command has just finished.

use serde_json::json;
use turnstone_core::id::{OperationId, SessionId, TurnId};
use turnstone_core::model::Session;
use turnstone_core::operation::OperationKind;
use turnstone_engine::{Engine, OperationReport, UndoAspect, UndoPlan};
use turnstone_store::Context;

use super::run::print_turns;
use super::undo_hints::UndoHints;
use super::undo_report;
use crate::app::CliApp;
use crate::error::CliError;
use crate::exit_code::ProgramExit;
use crate::session_lookup;
use crate::ui::Ui;

/// What recovery finished, with what it was to do.
pub(super) struct RecoveredOperation {
    session: Session,
    plan: UndoPlan,
    report: OperationReport,
}

/// What the caller asked for.
pub(super) struct RepeatedRequest<'a> {
    pub(super) kind: OperationKind,
    /// The session that was named.
    pub(super) session: Option<&'a SessionId>,
    /// The turns that were named; empty: the newest one.
    pub(super) turns: &'a [TurnId],
}

impl RecoveredOperation {
    /// Finds what was asked for among the operations that recovery has just finished.
    ///
    /// The caller saw the first attempt fail and repeats it: another turn must not be undone instead.
    pub(super) fn find(
        app: &CliApp,
        engine: &Engine,
        ctx: &Context,
        (recovered, wanted): (&[OperationId], &RepeatedRequest<'_>),
    ) -> Result<Option<Self>, CliError> {
        if recovered.is_empty() {
            return Ok(None);
        }
        let sessions = match wanted.session {
            Some(session) => vec![session.clone()],
            None => {
                let checkout = session_lookup::resolve_checkout(app, engine, ctx)?;
                engine.history().checkout_turns().list_sessions_with_undo(ctx, &checkout)?
            }
        };
        for session in sessions {
            for id in recovered {
                let Some((plan, report)) = engine.history().find_finished(ctx, &session, id)?
                else {
                    continue;
                };
                let is_named = wanted.turns.iter().all(|turn| plan.turns.contains(turn));
                if plan.kind == wanted.kind && is_named {
                    let session = engine.store().read(ctx, |r| r.sessions().get(&session))?;
                    return Ok(Some(Self { session, plan, report }));
                }
            }
        }
        Ok(None)
    }

    /// Prints what it did.
    pub(super) fn print(
        self,
        ui: &mut Ui,
        app: &CliApp,
        engine: &Engine,
        ctx: &Context,
    ) -> Result<ProgramExit, CliError> {
        let Self { session, plan, report } = self;
        print_turns(ui, engine, ctx, &plan, &session.directory)?;
        let kind = plan.kind.as_str();
        ui.print_note(&format!("note: this {kind} had been interrupted and is finished now"));
        let project = json!({ "id": session.project, "directory": session.directory });
        let shown = undo_report::UndoResult::applied(&plan, UndoAspect::Both, report);
        let hints = UndoHints::collect(app, engine, ctx, &plan)?;
        undo_report::print_result(ui, &shown.in_project(project), &hints)
    }
}
