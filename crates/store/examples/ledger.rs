//! A program under test: it writes under load, prints what was acknowledged, and may die anywhere.
//!
//! `ledger DIR load SEED THREADS COUNT` writes turns and prints `ack CURSOR SESSION SEQ` for each
//! acknowledged mutation. `ledger DIR hold SESSION` takes a lease, begins a turn, prints `held`, and
//! then writes once for every line it reads. `ledger DIR tail COUNT` prints cursors as they come.
//! `ledger DIR bulk` deletes every second session. `ledger DIR retry COUNT` writes COUNT times; a
//! write that a poisoned store refuses prints `poisoned` and is tried again, at most COUNT times.

use std::io::{BufRead, Write};
use std::time::Duration;

use serde_json::json;
use turnstone_core::id::{MessageId, PartId, SessionId, TurnId};
use turnstone_core::model::{Message, Part, Project, Session, Todo};
use turnstone_core::time::{EpochMillis, LogCursor};
use turnstone_core::turn::{TurnEvent, TurnOutcome};
use turnstone_store::{
    Actor, Context, DataLayout, EndTurn, LeaseTakeoverPolicy, NewTurn, Options, SessionFilter,
    Store, StoreError, Tx,
};
use turnstone_testkit::fixture::SeededRng;

type Fallible<T = ()> = Result<T, Box<dyn std::error::Error>>;

fn main() -> std::process::ExitCode {
    match run() {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            drop(writeln!(std::io::stderr(), "error: {error}"));
            std::process::ExitCode::FAILURE
        }
    }
}

fn run() -> Fallible {
    // As after kill -9: no destructor tidies up.
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        usual(info);
        std::process::abort();
    }));
    let scenario = fail::FailScenario::setup();
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let dir = words.first().ok_or("usage: ledger DIR COMMAND …")?;
    let mut options = Options::new(DataLayout::new(dir), EpochMillis(1_794_728_448_904));
    options.safety_tick = !words.contains(&"--no-tick");
    let store = Store::open(&options)?;
    match words[1..] {
        ["load", seed, threads, count] => {
            load(&store, seed.parse()?, threads.parse()?, count.parse()?)?;
        }
        ["hold", session] => hold(&store, &session.parse()?)?,
        ["tail", count, ..] => tail(&store, count.parse()?)?,
        ["bulk"] => bulk(&store)?,
        ["retry", count] => retry(&store, count.parse()?)?,
        _ => return Err("unknown command".into()),
    }
    drop(store);
    scenario.teardown();
    Ok(())
}

fn context() -> Fallible<Context> {
    Ok(Context::new(Actor::new("ledger")?, EpochMillis(1_794_728_448_904)))
}

/// One line in one write, so that a reader never sees half of an acknowledgement.
fn say(line: &str) -> Fallible {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("{line}\n").as_bytes())?;
    Ok(out.flush()?)
}

fn load(store: &Store, seed: u64, threads: u64, count: u64) -> Fallible {
    prepare(store)?;
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..threads)
            .map(|n| {
                scope.spawn(move || {
                    let mut worker = Worker::new(store, seed, n).map_err(|e| e.to_string())?;
                    worker.run(count).map_err(|e| e.to_string())
                })
            })
            .collect();
        for thread in all {
            thread.join().map_err(|_| "a worker panicked")??;
        }
        Ok(())
    })
}

fn prepare(store: &Store) -> Fallible {
    let project: Project = serde_json::from_value(json!({
        "id": "p1", "worktree": "/home/ada/p", "time": {"created": 1, "updated": 1}}))?;
    store.write(&context()?, move |tx| tx.projects().put(&project)).wait()?;
    Ok(())
}

/// One session, written by one thread.
struct Worker<'s> {
    store: &'s Store,
    ctx: Context,
    session: SessionId,
    rng: SeededRng,
    run: u64,
    made: u64,
}

