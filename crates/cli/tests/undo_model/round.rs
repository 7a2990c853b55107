//! One round: a project, two agents, a person, and what they do in random order.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use turnstone_testkit::fixture::{SeededRng, TempDataDir};
use turnstone_testkit::small_disk::SmallDisk;

use crate::edit::{CommandDeeds, Edit};
use crate::model::{Direction, ExpectedResult, UndoModel};
use crate::report::{CliOutput, check_result, summary};
use crate::tree::{
    ModelNode, ModelTree, SLOTS, describe_difference, read_tree, render_tree, write_tree,
};

pub(crate) type Fallible<T = ()> = Result<T, Box<dyn std::error::Error>>;

const STEPS: u64 = 14;
const DISK_KIB: u64 = 16 << 10;
pub(crate) const AGENTS: [&str; 2] = ["agent one", "agent two"];

/// Every so many rounds has a disk that fills up, at two steps at least.
const FULL_DISK_ROUNDS: u64 = 5;
const FULL_DISK_STEPS: [u64; 2] = [6, 10];
/// A file that git ignores: agents write to it, and it is never captured nor changed.
const IGNORED_FILE: &str = "cache.o";

pub(crate) struct Round {
    pub(crate) dir: TempDataDir,
    /// Where the data directory is in rounds in which its disk fills up.
    pub(crate) disk: Option<SmallDisk>,
    pub(crate) root: PathBuf,
    pub(crate) rng: SeededRng,
    pub(crate) model: UndoModel,
    sessions: [Option<String>; 2],
    /// The agents of the turns.
    pub(crate) agents: BTreeMap<String, usize>,
    pub(crate) fresh: u64,
    moves: u64,
    /// What the ignored file holds, in a project that has one.
    ignored: Option<String>,
    /// What was done, for the report of a failure.
    pub(crate) history: Vec<String>,
}

/// Plays one round; an error says what was done and where the disk and the model differ.
pub(crate) fn run(seed: u64) -> Fallible {
    let mut round = Round::new(seed)?;
    for step in 0..STEPS {
        if let Err(error) = round.step(step) {
            return Err(format!("{error}\nafter:\n{}", round.history.join("\n")).into());
        }
    }
    Ok(())
}

impl Round {
    fn new(seed: u64) -> Fallible<Self> {
        let dir = TempDataDir::in_memory()?;
        let root = dir.join("p");
        let mut rng = SeededRng::new(seed);
        let mut tree = ModelTree::new();
        let mut fresh = 1;
        for (path, perm) in
            [("src", 0o755), ("src/deep", 0o755), ("private", 0o700), ("void", 0o755)]
        {
            tree.insert(path.to_owned(), ModelNode::Directory { perm });
        }
        for (path, perm) in [
            ("a.txt", 0o644),
            ("b.txt", 0o600),
            ("run.sh", 0o755),
            ("data.bin", 0o644),
            ("src/c.txt", 0o644),
            ("src/deep/d.txt", 0o640),
            ("private/e.txt", 0o644),
        ] {
            let slots: [u64; SLOTS] = std::array::from_fn(|slot| fresh + slot as u64);
            fresh += SLOTS as u64;
            let binary = path.ends_with(".bin");
            tree.insert(path.to_owned(), ModelNode::File { slots, binary, perm });
        }
        write_tree(&root, &tree)?;
        let has_git = rng.below(2) == 0;
        let has_disk = seed.is_multiple_of(FULL_DISK_ROUNDS) || rng.below(4) == 0;
        let disk = if has_disk { SmallDisk::mount(DISK_KIB)? } else { None };
        let mut round = Self {
            dir,
            disk,
            root,
            rng,
            model: UndoModel::new(tree),
            sessions: [None, None],
            agents: BTreeMap::new(),
            fresh,
            moves: 0,
            ignored: None,
            history: Vec::new(),
        };
        if has_git {
            round.shell("git init -q . && echo '*.o' > .git/info/exclude && touch cache.o")?;
            round.ignored = Some(String::new());
        }
        Ok(round)
    }

    fn step(&mut self, number: u64) -> Fallible {
        let agent = self.rng.below(2) as usize;
        let direction = *self.rng.choose(&[Direction::Undo, Direction::Redo]).ok_or("none")?;
        match self.rng.below(100) {
            _ if self.disk.is_some() && number == FULL_DISK_STEPS[0] => self.fill_disk(agent)?,
            _ if self.disk.is_some() && number == FULL_DISK_STEPS[1] => {
                self.undo_on_full_disk(direction)?;
            }
            0..=31 => self.run_agent(agent)?,
            32..=47 => self.edit_as_person()?,
            48..=66 => self.undo_or_redo(Direction::Undo, false)?,
            67..=75 => self.undo_or_redo(Direction::Redo, false)?,
            76..=79 => self.undo_two_turns()?,
            80..=82 => self.save_during_command(agent)?,
            83..=84 => self.undo_on_full_disk(direction)?,
            85..=89 => self.overlap(agent)?,
            90..=91 => self.kill_command(agent)?,
            92..=93 => self.fill_disk(agent)?,
            94..=96 => self.undo_or_redo(Direction::Undo, true)?,
            _ => self.move_project()?,
        }
        self.verify()
    }

