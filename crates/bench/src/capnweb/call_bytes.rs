//! Bytes per call, counted by a proxy between the two processes; not timed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};

use super::client_server_pairs::ClientServerPairs;
use super::endpoint_process::{CallCount, CallMode};
use super::rust_endpoint;
use crate::Fallible;
use crate::measurement::print_figures;

/// Bytes sent by the client, then by the server.
#[derive(Default)]
struct ByteCounters([AtomicU64; 2]);

/// Passes connections on to `url` and counts.
struct CountingProxy {
    url: String,
    counted: Arc<ByteCounters>,
    _runtime: tokio::runtime::Runtime,
}

impl CountingProxy {
    fn start(url: &str) -> Fallible<Self> {
        let builder = &mut tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(1).enable_all().build()?;
        let target = url.trim_start_matches("http://").trim_end_matches('/').to_owned();
        let listener = runtime.block_on(TcpListener::bind(("127.0.0.1", 0)))?;
        let url = format!("http://{}/", listener.local_addr()?);
        let counted = Arc::<ByteCounters>::default();
        let total = Arc::clone(&counted);
        runtime.spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                tokio::spawn(forward_connection(near, target.clone(), Arc::clone(&total)));
            }
        });
        Ok(Self { url, counted, _runtime: runtime })
    }

    fn take_counts(&self) -> [u64; 2] {
        [0, 1].map(|side| self.counted.0[side].swap(0, Ordering::Relaxed))
    }
}

async fn forward_connection(near: TcpStream, target: String, counted: Arc<ByteCounters>) {
    let Ok(far) = TcpStream::connect(target).await else {
        return;
    };
    // Otherwise small writes wait for each other, and a span holds few calls.
    near.set_nodelay(true).ok();
    far.set_nodelay(true).ok();
    let (near_in, near_out) = near.into_split();
    let (far_in, far_out) = far.into_split();
    let up = copy_and_count(near_in, far_out, &counted.0[0]);
    let down = copy_and_count(far_in, near_out, &counted.0[1]);
    tokio::join!(up, down);
}

async fn copy_and_count(
    from: tokio::net::tcp::OwnedReadHalf,
    to: tokio::net::tcp::OwnedWriteHalf,
    total: &AtomicU64,
) {
    let mut buffer = [0; 16 * 1024];
    loop {
        if from.readable().await.is_err() {
            return;
        }
        let count = match from.try_read(&mut buffer) {
            Ok(0) => return,
            Ok(count) => count,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => continue,
            Err(_) => return,
        };
        total.fetch_add(count as u64, Ordering::Relaxed);
        let mut left = &buffer[..count];
        while !left.is_empty() {
            if to.writable().await.is_err() {
                return;
            }
            match to.try_write(left) {
                Ok(written) => left = &left[written..],
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(_) => return,
            }
        }
    }
}

/// Prints the bytes of one call of every pair, one after the other and as batches.
pub(super) fn run(pairs: &mut ClientServerPairs) -> Fallible {
    println!("bytes per call, client to server + back, TCP payload with framing and headers");
    let to_ours = CountingProxy::start(&pairs.own_server.url)?;
    let to_npm = CountingProxy::start(&pairs.npm_server.url)?;
    let span = Duration::from_secs(1);
    for mode in [CallMode::Sequential, CallMode::Batch] {
        let mut figures = Vec::new();
        for (name, proxy) in [("ours", &to_ours), ("ours to npm", &to_npm)] {
            proxy.take_counts();
            let made = rust_endpoint::make_calls(mode, &proxy.url, span)?;
            figures.push((name, format_bytes_per_call(proxy, made)));
        }
        for (name, proxy) in [("npm–npm", &to_npm), ("npm to ours", &to_ours)] {
            proxy.take_counts();
            let made = pairs.client.make_calls(mode, &proxy.url, span)?;
            figures.push((name, format_bytes_per_call(proxy, made)));
        }
        print_figures(&mode.label(), &figures);
    }
    Ok(())
}

fn format_bytes_per_call(proxy: &CountingProxy, made: CallCount) -> String {
    let [up, down] = proxy.take_counts();
    format!("{:.0}+{:.0}", up as f64 / made.calls, down as f64 / made.calls)
}
