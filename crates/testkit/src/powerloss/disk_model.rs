//! The disk: replays events up to a moment and keeps what must survive a power cut, or what may.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{
    DiskEvent, DiskOperation, NameChange, NameDurability, NodeId, PowerCutPolicy, UnsyncedData,
    memory_tree::MemoryTree,
};
use crate::fixture::keyed_number;

/// The unit in which a disk keeps or loses data.
const SECTOR_BYTES: u64 = 4096;

/// The part of a name event that belongs to one directory.
#[derive(Debug)]
struct PendingNameChange<'a> {
    event: &'a DiskEvent,
    dir: NodeId,
    changes: Vec<&'a NameChange>,
}

impl PendingNameChange<'_> {
    fn affects(&self, node: NodeId) -> bool {
        self.dir == node || self.changes.iter().any(|change| change.node == Some(node))
    }
}

#[derive(Debug)]
pub(crate) struct DiskModel<'a> {
    durable: MemoryTree,
    contents: BTreeMap<NodeId, Vec<&'a DiskEvent>>,
    names: Vec<PendingNameChange<'a>>,
    policy: PowerCutPolicy,
}

impl<'a> DiskModel<'a> {
    /// A disk on which all of `initial` is durable.
    pub(crate) fn new(initial: MemoryTree, policy: PowerCutPolicy) -> Self {
        Self { durable: initial, contents: BTreeMap::new(), names: Vec::new(), policy }
    }

    /// Takes the next event of the run.
    pub(crate) fn apply_event(&mut self, event: &'a DiskEvent) {
        match &event.operation {
            DiskOperation::Names(changes) => self.change_names(event, changes),
            DiskOperation::Write { node, .. }
            | DiskOperation::Resize { node, .. }
            | DiskOperation::Zero { node, .. } => {
                self.contents.entry(*node).or_default().push(event)
            }
            DiskOperation::Sync { .. } | DiskOperation::SyncAll if self.policy.ignore_fsync => {}
            DiskOperation::Sync { node } => {
                self.sync_names(*node, event.start);
                self.sync_contents(*node, event.start);
            }
            DiskOperation::SyncAll => {
                self.commit_names(|name| name.event.precedes(event.start));
                let nodes: Vec<_> = self.contents.keys().copied().collect();
                nodes.into_iter().for_each(|node| self.sync_contents(node, event.start));
            }
            DiskOperation::Acknowledge { .. } => {}
        }
    }

    /// Cuts the power and returns what is found afterwards.
    pub(crate) fn cut_power(mut self) -> MemoryTree {
        let UnsyncedData::Torn(seed) = self.policy.data else {
            return self.durable;
        };
        self.tear_names(seed);
        for (node, pending) in std::mem::take(&mut self.contents) {
            let torn = tear_contents(seed, node, self.durable.contents(node), &pending);
            self.durable.set_contents(node, torn);
        }
        self.durable
    }

    fn change_names(&mut self, event: &'a DiskEvent, changes: &'a [NameChange]) {
        let dirs: BTreeSet<_> = changes.iter().map(|change| change.dir).collect();
        for dir in dirs {
            let changes = changes.iter().filter(|change| change.dir == dir).collect();
            self.names.push(PendingNameChange { event, dir, changes });
        }
    }

    fn sync_contents(&mut self, node: NodeId, sync: usize) {
        let Some(pending) = self.contents.get_mut(&node) else {
            return;
        };
        let (covered, later) = pending.iter().copied().partition(|event| event.precedes(sync));
        *pending = later;
        let covered: Vec<&DiskEvent> = covered;
        covered.iter().for_each(|event| self.durable.apply(&event.operation));
    }

    fn sync_names(&mut self, node: NodeId, sync: usize) {
        match self.policy.names {
            NameDurability::Strict => {
                self.commit_names(|name| name.dir == node && name.event.precedes(sync));
            }
            NameDurability::Ordered => {
                if let Some(horizon) = self.journal_horizon(node, sync) {
                    self.commit_names(|name| {
                        name.event.start <= horizon && name.event.precedes(sync)
                    });
                }
            }
        }
    }

    /// The start of the last change of metadata of `node` that a sync covers: a journal in order
    /// commits everything up to it.
    fn journal_horizon(&self, node: NodeId, sync: usize) -> Option<usize> {
        let covered = |event: &&DiskEvent| event.precedes(sync);
        let names = self.names.iter().filter(|name| name.affects(node)).map(|name| name.event);
        let named = names.filter(covered).map(|event| event.start).max();
        let mut size = self.durable.size(node);
        let mut grown = None;
        for event in self.contents.get(&node).into_iter().flatten().copied().filter(covered) {
            let after = size_after(size, &event.operation);
            if after != size {
                grown = Some(event.start);
            }
            size = after;
        }
        named.max(grown)
    }

