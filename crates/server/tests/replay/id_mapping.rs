//! Names of the recording and ours for the same things.

use std::collections::{BTreeMap, BTreeSet};

use crate::support::ServerFixture;

/// Where the recorded server keeps its worktrees.
const WORKTREES: &str = "/home/user/.local/share/opencode/worktree/";

/// What is known by now of which name of ours stands for which recorded one.
#[derive(Debug)]
pub(crate) struct IdMapping {
    known: BTreeMap<String, String>,
    taken: BTreeSet<String>,
    times: BTreeMap<i64, i64>,
    /// Directories, the longest first.
    places: Vec<(String, String)>,
}

fn escaped(path: &str) -> String {
    path.replace('/', "%2F")
}

/// The kind of an id, such as `ses`.
pub(crate) fn kind(text: &str) -> Option<&str> {
    let (kind, rest) = text.split_once('_')?;
    let is_id = kind.len() == 3
        && kind.bytes().all(|byte| byte.is_ascii_lowercase())
        && rest.len() > 20
        && rest.bytes().all(|byte| byte.is_ascii_alphanumeric());
    is_id.then_some(kind)
}

impl IdMapping {
    pub(crate) fn new(house: &ServerFixture) -> Self {
        let text = |path: std::path::PathBuf| path.to_string_lossy().into_owned();
        let mut places = Vec::new();
        for (recorded, ours) in
            [("/home/user/project", text(house.project())), ("/home/user", text(house.home()))]
        {
            places.push((escaped(recorded), escaped(&ours)));
            places.push((recorded.to_owned(), ours));
        }
        // The next id of a session follows its newest: this one is chosen so that nothing follows it by chance.
        let known = ("msg_zzzzzzzzzzzz0000000000000a", "msg_1de0d7480001AAAAAAAAAAAAAA");
        let known = BTreeMap::from([(known.0.to_owned(), known.1.to_owned())]);
        places.push(("127.0.0.1:9800".to_owned(), house.address().to_string()));
        Self { known, taken: BTreeSet::new(), times: BTreeMap::new(), places }
    }

    /// True if `ours` stands for `recorded`, or may from now on.
    pub(crate) fn learn(&mut self, recorded: &str, ours: &str) -> bool {
        match self.known.get(recorded) {
            Some(known) => known == ours,
            None if recorded == ours => true,
            None if !self.taken.insert(ours.to_owned()) => false,
            None => {
                self.known.insert(recorded.to_owned(), ours.to_owned());
                if recorded.starts_with(WORKTREES) {
                    self.places.insert(0, (recorded.to_owned(), ours.to_owned()));
                    self.places.insert(0, (escaped(recorded), escaped(ours)));
                }
                true
            }
        }
    }

    /// Ours for a recorded name.
    pub(crate) fn find(&self, recorded: &str) -> Option<&str> {
        self.known.get(recorded).map(String::as_str)
    }

    /// True for a name of ours that stands for a recorded one.
    pub(crate) fn is_ours(&self, name: &str) -> bool {
        self.taken.contains(name)
    }

    /// True for a path below the recorded worktrees.
    pub(crate) fn is_worktree(text: &str) -> bool {
        text.starts_with(WORKTREES)
    }

    /// Remembers when the same thing happened here.
    pub(crate) fn map_time(&mut self, recorded: i64, ours: i64) {
        self.times.entry(recorded).or_insert(ours);
    }

    /// A recorded moment as one of ours: as long after what happened last before it.
    pub(crate) fn our_time(&self, recorded: i64) -> Option<i64> {
        let (before, ours) = self.times.range(..=recorded).next_back()?;
        Some(ours + (recorded - before))
    }

    /// A recorded text with our names in it.
    pub(crate) fn translate(&self, text: &str) -> String {
        let mut ours = text.to_owned();
        for (recorded, here) in self.pairs() {
            if ours.contains(recorded.as_str()) {
                ours = ours.replace(recorded.as_str(), here);
            }
        }
        ours
    }
}

impl IdMapping {
    fn pairs(&self) -> impl Iterator<Item = (&String, &String)> {
        self.places.iter().map(|(recorded, ours)| (recorded, ours)).chain(&self.known)
    }
}
