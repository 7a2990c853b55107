//! The touches of a traced command, summed up by path: what it did to each, and what it moved.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use super::{PathTouch, TouchEffect};
use crate::model::FileIdentity;
use crate::rel_path::RelPath;

/// What a command did to a path, as a set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PathActs(u8);

impl PathActs {
    /// It wrote, created or moved something there.
    pub(super) const WRITTEN: Self = Self(1);
    /// It removed it or moved it away.
    pub(super) const REMOVED: Self = Self(1 << 1);
    /// It changed its mode or owner.
    pub(super) const METADATA_SET: Self = Self(1 << 2);
    /// Somebody else had changed it in the window before.
    pub(super) const SHARED: Self = Self(1 << 3);
    /// Nothing was there when the command first touched it, and the command had not moved it away.
    pub(super) const FOUND_ABSENT: Self = Self(1 << 4);
    /// Something was moved there that somebody else had changed in the window before.
    pub(super) const SHARED_ARRIVAL: Self = Self(1 << 5);
    /// The command touched it since something was last moved to its place.
    pub(super) const TOUCHED_SINCE: Self = Self(1 << 6);

    pub(super) const fn has(self, act: Self) -> bool {
        self.0 & act.0 != 0
    }

    const fn with(self, act: Self) -> Self {
        Self(self.0 | act.0)
    }

    /// What is known of a path once something else was moved to its place.
    const fn replaced(self) -> Self {
        let gone = Self::WRITTEN.0 | Self::METADATA_SET.0 | Self::SHARED_ARRIVAL.0;
        Self(self.0 & !(gone | Self::TOUCHED_SINCE.0)).with(Self::REMOVED)
    }

    /// What is known of a path once its content is moved elsewhere.
    const fn carried(self) -> Self {
        let kinds = Self::WRITTEN.0 | Self::REMOVED.0 | Self::METADATA_SET.0;
        let deeds = self.0 & (kinds | Self::TOUCHED_SINCE.0);
        match self.has(Self::SHARED) || self.has(Self::SHARED_ARRIVAL) {
            true => Self(deeds).with(Self::SHARED_ARRIVAL),
            false => Self(deeds),
        }
    }
}

/// Where something moved that a command moved.
enum Relocation {
    Move { from: Option<RelPath>, to: RelPath },
    Exchange { one: RelPath, other: RelPath },
}

/// Where something was before the command moved it, or is since.
pub(super) enum Relocated {
    /// The command did not move it.
    Unmoved,
    /// Outside of the root, or it is not known where.
    Outside,
    /// At this path.
    Moved(RelPath),
}

/// What a command touched, by the names that the paths have at its end.
#[derive(Default)]
pub(super) struct TouchHistory {
    acts: BTreeMap<RelPath, PathActs>,
    /// Paths below which it touched something that captures cannot name.
    touched_below: BTreeSet<RelPath>,
    /// Paths that it moved away and to which nothing was moved back.
    vacated: BTreeSet<RelPath>,
    /// Paths between which it moved something, in order.
    relocations: Vec<Relocation>,
    /// Where something was moved to.
    arrivals: BTreeSet<RelPath>,
    /// Files it touched under any name.
    known_files: BTreeSet<FileIdentity>,
}

impl TouchHistory {
    /// Adds the next touch of the command.
    pub(super) fn record(&mut self, touch: &PathTouch, opened_nanos: i64) {
        let path = &touch.path;
        if touch.effect == TouchEffect::TouchedBelow {
            self.touched_below.insert(path.clone());
            return;
        }
        let found = self.examine_prior(touch, opened_nanos);
        let act = match &touch.effect {
            TouchEffect::Removed | TouchEffect::MovedAway => PathActs::REMOVED,
            TouchEffect::MetadataSet => PathActs::METADATA_SET,
            TouchEffect::Written | TouchEffect::TouchedBelow => PathActs::WRITTEN,
            TouchEffect::MovedHere { .. } | TouchEffect::Exchanged { .. } => PathActs::WRITTEN,
        };
        self.add_acts(path, found.with(act).with(PathActs::TOUCHED_SINCE));
        match &touch.effect {
            TouchEffect::MovedAway => drop(self.vacated.insert(path.clone())),
            TouchEffect::MovedHere { from } => self.relocate(from.as_ref(), path),
            TouchEffect::Exchanged { with: None } => self.relocate(None, path),
            TouchEffect::Exchanged { with: Some(other) } => self.exchange(path, other),
            TouchEffect::Written
            | TouchEffect::Removed
            | TouchEffect::MetadataSet
            | TouchEffect::TouchedBelow => {}
        }
    }

