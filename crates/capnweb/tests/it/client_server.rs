//! Our client and our server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use capnweb::app::{Method, Property, function};
use capnweb::session::{SessionOptions, stream};
use capnweb::value::Value;

use crate::fixture::SessionPair;
use crate::service::{self, CONSUME, DISPOSED, ECHO, GREET, INCREMENT, MAKE_COUNTER, USER};
use crate::service::{FAIL_WITH_PROPS, IDS, READABLE, VALUE, WITH_CALLBACK, WRITE_TO};

const NAME: Property<String> = Property::new("name");
const NAME_OF: Method<(f64,), String> = Method::new("name");

#[test]
fn typed_calls_are_pipelined() {
    let (mut pair, main) = SessionPair::new(SessionOptions::default());
    let greeting = main.call(GREET, (main.call(USER, ()).get(NAME),));

    assert_eq!(pair.wait(greeting).expect("greeted"), "hi ann");

    let expected = [
        r#"["push",["pipeline",0,["user"],[]]]"#,
        r#"["push",["pipeline",1,["name"]]]"#,
        r#"["push",["pipeline",0,["greet"],[["pipeline",2]]]]"#,
        r#"["pull",3]"#,
    ];
    assert_eq!(pair.log[..4], expected);
}

#[test]
fn object_lives_until_last_stub_is_dropped() {
    let (mut pair, main) = SessionPair::new(SessionOptions::default());
    let counter = pair.wait(main.call(MAKE_COUNTER, (10.0,))).expect("made");
    assert_eq!(pair.wait(counter.call(INCREMENT, (Some(5.0),))).expect("counted"), 15.0);
    assert_eq!(pair.wait(counter.get(VALUE)).expect("read"), 15.0);
    assert_eq!(pair.wait(main.call(DISPOSED, ())).expect("asked"), 0);

    drop(counter);

    assert_eq!(pair.wait(main.call(DISPOSED, ())).expect("asked"), 1);
}

#[test]
fn ten_thousand_calls_leave_no_table_entries() {
    let (mut pair, main) = SessionPair::new(SessionOptions::default());
    for round in 0..10_000_u32 {
        let counter = main.call(MAKE_COUNTER, (f64::from(round),));
        let counted = counter.call(INCREMENT, (None::<f64>,));
        assert_eq!(pair.wait(counted).expect("counted"), f64::from(round) + 1.0);
        drop(counter);
        pair.log.clear();
    }
    pair.exchange();
    assert_eq!(pair.client.runner.session().table_sizes(), (1, 1));
    assert_eq!(pair.server.runner.session().table_sizes(), (1, 0));
    assert_eq!(pair.wait(main.call(DISPOSED, ())).expect("asked"), 10_000);
}

#[test]
fn callbacks_run_on_the_side_that_made_them() {
    let (mut pair, main) = SessionPair::new(SessionOptions::default());
    let count = Arc::new(AtomicU32::new(0));
    let seen = Arc::clone(&count);
    let callback = function(move |(text,): (String,)| {
        seen.fetch_add(1, Ordering::Relaxed);
        async move { Ok(format!("{text}!")) }
    });

    let got = pair.wait(main.call(WITH_CALLBACK, (callback,))).expect("called back");

    assert_eq!(got.field("got").and_then(Value::as_str), Some("tick!"));
    assert_eq!(count.load(Ordering::Relaxed), 1);
}

#[test]
fn errors_arrive_with_their_code() {
    let (mut pair, main) = SessionPair::new(SessionOptions::default());
    let error = pair.wait(main.call(FAIL_WITH_PROPS, ())).expect_err("fails");
    assert_eq!((error.name.as_str(), error.code()), ("RangeError", Some("E_RANGE")));
}

