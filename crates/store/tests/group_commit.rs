//! Group commit and its limits (R22, R23).

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use support::*;
use turnstone_store::{StoreError, WriteOutcome};

/// Proves R22.
#[test]
fn concurrent_writes_share_durable_commits() {
    let dir = tempfile::tempdir().expect("temp dir");
    let store = with_sessions(dir.path(), &["ses_a"]);
    let stats = store.writer_stats().expect("stats");
    let (commits, mutations) = (stats.commits(), stats.mutations());
    let tickets: Vec<_> = (0..200)
        .map(|n| {
            let message = user("ses_a", &format!("msg_{n}"), n);
            store.write(&ctx(), move |tx| tx.messages().put(&message))
        })
        .collect();
    for ticket in tickets {
        assert_eq!(ticket.wait().expect("written"), WriteOutcome::Created);
    }
    assert_eq!(stats.mutations() - mutations, 200);
    assert!(stats.commits() - commits < 100, "{} commits", stats.commits() - commits);
    // A reader of its own connection sees what was acknowledged.
    let page = store.read(&ctx(), |r| r.messages().list(&sid("ses_a"), None, 1000)).expect("page");
    assert_eq!(page.items.len(), 200);
}

/// Proves R22.
#[test]
fn failed_mutation_rolls_back_only_itself() {
    let dir = tempfile::tempdir().expect("temp dir");
    let store = with_sessions(dir.path(), &["ses_a"]);
    let good = store.write(&ctx(), |tx| tx.messages().put(&user("ses_a", "msg_1", 1)));
    let bad = store.write(&ctx(), |tx| {
        tx.messages().put(&user("ses_a", "msg_2", 1))?;
        Err::<(), _>(StoreError::Invalid("changed my mind".to_owned()))
    });
    let ugly = store.write(&ctx(), |tx| -> turnstone_store::Result<()> {
        tx.messages().put(&user("ses_a", "msg_3", 1))?;
        panic!("on purpose")
    });
    let late = store.write(&ctx(), |tx| tx.messages().put(&user("ses_a", "msg_4", 1)));
    good.wait().expect("stored");
    assert!(matches!(bad.wait(), Err(StoreError::Invalid(_))));
    assert!(matches!(ugly.wait(), Err(StoreError::Internal(_))));
    late.wait().expect("the writer lives on");
    let page = store.read(&ctx(), |r| r.messages().list(&sid("ses_a"), None, 10)).expect("page");
    let ids: Vec<_> = page.items.iter().map(|m| m.message.id.as_str()).collect();
    assert_eq!(ids, ["msg_1", "msg_4"]);
    let seqs: Vec<_> = log(&store).iter().filter_map(|e| e.seq).map(|s| s.0).collect();
    assert_eq!(seqs, [1, 2, 3], "no number is lost to what was undone");
}

/// Proves R23.
#[test]
fn oversized_mutation_is_rejected_and_large_one_commits_alone() {
    let dir = tempfile::tempdir().expect("temp dir");
    let store = with_sessions(dir.path(), &["ses_a"]);
    let messages = |from: usize, count: usize| {
        store.write(&ctx(), move |tx| {
            for n in from..from + count {
                tx.messages().put(&user("ses_a", &format!("msg_{n}"), 1))?;
            }
            Ok(())
        })
    };
    let tickets: Vec<_> =
        (0..12).map(|n| messages(n * 1000, if n % 3 == 0 { 150 } else { 30 })).collect();
    for ticket in tickets {
        ticket.wait().expect("fits");
    }
    let too_many = messages(50_000, 400).wait();
    assert!(matches!(too_many, Err(StoreError::TooLarge { rows: 501.., .. })), "{too_many:?}");
    let too_long = write(&store, |tx| {
        for n in 0..40 {
            let body = json!({"type": "text", "text": "x".repeat(200_000) + &n.to_string()});
            tx.messages().put_part(&part("ses_a", "msg_0", &format!("prt_{n}"), body))?;
        }
        Ok(())
    });
    assert!(matches!(too_long, Err(StoreError::TooLarge { .. })), "{too_long:?}");
    let stats = store.writer_stats().expect("stats");
    assert!(stats.most_rows() <= 500, "{}", stats.most_rows());
    assert!(stats.most_bytes() <= 4 * 1024 * 1024, "{}", stats.most_bytes());
}

