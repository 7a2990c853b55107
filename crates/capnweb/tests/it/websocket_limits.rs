//! Messages that WebSockets refuse: both ends learn why.

use std::time::Duration;

use capnweb::net::{RpcServer, ServerOptions, connect};
use capnweb::session::SessionOptions;
use futures_util::{SinkExt as _, StreamExt as _};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket};
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};
use tokio_tungstenite::tungstenite::{Bytes, Message};

use crate::service::{self, ECHO, GREET};
use crate::websocket::{TEST_TIMEOUT, TestResult, serve, serve_with};

const TOO_LONG: &str = "Incoming message exceeds maximum size of 1000 bytes.";

/// Sends frames to a server that takes 1,000 bytes; returns the code and reason it closes with.
async fn server_close_frame(frames: Vec<Message>) -> TestResult<(u16, String)> {
    let address = serve(|options| options.session.limits.wire.message_bytes = 1_000).await?;
    let (socket, _) = tokio_tungstenite::connect_async(format!("ws://{address}")).await?;
    let (mut sink, mut stream) = socket.split();
    let sending = async {
        for frame in frames {
            // The server may have closed before it has read everything.
            if sink.send(frame).await.is_err() {
                return;
            }
        }
    };
    let closing = async {
        loop {
            let frame = stream.next().await.ok_or("no close frame")??;
            if let Message::Close(Some(frame)) = frame {
                return TestResult::Ok((frame.code.into(), frame.reason.to_string()));
            }
        }
    };
    let both = async { tokio::join!(sending, closing) };
    let ((), closed) = tokio::time::timeout(TEST_TIMEOUT, both).await?;
    closed
}

