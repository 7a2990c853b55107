//! Queries: words, filters, pages, and what people should not be able to do with them.

use serde_json::json;
use turnstone_core::time::EpochMillis;
use turnstone_store::{SearchFilter, SearchKind, SearchQuery, StoreError};

use crate::case::{SearchTestStore, actor, sid, tool};

#[test]
fn every_search_kind_is_found() {
    let case = SearchTestStore::new();
    case.session("ses_a", &json!({"title": "quokka title"}));
    case.add_text(1, "quokka text");
    let thought =
        json!({"type": "reasoning", "text": "quokka thought", "time": {"start": 1, "end": 2}});
    case.part("ses_a", "msg_1", "prt_2", thought);
    case.part("ses_a", "msg_1", "prt_3", tool("completed", &json!({"a": [{"b": "quokka"}]}), "x"));
    case.part("ses_a", "msg_1", "prt_4", tool("error", &json!({}), "no quokka"));
    let patch = json!({"type": "patch", "hash": "h", "files": ["/w/src/quokka.rs"]});
    case.part("ses_a", "msg_1", "prt_5", patch);
    let file =
        json!({"type": "file", "mime": "text/plain", "url": "data:,", "filename": "quokka.txt"});
    case.part("ses_a", "msg_1", "prt_6", file);
    case.part("ses_a", "msg_1", "prt_7", json!({"type": "agent", "name": "quokka"}));

    let all = case.found_texts("quokka");
    assert_eq!(all, ["prt_1", "prt_2", "prt_3", "prt_4", "prt_5", "prt_6", "ses_a"]);
    let only = |kinds: &[SearchKind]| {
        case.found_in("quokka", SearchFilter { kinds: kinds.to_vec(), ..SearchFilter::default() })
    };
    assert_eq!(only(&[SearchKind::Title]), ["ses_a"]);
    assert_eq!(only(&[SearchKind::Text]), ["prt_1"]);
    assert_eq!(only(&[SearchKind::Reasoning]), ["prt_2"]);
    assert_eq!(only(&[SearchKind::Tool]), ["prt_3", "prt_4"]);
    assert_eq!(only(&[SearchKind::Path, SearchKind::Text]), ["prt_1", "prt_5", "prt_6"]);
}

#[test]
fn all_words_phrases_and_prefixes_must_match() {
    let case = SearchTestStore::new();
    case.add_text(1, "the quick brown fox");
    case.add_text(2, "the brown quick fox");
    assert_eq!(case.found_texts("quick fox"), ["prt_1", "prt_2"]);
    assert_eq!(case.found_texts("quick dog"), Vec::<String>::new());
    assert_eq!(case.found_texts("\"quick brown\""), ["prt_1"]);
    assert_eq!(case.found_texts("\"brown qui\"*"), ["prt_2"]);
    assert_eq!(case.found_texts("bro*"), ["prt_1", "prt_2"]);
    assert_eq!(case.found_texts("bro"), Vec::<String>::new());
}

#[test]
fn search_ignores_case_and_diacritics() {
    let case = SearchTestStore::new();
    case.add_text(1, "Frau Müller aß ein Crème brûlée");
    case.add_text(2, "mu\u{308}ller, decomposed");
    case.add_text(3, "ЖУРНАЛ 漢字テスト");
    assert_eq!(case.found_texts("muller"), ["prt_1", "prt_2"]);
    assert_eq!(case.found_texts("MÜLLER"), ["prt_1", "prt_2"]);
    assert_eq!(case.found_texts("creme BRULEE"), ["prt_1"]);
    assert_eq!(case.found_texts("журнал"), ["prt_3"]);
    assert_eq!(case.found_texts("漢字*"), ["prt_3"]);
    let hit = &case.hits("muller frau")[0];
    let marked: Vec<&str> =
        hit.snippet.matches.iter().map(|r| &hit.snippet.text[r.clone()]).collect();
    assert_eq!(marked, ["Frau", "Müller"]);
}

