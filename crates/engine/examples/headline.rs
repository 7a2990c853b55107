//! The program of the headline test: an agent that follows its script and may die anywhere.
//!
//! `headline worker DIR SESSION` opens the engine on `DIR/data`, recovers what dead processes left,
//! and does one order per line of its input; each line of its output is the answer to one. `headline
//! play SEED STEPS FILES` plays the whole test, with agents of its own, on so many files.

#[path = "../tests/headline/model.rs"]
mod model;
#[path = "../tests/headline/play.rs"]
mod play;
#[path = "../tests/headline/world.rs"]
mod world;

use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use turnstone_core::change::FileChange;
use turnstone_core::model::Message;
use turnstone_core::rel_path::RelPath;
use turnstone_core::time::EpochMillis;
use turnstone_core::turn::TurnOutcome;
use turnstone_engine::{
    Engine, EngineSettings, Prompt, TrackedCall, Turn, UndoOptions, UndoTarget,
};
use turnstone_snapshot::{FreeSpaceFloor, StorageBudget};
use turnstone_store::{Actor, Context};

type Fallible<T = ()> = Result<T, Box<dyn std::error::Error>>;

const NOW: i64 = 1_767_225_600_000;

fn main() -> std::process::ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["worker", dir, session] => work(Path::new(dir), session),
        ["play", seed, steps, files] => measure(seed, steps, files),
        _ => Err("usage: headline worker DIR SESSION | play SEED STEPS FILES".into()),
    };
    match done {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            drop(writeln!(std::io::stderr(), "error: {error}"));
            std::process::ExitCode::FAILURE
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "it measures")]
fn measure(seed: &str, steps: &str, files: &str) -> Fallible {
    let started = std::time::Instant::now();
    let (steps, files) = (steps.parse()?, files.parse()?);
    let play = play::play(&std::env::current_exe()?, seed.parse()?, steps, files)?;
    let took = started.elapsed().as_secs_f64();
    say(&json!({ "files": files, "steps": steps, "seconds": took, "counts": play.counts() }))
}

/// One line in one write, so that a reader never sees half of an answer.
fn say(line: &Value) -> Fallible {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("{line}\n").as_bytes())?;
    Ok(out.flush()?)
}

/// One agent: a session, at most one turn, at most one call.
struct Agent {
    engine: Engine,
    session: turnstone_core::id::SessionId,
    dir: PathBuf,
    turn: Option<Turn>,
    call: Option<TrackedCall>,
    orders: i64,
}

fn work(dir: &Path, session: &str) -> Fallible {
    let mut settings = EngineSettings::new(&dir.join("data"));
    settings.snapshot_options.budget = StorageBudget {
        store: world::budget(dir)?,
        floor: FreeSpaceFloor::Bytes(0),
        ..StorageBudget::default()
    };
    let engine = Engine::open(settings, EpochMillis(NOW))?;
    let mut agent = Agent {
        engine,
        session: session.parse()?,
        dir: dir.to_owned(),
        turn: None,
        call: None,
        orders: 0,
    };
    agent.prepare()?;
    say(&json!({ "ok": agent.facts()? }))?;
    for line in std::io::stdin().lock().lines() {
        let order: Value = serde_json::from_str(&line?)?;
        agent.orders += 1;
        let answer = match agent.obey(&order) {
            Ok(answer) => json!({ "ok": answer }),
            Err(error) => json!({ "error": words(&*error) }),
        };
        say(&answer)?;
    }
    Ok(())
}

fn words(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        cause = inner.source();
    }
    text
}

impl Agent {
    fn ctx(&self) -> Context {
        Context::new(Actor::new("agent").expect("a name"), EpochMillis(NOW + self.orders))
    }

    /// Makes what a first start needs, and finishes what others left.
    fn prepare(&self) -> Fallible {
        let root = self.dir.join("work");
        let store = self.engine.store();
        let project = json!({"id": "p", "worktree": root, "time": {"created": 1, "updated": 1}});
        let project = serde_json::from_value(project)?;
        store.write(&self.ctx(), move |tx| tx.projects().put(&project)).wait()?;
        let found = store.read(&self.ctx(), |r| r.sessions().find(&self.session))?;
        if found.is_none() {
            let session = serde_json::from_value(json!({"id": self.session, "slug": "calm-otter",
                "projectID": "p", "directory": root, "title": "T", "version": "1",
                "time": {"created": 1, "updated": 1}}))?;
            store.write(&self.ctx(), move |tx| tx.sessions().create(&session)).wait()?;
        }
        self.engine.maintenance().recover_all(&self.ctx())?;
        Ok(())
    }

