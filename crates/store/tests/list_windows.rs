//! Pages of lists load the rows of the page and no others.
//!
//! Proof: the events of all other rows are deleted, so that loading one of them is an error.

mod support;

use std::path::Path;

use serde_json::json;
use support::{ctx, project, raw, session, sid, text, user, with_sessions, write};
use turnstone_store::{
    CreationFilter, ListWindow, MessageWithParts, ScanDirection, SessionRow, Store, StoreError,
};

const SESSIONS: usize = 3_000;
const MESSAGES: usize = 2_000;
const LIMIT: usize = 50;

fn window(anchor: Option<&str>, direction: ScanDirection) -> ListWindow<'_> {
    ListWindow { anchor, direction, limit: LIMIT }
}

/// Sessions in groups of three that were created at the same moment.
fn with_many_sessions(dir: &Path) -> Store {
    let store = with_sessions(dir, &[]);
    for start in (0..SESSIONS).step_by(100) {
        write(&store, move |tx| {
            tx.projects().put(&project("p1"))?;
            (start..start + 100).try_for_each(|n| {
                let mut one = session(&format!("ses_{n:05}"));
                one.time.created = (n / 3).into();
                tx.sessions().create(&one).map(drop)
            })
        })
        .expect("created");
    }
    store
}

fn session_ids(rows: &[(SessionRow, bool)]) -> Vec<String> {
    rows.iter().map(|(row, _)| row.session.id.to_string()).collect()
}

fn message_ids(rows: &[MessageWithParts]) -> Vec<String> {
    rows.iter().map(|row| row.message.id.to_string()).collect()
}

/// Reads a list window by window to its end.
fn walk(read: impl Fn(Option<&str>) -> Vec<String>) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    loop {
        let page = read(all.last().map(String::as_str));
        if page.is_empty() {
            return all;
        }
        assert!(page.len() <= LIMIT);
        all.extend(page);
    }
}

#[test]
fn session_windows_cover_the_list_in_both_directions() {
    let dir = tempfile::tempdir().expect("temp dir");
    let store = with_many_sessions(dir.path());
    let read = |direction| {
        walk(|anchor| {
            let page = |r: &turnstone_store::ReadTx<'_>| {
                r.pages()
                    .sessions_by_creation(&CreationFilter::default(), window(anchor, direction))
            };
            session_ids(&store.read(&ctx(), page).expect("a page"))
        })
    };
    let mut expected: Vec<usize> = (0..SESSIONS).collect();
    expected.sort_by_key(|n| (std::cmp::Reverse(n / 3), *n));
    let mut expected: Vec<String> = expected.iter().map(|n| format!("ses_{n:05}")).collect();
    assert_eq!(read(ScanDirection::Older), expected);
    expected.reverse();
    assert_eq!(read(ScanDirection::Newer), expected);
}

#[test]
fn session_window_loads_only_its_rows() {
    let dir = tempfile::tempdir().expect("temp dir");
    let store = with_many_sessions(dir.path());
    let filter = CreationFilter::default();
    let page = |anchor| {
        let window = window(anchor, ScanDirection::Older);
        store.read(&ctx(), |r| r.pages().sessions_by_creation(&filter, window))
    };
    let first = session_ids(&page(None).expect("a page"));
    assert_eq!(first.len(), LIMIT);
    let sql = "DELETE FROM event WHERE cursor IN (SELECT image FROM session WHERE id NOT IN
               (SELECT value FROM json_each(?1)))";
    let gone = raw(dir.path()).execute(sql, [json!(first).to_string()]).expect("deleted");
    assert_eq!(gone, SESSIONS - LIMIT);
    assert_eq!(session_ids(&page(None).expect("the page needs no other row")), first);
    let next = page(first.last().map(String::as_str));
    assert!(matches!(next, Err(StoreError::Corrupt { .. })), "{next:?}");
}

#[test]
fn session_window_is_filtered_and_gone_anchors_end_the_list() {
    let dir = tempfile::tempdir().expect("temp dir");
    let store = with_sessions(dir.path(), &["ses_a", "ses_b"]);
    write(&store, |tx| {
        tx.sessions().update(&sid("ses_b"), |one| {
            one.title = "Other".to_owned();
            Ok(())
        })
    })
    .expect("changed");
    let read = |filter: &CreationFilter, anchor| {
        let window = window(anchor, ScanDirection::Older);
        session_ids(
            &store
                .read(&ctx(), |r| r.pages().sessions_by_creation(filter, window))
                .expect("a page"),
        )
    };
    let search = |text: &str| CreationFilter { search: Some(text.to_owned()), ..<_>::default() };
    assert_eq!(read(&search("other"), None), ["ses_b"]);
    let elsewhere = CreationFilter { directory: Some("/nowhere".to_owned()), ..<_>::default() };
    assert!(read(&elsewhere, None).is_empty());
    assert!(read(&CreationFilter::default(), Some("ses_unknown")).is_empty());
}

#[test]
fn message_window_loads_only_its_rows() {
    let dir = tempfile::tempdir().expect("temp dir");
    let store = with_sessions(dir.path(), &["ses_a"]);
    for start in (0..MESSAGES).step_by(50) {
        write(&store, move |tx| {
            (start..start + 50).try_for_each(|n| {
                let id = format!("msg_{n:05}");
                tx.messages().put(&user("ses_a", &id, 1))?;
                tx.messages().put_part(&text("ses_a", &id, &format!("prt_{n:05}"), "x")).map(drop)
            })
        })
        .expect("written");
    }
    let page = |anchor: Option<&str>, direction| {
        store.read(&ctx(), |r| r.pages().messages(&sid("ses_a"), window(anchor, direction)))
    };
    let ids: Vec<String> = (0..MESSAGES).map(|n| format!("msg_{n:05}")).collect();
    let forward =
        |anchor: Option<&str>| message_ids(&page(anchor, ScanDirection::Newer).expect("a page"));
    assert_eq!(walk(forward), ids);
    let newest = page(None, ScanDirection::Older).expect("a page");
    assert!(newest.iter().all(|row| row.parts.len() == 1), "parts come with their messages");
    let newest = message_ids(&newest);
    let expected: Vec<String> = ids.iter().rev().take(LIMIT).cloned().collect();
    assert_eq!(newest, expected);
    let sql = "DELETE FROM event WHERE cursor IN (SELECT image FROM message WHERE id NOT IN
               (SELECT value FROM json_each(?1)))";
    raw(dir.path()).execute(sql, [json!(newest).to_string()]).expect("deleted");
    let again = page(None, ScanDirection::Older).expect("the page needs no other row");
    assert_eq!(message_ids(&again), newest);
    assert!(page(newest.last().map(String::as_str), ScanDirection::Older).is_err());
}
