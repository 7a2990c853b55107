//! Small messages that used to take much memory.

use std::time::Duration;

use capnweb::net::RpcBatch;
use futures_util::{SinkExt as _, StreamExt as _};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;

use crate::server_process::{MeasuredServer, TestResult};

/// Long enough for a slow machine; nothing is measured with it.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// What a session may hold where a test fills it: reading much takes long without optimization.
const HELD_BYTES_LIMIT: usize = 16 * 1024 * 1024;

/// Sends a batch and returns the answer with its headers.
async fn post(victim: &MeasuredServer, body: &str) -> TestResult<String> {
    let mut stream = TcpStream::connect(&victim.address).await?;
    let length = body.len();
    let head = format!(
        "POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    let mut answer = String::new();
    tokio::time::timeout(TEST_TIMEOUT, stream.read_to_string(&mut answer)).await??;
    Ok(answer)
}

/// Says lines over a WebSocket; returns what was heard until the session ended or `until` was said.
async fn say(victim: &MeasuredServer, lines: Vec<String>, until: &str) -> TestResult<String> {
    let url = format!("ws://{}/", victim.address);
    let (socket, _) = tokio_tungstenite::connect_async(url).await?;
    let (mut sink, mut stream) = socket.split();
    let saying = async {
        for line in lines {
            if sink.send(Message::text(line)).await.is_err() {
                break;
            }
        }
    };
    let hearing = async {
        while let Some(Ok(frame)) = stream.next().await {
            let text = frame.to_text().unwrap_or_default().to_owned();
            if text.contains(until) || frame.is_close() {
                return text;
            }
        }
        String::new()
    };
    let ((), received) =
        tokio::time::timeout(TEST_TIMEOUT, async { tokio::join!(saying, hearing) }).await?;
    Ok(received)
}

fn echo(argument: &str) -> String {
    format!("[\"push\",[\"pipeline\",0,[\"echo\"],[{argument}]]]")
}

/// The review's exploit: a body of 118 KB took 927 MB.
#[tokio::test(flavor = "multi_thread")]
async fn map_over_large_captures_uses_little_memory() -> TestResult {
    let victim = MeasuredServer::start()?;
    let text = "x".repeat(100_000);
    let elements = vec!["1"; 9_000].join(",");
    let body = format!(
        "[\"push\",{{\"a\":\"{text}\"}}]\n[\"push\",[[{elements}]]]\n\
         [\"push\",[\"remap\",2,[],[[\"import\",1]],[[\"pipeline\",-1,[\"a\"]]]]]\n[\"pull\",3]"
    );
    let answer = post(&victim, &body).await?;
    assert!(answer.contains("\"limit\""), "{answer:.300}");
    victim.assert_grew_at_most(150)
}

#[tokio::test(flavor = "multi_thread")]
async fn map_with_large_literals_uses_little_memory() -> TestResult {
    let victim = MeasuredServer::start()?;
    let text = "x".repeat(100_000);
    let elements = vec!["1"; 9_000].join(",");
    let body = format!(
        "[\"push\",[[{elements}]]]\n[\"push\",[\"remap\",1,[],[],[\"{text}\"]]]\n[\"pull\",2]"
    );
    let answer = post(&victim, &body).await?;
    assert!(answer.contains("\"limit\""), "{answer:.300}");
    victim.assert_grew_at_most(150)
}

#[tokio::test(flavor = "multi_thread")]
async fn nested_maps_share_one_budget() -> TestResult {
    let victim = MeasuredServer::start()?;
    let text = "x".repeat(100_000);
    let elements = vec!["1"; 60].join(",");
    let inner = "[\"remap\",-1,[],[[\"import\",-2]],[[\"pipeline\",-1,[\"a\"]]]]";
    let body = format!(
        "[\"push\",{{\"a\":\"{text}\"}}]\n[\"push\",[[{elements}]]]\n\
         [\"push\",[\"remap\",2,[],[[\"import\",2],[\"import\",1]],[{inner}]]]\n[\"pull\",3]"
    );
    let answer = post(&victim, &body).await?;
    assert!(answer.contains("\"limit\""), "{answer:.300}");
    victim.assert_grew_at_most(150)
}

#[tokio::test(flavor = "multi_thread")]
async fn large_value_in_many_arguments_uses_little_memory() -> TestResult {
    let victim = MeasuredServer::start()?;
    let text = "x".repeat(100_000);
    let many = vec!["[\"pipeline\",1]"; 9_000].join(",");
    let call = echo(&format!("[[{many}]]"));
    for last in ["[\"pull\",2]".to_owned(), format!("[\"push\",[[{many}]]]\n[\"pull\",3]")] {
        let answer = post(&victim, &format!("[\"push\",\"{text}\"]\n{call}\n{last}")).await?;
        assert!(answer.contains("\"limit\""), "{answer:.300}");
    }
    victim.assert_grew_at_most(150)
}

#[tokio::test(flavor = "multi_thread")]
async fn many_waiters_for_a_large_value_use_little_memory() -> TestResult {
    let victim = MeasuredServer::start()?;
    let mut lines = vec!["[\"push\",[\"promise\",-1]]".to_owned()];
    for id in 2..=900 {
        lines.push("[\"push\",[\"pipeline\",1]]".to_owned());
        lines.push(format!("[\"pull\",{id}]"));
    }
    lines.push(format!("[\"resolve\",-1,\"{}\"]", "x".repeat(1_000_000)));
    say(&victim, lines, "\"limit\"").await?;
    victim.assert_grew_at_most(250)
}

#[tokio::test(flavor = "multi_thread")]
async fn large_abort_reason_is_not_copied_to_pending_calls() -> TestResult {
    let victim = MeasuredServer::start()?;
    let exports: Vec<_> = (1..=900).map(|id| format!("[\"promise\",-{id}]")).collect();
    let reason = "x".repeat(1_000_000);
    let lines = vec![
        format!("[\"push\",[[{}]]]", exports.join(",")),
        format!("[\"abort\",[\"error\",\"Error\",\"{reason}\"]]"),
    ];
    say(&victim, lines, "nothing").await?;
    victim.assert_grew_at_most(60)
}

#[tokio::test(flavor = "multi_thread")]
async fn unreleased_pushed_values_are_bounded() -> TestResult {
    let victim = MeasuredServer::start_with_limit(HELD_BYTES_LIMIT)?;
    let push = format!("[\"push\",\"{}\"]", "x".repeat(500_000));
    let received = say(&victim, vec![push; 300], "\"limit\"").await?;
    assert!(received.contains("\"limit\""), "{received:.300}");
    victim.assert_grew_at_most(60)
}

#[tokio::test(flavor = "multi_thread")]
async fn arguments_of_unfinished_calls_are_bounded() -> TestResult {
    let victim = MeasuredServer::start_with_limit(HELD_BYTES_LIMIT)?;
    let text = "x".repeat(500_000);
    // Released at once: only the call itself holds the argument, or the promise it waits for.
    let never = |id: usize| {
        [
            format!("[\"push\",[\"pipeline\",0,[\"keepWaiting\"],[\"{text}\"]]]"),
            format!("[\"release\",{id},1]"),
        ]
    };
    let received = say(&victim, (1..=300).flat_map(never).collect(), "\"limit\"").await?;
    assert!(received.contains("\"limit\""), "{received:.300}");
    victim.assert_grew_at_most(60)?;

    let victim = MeasuredServer::start_with_limit(HELD_BYTES_LIMIT)?;
    let mut lines = vec!["[\"push\",[\"pipeline\",0,[\"never\"],[]]]".to_owned()];
    lines.extend((2..=301).flat_map(|id| {
        [
            format!("[\"push\",[\"pipeline\",1,[\"then\"],[\"{text}\"]]]"),
            format!("[\"release\",{id},1]"),
        ]
    }));
    say(&victim, lines, "\"limit\"").await?;
    victim.assert_grew_at_most(60)
}

#[tokio::test(flavor = "multi_thread")]
async fn unread_chunks_are_bounded() -> TestResult {
    let victim = MeasuredServer::start_with_limit(HELD_BYTES_LIMIT)?;
    let text = "x".repeat(500_000);
    let mut lines = vec!["[\"pipe\"]".to_owned()];
    lines.extend(vec![format!("[\"stream\",[\"pipeline\",1,[\"write\"],[\"{text}\"]]]"); 300]);
    let received = say(&victim, lines, "\"limit\"").await?;
    assert!(received.contains("\"limit\""), "{received:.300}");
    victim.assert_grew_at_most(60)
}

#[tokio::test(flavor = "multi_thread")]
async fn unfinished_blobs_are_bounded() -> TestResult {
    let victim = MeasuredServer::start_with_limit(HELD_BYTES_LIMIT)?;
    let bytes = "A".repeat(500_000);
    let lines = (0..200).flat_map(|round| {
        let pipe = 3 * round + 1;
        [
            "[\"pipe\"]".to_owned(),
            format!("[\"push\",[\"blob\",\"\",[\"readable\",{pipe}]]]"),
            format!("[\"stream\",[\"pipeline\",{pipe},[\"write\"],[[\"bytes\",\"{bytes}\"]]]]"),
        ]
    });
    let received = say(&victim, lines.collect(), "\"limit\"").await?;
    assert!(received.contains("\"limit\""), "{received:.300}");
    victim.assert_grew_at_most(60)
}

#[tokio::test(flavor = "multi_thread")]
async fn message_with_too_many_values_is_rejected() -> TestResult {
    let victim = MeasuredServer::start()?;
    let many = "1,".repeat(3_900_000);
    let answer = post(&victim, &format!("[\"push\",[[{many}1]]]")).await?;
    assert!(answer.contains("too many values"), "{answer:.300}");
    victim.assert_grew_at_most(150)
}

#[tokio::test(flavor = "multi_thread")]
async fn unreleased_small_objects_are_bounded() -> TestResult {
    let victim = MeasuredServer::start_with_limit(HELD_BYTES_LIMIT)?;
    // Each line leaves an object and a result behind.
    let push = "[\"push\",[\"pipeline\",0,[\"makeCounter\"],[1]]]".to_owned();
    let received = say(&victim, vec![push; 60_000], "\"limit\"").await?;
    assert!(received.contains("\"limit\""), "{received:.300}");
    victim.assert_grew_at_most(80)
}

/// The answer to a batch of many calls, as npm's client makes them, is still whole.
#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_calls_in_one_batch_are_answered() -> TestResult {
    use crate::service::GREET;
    let victim = MeasuredServer::start()?;
    let batch = RpcBatch::new(capnweb::session::SessionOptions::default());
    let greetings: Vec<_> =
        (0..10_000).map(|_| batch.main().call(GREET, ("ann",)).into_future()).collect();
    batch.send(&format!("http://{}/", victim.address)).await?;
    for greeting in greetings {
        assert_eq!(greeting.await?, "hi ann");
    }
    Ok(())
}
