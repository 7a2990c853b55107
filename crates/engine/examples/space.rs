//! The program of the crash tests of space: does one thing, says so line by line, and may die anywhere.
//!
//! `space DIR fill COUNT` plays so many turns in a store with room for a few, and says each that has
//! ended. `space DIR guards COUNT` undoes so many turns, two hours apart, around what a person wrote.
//! `space DIR fork` copies the session. `space DIR secret TEXT` plays a turn that writes it into
//! `.env` and speaks of it, `space DIR forget PATTERN` forgets paths. `space DIR delete` deletes the session, says so,
//! and then removes what it left.

use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::json;
use turnstone_core::model::Message;
use turnstone_core::time::EpochMillis;
use turnstone_core::turn::TurnOutcome;
use turnstone_engine::{Engine, EngineSettings, Prompt, UndoOptions, UndoTarget};
use turnstone_snapshot::{FreeSpaceFloor, StorageBudget};
use turnstone_store::{Actor, Context};
use turnstone_testkit::fixture::SeededRng;

type Fallible<T = ()> = Result<T, Box<dyn std::error::Error>>;

const NOW: i64 = 1_767_225_600_000;
/// What one turn takes, and what the store may.
const SIZE: usize = 8 << 10;
const STORE: u64 = 48 << 10;

fn main() -> Fallible {
    // As after kill -9: no destructor tidies up.
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        usual(info);
        std::process::abort();
    }));
    let scenario = fail::FailScenario::setup();
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        [dir, "fill", count] => fill(Path::new(dir), count.parse()?)?,
        [dir, "guards", count] => guards(Path::new(dir), count.parse()?)?,
        [dir, "fork"] => fork(Path::new(dir))?,
        [dir, "secret", text] => secret(Path::new(dir), text)?,
        [dir, "forget", pattern] => forget(Path::new(dir), pattern)?,
        [dir, "delete"] => delete(Path::new(dir))?,
        _ => {
            return Err(
                "usage: space DIR fill | guards COUNT | fork | secret TEXT | forget PATTERN | delete"
                    .into(),
            );
        }
    }
    scenario.teardown();
    Ok(())
}

fn say(line: &str) -> Fallible {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("{line}\n").as_bytes())?;
    Ok(out.flush()?)
}

fn ctx() -> Context {
    Context::new(Actor::new("ada").expect("a name"), EpochMillis(NOW))
}

fn open(dir: &Path) -> Fallible<Engine> {
    let mut settings = EngineSettings::new(&dir.join("data"));
    settings.snapshot_options.budget =
        StorageBudget { store: STORE, floor: FreeSpaceFloor::Bytes(0), ..StorageBudget::default() };
    let engine = Engine::open(settings, EpochMillis(NOW))?;
    let root = dir.join("work");
    fs_err::create_dir_all(&root)?;
    let project = json!({"id": "p", "worktree": root, "time": {"created": 1, "updated": 1}});
    let project = serde_json::from_value(project)?;
    engine.store().write(&ctx(), move |tx| tx.projects().put(&project)).wait()?;
    if engine
        .store()
        .read(&ctx(), |r| r.sessions().find(&"ses_a".parse().expect("an id")))?
        .is_none()
    {
        let session = serde_json::from_value(json!({"id": "ses_a", "slug": "calm-otter",
            "projectID": "p", "directory": root, "title": "T", "version": "1",
            "time": {"created": 1, "updated": 1}}))?;
        engine.store().write(&ctx(), move |tx| tx.sessions().create(&session)).wait()?;
    }
    engine.maintenance().recover_all(&ctx())?;
    Ok(engine)
}

/// Turns that each write one file, so that their undo needs what was there before.
fn fill(dir: &Path, count: u64) -> Fallible {
    let engine = open(dir)?;
    let session: turnstone_core::id::SessionId = "ses_a".parse()?;
    let mut rng = SeededRng::new(u64::from(std::process::id()));
    for number in 0..count {
        let body = json!({"role": "user", "time": {"created": 1}, "agent": "build",
            "model": {"providerID": "p", "modelID": "m"}});
        let message = Message {
            id: format!("msg_{}x{number}", std::process::id()).parse()?,
            session: session.clone(),
            body: serde_json::from_value(body)?,
        };
        let turn = engine.turns().begin(&ctx(), Prompt { message, parts: Vec::new() })?;
        let call = engine.tool_calls().open_named(&ctx(), &turn, None, &[PathBuf::from("f")])?;
        let text: Vec<u8> = (0..SIZE).map(|_| b' ' + rng.below(95) as u8).collect();
        let aside = dir.join("aside");
        fs_err::write(&aside, text)?;
        fs_err::rename(aside, dir.join("work/f"))?;
        engine.tool_calls().close(&ctx(), &turn, &call)?;
        engine.turns().end(&ctx(), &turn, TurnOutcome::Completed, None)?;
        say(&format!("turn {}", turn.id))?;
    }
    Ok(())
}

