//! Acknowledged events per second: ours, the limit, and OpenCode's settings, in turns.

use std::time::{Duration, Instant};

use crate::measurement::{median, print_figures};
use crate::{Fallible, opencode_baseline, raw_sqlite, sample_data};

/// One measured stretch.
pub(crate) struct WriteRate {
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
            let ours = measure_store(writers, span)?;
            let best = raw_sqlite::run(ours.group.round().max(1.0) as usize, writers, span)?;
            let theirs = opencode_baseline::run(span)?;
            groups.push(ours.group);
            own.push(ours.per_second);
            top.push(best.per_second);
            peer.push(theirs.per_second);
        }
        let ratios = own.iter().zip(&top).map(|(a, b)| a / b).collect();
        print_figures(
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
fn measure_store(writers: usize, span: Duration) -> Fallible<WriteRate> {
    let dir = tempfile::tempdir()?;
    let store = sample_data::create_filled_store(dir.path(), writers)?;
    let stats = store.writer_stats().ok_or("the store is read-only")?;
    let (commits, mutations) = (stats.commits(), stats.mutations());
    let begun = Instant::now();
    std::thread::scope(|scope| -> Fallible {
        let threads: Vec<_> = (0..writers)
            .map(|w| {
                let store = &store;
                scope.spawn(move || run_writer(store, w, span, begun).map_err(|e| e.to_string()))
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
    Ok(WriteRate { per_second: done / time, group })
}

fn run_writer(
    store: &turnstone_store::Store,
    w: usize,
    span: Duration,
    begun: Instant,
) -> Fallible {
    let ctx = sample_data::context()?;
    let message = sample_data::assistant_message(w, &sample_data::session_id(w)?)?;
    let mut n = w * 1_000_000;
    let template = sample_data::text_part(n, &message, sample_data::SAMPLE_TEXT)?;
    while begun.elapsed() < span {
        let mut part = template.clone();
        part.id = sample_data::part_id(n)?;
        store.write(&ctx, move |tx| tx.messages().put_part(&part)).wait()?;
        n += 1;
    }
    Ok(())
}
