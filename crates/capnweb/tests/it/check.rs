//! What holds for every input: the checks of the mutants and of the fuzz targets in `fuzz/`.

use std::sync::Arc;
use std::task::{Context, Waker};

use capnweb::run::SessionRunner;
use capnweb::session::{RpcTarget, SessionOptions};
use capnweb::wire::{PeerVersion, WireLimits, WireMessage};

use crate::service;

/// Reads a text; what is a message prints to a text that reads and prints the same.
///
/// Tells whether it was one.
pub(crate) fn message(text: &str) -> bool {
    let limits = WireLimits { message_bytes: 1 << 20, ..WireLimits::default() };
    let Ok(message) = WireMessage::decode(text, &limits) else {
        return false;
    };
    let print = |message: &WireMessage| message.encode(PeerVersion::Current, &limits);
    let printed = print(&message).expect("what was read can be printed");
    // A byte of input makes a few of output at most: `\u0001` for a control character.
    assert!(printed.len() <= 8 * text.len() + 64, "{text} became {printed}");
    let again = WireMessage::decode(&printed, &limits).expect(&printed);
    assert_eq!(print(&again).as_deref(), Ok(printed.as_str()), "{text}");
    true
}

/// Says lines to a server in which the first ids mean something, until it ends the session.
///
/// It holds no more than its limits, and nothing after the end. Returns how many lines it took.
pub(crate) fn session<S: AsRef<str>>(lines: impl IntoIterator<Item = S>) -> usize {
    let mut options = SessionOptions::default();
    options.limits.exports = 200;
    options.limits.imports = 200;
    options.limits.pending_pulls = 100;
    options.limits.streams = 20;
    let main: Arc<dyn RpcTarget> = Arc::new(service::main_object());
    let mut runner = SessionRunner::new(Some(main), options);
    for method in ["echo", "makeCounter", "twice", "never", "ids"] {
        say(&mut runner, &format!("[\"push\",[\"pipeline\",0,[\"{method}\"],[5]]]"));
    }
    for line in ["[\"pipe\"]", "[\"push\",[\"promise\",-99]]", "[\"push\",[[1,{\"a\":2}]]]"] {
        say(&mut runner, line);
    }
    let mut taken = 0;
    for line in lines {
        say(&mut runner, line.as_ref());
        taken += 1;
        let (exports, imports) = runner.session().table_sizes();
        assert!(exports <= 400 && imports <= 400, "{exports} exports, {imports} imports");
        if runner.close_reason().is_some() {
            assert_eq!((exports, imports), (0, 0), "after {}", line.as_ref());
            assert!(!runner.has_running_calls(), "calls go on after {}", line.as_ref());
            break;
        }
    }
    taken
}

fn say(runner: &mut SessionRunner, line: &str) {
    runner.receive(line);
    runner.poll(&Context::from_waker(Waker::noop()));
    while let Some(text) = runner.poll_text() {
        assert!(WireMessage::decode(&text, &WireLimits::default()).is_ok(), "we said {text}");
    }
}