    /// True if the command touched what is at a path now, or was before it vanished.
    pub(super) fn is_touched_since_arrival(&self, path: &RelPath) -> bool {
        self.acts(path).is_some_and(|acts| acts.has(PathActs::TOUCHED_SINCE))
    }

    /// What the command did to a path; `None` if it did not touch it.
    pub(super) fn acts(&self, path: &RelPath) -> Option<PathActs> {
        self.acts.get(path).copied()
    }

    /// True if the command moved away the path or a directory above it, and moved nothing back.
    pub(super) fn is_vacated(&self, path: &RelPath) -> bool {
        is_at_or_below(path, &self.vacated)
    }

    /// True if the command moved the path or a directory above it away, or put something else there.
    pub(super) fn is_replaced(&self, path: &RelPath) -> bool {
        self.is_vacated(path) || is_at_or_below(path, &self.arrivals)
    }

    /// True if the command touched the path or anything below it, or moved a directory above it.
    pub(super) fn is_touched_within(&self, path: &RelPath) -> bool {
        let below = below_range(path);
        self.acts.contains_key(path)
            || self.acts.range::<[u8], _>(below.bounds()).next().is_some()
            || self.touched_below.contains(path)
            || self.touched_below.range::<[u8], _>(below.bounds()).next().is_some()
            || self.is_replaced(path)
    }

    /// Finds where the content of a path came from, by everything that was moved, newest first.
    pub(super) fn find_origin(&self, path: &RelPath) -> Relocated {
        if !is_at_or_below(path, &self.arrivals) {
            return Relocated::Unmoved;
        }
        let mut at = path.clone();
        for relocation in self.relocations.iter().rev() {
            match relocation {
                Relocation::Move { from, to } => {
                    if let Some(rest) = rest_below(&at, to) {
                        match from {
                            None => return Relocated::Outside,
                            Some(from) => at = with_rest(from, rest),
                        }
                    } else if from.as_ref().is_some_and(|from| rest_below(&at, from).is_some()) {
                        // It was put there after the place had been vacated.
                        return Relocated::Unmoved;
                    }
                }
                Relocation::Exchange { one, other } => at = exchange_path(&at, one, other),
            }
        }
        if at == *path { Relocated::Unmoved } else { Relocated::Moved(at) }
    }

    /// Finds where what was at a path before the command went, by everything that was moved.
    pub(super) fn find_destination(&self, path: &RelPath) -> Relocated {
        let (mut at, mut has_moved) = (path.clone(), false);
        for relocation in &self.relocations {
            let next = match relocation {
                Relocation::Move { from, to } => from
                    .as_ref()
                    .and_then(|from| rest_below(&at, from))
                    .map_or_else(|| at.clone(), |rest| with_rest(to, rest)),
                Relocation::Exchange { one, other } => exchange_path(&at, one, other),
            };
            has_moved |= next != at;
            at = next;
        }
        match (at == *path, has_moved) {
            (true, true) => Relocated::Unmoved,
            // Only a move inside of the root has a record with both ends.
            (true, false) => Relocated::Outside,
            (false, _) => Relocated::Moved(at),
        }
    }

    /// What the state of a path before its first touch reveals about other writers.
    fn examine_prior(&mut self, touch: &PathTouch, opened_nanos: i64) -> PathActs {
        let acts = self.acts.get(&touch.path).copied();
        let Some(prior) = &touch.prior else {
            let is_absent = acts.is_none()
                && !self.is_replaced(&touch.path)
                && touch.effect != TouchEffect::MovedAway;
            return if is_absent { PathActs::FOUND_ABSENT } else { PathActs::default() };
        };
        // A directory changes with every name in it, and a file with each of its names. Which file the command
        // itself created is not recorded, so only a path that it has not written reveals another writer.
        let is_unknown = self.known_files.insert(prior.identity);
        let is_recent = !prior.is_directory && prior.changed_nanos > opened_nanos;
        let is_written = acts.is_some_and(|acts| acts.has(PathActs::WRITTEN));
        match is_unknown && is_recent && !is_written {
            true => PathActs::SHARED,
            false => PathActs::default(),
        }
    }

    fn add_acts(&mut self, path: &RelPath, acts: PathActs) {
        let all = self.acts.entry(path.clone()).or_default();
        *all = all.with(acts);
    }