#[test]
fn closed_store_answers_closed() {
    let dir = tempfile::tempdir().expect("temp dir");
    let store = with_sessions(dir.path(), &["ses_a"]);
    let ticket = store.write(&ctx(), |tx| tx.messages().put(&user("ses_a", "msg_1", 1)));
    // What was queued before the store is dropped is still written.
    drop(store);
    assert_eq!(ticket.wait().expect("written"), WriteOutcome::Created);
}

#[test]
fn absurd_costs_saturate() {
    let dir = tempfile::tempdir().expect("temp dir");
    let store = with_sessions(dir.path(), &["ses_a"]);
    write(&store, |tx| {
        tx.messages().put(&assistant("ses_a", "msg_a", 1))?;
        for (n, cost) in [json!(1e300), json!(9.0e6), json!(-1e300), json!(1e300)].into_iter().enumerate() {
            let body = json!({"type": "step-finish", "reason": "stop", "cost": cost, "tokens":
                {"input": i64::MAX, "output": 1e300, "reasoning": 0, "cache": {"read": 0, "write": 0}}});
            tx.messages().put_part(&part("ses_a", "msg_a", &format!("prt_{n}"), body))?;
        }
        Ok(())
    })
    .expect("stored");
    let usage = store.read(&ctx(), |r| r.sessions().usage(&sid("ses_a"))).expect("usage");
    assert!(usage.cost > 0 && usage.input > 0, "{usage:?}");
    assert!(store.maintenance().verify_projections().expect("verifies").is_empty());
}

#[test]
fn replaced_step_no_longer_counts_toward_usage() {
    let dir = tempfile::tempdir().expect("temp dir");
    let store = with_sessions(dir.path(), &["ses_a"]);
    write(&store, |tx| {
        tx.messages().put(&assistant("ses_a", "msg_a", 1))?;
        let body = json!({"type": "step-finish", "reason": "stop", "cost": 2, "tokens": tokens(5)});
        tx.messages().put_part(&part("ses_a", "msg_a", "prt_1", body))?;
        tx.messages().put_part(&text("ses_a", "msg_a", "prt_1", "a text after all"))
    })
    .expect("stored");
    let usage = store.read(&ctx(), |r| r.sessions().usage(&sid("ses_a"))).expect("usage");
    assert_eq!(usage, turnstone_core::model::SessionUsage::default());
}

#[test]
fn consecutive_large_mutations_run_once_each() {
    let dir = tempfile::tempdir().expect("temp dir");
    let store = with_sessions(dir.path(), &["ses_a"]);
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let gate = std::sync::Mutex::new(wait);
    let first = store.write(&ctx(), move |_| {
        gate.lock().expect("nobody panicked").recv().expect("somebody says go");
        Ok(())
    });
    let runs = Arc::new(AtomicUsize::new(0));
    let tickets: Vec<_> = (0..6)
        .map(|n| {
            let runs = Arc::clone(&runs);
            store.write(&ctx(), move |tx| {
                runs.fetch_add(1, Ordering::Relaxed);
                (0..60).try_for_each(|m| {
                    tx.messages().put(&user("ses_a", &format!("msg_{n}_{m}"), m)).map(drop)
                })
            })
        })
        .collect();
    go.send(()).expect("sent");
    first.wait().expect("written");
    tickets.into_iter().for_each(|ticket| ticket.wait().expect("written"));
    assert_eq!(runs.load(Ordering::Relaxed), 6, "none spoiled the group of another");
    let stats = store.writer_stats().expect("stats");
    assert!(stats.most_rows() > 300 && stats.most_rows() <= 500, "{}", stats.most_rows());
}
