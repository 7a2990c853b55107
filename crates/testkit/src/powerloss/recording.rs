//! A finished recording: its events, the points at which the power may fail, what was acknowledged.

use std::{fmt, io, path::Path, process::ExitStatus};

use super::{
    DiskEvent, DiskImage, DiskOperation, PowerCutPolicy,
    memory_tree::{MemoryTree, VolatileSuffixes},
};
use crate::{fixture::SeededRng, strace_run::complete_lines};

/// What a point is next to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CutPointKind {
    /// A sync of a file, a directory or everything.
    Sync,
    /// A change of names: create, link, rename, remove.
    Name,
    /// A write to standard output.
    Acknowledgement,
    /// The end of the run.
    End,
}

/// On which side of its event a point is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CutSide {
    /// The event has not counted yet: a sync has not returned, a name not changed.
    Before,
    /// The event counts.
    After,
}

/// A moment at which the power may fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CutPoint {
    /// Its place in the global order.
    pub position: usize,
    /// What it is next to.
    pub kind: CutPointKind,
    /// On which side of that.
    pub side: CutSide,
    /// The event in words.
    pub label: String,
}

impl fmt::Display for CutPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = match self.side {
            CutSide::Before => "before",
            CutSide::After => "after",
        };
        write!(f, "{side} {} (#{})", self.label, self.position)
    }
}

/// A point and policy under which a check failed.
#[derive(Clone, Debug)]
pub struct DurabilityLoss {
    /// When the power failed.
    pub point: CutPoint,
    /// What the power cut did.
    pub policy: PowerCutPolicy,
    /// The message of the check.
    pub reason: String,
}

impl fmt::Display for DurabilityLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "power cut {} under {:?}: {}", self.point, self.policy, self.reason)
    }
}

/// The output of the program, and how it ended.
#[derive(Debug)]
pub(crate) struct ProgramEnd {
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    pub(crate) status: ExitStatus,
}

/// Everything a program did to a directory, and everything it acknowledged.
#[derive(Debug)]
pub struct Recording {
    pub(super) before: MemoryTree,
    pub(super) after: MemoryTree,
    pub(super) events: Vec<DiskEvent>,
    pub(super) volatile: VolatileSuffixes,
    pub(super) ending: ProgramEnd,
}

impl Recording {
    /// The events in the order in which they count.
    #[must_use]
    pub fn events(&self) -> &[DiskEvent] {
        &self.events
    }

    /// How the program ended.
    #[must_use]
    pub fn status(&self) -> ExitStatus {
        self.ending.status
    }

    /// All it wrote to its standard output.
    #[must_use]
    pub fn stdout(&self) -> &[u8] {
        &self.ending.stdout
    }

    /// All it wrote to its standard error.
    #[must_use]
    pub fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.ending.stderr).into_owned()
    }

    /// The moment after everything.
    #[must_use]
    pub fn end(&self) -> CutPoint {
        let position = self.events.iter().map(|event| event.end).max().unwrap_or_default();
        CutPoint {
            position,
            kind: CutPointKind::End,
            side: CutSide::After,
            label: "the end".to_owned(),
        }
    }

    /// Every moment before and after a sync, a change of names or an acknowledgement, in order,
    /// and the end.
    #[must_use]
    pub fn cut_points(&self) -> Vec<CutPoint> {
        let mut points = Vec::new();
        for event in &self.events {
            if let Some((kind, label)) = describe_event(event) {
                let before = event.position().saturating_sub(1);
                points.push(CutPoint {
                    position: before,
                    kind,
                    side: CutSide::Before,
                    label: label.clone(),
                });
                points.push(CutPoint {
                    position: event.position(),
                    kind,
                    side: CutSide::After,
                    label,
                });
            }
        }
        points.push(self.end());
        // Of two names for one moment the one that says what has happened is kept.
        points.sort_by_key(|point| (point.position, point.side == CutSide::Before));
        points.dedup_by_key(|point| point.position);
        points
    }

    /// `count` of the points, drawn from `seed`, in order and with the last always among them.
    #[must_use]
    pub fn sample_points(&self, count: usize, seed: u64) -> Vec<CutPoint> {
        let mut points = self.cut_points();
        let last = points.pop();
        let mut rng = SeededRng::new(seed);
        while points.len() >= count.max(1) {
            points.remove(rng.below(points.len() as u64) as usize);
        }
        points.extend(last);
        points
    }

    /// The complete lines whose writes to standard output had returned by `point`.
    #[must_use]
    pub fn acknowledged(&self, point: &CutPoint) -> Vec<String> {
        let mut output = Vec::new();
        for event in self.events_until(point) {
            if let DiskOperation::Acknowledge { data } = &event.operation {
                output.extend_from_slice(data);
            }
        }
        complete_lines(&output)
    }

    /// Images for `points`, one after the other.
    pub fn images<'a>(
        &'a self,
        points: &'a [CutPoint],
        policy: PowerCutPolicy,
    ) -> impl Iterator<Item = io::Result<(&'a CutPoint, DiskImage)>> {
        points.iter().map(move |point| Ok((point, DiskImage::build(self, point, policy)?)))
    }

    /// Cuts the power at each of `points` and collects where `check` fails.
    ///
    /// The check gets the image's directory and the lines acknowledged by then, and says what is
    /// wrong. It may change the image.
    ///
    /// # Errors
    ///
    /// An image cannot be written.
    pub fn find_losses<E: fmt::Display>(
        &self,
        points: &[CutPoint],
        policy: PowerCutPolicy,
        mut check: impl FnMut(&Path, &[String]) -> Result<(), E>,
    ) -> io::Result<Vec<DurabilityLoss>> {
        let mut losses = Vec::new();
        for built in self.images(points, policy) {
            let (point, image) = built?;
            if let Err(reason) = check(image.path(), &self.acknowledged(point)) {
                losses.push(DurabilityLoss {
                    point: point.clone(),
                    policy,
                    reason: reason.to_string(),
                });
            }
        }
        Ok(losses)
    }

    /// The directory before the run, with all later files known and empty.
    pub(super) fn initial_tree(&self) -> MemoryTree {
        let mut initial = self.before.clone();
        initial.extend_from(&self.after);
        initial
    }

    /// The events that count at `point`.
    pub(super) fn events_until(&self, point: &CutPoint) -> &[DiskEvent] {
        let count = self.events.partition_point(|event| event.position() <= point.position);
        &self.events[..count]
    }

    pub(super) fn volatile(&self) -> &VolatileSuffixes {
        &self.volatile
    }
}

fn describe_event(event: &DiskEvent) -> Option<(CutPointKind, String)> {
    let kind = match &event.operation {
        DiskOperation::Sync { .. } | DiskOperation::SyncAll => CutPointKind::Sync,
        DiskOperation::Names(_) => CutPointKind::Name,
        DiskOperation::Acknowledge { data } => {
            let said = String::from_utf8_lossy(data);
            let label = format!("stdout {:?}", said.chars().take(80).collect::<String>());
            return Some((CutPointKind::Acknowledgement, label));
        }
        DiskOperation::Write { .. } | DiskOperation::Resize { .. } | DiskOperation::Zero { .. } => {
            return None;
        }
    };
    Some((kind, format!("{} {:?}", event.call, event.path)))
}
