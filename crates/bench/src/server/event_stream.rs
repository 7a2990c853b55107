//! One event stream whose events are timed.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use crate::Fallible;

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
