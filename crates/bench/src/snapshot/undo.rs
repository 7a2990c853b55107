//! Differences, and taking things back.

use super::case::{time_peer, timed};
use super::peer::Peer;
use super::row::{Goal, Row};
use super::steady::Sides;
use crate::Fallible;

/// Files in a difference and in a revert.
const FILES: usize = 100;

impl Sides<'_> {
    /// The difference of two captures in which 100 files differ.
    pub(crate) fn diff(&self) -> Fallible<Row> {
        let mut row = Row::new(format!("diff of {FILES} files"), Goal::Faster(5.0));
        let chosen = self.tree.spread(FILES);
        let from = self.put(&chosen, 200)?;
        let before = self.watching.capture()?.capture;
        let to = self.put(&chosen, 201)?;
        let after = self.watching.capture()?.capture;
        for round in 0..self.case.rounds {
            for turn in 0..2 {
                let found = match (turn + round) % 2 {
                    0 => {
                        let (time, found) = timed(|| self.watching.diff(&before, &after))?;
                        row.ours.push(time);
                        Some(found)
                    }
                    _ => time_peer(&mut row, &self.peer, |peer| peer.diff_full(&from, &to))?,
                };
                if found.is_some_and(|found| found != chosen.len()) {
                    return Err(format!("{found:?} files differ").into());
                }
            }
        }
        Ok(row)
    }

    /// Takes back 100 files: the peer's is track + revert + diff + diffFull.
    pub(crate) fn revert(&self) -> Fallible<Row> {
        let mut row = Row::new(format!("revert of {FILES} files"), Goal::Faster(5.0));
        let chosen = self.tree.spread(FILES);
        let paths: Vec<String> = chosen.iter().map(|n| self.tree.file(*n)).collect();
        let from = self.put(&chosen, 300)?;
        let before = self.watching.capture()?.capture;
        for round in 0..self.case.rounds {
            for turn in 0..2 {
                let to = self.put(&chosen, 301)?;
                let after = self.watching.capture()?.capture;
                if (turn + round) % 2 == 0 {
                    let wishes = self.watching.wishes(&before, &after, &paths)?;
                    row.ours.push(timed(|| self.watching.revert(&wishes))?.0);
                } else {
                    let work = |peer: &Peer| -> Fallible {
                        let snapshot = peer.track()?;
                        peer.revert(&from, &paths)?;
                        peer.diff(&snapshot)?;
                        peer.diff_full(&from, &to)?;
                        Ok(())
                    };
                    time_peer(&mut row, &self.peer, work)?;
                }
                self.must_hold(&chosen, 300)?;
            }
        }
        Ok(row)
    }

    /// Makes the worktree equal to a capture from which one file differs, and captures it again.
    pub(crate) fn unrevert(&self) -> Fallible<Vec<Row>> {
        let mut row = Row::new("unrevert, one file differs", Goal::Faster(50.0));
        let mut next = Row::new("capture after an unrevert", Goal::None);
        // A new shadow of a fresh checkout: the old one may lag behind by thousands of files.
        self.tree.reset()?;
        let peer = self.case.peer("second-shadow", &self.tree.path);
        self.tree.write(0, 400)?;
        self.case.settle();
        let tree = peer.track()?;
        let target = self.watching.capture()?.capture;
        let rounds = self.case.slow_rounds().max(self.case.rounds.min(3));
        for round in 0..rounds {
            self.tree.write(0, 401)?;
            self.case.settle();
            row.ours.push(timed(|| self.watching.restore(&target))?.0);
            self.must_hold(&[0], 400)?;
            next.ours.push(timed(|| self.watching.capture())?.0);
            self.tree.write(0, 401)?;
            self.case.settle();
            time_peer(&mut row, &peer, |peer| peer.restore(&tree))?;
            self.must_hold(&[0], 400)?;
            self.case.settle();
            if round + 1 == rounds {
                // Every file was written anew, so its next capture reads them all.
                time_peer(&mut next, &peer, Peer::track)?;
            } else {
                self.watching.capture()?;
            }
        }
        Ok(vec![row, next])
    }

    /// Writes a version of files and lets every side capture it.
    fn put(&self, chosen: &[usize], version: usize) -> Fallible<String> {
        chosen.iter().try_for_each(|n| self.tree.write(*n, version))?;
        self.follow()
    }

    fn must_hold(&self, chosen: &[usize], version: usize) -> Fallible {
        for n in chosen {
            if !self.tree.holds(*n, version)? {
                return Err(format!("{} was not taken back", self.tree.file(*n)).into());
            }
        }
        Ok(())
    }
}