    /// Draws edits and returns them as a script, with what it does to which paths; the model has them already.
    pub(crate) fn draw_edits(&mut self, most: u64) -> (String, CommandDeeds) {
        let mut deeds = CommandDeeds::new();
        let mut lines = vec!["set -e; umask 022".to_owned()];
        for _ in 0..self.rng.in_range(1..=most) {
            self.fresh += SLOTS as u64;
            let edit = Edit::draw(&mut self.rng, &self.model.tree, self.fresh);
            lines.push(edit.script(&self.model.tree));
            edit.record(&self.model.tree, &mut deeds);
            edit.apply(&mut self.model.tree);
        }
        if let Some(ignored) = self.ignored.as_mut().filter(|_| self.rng.below(3) == 0) {
            lines.push(format!("echo {} >>{IGNORED_FILE}", self.fresh));
            ignored.push_str(&format!("{}\n", self.fresh));
        }
        (lines.join("\n"), deeds)
    }

    fn edit_as_person(&mut self) -> Fallible {
        let (script, _) = self.draw_edits(2);
        self.history.push(format!("person: {script}"));
        self.shell(&script)
    }

    fn run_agent(&mut self, agent: usize) -> Fallible {
        let window = self.model.open_window();
        let (script, deeds) = self.draw_edits(4);
        self.history.push(format!("{}: {script}", AGENTS[agent]));
        let ran = self.program(&self.exec_args(agent, &script))?;
        if ran.code != Some(0) {
            return Err(format!("exec ended with {:?}: {}", ran.code, ran.err).into());
        }
        let id = self.newest_turn(agent)?;
        self.model.close_window(&window, id, &deeds);
        self.check_log(agent)
    }

    /// A command is running while the other agent works or a person edits.
    fn overlap(&mut self, agent: usize) -> Fallible {
        let window = self.model.open_window();
        let (script, deeds) = self.draw_edits(2);
        self.history.push(format!("{} begins: {script}", AGENTS[agent]));
        let (written, enough) = (self.dir.join("written"), self.dir.join("enough"));
        let mut child = self.start_waiting(agent, &script)?;
        await_path(&written, &mut child)?;
        match self.rng.below(4) {
            0 => self.edit_as_person()?,
            1 => self.run_agent(1 - agent)?,
            2 => self.undo_or_redo(Direction::Undo, false)?,
            _ => self.undo_or_redo(Direction::Redo, false)?,
        }
        fs_err::write(&enough, "")?;
        let ended = child.wait()?;
        fs_err::remove_file(&written)?;
        fs_err::remove_file(&enough)?;
        self.history.push(format!("{} ends", AGENTS[agent]));
        if !ended.success() {
            return Err(format!("the overlapping command ended with {ended}").into());
        }
        let id = self.newest_turn(agent)?;
        self.model.close_window(&window, id, &deeds);
        Ok(())
    }

    /// Starts a command that runs a script, makes the file `written`, and ends once there is a file `enough`.
    pub(crate) fn start_waiting(&self, agent: usize, script: &str) -> Fallible<Child> {
        let (written, enough) = (self.dir.join("written"), self.dir.join("enough"));
        let waiting = format!(
            "{script}\ntouch {}; while [ ! -e {} ]; do sleep 0.02; done",
            written.display(),
            enough.display()
        );
        self.start(&self.exec_args(agent, &waiting))
    }

    /// `turnstone exec` is killed after its command has written.
    fn kill_command(&mut self, agent: usize) -> Fallible {
        let window = self.model.open_window();
        let (script, deeds) = self.draw_edits(3);
        self.history.push(format!("{} is killed: {script}", AGENTS[agent]));
        let written = self.dir.join("written");
        let waiting = format!("{script}\ntouch {}; sleep 600", written.display());
        let mut child = self.start(&self.exec_args(agent, &waiting))?;
        await_path(&written, &mut child)?;
        child.kill()?;
        child.wait()?;
        fs_err::remove_file(&written)?;
        let ran = self.program(&["status".to_owned()])?;
        if ran.code != Some(0) {
            return Err(format!("status after a kill: {}", ran.err).into());
        }
        let id = self.newest_turn(agent)?;
        self.model.close_window(&window, id, &deeds);
        Ok(())
    }

