//! A thousand streams are cheap, and what is written is there at once.

use std::sync::mpsc;
use std::time::Instant;

use serde_json::json;

use crate::scripted_session::{ReceivedFrame, at, frame, frames, session, write};
use crate::support::{ServerFixture, SseStream};

/// Both ends of every stream are in this process.
fn stream_count() -> usize {
    let limits = fs_err::read_to_string("/proc/self/limits").expect("read");
    let line = limits.lines().find(|line| line.starts_with("Max open files")).expect("a line");
    let soft: usize =
        line.split_whitespace().nth(3).and_then(|text| text.parse().ok()).expect("a number");
    1_000.min((soft - 200) / 2)
}

fn thread_count() -> usize {
    fs_err::read_dir("/proc/self/task").expect("read").count()
}

fn retitle(house: &ServerFixture, id: &turnstone_core::id::SessionId, title: String) {
    let name = id.clone();
    write(house.engine(), &at(1), move |tx| {
        let title = title.clone();
        tx.sessions()
            .update(&name, |session| {
                session.title = title;
                Ok(())
            })
            .map(drop)
    });
}

#[test]
fn thousand_streams_share_one_reader() {
    let house = ServerFixture::new();
    let id = session(&house, "crowd");
    let mut streams: Vec<SseStream> = Vec::new();
    let open = |streams: &mut Vec<SseStream>| {
        let mut stream = house.client().stream("/event");
        assert!(frame(&mut stream).is_some_and(|it| it.is_own()));
        streams.push(stream);
    };
    (0..10).for_each(|_| open(&mut streams));
    let before = thread_count();
    while streams.len() < stream_count() {
        open(&mut streams);
    }
    assert!(thread_count() <= before + 64, "{} threads, {before} before", thread_count());
    for nth in 0..20 {
        retitle(&house, &id, format!("title {nth}"));
    }
    let first: Vec<ReceivedFrame> = frames(&mut streams[0], 20);
    for stream in &mut streams[1..] {
        assert_eq!(frames(stream, 20), first);
    }
}

#[test]
fn stream_quota_is_enforced_and_freed_on_close() {
    let house = ServerFixture::with_settings(|settings| settings.limits.streams = 2);
    let one = house.client().stream("/event");
    let mut two = house.client().stream("/global/event");
    assert_eq!((one.status, two.status), (200, 200));
    let refused = house.client().get("/event").expect(503);
    assert_eq!(refused["_tag"], "ServiceUnavailableError");
    drop(one);
    // The server notices that a reader is gone when it writes to it.
    let id = session(&house, "leaves");
    for nth in 0.. {
        retitle(&house, &id, format!("title {nth}"));
        drop(frames(&mut two, 1));
        if house.client().stream("/event").status == 200 {
            break;
        }
        assert!(nth < 2_000, "the seat is never free again");
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "how long it takes is what is printed here")]
fn each_write_arrives_once_and_latency_is_printed() {
    let house = ServerFixture::new();
    let id = session(&house, "soon");
    let mut stream = house.client().stream("/event");
    assert!(frame(&mut stream).is_some_and(|it| it.is_own()));
    let (publish, reported) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        for _ in 0..500 {
            let found = frames(&mut stream, 1).remove(0);
            publish.send((found, Instant::now())).expect("told");
        }
    });
    let (mut whole, mut over) = (Vec::new(), Vec::new());
    for nth in 0..500 {
        let begun = Instant::now();
        retitle(&house, &id, format!("title {nth}"));
        let durable = Instant::now();
        let (found, arrived) = reported.recv().expect("told");
        assert_eq!(found.json()["properties"]["info"]["title"], json!(format!("title {nth}")));
        whole.push(arrived - begun);
        over.push(arrived.saturating_duration_since(durable));
    }
    reader.join().expect("read");
    for (name, mut times) in [("write to arrival", whole), ("after the commit", over)] {
        times.sort();
        let at = |percent: usize| times[(times.len() - 1) * percent / 100];
        println!("{name}: p50 {:?}, p99 {:?}", at(50), at(99));
    }
}
