//! What must hold whatever happened to a writer: shared by the crash, fault and power-loss tests.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;

use turnstone_core::id::SessionId;
use turnstone_core::model::SessionStatus;
use turnstone_core::time::{EpochMillis, LogCursor};
use turnstone_store::{
    Actor, Context, DataLayout, LeaseTakeoverPolicy, Options, SessionFilter, Store, StoreError,
    diagnose,
};

pub(crate) type Fallible<T = ()> = Result<T, Box<dyn Error>>;

/// The program under test; it is built with the tests.
pub(crate) fn ledger(dir: &Path, words: &[&str]) -> Fallible<Command> {
    let test = std::env::current_exe()?;
    let profile = test.parent().and_then(Path::parent).ok_or("no build directory")?;
    let program: PathBuf = profile.join("examples/ledger");
    if !program.exists() {
        return Err(format!("{} is missing: cargo build --examples", program.display()).into());
    }
    #[expect(clippy::disallowed_methods, reason = "a test starts the program it kills")]
    let mut command = Command::new(program);
    command.arg(dir).args(words);
    Ok(command)
}

pub(crate) fn context() -> Fallible<Context> {
    Ok(Context::new(Actor::new("test")?, EpochMillis(1_794_728_500_000)))
}

pub(crate) fn open(dir: &Path) -> Fallible<Store> {
    Ok(Store::open(&Options::new(DataLayout::new(dir), EpochMillis(1_794_728_500_000)))?)
}

/// An acknowledgement as the program printed it.
#[derive(Clone, Debug)]
pub(crate) struct AcknowledgedWrite {
    pub(crate) cursor: i64,
    pub(crate) session: String,
    pub(crate) seq: i64,
}

/// The acknowledgements among the lines a program printed.
pub(crate) fn acks(lines: &[String]) -> Vec<AcknowledgedWrite> {
    lines
        .iter()
        .filter_map(|line| {
            let mut words = line.strip_prefix("ack ")?.split(' ');
            let (cursor, session, seq) = (words.next()?, words.next()?, words.next()?);
            Some(AcknowledgedWrite {
                cursor: cursor.parse().ok()?,
                session: session.to_owned(),
                seq: seq.parse().ok()?,
            })
        })
        .collect()
}

/// The whole log: its cursors, and the sequence numbers of each session with what they stand for.
pub(crate) struct LoggedEvents {
    pub(crate) cursors: BTreeSet<i64>,
    pub(crate) streams: BTreeMap<String, Vec<(i64, i64)>>,
}

pub(crate) fn read_log(store: &Store) -> Fallible<LoggedEvents> {
    let ctx = context()?;
    let mut log = LoggedEvents { cursors: BTreeSet::new(), streams: BTreeMap::new() };
    let mut at = LogCursor(0);
    loop {
        let page = store.read(&ctx, |r| r.log().after(at, 500))?;
        if page.events.is_empty() {
            return Ok(log);
        }
        for event in &page.events {
            log.cursors.insert(event.cursor.0);
            if let (Some(session), Some(seq)) = (&event.session, event.seq) {
                log.streams.entry(session.to_string()).or_default().push((seq.0, event.span));
            }
        }
        at = page.next;
    }
}

/// Everything acknowledged is there, numbers have no gap, nothing is stuck, tables equal a rebuild.
pub(crate) fn check(dir: &Path, acknowledged: &[AcknowledgedWrite]) -> Fallible {
    let store = open(dir)?;
    let ctx = context()?;
    let log = read_log(&store)?;
    for ack in acknowledged {
        let covered = log.streams.get(&ack.session).is_some_and(|stream| {
            stream.iter().any(|(seq, span)| *seq >= ack.seq && ack.seq > seq - span)
        });
        if !log.cursors.contains(&ack.cursor) && !covered {
            return Err(format!("{ack:?} was acknowledged and is lost").into());
        }
    }
    for (session, stream) in &log.streams {
        let mut stream = stream.clone();
        stream.sort_unstable();
        let mut at = 0;
        for (seq, span) in stream {
            if seq - span != at {
                return Err(format!("{session} goes from {at} to {seq} (span {span})").into());
            }
            at = seq;
        }
    }
    assert_no_stuck_sessions(&store, &ctx)?;
    assert_all_readable(&store, &ctx)?;
    let wrong = store.maintenance().verify_projections()?;
    if !wrong.is_empty() {
        return Err(format!("projections differ from a rebuild: {wrong:?}").into());
    }
    drop(store);
    // Integrity, foreign keys (R44), check sums, files, sequences: all of it.
    let diagnosis = diagnose(&DataLayout::new(dir), ctx.now);
    if !diagnosis.is_sound() {
        return Err(format!("the doctor finds {:?}", diagnosis.findings).into());
    }
    Ok(())
}

/// Every message with its texts and large values; a file cut short or missing is an error (W28).
fn assert_all_readable(store: &Store, ctx: &Context) -> Fallible {
    let page = store.read(ctx, |r| r.sessions().list(&SessionFilter::default(), None, 1000))?;
    for row in page.items {
        store.read(ctx, |r| r.messages().list(&row.session.id, None, 100_000))?;
    }
    Ok(())
}

fn assert_no_stuck_sessions(store: &Store, ctx: &Context) -> Fallible {
    let filter = SessionFilter { archived: true, ..SessionFilter::default() };
    let page = store.read(ctx, |r| r.sessions().list(&filter, None, 1000))?;
    for row in page.items {
        let id: SessionId = row.session.id;
        let held = match store.leases().acquire(ctx, &id, LeaseTakeoverPolicy::IfDead) {
            Ok(lease) => {
                store.leases().release(ctx, &lease)?;
                false
            }
            // Only a process that lives may hold it.
            Err(StoreError::Busy(_)) => true,
            Err(error) => return Err(error.into()),
        };
        let status = store.read(ctx, |r| r.sessions().status(&id))?;
        if !held && status != SessionStatus::Idle && !has_only_accepted_turn(store, ctx, &id)? {
            return Err(format!("{id} is stuck as {status:?}").into());
        }
    }
    Ok(())
}

/// A turn that was accepted and never started waits for the next runner (R28).
fn has_only_accepted_turn(store: &Store, ctx: &Context, id: &SessionId) -> Fallible<bool> {
    let turns = store.read(ctx, |r| r.turns().list(id))?;
    let open: Vec<_> = turns.iter().filter(|t| t.state.is_open()).collect();
    Ok(open.iter().all(|t| t.state == turnstone_core::turn::TurnState::Accepted))
}
