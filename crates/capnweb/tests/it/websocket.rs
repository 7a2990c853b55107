//! WebSockets and the clients, over real sockets.

use std::future::IntoFuture as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use capnweb::app::{Interface, Method};
use capnweb::net::{
    ConnectError, RpcBatch, RpcServer, ServerOptions, connect, connect_over, router,
};
use capnweb::session::SessionOptions;
use futures_util::{SinkExt as _, StreamExt as _};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio_tungstenite::tungstenite::Message;

use crate::service::{self, GREET, MAKE_COUNTER};

pub(crate) type TestResult<T = ()> = Result<T, Box<dyn std::error::Error>>;

/// Long enough for a slow machine; nothing is measured with it.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Serves the service and returns its address, without a scheme.
pub(crate) async fn serve(change: impl FnOnce(&mut ServerOptions)) -> TestResult<String> {
    let mut options = ServerOptions::default();
    change(&mut options);
    serve_with(RpcServer::new(service::main_object, options)).await
}

pub(crate) async fn serve_with(server: RpcServer) -> TestResult<String> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let address = format!("{}/", listener.local_addr()?);
    tokio::spawn(axum::serve(listener, router("/", server)).into_future());
    Ok(address)
}

/// Waits for the end of a session; returns the code and the reason.
async fn until_closed(address: &str, say: &str) -> TestResult<(u16, String)> {
    let (mut socket, _) = tokio_tungstenite::connect_async(format!("ws://{address}")).await?;
    if !say.is_empty() {
        socket.send(Message::text(say)).await?;
    }
    loop {
        let next = tokio::time::timeout(TEST_TIMEOUT, socket.next());
        let frame = next.await?.ok_or("no close frame")??;
        if let Message::Close(Some(frame)) = frame {
            return Ok((frame.code.into(), frame.reason.to_string()));
        }
    }
}

#[tokio::test]
async fn session_past_its_age_is_closed_normally() -> TestResult {
    let age = Duration::from_millis(50);
    let address = serve(|options| options.session.limits.age = Some(age)).await?;
    let (code, reason) = until_closed(&address, "").await?;
    assert_eq!((code, reason.as_str()), (1000, "the session reached its age limit"));
    Ok(())
}

#[tokio::test]
async fn silent_peer_stays_connected_while_it_answers_pings() -> TestResult {
    // Long enough that a busy machine answers in time: three ticks without an answer end the session.
    let address = serve(|options| options.ping = Duration::from_secs(1)).await?;
    let (mut socket, _) = tokio_tungstenite::connect_async(format!("ws://{address}")).await?;
    // The library answers pings by itself.
    let mut pings = 0;
    while pings < 4 {
        let frame =
            tokio::time::timeout(TEST_TIMEOUT, socket.next()).await?.ok_or("it ended")??;
        assert!(frame.is_ping(), "{frame:?}");
        pings += 1;
    }
    // More pings than a silent peer gets, and the session still answers.
    socket.send(Message::text("[\"push\",5]")).await?;
    socket.send(Message::text("[\"pull\",1]")).await?;
    loop {
        let frame =
            tokio::time::timeout(TEST_TIMEOUT, socket.next()).await?.ok_or("it ended")??;
        if frame.is_text() {
            assert_eq!(frame.to_text()?, "[\"resolve\",1,5]");
            return Ok(());
        }
    }
}

