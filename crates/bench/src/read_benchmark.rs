//! Reading: a long session, a long list, a search; our tables and OpenCode's.

use std::time::{Duration, Instant};

use turnstone_core::time::EpochMillis;
use turnstone_store::{SearchQuery, SessionFilter, Store};

use crate::measurement::{median, print_figures, to_millis};
use crate::{Fallible, opencode_baseline, sample_data};

const MESSAGES: usize = 1000;
const PARTS: usize = 5;

/// Measures the three reads.
pub(crate) fn run(quick: bool) -> Fallible {
    let rounds = if quick { 5 } else { 9 };
    measure_session_read(rounds)?;
    measure_session_list(rounds, if quick { 2_000 } else { 10_000 })?;
    measure_search(rounds, if quick { 10_000 } else { 100_000 })
}

fn measure_duration<T>(work: impl FnOnce() -> Fallible<T>) -> Fallible<(T, Duration)> {
    let begun = Instant::now();
    let value = work()?;
    Ok((value, begun.elapsed()))
}

fn measure_session_read(rounds: usize) -> Fallible {
    let dir = tempfile::tempdir()?;
    let store = sample_data::create_filled_store(dir.path(), 0)?;
    let ctx = sample_data::context()?;
    let (id, session) = (sample_data::session_id(0)?, sample_data::session(0)?);
    store.write(&ctx, move |tx| tx.sessions().create(&session)).wait()?;
    write_messages(&store, MESSAGES, PARTS)?;
    let peer = opencode_baseline::open_database(&dir.path().join("opencode.db"))?;
    fill_opencode(&peer)?;
    let (mut own, mut theirs) = (vec![], vec![]);
    for _ in 0..rounds {
        let (page, time) = measure_duration(|| {
            Ok(store.read(&ctx, |r| r.messages().list(&id, None, usize::MAX >> 1))?)
        })?;
        let parts: usize = page.items.iter().map(|m| m.parts.len()).sum();
        if (page.items.len(), parts) != (MESSAGES, MESSAGES * PARTS) {
            return Err("the long session was not read whole".into());
        }
        own.push(to_millis(time));
        let (count, time) = measure_duration(|| read_opencode(&peer))?;
        if count != MESSAGES * (PARTS + 1) {
            return Err("the peer's session was not read whole".into());
        }
        theirs.push(to_millis(time));
    }
    print_comparison("read a session of 1,000 messages, 5,000 parts", own, theirs);
    Ok(())
}

fn print_comparison(what: &str, own: Vec<f64>, theirs: Vec<f64>) {
    let ratio = median(theirs.iter().zip(&own).map(|(t, o)| t / o).collect());
    print_figures(
        what,
        &[
            ("ours", format!("{:.1} ms", median(own))),
            ("OpenCode's tables, same values parsed", format!("{:.1} ms", median(theirs))),
            ("theirs/ours", format!("{ratio:.2}")),
        ],
    );
}

/// Writes messages with their parts into the first session, many to a group.
pub(crate) fn write_messages(store: &Store, messages: usize, parts: usize) -> Fallible {
    let ctx = sample_data::context()?;
    let id = sample_data::session_id(0)?;
    let mut tickets = Vec::new();
    for n in 0..messages {
        let message = sample_data::assistant_message(n, &id)?;
        let list = (0..parts)
            .map(|p| {
                let text =
                    format!("{} part {n} word{}", sample_data::SAMPLE_TEXT, (n * parts + p) % 5000);
                sample_data::text_part(n * parts + p, &message, &text)
            })
            .collect::<Fallible<Vec<_>>>()?;
        tickets.push(store.write(&ctx, move |tx| {
            tx.messages().put(&message)?;
            for part in &list {
                tx.messages().put_part(part)?;
            }
            Ok(())
        }));
    }
    for ticket in tickets {
        ticket.wait()?;
    }
    Ok(())
}

fn fill_opencode(conn: &rusqlite::Connection) -> Fallible {
    let session = sample_data::session_id(0)?;
    conn.execute_batch("BEGIN")?;
    for n in 0..MESSAGES {
        let message = sample_data::assistant_message(n, &session)?;
        conn.execute(
            "INSERT INTO message VALUES (?1, ?2, ?3, ?3, ?4)",
            (
                message.id.as_str(),
                session.as_str(),
                n as i64,
                serde_json::to_string(&message.body)?,
            ),
        )?;
        for p in 0..PARTS {
            let part = sample_data::text_part(n * PARTS + p, &message, sample_data::SAMPLE_TEXT)?;
            conn.execute(
                "INSERT INTO part VALUES (?1, ?2, ?3, 1, 1, ?4)",
                (
                    part.id.as_str(),
                    message.id.as_str(),
                    session.as_str(),
                    serde_json::to_string(&part.body)?,
                ),
            )?;
        }
    }
    conn.execute_batch("COMMIT")?;
    Ok(())
}

