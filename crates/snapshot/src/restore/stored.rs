//! Stored plans: on disk before the first write, gone after the last (R17).

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::plan::Plan;
use super::record::Entry;
use crate::object::Oid;

/// A plan that is being applied.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Stored {
    /// Names the operation, and its temporary files in the worktree.
    pub(super) id: String,
    /// The capture of what will be overwritten.
    pub(super) guard: Oid,
    pub(super) plan: Plan,
    /// What is written into the log of operations when it is done; nothing if nobody asked for that.
    #[serde(default)]
    pub(super) entry: Option<Entry>,
}

/// Makes a name that nobody else has: 24 hexadecimal digits.
pub(crate) fn mint() -> io::Result<String> {
    let mut bytes = [0_u8; 12];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

impl Stored {
    /// Writes the plan, durably.
    pub(super) fn save(&self, folder: &Path) -> io::Result<()> {
        let plans = plans(folder);
        fs_err::create_dir_all(&plans)?;
        let temp = plans.join("tmp");
        let mut file = fs_err::File::create(&temp)?;
        file.write_all(&serde_json::to_vec(self)?)?;
        file.sync_all()?;
        fs_err::rename(&temp, plans.join(format!("{}.json", self.id)))?;
        fs_err::File::open(&plans)?.sync_all()?;
        fs_err::File::open(folder)?.sync_all()
    }

    /// Reads the plans that were not finished, oldest name first.
    pub(super) fn list(folder: &Path) -> io::Result<Vec<Self>> {
        let entries = match fs_err::read_dir(plans(folder)) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut paths = Vec::new();
        for entry in entries {
            paths.push(entry?.path());
        }
        paths.retain(|path| path.extension().is_some_and(|it| it == "json"));
        paths.sort();
        let read = |path: &PathBuf| Ok(serde_json::from_slice(&fs_err::read(path)?)?);
        paths.iter().map(read).collect()
    }

    /// Forgets the plan: everything it says is done and durable.
    pub(super) fn remove(&self, folder: &Path) -> io::Result<()> {
        fs_err::remove_file(plans(folder).join(format!("{}.json", self.id)))
    }
}

fn plans(folder: &Path) -> PathBuf {
    folder.join("plan")
}
