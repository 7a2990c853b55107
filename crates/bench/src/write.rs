//! Acknowledged events per second: ours, the limit, and OpenCode's settings, in turns.

use std::time::{Duration, Instant};

use crate::table::{line, median};
use crate::{Fallible, data, limit, opencode};

/// One measured stretch.
pub(crate) struct Rate {
    /// Acknowledged events per second.
    pub(crate) per_second: f64,
    /// Events per transaction.
    pub(crate) group: f64,
}

/// Measures 1 and 32 concurrent writers.
pub(crate) fn run(quick: bool) -> Fallible {
    let (rounds, span) =
        if quick { (5, Duration::from_millis(400)) } else { (9, Duration::from_secs(1)) };
    println!(
        "acknowledged events per second; an event = one text part of 120 bytes, durable (FULL)"
    );
    for writers in [1, 32] {
        let (mut own, mut top, mut peer, mut groups) = (vec![], vec![], vec![], vec![]);
        for _ in 0..rounds {
            let ours = ours(writers, span)?;
            let best = limit::run(ours.group.round().max(1.0) as usize, writers, span)?;
            let theirs = opencode::run(span)?;
            groups.push(ours.group);
            own.push(ours.per_second);
            top.push(best.per_second);
            peer.push(theirs.per_second);
        }
        let ratios = own.iter().zip(&top).map(|(a, b)| a / b).collect();
        line(
            &format!("{writers} writer(s), {rounds} rounds, medians"),
            &[
                ("ours", format!("{:.0}/s", median(own))),
                ("limit", format!("{:.0}/s", median(top))),
                ("ratio", format!("{:.2}", median(ratios))),
                ("group", format!("{:.1}", median(groups))),
                ("OpenCode's settings (NORMAL, not durable)", format!("{:.0}/s", median(peer))),
            ],
        );
    }
    Ok(())
}

/// `writers` threads, each waiting for the acknowledgement of one event before the next.
fn ours(writers: usize, span: Duration) -> Fallible<Rate> {
    let dir = tempfile::tempdir()?;
    let store = data::filled(dir.path(), writers)?;
    let stats = store.stats().ok_or("the store is read-only")?;
    let (commits, mutations) = (stats.commits(), stats.mutations());
    let begun = Instant::now();
    std::thread::scope(|scope| -> Fallible {
        let threads: Vec<_> = (0..writers)
            .map(|w| {
                let store = &store;
                scope.spawn(move || writer(store, w, span, begun).map_err(|e| e.to_string()))
            })
            .collect();
        for thread in threads {
            thread.join().map_err(|_| "a writer panicked")??;
        }
        Ok(())
    })?;
    let time = begun.elapsed().as_secs_f64();
    let done = (stats.mutations() - mutations) as f64;
    let group = done / ((stats.commits() - commits).max(1)) as f64;
    Ok(Rate { per_second: done / time, group })
}

fn writer(store: &turnstone_store::Store, w: usize, span: Duration, begun: Instant) -> Fallible {
    let ctx = data::context()?;
    let message = data::assistant(w, &data::session_id(w)?)?;
    let mut n = w * 1_000_000;
    let template = data::text(n, &message, data::TEXT)?;
    while begun.elapsed() < span {
        let mut part = template.clone();
        part.id = data::part_id(n)?;
        store.write(&ctx, move |tx| tx.put_part(&part)).wait()?;
        n += 1;
    }
    Ok(())
}
