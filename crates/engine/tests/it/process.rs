//! Several processes on one session: what one of them wrote no other loses, whichever is killed.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::json;
use turnstone_core::context::{CompactionSettings as Compacting, ModelLimits, summarized_request};
use turnstone_core::event::EventKind;
use turnstone_core::id::{MessageId, PermissionId, SessionId};
use turnstone_core::model::{MessageBody, PartBody, PermissionAsk, PermissionReply, SessionStatus};
use turnstone_core::time::SessionSeq;
use turnstone_core::turn::TurnState;
use turnstone_engine::{
    DiffFormat, DiffTarget, Engine, EngineError, FileError, FileWriteRequest, PermissionOutcome,
    PermissionQuery, PromptOutcome, PromptRouting, PromptSubmission, Turn, UndoTarget,
    WritePrecondition,
};
use turnstone_store::{PromptDelivery, StoreError};

use crate::engine_fixture::{EngineFixture, NOW, answer, ctx, messages, part, prompt, settings};
use crate::model_context::{summary, target, three_turn_session, wanted};

const CHILD: &str = "TURNSTONE_ENGINE_CHILD";

/// This test binary as a program that plays `part` on the data directory below `dir`.
#[expect(clippy::disallowed_methods, reason = "tests run themselves as another process")]
fn child(dir: &Path, part: &str) -> Child {
    let mut command = Command::new(std::env::current_exe().expect("own path"));
    command.args(["--exact", "process::child_plays_its_part", "--nocapture", "--test-threads=1"]);
    command.env(CHILD, json!({ "dir": dir, "part": part }).to_string());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("started")
}

/// Waits until a child has said something, and returns it.
fn read_child_line(child: &mut Child) -> String {
    let out = child.stdout.as_mut().expect("piped");
    for line in BufReader::new(out).lines() {
        if let Some(said) = line.expect("text").split_once("says ") {
            return said.1.to_owned();
        }
    }
    panic!("the child said nothing");
}

fn kill(mut child: Child) {
    child.kill().expect("SIGKILL");
    child.wait().expect("reaped");
}

/// Plays the part named in the environment; as a test by itself it does nothing.
#[test]
#[expect(clippy::disallowed_methods, reason = "the parent says what to play")]
fn child_plays_its_part() {
    let Some(request) = std::env::var_os(CHILD) else {
        return;
    };
    let request: serde_json::Value =
        serde_json::from_slice(request.as_encoded_bytes()).expect("json");
    let dir = Path::new(request["dir"].as_str().expect("a path"));
    let engine = Engine::open(settings(dir), NOW).expect("opens");
    let session: SessionId = "ses_a".parse().expect("an id");
    let say = |what: &str| {
        println!("\nsays {what}");
        std::io::stdout().flush().expect("flushed");
    };
    match request["part"].as_str().expect("a part") {
        "asks" => {
            let turn = engine.turns().begin(&ctx(), prompt(&session, "asked")).expect("begins");
            let Ok(PermissionOutcome::Pending(id)) =
                engine.permissions().ask(&ctx(), &turn, &make())
            else {
                panic!("it is asked")
            };
            say(id.as_str());
            wait();
        }
        "reads" => {
            engine.tool_calls().read_file(&ctx(), &session, Path::new("f")).expect("read");
            say("read");
            wait();
        }
        "prompts" => prompts(&engine, &session, "c"),
        "dies in turns" => {
            for name in SESSIONS {
                let session: SessionId = name.parse().expect("an id");
                let turn = engine.turns().begin(&ctx(), prompt(&session, name)).expect("begins");
                engine.tool_calls().open_window(&ctx(), &turn, None).expect("opens");
                fs_err::write(dir.join("work").join(name), "half").expect("written");
            }
            say("in its turns");
            wait();
        }
        "sweeps" => {
            say("open");
            wait();
            let done = engine.maintenance().recover_all(&ctx()).expect("recovers");
            let ids = |all: Vec<String>| all.join(",");
            let interrupted = done.interrupted.iter().map(ToString::to_string).collect();
            let closed = done.closed.iter().map(ToString::to_string).collect();
            say(&format!("{};{}", ids(interrupted), ids(closed)));
        }
        other => panic!("no part is called {other}"),
    }
}