    fn commit_names(&mut self, is_covered: impl Fn(&PendingNameChange<'_>) -> bool) {
        let pending = std::mem::take(&mut self.names);
        let (covered, later): (Vec<_>, Vec<_>) = pending.into_iter().partition(is_covered);
        self.names = later;
        covered.iter().for_each(|name| self.set_names(name));
    }

    fn set_names(&mut self, name: &PendingNameChange<'_>) {
        name.changes.iter().for_each(|change| self.durable.set_name(change));
    }

    /// Keeps the first few of the pending name changes: of each directory, or of the one journal.
    fn tear_names(&mut self, seed: u64) {
        let pending = std::mem::take(&mut self.names);
        let journal = |name: &PendingNameChange<'_>| match self.policy.names {
            NameDurability::Strict => name.dir.0 as u64,
            NameDurability::Ordered => 0,
        };
        let mut starts: HashMap<u64, Vec<usize>> = HashMap::new();
        for name in &pending {
            let starts = starts.entry(journal(name)).or_default();
            if starts.last() != Some(&name.event.start) {
                starts.push(name.event.start);
            }
        }
        let kept: Vec<_> = pending
            .into_iter()
            .filter(|name| {
                let journal = journal(name);
                let starts = &starts[&journal];
                let count = keyed_number(
                    [seed, RandomSalt::Names.key_for(journal), 0],
                    starts.len() as u64 + 1,
                );
                starts.iter().take(count as usize).any(|start| *start == name.event.start)
            })
            .collect();
        kept.iter().for_each(|name| self.set_names(name));
    }
}

/// Keeps draws for different purposes apart.
#[derive(Clone, Copy)]
enum RandomSalt {
    Names,
    Size,
    Luck,
    Sector,
}

impl RandomSalt {
    fn key_for(self, id: u64) -> u64 {
        id * 4 + self as u64
    }
}

fn size_after(size: u64, operation: &DiskOperation) -> u64 {
    match operation {
        DiskOperation::Write { offset, data, .. } => size.max(offset + data.len() as u64),
        DiskOperation::Resize { len, .. } => *len,
        DiskOperation::Names(_)
        | DiskOperation::Zero { .. }
        | DiskOperation::Sync { .. }
        | DiskOperation::SyncAll
        | DiskOperation::Acknowledge { .. } => size,
    }
}

/// What is left of a file whose latest changes were not synced.
///
/// The kernel writes whole sectors at any time it likes, so each sector holds what it held after
/// some number of the changes, independently of its neighbours; so does the size.
fn tear_contents(seed: u64, node: NodeId, base: &[u8], pending: &[&DiskEvent]) -> Vec<u8> {
    let id = node.0 as u64;
    let mut sizes = vec![base.len() as u64];
    for event in pending {
        let last = sizes[sizes.len() - 1];
        sizes.push(size_after(last, &event.operation));
    }
    let peak = sizes.iter().copied().max().unwrap_or_default();
    sizes.dedup();
    let size =
        sizes[keyed_number([seed, RandomSalt::Size.key_for(id), 0], sizes.len() as u64) as usize];

    let mut versions: HashMap<u64, u64> = HashMap::new();
    for sector in pending.iter().flat_map(|event| sectors(&event.operation, peak)) {
        *versions.entry(sector).or_default() += 1;
    }
    // Some cuts come late: then most sectors have just been written.
    let luck = keyed_number([seed, RandomSalt::Luck.key_for(id), 0], 5);
    for (sector, version) in &mut versions {
        let key = [seed, RandomSalt::Sector.key_for(id), *sector];
        if keyed_number([key[0], key[1], !key[2]], 4) >= luck {
            *version = keyed_number(key, *version + 1);
        }
    }
    let mut torn = base.to_vec();
    torn.resize(peak as usize, 0);
    for event in pending {
        for sector in sectors(&event.operation, peak) {
            if let Some(left) = versions.get_mut(&sector).filter(|left| **left > 0) {
                *left -= 1;
                change_sector(&mut torn, &event.operation, sector);
            }
        }
    }
    torn.truncate(size as usize);
    torn
}

/// The bytes that a change touches, in a file that was never larger than `peak`.
fn extent(operation: &DiskOperation, peak: u64) -> (u64, u64) {
    match operation {
        DiskOperation::Write { offset, data, .. } => (*offset, offset + data.len() as u64),
        DiskOperation::Resize { len, .. } => (*len, peak),
        DiskOperation::Zero { offset, len, .. } => (peak.min(*offset), peak.min(offset + len)),
        DiskOperation::Names(_)
        | DiskOperation::Sync { .. }
        | DiskOperation::SyncAll
        | DiskOperation::Acknowledge { .. } => (0, 0),
    }
}

fn sectors(operation: &DiskOperation, peak: u64) -> std::ops::Range<u64> {
    let (begin, end) = extent(operation, peak);
    if begin < end { begin / SECTOR_BYTES..end.div_ceil(SECTOR_BYTES) } else { 0..0 }
}

fn change_sector(contents: &mut [u8], operation: &DiskOperation, sector: u64) {
    let (begin, end) = extent(operation, contents.len() as u64);
    let (from, to) = (begin.max(sector * SECTOR_BYTES), end.min((sector + 1) * SECTOR_BYTES));
    match operation {
        DiskOperation::Write { data, .. } => {
            let part = &data[(from - begin) as usize..(to - begin) as usize];
            contents[from as usize..to as usize].copy_from_slice(part);
        }
        DiskOperation::Resize { .. } | DiskOperation::Zero { .. } => {
            contents[from as usize..to as usize].fill(0);
        }
        DiskOperation::Names(_)
        | DiskOperation::Sync { .. }
        | DiskOperation::SyncAll
        | DiskOperation::Acknowledge { .. } => {}
    }
}
