//! The log of operations: what each restore was for, what it did, and how it is taken back.

use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use turnstone_core::time::EpochMillis;

use super::pending_plan::{PendingPlan, random_id};
use super::plan::{RestoreError, RestorePlan, TargetState};
use super::report::RestoreReport;
use crate::object_store::Oid;
use crate::path::RelPath;
use crate::pin_group::PinGroup;
use crate::registry::write_json;
use crate::snapshot_store::SnapshotStore;

/// Text that does not name an operation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not the id of an operation: 24 hexadecimal digits are expected")]
pub struct OperationIdError(String);

/// Names an operation; minted by whoever asks for it, so that asking twice does it once.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct OperationId(String);

impl OperationId {
    /// Makes an id that nobody else has.
    ///
    /// # Errors
    ///
    /// The system gives no random bytes.
    pub fn generate() -> io::Result<Self> {
        random_id().map(Self)
    }

    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The pin group that keeps what the operation displaced.
    #[must_use]
    pub fn group(&self) -> PinGroup {
        PinGroup::new(&format!("{GROUP_PREFIX}{}", self.0))
    }
}

/// How the pin groups of operations begin.
pub(crate) const GROUP_PREFIX: &str = "restore ";

impl FromStr for OperationId {
    type Err = OperationIdError;

    fn from_str(text: &str) -> Result<Self, OperationIdError> {
        let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        match text.len() == 24 && text.bytes().all(is_hex) {
            true => Ok(Self(text.to_owned())),
            false => Err(OperationIdError(text.to_owned())),
        }
    }
}

impl TryFrom<String> for OperationId {
    type Error = OperationIdError;

    fn try_from(text: String) -> Result<Self, OperationIdError> {
        text.parse()
    }
}

impl From<OperationId> for String {
    fn from(id: OperationId) -> Self {
        id.0
    }
}

impl std::fmt::Display for OperationId {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.0)
    }
}

/// What an operation is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OperationAction {
    /// Files are made equal to a capture.
    Restore {
        /// The capture's content.
        tree: Oid,
        /// Which paths; empty for all.
        paths: Vec<RelPath>,
    },
    /// Files are brought to where somebody else decided.
    Decided {
        /// Their name for it.
        by: String,
    },
    /// An operation is taken back.
    Undo {
        /// Which.
        of: OperationId,
    },
}

/// A plan that is to be carried out, once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperationRequest {
    /// Names the operation.
    pub id: OperationId,
    /// What it is for.
    pub action: OperationAction,
    /// What it does.
    pub plan: RestorePlan,
}

/// What the log says of an operation besides its plan and its report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct OperationHeader {
    pub(super) number: u64,
    pub(super) time: EpochMillis,
    pub(super) action: OperationAction,
}

/// An operation that was done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoggedOperation {
    /// Its name.
    pub id: OperationId,
    /// Its place in the log, from one.
    pub number: u64,
    /// When it was asked for.
    pub time: EpochMillis,
    /// What it was for.
    pub action: OperationAction,
    /// What it was to do.
    pub plan: RestorePlan,
    /// What it did.
    pub report: RestoreReport,
}

impl LoggedOperation {
    /// What takes this operation back: what it did as it was before, changes made since kept.
    #[must_use]
    pub fn inverse(&self) -> Vec<TargetState> {
        let RestoreReport { restored, removed, merged, .. } = &self.report;
        let done: std::collections::BTreeSet<&RelPath> =
            restored.iter().chain(removed).chain(merged).collect();
        let mut wishes = self.plan.inverse();
        wishes.retain(|wish| done.contains(&wish.path));
        wishes
    }
}

impl SnapshotStore {
    /// Lists the operations that were done, newest first.
    ///
    /// # Errors
    ///
    /// The log cannot be read.
    pub fn list_operations(&self) -> io::Result<Vec<LoggedOperation>> {
        let entries = match fs_err::read_dir(log_dir(&self.directory)) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut found = Vec::new();
        for entry in entries {
            let path = entry?.path();
            if path.extension().is_some_and(|it| it == "json") {
                found.push(read_operation(&path)?);
            }
        }
        found.sort_by_key(|operation: &LoggedOperation| std::cmp::Reverse(operation.number));
        Ok(found)
    }

    /// Finds an operation that was done.
    ///
    /// # Errors
    ///
    /// The log cannot be read.
    pub fn find_operation(&self, id: &OperationId) -> io::Result<Option<LoggedOperation>> {
        match read_operation(&log_file(&self.directory, id.as_str())) {
            Ok(operation) => Ok(Some(operation)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Plans to take an operation back, keeping what was changed since.
    ///
    /// # Errors
    ///
    /// As [`SnapshotStore::plan_targets`].
    pub fn plan_undo(&self, operation: &LoggedOperation) -> Result<RestorePlan, RestoreError> {
        self.plan_targets(&operation.inverse())
    }

    /// Writes an operation into the log, durably, if that was asked for.
    pub(super) fn log_operation(
        &self,
        stored: &PendingPlan,
        report: &RestoreReport,
    ) -> io::Result<()> {
        let Some(OperationHeader { number, time, action }) = stored.entry.clone() else {
            return Ok(());
        };
        let id = stored.id.parse().map_err(io::Error::other)?;
        let (plan, report) = (stored.plan.clone(), report.clone());
        let operation = LoggedOperation { id, number, time, action, plan, report };
        fs_err::create_dir_all(log_dir(&self.directory))?;
        fs_err::File::open(&self.directory)?.sync_all()?;
        write_json(&log_file(&self.directory, operation.id.as_str()), &operation)
    }

    /// Lets go of the bytes of merges of operations that touched some path; they are done, and what
    /// takes them back needs none.
    pub(crate) fn drop_merged_bytes(&self, is_meant: &dyn Fn(&RelPath) -> bool) -> io::Result<()> {
        for mut operation in self.list_operations()? {
            let steps = &operation.plan.steps;
            if steps.iter().any(|step| step.merged && is_meant(&step.path)) {
                operation.plan.merges.clear();
                write_json(&log_file(&self.directory, operation.id.as_str()), &operation)?;
            }
        }
        Ok(())
    }

    /// Forgets operations, whose captures are gone.
    pub(crate) fn remove_operations(
        &self,
        gone: impl Fn(&LoggedOperation) -> bool,
    ) -> io::Result<()> {
        for operation in self.list_operations()?.iter().filter(|operation| gone(operation)) {
            fs_err::remove_file(log_file(&self.directory, operation.id.as_str()))?;
        }
        Ok(())
    }
}

fn read_operation(path: &Path) -> io::Result<LoggedOperation> {
    Ok(serde_json::from_slice(&fs_err::read(path)?)?)
}

fn log_dir(store: &Path) -> PathBuf {
    store.join("operation")
}

fn log_file(store: &Path, id: &str) -> PathBuf {
    log_dir(store).join(format!("{id}.json"))
}
