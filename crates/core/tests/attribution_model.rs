//! Random schedules of two traced commands, an untraced one and a person in one directory: whose each change
//! is, compared with a model that knows.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use turnstone_core::change::{
    Attribution, ChangeClaim, Evidence, FileChange, FileMode, Oid, PathImage, PathTouch, PriorFile,
    TouchEffect, TreeLeaf, attribute_changes, find_contended,
};
use turnstone_core::id::ChangeId;
use turnstone_core::model::FileIdentity;
use turnstone_core::rel_path::RelPath;

const FILES: [&str; 6] = ["f", "g", "d/x", "d/y", "e/x", "e/y"];
const DIRECTORIES: [&str; 3] = ["d", "e", "new"];

/// Who acts. The first two are traced commands, the third runs in a window of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Actor {
    One,
    Other,
    Untraced,
    Person,
}

const COMMANDS: [Actor; 3] = [Actor::One, Actor::Other, Actor::Untraced];

#[derive(Clone, Copy, Debug)]
enum Deed {
    WriteInPlace,
    SaveByRename,
    OpenOnly,
    Remove,
    MoveTo(usize),
    MoveDirectory(usize, usize),
    ExchangeDirectories(usize, usize),
}

fn deed() -> impl Strategy<Value = Deed> {
    let directory = || 0..DIRECTORIES.len();
    prop_oneof![
        4 => Just(Deed::WriteInPlace),
        3 => Just(Deed::SaveByRename),
        1 => Just(Deed::OpenOnly),
        2 => Just(Deed::Remove),
        1 => (0..FILES.len()).prop_map(Deed::MoveTo),
        1 => (directory(), directory()).prop_map(|(from, to)| Deed::MoveDirectory(from, to)),
        1 => (directory(), directory()).prop_map(|(one, other)| Deed::ExchangeDirectories(one, other)),
    ]
}

fn actor() -> impl Strategy<Value = Actor> {
    prop_oneof![Just(Actor::One), Just(Actor::Other), Just(Actor::Untraced), Just(Actor::Person)]
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct File {
    inode: u64,
    content: u32,
    author: Actor,
    changed: i64,
}

/// What the model knows of a path in the window of a command: who wrote, whether others wrote first.
#[derive(Clone, Debug, Default)]
struct PathRecord {
    writers: BTreeSet<Actor>,
    has_command_touched: bool,
    has_other_written_since: bool,
}

/// The window of a command.
struct Window {
    actor: Actor,
    opened: i64,
    /// Where in the schedule.
    span: (i64, i64),
    before: BTreeMap<String, File>,
    after: Option<BTreeMap<String, File>>,
    touches: Vec<PathTouch>,
    records: BTreeMap<String, PathRecord>,
}

#[derive(Default)]
struct World {
    files: BTreeMap<String, File>,
    clock: i64,
    next: u32,
    windows: Vec<Window>,
}

fn path(text: &str) -> RelPath {
    text.parse().expect("a path")
}

fn image(file: Option<&File>) -> PathImage {
    let Some(file) = file else { return PathImage::Absent };
    let mut blob = [0; 20];
    blob[..4].copy_from_slice(&file.content.to_be_bytes());
    let leaf = TreeLeaf { blob: Oid(blob), mode: FileMode::File };
    PathImage::Present { leaf, perm: 0o644 }
}

fn below<'n>(name: &'n str, directory: &str) -> Option<&'n str> {
    name.strip_prefix(directory)?.strip_prefix('/')
}

impl World {
    fn new() -> Self {
        let mut world = Self { clock: 10, ..Self::default() };
        for name in FILES {
            world.put(name, Actor::Person);
        }
        world
    }

    fn put(&mut self, name: &str, author: Actor) {
        self.next += 1;
        let file =
            File { inode: self.next.into(), content: self.next, author, changed: self.clock };
        self.files.insert(name.to_owned(), file);
    }

    fn is_open(window: &Window) -> bool {
        window.after.is_none()
    }

    fn touch(&mut self, actor: Actor, name: &str, effect: &TouchEffect) {
        let prior = self.files.get(name).map(|file| PriorFile {
            identity: FileIdentity { device: 1, inode: file.inode, born: None },
            is_directory: false,
            changed_nanos: file.changed,
        });
        for window in self.windows.iter_mut().filter(|it| it.actor == actor && Self::is_open(it)) {
            let touch = PathTouch { path: path(name), effect: effect.clone(), prior };
            window.touches.push(touch);
            window.records.entry(name.to_owned()).or_default().has_command_touched = true;
        }
    }

    /// Records that somebody changed a path.
    fn wrote(&mut self, actor: Actor, name: &str) {
        for window in self.windows.iter_mut().filter(|it| Self::is_open(it)) {
            let record = window.records.entry(name.to_owned()).or_default();
            record.writers.insert(actor);
            if actor != window.actor && record.has_command_touched {
                record.has_other_written_since = true;
            }
        }
    }

