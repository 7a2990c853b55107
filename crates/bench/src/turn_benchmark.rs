//! What a tool call costs: what the engine adds to it, against the commands OpenCode runs for a step.
//!
//! Ours is everything but the tool itself: announced, captured, written down, compared, written down
//! again, each durable. The peer's are the git commands of one step with one call, as a wrapper around
//! git has logged them: `track`, the tool, `track`, `patch`, `diffFull`.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use turnstone_core::id::SessionId;
use turnstone_core::model::{Message, Part, Session, TokenCounts};
use turnstone_core::turn::TurnOutcome;
use turnstone_engine::{Engine, EngineSettings, Prompt, StepEnd, ToolFileAccess, Turn};
use turnstone_snapshot::{CaptureMode, UserGitSettings};
use turnstone_store::Context;

use crate::measurement::to_millis;
use crate::snapshot::{
    BenchmarkCase, GOAL_FILES, GeneratedTree, OpenCodeGit, OperationTimings, PerformanceGoal,
    format_millis, machine_load, measure_millis, measure_sync_millis, require_valid_setup,
    time_peer,
};
use crate::{Fallible, sample_data, turn_over_http};

/// Calls of each kind; the peer has its turn after every tenth.
const CALLS_PER_KIND: usize = 50;
const PEER_EVERY: usize = 10;
/// What is to be reached at 100,000 files.
const GOAL_MS: f64 = 15.0;

/// Measures every size and prints the tables.
pub(crate) fn run(words: &[String]) -> Fallible {
    let quick = words.iter().any(|word| word == "--quick");
    let is_over_http = words.iter().any(|word| word == "--http");
    let sizes = match (parse_number(words, "--files")?, quick) {
        (Some(files), _) => vec![files.max(200)],
        (None, true) => vec![1_000],
        (None, false) => vec![10_000, GOAL_FILES],
    };
    let temp = tempfile::tempdir()?;
    require_valid_setup(temp.path())?;
    println!(
        "ours: an engine that keeps the store, watcher on, everything durable; {CALLS_PER_KIND} calls"
    );
    println!("peer: the git commands of OpenCode for a step with one call, without its JavaScript");
    println!("load of the machine at the start: {}", machine_load()?);
    let mut missed = Vec::new();
    for files in sizes {
        let dir = temp.path().join(files.to_string());
        fs_err::create_dir(&dir)?;
        let case =
            BenchmarkCase { files, rounds: CALLS_PER_KIND, limit: Duration::from_secs(120), dir };
        let rows = match is_over_http {
            true => turn_over_http::measure(&case, GOAL_MS)?,
            false => TurnBenchmark::open(&case)?.measure()?,
        };
        print_table(files, &rows);
        println!(
            "load {}; writing and syncing 2 KiB takes {:.1} ms",
            machine_load()?,
            measure_sync_millis(&case.dir)?
        );
        missed.extend(rows.into_iter().filter(|row| row.is_reached() == Some(false)).map(|row| {
            format!("{} at {files} files: {} ms", row.operation, format_millis(row.ours_ms()))
        }));
        fs_err::remove_dir_all(&case.dir)?;
    }
    match missed.is_empty() {
        true => println!("\nall goals reached"),
        false => missed.iter().for_each(|row| println!("\nmissed: {row}, goal ≤ {GOAL_MS} ms")),
    }
    Ok(())
}

/// The number behind a word of the command line.
pub(crate) fn parse_number(words: &[String], name: &str) -> Fallible<Option<usize>> {
    let Some(at) = words.iter().position(|word| word == name) else {
        return Ok(None);
    };
    Ok(Some(words.get(at + 1).ok_or("a number is missing")?.parse()?))
}

fn print_table(files: usize, rows: &[OperationTimings]) {
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
            row.operation,
            format_millis(row.ours_ms()),
            format_millis(row.ours_p90()),
            format_millis(row.peer_ms()),
            row.ratio_text(),
            row.goal_text(),
            row.peer_processes
        );
    }
}

/// An engine and the peer on one worktree.
struct TurnBenchmark<'c> {
    case: &'c BenchmarkCase,
    tree: GeneratedTree,
    engine: Engine,
    peer: OpenCodeGit,
    session: SessionId,
    /// Counts messages and parts.
    number: usize,
    /// Counts versions of files.
    version: usize,
}

