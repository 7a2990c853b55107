//! Our client calls the npm package.

use std::future::IntoFuture as _;
use std::time::Duration;

use capnweb::app::{Method, Property, function};
use capnweb::net::{RpcBatch, connect};
use capnweb::session::{SessionOptions, Stub, stream};
use capnweb::value::Value;
use capnweb::wire::PeerVersion;

use crate::npm_package::{NpmServer, TestResult};
use crate::service::{CONSUME, DISPOSED, ECHO, FAIL_WITH_PROPS, GREET, IDS, INCREMENT};
use crate::service::{MAKE_COUNTER, READABLE, USER, VALUE, WITH_CALLBACK, WRITE_TO};

const NAME: Property<String> = Property::new("name");
const NAME_OF: Method<(f64,), String> = Method::new("name");
const INCREMENT_COUNTER: Method<(Stub, Option<f64>), f64> = Method::new("incrementCounter");

fn options(profile: PeerVersion) -> SessionOptions {
    SessionOptions { profile, ..SessionOptions::default() }
}

async fn batch(server: &NpmServer, profile: PeerVersion) -> TestResult {
    let batch = RpcBatch::new(options(profile));
    let main = batch.main();
    let greeting = main.call(GREET, (main.call(USER, ()).get(NAME),)).into_future();
    let count = main.call(MAKE_COUNTER, (4.0,)).call(INCREMENT, (Some(2.0),)).into_future();
    let failed = main.call(FAIL_WITH_PROPS, ()).into_future();
    let late = main.call(GREET, ("late",));
    batch.send(&server.url).await?;
    assert_eq!(greeting.await?, "hi ann");
    assert_eq!(count.await?, 6.0);
    let failed = failed.await.expect_err("fails");
    assert_eq!(failed.name, "RangeError");
    let late = late.await.expect_err("the batch is over");
    assert_eq!(late.message, "Batch RPC request ended.");
    Ok(())
}

async fn objects(main: &Stub) -> TestResult {
    let counter = main.call(MAKE_COUNTER, (10.0,)).await?;
    assert_eq!(counter.call(INCREMENT, (Some(5.0),)).await?, 15.0);
    assert_eq!(counter.get(VALUE).await?, 15.0);
    let counted = main.call(INCREMENT_COUNTER, (counter.clone(), Some(2.0))).await?;
    assert_eq!(counted, 17.0);
    let callback = function(|(text,): (String,)| async move { Ok(format!("{text}!")) });
    let got = main.call(WITH_CALLBACK, (callback.clone(),)).await?;
    assert_eq!(got.field("got").and_then(Value::as_str), Some("tick!"));
    assert!(main.call(Method::<(Stub,), bool>::new("keep"), (callback,)).await?);
    main.call(Method::<(), ()>::new("drop"), ()).await?;
    let missing = main.call(Method::<(), ()>::new("nosuch"), ()).await.expect_err("missing");
    assert_eq!(missing.message, "'nosuch' is not a function.");
    Ok(())
}

async fn values(main: &Stub) -> TestResult {
    let values = main.call(Method::<(), Vec<Value>>::new("values"), ()).await?;
    let kinds: Vec<_> = values.iter().map(Value::kind_name).collect();
    let expected = [
        "undefined",
        "null",
        "a number",
        "a number",
        "a bigint",
        "a date",
        "bytes",
        "an array",
        "an object",
        "an error",
    ];
    assert_eq!(kinds, expected);
    for value in values {
        let shown = format!("{value:?}");
        let back = main.call(ECHO, (value,)).await?;
        assert_eq!(format!("{back:?}"), shown);
    }
    Ok(())
}

async fn map(main: &Stub) -> TestResult {
    let names = main.call(IDS, ()).map::<String, _>(|id| main.call(NAME_OF, (id,))).await?;
    assert_eq!(names, ["n1", "n2", "n3"]);
    Ok(())
}

async fn streams(main: &Stub) -> TestResult {
    let mut readable = main.call(READABLE, ()).await?;
    let mut count = 0;
    while let Some(chunk) = readable.read().await {
        chunk?;
        count += 1;
    }
    assert_eq!(count, 2);

    let (mut writable, readable) = stream();
    let consumed = main.call(CONSUME, (readable,)).into_future();
    for _ in 0..500 {
        writable.write(Value::String("x".repeat(1_000))).await?;
    }
    writable.close().await?;
    assert_eq!(consumed.await?.len(), 500);

    let (writable, mut readable) = stream();
    let written = main.call(WRITE_TO, (writable,)).into_future();
    let first = readable.read().await.ok_or("a chunk")??;
    assert_eq!(first.as_str(), Some("q"));
    assert!(readable.read().await.is_some());
    assert!(readable.read().await.is_none());
    assert_eq!(written.await?, "written");
    Ok(())
}

async fn check_dispose_count(main: &Stub) -> TestResult {
    let before = main.call(DISPOSED, ()).await?;
    for round in 0..10_000_u32 {
        let counter = main.call(MAKE_COUNTER, (f64::from(round),));
        assert_eq!(counter.call(INCREMENT, (None::<f64>,)).await?, f64::from(round) + 1.0);
    }
    let disposed = main.call(DISPOSED, ()).await?;
    assert_eq!(disposed - before, 10_000);
    Ok(())
}

async fn hang_up(main: &Stub) -> TestResult {
    let error = main.call(Method::<(), ()>::new("hangUp"), ()).await.expect_err("gone");
    assert_eq!(error.message, "Peer closed WebSocket: 1006 ");
    let later = main.call(GREET, ("x",)).await.expect_err("gone");
    assert_eq!(later.message, error.message);
    Ok(())
}

async fn calls(version: &str, profile: PeerVersion) -> TestResult {
    let server = NpmServer::start(version)?;
    batch(&server, profile).await?;
    let main = connect(&server.socket_url(), None, options(profile)).await?;
    objects(&main).await?;
    values(&main).await?;
    map(&main).await?;
    if profile == PeerVersion::Current {
        streams(&main).await?;
        let blob = Value::Blob("text/plain".to_owned(), b"hello".to_vec());
        let text = main.call(Method::<(Value,), String>::new("blobText"), (blob,)).await?;
        assert_eq!(text, "text/plain hello");
    }
    check_dispose_count(&main).await?;
    hang_up(&main).await
}

async fn within_a_minute(version: &str, profile: PeerVersion) -> TestResult {
    tokio::time::timeout(Duration::from_secs(60), calls(version, profile)).await?
}

#[tokio::test(flavor = "multi_thread")]
async fn client_calls_npm_0_12_server() -> TestResult {
    within_a_minute("0.12", PeerVersion::Current).await
}

#[tokio::test(flavor = "multi_thread")]
async fn client_calls_npm_0_8_server() -> TestResult {
    within_a_minute("0.8", PeerVersion::Current).await
}

#[tokio::test(flavor = "multi_thread")]
async fn client_calls_npm_0_4_server() -> TestResult {
    within_a_minute("0.4", PeerVersion::V0_4).await
}
