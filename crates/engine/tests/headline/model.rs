//! The reference model: who owns which bytes, and what an undo may therefore move.
//!
//! A file is a row of slots far enough apart that two writers of different slots never touch the
//! same lines. So the right answer of every merge is known slot by slot, without a merge.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

pub(crate) const SLOTS: usize = 5;
/// What is written in the play has larger numbers than what was there before.
pub(crate) const FRESH: u64 = 1_000_000;

/// What a guard takes besides its files: commits, trees, an index.
const OVERHEAD: u64 = 16 << 10;

/// What a file holds; files whose name ends in `.bin` cannot be merged.
pub(crate) type Body = Rc<[u64; SLOTS]>;
/// A file, or none.
pub(crate) type Content = Option<Body>;
pub(crate) type Disk = BTreeMap<String, Body>;

pub(crate) fn render(path: &str, body: &Body) -> String {
    let mut text = String::new();
    if path.ends_with(".bin") {
        text.push('\0');
    }
    for (at, slot) in body.iter().enumerate() {
        text.push_str(&format!("slot {at} is {slot}{}\n", noise(*slot)));
        for line in ["one", "two", "three", "four"] {
            text.push_str(&format!("  line {line} after slot {at} of {path}\n"));
        }
    }
    text
}

/// What was written in the play does not compress, so that its undo takes space worth giving back.
fn noise(slot: u64) -> String {
    if slot < FRESH {
        return String::new();
    }
    let mut state = slot.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut letter = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from(b'0' + (state % 75) as u8)
    };
    std::iter::once(' ').chain(std::iter::repeat_with(&mut letter).take(1500)).collect()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Evidence {
    Named,
    Window,
    Recovered,
}

/// What one call did, as the model saw it.
#[derive(Clone, Debug)]
pub(crate) struct ModelChangeSet {
    pub(crate) id: String,
    pub(crate) agent: usize,
    pub(crate) turn: String,
    pub(crate) evidence: Evidence,
    pub(crate) span: (u64, u64),
    pub(crate) changes: BTreeMap<String, (Content, Content)>,
    pub(crate) taken: BTreeSet<String>,
    /// Changed paths that could not be captured at its end: they may never be undone.
    pub(crate) uncovered: BTreeSet<String>,
}

/// A call that is not over.
#[derive(Clone, Debug)]
pub(crate) struct OpenModelCall {
    pub(crate) id: String,
    pub(crate) turn: String,
    pub(crate) named: Option<BTreeSet<String>>,
    pub(crate) before: Disk,
    pub(crate) opened: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ModelDirection {
    Back,
    Forth,
}

/// What an undo or redo must do.
#[derive(Clone, Debug, Default)]
pub(crate) struct ExpectedMove {
    /// What the paths it may write hold afterwards.
    pub(crate) wanted: BTreeMap<String, Content>,
    pub(crate) conflicts: BTreeSet<String>,
    pub(crate) contended: BTreeSet<String>,
    /// Paths it undoes or redoes, changed or already so.
    pub(crate) reached: BTreeSet<String>,
    /// Those of which no tool said that it would write them.
    pub(crate) windows: BTreeSet<String>,
    /// True if nobody has touched any of its paths since.
    pub(crate) is_plain: bool,
}

#[derive(Default)]
pub(crate) struct HeadlineModel {
    pub(crate) disk: Disk,
    pub(crate) sets: Vec<ModelChangeSet>,
    pub(crate) clock: u64,
    /// Writes an undo or a redo made: when, and where.
    pub(crate) swings: Vec<(u64, BTreeSet<String>)>,
    /// Bytes those writes displaced or stored at most.
    pub(crate) guarded: u64,
}

impl HeadlineModel {
    pub(crate) fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    pub(crate) fn put(&mut self, path: &str, content: Content) {
        match content {
            Some(body) => drop(self.disk.insert(path.to_owned(), body)),
            None => drop(self.disk.remove(path)),
        }
    }

    /// What an open call has changed by now.
    pub(crate) fn changes(&self, open: &OpenModelCall) -> BTreeMap<String, (Content, Content)> {
        let paths: BTreeSet<&String> = open.before.keys().chain(self.disk.keys()).collect();
        let named =
            |path: &&&String| open.named.as_ref().is_none_or(|named| named.contains(**path));
        let pair = |path: &String| {
            let (before, after) = (open.before.get(path).cloned(), self.disk.get(path).cloned());
            (before != after).then(|| (path.clone(), (before, after)))
        };
        paths.iter().filter(named).filter_map(|path| pair(path)).collect()
    }

    pub(crate) fn close(
        &mut self,
        agent: usize,
        open: &OpenModelCall,
        evidence: Evidence,
    ) -> &ModelChangeSet {
        let set = ModelChangeSet {
            id: open.id.clone(),
            agent,
            turn: open.turn.clone(),
            evidence,
            span: (open.opened, self.tick()),
            changes: self.changes(open),
            taken: BTreeSet::new(),
            uncovered: BTreeSet::new(),
        };
        self.sets.push(set);
        self.sets.last().expect("just pushed")
    }

