//! Streamed text takes little more room than the text itself (R24).

use std::collections::VecDeque;

use serde_json::json;
use turnstone_core::id::{PartId, SessionId};
use turnstone_core::model::{Message, Part, PartBody, Project, Session};
use turnstone_core::time::EpochMillis;
use turnstone_store::{
    Actor, Context, DataLayout, DatabaseSizes, MaintenanceBudget, MaintenanceLimits, Options,
    PendingWrite, Store, StoreError,
};

/// The text of the rule, in pieces as models send them.
const TEXT: usize = 10_000_000;
const DELTA: usize = 20;
/// Deltas on their way to the disk at once.
const MAX_IN_FLIGHT: usize = 64;

struct SizeTestStore {
    store: Store,
    ctx: Context,
    session: SessionId,
    part: PartId,
}

fn from_json<T: serde::de::DeserializeOwned>(value: serde_json::Value) -> T {
    serde_json::from_value(value).expect("a value of the model")
}

impl SizeTestStore {
    fn new(dir: &std::path::Path) -> Self {
        let store =
            Store::open(&Options::new(DataLayout::new(dir), EpochMillis(1))).expect("opens");
        let ctx = Context::new(Actor::new("ada").expect("actor"), EpochMillis(1000));
        let session: Session = from_json(json!({"id": "ses_1", "slug": "s", "projectID": "p1",
            "directory": "/p", "title": "t", "version": "1", "time": {"created": 1, "updated": 1}}));
        let project: Project =
            from_json(json!({"id": "p1", "worktree": "/p", "time": {"created": 1, "updated": 1}}));
        let body = from_json(json!({"role": "user", "time": {"created": 1}, "agent": "build",
            "model": {"providerID": "p", "modelID": "m"}}));
        let (id, part): (SessionId, PartId) =
            ("ses_1".parse().expect("id"), "prt_1".parse().expect("id"));
        let message = Message { id: "msg_1".parse().expect("id"), session: id.clone(), body };
        let case = Self { store, ctx, session: id, part };
        let first = case.text(String::new(), false);
        let start = case.store.write(&case.ctx, move |tx| {
            tx.projects().put(&project)?;
            tx.sessions().create(&session)?;
            tx.messages().put(&message)?;
            tx.messages().put_part(&first)
        });
        start.wait().expect("started");
        case
    }

    fn text(&self, text: String, ended: bool) -> Part {
        let time = if ended { json!({"start": 1, "end": 2}) } else { json!({"start": 1}) };
        let mut body: PartBody = from_json(json!({"type": "text", "text": "", "time": time}));
        if let PartBody::Text(body) = &mut body {
            body.text = text;
        }
        let (id, session) = (self.part.clone(), self.session.clone());
        Part { id, session, message: "msg_1".parse().expect("id"), body }
    }

    fn append(&self, delta: String) -> PendingWrite<()> {
        let (session, part) = (self.session.clone(), self.part.clone());
        self.store.write(&self.ctx, move |tx| {
            tx.messages().append_text(&session, &part, &delta)?;
            Ok::<_, StoreError>(())
        })
    }

    /// Main file and write-ahead log, what the rule counts.
    fn files(&self) -> u64 {
        let len = |path| fs_err::metadata(path).map_or(0, |m: std::fs::Metadata| m.len());
        len(self.store.layout().database()) + len(self.store.layout().wal())
    }

    /// Streams the text with some deltas in flight; returns it and the largest size seen.
    fn stream(&self, flight: usize, deltas: usize) -> (String, u64) {
        let mut waiting = VecDeque::new();
        let (mut text, mut peak) = (String::with_capacity(deltas * DELTA), 0);
        for n in 0..deltas {
            let delta = format!("{n:>w$} ", w = DELTA - 1);
            text.push_str(&delta);
            waiting.push_back(self.append(delta));
            if waiting.len() >= flight {
                waiting.pop_front().expect("one").wait().expect("stored");
            }
            if n % 64 == 0 {
                peak = peak.max(self.files());
            }
        }
        for ticket in waiting {
            ticket.wait().expect("stored");
        }
        (text, peak.max(self.files()))
    }

    fn sizes(&self) -> DatabaseSizes {
        self.store.maintenance().measure_sizes(&self.ctx, 3).expect("sizes")
    }
}

/// Proves R24.
#[test]
fn ten_megabytes_of_deltas_take_little_more_than_the_text() {
    // In memory where there is a place for it: sizes do not depend on the disk, patience does.
    let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("temp dir");
    let case = SizeTestStore::new(dir.path());
    let (text, peak) = case.stream(MAX_IN_FLIGHT, TEXT / DELTA);
    let (events, commits) = (
        case.sizes().kinds,
        case.store.writer_stats().map_or(0, turnstone_store::WriterStats::commits),
    );
    let end = case.text(text.clone(), true);
    case.store.write(&case.ctx, move |tx| tx.messages().put_part(&end)).wait().expect("sealed");
    let limits = MaintenanceLimits { grace_ms: 0, ..MaintenanceLimits::default() };
    let done = case
        .store
        .maintenance()
        .run_with(&case.ctx, MaintenanceBudget::unlimited(), &limits)
        .expect("done");
    let (after, sizes) = (case.files(), case.sizes());

    println!(
        "{commits} commits; peak {:.2}, after {:.3} of the text",
        text_ratio(peak),
        text_ratio(after)
    );
    println!("{events:?}\n{done:?}\n{sizes:#?}");
    assert!(text_ratio(peak) <= 2.5, "{peak} bytes at the peak");
    assert!(text_ratio(after - sizes.search) <= 1.3, "{after} bytes afterwards");
    let part = case.store.read(&case.ctx, |r| r.messages().get_part(&case.session, &case.part));
    assert!(matches!(part.expect("part").body, PartBody::Text(body) if body.text == text));
    let parts = [sizes.log, sizes.text, sizes.blobs, sizes.projections, sizes.search, sizes.other];
    let inside: u64 = parts.iter().sum::<u64>() + sizes.free;
    // Pages that belong to no table: one in 800 or so maps the others.
    assert!(inside <= sizes.database && sizes.database - inside < 64 * 4096, "{sizes:?}");
}

fn text_ratio(bytes: u64) -> f64 {
    bytes as f64 / TEXT as f64
}