#[test]
fn returned_stub_is_the_original_object() {
    let (mut pair, main) = SessionPair::new(SessionOptions::default());
    let counter = pair.wait(main.call(MAKE_COUNTER, (1.0,))).expect("made");
    let increment = Method::<(capnweb::session::Stub, Option<f64>), f64>::new("incrementCounter");
    let counted = main.call(increment, (counter.clone(), Some(2.0)));
    assert_eq!(pair.wait(counted).expect("counted"), 3.0);
    assert!(pair.log.iter().any(|text| text.contains(r#"[["import",-1],2]"#)), "{:#?}", pair.log);
}

#[test]
fn map_runs_at_its_input() {
    let (mut pair, main) = SessionPair::new(SessionOptions::default());
    let names = pair
        .wait(main.call(IDS, ()).map::<String, _>(|id| main.call(NAME_OF, (id,))))
        .expect("mapped");

    assert_eq!(names, ["n1", "n2", "n3"]);
}

#[test]
fn streams_flow_both_ways() {
    let (mut pair, main) = SessionPair::new(SessionOptions::default());
    let (mut writable, readable) = stream();
    let consumed = main.call(CONSUME, (readable,)).into_future();
    for number in 0..40 {
        pair.wait(writable.write(Value::Number(f64::from(number)))).expect("written");
    }
    pair.wait(writable.close()).expect("closed");
    assert_eq!(pair.wait(consumed).expect("consumed").len(), 40);

    let mut readable = pair.wait(main.call(READABLE, ())).expect("a stream");
    assert_eq!(pair.wait(readable.read()).expect("one").expect("chunk").as_str(), Some("a"));
    assert!(pair.wait(readable.read()).is_some());
    assert!(pair.wait(readable.read()).is_none());

    let (writable, mut readable) = stream();
    let written = main.call(WRITE_TO, (writable,)).into_future();
    assert_eq!(pair.wait(readable.read()).expect("one").expect("chunk").as_str(), Some("q"));
    assert!(pair.wait(readable.read()).is_some());
    assert!(pair.wait(readable.read()).is_none());
    assert_eq!(pair.wait(written).expect("written"), "written");
    drop(readable);
    pair.exchange();
    assert_eq!(pair.client.runner.session().table_sizes(), (1, 1));
}

#[test]
fn slow_reader_applies_backpressure() {
    let mut options = SessionOptions::default();
    options.limits.stream_window = 1_000;
    let (mut pair, main) = SessionPair::new(options);
    let (writable, readable) = stream();
    drop(main.call(
        Method::<(Value, Value), Value>::new("echo"),
        (Value::Undefined, Value::Readable(readable.clone())),
    ));
    // `echo` takes one argument: the stream is never read there.
    for _ in 0..100 {
        writable.write_now(Value::String("x".repeat(100))).ok();
    }
    pair.exchange();
    let writes = pair.log.iter().filter(|text| text.contains("\"write\"")).count();
    assert!(writes <= 10, "{writes} chunks were sent into a window of 1000 bytes");
}

#[test]
fn dropping_the_main_stub_fails_pending_calls() {
    let (mut pair, main) = SessionPair::new(SessionOptions::default());
    let waiting = main.call(Method::<(), ()>::new("never"), ()).into_future();
    pair.exchange();
    drop(main);
    let error = pair.wait(waiting).expect_err("the session is over");
    assert_eq!(error.code(), Some("shutdown"));
}

#[test]
fn dropping_the_session_fails_pending_calls() {
    let (mut pair, main) = SessionPair::new(SessionOptions::default());
    let waiting = main.call(Method::<(), ()>::new("never"), ()).into_future();
    pair.exchange();
    let other = std::mem::replace(&mut pair, SessionPair::new(SessionOptions::default()).0);
    drop(other);
    assert_eq!(pair.wait(waiting).expect_err("dropped").code(), Some("disconnected"));
}

#[test]
fn disconnect_fails_pending_calls_and_disposes_exports() {
    let (mut pair, main) = SessionPair::new(SessionOptions::default());
    let counter = pair.wait(main.call(MAKE_COUNTER, (1.0,))).expect("made");
    let waiting = main.call(Method::<(), ()>::new("never"), ()).into_future();
    pair.exchange();
    let gone = capnweb::error::RpcError::new("Error", "Peer closed WebSocket: 1006 ");
    pair.client.runner.session().close(&gone);
    pair.server.runner.session().close(&gone);

    assert_eq!(pair.wait(waiting).expect_err("gone").message, gone.message);
    let later = pair.wait(counter.call(INCREMENT, (None::<f64>,))).expect_err("gone");
    assert_eq!(later.message, gone.message);
    assert_eq!(pair.server.runner.session().table_sizes(), (0, 0));
}

#[test]
fn values_round_trip() {
    let (mut pair, main) = SessionPair::new(SessionOptions::default());
    let value = Value::object([
        ("u", Value::Undefined),
        ("n", Value::Null),
        ("d", Value::Date(None)),
        ("nan", Value::Number(f64::NAN)),
        ("b", Value::Bytes(vec![1, 2, 255].into())),
        ("big", Value::BigInt("-12345678901234567890".parse().expect("a bigint"))),
        ("list", Value::Array(vec![Value::Array(Vec::new()), Value::Bool(true)])),
        ("blob", Value::Blob("a/b".to_owned(), vec![7; 100_000])),
    ]);
    let back = pair.wait(main.call(ECHO, (value.clone(),))).expect("echoed");
    assert_eq!(format!("{back:?}"), format!("{value:?}"));
}

#[test]
fn stub_can_be_called_through_another_session() {
    let (mut far, far_main) = SessionPair::new(SessionOptions::default());
    let (mut near, near_main) = SessionPair::new(SessionOptions::default());
    let counter = far.wait(far_main.call(service::MAKE_COUNTER, (5.0,))).expect("made");
    let increment = Method::<(capnweb::session::Stub, Option<f64>), f64>::new("incrementCounter");
    let mut counted = std::pin::pin!(near_main.call(increment, (counter, Some(1.0))).into_future());
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    for _ in 0..100 {
        near.exchange();
        far.exchange();
        if let std::task::Poll::Ready(counted) = counted.as_mut().poll(&mut context) {
            assert_eq!(counted.expect("counted"), 6.0);
            return;
        }
    }
    panic!("the call never came back: {:#?} {:#?}", near.log, far.log);
}
