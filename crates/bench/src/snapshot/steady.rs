//! Captures of a worktree that both sides know: nothing changed, one file, many files.

use super::case::{Case, time_peer, timed};
use super::ours::Ours;
use super::peer::Peer;
use super::row::{Goal, Row};
use super::tree::Tree;
use crate::Fallible;

/// Both sides, having captured the same worktree before.
pub(crate) struct Sides<'c> {
    pub(crate) case: &'c Case,
    pub(crate) tree: &'c Tree,
    /// Finds changes by a stat walk.
    pub(crate) walking: Ours,
    /// Is told of changes by the kernel.
    pub(crate) watching: Ours,
    pub(crate) peer: Peer,
}

/// What the three ways to capture one state took.
struct Trio {
    walking: Row,
    watching: Row,
}

impl Trio {
    fn rows(self) -> Vec<Row> {
        let Self { walking, mut watching } = self;
        watching.peer = walking.peer.clone();
        watching.stopped = walking.stopped;
        watching.spawned = walking.spawned;
        vec![walking, watching]
    }
}

impl Sides<'_> {
    /// Nothing changed since the last capture.
    pub(crate) fn nothing(&self) -> Fallible<Vec<Row>> {
        let mut trio = Trio {
            walking: Row::new("nothing changed, stat walk", Goal::AtMost(1.3)),
            watching: Row::new("nothing changed, watcher", Goal::Faster(300.0)),
        };
        self.case.settle();
        for round in 0..self.case.rounds {
            self.round(&mut trio, round, true)?;
        }
        Ok(trio.rows())
    }

    /// `count` files changed since the last capture.
    pub(crate) fn changed(&self, count: usize) -> Fallible<Vec<Row>> {
        let (walk, watch) = match count {
            1 => (Goal::None, Goal::Faster(30.0)),
            10_000 => (Goal::Faster(20.0), Goal::Faster(20.0)),
            _ => (Goal::None, Goal::None),
        };
        let mut trio = Trio {
            walking: Row::new(format!("{count} changed, stat walk"), walk),
            watching: Row::new(format!("{count} changed, watcher"), watch),
        };
        let slow = if count > 1000 { self.case.slow_rounds() } else { self.case.rounds };
        for round in 0..self.case.rounds {
            for n in self.tree.spread(count) {
                self.tree.write((n + round) % self.tree.files, 100 + round)?;
            }
            self.case.settle();
            // The slow peer sees the last rounds only; then it has the same files to read.
            self.round(&mut trio, round, round + slow >= self.case.rounds)?;
        }
        Ok(trio.rows())
    }

    /// Measures each side once; who begins changes with the round.
    fn round(&self, trio: &mut Trio, round: usize, with_peer: bool) -> Fallible {
        let mut trees = Vec::new();
        for turn in 0..3 {
            match (turn + round) % 3 {
                0 => {
                    let (time, captured) = timed(|| self.walking.capture())?;
                    trio.walking.ours.push(time);
                    trees.push(captured.capture.tree.to_string());
                }
                1 => {
                    let (time, captured) = timed(|| self.watching.capture())?;
                    self.watching.must_watch(&captured)?;
                    trio.watching.ours.push(time);
                    trees.push(captured.capture.tree.to_string());
                }
                2 if with_peer => {
                    trees.extend(time_peer(&mut trio.walking, &self.peer, Peer::track)?);
                }
                _ => {}
            }
        }
        if trees.iter().any(|tree| *tree != trees[0]) {
            return Err(format!("{}: the trees differ", trio.walking.what).into());
        }
        Ok(())
    }

    /// Lets every side capture the present state, unmeasured.
    pub(crate) fn follow(&self) -> Fallible<String> {
        self.case.settle();
        self.walking.capture()?;
        self.watching.capture()?;
        let tree = self.peer.track()?;
        self.case.settle();
        Ok(tree)
    }
}
