//! The pool all searches share: a few at a time, a short queue, and an end when the client leaves.

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;

use super::search_budget::{SearchBudget, SearchControl, SearchLimits, SearchTruncation};
use crate::error::ApiError;
use crate::work_pool::{CancelOnDrop, WorkPool};

/// Searches that run at the same time.
const MAX_RUNNING: usize = 2;
/// Searches that wait for a place.
const MAX_WAITING: usize = 16;
/// How long a search may run before it answers with what it has.
const MAX_SEARCH_TIME: Duration = Duration::from_secs(10);

/// Places for searches.
#[derive(Debug)]
pub(crate) struct SearchPool {
    places: WorkPool,
    longest: Duration,
}

impl Default for SearchPool {
    fn default() -> Self {
        Self { places: WorkPool::new(MAX_RUNNING, MAX_WAITING), longest: MAX_SEARCH_TIME }
    }
}

impl SearchPool {
    /// Runs a search where it may block; returns its result and what it left out.
    ///
    /// Dropping the future cancels the search: its next look at the budget says so. It keeps its
    /// place until it has really ended.
    ///
    /// # Errors
    ///
    /// 503 `SearchBusyError` if too many searches wait already.
    pub(crate) async fn run<T, F>(&self, work: F) -> Result<(T, Vec<SearchTruncation>), ApiError>
    where
        T: Send + 'static,
        F: FnOnce(&mut SearchBudget) -> Result<T, ApiError> + Send + 'static,
    {
        let place = self.places.acquire().await.ok_or_else(search_busy_error)?;
        let control = Arc::new(SearchControl::default());
        let _cancel = CancelOnDrop({
            let control = control.clone();
            move || control.cancel()
        });
        let mut budget = SearchBudget::new(control.clone(), SearchLimits::default());
        let mut task = tokio::task::spawn_blocking(move || {
            let _place = place;
            let done = work(&mut budget)?;
            Ok((done, budget.into_truncations()))
        });
        let done = tokio::select! {
            done = &mut task => done,
            () = tokio::time::sleep(self.longest) => {
                control.time_out();
                task.await
            }
        };
        done.unwrap_or_else(|error| Err(ApiError::unexpected(&error)))
    }
}

fn search_busy_error() -> ApiError {
    let words = "Too many searches at the same time. Try again later.";
    ApiError::tagged(StatusCode::SERVICE_UNAVAILABLE, "SearchBusyError", words)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;
    use crate::connection::{ConnectionTable, Listeners, accept_connections};
    use crate::peer::PeerId;

    /// Waiting longer is a failure.
    const PATIENCE: Duration = Duration::from_secs(60);

    /// A search without an end: it signals its beginning and its end.
    fn endless(
        began: &Sender<()>,
        ended: &Sender<()>,
    ) -> impl FnOnce(&mut SearchBudget) -> Result<(), ApiError> + Send + use<> {
        let (began, ended) = (began.clone(), ended.clone());
        move |budget| {
            began.send(()).expect("the test waits");
            while budget.spend_work(0) {
                std::thread::yield_now();
            }
            ended.send(()).expect("the test waits");
            Ok(())
        }
    }

    fn came(signal: &Receiver<()>) {
        signal.recv_timeout(PATIENCE).expect("it did not happen in 60 s");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn dropped_searches_stop_and_free_their_place() {
        let pool = Arc::new(SearchPool::default());
        let ((began_in, began), (ended_in, ended)) = (channel(), channel());
        let start = || {
            let (pool, work) = (pool.clone(), endless(&began_in, &ended_in));
            tokio::spawn(async move { pool.run(work).await.map(drop) })
        };
        let running: Vec<_> = (0..MAX_RUNNING).map(|_| start()).collect();
        tokio::task::block_in_place(|| (0..MAX_RUNNING).for_each(|_| came(&began)));
        let waiting: Vec<_> = (0..MAX_WAITING).map(|_| start()).collect();
        while pool.places.room() > 0 {
            tokio::task::yield_now().await;
        }
        let refused = pool.run(|_| Ok(())).await.expect_err("no place is left");
        assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert!(began.try_recv().is_err(), "only {MAX_RUNNING} run at the same time");

        waiting.iter().chain(&running).for_each(tokio::task::JoinHandle::abort);
        tokio::task::block_in_place(|| (0..MAX_RUNNING).for_each(|_| came(&ended)));
        // Every place comes back.
        let all_free = async {
            while pool.places.room() < MAX_RUNNING + MAX_WAITING {
                tokio::task::yield_now().await;
            }
        };
        let free = tokio::time::timeout(PATIENCE, all_free).await;
        assert!(free.is_ok(), "a place is still taken");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn closing_the_connection_cancels_the_search() {
        use tokio::io::AsyncWriteExt;
        let pool = Arc::new(SearchPool::default());
        let ((began_in, began), (ended_in, ended)) = (channel(), channel());
        let handler = move || {
            let (pool, work) = (pool.clone(), endless(&began_in, &ended_in));
            async move { pool.run(work).await.map(|_| "done") }
        };
        let router = axum::Router::new().fallback(handler);
        let tcp = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = tcp.local_addr().expect("an address");
        let listeners = Listeners { tcp, unix: None, lookup: None, has_password: true };
        let table = ConnectionTable::new(8, PeerId::of_address(address.ip()));
        let serving = (router, crate::settings::RequestLimits::default());
        let end = std::future::pending();
        let server = tokio::spawn(accept_connections(listeners, table, serving, end));
        let mut client = tokio::net::TcpStream::connect(address).await.expect("connects");
        client.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").await.expect("asked");
        tokio::task::block_in_place(|| came(&began));
        drop(client);
        tokio::task::block_in_place(|| came(&ended));
        server.abort();
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn timed_out_search_returns_partial_results() {
        let pool = SearchPool { longest: Duration::ZERO, ..SearchPool::default() };
        let (began_in, _began) = channel();
        let (ended_in, _ended) = channel();
        let (_, truncations) = pool.run(endless(&began_in, &ended_in)).await.expect("an answer");
        assert_eq!(truncations, [SearchTruncation::Time]);
    }
}
