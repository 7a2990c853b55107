//! Our server, and the load generator: our client.

use std::future::IntoFuture as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use axum::serve::ListenerExt as _;
use capnweb::app::{Interface, Method};
use capnweb::net::{RpcBatch, RpcServer, ServerOptions, connect, router};
use capnweb::session::{SessionOptions, Stub};

use super::endpoint_process::{BATCH_SIZE, CallCount, CallMode, IN_FLIGHT};
use crate::Fallible;

const GREET: Method<(String,), String> = Method::new("greet");

/// One thread for either side, as Node has.
pub(super) fn runtime() -> Fallible<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}

/// Serves until the input ends, so that no server outlives the program that started it.
pub(crate) fn serve() -> Fallible {
    std::thread::spawn(|| {
        std::io::copy(&mut std::io::stdin(), &mut std::io::sink()).ok();
        std::process::exit(0);
    });
    super::session_memory::raise_open_file_limit()?;
    runtime()?.block_on(async {
        let interface = Arc::new(
            Interface::new().method(GREET, |_: &Arc<()>, (name,)| Ok(format!("hi {name}"))),
        );
        let server = RpcServer::new(move || interface.bind(()), ServerOptions::default());
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await?;
        println!("http://{}/", listener.local_addr()?);
        let listener = listener.tap_io(|stream| {
            stream.set_nodelay(true).ok();
        });
        axum::serve(listener, router("/", server)).await?;
        Ok(())
    })
}

pub(super) fn socket_url(url: &str) -> String {
    url.replacen("http", "ws", 1)
}

/// Makes calls for `span`.
pub(super) fn make_calls(mode: CallMode, url: &str, span: Duration) -> Fallible<CallCount> {
    runtime()?.block_on(async {
        match mode {
            CallMode::Sequential => call_over_socket(url, 1, span).await,
            CallMode::InFlight => call_over_socket(url, IN_FLIGHT, span).await,
            CallMode::Batch => call_in_batches(url, span).await,
        }
    })
}

pub(super) async fn greet(main: &Stub) -> Fallible {
    check_greeting(&main.call(GREET, ("bob",)).await?)
}

fn check_greeting(text: &str) -> Fallible {
    if text == "hi bob" {
        return Ok(());
    }
    Err(format!("answered with {text}").into())
}

/// `workers` loops on one session, each with one call under way.
async fn call_over_socket(url: &str, workers: usize, span: Duration) -> Fallible<CallCount> {
    let main = connect(&socket_url(url), None, SessionOptions::default()).await?;
    greet(&main).await?;
    let begun = Instant::now();
    let calls = Arc::new(AtomicUsize::new(0));
    let tasks: Vec<_> = (0..workers)
        .map(|_| {
            let (main, calls) = (main.clone(), Arc::clone(&calls));
            tokio::spawn(async move {
                while begun.elapsed() < span {
                    greet(&main).await.map_err(|error| error.to_string())?;
                    calls.fetch_add(1, Ordering::Relaxed);
                }
                Ok::<_, String>(())
            })
        })
        .collect();
    for task in tasks {
        task.await??;
    }
    let calls = calls.load(Ordering::Relaxed) as f64;
    Ok(CallCount { calls, seconds: begun.elapsed().as_secs_f64() })
}

async fn call_in_batches(url: &str, span: Duration) -> Fallible<CallCount> {
    let begun = Instant::now();
    let mut calls = 0;
    while begun.elapsed() < span {
        send_batch(url, BATCH_SIZE).await?;
        calls += BATCH_SIZE;
    }
    Ok(CallCount { calls: calls as f64, seconds: begun.elapsed().as_secs_f64() })
}

pub(super) async fn send_batch(url: &str, calls: usize) -> Fallible {
    let batch = RpcBatch::new(SessionOptions::default());
    let answers: Vec<_> =
        (0..calls).map(|_| batch.main().call(GREET, ("bob",)).into_future()).collect();
    batch.send(url).await?;
    for answer in answers {
        check_greeting(&answer.await?)?;
    }
    Ok(())
}
