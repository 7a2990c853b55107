//! Event streams: one that is timed, and many at once.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use crate::Fallible;

/// Listens to all events; each line that holds `mark` is reported with its moment.
pub(crate) async fn listen(
    address: SocketAddr,
    mark: &'static str,
    heard: mpsc::UnboundedSender<(Instant, String)>,
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
        let is_wanted = line.contains(mark) && !line.contains("\"sync\"");
        if is_wanted && heard.send((Instant::now(), line.clone())).is_err() {
            return Ok(());
        }
    }
}

/// Opens `count` streams, then has `announce` cause one event; the time until the last one has it.
pub(crate) async fn fan_out(
    address: SocketAddr,
    count: usize,
    mark: &'static str,
    announce: impl FnOnce() -> Fallible + Send + 'static,
) -> Fallible<Duration> {
    let (ready_in, mut ready) = mpsc::unbounded_channel();
    let (heard_in, mut heard) = mpsc::unbounded_channel();
    for _ in 0..count {
        let (ready_in, heard_in) = (ready_in.clone(), heard_in.clone());
        tokio::spawn(async move {
            let connected = one(address, mark, &ready_in, &heard_in).await;
            if let Err(error) = connected {
                eprintln!("a stream failed: {error}");
            }
        });
    }
    for _ in 0..count {
        tokio::time::timeout(Duration::from_secs(60), ready.recv()).await?;
    }
    let began = Instant::now();
    tokio::task::spawn_blocking(move || announce().map_err(|error| error.to_string())).await??;
    let mut last = began;
    for _ in 0..count {
        let at = tokio::time::timeout(Duration::from_secs(60), heard.recv()).await?;
        last = last.max(at.ok_or("the streams ended")?);
    }
    Ok(last - began)
}

async fn one(
    address: SocketAddr,
    mark: &'static str,
    ready: &mpsc::UnboundedSender<()>,
    heard: &mpsc::UnboundedSender<Instant>,
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
            heard.send(Instant::now())?;
            return Ok(());
        }
    }
}
