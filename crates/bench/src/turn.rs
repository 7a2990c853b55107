//! What a tool call costs: what the engine adds to it, against the commands OpenCode runs for a step.
//!
//! Ours is everything but the tool itself: announced, captured, written down, compared, written down
//! again, each durable. The peer's are the git commands of one step with one call, as a wrapper around
//! git has logged them: `track`, the tool, `track`, `patch`, `diffFull`.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use turnstone_core::id::SessionId;
use turnstone_core::model::{Message, Part, Session, Tokens};
use turnstone_core::turn::Outcome;
use turnstone_engine::{Engine, Prompt, Settings, StepEnd, Touch, Turn};
use turnstone_snapshot::{Mode, UserGit};
use turnstone_store::Context;

use crate::snapshot::{
    Case, GOAL_FILES, Goal, Peer, Row, Tree, load, refuse_cheating, short, sync_ms, time_peer,
    timed,
};
use crate::table::ms;
use crate::{Fallible, data};

/// Calls of each kind; the peer has its turn after every tenth.
const CALLS: usize = 50;
const PEER_EVERY: usize = 10;
/// What is to be reached at 100,000 files.
const GOAL_MS: f64 = 15.0;

/// Measures every size and prints the tables.
pub(crate) fn run(words: &[String]) -> Fallible {
    let quick = words.iter().any(|word| word == "--quick");
    let sizes = match (number(words, "--files")?, quick) {
        (Some(files), _) => vec![files.max(200)],
        (None, true) => vec![1_000],
        (None, false) => vec![10_000, GOAL_FILES],
    };
    let temp = tempfile::tempdir()?;
    refuse_cheating(temp.path())?;
    println!("ours: an engine that keeps the store, watcher on, everything durable; {CALLS} calls");
    println!("peer: the git commands of OpenCode for a step with one call, without its JavaScript");
    println!("load of the machine at the start: {}", load()?);
    let mut missed = Vec::new();
    for files in sizes {
        let dir = temp.path().join(files.to_string());
        fs_err::create_dir(&dir)?;
        let case = Case { files, rounds: CALLS, limit: Duration::from_secs(120), dir };
        let rows = Bench::open(&case)?.measure()?;
        print(files, &rows);
        println!("load {}; writing and syncing 2 KiB takes {:.1} ms", load()?, sync_ms(&case.dir)?);
        missed.extend(
            rows.into_iter()
                .filter(|row| row.is_reached() == Some(false))
                .map(|row| format!("{} at {files} files: {} ms", row.what, short(row.ours_ms()))),
        );
        fs_err::remove_dir_all(&case.dir)?;
    }
    match missed.is_empty() {
        true => println!("\nall goals reached"),
        false => missed.iter().for_each(|row| println!("\nmissed: {row}, goal ≤ {GOAL_MS} ms")),
    }
    Ok(())
}

/// The number behind a word of the command line.
pub(crate) fn number(words: &[String], name: &str) -> Fallible<Option<usize>> {
    let Some(at) = words.iter().position(|word| word == name) else {
        return Ok(None);
    };
    Ok(Some(words.get(at + 1).ok_or("a number is missing")?.parse()?))
}

fn print(files: usize, rows: &[Row]) {
    println!("\n## {files} files\n");
    println!(
        "| overhead of | ours ms | nine of ten | peer ms | ratio | goal | reached | peer's processes |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for row in rows {
        let reached = match row.is_reached() {
            Some(true) => "yes",
            Some(false) => "NO",
            None => "–",
        };
        println!(
            "| {} | {} | {} | {} | {} | {} | {reached} | {} |",
            row.what,
            short(row.ours_ms()),
            short(row.ours_p90()),
            short(row.peer_ms()),
            row.ratio(),
            row.goal(),
            row.spawned
        );
    }
}

/// An engine and the peer on one worktree.
struct Bench<'c> {
    case: &'c Case,
    tree: Tree,
    engine: Engine,
    peer: Peer,
    session: SessionId,
    /// Counts messages and parts.
    number: usize,
    /// Counts versions of files.
    version: usize,
}

/// How a call is announced.
#[derive(Clone, Copy)]
enum Way {
    Named,
    Window,
    Step,
}

