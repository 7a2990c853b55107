//! What one turn adds to the database, by kind, beside the model of the seed documents.

use serde_json::json;
use turnstone_core::model::Message;
use turnstone_core::turn::{Outcome, TurnEvent};
use turnstone_store::{Context, EndTurn, NewTurn, Store, Takeover};

use crate::{Fallible, data};

/// The bytes of tool input and output in every step.
const OUTPUT: usize = 600;

/// Prints the table for turns of 1, 10 and 100 steps.
pub(crate) fn run() -> Fallible {
    println!("bytes one turn adds to the database (pages in use, search index apart)");
    println!(
        "| steps | all | per step | user message + its part | a step's assistant message | its tool part beyond {OUTPUT} B of output |"
    );
    println!("|---|---|---|---|---|---|");
    for steps in [1, 10, 100] {
        let all = measure(steps, Keep::All)?;
        let user = measure(0, Keep::All)?;
        let bare = measure(steps, Keep::Messages)?;
        let tools = measure(steps, Keep::Tools)?;
        let (n, prompt) = (steps as i64, data::TEXT.len() as i64);
        println!(
            "| {steps} | {all} | {} | {} + {prompt} of content | {} | {} |",
            all / n,
            user - prompt,
            (bare - user) / n,
            (tools - bare) / n - OUTPUT as i64,
        );
    }
    println!(
        "| seed's model | | ≤ 100 KB snapshot apart | ≤ 500 + ≤ 100 + content | ≤ 500 | ≤ 500 + input/output |"
    );
    Ok(())
}

#[derive(Clone, Copy, PartialEq)]
enum Keep {
    All,
    Messages,
    Tools,
}

/// The bytes in use after 40 such turns, less those before, per turn.
fn measure(steps: usize, keep: Keep) -> Fallible<i64> {
    const TURNS: usize = 40;
    let dir = tempfile::tempdir()?;
    let store = data::filled(dir.path(), 1)?;
    let ctx = data::context()?;
    let lease = store.lease(&ctx, &data::session_id(0)?, Takeover::IfDead)?;
    let ctx = ctx.leased(&lease);
    let before = in_use(&store, &ctx)?;
    for turn in 0..TURNS {
        one_turn(&store, &ctx, turn, steps, keep)?;
    }
    Ok((in_use(&store, &ctx)? - before) / TURNS as i64)
}

fn in_use(store: &Store, ctx: &Context) -> Fallible<i64> {
    let sizes = store.sizes(ctx, 0)?;
    let used = sizes.log + sizes.text + sizes.blobs + sizes.projections + sizes.other;
    Ok(i64::try_from(used)?)
}

fn one_turn(store: &Store, ctx: &Context, turn: usize, steps: usize, keep: Keep) -> Fallible {
    let base = 1_000_000 * (turn + 1);
    let session = data::session_id(0)?;
    let message = data::user(base, &session)?;
    let part = data::part(base, &message, json!({"type": "text", "text": data::TEXT}))?;
    let id: turnstone_core::id::TurnId = format!("trn_{turn:012x}0123456789ABCD").parse()?;
    let new = NewTurn { id: id.clone(), message, parts: vec![part] };
    store.write(ctx, move |tx| tx.begin_turn(&new)).wait()?;
    let (s, t) = (session.clone(), id.clone());
    store.write(ctx, move |tx| tx.move_turn(&s, &t, &TurnEvent::Started)).wait()?;
    for step in 0..steps {
        let message = data::assistant(base + 1 + step, &session)?;
        let list = parts(base + 1 + step * 10, &message, keep)?;
        store
            .write(ctx, move |tx| {
                tx.put_message(&message)?;
                for part in &list {
                    tx.put_part(part)?;
                }
                Ok(())
            })
            .wait()?;
    }
    let end = EndTurn { session, turn: id, outcome: Outcome::Completed, error: None };
    store.write(ctx, move |tx| tx.end_turn(&end)).wait()?;
    Ok(())
}

fn parts(n: usize, message: &Message, keep: Keep) -> Fallible<Vec<turnstone_core::model::Part>> {
    let output = "x".repeat(OUTPUT);
    let time = json!({"start": 1_794_728_452_868_u64, "end": 1_794_728_452_999_u64});
    let tokens = json!({"total": 1340, "input": 1200, "output": 40, "reasoning": 0,
                        "cache": {"read": 100, "write": 0}});
    let tool = json!({"type": "tool", "callID": "call_1_0", "tool": "bash", "state": {
        "status": "completed", "input": {"command": "ls"}, "output": output, "title": "ls",
        "metadata": {}, "time": time}});
    let snapshot = "584c6e4479dad9a639cf59fb586fadea570bc2c2";
    let list = match keep {
        Keep::Messages => vec![],
        Keep::Tools => vec![tool],
        Keep::All => vec![
            json!({"type": "step-start", "snapshot": snapshot}),
            json!({"type": "text", "text": data::TEXT, "time": time}),
            tool,
            json!({"type": "step-finish", "reason": "stop", "snapshot": snapshot, "cost": 0.00129, "tokens": tokens}),
        ],
    };
    list.into_iter().enumerate().map(|(i, body)| data::part(n + i, message, body)).collect()
}