    /// What the database holds of this session, and of everything that must not be stuck.
    fn facts(&self) -> Fallible<Value> {
        let name = &self.session;
        let facts = self.engine.store().read(&self.ctx(), |r| {
            let changes: Vec<Value> = r
                .change_sets()
                .list(name)?
                .iter()
                .map(|row| {
                    json!({ "id": row.set.id, "turn": row.set.turn, "evidence": row.set.evidence,
                        "open": row.closed.is_none(),
                        "paths": file_paths(&row.set.changes),
                        "uncovered": uncovered_paths(&row.set.changes) })
                })
                .collect();
            let turns: Vec<Value> = r
                .turns()
                .list(name)?
                .iter()
                .map(|turn| json!({ "id": turn.id, "open": turn.state.is_open() }))
                .collect();
            let operations: Vec<Value> = r
                .operations()
                .list(name)?
                .iter()
                .filter(|operation| !operation.kind.is_background())
                .map(|operation| {
                    json!({ "id": operation.id, "kind": operation.kind,
                        "open": operation.done.is_none() })
                })
                .collect();
            let expired: Vec<_> = r.undo_expiry().expired_turns(name)?.into_keys().collect();
            Ok(json!({ "changes": changes, "turns": turns, "operations": operations,
                "expired": expired }))
        })?;
        Ok(facts)
    }

    fn obey(&mut self, order: &Value) -> Fallible<Value> {
        let ctx = self.ctx();
        let text = |key: &str| order.get(key).and_then(Value::as_str);
        match text("do").unwrap_or_default() {
            "begin" => {
                let turn = self.engine.turns().begin(&ctx, self.prompt(text("message"))?)?;
                Ok(json!(self.turn.insert(turn).id))
            }
            "named" => {
                let paths: Vec<PathBuf> = serde_json::from_value(order["paths"].clone())?;
                let turn = self.turn.as_ref().ok_or("no turn")?;
                let call = self.engine.tool_calls().open_named(&ctx, turn, None, &paths)?;
                Ok(json!(self.call.insert(call).id))
            }
            "window" => {
                let turn = self.turn.as_ref().ok_or("no turn")?;
                let call = self.engine.tool_calls().open_window(&ctx, turn, None)?;
                Ok(json!(self.call.insert(call).id))
            }
            "write" => {
                world::put(&self.dir, text("path").ok_or("no path")?, text("text"))?;
                Ok(json!(null))
            }
            "close" => {
                let turn = self.turn.as_ref().ok_or("no turn")?;
                let call = self.call.take().ok_or("no call")?;
                let closed = self.engine.tool_calls().close(&ctx, turn, &call)?;
                let paths = file_paths(&closed.changes);
                Ok(json!({ "paths": paths, "uncovered": uncovered_paths(&closed.changes) }))
            }
            "end" => {
                let turn = self.turn.take().ok_or("no turn")?;
                self.engine.turns().end(&ctx, &turn, TurnOutcome::Completed, None)?;
                Ok(json!(null))
            }
            "undo" | "redo" => self.swing(&ctx, order),
            "facts" => self.facts(),
            "check" => self.check(),
            other => Err(format!("no order is called {other}").into()),
        }
    }

    fn prompt(&self, message: Option<&str>) -> Fallible<Prompt> {
        let body = json!({"role": "user", "time": {"created": 1}, "agent": "build",
            "model": {"providerID": "p", "modelID": "m"}});
        let message = Message {
            id: message.ok_or("no message")?.parse()?,
            session: self.session.clone(),
            body: serde_json::from_value(body)?,
        };
        Ok(Prompt { message, parts: Vec::new() })
    }

    fn swing(&self, ctx: &Context, order: &Value) -> Fallible<Value> {
        let turn: turnstone_core::id::TurnId = serde_json::from_value(order["turn"].clone())?;
        let which = match order["range"].as_bool() {
            Some(true) => UndoTarget::From(turn),
            _ => UndoTarget::Turn(turn),
        };
        let options = UndoOptions::default();
        let plan = match order["do"] == "undo" {
            true => self.engine.history().plan_undo(ctx, &self.session, &which, &options)?,
            false => self.engine.history().plan_redo(ctx, &self.session, &which, &options)?,
        };
        let windows: Vec<_> = plan.roots.iter().flat_map(|root| &root.windows).collect();
        let report = self.engine.history().apply(ctx, &plan)?;
        Ok(json!({ "windows": windows, "report": report }))
    }

    /// What must hold at every moment: no hole in the log, the store within its budget.
    fn check(&self) -> Fallible<Value> {
        let ctx = self.ctx();
        let cursors = self.engine.store().read(&ctx, |r| {
            let (mut all, mut at) = (Vec::new(), turnstone_core::time::LogCursor(0));
            loop {
                let page = r.log().after(at, 1000)?;
                if page.events.is_empty() {
                    return Ok(all);
                }
                all.extend(page.events.iter().map(|event| event.cursor.0));
                at = page.next;
            }
        })?;
        let gap = cursors.windows(2).find(|pair| pair[1] != pair[0] + 1).map(<[i64]>::to_vec);
        let handle = self.engine.snapshots().open(&self.dir.join("work"), ctx.now)?;
        let used = handle.reader().usage()?;
        let open = self.engine.store().read(&ctx, |r| r.undo_expiry().unfinished())?;
        Ok(json!({ "gap": gap, "used": used, "expiring": open.len() }))
    }
}

/// The files among what changed; the model knows no directories.
fn file_paths(changes: &[FileChange]) -> Vec<&RelPath> {
    let files = changes.iter().filter(|change| !change.is_directory_only());
    files.map(|change| &change.path).collect()
}

/// The paths of which one side is not known.
fn uncovered_paths(changes: &[FileChange]) -> Vec<&RelPath> {
    changes.iter().filter(|change| !change.is_covered()).map(|change| &change.path).collect()
}
