//! Steps of a round with more than one thing at a time: a full disk, several turns, a save that goes on.

use std::io::Write;

use turnstone_testkit::fixture::SeededRng;

use crate::model::{Direction, ExpectedResult};
use crate::report::CliOutput;
use crate::round::{AGENTS, Fallible, Round, await_path};
use crate::tree::{
    DiskTree, ModelNode, ModelTree, SLOTS, describe_difference, is_below, put, read_tree,
    render_tree,
};

/// Room that is left on a disk that is nearly full, in KiB: from nothing to more than any undo needs.
const ROOMS_KIB: [u64; 9] = [0, 60, 130, 260, 380, 470, 530, 600, 1200];

impl Round {
    /// An undo or redo on a disk that is nearly full: what it reports is what it did, and what it refuses has
    /// changed no file, now and once there is room.
    pub(crate) fn undo_on_full_disk(&mut self, direction: Direction) -> Fallible {
        let Some(turn) = self.draw_turn() else { return Ok(()) };
        let Some(disk) = &self.disk else { return self.undo_or_redo(direction, false) };
        let room = *self.rng.choose(&ROOMS_KIB).ok_or("no room")?;
        disk.fill_leaving(room << 10)?;
        let mut expected = self.model.expect(direction, turn, None);
        let verb = direction.verb();
        let args = [verb, &self.model.turns[turn].id, "--json"].map(str::to_owned);
        let ran = self.program(&args)?;
        self.history.push(format!("{} with {room} KiB left: {}", args.join(" "), ran.show()));
        let left = read_tree(&self.root)?;
        self.disk.as_ref().ok_or("no disk")?.free()?;
        let status = self.program(&["status".to_owned()])?;
        if status.code != Some(0) || status.err.contains("finished") {
            return Err(format!("status after a full disk: {}", status.show()).into());
        }
        if let Some(lines) = describe_difference(&left, &read_tree(&self.root)?) {
            return Err(format!("files changed once there was room:\n{lines}").into());
        }
        self.accept_part(&mut expected, &left)?;
        if ran.code != Some(0) && ran.code != Some(4) && !expected.moved.is_empty() {
            return Err("files changed although the exit code says that none did".into());
        }
        if ran.code == Some(0) && !expected.conflicts.is_empty() {
            return Err(
                format!("not everything is done, and the exit code is 0: {expected:?}").into()
            );
        }
        self.model.apply(direction, turn, &expected);
        Ok(())
    }

    /// Every path that was to move has moved or is as it was; the others count as conflicts.
    fn accept_part(&self, expected: &mut ExpectedResult, left: &DiskTree) -> Fallible {
        let mut tree = self.model.tree.clone();
        let before = render_tree(&tree);
        let after = render_tree(&expected.tree);
        for (path, (_, image)) in std::mem::take(&mut expected.moved) {
            if left.get(&path) == after.get(&path) {
                let found = self.model.tree.get(&path).cloned();
                put(&mut tree, &path, image.clone());
                expected.moved.insert(path, (found, image));
            } else if left.get(&path) == before.get(&path) {
                expected.conflicts.insert(path);
            } else {
                return Err(
                    format!("{path} holds neither what it held nor what it was to hold").into()
                );
            }
        }
        expected.tree = tree;
        Ok(())
    }

    /// Two turns of one session with nothing in common are undone in one step. Turns of other sessions would be
    /// redone together, too.
    pub(crate) fn undo_two_turns(&mut self) -> Fallible {
        let (Some(one), Some(other)) = (self.draw_turn(), self.draw_turn()) else { return Ok(()) };
        let (newer, older) = (one.max(other), one.min(other));
        let Some(steps) = self.expect_both(newer, older) else {
            return self.undo_or_redo(Direction::Undo, false);
        };
        let mut args = vec!["undo".to_owned()];
        args.extend([older, newer].map(|turn| self.model.turns[turn].id.clone()));
        self.history.push(args.join(" "));
        let ran = self.program(&args)?;
        if ran.code != Some(0) {
            return Err(format!("undo of two turns: {}", ran.show()).into());
        }
        for (turn, expected) in steps {
            self.model.apply(Direction::Undo, turn, &expected);
        }
        Ok(())
    }

