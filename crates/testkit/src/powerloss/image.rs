//! Images: the recorded directory as it may be found after a power cut, in a directory of its own.

use std::{io, path::Path};

use super::{Point, Recording, disk::Disk};
use crate::fixture::{Rng, TempData};

/// What happens to data that was written and not synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Data {
    /// All of it is lost.
    DropUnsynced,
    /// Each sector of 4096 bytes keeps some earlier or later state, drawn from the seed. So do
    /// sizes and names that were not synced. The same seed gives the same image of a point.
    Torn(u64),
}

/// When a name is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// After a sync of the directory it is in; nothing else counts.
    Strict,
    /// As in ext4's journal: names become durable in the order of their changes, and a sync of a
    /// file also commits its own latest change of name or size, with all names changed before that.
    Ordered,
}

/// What a power cut does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// What happens to unsynced data.
    pub data: Data,
    /// What happens to names.
    pub names: Names,
    /// Every sync is taken as not having happened: a check that still passes checks nothing.
    pub ignore_fsync: bool,
}

impl Policy {
    /// Drops everything that is not sure.
    pub const STRICT: Self =
        Self { data: Data::DropUnsynced, names: Names::Strict, ignore_fsync: false };

    /// Keeps a part of what is not sure, drawn from `seed`.
    #[must_use]
    pub const fn torn(seed: u64) -> Self {
        Self { data: Data::Torn(seed), ..Self::STRICT }
    }

    /// The same, with a seed of its own for `point`, so that neighbours do not tear alike.
    fn at(self, point: &Point) -> Self {
        match self.data {
            Data::DropUnsynced => self,
            Data::Torn(seed) => {
                let mut rng = Rng::new(seed ^ (point.position as u64).rotate_left(32));
                Self { data: Data::Torn(rng.next_u64()), ..self }
            }
        }
    }

    /// The same, with names kept as ext4 would.
    #[must_use]
    pub const fn ordered(self) -> Self {
        Self { names: Names::Ordered, ..self }
    }

    /// The same, with every sync ignored.
    #[must_use]
    pub const fn ignoring_fsync(self) -> Self {
        Self { ignore_fsync: true, ..self }
    }
}

impl Default for Policy {
    fn default() -> Self {
        Self::STRICT
    }
}

/// A directory as it may be found after a power cut; removed when dropped.
///
/// Volatile files (`-shm`) are not in it. Directories are 0700 and files 0600.
#[derive(Debug)]
pub struct Image {
    dir: TempData,
}

impl Image {
    /// Rebuilds the directory as it may be after a power cut at `point`.
    ///
    /// # Errors
    ///
    /// The image cannot be written.
    pub fn at(recording: &Recording, point: &Point, policy: Policy) -> io::Result<Self> {
        let mut disk = Disk::new(recording.initial(), policy.at(point));
        recording.until(point).iter().for_each(|event| disk.take(event));
        let dir = TempData::new()?;
        disk.cut().write(dir.path(), recording.volatile())?;
        Ok(Self { dir })
    }

    /// The directory that stands for the recorded one.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Leaves the image where it is, for a look at it after a failed test.
    #[must_use]
    pub fn keep(self) -> std::path::PathBuf {
        self.dir.keep()
    }
}
