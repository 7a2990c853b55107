//! A finished recording: its events, the points at which the current may go, what was promised.

use std::{fmt, io, path::Path, process::ExitStatus};

use super::{
    Event, Image, Operation, Policy,
    tree::{Tree, Volatile},
};
use crate::{fixture::Rng, trace::complete_lines};

/// What a point is next to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PointKind {
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
pub enum Side {
    /// The event has not counted yet: a sync has not returned, a name not changed.
    Before,
    /// The event counts.
    After,
}

/// A moment at which the current may go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point {
    /// Its place in the global order.
    pub position: usize,
    /// What it is next to.
    pub kind: PointKind,
    /// On which side of that.
    pub side: Side,
    /// The event in words.
    pub label: String,
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = match self.side {
            Side::Before => "before",
            Side::After => "after",
        };
        write!(f, "{side} {} (#{})", self.label, self.position)
    }
}

/// A point and policy under which a check failed.
#[derive(Clone, Debug)]
pub struct Loss {
    /// When the current went.
    pub point: Point,
    /// What it did.
    pub policy: Policy,
    /// What the check said.
    pub reason: String,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "power cut {} under {:?}: {}", self.point, self.policy, self.reason)
    }
}

/// What the program itself said, and how it ended.
#[derive(Debug)]
pub(crate) struct Ending {
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    pub(crate) status: ExitStatus,
}

/// Everything a program did to a directory, and everything it acknowledged.
#[derive(Debug)]
pub struct Recording {
    pub(super) before: Tree,
    pub(super) after: Tree,
    pub(super) events: Vec<Event>,
    pub(super) volatile: Volatile,
    pub(super) ending: Ending,
}

impl Recording {
    /// The events in the order in which they count.
    #[must_use]
    pub fn events(&self) -> &[Event] {
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
    pub fn end(&self) -> Point {
        let position = self.events.iter().map(|event| event.end).max().unwrap_or_default();
        Point { position, kind: PointKind::End, side: Side::After, label: "the end".to_owned() }
    }

    /// Every moment before and after a sync, a change of names or an acknowledgement, in order,
    /// and the end.
    #[must_use]
    pub fn points(&self) -> Vec<Point> {
        let mut points = Vec::new();
        for event in &self.events {
            if let Some((kind, label)) = describe(event) {
                let before = event.at().saturating_sub(1);
                points.push(Point {
                    position: before,
                    kind,
                    side: Side::Before,
                    label: label.clone(),
                });
                points.push(Point { position: event.at(), kind, side: Side::After, label });
            }
        }
        points.push(self.end());
        // Of two names for one moment the one that says what has happened is kept.
        points.sort_by_key(|point| (point.position, point.side == Side::Before));
        points.dedup_by_key(|point| point.position);
        points
    }

    /// `count` of the points, drawn from `seed`, in order and with the last always among them.
    #[must_use]
    pub fn sample(&self, count: usize, seed: u64) -> Vec<Point> {
        let mut points = self.points();
        let last = points.pop();
        let mut rng = Rng::new(seed);
        while points.len() >= count.max(1) {
            points.remove(rng.below(points.len() as u64) as usize);
        }
        points.extend(last);
        points
    }

    /// The complete lines whose writes to standard output had returned by `point`.
    #[must_use]
    pub fn acknowledged(&self, point: &Point) -> Vec<String> {
        let mut output = Vec::new();
        for event in self.until(point) {
            if let Operation::Acknowledge { data } = &event.operation {
                output.extend_from_slice(data);
            }
        }
        complete_lines(&output)
    }

    /// Images for `points`, one after the other.
    pub fn images<'a>(
        &'a self,
        points: &'a [Point],
        policy: Policy,
    ) -> impl Iterator<Item = io::Result<(&'a Point, Image)>> {
        points.iter().map(move |point| Ok((point, Image::at(self, point, policy)?)))
    }

    /// Cuts the current at each of `points` and collects where `check` fails.
    ///
    /// The check gets the image's directory and the lines acknowledged by then, and says what is
    /// wrong. It may change the image.
    ///
    /// # Errors
    ///
    /// An image cannot be written.
    pub fn losses<E: fmt::Display>(
        &self,
        points: &[Point],
        policy: Policy,
        mut check: impl FnMut(&Path, &[String]) -> Result<(), E>,
    ) -> io::Result<Vec<Loss>> {
        let mut losses = Vec::new();
        for built in self.images(points, policy) {
            let (point, image) = built?;
            if let Err(reason) = check(image.path(), &self.acknowledged(point)) {
                losses.push(Loss { point: point.clone(), policy, reason: reason.to_string() });
            }
        }
        Ok(losses)
    }

    /// The directory before the run, with all later files known and empty.
    pub(super) fn initial(&self) -> Tree {
        let mut initial = self.before.clone();
        initial.extend_from(&self.after);
        initial
    }

    /// The events that count at `point`.
    pub(super) fn until(&self, point: &Point) -> &[Event] {
        let count = self.events.partition_point(|event| event.at() <= point.position);
        &self.events[..count]
    }

    pub(super) fn volatile(&self) -> &Volatile {
        &self.volatile
    }
}

fn describe(event: &Event) -> Option<(PointKind, String)> {
    let kind = match &event.operation {
        Operation::Sync { .. } | Operation::SyncAll => PointKind::Sync,
        Operation::Names(_) => PointKind::Name,
        Operation::Acknowledge { data } => {
            let said = String::from_utf8_lossy(data);
            let label = format!("stdout {:?}", said.chars().take(80).collect::<String>());
            return Some((PointKind::Acknowledgement, label));
        }
        Operation::Write { .. } | Operation::Resize { .. } | Operation::Zero { .. } => return None,
    };
    Some((kind, format!("{} {:?}", event.call, event.path)))
}
