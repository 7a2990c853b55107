//! The consumer from inside: what a transaction costs, merging, deleted sessions.

use serde_json::{Value, json};
use turnstone_core::call_context::Context;
use turnstone_core::event::EventKind;
use turnstone_core::model::{Message, Part, PartBody, Project, Session};
use turnstone_core::time::EpochMillis;

use super::index_plan::{IndexAction, IndexCost, SearchDocument};
use super::searchable_text::SearchKind;
use super::segment_merge;
use super::{SearchPage, SearchQuery};
use crate::data_layout::DataLayout;
use crate::error::Result;
use crate::payload::PreparedPayload;
use crate::store::{Options, Store};
use crate::table_row_ids::{DocumentNum, MessageNum, SessionNum};
use crate::tx::{EventDraft, Tx};

struct IndexTestStore {
    store: Store,
    ctx: Context,
    dir: tempfile::TempDir,
}

fn from<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("a valid value")
}

impl IndexTestStore {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("temp dir");
        let options = Options::new(DataLayout::new(dir.path()), EpochMillis(1));
        let store = Store::open(&options).expect("opens");
        let case = Self { store, ctx: Context::system(EpochMillis(1)), dir };
        let project: Project =
            from(json!({"id": "p", "worktree": "/w", "time": {"created": 1, "updated": 1}}));
        case.write(move |tx| tx.projects().put(&project));
        case.session("ses_a");
        case
    }

    fn write<T: Send + 'static>(
        &self,
        run: impl FnMut(&Tx<'_>) -> Result<T> + Send + 'static,
    ) -> T {
        self.store.write(&self.ctx, run).wait().expect("writes")
    }

    fn session(&self, id: &str) {
        let session: Session = from(json!({"id": id, "slug": "s", "projectID": "p",
            "directory": "/w", "title": "T", "version": "1", "time": {"created": 1, "updated": 1}}));
        let body = from(json!({"role": "user", "time": {"created": 1}, "agent": "a",
            "model": {"providerID": "p", "modelID": "m"}}));
        let message = id.replace("ses", "msg").parse().expect("id");
        let message = Message { id: message, session: session.id.clone(), body };
        self.write(move |tx| {
            tx.sessions().create(&session)?;
            tx.messages().put(&message)
        });
    }

    fn add_text(&self, session: &str, part: &str, text: &str) {
        let part = Part {
            id: part.parse().expect("id"),
            session: session.parse().expect("id"),
            message: session.replace("ses", "msg").parse().expect("id"),
            body: PartBody::parse_lenient(json!({"type": "text", "text": text})).expect("a part"),
        };
        self.write(move |tx| tx.messages().put_part(&part));
    }

    fn search(&self, text: &str) -> SearchPage {
        let query = SearchQuery { limit: 200, ..SearchQuery::new(text) };
        let page = self.store.session_search().query(&self.ctx, &query).expect("searches");
        assert_eq!(page.behind, 0);
        page
    }

    fn count(&self, sql: &'static str) -> i64 {
        self.write(move |tx| Ok(tx.conn.query_row(sql, [], |row| row.get(0))?))
    }

    /// FTS5's own check of its tables.
    fn check_index(&self) {
        self.write(|tx| {
            tx.conn.execute("INSERT INTO search (search) VALUES ('integrity-check')", [])?;
            Ok(())
        });
    }

    fn most_rows(&self) -> u64 {
        self.store.writer_stats().expect("stats").most_rows()
    }
}

/// A word per number, short and different.
fn word(n: usize, len: u32) -> String {
    let letters = b"abcdefghijklmnopqrstuvwxyz0123456789";
    (0..len).rev().map(|at| char::from(letters[n / 36_usize.pow(at) % 36])).collect()
}