impl<'s> Worker<'s> {
    fn new(store: &'s Store, seed: u64, n: u64) -> Fallible<Self> {
        let session: SessionId = format!("ses_{}x{n}", std::process::id() % 7).parse()?;
        let ctx = context()?;
        let made: Session = serde_json::from_value(json!({
            "id": session, "slug": "s", "projectID": "p1", "directory": "/home/ada/p",
            "title": "under load", "version": "1", "time": {"created": 1, "updated": 1}}))?;
        match store.write(&ctx, move |tx| tx.sessions().create(&made)).wait() {
            Ok(_) | Err(StoreError::Conflict { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        let rng = SeededRng::new(seed.wrapping_mul(31).wrapping_add(n));
        Ok(Self { store, ctx, session, rng, run: seed, made: 0 })
    }

    /// Runs a mutation and says so once it is acknowledged.
    fn ack<T: Send + 'static>(
        &self,
        mut write: impl FnMut(&Tx<'_>) -> turnstone_store::Result<T> + Send + 'static,
    ) -> Fallible {
        let at = self
            .store
            .write(&self.ctx, move |tx| {
                write(tx)?;
                Ok(tx.last_appended())
            })
            .wait()?;
        if let Some(at) = at {
            let seq = at.seq.map_or(0, |seq| seq.0);
            say(&format!("ack {} {} {seq}", at.cursor, self.session))?;
        }
        Ok(())
    }

    fn name(&mut self, prefix: &str) -> String {
        self.made += 1;
        format!(
            "{prefix}_{}r{}n{}",
            self.session.as_str().trim_start_matches("ses_"),
            self.run,
            self.made
        )
    }

    fn run(&mut self, count: u64) -> Fallible {
        let lease = match self.store.leases().acquire(
            &self.ctx,
            &self.session,
            LeaseTakeoverPolicy::IfDead,
        ) {
            // Another process works on this session: that is its right.
            Err(StoreError::Busy(_)) => return Ok(()),
            other => other?,
        };
        self.ctx = self.ctx.clone().with_lease(&lease);
        self.resume()?;
        for _ in 0..count {
            self.turn()?;
        }
        Ok(())
    }

    /// A turn that was accepted before a kill is ours to end now (R28).
    fn resume(&mut self) -> Fallible {
        let session = self.session.clone();
        let turns = self.store.read(&self.ctx, |r| r.turns().list(&session))?;
        for turn in turns.into_iter().filter(|t| t.state.is_open()) {
            let end = EndTurn {
                session: session.clone(),
                turn: turn.id,
                outcome: TurnOutcome::Aborted,
                error: None,
            };
            self.ack(move |tx| tx.turns().end(&end))?;
        }
        Ok(())
    }

    fn turn(&mut self) -> Fallible {
        let id: TurnId = self.name("trn").parse()?;
        let message = self
            .message(json!({"role": "user", "time": {"created": 1}, "agent": "build",
            "model": {"providerID": "p", "modelID": "m"}}))?;
        let text = self.part(&message.id, json!({"type": "text", "text": "do it"}))?;
        let new = NewTurn { id: id.clone(), message, parts: vec![text] };
        self.ack(move |tx| tx.turns().begin(&new))?;
        let (session, turn) = (self.session.clone(), id.clone());
        self.ack(move |tx| tx.turns().transition(&session, &turn, &TurnEvent::Started))?;
        for _ in 0..=self.rng.below(3) {
            self.step()?;
        }
        let outcome =
            if self.rng.below(4) == 0 { TurnOutcome::Failed } else { TurnOutcome::Completed };
        let end = EndTurn { session: self.session.clone(), turn: id, outcome, error: None };
        self.ack(move |tx| tx.turns().end(&end))
    }

    fn step(&mut self) -> Fallible {
        let message = self.message(json!({"role": "assistant", "time": {"created": 2},
            "parentID": "msg_1", "modelID": "m", "providerID": "p", "mode": "build",
            "path": {"cwd": "/", "root": "/"}, "cost": 0, "tokens": tokens()}))?;
        let at = message.id.clone();
        self.ack(move |tx| tx.messages().put(&message))?;
        let start = self.part(&at, json!({"type": "step-start"}))?;
        self.ack(move |tx| tx.messages().put_part(&start))?;
        let text = self.part(&at, json!({"type": "text", "text": "", "time": {"start": 1}}))?;
        let id = text.id.clone();
        self.ack(move |tx| tx.messages().put_part(&text))?;
        for _ in 0..=self.rng.below(6) {
            let delta = "wörd ".repeat(1 + self.rng.below(40) as usize);
            let (session, id) = (self.session.clone(), id.clone());
            self.ack(move |tx| tx.messages().append_text(&session, &id, &delta))?;
        }
        self.tool(&at)?;
        if self.rng.below(3) == 0 {
            let session = self.session.clone();
            let todo: Todo = serde_json::from_value(json!({
                "content": self.name("do"), "status": "pending", "priority": "low"}))?;
            self.ack(move |tx| tx.sessions().set_todos(&session, std::slice::from_ref(&todo)))?;
        }
        let finish = self.part(
            &at,
            json!({"type": "step-finish", "reason": "stop", "cost": 0.25,
            "tokens": tokens()}),
        )?;
        self.ack(move |tx| tx.messages().put_part(&finish))
    }

    fn tool(&mut self, message: &MessageId) -> Fallible {
        // Now and then one that becomes a file of its own.
        let lines = if self.rng.below(12) == 0 { 18_000 } else { self.rng.below(600) };
        let output = format!("{}\n", self.name("out")).repeat(lines as usize);
        let mut part = self.part(
            message,
            json!({"type": "tool", "callID": "c", "tool": "bash",
            "state": {"status": "running", "input": {"command": "ls"}, "time": {"start": 1}}}),
        )?;
        let first = part.clone();
        self.ack(move |tx| tx.messages().put_part(&first))?;
        part.body = serde_json::from_value(json!({"type": "tool", "callID": "c", "tool": "bash",
            "state": {"status": "completed", "input": {"command": "ls"}, "output": output,
                      "title": "ls", "metadata": {}, "time": {"start": 1, "end": 2}}}))?;
        if self.rng.below(8) == 0 {
            let (session, id) = (self.session.clone(), part.id.clone());
            return self.ack(move |tx| tx.messages().remove_part(&session, &id));
        }
        self.ack(move |tx| tx.messages().put_part(&part))
    }

    fn message(&mut self, body: serde_json::Value) -> Fallible<Message> {
        let id: MessageId = self.name("msg").parse()?;
        Ok(Message { id, session: self.session.clone(), body: serde_json::from_value(body)? })
    }

    fn part(&mut self, message: &MessageId, body: serde_json::Value) -> Fallible<Part> {
        let id: PartId = self.name("prt").parse()?;
        let body = serde_json::from_value(body)?;
        Ok(Part { id, session: self.session.clone(), message: message.clone(), body })
    }
}

fn tokens() -> serde_json::Value {
    json!({"input": 10, "output": 5, "reasoning": 0, "cache": {"read": 1, "write": 2}})
}

/// Holds a session's lease with a running turn; writes once for every line on standard input.
fn hold(store: &Store, session: &SessionId) -> Fallible {
    prepare(store)?;
    let mut worker = Worker::new(store, u64::from(std::process::id()), 0)?;
    worker.session = session.clone();
    let made: Session = serde_json::from_value(json!({
        "id": session, "slug": "s", "projectID": "p1", "directory": "/home/ada/p",
        "title": "held", "version": "1", "time": {"created": 1, "updated": 1}}))?;
    store.write(&worker.ctx, move |tx| tx.sessions().create(&made)).wait()?;
    let lease = store.leases().acquire(&worker.ctx, session, LeaseTakeoverPolicy::IfDead)?;
    worker.ctx = worker.ctx.clone().with_lease(&lease);
    let message = worker
        .message(json!({"role": "user", "time": {"created": 1}, "agent": "build",
        "model": {"providerID": "p", "modelID": "m"}}))?;
    let id: TurnId = worker.name("trn").parse()?;
    let at = message.id.clone();
    let new = NewTurn { id: id.clone(), message, parts: vec![] };
    worker.ack(move |tx| tx.turns().begin(&new))?;
    let session = session.clone();
    worker.ack(move |tx| tx.turns().transition(&session, &id, &TurnEvent::Started))?;
    say("held")?;
    for _ in std::io::stdin().lock().lines() {
        let part = worker.part(&at, json!({"type": "text", "text": "still here"}))?;
        match worker.store.write(&worker.ctx, move |tx| tx.messages().put_part(&part)).wait() {
            Ok(_) => say("wrote")?,
            Err(StoreError::Fenced(_)) => say("fenced")?,
            Err(error) => say(&format!("refused: {error}"))?,
        }
    }
    Ok(())
}

/// Prints the cursors of the log as they come, until `count` were seen.
fn tail(store: &Store, count: usize) -> Fallible {
    let mut tail = store.tail_log(&context()?, LogCursor(0));
    let mut seen = 0;
    say("ready")?;
    while seen < count {
        for event in tail.next(100, Duration::from_secs(60))?.events {
            say(&format!("saw {}", event.cursor))?;
            seen += 1;
        }
    }
    Ok(())
}

/// Writes `count` times; what a poisoned store refuses is tried again, at most `count` times in all.
fn retry(store: &Store, count: usize) -> Fallible {
    let worker = Worker::new(store, 5, 0)?;
    let mut refusals_left = count;
    for number in 0..count {
        let title = format!("title {number}");
        loop {
            let (session, title) = (worker.session.clone(), title.clone());
            let written = worker.ack(move |tx| {
                tx.sessions().update(&session, |session| {
                    session.title.clone_from(&title);
                    Ok(())
                })
            });
            let Err(error) = written else { break };
            let is_poisoned =
                matches!(error.downcast_ref::<StoreError>(), Some(StoreError::Poisoned { .. }));
            if !is_poisoned || refusals_left == 0 {
                return Err(error);
            }
            refusals_left -= 1;
            say("poisoned")?;
        }
    }
    Ok(())
}

/// Deletes every second session, in the small steps that a crash may interrupt.
fn bulk(store: &Store) -> Fallible {
    let ctx = context()?;
    let all = SessionFilter::default();
    let page = store.read(&ctx, |r| r.sessions().list(&all, None, 100))?;
    for row in page.items.into_iter().step_by(2) {
        store.delete_session(&ctx, &row.session.id)?;
        say(&format!("deleted {}", row.session.id))?;
    }
    while !store.maintenance().purge_deleted(&ctx, 1)? {}
    say("purged")
}