    /// The data disk fills up while a command runs, and is freed before the next one.
    fn fill_disk(&mut self, agent: usize) -> Fallible {
        let Some(disk) = &self.disk else { return self.kill_command(agent) };
        let filler = disk.path().join("filler");
        let window = self.model.open_window();
        let (script, deeds) = self.draw_edits(3);
        self.history.push(format!("{} fills the disk: {script}", AGENTS[agent]));
        let fill = format!("cat /dev/zero >{} 2>/dev/null || true", filler.display());
        let script = match self.rng.below(2) {
            0 => format!("{fill}\n{script}"),
            _ => format!("{script}\n{fill}"),
        };
        let ran = self.program(&self.exec_args(agent, &script))?;
        self.history.push(format!("it ended with {:?}: {}", ran.code, ran.err));
        if self.rng.below(2) == 0 {
            // Any command that comes while the disk is full gives nothing up.
            let ran = self.program(&["status".to_owned()])?;
            self.history.push(format!("status on the full disk: {:?}: {}", ran.code, ran.err));
        }
        fs_err::remove_file(&filler)?;
        let ran = self.program(&["status".to_owned()])?;
        if ran.code != Some(0) {
            return Err(format!("status after a full disk: {}", ran.err).into());
        }
        let id = self.newest_turn(agent)?;
        self.model.close_window(&window, id, &deeds);
        self.check_log(agent)
    }

    fn move_project(&mut self) -> Fallible {
        self.moves += 1;
        let to = self.dir.join(format!("p{}", self.moves));
        self.history.push(format!("the project is moved to {}", to.display()));
        fs_err::rename(&self.root, &to)?;
        self.root = to;
        Ok(())
    }

    /// Undoes or redoes a turn, maybe only one path of it; maybe the program is killed meanwhile.
    pub(crate) fn undo_or_redo(&mut self, direction: Direction, kill: bool) -> Fallible {
        let candidates: Vec<usize> = (0..self.model.turns.len()).collect();
        let Some(&turn) = self.rng.choose(&candidates) else { return Ok(()) };
        let chosen = &self.model.turns[turn];
        let has_unfinished = chosen.has_unfinished;
        let paths: Vec<String> = match direction {
            Direction::Undo => chosen.changes.keys().cloned().collect(),
            Direction::Redo => chosen.undone.keys().cloned().collect(),
        };
        let mut filter = None;
        if self.rng.below(4) == 0 {
            filter = self.rng.choose(&paths).cloned();
        }
        let expected = self.model.expect(direction, turn, filter.as_deref());
        let mut args = vec![
            direction.verb().to_owned(),
            self.model.turns[turn].id.clone(),
            "--json".to_owned(),
        ];
        if let Some(path) = &filter {
            args.extend(["--path".to_owned(), path.clone()]);
        }
        self.history.push(args.join(" "));
        if kill && !expected.moved.is_empty() {
            return self.kill_undo(direction, turn, &args, &expected);
        }
        let dry = self.program(&[&args[..], &["--dry-run".to_owned()]].concat())?;
        self.verify().map_err(|error| format!("after a dry run: {error}"))?;
        let ran = self.program(&args)?;
        if dry.code != ran.code || summary(&dry) != summary(&ran) {
            return Err(
                format!("the dry run said {}\nthe real run {}", dry.show(), ran.show()).into()
            );
        }
        check_result(&ran, &expected, has_unfinished)
            .map_err(|error| format!("{error}\n{}", ran.show()))?;
        if ran.code != Some(1) {
            self.model.apply(direction, turn, &expected);
        }
        self.verify().map_err(|error| format!("{error}\nthe report: {}", ran.show()).into())
    }

    /// Kills the program during an undo: afterwards it is done, or it has not begun.
    fn kill_undo(
        &mut self,
        direction: Direction,
        turn: usize,
        args: &[String],
        expected: &ExpectedResult,
    ) -> Fallible {
        let mut child = self.start(args)?;
        std::thread::sleep(Duration::from_millis(self.rng.below(60)));
        child.kill()?;
        child.wait()?;
        let ran = self.program(&["status".to_owned()])?;
        if ran.code != Some(0) {
            return Err(format!("status after a kill: {}", ran.err).into());
        }
        let is_done = read_tree(&self.root)? == render_tree(&expected.tree);
        self.history.push(format!("killed; done: {is_done}"));
        if is_done {
            self.model.apply(direction, turn, expected);
        }
        Ok(())
    }

    /// The disk holds what the model says.
    fn verify(&self) -> Fallible {
        if let Some(ignored) = &self.ignored
            && fs_err::read_to_string(self.root.join(IGNORED_FILE))? != *ignored
        {
            return Err("the ignored file was changed".into());
        }
        match describe_difference(&render_tree(&self.model.tree), &read_tree(&self.root)?) {
            None => Ok(()),
            Some(lines) => Err(format!("the files differ from the model:\n{lines}").into()),
        }
    }