#[test]
fn a_batch_costs_no_more_than_estimated() {
    let texts = [
        (0..12_000).map(|n| word(n * 37, 4) + " ").collect::<String>(),
        (0..16_000).map(|n| word(n * 7, 3) + " ").collect(),
        (0..40_000).map(|n| word(n * 5, 1) + " ").collect(),
        (0..30_000).map(|n| word(n * 7, 2) + " ").collect(),
        (0..10_000).map(|n| word(n * 91, 6) + ".").collect(),
        "é ".repeat(30_000),
        (0..15_000_u32)
            .filter_map(|n| char::from_u32(0x4E00 + n))
            .map(|c| format!("{c} "))
            .collect(),
        (0..6_000).map(|n| word(n, 3) + "Q" + &word(n + 9, 2) + " ").collect(),
    ];
    let mut worst = (0.0, 0.0);
    for (num, body) in texts.into_iter().enumerate() {
        let case = IndexTestStore::new();
        case.search("nothing");
        let camel = super::tokenizer::camel_words(&body, 64 * 1024);
        let bytes = body.len() + camel.len();
        let doc = SearchDocument {
            num: DocumentNum(1000 + num as i64),
            session: SessionNum(2),
            message: Some(MessageNum(3)),
            kind: SearchKind::Text,
            image: 4,
            digest: 5,
            body,
            camel,
            replaces: false,
        };
        let action = IndexAction::Put(Box::new(doc));
        let cost = IndexCost::default().plus(&action);
        let before = case.store.session_search().size(&case.ctx).expect("size").bytes;
        let rows = case.write(move |tx| {
            let before = tx.conn.total_changes();
            super::indexer::apply_action(tx, &action)?;
            super::indexer::flush_fts(tx)?;
            Ok(tx.conn.total_changes() - before)
        });
        let grown = case.store.session_search().size(&case.ctx).expect("size").bytes - before;
        let growth = grown as f64 / bytes as f64;
        println!(
            "{num}: {bytes} bytes, index {grown} ({growth:.2}), {rows} rows of {}",
            cost.rows()
        );
        assert!(rows <= cost.rows(), "{num}: {rows} rows, {} estimated", cost.rows());
        worst = (f64::max(worst.0, growth), f64::max(worst.1, rows as f64 / cost.rows() as f64));
        case.check_index();
    }
    println!("worst growth {:.2}, worst share of the estimate {:.2}", worst.0, worst.1);
    assert!(worst.0 < 3.0, "{worst:?}");
}

#[test]
fn many_small_batches_leave_few_segments() {
    let case = IndexTestStore::new();
    for n in 0..300 {
        case.add_text(
            "ses_a",
            &format!("prt_{n}"),
            &format!("common {} unique{n}", word(n * 31, 4)),
        );
        case.search("common");
    }
    let segments = case.count("SELECT count(DISTINCT segid) FROM search_idx");
    assert!(segments < 40, "{segments}");
    assert_eq!(case.search("common").hits.len(), 200);
    assert_eq!(case.search("unique77").hits.len(), 1);
    case.check_index();
    assert!(case.most_rows() < 100, "{}", case.most_rows());
}

/// Whole texts of many different words, so that segments have hundreds of pages.
#[test]
fn large_merge_runs_in_small_steps_and_stays_searchable() {
    let case = IndexTestStore::new();
    for n in 0..120 {
        let text = (0..6000).map(|w| word(w * 17 + n * 101, 4) + " ").collect::<String>();
        case.add_text("ses_a", &format!("prt_{n}"), &format!("common {text} unique{n}"));
        if n % 10 == 0 {
            case.search("common");
            case.check_index();
        }
    }
    assert_eq!(case.search("common").hits.len(), 120);
    let pages = case.count("SELECT count(*) FROM search_data");
    println!("{pages} pages, most rows {}", case.most_rows());
    assert!(pages > 250, "{pages}: too few to show anything");
    // Whatever merge is under way: to its end, looking in between.
    for _ in 0..100 {
        if case.write(|tx| segment_merge::merge_step(tx, segment_merge::MergeStepSize::Pages))
            != segment_merge::SegmentMergeOutcome::Progressed
        {
            break;
        }
        assert_eq!(case.search("unique77").hits.len(), 1);
    }
    case.check_index();
    let listed = case.count("SELECT count(*) FROM search_idx");
    assert!(listed <= case.count("SELECT count(*) FROM search_data"), "{listed}");
    assert!(case.most_rows() <= 500, "{}", case.most_rows());
}