/// Turns that are undone around what a person wrote: only the guard has that, and a guard can be evicted.
fn guards(dir: &Path, count: u64) -> Fallible {
    let engine = open(dir)?;
    let session: turnstone_core::id::SessionId = "ses_a".parse()?;
    let mut rng = SeededRng::new(u64::from(std::process::id()));
    let mut noise =
        || -> String { (0..SIZE).map(|_| char::from(b' ' + rng.below(95) as u8)).collect() };
    let put = |first: &str, rest: &str| -> Fallible {
        fs_err::write(dir.join("aside"), format!("{first}\n2\n3\n4\n{rest}\n"))?;
        Ok(fs_err::rename(dir.join("aside"), dir.join("work/f"))?)
    };
    for number in 0..count {
        let before = engine.store().read(&ctx(), |r| r.operations().list(&session))?.len();
        let now = EpochMillis(NOW + 2 * 3_600_000 * i64::try_from(before)?);
        let ctx = Context::new(Actor::new("ada").expect("a name"), now);
        let rest = noise();
        put("1", &rest)?;
        let body = json!({"role": "user", "time": {"created": 1}, "agent": "build",
            "model": {"providerID": "p", "modelID": "m"}});
        let id = format!("msg_{}g{number}", std::process::id()).parse()?;
        let body = serde_json::from_value(body)?;
        let message = Message { id, session: session.clone(), body };
        let turn = engine.turns().begin(&ctx, Prompt { message, parts: Vec::new() })?;
        let call = engine.tool_calls().open_named(&ctx, &turn, None, &[PathBuf::from("f")])?;
        put("one", &rest)?;
        engine.tool_calls().close(&ctx, &turn, &call)?;
        engine.turns().end(&ctx, &turn, TurnOutcome::Completed, None)?;
        put("one", &noise())?;
        let plan = engine.history().plan_undo(
            &ctx,
            &session,
            &UndoTarget::Last,
            &UndoOptions::default(),
        )?;
        let done = engine.history().apply(&ctx, &plan)?;
        if !done.is_complete() {
            return Err(format!("{done:?}").into());
        }
        say(&format!("undone {}", done.operation))?;
    }
    Ok(())
}

fn secret(dir: &Path, text: &str) -> Fallible {
    let engine = open(dir)?;
    let session: turnstone_core::id::SessionId = "ses_a".parse()?;
    let body = json!({"role": "user", "time": {"created": 1}, "agent": "build",
        "model": {"providerID": "p", "modelID": "m"}});
    let id: turnstone_core::id::MessageId = "msg_secret".parse()?;
    let part = |name: &str, text: String| -> Fallible<turnstone_core::model::Part> {
        Ok(turnstone_core::model::Part {
            id: name.parse()?,
            session: session.clone(),
            message: id.clone(),
            body: serde_json::from_value(json!({"type": "text", "text": text}))?,
        })
    };
    let parts = vec![
        part("prt_short", format!("it is {text}"))?,
        part("prt_long", format!("{}\n{text}\n", "x".repeat(3000)))?,
        part("prt_huge", format!("{}\n{text}\n", "y".repeat(300_000)))?,
    ];
    let body = serde_json::from_value(body)?;
    let message = Message { id: id.clone(), session: session.clone(), body };
    let turn = engine.turns().begin(&ctx(), Prompt { message, parts })?;
    let call = engine.tool_calls().open_named(&ctx(), &turn, None, &[PathBuf::from(".env")])?;
    fs_err::write(dir.join("work/.env"), format!("{text}\n"))?;
    engine.tool_calls().close(&ctx(), &turn, &call)?;
    engine.turns().end(&ctx(), &turn, TurnOutcome::Completed, None)?;
    say("kept")
}

fn forget(dir: &Path, pattern: &str) -> Fallible {
    let engine = open(dir)?;
    let plan = engine.maintenance().path_eraser().plan(
        &ctx(),
        &dir.join("work"),
        &[pattern.to_owned()],
    )?;
    engine.maintenance().path_eraser().apply(&ctx(), &plan)?;
    say("forgotten")
}

fn delete(dir: &Path) -> Fallible {
    let engine = open(dir)?;
    // The words are in the search index, as after any search.
    engine.store().session_search().index_batches(&ctx(), usize::MAX)?;
    engine.store().delete_session(&ctx(), &"ses_a".parse()?)?;
    say("deleted")?;
    engine.maintenance().session_eraser().finish_deletions(&ctx())?;
    say("erased")
}

fn fork(dir: &Path) -> Fallible {
    let engine = open(dir)?;
    let copy = engine.history().forks().fork_session(&ctx(), &"ses_a".parse()?, None)?;
    say(&format!("fork {}", copy.id))
}
