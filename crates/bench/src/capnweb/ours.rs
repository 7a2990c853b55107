//! Our server, and the load generator: our client.

use std::future::IntoFuture as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use axum::serve::ListenerExt as _;
use capnweb::app::{Interface, Method};
use capnweb::net::{Batch, Server, ServerOptions, connect, router};
use capnweb::session::{Options, Stub};

use super::peer::{BATCH, IN_FLIGHT, Made, Mode};
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
    super::memory::raise_limit()?;
    runtime()?.block_on(async {
        let interface = Arc::new(
            Interface::new().method(GREET, |_: &Arc<()>, (name,)| Ok(format!("hi {name}"))),
        );
        let server = Server::new(move || interface.bind(()), ServerOptions::default());
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
pub(super) fn calls(mode: Mode, url: &str, span: Duration) -> Fallible<Made> {
    runtime()?.block_on(async {
        match mode {
            Mode::Sequential => socket(url, 1, span).await,
            Mode::Flight => socket(url, IN_FLIGHT, span).await,
            Mode::Batch => batches(url, span).await,
        }
    })
}

pub(super) async fn greet(main: &Stub) -> Fallible {
    checked(&main.call(GREET, ("bob",)).await?)
}

fn checked(text: &str) -> Fallible {
    if text == "hi bob" {
        return Ok(());
    }
    Err(format!("answered with {text}").into())
}

/// `workers` loops on one session, each with one call under way.
async fn socket(url: &str, workers: usize, span: Duration) -> Fallible<Made> {
    let main = connect(&socket_url(url), None, Options::default()).await?;
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
    Ok(Made { calls, seconds: begun.elapsed().as_secs_f64() })
}

async fn batches(url: &str, span: Duration) -> Fallible<Made> {
    let begun = Instant::now();
    let mut calls = 0;
    while begun.elapsed() < span {
        batch(url, BATCH).await?;
        calls += BATCH;
    }
    Ok(Made { calls: calls as f64, seconds: begun.elapsed().as_secs_f64() })
}

pub(super) async fn batch(url: &str, calls: usize) -> Fallible {
    let batch = Batch::new(Options::default());
    let answers: Vec<_> =
        (0..calls).map(|_| batch.main().call(GREET, ("bob",)).into_future()).collect();
    batch.send(url).await?;
    for answer in answers {
        checked(&answer.await?)?;
    }
    Ok(())
}