#[test]
fn deleted_session_is_hidden_at_once_and_unindexed_in_steps() {
    let case = IndexTestStore::new();
    case.session("ses_b");
    case.add_text("ses_a", "prt_keep", "okapi stays");
    for n in 0..500 {
        let text = (0..300).map(|w| word(w * 17 + n * 101, 4) + " ").collect::<String>();
        case.add_text("ses_b", &format!("prt_{n}"), &format!("okapi {text}"));
    }
    assert_eq!(case.search("okapi").hits.len(), 200);
    case.write(|tx| {
        let id = "ses_b".parse().expect("id");
        let num = tx.session_num(&id)?;
        let payload = PreparedPayload::new(&json!({"id": id}))?;
        let draft =
            EventDraft::new(Some(num), EventKind::SessionDeleted, Some(num.0)).payload(payload);
        tx.append(&draft)
    });
    let hidden = case.store.read(&case.ctx, |r| {
        let query = SearchQuery::new("okapi");
        super::run_query::search_page(r, &query, &super::query_parser::parse_query("okapi")?, None)
    });
    assert_eq!(hidden.expect("searches").hits.len(), 1, "hidden before the index knows");
    assert_eq!(case.search("okapi").hits.len(), 1);
    assert_eq!(case.count("SELECT count(*) FROM search_doc"), 2);
    assert_eq!(case.count("SELECT count(*) FROM search_docsize"), 2);
    case.check_index();
    for n in 0..40 {
        case.add_text("ses_a", &format!("prt_more{n}"), "okapi again");
        case.search("okapi");
    }
    case.check_index();
    println!("most rows {}", case.most_rows());
    assert!(case.most_rows() <= 500, "{}", case.most_rows());
    let size = case.store.session_search().size(&case.ctx).expect("size");
    assert!(size.bytes < 100_000, "deleted text left the index: {size:?}");
}

#[test]
fn index_being_cleared_is_not_searched() {
    let case = IndexTestStore::new();
    for n in 0..300 {
        case.add_text("ses_a", &format!("prt_{n}"), "tapir");
    }
    assert_eq!(case.search("tapir").hits.len(), 200);
    case.write(super::indexer::reset_index);
    case.write(super::indexer::clear_index_step);
    let upto = case.store.read(&case.ctx, |r| r.log().last_cursor()).expect("reads");
    assert_eq!(
        case.store.session_search().index_batches(&case.ctx, 0).expect("looks").behind,
        upto.0 as u64
    );
    assert_eq!(case.search("tapir").hits.len(), 200, "the query finishes the work");
    case.check_index();
}

#[test]
fn read_only_store_reports_index_lag() {
    let mut case = IndexTestStore::new();
    case.add_text("ses_a", "prt_1", "dingo indexed");
    assert_eq!(case.search("dingo").hits.len(), 1);
    case.add_text("ses_a", "prt_2", "dingo not yet");
    case.write(|tx| Ok(tx.conn.execute_batch("PRAGMA user_version = 9999")?));
    drop(case.store);
    let options = Options::new(DataLayout::new(case.dir.path()), EpochMillis(1));
    case.store = Store::open(&options).expect("opens");
    assert!(case.store.read_only_reason().is_some());
    let page =
        case.store.session_search().query(&case.ctx, &SearchQuery::new("dingo")).expect("searches");
    assert_eq!((page.hits.len(), page.behind), (1, 1));
    assert!(case.store.session_search().index_batches(&case.ctx, 1).is_err());
    assert!(case.store.session_search().rebuild(&case.ctx).is_err());
}

/// The list of one word is merged in one go; when it does not fit, the segments stay apart.
#[test]
fn term_too_frequent_to_merge_does_not_block_indexing() {
    let case = IndexTestStore::new();
    let often = "yy ".repeat(87_000);
    for n in 0..90 {
        case.add_text("ses_a", &format!("prt_{n}"), &format!("unique{n} {often}"));
        case.search("unique1");
    }
    assert_eq!(case.search("yy").hits.len(), 90);
    assert_eq!(case.search("unique77 yy").hits.len(), 1);
    let segments = case.count("SELECT count(DISTINCT segid) FROM search_idx");
    println!("{segments} segments, most rows tried {}", case.most_rows());
    case.check_index();
}
