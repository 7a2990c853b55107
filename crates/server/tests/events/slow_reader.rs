//! A client that does not read costs other clients nothing, is notified, and gets everything when it reads again.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::json;
use turnstone_core::model::Todo;

use crate::scripted_session::{at, frame, frames, session};
use crate::support::ServerFixture;

const EVENTS: usize = 50_000;
/// In one transaction.
const GROUP: usize = 100;

/// The memory this process holds, in kilobytes.
fn resident_kilobytes() -> i64 {
    let status = fs_err::read_to_string("/proc/self/status").expect("read");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("a line");
    line.split_whitespace().nth(1).and_then(|text| text.parse().ok()).expect("a number")
}

fn todo(nth: usize) -> Vec<Todo> {
    let content = format!("{nth} {}", "x".repeat(500));
    let todo = json!([{ "content": content, "status": "pending", "priority": "low" }]);
    serde_json::from_value(todo).expect("todos")
}

#[test]
fn stalled_reader_is_bounded_and_catches_up() {
    // However long the machine takes: this reader is not to be given up for its silence.
    let house = ServerFixture::with_settings(|settings| settings.limits.write_timeout_secs = 3_600);
    let id = session(&house, "slow");
    let mut socket = TcpStream::connect(house.address()).expect("connects");
    socket.set_read_timeout(Some(Duration::from_secs(300))).expect("a timeout");
    let ask = format!("GET /event HTTP/1.1\r\nhost: {}\r\n\r\n", house.address());
    socket.write_all(ask.as_bytes()).expect("asked");
    let mut reader = BufReader::with_capacity(256, socket);
    let mut line = String::new();
    while !line.contains("server.connected") {
        line.clear();
        reader.read_line(&mut line).expect("a line");
    }
    // A second one reads all along, and must not notice the first.
    let quick = house.client().clone();
    let (before, grown) = std::thread::scope(|scope| {
        let mut stream = quick.stream("/event");
        assert!(frame(&mut stream).is_some_and(|it| it.is_own()));
        let before = resident_kilobytes();
        let reads = scope.spawn(move || frames(&mut stream, EVENTS).len());
        let mut last = None;
        for first in (0..EVENTS).step_by(GROUP) {
            let name = id.clone();
            let put = move |tx: &turnstone_store::Tx<'_>| {
                (first..first + GROUP)
                    .try_for_each(|nth| tx.sessions().set_todos(&name, &todo(nth)).map(drop))
            };
            last = Some(house.engine().store().write(&at(1), put));
            if first % (GROUP * 20) == 0 {
                last.take().expect("sent").wait().expect("written");
            }
        }
        if let Some(ticket) = last {
            ticket.wait().expect("written");
        }
        assert_eq!(reads.join().expect("read"), EVENTS);
        (before, resident_kilobytes())
    });
    assert!(grown - before < 96 * 1024, "grew from {before} to {grown} kB");
    let (mut reported, mut next) = (0, 0);
    while next < EVENTS {
        line.clear();
        assert_ne!(reader.read_line(&mut line).expect("a line"), 0, "ended after {next}");
        reported += usize::from(line.contains("server.lagged"));
        if let Some(at) = line.find("\"content\":\"") {
            let number: String = line[at + 11..].chars().take_while(char::is_ascii_digit).collect();
            assert_eq!(number.parse(), Ok(next), "in order, without a gap, without a repeat");
            next += 1;
        }
    }
    assert!(reported >= 1, "it was notified that it fell behind");
}