    /// The log lists the files that the newest turn changed, and no other.
    fn check_log(&mut self, agent: usize) -> Fallible {
        let entry = self.newest_entry(agent)?;
        let listed: Vec<&str> = entry["files"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|it| it["path"].as_str())
            .collect();
        let turn = self.model.turns.last().ok_or("no turn")?;
        let is_file = |node: &Option<ModelNode>| node.as_ref().is_some_and(|it| !it.is_directory());
        let expected: Vec<&str> = turn
            .changes
            .iter()
            .filter(|(_, (before, after))| is_file(before) || is_file(after))
            .map(|(path, _)| path.as_str())
            .collect();
        let listed: Vec<&str> = listed
            .into_iter()
            .filter(|path| expected.contains(path) || !turn.changes.contains_key(*path))
            .collect();
        match listed == expected {
            true => Ok(()),
            false => Err(format!("the turn changed {expected:?}, the log lists {listed:?}").into()),
        }
    }

    pub(crate) fn newest_turn(&mut self, agent: usize) -> Fallible<String> {
        let entry = self.newest_entry(agent)?;
        let id = entry["id"].as_str().ok_or("a turn without an id")?.to_owned();
        self.agents.insert(id.clone(), agent);
        Ok(id)
    }

    fn newest_entry(&mut self, agent: usize) -> Fallible<Value> {
        if self.sessions[agent].is_none() {
            let listed = self.program_json(&["session", "list", "--json"])?;
            let own = listed["sessions"]
                .as_array()
                .into_iter()
                .flatten()
                .find(|it| it["title"] == AGENTS[agent]);
            let id = own.ok_or("the session is not listed")?["id"].as_str().ok_or("no id")?;
            self.sessions[agent] = Some(id.to_owned());
        }
        let session = self.sessions[agent].clone().ok_or("no session")?;
        let log = self.program_json(&["log", &session, "--all", "--json"])?;
        let mut turns =
            log["entries"].as_array().into_iter().flatten().filter(|it| it["type"] == "turn");
        Ok(turns.next_back().ok_or("no turn in the log")?.clone())
    }

    fn exec_args(&self, agent: usize, script: &str) -> Vec<String> {
        let own = match &self.sessions[agent] {
            Some(id) => ["--session", id.as_str()],
            None => ["--title", AGENTS[agent]],
        };
        ["exec", own[0], own[1], "--", "sh", "-c", script].map(str::to_owned).to_vec()
    }

    fn data_dir(&self) -> PathBuf {
        match &self.disk {
            Some(disk) => disk.path().join("data"),
            None => self.dir.join("data"),
        }
    }

    fn program_json(&self, args: &[&str]) -> Fallible<Value> {
        let ran = self.program(&args.iter().map(|&arg| arg.to_owned()).collect::<Vec<_>>())?;
        if ran.code != Some(0) {
            return Err(format!("{args:?} ended with {:?}: {}", ran.code, ran.err).into());
        }
        Ok(serde_json::from_str(&ran.out)?)
    }

    pub(crate) fn program(&self, args: &[String]) -> Fallible<CliOutput> {
        let output = self.command(args).output()?;
        Ok(CliOutput {
            code: output.status.code(),
            out: String::from_utf8(output.stdout)?,
            err: String::from_utf8(output.stderr)?,
        })
    }

    fn start(&self, args: &[String]) -> Fallible<Child> {
        let mut command = self.command(args);
        Ok(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?)
    }

    #[expect(clippy::disallowed_methods, reason = "the real program, started as a person does")]
    fn command(&self, args: &[String]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_turnstone"));
        command
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", self.dir.join("home"))
            .env("USER", "ada")
            .env("TURNSTONE_DATA", self.data_dir())
            .current_dir(&self.root)
            .stdin(Stdio::null())
            .args(args);
        command
    }

    /// Runs a script as a person would, outside of Turnstone.
    #[expect(clippy::disallowed_methods, reason = "a person's shell")]
    pub(crate) fn shell(&self, script: &str) -> Fallible {
        let status = Command::new("sh").args(["-c", script]).current_dir(&self.root).status()?;
        match status.success() {
            true => Ok(()),
            false => Err(format!("the script ended with {status}: {script}").into()),
        }
    }
}

/// Waits until a command has made a file, or has ended without it.
pub(crate) fn await_path(path: &Path, child: &mut Child) -> Fallible {
    while !path.exists() {
        if let Some(status) = child.try_wait()?
            && !path.exists()
        {
            return Err(format!("the command ended early with {status}").into());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}
