//! Applying: written down first, carried out by the snapshot stores, written down again.

use std::collections::BTreeSet;

use fail::fail_point;
use turnstone_core::id::{ChangeId, OperationId, SessionId};
use turnstone_core::operation::{Extent, HeadMove, OperationKind, Taken};
use turnstone_core::path::RelPath;
use turnstone_core::time::Millis;
use turnstone_snapshot::{Action, Order};
use turnstone_store::{Context, DoneOperation, Expired, NewOperation, OperationRow};

use super::words::{OperationReport, Part, RootPlan, RootReport, UndoPlan};
use super::written::{branch_of, plan_of, write_plan, write_report, written};
use crate::engine::Engine;
use crate::error::{EngineError, Result};

/// What a plan needs and is no more.
enum Gone {
    Turn(Expired),
    Guard(OperationId, Millis),
}

impl Engine {
    /// Carries a plan out, if it may be. After a crash, [`Engine::recover`] finishes it.
    ///
    /// # Errors
    ///
    /// [`turnstone_store::StoreError::Busy`] while a turn of the session runs;
    /// [`crate::EngineError::Refused`] or [`crate::EngineError::Asked`] at the gate (R37). Then
    /// nothing has changed. Any later failure leaves the operation to recovery.
    pub fn apply(&self, ctx: &Context, plan: &UndoPlan) -> Result<OperationReport> {
        // Asking is not what the caller relies on, nor what its key is for.
        self.let_pass(&ctx.aside(), plan)?;
        let new =
            NewOperation { id: plan.operation.clone(), kind: plan.kind, plan: write_plan(plan)? };
        let (session, needed) = (plan.session.clone(), plan.needed());
        let relies = plan.relies.clone();
        // Between plan and apply what it needs may have expired; from here on it cannot.
        let write = move |tx: &turnstone_store::Tx<'_>| {
            if let Some(expired) = tx.find_expired(&needed)? {
                return Ok(Some(Gone::Turn(expired)));
            }
            if let Some((operation, at)) = tx.find_expired_guard(&session, &relies)? {
                return Ok(Some(Gone::Guard(operation, at)));
            }
            tx.plan_operation(&session, &new).map(|_| None)
        };
        match self.store.write(ctx, write).wait()? {
            Some(Gone::Turn(Expired { session, turn, at })) => {
                return Err(EngineError::Expired { session, turn, at });
            }
            Some(Gone::Guard(operation, at)) => {
                return Err(EngineError::GuardExpired { operation, at });
            }
            None => {}
        }
        fail_point!(
            "engine::operation_planned",
            |_| Err(std::io::Error::other("failpoint").into())
        );
        self.finish(&ctx.settled(), plan)
    }

    /// Carries out what is left of a plan that is written down.
    fn finish(&self, ctx: &Context, plan: &UndoPlan) -> Result<OperationReport> {
        let mut roots = Vec::new();
        for root in &plan.roots {
            roots.push(self.apply_root(ctx, plan, root)?);
            fail_point!("engine::root_applied", |_| {
                Err(std::io::Error::other("failpoint").into())
            });
        }
        let report = plan.report(roots);
        // What could not take a single file back takes nothing else back either.
        let head = match report.without_effect {
            true => HeadMove::Stay,
            false => plan.head.clone(),
        };
        if let Some(switch) = plan.switch.as_ref().filter(|_| !report.without_effect) {
            self.switch(ctx, &plan.session, switch)?;
        }
        let done = DoneOperation {
            id: plan.operation.clone(),
            head,
            taken: plan.changes.iter().filter_map(|part| taken(plan, part, &report)).collect(),
            report: write_report(&report)?,
        };
        self.record(ctx, plan, &report, done)?;
        Ok(report)
    }

    /// Writes down what was done; to-dos and grants follow in the same breath.
    fn record(
        &self,
        ctx: &Context,
        plan: &UndoPlan,
        report: &OperationReport,
        done: DoneOperation,
    ) -> Result<()> {
        let session = self.store.read(ctx, |r| r.get_session(&plan.session))?;
        let todos = plan.todos.clone().filter(|_| !report.without_effect);
        let withdrawn = report.withdrawn.clone();
        let mut stated = Vec::new();
        let others = plan.also.iter().map(|(other, _)| other);
        for one in std::iter::once(&plan.session).chain(others).collect::<BTreeSet<_>>() {
            stated.push((one.clone(), self.state_changes(ctx, one, &done.taken)?));
        }
        let behind = match &done.head {
            HeadMove::To(head) => self.diff_behind(ctx, &plan.session, head)?,
            HeadMove::Stay | HeadMove::Tip => None,
        };
        let record = move |tx: &turnstone_store::Tx<'_>| {
            if let Some(diff) = &behind {
                tx.put_diff(&session.id, diff)?;
            }
            if let Some(todos) = &todos {
                tx.set_todos(&session.id, todos)?;
            }
            for rule in &withdrawn {
                tx.withdraw(&session.project, rule)?;
            }
            stated.iter().try_for_each(|(session, stated)| stated.put(tx, session))?;
            tx.finish_operation(&session.id, &done)
        };
        self.store.write(ctx, record).wait()?;
        Ok(())
    }

    fn apply_root(&self, ctx: &Context, plan: &UndoPlan, root: &RootPlan) -> Result<RootReport> {
        let vault = self.vault_of(&root.root, ctx.now)?;
        let order = Order {
            id: root.order.clone(),
            action: Action::Decided { by: plan.operation.to_string() },
            plan: root.plan.clone(),
        };
        let report = vault.apply(&order, ctx.now)?;
        Ok(RootReport { root: root.root.clone(), report })
    }

    /// Finishes the operation of a session that was cut off, if there is one.
    pub(crate) fn finish_cut_off(
        &self,
        ctx: &Context,
        session: &SessionId,
    ) -> Result<Option<OperationId>> {
        let operations = self.store.read(ctx, |r| r.operations(session))?;
        let is_cut_off =
            |operation: &OperationRow| operation.done.is_none() && !operation.kind.is_aside();
        let Some(open) = operations.into_iter().find(is_cut_off) else {
            return Ok(None);
        };
        if open.kind == OperationKind::Branch {
            self.finish_branch(ctx, session, &open.id, &branch_of(&open)?)?;
            return Ok(Some(open.id));
        }
        self.finish(ctx, &plan_of(&open)?)?;
        Ok(Some(open.id))
    }
}