#[tokio::test(flavor = "multi_thread")]
async fn server_closes_a_too_large_message_with_1009_and_a_reason() -> TestResult {
    let closed = server_close_frame(vec![Message::text("x".repeat(1_001))]).await?;
    assert_eq!(closed, (1009, TOO_LONG.to_owned()));
    // Much more than the buffers of the connection hold: it is discarded, so the reason arrives.
    let closed = server_close_frame(vec![Message::text("x".repeat(50_000_000))]).await?;
    assert_eq!(closed, (1009, TOO_LONG.to_owned()));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn server_closes_too_large_fragments_with_1009_and_a_reason() -> TestResult {
    let part = |code: Data, last| {
        let bytes = Bytes::from(vec![b'x'; 600]);
        Message::Frame(Frame::message(bytes, OpCode::Data(code), last))
    };
    let closed =
        server_close_frame(vec![part(Data::Text, false), part(Data::Continue, true)]).await?;
    assert_eq!(closed, (1009, TOO_LONG.to_owned()));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn server_closes_invalid_frames_with_their_codes() -> TestResult {
    let frame = Frame::message(Bytes::from_static(&[0xff]), OpCode::Data(Data::Text), true);
    let (code, reason) = server_close_frame(vec![Message::Frame(frame)]).await?;
    assert_eq!((code, reason.as_str()), (1007, "a text frame is not valid UTF-8"));
    let orphan = Frame::message(Bytes::from_static(b"x"), OpCode::Data(Data::Continue), true);
    let (code, reason) = server_close_frame(vec![Message::Frame(orphan)]).await?;
    assert_eq!(code, 1002, "{reason}");
    assert!(!reason.is_empty());
    Ok(())
}

/// A call that is too large for the server fails with an error that says so by its code.
#[tokio::test(flavor = "multi_thread")]
async fn client_reports_that_the_server_refused_a_too_large_message() -> TestResult {
    let address = serve(|options| options.session.limits.wire.message_bytes = 1_000).await?;
    let main = connect(&format!("ws://{address}"), None, SessionOptions::default()).await?;
    let refused = main.call(GREET, ("x".repeat(5_000_000),)).into_future();
    let error = tokio::time::timeout(TEST_TIMEOUT, refused).await?.expect_err("refused");
    assert_eq!(error.code(), Some("message_too_large"));
    assert_eq!(error.message, format!("Peer closed WebSocket: 1009 {TOO_LONG}"));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn client_closes_a_too_large_answer_with_1009_and_reports_it() -> TestResult {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let url = format!("ws://{}/", listener.local_addr()?);
    let server = async {
        let (stream, _) = listener.accept().await?;
        let mut socket = tokio_tungstenite::accept_async(stream).await?;
        socket.next().await.ok_or("a call")??;
        let (mut sink, mut stream) = socket.split();
        let answer = Message::text(format!("[\"resolve\",1,\"{}\"]", "x".repeat(20_000_000)));
        let (_, closed) = tokio::join!(sink.send(answer), async {
            loop {
                match stream.next().await {
                    Some(Ok(Message::Close(Some(frame)))) => break Ok(frame),
                    Some(Ok(_)) => {}
                    _ => break Err("no close frame"),
                }
            }
        });
        let closed = closed?;
        TestResult::Ok((u16::from(closed.code), closed.reason.to_string()))
    };
    let client = async {
        let mut options = SessionOptions::default();
        options.limits.wire.message_bytes = 1_000;
        let main = connect(&url, None, options).await?;
        TestResult::Ok(main.call(GREET, ("x",)).await.expect_err("too large"))
    };
    let both = async { tokio::join!(server, client) };
    let (closed, error) = tokio::time::timeout(TEST_TIMEOUT, both).await?;
    assert_eq!(closed?, (1009, TOO_LONG.to_owned()));
    let error = error?;
    assert_eq!((error.code(), error.message.as_str()), (Some("message_too_large"), TOO_LONG));
    Ok(())
}

/// A server that never reads: calls beyond the limit fail at once, the others when it is given up.
#[tokio::test(flavor = "multi_thread")]
async fn client_bounds_what_waits_for_a_server_that_never_reads() -> TestResult {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let url = format!("ws://{}/", listener.local_addr()?);
    let server = async {
        let (stream, _) = listener.accept().await?;
        TestResult::Ok(tokio_tungstenite::accept_async(stream).await?)
    };
    let mut options = SessionOptions::default();
    options.limits.outgoing_bytes = 4_000_000;
    let (socket, main) = tokio::join!(server, connect(&url, None, options));
    let (_socket, main) = (socket?, main?);
    let text = "x".repeat(100_000);
    // Far more than the buffers of the connection hold as well: the first to be answered is refused.
    let calls = (0..400).map(|_| main.call(GREET, (text.clone(),)).into_future());
    let first = futures_util::future::select_all(calls);
    let (answered, ..) = tokio::time::timeout(TEST_TIMEOUT, first).await?;
    assert_eq!(answered.expect_err("nobody answers").code(), Some("limit"));
    Ok(())
}

/// The server gives up a peer that takes nothing; the close frame names the reason.
#[tokio::test(flavor = "multi_thread")]
async fn server_closes_a_slow_peer_with_a_reason() -> TestResult {
    let mut options = ServerOptions { ping: Duration::from_millis(50), ..ServerOptions::default() };
    options.session.limits.pause_bytes = 100_000;
    let server = RpcServer::new(service::main_object, options);
    let address = serve_with(server.clone()).await?;
    let (socket, _) = tokio_tungstenite::connect_async(format!("ws://{address}")).await?;
    let (mut sink, mut socket) = socket.split();
    let text = "x".repeat(1_000_000);
    tokio::spawn(async move {
        for id in 1..=30 {
            let call = format!("[\"push\",[\"pipeline\",0,[\"echo\"],[\"{text}\"]]]");
            sink.feed(Message::text(call)).await?;
            sink.send(Message::text(format!("[\"pull\",{id}]"))).await?;
        }
        Ok::<_, tokio_tungstenite::tungstenite::Error>(())
    });
    // Nothing is read before the server has given up: then its tables are empty.
    let given_up = async {
        let mut begun = false;
        loop {
            let stats = server.stats();
            begun |= stats.exports > 1;
            if begun && stats.exports == 0 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(TEST_TIMEOUT, given_up).await?;
    let closed = async {
        loop {
            match socket.next().await {
                Some(Ok(Message::Close(Some(frame)))) => return Some(frame),
                Some(Ok(_)) => {}
                _ => return None,
            }
        }
    };
    let frame = tokio::time::timeout(TEST_TIMEOUT, closed).await?.ok_or("no close frame")?;
    assert_eq!(u16::from(frame.code), 1008);
    assert_eq!(frame.reason.as_str(), "the peer does not take its messages");
    Ok(())
}

/// A peer that reads slowly, but reads, is served to the end.
#[tokio::test(flavor = "multi_thread")]
async fn slow_but_reading_peer_is_kept() -> TestResult {
    let address = serve(|options| options.ping = Duration::from_secs(1)).await?;
    let host = address.trim_end_matches('/');
    // Little of the answer fits into the buffers of the connection.
    let socket = TcpSocket::new_v4()?;
    socket.set_recv_buffer_size(64 * 1024)?;
    let mut stream = socket.connect(host.parse()?).await?;
    let request = format!(
        "GET / HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await?;
    let text = format!("[\"push\",\"{}\"]", "x".repeat(30_000_000));
    for line in [text.as_str(), "[\"pull\",1]"] {
        let mut frame = vec![0x81, 0x80 | 127];
        frame.extend((line.len() as u64).to_be_bytes());
        frame.extend([0; 4]);
        frame.extend(line.as_bytes());
        stream.write_all(&frame).await?;
    }
    let mut buffer = vec![0; 1_000_000];
    let reading = async {
        // Six ticks pass in which the peer says nothing, but takes something.
        for taken in 0..30 {
            let slowly = if taken < 20 { Duration::from_millis(300) } else { Duration::ZERO };
            tokio::time::sleep(slowly).await;
            stream.read_exact(&mut buffer).await.map_err(|error| format!("{taken} MB: {error}"))?;
        }
        TestResult::Ok(())
    };
    tokio::time::timeout(TEST_TIMEOUT, reading).await??;
    Ok(())
}

/// Two peers that call each other with more than either queues without reading go on.
#[tokio::test(flavor = "multi_thread")]
async fn many_large_calls_at_once_do_not_block_each_other() -> TestResult {
    use capnweb::value::Value;
    let address = serve(|_| {}).await?;
    let main = connect(&format!("ws://{address}"), None, SessionOptions::default()).await?;
    let text = Value::String("x".repeat(100_000));
    let calls: Vec<_> = (0..200).map(|_| main.call(ECHO, (text.clone(),)).into_future()).collect();
    for call in calls {
        let echoed = tokio::time::timeout(TEST_TIMEOUT, call).await??;
        assert_eq!(echoed.as_str().map(str::len), Some(100_000));
    }
    Ok(())
}