/// Waits for its end.
fn wait() {
    let mut rest = Vec::new();
    std::io::stdin().read_to_end(&mut rest).expect("read");
}

fn make() -> PermissionQuery {
    let ask = json!({"permission": "bash", "patterns": ["make"], "metadata": {}, "always": []});
    let ask: PermissionAsk = serde_json::from_value(ask).expect("a question");
    PermissionQuery { ask, blocks_turn: true }
}

/// W16, R28: a killed process loses no question; it is delivered again, answered once, and goes on.
#[test]
fn request_of_killed_process_can_still_be_answered() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    case.ask_about_bash();
    let mut asking = child(case.dir.path(), "asks");
    let id: PermissionId = read_child_line(&mut asking).parse().expect("an id");
    kill(asking);
    for _ in 0..2 {
        case.engine.maintenance().recover_all(&ctx()).expect("recovers");
        let request = case.engine.permissions().pending(&ctx(), None).expect("reads");
        assert_eq!(request.iter().map(|it| it.id.as_str()).collect::<Vec<_>>(), [id.as_str()]);
    }
    let case = case.reopen();
    assert_eq!(case.engine.permissions().pending(&ctx(), Some(&session)).expect("reads").len(), 1);
    let once = PermissionReply::Once;
    case.engine.permissions().reply(&ctx(), &id, once, None).expect("answered");
    let case = case.reopen();
    assert!(case.engine.permissions().pending(&ctx(), None).expect("reads").is_empty());
    let resumed =
        case.engine.permissions().resume_turn(&ctx(), &session).expect("reads").expect("goes on");
    case.end(&resumed.turn);
    case.assert_consistent();
}

/// What a killed process has read, the next one need not read again; what was saved since, it must.
#[test]
fn read_stamps_of_killed_process_are_kept() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    case.put("f", Some("one"));
    let mut reading = child(case.dir.path(), "reads");
    read_child_line(&mut reading);
    kill(reading);
    let write = |turn: &Turn, text: &str| {
        let bytes = Some(text.as_bytes().to_vec());
        let write = FileWriteRequest { path: "f".into(), expected: WritePrecondition::Read, bytes };
        case.engine.tool_calls().write_file(&ctx(), turn, None, &write)
    };
    let turn = case.begin(&session);
    case.put("f", Some("saved since"));
    assert!(matches!(write(&turn, "two"), Err(FileError::Stale { .. })));
    case.put("f", Some("one"));
    write(&turn, "two").expect("the bytes it saw");
    assert_eq!(case.read("f").as_deref(), Some("two"));
    case.end(&turn);
}

/// How many prompts and compactions a race has.
const RACE: usize = 12;

fn is_busy(error: &EngineError) -> bool {
    matches!(error, EngineError::Store(StoreError::Busy(_)))
}

fn pause() {
    std::thread::sleep(Duration::from_millis(1));
}

/// Sends prompts, and answers whatever it gets to answer.
fn prompts(engine: &Engine, session: &SessionId, name: &str) {
    for n in 0..RACE {
        let one = prompt(session, &format!("{name}{n}"));
        let id = one.message.id.clone();
        let routing = PromptRouting::RunHere(PromptDelivery::Queue);
        let new = PromptSubmission { prompt: one, rules: Vec::new(), routing };
        match engine.turns().admit_prompt(&ctx(), &new) {
            Ok(PromptOutcome::TurnBegun(turn)) => reply(engine, &turn, &id),
            Ok(PromptOutcome::Admitted(_) | PromptOutcome::StoredOnly) => {}
            Err(error) => panic!("a prompt is never refused: {error:?}"),
        }
        answer_next(engine, session);
        pause();
    }
}

/// Answers the oldest prompt that waits; false if there is none.
fn answer_next(engine: &Engine, session: &SessionId) -> bool {
    match engine.turns().begin_next(&ctx(), session) {
        Ok(None) => false,
        Ok(Some(turn)) => {
            let turns = engine.store().read(&ctx(), |r| r.turns().list(session)).expect("reads");
            let begun = turns.into_iter().find(|it| it.id == turn.id).expect("it is there");
            reply(engine, &turn, &begun.message);
            true
        }
        Err(error) => {
            assert!(is_busy(&error), "{error:?}");
            true
        }
    }
}

