//! Search through the public interface: what is found, when, and what never is.

#[path = "search/case.rs"]
mod case;
#[path = "search/query.rs"]
mod query;

use serde_json::json;
use turnstone_store::SearchQuery;

use crate::case::{SearchTestStore, names, open, put_part, sid, tool};

#[test]
fn query_sees_writes_made_just_before() {
    let case = SearchTestStore::new();
    assert_eq!(case.found_texts("zebra"), Vec::<String>::new());
    case.add_text(1, "a zebra crossed");
    assert_eq!(case.found_texts("zebra"), ["prt_1"]);
    case.add_text(2, "another Zebra");
    assert_eq!(case.found_texts("zebra"), ["prt_1", "prt_2"]);
}

#[test]
fn query_sees_writes_of_another_instance() {
    let case = SearchTestStore::new();
    case.add_text(1, "a zebra");
    let other = open(case.dir.path());
    assert_eq!(case.found_texts("zebra"), ["prt_1"]);
    let text = json!({"type": "text", "text": "zebra again"});
    put_part(&other, &case.ctx, "ses_a", "msg_1", "prt_other", text);
    assert_eq!(case.found_texts("zebra"), ["prt_1", "prt_other"]);
    let page =
        other.session_search().query(&case.ctx, &SearchQuery::new("zebra")).expect("searches");
    assert_eq!(names(&page.hits), ["prt_1", "prt_other"]);
}

#[test]
fn index_follows_changes_removals_and_renames() {
    let case = SearchTestStore::new();
    case.add_text(1, "old words");
    case.part("ses_a", "msg_1", "prt_x", json!({"type": "text", "text": "old too"}));
    assert_eq!(case.found_texts("old"), ["prt_1", "prt_x"]);
    case.part("ses_a", "msg_1", "prt_1", json!({"type": "text", "text": "new words"}));
    assert_eq!(case.found_texts("old"), ["prt_x"]);
    assert_eq!(case.found_texts("new words"), ["prt_1"]);

    let remove = |id: &'static str| {
        let run = move |tx: &turnstone_store::Tx<'_>| {
            tx.messages().remove_part(&sid("ses_a"), &id.parse().expect("id"))
        };
        case.store.write(&case.ctx, run).wait().expect("removed");
    };
    remove("prt_x");
    assert_eq!(case.found_texts("old"), Vec::<String>::new());

    assert_eq!(case.found_texts("first"), ["ses_a"]);
    case.session("ses_a", &json!({"title": "Renamed"}));
    assert_eq!(case.found_texts("first"), Vec::<String>::new());
    assert_eq!(case.found_texts("renamed"), ["ses_a"]);

    let run = |tx: &turnstone_store::Tx<'_>| {
        tx.messages().remove(&sid("ses_a"), &"msg_1".parse().expect("id"))
    };
    case.store.write(&case.ctx, run).wait().expect("removed");
    assert_eq!(case.found_texts("words"), Vec::<String>::new());
    assert_eq!(case.store.session_search().size(&case.ctx).expect("size").documents, 1);
}

#[test]
fn a_message_with_many_parts_is_removed_in_small_transactions() {
    let case = SearchTestStore::new();
    case.add_text(1, "gone");
    for n in 2..400 {
        case.part("ses_a", "msg_1", &format!("prt_{n}"), json!({"type": "text", "text": "gone"}));
    }
    assert_eq!(
        case.search(&SearchQuery { limit: 200, ..SearchQuery::new("gone") }).hits.len(),
        200
    );
    let run = |tx: &turnstone_store::Tx<'_>| {
        tx.messages().remove(&sid("ses_a"), &"msg_1".parse().expect("id"))
    };
    case.store.write(&case.ctx, run).wait().expect("removed");
    assert_eq!(case.found_texts("gone"), Vec::<String>::new());
    assert_eq!(case.store.session_search().size(&case.ctx).expect("size").documents, 1);
    assert!(case.store.writer_stats().expect("stats").most_rows() <= 500);
}

#[test]
fn open_parts_are_found_once_finished() {
    let case = SearchTestStore::new();
    case.message(&case.ctx, "ses_a", "msg_1", 1);
    let open = json!({"type": "text", "text": "walrus", "time": {"start": 1}});
    case.part("ses_a", "msg_1", "prt_1", open);
    case.part("ses_a", "msg_1", "prt_2", tool("running", &json!({"command": "walrus"}), ""));
    assert_eq!(case.found_texts("walrus"), Vec::<String>::new());

    let run = |tx: &turnstone_store::Tx<'_>| {
        tx.messages().append_text(&sid("ses_a"), &"prt_1".parse().expect("id"), " streamed")
    };
    case.store.write(&case.ctx, run).wait().expect("appended");
    assert_eq!(case.found_texts("walrus"), Vec::<String>::new());

    let sealed = json!({"type": "text", "text": "walrus streamed", "time": {"start": 1, "end": 2}});
    case.part("ses_a", "msg_1", "prt_1", sealed);
    case.part("ses_a", "msg_1", "prt_2", tool("completed", &json!({"command": "walrus"}), "done"));
    assert_eq!(case.found_texts("walrus"), ["prt_1", "prt_2"]);
    assert_eq!(case.found_texts("streamed"), ["prt_1"]);
}