    /// What was written at one path is now at another one.
    fn carry(&mut self, actor: Actor, from: &str, to: &str) {
        for window in self.windows.iter_mut().filter(|it| Self::is_open(it)) {
            let old = window.records.get(from).cloned().unwrap_or_default();
            let new = window.records.entry(to.to_owned()).or_default();
            new.writers.extend(old.writers);
            new.has_other_written_since |= old.has_other_written_since;
            new.has_command_touched |= old.has_command_touched;
            if actor != window.actor && new.has_command_touched {
                new.has_other_written_since = true;
            }
        }
    }

    fn act(&mut self, actor: Actor, deed: Deed, name: &str) {
        self.clock += 1;
        match deed {
            Deed::WriteInPlace => {
                self.touch(actor, name, &TouchEffect::Written);
                self.next += 1;
                let (content, changed) = (self.next, self.clock);
                match self.files.get_mut(name) {
                    Some(file) => {
                        (file.content, file.author, file.changed) = (content, actor, changed)
                    }
                    None => self.put(name, actor),
                }
                self.wrote(actor, name);
            }
            Deed::SaveByRename => {
                let temporary = format!("{name}.tmp");
                self.touch(actor, &temporary, &TouchEffect::Written);
                self.put(&temporary, actor);
                self.wrote(actor, &temporary);
                self.move_file(actor, &temporary, name);
            }
            Deed::OpenOnly => {
                if self.files.contains_key(name) {
                    self.touch(actor, name, &TouchEffect::Written);
                }
            }
            Deed::Remove => {
                if self.files.contains_key(name) {
                    self.touch(actor, name, &TouchEffect::Removed);
                    self.files.remove(name);
                    self.wrote(actor, name);
                }
            }
            Deed::MoveTo(to) => {
                if self.files.contains_key(name) && FILES[to] != name {
                    self.move_file(actor, name, FILES[to]);
                }
            }
            Deed::MoveDirectory(from, to) => self.move_directory(actor, from, to),
            Deed::ExchangeDirectories(one, other) => self.exchange(actor, one, other),
        }
    }

    fn move_file(&mut self, actor: Actor, from: &str, to: &str) {
        self.touch(actor, from, &TouchEffect::MovedAway);
        self.touch(actor, to, &TouchEffect::MovedHere { from: Some(path(from)) });
        self.carry(actor, from, to);
        let file = self.files.remove(from).expect("a file");
        self.files.insert(to.to_owned(), File { changed: self.clock, ..file });
        self.wrote(actor, from);
        self.wrote(actor, to);
    }

    fn names_below(&self, directory: &str) -> Vec<String> {
        let rest = |name: &String| below(name, directory).map(str::to_owned);
        self.files.keys().filter_map(rest).collect()
    }

    /// What was done to files that are gone is remembered for their new paths, too.
    fn carry_absent(&mut self, actor: Actor, from: &str, to: &str) {
        for rest in ["x", "y"] {
            let (old, new) = (format!("{from}/{rest}"), format!("{to}/{rest}"));
            if !self.files.contains_key(&old) {
                self.carry(actor, &old, &new);
            }
        }
    }

    /// A person moves no directories: the tracer finds those by their identity.
    fn move_directory(&mut self, actor: Actor, from: usize, to: usize) {
        let (from, to) = (DIRECTORIES[from], DIRECTORIES[to]);
        let names = self.names_below(from);
        let is_possible = from != to && !names.is_empty() && self.names_below(to).is_empty();
        if !is_possible || !matches!(actor, Actor::One | Actor::Other) || self.is_other_open(actor)
        {
            return;
        }
        self.touch(actor, from, &TouchEffect::MovedAway);
        self.touch(actor, to, &TouchEffect::MovedHere { from: Some(path(from)) });
        self.carry_absent(actor, from, to);
        for rest in names {
            let (old, new) = (format!("{from}/{rest}"), format!("{to}/{rest}"));
            let file = self.files.remove(&old).expect("a file");
            self.carry(actor, &old, &new);
            self.files.insert(new.clone(), file);
            self.wrote(actor, &old);
            self.wrote(actor, &new);
        }
    }

    /// True if another traced window would see a directory that it did not move itself at its new path.
    fn is_other_open(&self, actor: Actor) -> bool {
        self.windows.iter().any(|it| it.actor != actor && Self::is_open(it))
    }