fn reply(engine: &Engine, turn: &Turn, asked: &MessageId) {
    let seen = engine.turns().contexts().model_context(&ctx(), &turn.session).expect("reads");
    assert_eq!(seen.last().map(|it| &it.0.id), Some(asked), "a model reads the prompt last");
    let mut message =
        answer(&turn.session, &format!("r-{}", &asked.as_str()[4..]), &asked.as_str()[4..]);
    crate::model_context::finish(&mut message);
    let text = part(&message, &message.id.as_str()[4..], json!({"type": "text", "text": "yes"}));
    let put = move |tx: &turnstone_store::Tx<'_>| {
        tx.messages().put(&message)?;
        tx.messages().put_part(&text)
    };
    engine.store().write(&turn.context(&ctx()), put).wait().expect("put");
    let done = turnstone_core::turn::TurnOutcome::Completed;
    engine.turns().end(&ctx(), turn, done, None).expect("ends");
}

/// Compacts again and again, whenever nobody else has the session.
fn compactions(engine: &Engine, session: &SessionId) {
    let none = Compacting { tail_turns: Some(0), ..Compacting::default() };
    for n in 0..RACE {
        let (turn, request) = loop {
            match engine.turns().compaction().begin(&ctx(), session, &wanted(false)) {
                Ok(begun) => break begun,
                Err(error) => assert!(is_busy(&error), "{error:?}"),
            }
            pause();
        };
        pause();
        let with = (ModelLimits::default(), &none);
        let plan = engine.turns().compaction().plan(&ctx(), session, &request, &target(), with);
        let summary = summary(session, &request, &format!("s{n}"));
        engine
            .turns()
            .compaction()
            .finish(&ctx(), &turn, &plan.expect("a plan"), &summary)
            .expect("done");
        let seen = engine.turns().contexts().model_context(&ctx(), session).expect("reads");
        assert_eq!(seen[0].0.id, request, "the boundary is recognised at once");
        engine
            .turns()
            .end(&ctx(), &turn, turnstone_core::turn::TurnOutcome::Completed, None)
            .expect("ends");
    }
}

/// Every prompt has one answer, every compaction its summary, and nothing is left over.
fn assert_nothing_lost(case: &EngineFixture, session: &SessionId, names: &[&str]) {
    while answer_next(&case.engine, session) {}
    let all = messages(case, session);
    for name in names {
        for n in 0..RACE {
            let asked: MessageId = format!("msg_{name}{n}").parse().expect("an id");
            let answers = all.iter().filter(|it| {
                matches!(&it.message.body, MessageBody::Assistant(said) if said.parent == asked)
            });
            assert_eq!(answers.count(), 1, "{asked} is answered once");
            let kept = all.iter().filter(|it| it.message.id == asked && it.parts.len() == 1);
            assert_eq!(kept.count(), 1, "{asked} is stored once, with its part");
        }
    }
    let requests = all
        .iter()
        .filter(|it| it.parts.iter().any(|part| matches!(part.body, PartBody::Compaction(_))));
    let requests: Vec<&MessageId> = requests.map(|it| &it.message.id).collect();
    let summed: Vec<&MessageId> =
        all.iter().filter_map(|it| summarized_request(&it.message)).collect();
    assert_eq!(summed, requests, "each request has its own summary, in their order");
    assert_eq!(summed.len(), RACE);
    let seen = case.engine.turns().contexts().model_context(&ctx(), session).expect("reads");
    assert_eq!(Some(&&seen[0].0.id), requests.last(), "the newest one cuts");
    let turns = case.engine.store().read(&ctx(), |r| r.turns().list(session)).expect("reads");
    assert!(turns.iter().all(|turn| !turn.state.is_open()));
    assert!(turns.iter().all(|turn| turn.state == turnstone_core::turn::TurnState::Completed));
    case.assert_consistent();
}

/// Sessions in which a process dies.
const SESSIONS: [&str; 3] = ["ses_a", "ses_b", "ses_c"];

