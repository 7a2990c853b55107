//! Stored plans: on disk before the first write, gone after the last (R17).

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::operation_log::OperationHeader;
use super::plan::RestorePlan;
use super::step_transaction::UnclearedSteps;
use crate::object_store::Oid;

/// A plan that is being applied.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct PendingPlan {
    /// Names the operation, and its temporary files in the worktree.
    pub(super) id: String,
    /// The capture of what will be overwritten.
    pub(super) guard: Oid,
    pub(super) plan: RestorePlan,
    /// Set once everything was done that could be: the steps whose temporary names are left. Nothing
    /// else of the plan is done again then.
    #[serde(default)]
    pub(super) left: Option<UnclearedSteps>,
    /// What is added to the log of operations when it is done; `None` if it is not logged.
    #[serde(default)]
    pub(super) entry: Option<OperationHeader>,
}

/// Generates a unique name: 24 hexadecimal digits.
pub(crate) fn random_id() -> io::Result<String> {
    let mut bytes = [0_u8; 12];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

impl PendingPlan {
    /// Writes the plan, durably.
    pub(super) fn save(&self, folder: &Path) -> io::Result<()> {
        let plans = plans_dir(folder);
        let is_new = !plans.try_exists()?;
        fs_err::create_dir_all(&plans)?;
        if is_new {
            fs_err::File::open(folder)?.sync_all()?;
        }
        // Named by its id: several calls may store their plans at the same time.
        let temp = plans.join(format!("{}.tmp", self.id));
        let mut file = fs_err::File::create(&temp)?;
        file.write_all(&serde_json::to_vec(self)?)?;
        file.sync_all()?;
        fs_err::rename(&temp, plans.join(format!("{}.json", self.id)))?;
        fs_err::File::open(&plans)?.sync_all()
    }

    /// Reads the plans that were not finished, oldest name first, and removes what a killed [`Self::save`] left:
    /// nothing of such a plan was done. Only for a store that nothing else writes.
    pub(super) fn list(folder: &Path) -> io::Result<Vec<Self>> {
        let entries = match fs_err::read_dir(plans_dir(folder)) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut paths = Vec::new();
        for entry in entries {
            paths.push(entry?.path());
        }
        for path in paths.iter().filter(|path| path.extension().is_some_and(|it| it == "tmp")) {
            fs_err::remove_file(path)?;
        }
        paths.retain(|path| path.extension().is_some_and(|it| it == "json"));
        paths.sort();
        paths.iter().map(|path| Self::read(path)).collect()
    }

    /// Reads one plan; its name must be one we made, since it becomes part of file names.
    fn read(path: &Path) -> io::Result<Self> {
        let stored: Self = serde_json::from_slice(&fs_err::read(path)?)?;
        let is_minted = stored.id.len() == 24 && stored.id.bytes().all(|it| it.is_ascii_hexdigit());
        if !is_minted || path.file_stem().is_none_or(|stem| stem != stored.id.as_str()) {
            return Err(io::Error::other(format!("{} is not a plan of ours", path.display())));
        }
        Ok(stored)
    }

    /// Forgets the plan, durably: it must not come back and be done again after a power cut.
    pub(super) fn remove(&self, folder: &Path) -> io::Result<()> {
        fs_err::remove_file(plans_dir(folder).join(format!("{}.json", self.id)))?;
        fs_err::File::open(plans_dir(folder))?.sync_all()
    }
}

fn plans_dir(folder: &Path) -> PathBuf {
    folder.join("plan")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(id: &str) -> PendingPlan {
        let guard = "0".repeat(40).parse().expect("an object id");
        let plan = RestorePlan::default();
        PendingPlan { id: id.to_owned(), guard, plan, left: None, entry: None }
    }

    #[test]
    fn plans_stored_at_the_same_time_are_all_kept() {
        let folder = tempfile::tempdir().expect("temp dir");
        let ids: Vec<String> = (0..16).map(|number| format!("{number:024x}")).collect();
        std::thread::scope(|scope| {
            for id in &ids {
                scope.spawn(|| plan(id).save(folder.path()).expect("stored"));
            }
        });
        let found = PendingPlan::list(folder.path()).expect("read");
        assert_eq!(found.into_iter().map(|plan| plan.id).collect::<Vec<_>>(), ids);
    }

    #[test]
    fn half_written_plans_are_removed() {
        let folder = tempfile::tempdir().expect("temp dir");
        let left = plans_dir(folder.path()).join("0.tmp");
        plan(&"a".repeat(24)).save(folder.path()).expect("stored");
        fs_err::write(&left, "{").expect("written");
        assert_eq!(PendingPlan::list(folder.path()).expect("read").len(), 1);
        assert!(!left.exists());
    }
}
