//! Applying: written down first, carried out by the snapshot stores, written down again.

use std::collections::BTreeSet;

use fail::fail_point;
use turnstone_core::id::{OperationId, SessionId};
use turnstone_core::operation::{Extent, OperationKind, Taken};
use turnstone_core::path::RelPath;
use turnstone_snapshot::{Action, Order};
use turnstone_store::{Context, DoneOperation, NewOperation};

use super::words::{OperationReport, Part, RootPlan, RootReport, UndoPlan};
use crate::engine::Engine;
use crate::error::Result;

impl Engine {
    /// Carries a plan out. After a crash, [`Engine::recover`] finishes it.
    ///
    /// # Errors
    ///
    /// [`turnstone_store::StoreError::Busy`] while a turn of the session runs; then nothing has
    /// changed. Any later failure leaves the operation to recovery.
    pub fn apply(&self, ctx: &Context, plan: &UndoPlan) -> Result<OperationReport> {
        let new = NewOperation {
            id: plan.operation.clone(),
            kind: plan.kind,
            // One text, so that a long plan is a value of its own.
            plan: serde_json::json!({
                "turns": plan.turns,
                "also": plan.also,
                "switched": plan.switch.is_some(),
                "whole": serde_json::to_string(plan).map_err(std::io::Error::from)?,
            }),
        };
        let session = plan.session.clone();
        self.store.write(ctx, move |tx| tx.plan_operation(&session, &new)).wait()?;
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
        let report = OperationReport {
            operation: plan.operation.clone(),
            kind: plan.kind,
            turns: plan.turns.clone(),
            roots,
            contended: plan.contended.clone(),
            not_covered: plan.not_covered.clone(),
            git: plan.git.clone(),
            withdrawn: plan.withdrawn.clone(),
        };
        if let Some(switch) = &plan.switch {
            self.switch(ctx, &plan.session, switch)?;
        }
        let done = DoneOperation {
            id: plan.operation.clone(),
            head: plan.head.clone(),
            taken: plan.changes.iter().filter_map(|part| taken(plan, part, &report)).collect(),
            report: serde_json::json!({
                "whole": serde_json::to_string(&report).map_err(std::io::Error::from)?,
            }),
        };
        self.record(ctx, plan, done)?;
        Ok(report)
    }

    /// Writes down what was done; to-dos and grants follow in the same breath.
    fn record(&self, ctx: &Context, plan: &UndoPlan, done: DoneOperation) -> Result<()> {
        let session = self.store.read(ctx, |r| r.get_session(&plan.session))?;
        let (todos, withdrawn) = (plan.todos.clone(), plan.withdrawn.clone());
        let record = move |tx: &turnstone_store::Tx<'_>| {
            if let Some(todos) = &todos {
                tx.set_todos(&session.id, todos)?;
            }
            for rule in &withdrawn {
                tx.withdraw(&session.project, rule)?;
            }
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
        let Some(open) = operations.into_iter().find(|operation| operation.done.is_none()) else {
            return Ok(None);
        };
        if open.kind == OperationKind::Branch {
            let plan = serde_json::from_value(open.plan).map_err(std::io::Error::from)?;
            self.finish_branch(ctx, session, &open.id, &plan)?;
            return Ok(Some(open.id));
        }
        let whole = open.plan.get("whole").and_then(serde_json::Value::as_str).unwrap_or_default();
        let plan: UndoPlan = serde_json::from_str(whole).map_err(std::io::Error::from)?;
        self.finish(ctx, &plan)?;
        Ok(Some(open.id))
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
            let done = &done.report;
            let now = done.restored.iter().chain(&done.removed).chain(&done.merged);
            // An undo took what it moved: where a path already held what was wanted, somebody else
            // had brought that about, and a redo must not undo their work.
            now.chain(root.plan.unchanged.iter().filter(|path| !part.wanted.has(path)))
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
