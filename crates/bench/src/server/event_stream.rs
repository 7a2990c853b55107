//! Event streams: one that is timed, and many at once.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use crate::Fallible;

/// How long all streams of a crowd may take to open, and to hear of one event.
const FAN_OUT_TIMEOUT: Duration = Duration::from_secs(120);

/// OpenCode says `server.connected` before it listens for events itself: what happens in between is
/// lost to that stream. A measurement waits so long.
pub(crate) const SUBSCRIBE_DELAY: Duration = Duration::from_secs(1);

/// Listens to all events; the first line and each that holds `mark` are reported with their moment.
pub(crate) async fn report_events(
    address: SocketAddr,
    mark: &'static str,
    event_sender: mpsc::UnboundedSender<(Instant, String)>,
) -> Fallible {
    let mut stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let request =
        "GET /global/event HTTP/1.1\r\nhost: 127.0.0.1\r\naccept: text/event-stream\r\n\r\n";
    stream.write_all(request.as_bytes()).await?;
    let mut lines = BufReader::new(stream);
    let mut line = String::new();
    loop {
        line.clear();
        if lines.read_line(&mut line).await? == 0 {
            return Err("the stream ended".into());
        }
        let is_wanted = line.contains("server.connected")
            || (line.contains(mark) && !line.contains("\"sync\""));
        if is_wanted && event_sender.send((Instant::now(), line.clone())).is_err() {
            return Ok(());
        }
    }
}

/// Opens `count` streams, then has `announce` cause one event; the time until the last one has it,
/// or how many of them got so far.
pub(crate) async fn measure_fan_out(
    address: SocketAddr,
    count: usize,
    mark: &'static str,
    announce: impl FnOnce() -> Fallible + Send + 'static,
) -> Fallible<Duration> {
    let (ready_in, mut ready) = mpsc::unbounded_channel();
    let (event_sender, mut received) = mpsc::unbounded_channel();
    for _ in 0..count {
        let (ready_in, event_sender) = (ready_in.clone(), event_sender.clone());
        tokio::spawn(async move {
            let connected = wait_for_event(address, mark, &ready_in, &event_sender).await;
            if let Err(error) = connected {
                eprintln!("a stream failed: {error}");
            }
        });
    }
    for opened in 0..count {
        let next = tokio::time::timeout(FAN_OUT_TIMEOUT, ready.recv()).await;
        next.map_err(|_| format!("{opened} of {count} streams opened"))?;
    }
    tokio::time::sleep(SUBSCRIBE_DELAY).await;
    let began = Instant::now();
    tokio::task::spawn_blocking(move || announce().map_err(|error| error.to_string())).await??;
    let mut last = began;
    for arrived in 0..count {
        let next = tokio::time::timeout(FAN_OUT_TIMEOUT, received.recv()).await;
        let at = next.map_err(|_| format!("{arrived} of {count} streams received it"))?;
        last = last.max(at.ok_or("the streams ended")?);
    }
    Ok(last - began)
}

async fn wait_for_event(
    address: SocketAddr,
    mark: &'static str,
    ready: &mpsc::UnboundedSender<()>,
    event_sender: &mpsc::UnboundedSender<Instant>,
) -> Fallible {
    let mut stream = TcpStream::connect(address).await?;
    let request =
        "GET /global/event HTTP/1.1\r\nhost: 127.0.0.1\r\naccept: text/event-stream\r\n\r\n";
    stream.write_all(request.as_bytes()).await?;
    let mut lines = BufReader::new(stream);
    let (mut line, mut is_ready) = (String::new(), false);
    loop {
        line.clear();
        if lines.read_line(&mut line).await? == 0 {
            return Err("the stream ended".into());
        }
        if !is_ready && line.contains("server.connected") {
            is_ready = true;
            ready.send(())?;
        }
        if line.contains(mark) {
            event_sender.send(Instant::now())?;
            return Ok(());
        }
    }
}