/// R45: a process that was open all the time meets the turn of one that was killed since.
#[test]
fn open_reader_sees_dead_process_turns_end() {
    let case = EngineFixture::new();
    let sessions = SESSIONS.map(|id| case.session(id, None));
    let mut dying = child(case.dir.path(), "dies in turns");
    read_child_line(&mut dying);
    let status =
        |session: &SessionId| case.engine.store().read(&ctx(), |r| r.sessions().status(session));
    assert_eq!(status(&sessions[0]).expect("reads"), SessionStatus::Busy, "it lives");
    kill(dying);

    for session in &sessions {
        assert_eq!(status(session).expect("reads"), SessionStatus::Idle, "the next look");
        let turns = case.engine.store().read(&ctx(), |r| r.turns().list(session)).expect("reads");
        assert_eq!(turns[0].state, TurnState::Interrupted);
    }
    let of_turn = DiffTarget::Session;
    let diff = case
        .engine
        .history()
        .diffs()
        .diff(&ctx(), &sessions[0], &of_turn, DiffFormat::CountsOnly)
        .expect("compares");
    let left = case
        .engine
        .store()
        .read(&ctx(), |r| r.change_sets().has_orphaned(&sessions[0]))
        .expect("reads");
    assert!(!left, "who reads what a session changed closes its windows first: {diff:?}");
    let report = case.undo(&sessions[1], &UndoTarget::Last);
    assert!(!report.turns.is_empty());
    case.assert_consistent();
}

/// R45: recovery by two at once finalizes once.
#[test]
fn concurrent_recovery_ends_every_turn_once() {
    let case = EngineFixture::new();
    for name in SESSIONS {
        case.session(name, None);
    }
    let mut sweepers = [0, 1].map(|_| child(case.dir.path(), "sweeps"));
    for sweeper in &mut sweepers {
        assert_eq!(read_child_line(sweeper), "open");
    }
    let mut dying = child(case.dir.path(), "dies in turns");
    read_child_line(&mut dying);
    kill(dying);
    // Both are open; both begin now.
    for sweeper in &mut sweepers {
        drop(sweeper.stdin.take());
    }
    let said: Vec<String> = sweepers.iter_mut().map(read_child_line).collect();
    for mut sweeper in sweepers {
        assert!(sweeper.wait().expect("reaped").success());
    }

    for nth in 0..2 {
        let all = said.iter().flat_map(|said| said.split(';').nth(nth).expect("two").split(','));
        let all: Vec<&str> = all.filter(|id| !id.is_empty()).collect();
        let once: std::collections::BTreeSet<&str> = all.iter().copied().collect();
        assert_eq!(all.len(), once.len(), "{said:?}");
        assert!(once.len() <= SESSIONS.len() && (nth == 0 || once.len() == SESSIONS.len()));
    }
    for name in SESSIONS {
        let session: SessionId = name.parse().expect("an id");
        let read =
            |r: &turnstone_store::ReadTx<'_>| r.log().stream_after(&session, SessionSeq(0), 1000);
        let events = case.engine.store().read(&ctx(), read).expect("reads").events;
        let ends = events.iter().filter(|event| event.kind == EventKind::TurnEnded).count();
        assert_eq!(ends, 1, "{name} ended once");
    }
    case.assert_consistent();
}

/// W33: prompts and compactions of two threads of one process.
#[test]
fn two_threads_lose_no_prompt_or_compaction() {
    let case = EngineFixture::new();
    let session = three_turn_session(&case);
    let engine = &case.engine;
    std::thread::scope(|scope| {
        scope.spawn(|| prompts(engine, &session, "p"));
        scope.spawn(|| prompts(engine, &session, "q"));
        scope.spawn(|| compactions(engine, &session));
    });
    assert_nothing_lost(&case, &session, &["p", "q"]);
}

/// W33, W17: and of two processes.
#[test]
fn two_processes_lose_no_prompt_or_compaction() {
    let case = EngineFixture::new();
    let session = three_turn_session(&case);
    let mut other = child(case.dir.path(), "prompts");
    std::thread::scope(|scope| {
        scope.spawn(|| prompts(&case.engine, &session, "p"));
        scope.spawn(|| compactions(&case.engine, &session));
    });
    drop(other.stdin.take());
    assert!(other.wait().expect("reaped").success(), "the other process lost nothing");
    assert_nothing_lost(&case, &session, &["p", "c"]);
}