impl<'c> Bench<'c> {
    fn open(case: &'c Case) -> Fallible<Self> {
        let tree = Tree::generate(&case.dir.join("tree"), case.files)?;
        tree.init()?;
        case.settle();
        tree.commit()?;
        case.settle();
        let mut settings = Settings::new(&case.dir.join("data"));
        // As for the peer: nobody's git settings but those of the worktree.
        settings.vault.selection.user_git = Some(UserGit::default());
        let ctx = data::context()?;
        let engine = Engine::open(settings, ctx.now)?;
        let project = data::project()?;
        let mut session: Session = data::session(0)?;
        session.directory = tree.path.display().to_string();
        let id = session.id.clone();
        let make = move |tx: &turnstone_store::Tx<'_>| {
            tx.put_project(&project)?;
            tx.create_session(&session)
        };
        engine.store().write(&ctx, make).wait()?;
        let vault = engine.vault(&tree.path, ctx.now)?;
        vault.watch().ok_or("somebody else keeps the store")?;
        vault.track(&turnstone_snapshot::Group::new("bench"), ctx.now)?;
        let peer = case.peer("shadow", &tree.path);
        peer.track()?;
        Ok(Self { case, tree, engine, peer, session: id, number: 0, version: 0 })
    }

    fn measure(mut self) -> Fallible<Vec<Row>> {
        let goal = Goal::Millis(GOAL_MS);
        let mut rows = vec![
            (Way::Named, Row::new("a call that names its file", goal)),
            (Way::Window, Row::new("a shell, one file changed", goal)),
            (Way::Step, Row::new("a whole step with such a call", Goal::None)),
        ];
        let mut turn = self.begin()?;
        for round in 0..self.case.rounds {
            for (way, row) in &mut rows {
                let took = self.once(&turn, *way)?;
                // The first call of each kind opens what later ones find open.
                if round > 0 {
                    row.ours.push(took);
                }
            }
            if round % PEER_EVERY == PEER_EVERY - 1 {
                for (_, row) in &mut rows {
                    self.peer_step(row)?;
                }
                self.engine.end_turn(&data::context()?, &turn, Outcome::Completed, None)?;
                turn = self.begin()?;
            }
        }
        self.must_watch()?;
        Ok(rows.into_iter().map(|(_, row)| row).collect())
    }

    /// Refuses to pass a walk off as the watcher's work.
    fn must_watch(&mut self) -> Fallible {
        self.change()?;
        let now = data::context()?.now;
        let vault = self.engine.vault(&self.tree.path, now)?;
        let captured = vault.track(&turnstone_snapshot::Group::new("bench"), now)?;
        if captured.mode == Mode::Journal {
            return Ok(());
        }
        Err(format!("the watcher was not used: {:?}", captured.journal).into())
    }

    fn begin(&mut self) -> Fallible<Turn> {
        let body = json!({"role": "user", "time": {"created": 1}, "agent": "build",
            "model": {"providerID": "p", "modelID": "m"}});
        let message = self.message(body)?;
        Ok(self.engine.begin_turn(&data::context()?, Prompt { message, parts: Vec::new() })?)
    }

    fn message(&mut self, body: Value) -> Fallible<Message> {
        self.number += 1;
        let id = data::message_id(self.number)?;
        let session = self.session.clone();
        Ok(Message { id, session, body: serde_json::from_value(body)? })
    }

    /// The tool: one file gets a new version.
    fn change(&mut self) -> Fallible<PathBuf> {
        self.version += 1;
        let file = (self.version * 7919) % self.tree.files;
        self.tree.write(file, self.version)?;
        Ok(self.tree.path.join(self.tree.file(file)))
    }

    /// The file the next change will be in.
    fn next(&self) -> PathBuf {
        self.tree.path.join(self.tree.file(((self.version + 1) * 7919) % self.tree.files))
    }

    /// One call; returns what ours added to it, in milliseconds.
    fn once(&mut self, turn: &Turn, way: Way) -> Fallible<f64> {
        let ctx = data::context()?;
        let next = [self.next()];
        if let Way::Step = way {
            return self.step(&ctx, turn, &next);
        }
        let (before, call) = timed(|| match way {
            Way::Named => Ok(self.engine.open_named(&ctx, turn, None, &next)?),
            Way::Window | Way::Step => Ok(self.engine.open_window(&ctx, turn, None)?),
        })?;
        self.change()?;
        let (after, closed) = timed(|| Ok(self.engine.close_call(&ctx, turn, &call)?))?;
        match closed.changes.len() {
            1 => Ok(before + after),
            other => Err(format!("{other} changes were found instead of one").into()),
        }
    }

    /// A model call with one tool call, as it is written down.
    fn step(&mut self, ctx: &Context, turn: &Turn, next: &[PathBuf]) -> Fallible<f64> {
        let answer = self.message(json!({"role": "assistant", "time": {"created": 1},
            "parentID": data::message_id(1)?, "modelID": "m", "providerID": "p", "mode": "build",
            "path": {"cwd": "/", "root": "/"}, "cost": 0, "tokens": Tokens::default()}))?;
        let running = json!({"type": "tool", "callID": "c", "tool": "edit",
            "state": {"status": "running", "input": {}, "time": {"start": 1}}});
        let part = Part {
            id: data::part_id(self.number)?,
            session: self.session.clone(),
            message: answer.id.clone(),
            body: serde_json::from_value(running)?,
        };
        let done =
            serde_json::from_value(json!({"status": "completed", "input": {}, "output": "",
            "title": "", "metadata": {}, "time": {"start": 1, "end": 2}}))?;
        let end = StepEnd { reason: "stop".into(), cost: 0.into(), tokens: Tokens::default() };
        let touch = Touch::Named(next.to_vec());
        let begun = Instant::now();
        let step = self.engine.begin_step(ctx, turn, answer)?;
        let run = self.engine.tool_before(ctx, turn, &part, &touch)?;
        let before = ms(begun.elapsed());
        self.change()?;
        let begun = Instant::now();
        self.engine.tool_after(ctx, turn, run, done)?;
        let found = self.engine.end_step(ctx, turn, &step, &end)?;
        let after = ms(begun.elapsed());
        if found.files.len() != 1 || found.snapshot.is_none() {
            return Err(format!("the step found {found:?}").into());
        }
        Ok(before + after)
    }

    /// The peer's commands for one step with one call.
    fn peer_step(&mut self, row: &mut Row) -> Fallible {
        // What ours changed since is not the peer's to find in this step.
        self.peer.track()?;
        self.case.settle();
        let mut first = Row::new("before", Goal::None);
        let from = time_peer(&mut first, &self.peer, Peer::track)?.ok_or("the peer was stopped")?;
        self.change()?;
        let mut second = Row::new("after", Goal::None);
        let found = time_peer(&mut second, &self.peer, |peer| {
            let to = peer.track()?;
            Ok((peer.patch(&from)?, peer.diff_full(&from, &to)?))
        })?;
        if found != Some((1, 1)) {
            return Err(format!("the peer found {found:?} instead of one change").into());
        }
        row.peer.push(first.peer.iter().chain(&second.peer).sum());
        row.spawned = first.spawned + second.spawned;
        Ok(())
    }
}
