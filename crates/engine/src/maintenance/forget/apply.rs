//! Making it go.

use std::collections::BTreeSet;
use std::path::Path;

use fail::fail_point;
use serde::Serialize;
use turnstone_core::operation::OperationKind;
use turnstone_core::permission::GatedOperation;
use turnstone_snapshot::{ListedStore, SnapshotError, SnapshotHandle, StoreRegistry, Tombstones};
use turnstone_store::{Context, RedactionReport, StoreError};

use super::plan::{ForgetPlan, collect_lines};
use crate::error::Result;
use crate::maintenance::forget::PathEraser;

/// What was forgotten.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ForgetReport {
    /// Captures that were rewritten.
    pub captures: usize,
    /// What was starred out in the database.
    pub ledger: RedactionReport,
    /// Spilled outputs in which something was.
    pub outputs: usize,
}

impl PathEraser {
    /// Removes what a plan names. After a crash, [`crate::Maintenance::recover_all`] continues.
    ///
    /// # Errors
    ///
    /// [`crate::EngineError::PermissionRefused`] or [`crate::EngineError::PermissionPending`] at the gate, and nothing has
    /// changed; or a store or the database refused: what is left is done by recovery, or by asking again.
    pub fn apply(&self, ctx: &Context, plan: &ForgetPlan) -> Result<ForgetReport> {
        self.require_permission(ctx, plan)?;
        let handle = self.snapshots.of_root(&plan.root, ctx.now)?;
        handle.maintenance().begin_forget(&plan.patterns, ctx.now)?;
        fail_point!("engine::forget_written", |_| Err(std::io::Error::other("failpoint").into()));
        for touched in &plan.sessions {
            let (session, id) =
                (touched.session.clone(), self.id_generator.new_operation_id(ctx.now)?);
            let what = serde_json::json!({ "turns": touched.turns, "patterns": plan.patterns });
            let kind = OperationKind::Forget;
            let write = move |tx: &turnstone_store::Tx<'_>| {
                tx.operations().record_finished(&session, &id, kind, &what)
            };
            match self.store.write(ctx, write).wait() {
                Ok(()) | Err(StoreError::NoSession(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.execute(ctx, &handle, &plan.patterns)
    }

    /// Lets a plan pass the gate: the rules of every session it concerns, or else of the directory.
    ///
    /// # Errors
    ///
    /// As [`crate::OperationGates::require`].
    pub fn require_permission(&self, ctx: &Context, plan: &ForgetPlan) -> Result<()> {
        // The pattern as it was given, and every path it names: a wildcard opens nothing.
        let named = plan.patterns.iter().chain(&plan.paths);
        let named: Vec<String> = named.cloned().collect::<BTreeSet<_>>().into_iter().collect();
        for touched in &plan.sessions {
            self.gates.require(ctx, &touched.session, GatedOperation::Forget, &named)?;
        }
        if plan.sessions.is_empty() {
            self.gates.require_at(
                ctx,
                Path::new(&plan.root.path),
                GatedOperation::Forget,
                &named,
            )?;
        }
        Ok(())
    }

    /// What is left to do once it is recorded; safe to repeat.
    fn execute(
        &self,
        ctx: &Context,
        handle: &SnapshotHandle,
        patterns: &[String],
    ) -> Result<ForgetReport> {
        self.traces.remove_closed(&self.store, ctx)?;
        let words = collect_lines(handle, &handle.reader().list_forgettable(patterns)?)?;
        let mut done = ForgetReport::default();
        for path in self.find_outputs_containing(&words)? {
            let mut text = String::from_utf8_lossy(&fs_err::read(&path)?).into_owned();
            for word in &words {
                text = text.replace(word, &"*".repeat(word.len()));
            }
            replace_file(&path, &text)?;
            done.outputs += 1;
        }
        done.ledger = self.store.maintenance().redact(ctx, &words, false)?;
        fail_point!("engine::forget_redacted", |_| Err(std::io::Error::other("failpoint").into()));
        done.captures = handle.maintenance().finish_forget(ctx.now)?;
        Ok(done)
    }

    /// Goes on with what was to be forgotten when a process died.
    pub(crate) fn finish_interrupted(&self, ctx: &Context) -> Result<()> {
        let stores = match fs_err::read_dir(self.data.join("store")) {
            Ok(stores) => stores,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        for store in stores {
            let store = store?;
            if !store.file_type()?.is_dir() {
                continue;
            }
            let pending = Tombstones::read(&store.path())?.pending;
            if pending.is_empty() {
                continue;
            }
            let listed =
                StoreRegistry::new(&self.data).list_stores().map_err(SnapshotError::from)?;
            let is_it = |it: &ListedStore| store.file_name() == it.id.as_str() && it.root_exists;
            // If the directory is missing, the next process that opens it continues.
            if let Some(root) = listed.into_iter().find(is_it).and_then(|it| it.root) {
                let handle = self.snapshots.open(&root.path, ctx.now)?;
                self.execute(ctx, &handle, &pending)?;
            }
        }
        Ok(())
    }
}

/// Puts other bytes into a file, whole or not at all.
fn replace_file(path: &Path, text: &str) -> std::io::Result<()> {
    let aside = path.with_extension("tmp");
    fs_err::write(&aside, text)?;
    fs_err::rename(aside, path)
}