    fn exchange(&mut self, actor: Actor, one: usize, other: usize) {
        let (one, other) = (DIRECTORIES[one], DIRECTORIES[other]);
        let (here, there) = (self.names_below(one), self.names_below(other));
        let is_possible = one != other && !here.is_empty() && !there.is_empty();
        if !is_possible || !matches!(actor, Actor::One | Actor::Other) || self.is_other_open(actor)
        {
            return;
        }
        let with = |name: &str| TouchEffect::Exchanged { with: Some(path(name)) };
        self.touch(actor, one, &with(other));
        self.touch(actor, other, &with(one));
        self.carry_absent(actor, one, other);
        self.carry_absent(actor, other, one);
        let moves = here.iter().map(|rest| (format!("{one}/{rest}"), format!("{other}/{rest}")));
        let back = there.iter().map(|rest| (format!("{other}/{rest}"), format!("{one}/{rest}")));
        let moves: Vec<(String, String)> = moves.chain(back).collect();
        let files: Vec<File> =
            moves.iter().map(|(old, _)| self.files.remove(old).expect("a file")).collect();
        for ((old, new), file) in moves.into_iter().zip(files) {
            self.carry(actor, &old, &new);
            self.files.insert(new.clone(), file);
            self.wrote(actor, &old);
            self.wrote(actor, &new);
        }
    }

    fn open(&mut self, actor: Actor, at: i64) {
        self.clock += 1;
        self.windows.push(Window {
            actor,
            opened: self.clock,
            span: (at, i64::MAX),
            before: self.files.clone(),
            after: None,
            touches: Vec::new(),
            records: BTreeMap::new(),
        });
        self.clock += 1;
    }

    fn close(&mut self, actor: Actor, at: i64) {
        let files = self.files.clone();
        let of_actor = |it: &&mut Window| it.actor == actor && Self::is_open(it);
        if let Some(window) = self.windows.iter_mut().find(of_actor) {
            (window.after, window.span.1) = (Some(files), at);
        }
    }
}

impl Window {
    fn after(&self) -> &BTreeMap<String, File> {
        self.after.as_ref().expect("the window is closed")
    }

    fn changes(&self) -> Vec<FileChange> {
        let names: BTreeSet<&String> = self.before.keys().chain(self.after().keys()).collect();
        let change = |name: &String| FileChange {
            path: path(name),
            before: image(self.before.get(name)),
            after: image(self.after().get(name)),
        };
        let all = names.into_iter().map(change);
        all.filter(|change| change.before != change.after).collect()
    }

    fn attribute(&self) -> Attribution {
        let before = |path: &RelPath| image(self.before.get(&path.to_string()));
        attribute_changes(self.changes(), &self.touches, self.opened, before)
    }

    fn has_moved_directory(&self) -> bool {
        let is_directory =
            |touch: &PathTouch| DIRECTORIES.contains(&touch.path.to_string().as_str());
        self.touches.iter().any(is_directory)
    }

    fn has_other_writers(&self) -> bool {
        self.records.values().any(|record| record.writers.iter().any(|it| *it != self.actor))
    }

    /// True if nothing shows whether the command moved a file that is gone, because others removed, moved or
    /// replaced files: that may have been before the command moved the directory of the file or afterwards.
    fn has_vanished(&self, path: &RelPath) -> bool {
        let name = path.to_string();
        let is_gone = self.before.contains_key(&name) && !self.after().contains_key(&name);
        is_gone && self.has_moved_directory() && self.has_other_writers()
    }

    fn record(&self, path: &RelPath) -> PathRecord {
        self.records.get(&path.to_string()).cloned().unwrap_or_default()
    }

    fn id(&self) -> ChangeId {
        format!("chg_{:?}", self.actor).to_lowercase().parse().expect("an id")
    }

    /// Whose each change is, compared with what happened.
    fn check(&self, found: &Attribution) {
        for change in &found.own {
            let record = self.record(&change.path);
            let what = format!("{:?} {} {record:?}", self.actor, change.path);
            // Opening a file for writing counts as a write.
            let is_touched = record.writers.contains(&self.actor) || record.has_command_touched;
            let is_shared = found.shared.contains(&change.path);
            let is_unclear = self.has_vanished(&change.path);
            assert!(is_touched || is_shared || is_unclear, "not its own: {what}");
            let is_alone = record.writers == BTreeSet::from([self.actor]);
            assert!(!(is_alone && is_shared), "shared with nobody: {what}");
            // What others write after the command has touched a path looks like its own.
            let is_certain = !is_shared && !record.has_other_written_since;
            if let Some(file) = self.after().get(&change.path.to_string()).filter(|_| is_certain) {
                let was_there = self.before.values().any(|old| old.content == file.content);
                assert!(file.author == self.actor || was_there, "bytes of others: {what}");
            }
        }
        for path in &found.others {
            let record = self.record(path);
            let is_only_writer = record.writers == BTreeSet::from([self.actor]);
            let is_unclear = self.has_vanished(path);
            assert!(!is_only_writer || is_unclear, "missed: {:?} {path} {record:?}", self.actor);
        }
    }
}

