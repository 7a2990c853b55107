//! A stream that breaks goes on where it was (W21, R25).

use std::time::Duration;

use turnstone_core::time::LogCursor;
use turnstone_store::{DataLayout, Options, Store};

use crate::scripted_session::{
    ReceivedFrame, at, compact_log, end_of_log, frame, frames, play_session, session, write,
};
use crate::support::ServerFixture;

/// All frames of the log after `from`, read in one piece.
fn uninterrupted_frames(house: &ServerFixture, path: &str, from: LogCursor) -> Vec<ReceivedFrame> {
    let mut stream = house.client().with_header("last-event-id", &from.to_string()).stream(path);
    let end = end_of_log(house.engine()).to_string();
    let mut found: Vec<ReceivedFrame> = Vec::new();
    while found.last().is_none_or(|frame| frame.id.as_deref() != Some(&end)) {
        found.push(frames(&mut stream, 1).remove(0));
    }
    found
}

/// Proves W21.
#[test]
fn stream_dropped_at_any_frame_resumes_exactly() {
    let house = ServerFixture::new();
    let from = end_of_log(house.engine());
    let mut live = house.client().with_header("last-event-id", &from.to_string()).stream("/event");
    play_session(&house, "w", 10);
    for path in ["/event", "/global/event", "/api/event"] {
        let whole = uninterrupted_frames(&house, path, from);
        assert!(whole.len() >= 180, "{} frames on {path}", whole.len());
        if path == "/event" {
            assert_eq!(frames(&mut live, whole.len()), whole, "live and from the log are the same");
        }
        // The third has the places of the first; a few of them will do.
        let step = if path == "/api/event" { 9 } else { 1 };
        for (nth, last) in whole.iter().enumerate().step_by(step) {
            let id = last.id.as_deref().expect("every frame of the log has a place");
            let mut stream = house.client().with_header("last-event-id", id).stream(path);
            let rest = frames(&mut stream, whole.len() - nth - 1);
            assert_eq!(rest, whole[nth + 1..], "after frame {nth} ({id}) of {path}");
        }
    }
}

/// Proves W21.
#[test]
fn reconnecting_reader_loses_and_repeats_nothing() {
    let house = ServerFixture::new();
    let from = end_of_log(house.engine());
    let client = house.client().clone();
    let seen = std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let (mut seen, mut place) = (Vec::new(), from.to_string());
            // A different number of frames is read each time, so that the drop falls everywhere.
            for most in (1..=7).cycle() {
                let mut stream =
                    client.with_header("last-event-id", &place).stream("/global/event");
                for _ in 0..most {
                    let frame = frames(&mut stream, 1).remove(0);
                    place = frame.id.clone().expect("a place");
                    let over = frame.text.contains("at its end") && frame.kind() == "sync";
                    seen.push(frame);
                    if over {
                        return seen;
                    }
                }
            }
            seen
        });
        play_session(&house, "d", 8);
        reader.join().expect("read")
    });
    assert_eq!(seen, uninterrupted_frames(&house, "/global/event", from));
}

/// Proves W21.
#[test]
fn stream_position_survives_restart() {
    let house = ServerFixture::new();
    let from = end_of_log(house.engine());
    play_session(&house, "z", 2);
    let whole = uninterrupted_frames(&house, "/global/event", from);
    let house = house.restart();
    for nth in [0, whole.len() / 3, whole.len() - 2] {
        let id = whole[nth].id.as_deref().expect("a place");
        let mut stream = house.client().with_header("last-event-id", id).stream("/global/event");
        assert_eq!(frames(&mut stream, whole.len() - nth - 1), whole[nth + 1..]);
    }
}

#[test]
fn stream_dropped_before_first_event_resumes() {
    let house = ServerFixture::new();
    let mut stream = house.client().stream("/event");
    let hello = frame(&mut stream).expect("a first frame");
    assert_eq!(hello.kind(), "server.connected");
    drop(stream);
    session(&house, "missed");
    let place = hello.id.expect("the first frame has a place");
    let mut stream = house.client().with_header("last-event-id", &place).stream("/event");
    let missed = frames(&mut stream, 1).remove(0);
    assert_eq!(missed.kind(), "session.created");
}