    /// Carries what is known of `from`, and of everything below it, to `to`.
    fn relocate(&mut self, from: Option<&RelPath>, to: &RelPath) {
        self.vacated.retain(|path| rest_below(path, to).is_none());
        let carried = from.map(|from| self.list_acts(from, to)).unwrap_or_default();
        self.replace_acts(to);
        if let Some(from) = from {
            for (path, acts) in carried {
                self.add_acts(&path, acts.carried());
            }
            let carried = rename_all(&self.touched_below, from, to);
            self.touched_below.extend(carried);
            // The path itself has just been moved away; paths below it may have been before.
            let carried = rename_all(&self.vacated, from, to);
            self.vacated.extend(carried.into_iter().filter(|path| path != to));
        }
        self.add_acts(to, PathActs::WRITTEN);
        self.arrivals.insert(to.clone());
        self.relocations.push(Relocation::Move { from: from.cloned(), to: to.clone() });
    }

    /// Exchanges what is known of two paths. The tracer may report the exchange for both of them: the second
    /// report changes nothing.
    fn exchange(&mut self, one: &RelPath, other: &RelPath) {
        if let Some(Relocation::Exchange { one: first, other: second }) = self.relocations.last()
            && (first, second) == (other, one)
        {
            return;
        }
        let carried = [self.list_acts(one, other), self.list_acts(other, one)].concat();
        for path in [one, other] {
            self.replace_acts(path);
            self.add_acts(path, PathActs::WRITTEN);
        }
        for (path, acts) in carried {
            self.add_acts(&path, acts.carried());
        }
        for set in [&mut self.touched_below, &mut self.vacated] {
            let (there, back) = (rename_all(set, one, other), rename_all(set, other, one));
            set.extend(there.into_iter().chain(back));
        }
        self.arrivals.extend([one.clone(), other.clone()]);
        self.relocations.push(Relocation::Exchange { one: one.clone(), other: other.clone() });
    }

    /// Something else takes the place of a path, and of everything below it.
    fn replace_acts(&mut self, path: &RelPath) {
        if let Some(acts) = self.acts.get_mut(path) {
            *acts = acts.replaced();
        }
        for (_, acts) in self.acts.range_mut::<[u8], _>(below_range(path).bounds()) {
            *acts = acts.replaced();
        }
    }

    /// The acts at and below `from`, by the names below `to`.
    fn list_acts(&self, from: &RelPath, to: &RelPath) -> Vec<(RelPath, PathActs)> {
        let at = self.acts.get_key_value(from);
        let below = below_range(from);
        let all = at.into_iter().chain(self.acts.range::<[u8], _>(below.bounds()));
        let renamed = |(path, acts): (&RelPath, &PathActs)| {
            Some((with_rest(to, rest_below(path, from)?), *acts))
        };
        all.filter_map(renamed).collect()
    }
}

/// The keys of the paths below a path in an ordered set.
struct BelowRange {
    first: Vec<u8>,
    end: Vec<u8>,
}

impl BelowRange {
    fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        (Bound::Included(&self.first), Bound::Excluded(&self.end))
    }
}

fn below_range(path: &RelPath) -> BelowRange {
    // `0` is the byte after `/`.
    let first = [path.as_bytes(), b"/"].concat();
    BelowRange { first, end: [path.as_bytes(), b"0"].concat() }
}

fn is_at_or_below(path: &RelPath, set: &BTreeSet<RelPath>) -> bool {
    !set.is_empty() && (set.contains(path) || path.ancestors().any(|above| set.contains(&above)))
}

/// What follows `above` in `path`: nothing if they are equal, otherwise names behind a slash.
fn rest_below<'p>(path: &'p RelPath, above: &RelPath) -> Option<&'p [u8]> {
    let is_within = path == above || above.is_ancestor_of(path);
    is_within.then(|| &path.as_bytes()[above.as_bytes().len()..])
}

/// How a path is called once two others have changed places.
fn exchange_path(path: &RelPath, one: &RelPath, other: &RelPath) -> RelPath {
    match (rest_below(path, one), rest_below(path, other)) {
        (Some(rest), _) => with_rest(other, rest),
        (None, Some(rest)) => with_rest(one, rest),
        (None, None) => path.clone(),
    }
}

/// Puts what followed another path behind this one.
fn with_rest(above: &RelPath, rest: &[u8]) -> RelPath {
    // Both come from valid paths, so the result is one.
    RelPath::new([above.as_bytes(), rest].concat()).unwrap_or_else(|_| above.clone())
}

/// The paths of a set at and below `from`, as they are called below `to`.
fn rename_all(set: &BTreeSet<RelPath>, from: &RelPath, to: &RelPath) -> Vec<RelPath> {
    let below = below_range(from);
    let all = set.get(from).into_iter().chain(set.range::<[u8], _>(below.bounds()));
    let renamed = |path: &RelPath| rest_below(path, from).map(|rest| with_rest(to, rest));
    all.filter_map(renamed).collect()
}
