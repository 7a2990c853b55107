//! Streamed text and large values: durable, stored once (R24).

mod support;

use fs_err as fs;
use serde_json::json;
use support::*;
use turnstone_core::event::EventKind;
use turnstone_core::model::PartBody;
use turnstone_store::{Store, StoreError, WriteOutcome};

fn streaming(dir: &std::path::Path) -> Store {
    let store = with_sessions(dir, &["ses_a"]);
    write(&store, |tx| {
        tx.messages().put(&assistant("ses_a", "msg_a", 1))?;
        tx.messages().put_part(&open_text(""))
    })
    .expect("begun");
    store
}

fn open_text(text: &str) -> turnstone_core::model::Part {
    part("ses_a", "msg_a", "prt_t", json!({"type": "text", "text": text, "time": {"start": 1}}))
}

fn sealed(text: &str) -> turnstone_core::model::Part {
    part(
        "ses_a",
        "msg_a",
        "prt_t",
        json!({"type": "text", "text": text, "time": {"start": 1, "end": 2}}),
    )
}

fn append_delta(store: &Store, delta: &'static str) {
    write(store, move |tx| tx.messages().append_text(&sid("ses_a"), &pid("prt_t"), delta))
        .expect("appended");
}

fn stored_text(store: &Store) -> String {
    let part =
        store.read(&ctx(), |r| r.messages().get_part(&sid("ses_a"), &pid("prt_t"))).expect("part");
    let PartBody::Text(text) = part.body else { panic!("a text part") };
    text.text
}

/// Proves R24.
#[test]
fn deltas_are_durable_when_acknowledged_and_read_back_in_order() {
    let dir = tempfile::tempdir().expect("temp dir");
    let store = streaming(dir.path());
    for delta in ["Grüße", " an ", "", "alle 🦀"] {
        append_delta(&store, delta);
    }
    drop(store);
    let store = open(dir.path());
    assert_eq!(stored_text(&store), "Grüße an alle 🦀");
    let deltas: Vec<_> = log(&store).into_iter().filter_map(|e| e.delta).collect();
    assert_eq!(
        deltas.iter().map(|d| d.text.as_str()).collect::<Vec<_>>(),
        ["Grüße", " an ", "alle 🦀"]
    );
    assert_eq!(deltas[1].from, "Grüße".len() as i64);
}

#[test]
fn deltas_in_one_group_merge_into_one_event() {
    let dir = tempfile::tempdir().expect("temp dir");
    let store = streaming(dir.path());
    let events = log(&store).len();
    write(&store, |tx| {
        for _ in 0..50 {
            tx.messages().append_text(&sid("ses_a"), &pid("prt_t"), "word ")?;
        }
        Ok(())
    })
    .expect("appended");
    let log = log(&store);
    assert_eq!(log.len(), events + 1);
    assert_eq!(log.last().and_then(|e| e.delta.as_ref()).map(|d| d.text.len()), Some(250));
    assert_eq!(stored_text(&store), "word ".repeat(50));
}

/// Proves R24.
#[test]
fn finishing_a_part_keeps_streamed_text_in_place() {
    let dir = tempfile::tempdir().expect("temp dir");
    let store = streaming(dir.path());
    append_delta(&store, "the whole answer  ");
    // OpenCode trims the end when the text ends.
    assert_eq!(
        write(&store, |tx| tx.messages().put_part(&sealed("the whole answer"))).expect("sealed"),
        WriteOutcome::Updated
    );
    assert_eq!(stored_text(&store), "the whole answer");
    let last = log(&store).pop().and_then(|e| e.payload).expect("payload");
    assert_eq!(last["text"]["len"], 16);
    assert_eq!(last["data"]["text"], "", "the text is not stored again");
    assert_eq!(
        write(&store, |tx| tx.messages().put_part(&sealed("the whole answer"))).expect("again"),
        WriteOutcome::No
    );
    // What was streamed stays as it was, so text that was cut back is not gone on with.
    let on =
        write(&store, |tx| tx.messages().append_text(&sid("ses_a"), &pid("prt_t"), ", and more"));
    assert!(matches!(on, Err(StoreError::Invalid(_))), "{on:?}");
    // It may be replaced altogether.
    write(&store, |tx| tx.messages().put_part(&sealed("something else"))).expect("replaced");
    assert_eq!(stored_text(&store), "something else");
    let lost = write(&store, |tx| tx.messages().append_text(&sid("ses_a"), &pid("prt_t"), "x"));
    assert!(matches!(lost, Err(StoreError::Invalid(_))), "{lost:?}");
    assert!(store.maintenance().verify_projections().expect("verifies").is_empty());
}

#[test]
fn deltas_append_to_initial_text() {
    let dir = tempfile::tempdir().expect("temp dir");
    let store = streaming(dir.path());
    write(&store, |tx| tx.messages().put_part(&open_text("already here"))).expect("put");
    append_delta(&store, " and on");
    assert_eq!(stored_text(&store), "already here and on");
}

