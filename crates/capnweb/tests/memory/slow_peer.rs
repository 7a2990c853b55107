//! A peer that never reads.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::server_process::{MeasuredServer, TestResult};

/// Long enough for a slow machine; nothing is measured with it.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Opens a WebSocket by hand, so that nothing but this test reads from it.
async fn open(host: &str) -> TestResult<TcpStream> {
    let mut stream = TcpStream::connect(host).await?;
    let request = format!(
        "GET / HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    Ok(stream)
}

/// Makes a text frame of a client whose mask is zero.
fn frame(text: &str) -> Vec<u8> {
    let mut frame = vec![0x81, 0x80 | 127];
    frame.extend((text.len() as u64).to_be_bytes());
    frame.extend([0; 4]);
    frame.extend(text.as_bytes());
    frame
}

/// The review's exploit: calls with large results from a client that never reads held 3 GB.
#[tokio::test(flavor = "multi_thread")]
async fn non_reading_websocket_client_is_disconnected() -> TestResult {
    let victim = MeasuredServer::start()?;
    let mut stream = open(&victim.address).await?;
    let text = "x".repeat(128 * 1024);
    let flood = async {
        for id in 1..=6_000 {
            let call = format!("[\"push\",[\"pipeline\",0,[\"echo\"],[\"{text}\"]]]");
            stream.write_all(&frame(&call)).await?;
            stream.write_all(&frame(&format!("[\"pull\",{id}]"))).await?;
        }
        Ok::<_, std::io::Error>(())
    };
    let flooded = tokio::time::timeout(TEST_TIMEOUT, flood).await?;
    victim.assert_grew_at_most(100)?;
    assert!(flooded.is_err(), "the server took 786 MB of calls without an answer taken");
    Ok(())
}

/// Sends one request on a connection of its own and returns the answer.
async fn post(host: &str, request: &str) -> TestResult<String> {
    let mut stream = TcpStream::connect(host).await?;
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    tokio::time::timeout(TEST_TIMEOUT, stream.read_to_string(&mut answer)).await??;
    Ok(answer)
}

#[tokio::test(flavor = "multi_thread")]
async fn non_reading_http_client_holds_at_most_one_response() -> TestResult {
    let victim = MeasuredServer::start()?;
    let request = |headers: &str, text: &str| {
        let body = format!("[\"push\",[\"pipeline\",0,[\"echo\"],[\"{text}\"]]]\n[\"pull\",1]");
        let length = body.len();
        format!("POST / HTTP/1.1\r\nHost: x\r\n{headers}Content-Length: {length}\r\n\r\n{body}")
    };
    let large = request("", &"x".repeat(1024 * 1024));
    let mut stream = TcpStream::connect(&victim.address).await?;
    let flood = async {
        for _ in 0..500 {
            stream.write_all(large.as_bytes()).await?;
        }
        Ok::<_, std::io::Error>(())
    };
    let honest = request("Connection: close\r\n", &"y".repeat(256 * 1024));
    let others = async {
        for _ in 0..50 {
            let answer = post(&victim.address, &honest).await?;
            assert!(answer.contains("[\"resolve\",1,"), "{answer:.200}");
        }
        TestResult::Ok(())
    };
    tokio::select! {
        flooded = flood => panic!("500 requests were taken without an answer taken: {flooded:?}"),
        served = others => served?,
    }
    victim.assert_grew_at_most(60)
}