impl UndoPlan {
    /// The change sets of which something moves, with their sessions.
    fn needed(&self) -> Vec<(SessionId, ChangeId)> {
        let moves = |part: &&Part| {
            part.paths.iter().any(|path| part.wanted.has(path) != part.taken.contains(path))
        };
        let named = |part: &Part| {
            (part.session.clone().unwrap_or_else(|| self.session.clone()), part.change.clone())
        };
        self.changes.iter().filter(moves).map(named).collect()
    }
}

/// How much of a change set is taken back after what the report says; nothing if as much as before.
fn taken(plan: &UndoPlan, part: &Part, report: &OperationReport) -> Option<Taken> {
    let reached: BTreeSet<&RelPath> = plan
        .roots
        .iter()
        .zip(&report.roots)
        .filter(|(root, _)| root.root.store == part.store)
        .flat_map(|(root, done)| {
            // An undo took what it moved: where a path already held what was wanted, somebody else
            // had brought that about, and a redo must not undo their work.
            let unmoved = root.plan.unchanged.iter().filter(|path| !part.wanted.has(path));
            written(done).chain(unmoved)
        })
        .collect();
    let before: BTreeSet<&RelPath> = part.taken.iter().collect();
    let is_taken = |path: &&RelPath| match reached.contains(path) {
        true => part.wanted.has(path),
        false => before.contains(path),
    };
    let after: Vec<RelPath> = part.paths.iter().filter(is_taken).cloned().collect();
    if after.iter().collect::<BTreeSet<_>>() == before {
        return None;
    }
    let extent = match after.len() {
        0 => Extent::Nothing,
        all if all == part.paths.len() => Extent::All,
        _ => Extent::Paths(after),
    };
    Some(Taken { change: part.change.clone(), extent })
}