fn claim(window: &Window) -> ChangeClaim {
    let (evidence, found) = match window.actor {
        Actor::One | Actor::Other => (Evidence::Traced, window.attribute()),
        Actor::Untraced | Actor::Person => {
            (Evidence::Window, Attribution { own: window.changes(), ..Attribution::default() })
        }
    };
    ChangeClaim {
        change: window.id(),
        outer: None,
        evidence,
        span: window.span,
        paths: found.own.iter().map(|change| change.path.clone()).collect(),
        shared: found.shared,
    }
}

/// Contention among the commands, compared with what happened.
fn check_contention(windows: &[Window]) {
    let claims: Vec<ChangeClaim> = windows.iter().map(claim).collect();
    for (window, claim) in windows.iter().zip(&claims) {
        let undone = BTreeSet::from([claim.change.clone()]);
        let contended = find_contended(&undone, &claims);
        for path in &claim.paths {
            // Windows that overlap contend whenever both wrote, even if not in the same moment.
            let meets =
                |other: &&Window| other.span.0 < window.span.1 && window.span.0 < other.span.1;
            let writers_in = |other: &Window| {
                let record = other.record(path);
                record.writers.into_iter().chain(record.has_command_touched.then_some(other.actor))
            };
            let writers: BTreeSet<Actor> =
                windows.iter().filter(meets).flat_map(writers_in).collect();
            let is_contended = contended.contains_key(path);
            let what = format!("{:?} {path} {writers:?} {contended:?}", window.actor);
            let is_alone = writers == BTreeSet::from([window.actor]);
            let is_clear = !windows.iter().any(|it| it.has_vanished(path));
            if claim.evidence == Evidence::Traced && is_alone && is_clear {
                assert!(!is_contended, "its own alone: {what}");
            }
            let is_claimed = |other: &ChangeClaim| {
                other.change != claim.change
                    && other.evidence == Evidence::Traced
                    && other.span.0 < claim.span.1
                    && claim.span.0 < other.span.1
                    && other.paths.contains(path)
            };
            if claims.iter().any(is_claimed) {
                assert!(is_contended, "claimed by a trace, too: {what}");
            }
        }
        // A foreign write that came first is never undone with the command.
        assert!(claim.shared.iter().all(|path| contended.contains_key(path)), "{contended:?}");
    }
    let all = claims.iter().map(|claim| claim.change.clone()).collect();
    let is_shared = |path: &RelPath| claims.iter().any(|it| it.shared.contains(path));
    for path in find_contended(&all, &claims).keys() {
        assert!(is_shared(path), "all who claim {path} are undone");
    }
}

/// When each command starts and ends, and what happens meanwhile.
#[derive(Clone, Debug)]
struct Schedule {
    spans: [(usize, usize); 3],
    deeds: Vec<(Actor, Deed, usize)>,
}

fn schedule() -> impl Strategy<Value = Schedule> {
    let deeds = proptest::collection::vec((actor(), deed(), 0..FILES.len()), 0..24);
    let spans = [(0_usize..12, 1_usize..16), (0..12, 1..16), (0..12, 1..16)];
    (spans, deeds).prop_map(|(spans, deeds)| Schedule {
        spans: spans.map(|(from, length)| (from, from + length)),
        deeds,
    })
}

/// How many schedules are played; `scripts/test --long` plays many more.
#[expect(clippy::disallowed_methods, reason = "the variable is set for all tests of a run")]
fn count_schedules() -> u32 {
    let is_long = std::env::var_os("TURNSTONE_TEST_LONG").is_some_and(|value| value == "1");
    if is_long { 200_000 } else { 5_000 }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: count_schedules(), failure_persistence: None, ..ProptestConfig::default() })]

    /// Proves R2, R3.
    #[test]
    fn every_change_is_attributed_to_who_made_it(schedule in schedule()) {
        let mut world = World::new();
        for at in 0..30 {
            for (command, (from, to)) in COMMANDS.into_iter().zip(schedule.spans) {
                let now = i64::try_from(at).expect("small");
                if at == from {
                    world.open(command, now);
                }
                if at == to {
                    world.close(command, now);
                }
            }
            if let Some((actor, deed, file)) = schedule.deeds.get(at) {
                // A command acts only while it runs.
                let runs = world.windows.iter().any(|it| it.actor == *actor && World::is_open(it));
                if runs || *actor == Actor::Person {
                    world.act(*actor, *deed, FILES[*file]);
                }
            }
        }
        for window in world.windows.iter().filter(|it| it.actor != Actor::Untraced) {
            window.check(&window.attribute());
        }
        check_contention(&world.windows);
    }
}