#[test]
fn code_is_found_by_identifier_and_subword() {
    let case = SearchTestStore::new();
    case.add_text(1, "let foo_bar = fooBar(); // path/to/file.rs");
    case.add_text(2, "bar foo HTTPServerError");
    assert_eq!(case.found_texts("foo_bar"), ["prt_1"]);
    assert_eq!(case.found_texts("fooBar"), ["prt_1"]);
    assert_eq!(case.found_texts("path/to/file.rs"), ["prt_1"]);
    assert_eq!(case.found_texts("to/file"), ["prt_1"]);
    assert_eq!(case.found_texts("file.rs"), ["prt_1"]);
    assert_eq!(case.found_texts("httpservererror"), ["prt_2"]);
    assert_eq!(case.found_texts("server"), ["prt_2"]);
    assert_eq!(case.found_texts("http_server"), ["prt_2"]);
    let hit = &case.hits("server")[0];
    assert_eq!(&hit.snippet.text[hit.snippet.matches[0].clone()], "Server");
}

#[test]
fn both_ends_of_long_output_are_indexed() {
    let case = SearchTestStore::new();
    case.message(&case.ctx, "ses_a", "msg_1", 1);
    let filler = "filler ".repeat(40_000);
    let output = format!("headword {filler} middleword {filler} tailword");
    case.part("ses_a", "msg_1", "prt_1", tool("completed", &json!({"command": "ls"}), &output));
    assert_eq!(case.found_texts("headword"), ["prt_1"]);
    assert_eq!(case.found_texts("tailword"), ["prt_1"]);
    assert_eq!(case.found_texts("middleword"), Vec::<String>::new());
    let hit = &case.hits("tailword")[0];
    assert_eq!(&hit.snippet.text[hit.snippet.matches[0].clone()], "tailword");
    assert!(hit.snippet.text.len() < 300);
}

/// Proves R44.
#[test]
fn hostile_queries_are_refused_or_find_nothing() {
    let case = SearchTestStore::new();
    case.add_text(1, "OR AND NOT NEAR 1 col body scope s2 k2");
    let words = [
        "\" OR 1",
        "NEAR(",
        "NEAR(or and, 2)",
        "col:",
        "body:or",
        "scope:s2",
        "*",
        "or*",
        "^or",
        "- or",
        "or OR",
        "NOT",
        "{body} : or",
        "\"\"\"",
        "🙂",
        "a\0b",
        "\0",
        "'; DROP TABLE event",
        "(((((",
        "\\",
        "%",
        "_",
        "\u{202e}or",
        "ß*",
        "\"or\" \"",
        "or + and",
        "or,and",
        "\u{301}",
    ];
    for word in words {
        let answer = case.store.session_search().query(&case.ctx, &SearchQuery::new(word));
        assert!(matches!(answer, Ok(_) | Err(StoreError::Invalid(_))), "{word:?}: {answer:?}");
    }
    for long in ["x".repeat(1 << 20), "x ".repeat(1 << 19), "\"".repeat(1 << 20), "é*".repeat(2000)]
    {
        let answer = case.store.session_search().query(&case.ctx, &SearchQuery::new(long));
        assert!(matches!(answer, Err(StoreError::Invalid(_))));
    }
    let many = (0..64).map(|n| format!("w{n}* ")).collect::<String>();
    assert_eq!(case.found_texts(&many), Vec::<String>::new());
    assert_eq!(case.found_texts("k4"), Vec::<String>::new(), "the scope column is not searched");
    assert_eq!(case.found_texts("\" OR 1"), Vec::<String>::new());
    assert_eq!(case.found_texts("or not"), ["prt_1"]);
}