    /// What undoing both must do; `None` if that is more than undoing one after the other.
    fn expect_both(&self, newer: usize, older: usize) -> Option<Vec<(usize, ExpectedResult)>> {
        if newer == older {
            return None;
        }
        let mut model = self.model.clone();
        let mut steps = Vec::new();
        for turn in [newer, older] {
            let expected = model.expect(Direction::Undo, turn, None);
            let is_plain = expected.conflicts.is_empty()
                && expected.contended.is_empty()
                && expected.kept.is_empty()
                && !self.model.turns[turn].has_unfinished
                && !expected.moved.is_empty();
            if !is_plain {
                return None;
            }
            model.apply(Direction::Undo, turn, &expected);
            steps.push((turn, expected));
        }
        let (one, other) = (&self.model.turns[newer], &self.model.turns[older]);
        let is_apart = one.changes.keys().all(|path| {
            let meets = |it: &String| it == path || is_below(it, path) || is_below(path, it);
            !other.changes.keys().any(meets)
        });
        let is_one_session = self.agents.get(&one.id) == self.agents.get(&other.id);
        (is_apart && is_one_session).then_some(steps)
    }

    /// A person saves a file: it is empty when a command starts, and complete before the command ends. An undo of
    /// the command leaves the complete file.
    pub(crate) fn save_during_command(&mut self, agent: usize) -> Fallible {
        let mut window = self.model.open_window();
        let (script, deeds) = self.draw_edits(2);
        let Some(path) = unchanged_file(&mut self.rng, &window.before, &self.model.tree) else {
            self.history.push(format!("person: {script}"));
            return self.shell(&script);
        };
        self.history.push(format!("{} runs while {path} is saved: {script}", AGENTS[agent]));
        let mut save = fs_err::File::create(self.root.join(&path))?;
        let (written, enough) = (self.dir.join("written"), self.dir.join("enough"));
        let mut child = self.start_waiting(agent, &script)?;
        await_path(&written, &mut child)?;
        self.fresh += SLOTS as u64;
        let Some(ModelNode::File { slots, .. }) = self.model.tree.get_mut(&path) else {
            return Err(format!("{path} is no file").into());
        };
        *slots = std::array::from_fn(|slot| self.fresh + slot as u64);
        let complete = self.model.tree[&path].clone();
        save.write_all(complete.render().as_bytes())?;
        drop(save);
        // The person did that: it is no change of the turn.
        window.before.insert(path, complete);
        fs_err::write(&enough, "")?;
        let ended = child.wait()?;
        fs_err::remove_file(&written)?;
        fs_err::remove_file(&enough)?;
        if !ended.success() {
            return Err(format!("the command ended with {ended}").into());
        }
        let id = self.newest_turn(agent)?;
        self.model.close_window(&window, id, &deeds);
        self.model.turns.last_mut().ok_or("no turn")?.has_unfinished = true;
        Ok(())
    }

    fn draw_turn(&mut self) -> Option<usize> {
        let count = self.model.turns.len() as u64;
        (count > 0).then(|| self.rng.below(count) as usize)
    }
}

/// A regular file that is the same in both trees.
fn unchanged_file(rng: &mut SeededRng, one: &ModelTree, other: &ModelTree) -> Option<String> {
    let files: Vec<String> = one
        .iter()
        .filter(|(path, node)| {
            matches!(node, ModelNode::File { .. }) && other.get(*path) == Some(*node)
        })
        .map(|(path, _)| path.clone())
        .collect();
    rng.choose(&files).cloned()
}

/// A turn whose opening capture met a save may name that file, or not: whose change it is can be known.
pub(crate) fn is_accepted_after_save(ran: &CliOutput) -> bool {
    matches!(ran.code, Some(0 | 1 | 4))
}