#[test]
fn indexing_transactions_stay_small() {
    let case = SearchTestStore::new();
    case.message(&case.ctx, "ses_a", "msg_1", 1);
    // Distinct short words and identifiers cost the index the most.
    let word = |n: u32| {
        let letters = b"abcdefghijklmnopqrstuvwxyz0123456789";
        let letter = |n: u32| char::from(letters[(n % 36) as usize]);
        [letter(n / 46656), letter(n / 1296), letter(n / 36), letter(n)]
            .into_iter()
            .collect::<String>()
    };
    for n in 0..6 {
        let words = (0..80_000).map(|w| word(w * 7 + n) + " ").collect::<String>();
        case.part("ses_a", "msg_1", &format!("prt_a{n}"), json!({"type": "text", "text": words}));
        let humps = (0..60_000).map(|w| word(w + n) + "Xy ").collect::<String>();
        let part = tool("completed", &json!({"content": humps}), &words);
        case.part("ses_a", "msg_1", &format!("prt_b{n}"), part);
    }
    for n in 0..300 {
        let text = format!("small {} {}", word(n), "and some more words ".repeat(20));
        case.part("ses_a", "msg_1", &format!("prt_c{n}"), json!({"type": "text", "text": text}));
    }
    assert_eq!(case.found_texts("first"), ["ses_a"]);
    let stats = case.store.writer_stats().expect("stats");
    println!("most rows {}, most bytes {}", stats.most_rows(), stats.most_bytes());
    assert!(stats.most_rows() <= 500, "{}", stats.most_rows());
    assert!(stats.most_bytes() <= 4 << 20, "{}", stats.most_bytes());
    assert_eq!(case.store.session_search().size(&case.ctx).expect("size").documents, 313);
}

#[test]
fn indexing_resumes_after_crash() {
    let mut case = SearchTestStore::new();
    for n in 1..=200 {
        case.add_text(n, "some text that fills a batch now and then, and the word gnu");
    }
    let some = case.store.session_search().index_batches(&case.ctx, 1).expect("indexes");
    assert!(some.behind > 0);
    drop(case.store);
    case.store = open(case.dir.path());
    let more = case.store.session_search().index_batches(&case.ctx, 1).expect("indexes");
    assert!(more.behind < some.behind);
    let page = case.search(&SearchQuery { limit: 200, ..SearchQuery::new("gnu") });
    assert_eq!(page.hits.len(), 200);
    assert_eq!(case.store.session_search().index_batches(&case.ctx, 1).expect("indexes").behind, 0);
}

#[test]
fn streaming_alone_writes_nothing_to_the_index() {
    let case = SearchTestStore::new();
    case.message(&case.ctx, "ses_a", "msg_1", 1);
    case.part("ses_a", "msg_1", "prt_1", json!({"type": "text", "text": "", "time": {"start": 1}}));
    assert_eq!(case.found_texts("first"), ["ses_a"]);
    let run = |tx: &turnstone_store::Tx<'_>| {
        tx.messages().append_text(&sid("ses_a"), &"prt_1".parse().expect("id"), "delta ")
    };
    case.store.write(&case.ctx, run).wait().expect("appended");
    let before = case.store.writer_stats().expect("stats").commits();
    assert_eq!(case.found_texts("first"), ["ses_a"]);
    assert_eq!(case.store.writer_stats().expect("stats").commits(), before);
}

#[test]
fn reindex_finds_the_same_hits() {
    let case = SearchTestStore::new();
    for n in 1..=150 {
        case.add_text(n, &format!("emu number{n} in a flock of emus"));
    }
    let before = case.search(&SearchQuery { limit: 200, ..SearchQuery::new("emu") });
    assert_eq!(case.store.session_search().rebuild(&case.ctx).expect("rebuilt").behind, 0);
    let after = case.search(&SearchQuery { limit: 200, ..SearchQuery::new("emu") });
    assert_eq!(names(&after.hits), names(&before.hits));
    assert_eq!(case.found_texts("number77"), ["prt_77"]);
    assert!(case.store.writer_stats().expect("stats").most_rows() <= 500);
}

#[test]
fn two_instances_write_and_search_concurrently() {
    let case = SearchTestStore::new();
    case.message(&case.ctx, "ses_a", "msg_1", 1);
    let other = open(case.dir.path());
    std::thread::scope(|scope| {
        for (store, name) in [(&case.store, "x"), (&other, "y")] {
            let ctx = &case.ctx;
            scope.spawn(move || {
                for n in 0..60 {
                    let text = json!({"type": "text", "text": format!("yak {name}{n}")});
                    put_part(store, ctx, "ses_a", "msg_1", &format!("prt_{name}{n}"), text);
                    let query = SearchQuery::new(format!("{name}{n}"));
                    let page = store.session_search().query(ctx, &query).expect("searches");
                    assert_eq!((page.hits.len(), page.behind), (1, 0), "{name}{n}");
                }
            });
            scope.spawn(move || {
                for _ in 0..60 {
                    store.session_search().query(ctx, &SearchQuery::new("yak")).expect("searches");
                }
            });
        }
        scope.spawn(|| other.session_search().rebuild(&case.ctx).expect("rebuilt"));
    });
    let query = SearchQuery { limit: 200, ..SearchQuery::new("yak") };
    assert_eq!(case.search(&query).hits.len(), 120);
    assert!(case.store.writer_stats().expect("stats").most_rows() <= 500);
    assert!(other.writer_stats().expect("stats").most_rows() <= 500);
}