    /// What undoing or redoing these turns must do.
    pub(crate) fn expect(
        &self,
        way: ModelDirection,
        agent: usize,
        turns: &BTreeSet<String>,
    ) -> ExpectedMove {
        let mut expected = ExpectedMove { is_plain: true, ..ExpectedMove::default() };
        let is_chosen = |set: &&ModelChangeSet| set.agent == agent && turns.contains(&set.turn);
        let mut chosen: Vec<&ModelChangeSet> = self.sets.iter().filter(is_chosen).collect();
        chosen.sort_by_key(|set| set.span.1);
        let ids: BTreeSet<&str> = chosen.iter().map(|set| set.id.as_str()).collect();
        let mut history: BTreeMap<&String, Vec<(Content, Content)>> = BTreeMap::new();
        for set in &chosen {
            for (path, pair) in &set.changes {
                if way == ModelDirection::Back && self.is_contended(set, path, &ids) {
                    expected.contended.insert(path.clone());
                }
                let is_known = !set.uncovered.contains(path);
                if is_known && set.taken.contains(path) == (way == ModelDirection::Forth) {
                    history.entry(path).or_default().push(pair.clone());
                    if set.evidence != Evidence::Named {
                        expected.windows.insert(path.clone());
                    }
                }
            }
        }
        expected.windows.retain(|path| !expected.contended.contains(path));
        for (path, pairs) in history {
            if expected.contended.contains(path) {
                continue;
            }
            let ours = self.disk.get(path).cloned();
            let joined = pairs.windows(2).all(|pair| pair[0].1 == pair[1].0);
            expected.is_plain &= joined && pairs.last().is_some_and(|pair| pair.1 == ours);
            match fold(path, way, &pairs, ours.clone()) {
                Some(content) => {
                    expected.reached.insert(path.clone());
                    expected.wanted.insert(path.clone(), content);
                }
                None => drop(expected.conflicts.insert(path.clone())),
            }
        }
        expected
    }

    /// Whether somebody outside of `ids` may have made this change of a window (R3).
    fn is_contended(&self, set: &ModelChangeSet, path: &str, ids: &BTreeSet<&str>) -> bool {
        if set.evidence == Evidence::Named {
            return false;
        }
        let swung = self
            .swings
            .iter()
            .any(|(at, paths)| set.span.0 < *at && *at < set.span.1 && paths.contains(path));
        let rivals: Vec<&ModelChangeSet> = self
            .sets
            .iter()
            .filter(|other| other.id != set.id)
            .filter(|other| other.span.0 < set.span.1 && set.span.0 < other.span.1)
            .filter(|other| other.changes.contains_key(path))
            .collect();
        match rivals.iter().find(|other| other.evidence == Evidence::Named) {
            Some(maker) => swung || !ids.contains(maker.id.as_str()),
            None => swung || rivals.iter().any(|other| !ids.contains(other.id.as_str())),
        }
    }

    /// Carries out what was expected.
    pub(crate) fn swing(
        &mut self,
        way: ModelDirection,
        agent: usize,
        turns: &BTreeSet<String>,
        it: &ExpectedMove,
    ) {
        let at = self.tick();
        let mut moved = BTreeSet::new();
        self.guarded += OVERHEAD;
        for (path, content) in &it.wanted {
            let sides = self.disk.get(path).into_iter().chain(content);
            self.guarded += sides.map(|body| render(path, body).len() as u64).sum::<u64>();
            if self.disk.get(path) != content.as_ref() {
                moved.insert(path.clone());
            }
            self.put(path, content.clone());
        }
        for set in &mut self.sets {
            if set.agent != agent || !turns.contains(&set.turn) {
                continue;
            }
            for path in set.changes.keys().filter(|path| it.reached.contains(*path)) {
                match way {
                    // What somebody else had brought about was not taken by this undo.
                    ModelDirection::Back if !moved.contains(path) => {}
                    ModelDirection::Back => drop(set.taken.insert(path.clone())),
                    ModelDirection::Forth => drop(set.taken.remove(path)),
                }
            }
        }
        self.swings.push((at, moved));
    }
}

/// Walks the history of one path (R4); nothing if somebody's later work stands in the way.
fn fold(
    path: &str,
    way: ModelDirection,
    pairs: &[(Content, Content)],
    ours: Content,
) -> Option<Content> {
    let mut runs: Vec<(Content, Content)> = Vec::new();
    for (before, after) in pairs {
        match runs.last_mut() {
            Some(run) if run.1 == *before => run.1.clone_from(after),
            _ => runs.push((before.clone(), after.clone())),
        }
    }
    if way == ModelDirection::Back {
        runs.reverse();
    }
    runs.into_iter().try_fold(ours, |ours, (before, after)| match way {
        ModelDirection::Back => merge(path, ours, after, before),
        ModelDirection::Forth => merge(path, ours, before, after),
    })
}

fn merge(path: &str, ours: Content, base: Content, target: Content) -> Option<Content> {
    if ours == base {
        return Some(target);
    }
    if ours == target || base == target {
        return Some(ours);
    }
    let (ours, base, target) = (ours?, base?, target?);
    if path.ends_with(".bin") {
        return None;
    }
    let mut merged = [0; SLOTS];
    for (at, slot) in merged.iter_mut().enumerate() {
        *slot = match (ours[at], base[at], target[at]) {
            (ours, base, target) if ours == base => target,
            (ours, base, target) if ours == target || base == target => ours,
            _ => return None,
        };
    }
    Some(Some(Rc::new(merged)))
}
