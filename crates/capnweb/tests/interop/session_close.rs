//! How sessions end: with the codes and reasons of npm.

use std::time::Duration;

use capnweb::net::connect;
use capnweb::session::SessionOptions;
use capnweb::wire::PeerVersion;
use futures_util::{SinkExt as _, StreamExt as _};
use tokio_tungstenite::tungstenite::Message;

use crate::npm_package::{NpmServer, TestResult, script};
use crate::server::serve;
use crate::service::GREET;

/// Says a line; returns the last words of the server, and the code and reason it closes with.
async fn close_after_line(url: &str, line: &str) -> TestResult<(String, u16, String)> {
    let (mut socket, _) = tokio_tungstenite::connect_async(url.replacen("http", "ws", 1)).await?;
    socket.send(Message::text(line)).await?;
    let mut words = String::new();
    loop {
        let frame = socket.next().await.ok_or("no close frame")??;
        if let Message::Text(text) = frame {
            words = text.to_string();
        } else if let Message::Close(Some(frame)) = frame {
            return Ok((words, frame.code.into(), frame.reason.to_string()));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn session_closes_with_npms_codes_and_reasons() -> TestResult {
    let npm = NpmServer::start("0.12")?;
    let (ours, _) = serve(PeerVersion::Current).await?;
    let long = format!(r#"["{}"]"#, "ü".repeat(200));
    for line in [
        r#"["pull",7]"#,
        r#"["release",7,1]"#,
        r#"["release",0,2]"#,
        r#"["push",["pipeline",99,["a"],[]]]"#,
        r#"["push",["readable",1]]"#,
        r#"["zzz"]"#,
        r#"{"a":1}"#,
        r#"["push",["zzz"]]"#,
        &long,
    ] {
        let (their_words, code, reason) = close_after_line(&npm.url, line).await?;
        let (our_words, our_code, our_reason) = close_after_line(&ours, line).await?;
        assert_eq!((our_code, our_reason.as_str()), (code, reason.as_str()), "after {line:.80}");
        // Ours may add a code, and cuts long words short.
        let start: String = their_words.trim_end_matches(']').chars().take(80).collect();
        let same = our_words.starts_with(&start);
        assert!(same, "after {line:.80} npm said {their_words:.200} and we {our_words:.200}");
    }
    // The words for what is no JSON are those of the parser.
    let (_, code, _) = close_after_line(&npm.url, "nonsense").await?;
    let (_, our_code, _) = close_after_line(&ours, "nonsense").await?;
    assert_eq!(our_code, code);
    Ok(())
}

/// Accepts one client, answers one call, and returns the code and reason it closes with.
async fn client_close_frame(listener: tokio::net::TcpListener) -> TestResult<(u16, String)> {
    let (stream, _) = listener.accept().await?;
    let mut socket = tokio_tungstenite::accept_async(stream).await?;
    while let Some(frame) = socket.next().await {
        let frame = frame?;
        if let Message::Close(Some(frame)) = frame {
            return Ok((frame.code.into(), frame.reason.to_string()));
        }
        if frame.is_text() && frame.to_text()?.starts_with("[\"pull\"") {
            socket.send(Message::text(r#"["resolve",1,"hi x"]"#)).await?;
        }
    }
    Err("the client went without a close frame".into())
}

#[tokio::test(flavor = "multi_thread")]
async fn dropping_the_main_stub_closes_like_npm() -> TestResult {
    let listen = || tokio::net::TcpListener::bind(("127.0.0.1", 0));
    let listener = listen().await?;
    let url = format!("ws://{}/", listener.local_addr()?);
    let ours = async {
        let main = connect(&url, None, SessionOptions::default()).await?;
        main.call(GREET, ("x",)).await?;
        drop(main);
        TestResult::Ok(())
    };
    let (closed, called) = tokio::join!(client_close_frame(listener), ours);
    called?;

    let listener = listen().await?;
    let url = format!("ws://{}/", listener.local_addr()?);
    let npm = tokio::task::spawn_blocking(move || {
        script("disposing-client.mjs", "0.12", &url).map_err(|error| error.to_string())
    });
    let closed_by_npm =
        tokio::time::timeout(Duration::from_secs(60), client_close_frame(listener)).await??;
    npm.await??;
    assert_eq!(closed?, closed_by_npm);
    Ok(())
}
