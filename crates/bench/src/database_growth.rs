//! What one turn adds to the database, by kind, compared with the model of the seed documents.

use serde_json::json;
use turnstone_core::model::Message;
use turnstone_core::time::EpochMillis;
use turnstone_core::turn::{TurnEvent, TurnOutcome};
use turnstone_store::{
    Context, EndTurn, LeaseTakeoverPolicy, MaintenanceBudget, MaintenanceLimits, NewTurn, Store,
};

use crate::{Fallible, sample_data};

/// The bytes of tool input and output in every step.
const TOOL_OUTPUT_BYTES: usize = 600;

/// So much later everything is old enough for maintenance: a month.
const MAINTENANCE_DELAY_MS: i64 = 30 * 24 * 3_600_000;

/// Prints the table for turns of 1, 10 and 100 steps.
pub(crate) fn run() -> Fallible {
    println!(
        "bytes one turn adds to the database (pages in use after maintenance, search index apart)"
    );
    println!(
        "| steps | all | per step | user message + its part | a step's assistant message | its tool part beyond {TOOL_OUTPUT_BYTES} B of output |"
    );
    println!("|---|---|---|---|---|---|");
    for steps in [1, 10, 100] {
        let all = bytes_per_turn(steps, StoredParts::All)?;
        let user = bytes_per_turn(0, StoredParts::All)?;
        let bare = bytes_per_turn(steps, StoredParts::NoParts)?;
        let tools = bytes_per_turn(steps, StoredParts::ToolPartsOnly)?;
        let (n, prompt) = (steps as i64, sample_data::SAMPLE_TEXT.len() as i64);
        println!(
            "| {steps} | {all} | {} | {} + {prompt} of content | {} | {} |",
            all / n,
            user - prompt,
            (bare - user) / n,
            (tools - bare) / n - TOOL_OUTPUT_BYTES as i64,
        );
    }
    println!(
        "| seed's model | | ≤ 100 KB snapshot apart | ≤ 500 + ≤ 100 + content | ≤ 500 | ≤ 500 + input/output |"
    );
    Ok(())
}

#[derive(Clone, Copy, PartialEq)]
enum StoredParts {
    All,
    NoParts,
    ToolPartsOnly,
}

/// The bytes in use after 40 such turns, less those before, per turn.
fn bytes_per_turn(steps: usize, keep: StoredParts) -> Fallible<i64> {
    const TURNS: usize = 40;
    let dir = tempfile::tempdir()?;
    let store = sample_data::create_filled_store(dir.path(), 1)?;
    let ctx = sample_data::context()?;
    let lease =
        store.leases().acquire(&ctx, &sample_data::session_id(0)?, LeaseTakeoverPolicy::IfDead)?;
    let ctx = ctx.with_lease(&lease);
    let before = used_bytes(&store, &ctx)?;
    for turn in 0..TURNS {
        write_turn(&store, &ctx, turn, steps, keep)?;
    }
    Ok((used_bytes(&store, &ctx)? - before) / TURNS as i64)
}

/// The bytes in use after maintenance.
fn used_bytes(store: &Store, ctx: &Context) -> Fallible<i64> {
    let later = Context { now: EpochMillis(ctx.now.0 + MAINTENANCE_DELAY_MS), ..ctx.clone() };
    let limits = MaintenanceLimits { grace_ms: 0, ..MaintenanceLimits::default() };
    store.maintenance().run_with(&later, MaintenanceBudget::unlimited(), &limits)?;
    let sizes = store.maintenance().measure_sizes(ctx, 0)?;
    let used = sizes.log + sizes.text + sizes.blobs + sizes.projections + sizes.other;
    Ok(i64::try_from(used)?)
}

fn write_turn(
    store: &Store,
    ctx: &Context,
    turn: usize,
    steps: usize,
    keep: StoredParts,
) -> Fallible {
    let base = 1_000_000 * (turn + 1);
    let session = sample_data::session_id(0)?;
    let message = sample_data::user_message(base, &session)?;
    let part = sample_data::part(
        base,
        &message,
        json!({"type": "text", "text": sample_data::SAMPLE_TEXT}),
    )?;
    let id: turnstone_core::id::TurnId = format!("trn_{turn:012x}0123456789ABCD").parse()?;
    let new = NewTurn { id: id.clone(), message, parts: vec![part] };
    store.write(ctx, move |tx| tx.turns().begin(&new)).wait()?;
    let (s, t) = (session.clone(), id.clone());
    store.write(ctx, move |tx| tx.turns().transition(&s, &t, &TurnEvent::Started)).wait()?;
    for step in 0..steps {
        let message = sample_data::assistant_message(base + 1 + step, &session)?;
        let list = step_parts(base + 1 + step * 10, &message, keep)?;
        store
            .write(ctx, move |tx| {
                tx.messages().put(&message)?;
                for part in &list {
                    tx.messages().put_part(part)?;
                }
                Ok(())
            })
            .wait()?;
    }
    let end = EndTurn { session, turn: id, outcome: TurnOutcome::Completed, error: None };
    store.write(ctx, move |tx| tx.turns().end(&end)).wait()?;
    Ok(())
}

fn step_parts(
    n: usize,
    message: &Message,
    keep: StoredParts,
) -> Fallible<Vec<turnstone_core::model::Part>> {
    let output = "x".repeat(TOOL_OUTPUT_BYTES);
    let time = json!({"start": 1_794_728_452_868_u64, "end": 1_794_728_452_999_u64});
    let tokens = json!({"total": 1340, "input": 1200, "output": 40, "reasoning": 0,
                        "cache": {"read": 100, "write": 0}});
    let tool = json!({"type": "tool", "callID": "call_1_0", "tool": "bash", "state": {
        "status": "completed", "input": {"command": "ls"}, "output": output, "title": "ls",
        "metadata": {}, "time": time}});
    let snapshot = "584c6e4479dad9a639cf59fb586fadea570bc2c2";
    let list = match keep {
        StoredParts::NoParts => vec![],
        StoredParts::ToolPartsOnly => vec![tool],
        StoredParts::All => vec![
            json!({"type": "step-start", "snapshot": snapshot}),
            json!({"type": "text", "text": sample_data::SAMPLE_TEXT, "time": time}),
            tool,
            json!({"type": "step-finish", "reason": "stop", "snapshot": snapshot, "cost": 0.00129, "tokens": tokens}),
        ],
    };
    list.into_iter().enumerate().map(|(i, body)| sample_data::part(n + i, message, body)).collect()
}
