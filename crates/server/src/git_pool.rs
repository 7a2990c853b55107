//! Git for requests that only read: a few commands at a time, in one repository and in all.
//!
//! A repository can make git wait for nothing, until a limit ends it. So requests wait for a place without
//! a thread, one repository cannot take the places of others, and a client that leaves ends its git.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use axum::http::StatusCode;
use tokio::sync::Semaphore;
use turnstone_engine::GitCancellation;

use crate::app::AppState;
use crate::error::ApiError;
use crate::work_pool::{CancelOnDrop, WorkPool};

/// Requests that run git at the same time.
const RUNNING_IN_ALL: usize = 8;
/// Requests that run git at the same time in one repository.
const RUNNING: usize = 2;
/// Requests that wait in one repository.
const WAITING: usize = 32;

/// Places for requests that run git.
#[derive(Debug)]
pub(crate) struct GitPool {
    all: Arc<Semaphore>,
    /// Those that are in use now.
    repositories: Mutex<BTreeMap<PathBuf, (usize, WorkPool)>>,
}

impl Default for GitPool {
    fn default() -> Self {
        let all = Arc::new(Semaphore::new(RUNNING_IN_ALL));
        Self { all, repositories: Mutex::default() }
    }
}

/// One request that uses the pool of a repository; the last one removes it.
struct RepositoryUse<'a> {
    pool: &'a GitPool,
    repository: &'a Path,
}

impl Drop for RepositoryUse<'_> {
    fn drop(&mut self) {
        let known = &mut *self.pool.repositories.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((users, _)) = known.get_mut(self.repository) {
            *users -= 1;
            if *users == 0 {
                known.remove(self.repository);
            }
        }
    }
}

impl GitPool {
    fn enter<'a>(&'a self, repository: &'a Path) -> (RepositoryUse<'a>, WorkPool) {
        let known = &mut *self.repositories.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || (0, WorkPool::new(RUNNING, WAITING));
        let (users, pool) = known.entry(repository.to_owned()).or_insert_with(new);
        *users += 1;
        (RepositoryUse { pool: self, repository }, pool.clone())
    }

    /// Runs `work` where it may block; dropping the future kills the git it runs.
    ///
    /// # Errors
    ///
    /// 503 `GitBusyError` if too many requests wait for this repository already.
    async fn run<T, F>(&self, repository: &Path, work: F) -> Result<T, ApiError>
    where
        T: Send + 'static,
        F: FnOnce() -> Result<T, ApiError> + Send + 'static,
    {
        let (_use, pool) = self.enter(repository);
        let own = pool.acquire().await.ok_or_else(busy)?;
        let shared = self.all.clone().acquire_owned().await.map_err(|_| busy())?;
        let cancellation = GitCancellation::default();
        let _cancel = CancelOnDrop({
            let cancellation = cancellation.clone();
            move || cancellation.cancel()
        });
        let task = tokio::task::spawn_blocking(move || {
            let _places = (own, shared);
            cancellation.cover(work)
        });
        task.await.unwrap_or_else(|error| Err(ApiError::unexpected(&error)))
    }
}

fn busy() -> ApiError {
    let words = "Too many requests about this repository at the same time. Try again later.";
    ApiError::tagged(StatusCode::SERVICE_UNAVAILABLE, "GitBusyError", words)
}

/// Runs `work`, which asks git about the repository of a directory and changes nothing.
///
/// It waits for a place first, and is cancelled when the client leaves.
pub(crate) async fn reading_git<T, F>(
    app: &AppState,
    directory: &Path,
    work: F,
) -> Result<T, ApiError>
where
    T: Send + 'static,
    F: FnOnce(&AppState) -> Result<T, ApiError> + Send + 'static,
{
    let at = directory.to_owned();
    let repository = app.run_blocking(move |app| {
        // What is wrong with the repository is for `work` to say.
        let found = app.engine().projects().repositories().find_reader(&at).ok().flatten();
        Ok(found.map_or(at, |repository| repository.common_dir().to_owned()))
    });
    let (repository, worker) = (repository.await?, app.clone());
    app.in_flight().git.run(&repository, move || work(&worker)).await
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::time::Duration;

    use super::*;

    /// Waiting longer is a failure.
    const PATIENCE: Duration = Duration::from_secs(60);

    /// Work that signals its beginning and goes on until it is allowed to end.
    fn blocked_work(
        began: &Sender<()>,
        gate: &Arc<Mutex<Receiver<()>>>,
    ) -> impl FnOnce() -> Result<(), ApiError> + Send + use<> {
        let (began, gate) = (began.clone(), gate.clone());
        move || {
            began.send(()).expect("the test waits");
            // Ends for all when the test drops the other side.
            gate.lock().expect("no panic").recv().ok();
            Ok(())
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn one_repository_neither_takes_all_places_nor_waits_without_end() {
        let pool = Arc::new(GitPool::default());
        let (closed, open) = channel();
        let gate = Arc::new(Mutex::new(open));
        let (began_in, began) = channel();
        let start = || {
            let (pool, work) = (pool.clone(), blocked_work(&began_in, &gate));
            tokio::spawn(async move { pool.run(Path::new("/a"), work).await })
        };
        let first: Vec<_> = (0..RUNNING + WAITING).map(|_| start()).collect();
        tokio::task::block_in_place(|| {
            (0..RUNNING).for_each(|_| began.recv_timeout(PATIENCE).expect("it begins"));
        });
        let (_use, own) = pool.enter(Path::new("/a"));
        while own.room() > 0 {
            tokio::task::yield_now().await;
        }
        let refused = pool.run(Path::new("/a"), || Ok(())).await.expect_err("no room is left");
        assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
        pool.run(Path::new("/b"), || Ok(())).await.expect("another repository is served");
        assert!(began.try_recv().is_err(), "only {RUNNING} run at the same time");
        drop(closed);
        for one in first {
            one.await.expect("no panic").expect("done");
        }
        drop((_use, own));
        assert!(pool.repositories.lock().expect("free").is_empty(), "nothing is kept");
    }
}