/// How a call is announced.
#[derive(Clone, Copy)]
enum CallKind {
    Named,
    Window,
    Step,
}

impl<'c> TurnBenchmark<'c> {
    fn open(case: &'c BenchmarkCase) -> Fallible<Self> {
        let tree = GeneratedTree::generate(&case.dir.join("tree"), case.files)?;
        tree.init()?;
        case.wait_until_not_racy();
        tree.commit()?;
        case.wait_until_not_racy();
        let mut settings = EngineSettings::new(&case.dir.join("data"));
        // As for the peer: nobody's git settings but those of the worktree.
        settings.snapshot_options.selection.user_git = Some(UserGitSettings::default());
        let ctx = sample_data::context()?;
        let engine = Engine::open(settings, ctx.now)?;
        let project = sample_data::project()?;
        let mut session: Session = sample_data::session(0)?;
        session.directory = tree.path.display().to_string();
        let id = session.id.clone();
        let make = move |tx: &turnstone_store::Tx<'_>| {
            tx.projects().put(&project)?;
            tx.sessions().create(&session)
        };
        engine.store().write(&ctx, make).wait()?;
        let handle = engine.snapshots().open(&tree.path, ctx.now)?;
        handle.maintenance().start_journal().ok_or("another process owns the store")?;
        handle.capture(&turnstone_snapshot::PinGroup::new("bench"), ctx.now)?;
        let peer = case.open_peer("shadow", &tree.path);
        peer.track()?;
        Ok(Self { case, tree, engine, peer, session: id, number: 0, version: 0 })
    }

    fn measure(mut self) -> Fallible<Vec<OperationTimings>> {
        let goal = PerformanceGoal::MaxMillis(GOAL_MS);
        let mut rows = vec![
            (CallKind::Named, OperationTimings::new("a call that names its file", goal)),
            (CallKind::Window, OperationTimings::new("a shell, one file changed", goal)),
            (
                CallKind::Step,
                OperationTimings::new("a whole step with such a call", PerformanceGoal::None),
            ),
        ];
        let mut turn = self.begin_turn()?;
        for round in 0..self.case.rounds {
            for (way, row) in &mut rows {
                let took = self.measure_call(&turn, *way)?;
                // The first call of each kind opens what later ones find open.
                if round > 0 {
                    row.ours.push(took);
                }
            }
            if round % PEER_EVERY == PEER_EVERY - 1 {
                for (_, row) in &mut rows {
                    self.measure_peer_step(row)?;
                }
                self.engine.turns().end(
                    &sample_data::context()?,
                    &turn,
                    TurnOutcome::Completed,
                    None,
                )?;
                turn = self.begin_turn()?;
            }
        }
        self.require_journal()?;
        Ok(rows.into_iter().map(|(_, row)| row).collect())
    }

    /// Refuses to pass a walk off as the watcher's work.
    fn require_journal(&mut self) -> Fallible {
        self.change_file()?;
        let now = sample_data::context()?.now;
        let handle = self.engine.snapshots().open(&self.tree.path, now)?;
        let captured = handle.capture(&turnstone_snapshot::PinGroup::new("bench"), now)?;
        if captured.mode == CaptureMode::Journal {
            return Ok(());
        }
        Err(format!("the watcher was not used: {:?}", captured.journal).into())
    }

    fn begin_turn(&mut self) -> Fallible<Turn> {
        let body = json!({"role": "user", "time": {"created": 1}, "agent": "build",
            "model": {"providerID": "p", "modelID": "m"}});
        let message = self.new_message(body)?;
        Ok(self
            .engine
            .turns()
            .begin(&sample_data::context()?, Prompt { message, parts: Vec::new() })?)
    }

    fn new_message(&mut self, body: Value) -> Fallible<Message> {
        self.number += 1;
        let id = sample_data::message_id(self.number)?;
        let session = self.session.clone();
        Ok(Message { id, session, body: serde_json::from_value(body)? })
    }

    /// The tool: one file gets a new version.
    fn change_file(&mut self) -> Fallible<PathBuf> {
        self.version += 1;
        let file = (self.version * 7919) % self.tree.files;
        self.tree.write_version(file, self.version)?;
        Ok(self.tree.path.join(self.tree.file_path(file)))
    }

    /// The file the next change will be in.
    fn next_file(&self) -> PathBuf {
        self.tree.path.join(self.tree.file_path(((self.version + 1) * 7919) % self.tree.files))
    }

    /// One call; returns what ours added to it, in milliseconds.
    fn measure_call(&mut self, turn: &Turn, way: CallKind) -> Fallible<f64> {
        let ctx = sample_data::context()?;
        let next = [self.next_file()];
        if let CallKind::Step = way {
            return self.measure_step(&ctx, turn, &next);
        }
        let (before, call) = measure_millis(|| match way {
            CallKind::Named => Ok(self.engine.tool_calls().open_named(&ctx, turn, None, &next)?),
            CallKind::Window | CallKind::Step => {
                Ok(self.engine.tool_calls().open_window(&ctx, turn, None)?)
            }
        })?;
        self.change_file()?;
        let (after, closed) =
            measure_millis(|| Ok(self.engine.tool_calls().close(&ctx, turn, &call)?))?;
        match closed.changes.len() {
            1 => Ok(before + after),
            other => Err(format!("{other} changes were found instead of one").into()),
        }
    }

    /// A model call with one tool call, as it is written down.
    fn measure_step(&mut self, ctx: &Context, turn: &Turn, next: &[PathBuf]) -> Fallible<f64> {
        let answer = self.new_message(json!({"role": "assistant", "time": {"created": 1},
            "parentID": sample_data::message_id(1)?, "modelID": "m", "providerID": "p", "mode": "build",
            "path": {"cwd": "/", "root": "/"}, "cost": 0, "tokens": TokenCounts::default()}))?;
        let running = json!({"type": "tool", "callID": "c", "tool": "edit",
            "state": {"status": "running", "input": {}, "time": {"start": 1}}});
        let part = Part {
            id: sample_data::part_id(self.number)?,
            session: self.session.clone(),
            message: answer.id.clone(),
            body: serde_json::from_value(running)?,
        };
        let done =
            serde_json::from_value(json!({"status": "completed", "input": {}, "output": "",
            "title": "", "metadata": {}, "time": {"start": 1, "end": 2}}))?;
        let end = StepEnd {
            reason: "stop".into(),
            cost: 0.into(),
            tokens: TokenCounts::default(),
            structured: None,
        };
        let touch = ToolFileAccess::Named(next.to_vec());
        let begun = Instant::now();
        let step = self.engine.turns().steps().begin(ctx, turn, answer)?;
        let run = self.engine.turns().steps().begin_tool(ctx, turn, &part, &touch)?;
        let before = to_millis(begun.elapsed());
        self.change_file()?;
        let begun = Instant::now();
        self.engine.turns().steps().end_tool(ctx, turn, run, done)?;
        let found = self.engine.turns().steps().end(ctx, turn, &step, &end)?;
        let after = to_millis(begun.elapsed());
        if found.files.len() != 1 || found.snapshot.is_none() {
            return Err(format!("the step found {found:?}").into());
        }
        Ok(before + after)
    }

    /// The peer's commands for one step with one call.
    fn measure_peer_step(&mut self, row: &mut OperationTimings) -> Fallible {
        // What ours changed since is not the peer's to find in this step.
        self.peer.track()?;
        self.case.wait_until_not_racy();
        let mut first = OperationTimings::new("before", PerformanceGoal::None);
        let from =
            time_peer(&mut first, &self.peer, OpenCodeGit::track)?.ok_or("the peer was stopped")?;
        self.change_file()?;
        let mut second = OperationTimings::new("after", PerformanceGoal::None);
        let found = time_peer(&mut second, &self.peer, |peer| {
            let to = peer.track()?;
            Ok((peer.patch(&from)?, peer.diff_full(&from, &to)?))
        })?;
        if found != Some((1, 1)) {
            return Err(format!("the peer found {found:?} instead of one change").into());
        }
        row.peer.push(first.peer.iter().chain(&second.peer).sum());
        row.peer_processes = first.peer_processes + second.peer_processes;
        Ok(())
    }
}