#[test]
fn position_may_be_in_query_and_must_be_valid() {
    let house = ServerFixture::new();
    let from = end_of_log(house.engine());
    session(&house, "asked");
    let mut stream = house.client().stream(&format!("/global/event?after={from}"));
    let found = frames(&mut stream, 3);
    assert!(found.iter().any(|frame| frame.kind() == "session.created"), "{found:?}");
    let answer = house.client().get("/event?after=yesterday");
    assert_eq!(answer.expect(400)["name"], "BadRequest");
}

/// Proves R26.
#[test]
fn stream_sees_writes_of_another_process() {
    let house = ServerFixture::new();
    let id = session(&house, "shared");
    let mut stream = house.client().stream("/event");
    assert_eq!(frame(&mut stream).map(|it| it.kind()).as_deref(), Some("server.connected"));
    // A store of its own on the same files is what another process has.
    let layout = DataLayout::new(house.sibling("data"));
    let other = Store::open(&Options::new(layout, at(0).now)).expect("opens");
    let name = id.clone();
    let change = move |tx: &turnstone_store::Tx<'_>| {
        tx.sessions().update(&name, |session| {
            session.title = "from elsewhere".to_owned();
            Ok(())
        })
    };
    other.write(&at(1), change).wait().expect("written");
    let seen = frames(&mut stream, 1).remove(0).json();
    assert_eq!(seen["properties"]["info"]["title"], "from elsewhere");
}

/// Proves R25.
#[test]
fn compacted_range_sends_one_resync_then_the_rest() {
    let house = ServerFixture::new();
    let from = end_of_log(house.engine());
    let id = play_session(&house, "c", 3);
    let before = uninterrupted_frames(&house, "/event", from);
    compact_log(&house, &at(1_000_000_000));
    let mut stream =
        house.client().with_header("last-event-id", &from.to_string()).stream("/event");
    let mut found = Vec::new();
    let last = before.last().expect("frames");
    while found.last() != Some(last) {
        found.push(frames(&mut stream, 1).remove(0));
    }
    let resyncs: Vec<_> = found.iter().filter(|frame| frame.kind() == "resync").collect();
    assert_eq!(resyncs.len(), 1, "{found:?}");
    assert!(resyncs[0].id.is_some());
    assert!(found.len() < before.len(), "{} of {}", found.len(), before.len());
    // What is left is what was there, unchanged, but for the one word that something is missing.
    for frame in found.iter().filter(|frame| frame.kind() != "resync") {
        assert!(before.contains(frame), "{frame:?}");
    }
    // A client from beyond the range is not notified.
    let name = id.clone();
    let end = end_of_log(house.engine()).to_string();
    write(house.engine(), &at(200), move |tx| {
        tx.sessions()
            .update(&name, |session| {
                session.title = "live".to_owned();
                Ok(())
            })
            .map(drop)
    });
    let mut stream = house.client().with_header("last-event-id", &end).stream("/event");
    assert_eq!(frames(&mut stream, 1)[0].kind(), "session.updated");
}

#[test]
fn unreachable_position_sends_resync_then_live_events() {
    let house = ServerFixture::new();
    session(&house, "a");
    for nowhere in ["999999", "evt_of_another_server"] {
        let mut stream = house.client().with_header("last-event-id", nowhere).stream("/event");
        assert_eq!(frame(&mut stream).map(|it| it.kind()).as_deref(), Some("server.connected"));
        assert_eq!(frame(&mut stream).map(|it| it.kind()).as_deref(), Some("resync"));
        session(&house, "b");
        stream.set_timeout(Duration::from_secs(60));
        assert_eq!(frames(&mut stream, 1)[0].kind(), "session.created");
    }
}