#[test]
fn append_rejects_parts_without_text() {
    let dir = tempfile::tempdir().expect("temp dir");
    let store = streaming(dir.path());
    write(&store, |tx| {
        tx.messages().put_part(&part("ses_a", "msg_a", "prt_s", json!({"type": "step-start"})))
    })
    .expect("put");
    let wrong = write(&store, |tx| tx.messages().append_text(&sid("ses_a"), &pid("prt_s"), "x"));
    assert!(matches!(wrong, Err(StoreError::Invalid(_))));
    let missing =
        write(&store, |tx| tx.messages().append_text(&sid("ses_a"), &pid("prt_none"), "x"));
    assert!(matches!(missing, Err(StoreError::NoPart { .. })));
}

#[test]
fn long_text_chunks_never_split_characters() {
    let dir = tempfile::tempdir().expect("temp dir");
    let store = streaming(dir.path());
    let mut all = String::new();
    for n in 0..300 {
        let delta = "é漢🦀".repeat(1 + (n * 37) % 900);
        all.push_str(&delta);
        write(&store, move |tx| tx.messages().append_text(&sid("ses_a"), &pid("prt_t"), &delta))
            .expect("appended");
    }
    assert_eq!(stored_text(&store), all);
    let streamed: String =
        log(&store).into_iter().filter_map(|e| e.delta).map(|d| d.text).collect();
    assert_eq!(streamed, all);
    let longest: i64 = raw(dir.path())
        .query_row("SELECT max(octet_length(text)) FROM chunk", [], |r| r.get(0))
        .expect("rows");
    assert!(longest <= 16 * 1024, "{longest}");
}

fn tool(id: &str, status: &str, output: &str) -> turnstone_core::model::Part {
    let state = match status {
        "running" => {
            json!({"status": "running", "input": {"content": output}, "time": {"start": 1}})
        }
        _ => {
            json!({"status": "completed", "input": {"content": output}, "output": output, "title": "t",
                    "metadata": {"copy": output}, "time": {"start": 1, "end": 2}})
        }
    };
    part(
        "ses_a",
        "msg_a",
        id,
        json!({"type": "tool", "callID": "c", "tool": "write", "state": state}),
    )
}

#[test]
fn equal_large_values_are_stored_once() {
    let dir = tempfile::tempdir().expect("temp dir");
    let store = streaming(dir.path());
    let output = "line\n".repeat(10_000);
    let sent = output.clone();
    write(&store, move |tx| {
        tx.messages().put_part(&tool("prt_1", "running", &sent))?;
        tx.messages().put_part(&tool("prt_1", "completed", &sent))?;
        tx.messages().put_part(&tool("prt_2", "completed", &sent))
    })
    .expect("written");
    let (rows, bytes): (i64, i64) = raw(dir.path())
        .query_row("SELECT count(*), sum(size) FROM blob", [], |r| Ok((r.get(0)?, r.get(1)?)))
        .expect("blobs");
    assert_eq!((rows, bytes), (1, output.len() as i64));
    let part =
        store.read(&ctx(), |r| r.messages().get_part(&sid("ses_a"), &pid("prt_2"))).expect("part");
    assert_eq!(part, tool("prt_2", "completed", &output));
}

#[test]
fn oversized_value_is_a_file_and_damage_is_reported() {
    let dir = tempfile::tempdir().expect("temp dir");
    let store = streaming(dir.path());
    let image = "A".repeat(700_000);
    let sent = image.clone();
    write(&store, move |tx| tx.messages().put_part(&tool("prt_1", "completed", &sent)))
        .expect("written");
    let files: Vec<_> = fs::read_dir(dir.path().join("blob"))
        .expect("blob")
        .flat_map(|folder| fs::read_dir(folder.expect("entry").path()).expect("folder"))
        .map(|file| file.expect("entry").path())
        .collect();
    assert_eq!(files.len(), 1);
    let read = || store.read(&ctx(), |r| r.messages().get_part(&sid("ses_a"), &pid("prt_1")));
    assert_eq!(read().expect("part"), tool("prt_1", "completed", &image));
    fs::write(&files[0], "B".repeat(700_000)).expect("damaged");
    let damaged = read().expect_err("damage is not read as the value");
    assert!(matches!(&damaged, StoreError::Corrupt { file, .. } if *file == files[0]), "{damaged}");
    fs::remove_file(&files[0]).expect("removed");
    assert!(matches!(read(), Err(StoreError::Corrupt { .. })));
    // The rest of the message is not affected.
    append_delta(&store, "still here");
    assert_eq!(stored_text(&store), "still here");
}

#[test]
fn part_event_has_its_text_at_that_time() {
    let dir = tempfile::tempdir().expect("temp dir");
    let store = streaming(dir.path());
    append_delta(&store, "one");
    write(&store, |tx| tx.messages().put_part(&sealed("one"))).expect("sealed");
    let kinds: Vec<_> = log(&store).iter().map(|e| e.kind).collect();
    assert_eq!(
        kinds[kinds.len() - 3..],
        [EventKind::PartUpdated, EventKind::PartDelta, EventKind::PartUpdated]
    );
}