#[test]
fn search_filters_narrow_results() {
    let case = SearchTestStore::new();
    case.project("p2");
    case.session(
        "ses_b",
        &json!({"projectID": "p2", "title": "lynx", "time": {"created": 1, "updated": 50}}),
    );
    case.session("ses_c", &json!({"parentID": "ses_a"}));
    case.session("ses_d", &json!({"time": {"created": 1, "updated": 1, "archived": 2}}));
    let bob = actor("bob");
    for (n, (ctx, session)) in
        [(&case.ctx, "ses_a"), (&case.ctx, "ses_b"), (&bob, "ses_c"), (&case.ctx, "ses_d")]
            .into_iter()
            .enumerate()
    {
        let message = format!("msg_{n}");
        case.message(ctx, session, &message, 100 * n as i64);
        case.part(session, &message, &format!("prt_{n}"), json!({"type": "text", "text": "lynx"}));
    }
    let all = SearchFilter::default;
    assert_eq!(case.found_texts("lynx"), ["prt_0", "prt_1", "prt_2", "ses_b"]);
    let archived = SearchFilter { archived: true, ..all() };
    assert_eq!(case.found_in("lynx", archived), ["prt_0", "prt_1", "prt_2", "prt_3", "ses_b"]);
    let project = |id: &str| SearchFilter { project: Some(id.parse().expect("id")), ..all() };
    assert_eq!(case.found_in("lynx", project("p2")), ["prt_1", "ses_b"]);
    assert_eq!(case.found_in("lynx", project("p3")), Vec::<String>::new());
    let session = SearchFilter { session: Some(sid("ses_b")), ..all() };
    assert_eq!(case.found_in("lynx", session), ["prt_1", "ses_b"]);
    let nowhere = SearchFilter { session: Some(sid("ses_zz")), ..all() };
    let query = SearchQuery { filter: nowhere, ..SearchQuery::new("lynx") };
    assert!(matches!(
        case.store.session_search().query(&case.ctx, &query),
        Err(StoreError::NoSession(_))
    ));
    assert_eq!(
        case.found_in("lynx", SearchFilter { roots: true, ..all() }),
        ["prt_0", "prt_1", "ses_b"]
    );
    let by = |name: &str| SearchFilter { actor: Some(name.to_owned()), ..all() };
    assert_eq!(case.found_in("lynx", by("bob")), ["prt_2"]);
    assert_eq!(case.found_in("lynx", by("nobody")), Vec::<String>::new());
    let after = SearchFilter { after: Some(EpochMillis(100)), ..all() };
    assert_eq!(case.found_in("lynx", after), ["prt_1", "prt_2"]);
    let between =
        SearchFilter { after: Some(EpochMillis(1)), before: Some(EpochMillis(200)), ..all() };
    assert_eq!(case.found_in("lynx", between), ["prt_1", "ses_b"]);
}

#[test]
fn search_pages_continue_and_reject_foreign_cursors() {
    let case = SearchTestStore::new();
    for n in 1..=25 {
        case.add_text(n, "same words");
    }
    let mut query = SearchQuery { limit: 10, ..SearchQuery::new("same") };
    let mut seen = Vec::new();
    let mut pages = 0;
    loop {
        let page = case.search(&query);
        seen.extend(page.hits.iter().map(|hit| hit.time.0));
        pages += 1;
        query.cursor = page.next;
        if query.cursor.is_none() {
            break;
        }
    }
    assert_eq!((pages, seen), (3, (1..=25).rev().collect()), "equal ranks: newest first");

    let good =
        case.search(&SearchQuery { limit: 10, ..SearchQuery::new("same") }).next.expect("more");
    let other = SearchQuery { cursor: Some(good.clone()), ..SearchQuery::new("words") };
    assert!(matches!(
        case.store.session_search().query(&case.ctx, &other),
        Err(StoreError::Invalid(_))
    ));
    let mut changed = good.clone();
    changed.replace_range(47..48, if good.ends_with('0') { "1" } else { "f" });
    for bad in [
        "",
        "x",
        "0",
        &"0".repeat(64),
        &"é".repeat(40),
        &good[..63],
        &format!("{good}0"),
        &changed,
        "\0",
    ] {
        let query = SearchQuery { cursor: Some(bad.to_owned()), ..SearchQuery::new("same") };
        assert!(
            matches!(
                case.store.session_search().query(&case.ctx, &query),
                Err(StoreError::Invalid(_))
            ),
            "{bad}"
        );
    }
}

#[test]
fn better_matches_come_first() {
    let case = SearchTestStore::new();
    case.add_text(1, "ibex ibex ibex");
    case.add_text(2, &format!("ibex {}", "other words ".repeat(50)));
    case.add_text(3, "nothing");
    let hits = case.hits("ibex");
    assert_eq!(hits[0].part.as_ref().map(ToString::to_string).as_deref(), Some("prt_1"));
    assert!(hits[0].rank > hits[1].rank);
    assert_eq!((hits[0].title.as_str(), hits[0].kind), ("First", SearchKind::Text));
}