/// Pages of 50 as OpenCode does, each value parsed into the same model as ours.
fn read_opencode(conn: &rusqlite::Connection) -> Fallible<usize> {
    let session = sample_data::session_id(0)?;
    let mut count = 0;
    for page in 0..MESSAGES / 50 {
        let mut statement = conn.prepare_cached(
            "SELECT id, data FROM message WHERE session_id = ?1 ORDER BY time_created DESC, id DESC
             LIMIT 50 OFFSET ?2",
        )?;
        let messages: Vec<(String, String)> = statement
            .query_map((session.as_str(), (page * 50) as i64), |r| Ok((r.get(0)?, r.get(1)?)))?
            .collect::<Result<_, _>>()?;
        for (id, json) in messages {
            let _: turnstone_core::model::MessageBody = serde_json::from_str(&json)?;
            count += 1;
            let mut parts =
                conn.prepare_cached("SELECT data FROM part WHERE message_id = ?1 ORDER BY id")?;
            let rows = parts.query_map([id], |r| r.get::<_, String>(0))?;
            for json in rows {
                let _: turnstone_core::model::PartBody = serde_json::from_str(&json?)?;
                count += 1;
            }
        }
    }
    Ok(count)
}

fn measure_session_list(rounds: usize, sessions: usize) -> Fallible {
    let dir = tempfile::tempdir()?;
    let store = sample_data::create_filled_store(dir.path(), 0)?;
    let ctx = sample_data::context()?;
    let mut tickets = Vec::new();
    for n in 0..sessions {
        let session = sample_data::session(n)?;
        tickets.push(store.write(&ctx, move |tx| tx.sessions().create(&session)));
    }
    for ticket in tickets {
        ticket.wait()?;
    }
    let (mut all, mut each) = (vec![], vec![]);
    for _ in 0..rounds {
        let begun = Instant::now();
        let (mut cursor, mut seen) = (None::<String>, 0);
        loop {
            let (page, time) = measure_duration(|| {
                let filter = SessionFilter::default();
                Ok(store.read(&ctx, |r| r.sessions().list(&filter, cursor.as_deref(), 100))?)
            })?;
            each.push(to_millis(time));
            seen += page.items.len();
            match page.next {
                Some(next) => cursor = Some(next),
                None => break,
            }
        }
        if seen != sessions {
            return Err("the list was not read whole".into());
        }
        all.push(to_millis(begun.elapsed()));
    }
    print_figures(
        &format!("list {sessions} sessions, 100 a page"),
        &[("all", format!("{:.0} ms", median(all))), ("a page", format!("{:.2} ms", median(each)))],
    );
    Ok(())
}

fn measure_search(rounds: usize, parts: usize) -> Fallible {
    let dir = tempfile::tempdir()?;
    let store = sample_data::create_filled_store(dir.path(), 0)?;
    let ctx = sample_data::context()?.at_time(EpochMillis(1_794_728_448_904));
    let session = sample_data::session(0)?;
    store.write(&ctx, move |tx| tx.sessions().create(&session)).wait()?;
    write_messages(&store, parts / PARTS, PARTS)?;
    let (_, index) = measure_duration(|| {
        Ok(store.session_search().query(&ctx, &SearchQuery::new("pattern"))?)
    })?;
    let (mut rare, mut common) = (vec![], vec![]);
    for round in 0..rounds {
        let word = format!("word{}", 17 + round * 100);
        let (page, time) = measure_duration(|| {
            Ok(store.session_search().query(&ctx, &SearchQuery::new(word.as_str()))?)
        })?;
        if page.hits.is_empty() {
            return Err("a stored word was not found".into());
        }
        rare.push(to_millis(time));
        let (page, time) = measure_duration(|| {
            Ok(store.session_search().query(&ctx, &SearchQuery::new("pattern order"))?)
        })?;
        if page.hits.is_empty() {
            return Err("words of every part were not found".into());
        }
        common.push(to_millis(time));
    }
    print_figures(
        &format!("search over {parts} parts"),
        &[
            ("a rare word", format!("{:.1} ms", median(rare))),
            ("two words in every part", format!("{:.1} ms", median(common))),
            ("indexing all of it, once", format!("{:.1} s", index.as_secs_f64())),
        ],
    );
    Ok(())
}
