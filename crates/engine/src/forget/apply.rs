//! Making it go.

use std::collections::BTreeSet;
use std::path::Path;

use fail::fail_point;
use serde::Serialize;
use turnstone_core::operation::OperationKind;
use turnstone_core::permission::Gate;
use turnstone_snapshot::{ListedStore, Registry, Tombstones, Vault, VaultError};
use turnstone_store::{Context, Redacted, StoreError};

use super::plan::{ForgetPlan, lines};
use crate::engine::Engine;
use crate::error::Result;

/// What was forgotten.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Forgotten {
    /// Captures that were written anew.
    pub captures: usize,
    /// What was starred out in the ledger.
    pub ledger: Redacted,
    /// Spilled outputs in which something was.
    pub outputs: usize,
}

impl Engine {
    /// Forgets what a plan names. After a crash, [`Engine::recover`] goes on.
    ///
    /// # Errors
    ///
    /// [`crate::EngineError::Refused`] or [`crate::EngineError::Asked`] at the gate, and nothing has
    /// changed; or a store or the ledger refused: what is left is done by recovery, or by asking again.
    pub fn apply_forget(&self, ctx: &Context, plan: &ForgetPlan) -> Result<Forgotten> {
        self.require_forget(ctx, plan)?;
        let vault = self.vault_of(&plan.root, ctx.now)?;
        vault.begin_forget(&plan.patterns, ctx.now)?;
        fail_point!("engine::forget_written", |_| Err(std::io::Error::other("failpoint").into()));
        for touched in &plan.sessions {
            let (session, id) = (touched.session.clone(), self.mint.operation(ctx.now)?);
            let what = serde_json::json!({ "turns": touched.turns, "patterns": plan.patterns });
            let kind = OperationKind::Forget;
            let write =
                move |tx: &turnstone_store::Tx<'_>| tx.note_aside(&session, &id, kind, &what);
            match self.store.write(ctx, write).wait() {
                Ok(()) | Err(StoreError::NoSession(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.carry_forget_out(ctx, &vault, &plan.patterns)
    }

    /// Lets a plan pass the gate: the rules of every session it concerns, or else of the directory.
    ///
    /// # Errors
    ///
    /// As [`Engine::require`].
    pub fn require_forget(&self, ctx: &Context, plan: &ForgetPlan) -> Result<()> {
        // The pattern as it was given, and every path it names: a wildcard opens nothing.
        let named = plan.patterns.iter().chain(&plan.paths);
        let named: Vec<String> = named.cloned().collect::<BTreeSet<_>>().into_iter().collect();
        for touched in &plan.sessions {
            self.require(ctx, &touched.session, Gate::Forget, &named)?;
        }
        if plan.sessions.is_empty() {
            self.require_at(ctx, Path::new(&plan.root.path), Gate::Forget, &named)?;
        }
        Ok(())
    }

    /// What is left to be done once it is written down; safe to be repeated.
    fn carry_forget_out(
        &self,
        ctx: &Context,
        vault: &Vault,
        patterns: &[String],
    ) -> Result<Forgotten> {
        let words = lines(vault, &vault.list_forgettable(patterns)?)?;
        let mut done = Forgotten::default();
        for path in self.outputs_with(&words)? {
            let mut text = String::from_utf8_lossy(&fs_err::read(&path)?).into_owned();
            for word in &words {
                text = text.replace(word, &"*".repeat(word.len()));
            }
            overwrite(&path, &text)?;
            done.outputs += 1;
        }
        done.ledger = self.store.redact(ctx, &words, false)?;
        fail_point!("engine::forget_redacted", |_| Err(std::io::Error::other("failpoint").into()));
        done.captures = vault.finish_forget(ctx.now)?;
        Ok(done)
    }

    /// Goes on with what was to be forgotten when a process died.
    pub(crate) fn finish_forgets(&self, ctx: &Context) -> Result<()> {
        let stores = match fs_err::read_dir(self.settings.data.join("store")) {
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
            let listed = Registry::new(&self.settings.data).list().map_err(VaultError::from)?;
            let is_it = |it: &ListedStore| store.file_name() == it.id.as_str() && it.root_exists;
            // Of a directory that is away, whoever opens it next goes on.
            if let Some(root) = listed.into_iter().find(is_it).and_then(|it| it.root) {
                let vault = self.vault(&root.path, ctx.now)?;
                self.carry_forget_out(ctx, &vault, &pending)?;
            }
        }
        Ok(())
    }
}

/// Puts other bytes into a file, whole or not at all.
fn overwrite(path: &Path, text: &str) -> std::io::Result<()> {
    let aside = path.with_extension("tmp");
    fs_err::write(&aside, text)?;
    fs_err::rename(aside, path)
}