#[tokio::test]
async fn peer_that_answers_no_ping_is_disconnected() -> TestResult {
    let address = serve(|options| options.ping = Duration::from_millis(10)).await?;
    let host = address.trim_end_matches('/');
    let mut stream = TcpStream::connect(host).await?;
    let request = format!(
        "GET / HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await?;
    let mut received = Vec::new();
    // Ends when the server closes, which it does although nothing was wrong but the silence.
    tokio::time::timeout(TEST_TIMEOUT, stream.read_to_end(&mut received)).await??;
    let frames = received.windows(4).position(|end| end == b"\r\n\r\n").ok_or("no answer")? + 4;
    assert_eq!(received[frames..frames + 4], [0x89, 0, 0x89, 0], "two pings");
    Ok(())
}

#[tokio::test]
async fn a_binary_frame_ends_the_session() -> TestResult {
    let address = serve(|_| {}).await?;
    let (mut socket, _) = tokio_tungstenite::connect_async(format!("ws://{address}")).await?;
    socket.send(Message::binary(b"[]".to_vec())).await?;
    let aborted = tokio::time::timeout(TEST_TIMEOUT, socket.next()).await?.ok_or("an abort")??;
    assert!(aborted.to_text()?.starts_with("[\"abort\","), "{aborted}");
    Ok(())
}

#[tokio::test]
async fn oversized_batch_is_rejected() -> TestResult {
    let address = serve(|options| options.session.limits.batch_bytes = 10).await?;
    let batch = RpcBatch::new(SessionOptions::default());
    let greeting = batch.main().call(GREET, ("a long name",)).into_future();
    let refused = batch.send(&format!("http://{address}")).await;
    assert!(matches!(refused, Err(ConnectError::Status(status)) if status.as_u16() == 413));
    let reported = greeting.await.expect_err("refused");
    assert_eq!(reported.message, "RPC request failed: 413 Payload Too Large");
    Ok(())
}

#[tokio::test]
async fn oversized_batch_response_is_rejected() -> TestResult {
    let address = serve(|_| {}).await?;
    let mut options = SessionOptions::default();
    options.limits.batch_bytes = 1_000;
    let batch = RpcBatch::new(options);
    let greeting = batch.main().call(GREET, (" ".repeat(2_000),)).into_future();
    let refused = batch.send(&format!("http://{address}")).await;
    assert!(matches!(refused, Err(ConnectError::TooLong(1_000))), "{refused:?}");
    assert_eq!(
        greeting.await.expect_err("refused").message,
        "the answer is longer than 1000 bytes"
    );
    Ok(())
}

#[tokio::test]
async fn unpulled_call_finishes_after_the_response() -> TestResult {
    let finished = Arc::new(AtomicBool::new(false));
    let answered = Arc::new(Notify::new());
    let (seen, may_end) = (Arc::clone(&finished), Arc::clone(&answered));
    let slow = Method::<(), ()>::new("slow");
    let interface = Arc::new(Interface::new().async_method(slow, move |_: Arc<()>, ()| {
        let (seen, may_end) = (Arc::clone(&seen), Arc::clone(&may_end));
        async move {
            may_end.notified().await;
            seen.store(true, Ordering::SeqCst);
            Ok(())
        }
    }));
    let server = RpcServer::new(move || interface.bind(()), ServerOptions::default());
    let body = "[\"push\",[\"pipeline\",0,[\"slow\"],[]]]";
    assert_eq!(capnweb::net::serve_batch(&server, body).await, "");
    assert!(!finished.load(Ordering::SeqCst), "the answer does not wait for it");
    answered.notify_one();
    let done = async {
        while !finished.load(Ordering::SeqCst) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(TEST_TIMEOUT, done).await?;
    Ok(())
}

#[tokio::test]
async fn tls_address_is_refused_before_sending() -> TestResult {
    let refused = connect("wss://127.0.0.1:1/", None, SessionOptions::default()).await;
    assert!(matches!(&refused, Err(ConnectError::Tls(url)) if url == "wss://127.0.0.1:1/"));
    let batch = RpcBatch::new(SessionOptions::default());
    let greeting = batch.main().call(GREET, ("ann",)).into_future();
    let refused = batch.send("https://127.0.0.1:1/").await;
    assert!(matches!(refused, Err(ConnectError::Tls(_))));
    assert!(greeting.await.is_err());
    for wrong in ["127.0.0.1:1", "ftp://127.0.0.1/", "http://127.0.0.1:1/", "ws:///"] {
        let refused = connect(wrong, None, SessionOptions::default()).await;
        assert!(matches!(refused, Err(ConnectError::Address(_))), "{wrong} was {refused:?}");
    }
    Ok(())
}

#[tokio::test]
async fn custom_stream_carries_sessions_and_batches() -> TestResult {
    let address = serve(|_| {}).await?;
    let host = address.trim_end_matches('/').to_owned();
    let stream = TcpStream::connect(&host).await?;
    // As if the stream had TLS: the scheme is the application's business then.
    let main =
        connect_over(stream, &format!("wss://{address}"), None, SessionOptions::default()).await?;
    assert_eq!(main.call(GREET, ("ann",)).await?, "hi ann");

    let batch = RpcBatch::new(SessionOptions::default());
    let greeting = batch.main().call(GREET, ("bob",)).into_future();
    let stream = TcpStream::connect(&host).await?;
    batch.send_over(stream, &format!("https://{address}")).await?;
    assert_eq!(greeting.await?, "hi bob");
    Ok(())
}

/// What a client keeps is seen in the server's own tables, and gone when it is released.
#[tokio::test]
async fn server_stats_count_held_objects_until_released() -> TestResult {
    let server = RpcServer::new(service::main_object, ServerOptions::default());
    let address = serve_with(server.clone()).await?;
    let main = connect(&format!("ws://{address}"), None, SessionOptions::default()).await?;
    let settles = async |exports: usize| {
        let settled = async {
            while server.stats().exports != exports {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let settled = tokio::time::timeout(TEST_TIMEOUT, settled).await;
        settled.map_err(|_| format!("{exports} exports expected, not {:?}", server.stats()))
    };
    main.call(GREET, ("ann",)).await?;
    settles(1).await?;
    let counters: Vec<_> = (0..3).map(|at| main.call(MAKE_COUNTER, (f64::from(at),))).collect();
    // Each is a result and, once it is pulled, an object as well.
    settles(4).await?;
    let mut kept = Vec::new();
    for counter in counters {
        kept.push(counter.await?);
    }
    settles(4).await?;
    drop(kept);
    settles(1).await?;
    drop(main);
    settles(0).await?;
    Ok(())
}
