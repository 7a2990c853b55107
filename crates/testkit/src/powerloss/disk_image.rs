//! Images: the recorded directory as it may be found after a power cut, in a directory of its own.

use std::{io, path::Path};

use super::{CutPoint, Recording, disk_model::DiskModel};
use crate::fixture::{SeededRng, TempDataDir};

/// What happens to data that was written and not synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnsyncedData {
    /// All of it is lost.
    DropUnsynced,
    /// Each sector of 4096 bytes keeps some earlier or later state, drawn from the seed. So do
    /// sizes and names that were not synced. The same seed gives the same image of a point.
    Torn(u64),
}

/// When a name is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameDurability {
    /// After a sync of the directory it is in; nothing else counts.
    Strict,
    /// As in ext4's journal: names become durable in the order of their changes, and a sync of a
    /// file also commits its own latest change of name or size, with all names changed before that.
    Ordered,
}

/// What a power cut does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PowerCutPolicy {
    /// What happens to unsynced data.
    pub data: UnsyncedData,
    /// What happens to names.
    pub names: NameDurability,
    /// Every sync is taken as not having happened: a check that still passes checks nothing.
    pub ignore_fsync: bool,
}

impl PowerCutPolicy {
    /// Drops everything that is not durable.
    pub const STRICT: Self = Self {
        data: UnsyncedData::DropUnsynced,
        names: NameDurability::Strict,
        ignore_fsync: false,
    };

    /// Keeps a random part of what is not durable, chosen by `seed`.
    #[must_use]
    pub const fn torn(seed: u64) -> Self {
        Self { data: UnsyncedData::Torn(seed), ..Self::STRICT }
    }

    /// The same, with a seed of its own for `point`, so that adjacent points tear differently.
    fn seeded_for(self, point: &CutPoint) -> Self {
        match self.data {
            UnsyncedData::DropUnsynced => self,
            UnsyncedData::Torn(seed) => {
                let mut rng = SeededRng::new(seed ^ (point.position as u64).rotate_left(32));
                Self { data: UnsyncedData::Torn(rng.next_u64()), ..self }
            }
        }
    }

    /// The same, with names kept as ext4 would.
    #[must_use]
    pub const fn ordered(self) -> Self {
        Self { names: NameDurability::Ordered, ..self }
    }

    /// The same, with every sync ignored.
    #[must_use]
    pub const fn ignoring_fsync(self) -> Self {
        Self { ignore_fsync: true, ..self }
    }
}

impl Default for PowerCutPolicy {
    fn default() -> Self {
        Self::STRICT
    }
}

/// A directory as it may be found after a power cut; removed when dropped.
///
/// Volatile files (`-shm`) are not in it. Directories are 0700 and files 0600.
#[derive(Debug)]
pub struct DiskImage {
    dir: TempDataDir,
}

impl DiskImage {
    /// Rebuilds the directory as it may be after a power cut at `point`.
    ///
    /// # Errors
    ///
    /// The image cannot be written.
    pub fn build(
        recording: &Recording,
        point: &CutPoint,
        policy: PowerCutPolicy,
    ) -> io::Result<Self> {
        let mut disk = DiskModel::new(recording.initial_tree(), policy.seeded_for(point));
        recording.events_until(point).iter().for_each(|event| disk.apply_event(event));
        let dir = TempDataDir::new()?;
        disk.cut_power().write(dir.path(), recording.volatile())?;
        Ok(Self { dir })
    }

    /// The directory that replaces the recorded one.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Keeps the image, for inspection after a failed test.
    #[must_use]
    pub fn keep(self) -> std::path::PathBuf {
        self.dir.keep()
    }
}
