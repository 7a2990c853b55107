//! What rows of each kind add to the database after maintenance, search index apart, stays within fixed limits.
//! `docs/benchmarks.md` compares them with the estimate in the original design.

mod support;

use serde_json::{Value, json};
use support::{ctx, open, part, project, sid, write};
use turnstone_core::id::TurnId;
use turnstone_core::model::{Message, Part, Session};
use turnstone_core::time::EpochMillis;
use turnstone_core::turn::{TurnEvent, TurnOutcome};
use turnstone_store::{
    EndTurn, LeaseTakeoverPolicy, MaintenanceBudget, MaintenanceLimits, NewTurn, Store, Tx,
};

/// Rows of each kind.
const ROWS: usize = 600;
/// The text of a part: a sentence of a model.
const TEXT: &str = "The function reads the file, checks each line against the pattern, and returns those that match.";

/// Its three events, its row and the lease of its driver.
const TURN_LIMIT: u64 = 650;

const SESSION: &str = "ses_e21d92c700010123456789ABCD";

fn store(dir: &std::path::Path) -> Store {
    let store = open(dir);
    let session: Session = serde_json::from_value(json!({
        "id": SESSION, "slug": "kind-sailor", "projectID": "p1", "directory": "/home/ada/project",
        "path": "", "title": "A session", "version": "0.1.0",
        "time": {"created": 1_794_728_448_904_u64, "updated": 1_794_728_448_904_u64},
    }))
    .expect("a session");
    write(&store, move |tx| {
        tx.projects().put(&project("p1"))?;
        tx.sessions().create(&session).map(drop)
    })
    .expect("created");
    store
}

fn message(number: usize, body: Value) -> Message {
    Message {
        id: format!("msg_{number:012x}0123456789ABCD").parse().expect("an id"),
        session: sid(SESSION),
        body: serde_json::from_value(body).expect("a message"),
    }
}

fn user(number: usize) -> Message {
    message(
        number,
        json!({"role": "user", "time": {"created": 1_794_728_449_001_u64}, "agent": "build",
            "model": {"providerID": "provider", "modelID": "model-1"}}),
    )
}

fn assistant(number: usize) -> Message {
    message(
        number,
        json!({"role": "assistant",
            "time": {"created": 1_794_728_452_664_u64, "completed": 1_794_728_453_046_u64},
            "parentID": "msg_0000000000010123456789ABCD", "modelID": "model-1",
            "providerID": "provider", "mode": "build", "agent": "build",
            "path": {"cwd": "/home/ada/project", "root": "/home/ada/project"},
            "cost": 0.00129, "finish": "stop",
            "tokens": {"total": 1340, "input": 1200, "output": 40, "reasoning": 0,
                "cache": {"read": 100, "write": 0}}}),
    )
}

fn body_part(number: usize, message: &Message, body: Value) -> Part {
    part(SESSION, message.id.as_str(), &format!("prt_{number:012x}0123456789ABCD"), body)
}

/// Bytes in use outside of the search index, after maintenance.
fn used(store: &Store) -> u64 {
    let mut later = ctx();
    later.now = EpochMillis(later.now.0 + 30 * 24 * 3_600_000);
    let limits = MaintenanceLimits { grace_ms: 0, ..MaintenanceLimits::default() };
    let maintenance = store.maintenance();
    maintenance.run_with(&later, MaintenanceBudget::unlimited(), &limits).expect("maintained");
    let sizes = maintenance.measure_sizes(&ctx(), 0).expect("measured");
    sizes.log + sizes.text + sizes.blobs + sizes.projections + sizes.other
}

/// A turn of which nothing is stored but its prompt.
fn run_turn(store: &Store, number: usize) {
    let lease = store.leases().acquire(&ctx(), &sid(SESSION), LeaseTakeoverPolicy::IfDead);
    let ctx = ctx().with_lease(&lease.expect("a lease"));
    let id: TurnId = format!("trn_{number:012x}0123456789ABCD").parse().expect("an id");
    let message = user(number);
    let text = body_part(number, &message, json!({"type": "text", "text": TEXT}));
    let new = NewTurn { id: id.clone(), message, parts: vec![text] };
    store.write(&ctx, move |tx| tx.turns().begin(&new)).wait().expect("begun");
    let started = id.clone();
    let start =
        move |tx: &Tx<'_>| tx.turns().transition(&sid(SESSION), &started, &TurnEvent::Started);
    store.write(&ctx, start).wait().expect("started");
    let outcome = TurnOutcome::Completed;
    let end = EndTurn { session: sid(SESSION), turn: id, outcome, error: None };
    store.write(&ctx, move |tx| tx.turns().end(&end)).wait().expect("ended");
}

/// Bytes that each of `ROWS` calls of `put` adds.
fn bytes_per_row(store: &Store, put: impl Fn(usize)) -> u64 {
    let before = used(store);
    (0..ROWS).for_each(put);
    (used(store) - before) / ROWS as u64
}

#[test]
fn rows_stay_within_their_limits() {
    let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("temp dir");
    let store = store(dir.path());
    let put = |message: Message| {
        write(&store, move |tx| tx.messages().put(&message)).expect("put");
    };
    let put_part = |part: Part| {
        write(&store, move |tx| tx.messages().put_part(&part)).expect("put");
    };
    let users = bytes_per_row(&store, |n| put(user(n)));
    let texts = bytes_per_row(&store, |n| {
        put_part(body_part(n, &user(n), json!({"type": "text", "text": TEXT})));
    });
    let assistants = bytes_per_row(&store, |n| put(assistant(ROWS + n)));
    let (input, output) = (json!({"command": "ls"}), "x".repeat(600));
    let tools = bytes_per_row(&store, |n| {
        let body = json!({"type": "tool", "callID": "call_1_0", "tool": "bash", "state": {
            "status": "completed", "input": input, "output": output, "title": "ls",
            "metadata": {}, "time": {"start": 1_794_728_452_868_u64, "end": 1_794_728_452_999_u64}}});
        put_part(body_part(ROWS + n, &assistant(ROWS + n), body));
    });
    let turns = bytes_per_row(&store, |n| run_turn(&store, 2 * ROWS + n));
    let texts = texts - TEXT.len() as u64;
    let tools = tools - (input.to_string().len() + output.len()) as u64;
    let turns = turns - users - texts - TEXT.len() as u64;
    println!("user {users}, text {texts}, assistant {assistants}, tool {tools}, turn {turns}");
    assert!(users <= 380, "{users} bytes for a user message");
    assert!(texts <= 290, "{texts} bytes for a text part beyond its text");
    assert!(assistants <= 680, "{assistants} bytes for an assistant message");
    assert!(tools <= 580, "{tools} bytes for a tool part beyond its input and output");
    assert!(turns <= TURN_LIMIT, "{turns} bytes for a turn beyond its prompt");
}
