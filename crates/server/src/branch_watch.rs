//! Which branch a checkout is on, and telling clients when it is another one.
//!
//! Small files hold it, so git is not started: those of every directory that was asked about are read once a
//! second while the server runs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::json;
use turnstone_engine::read_git_position;

use crate::app::AppState;

/// How often is looked.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// What a checkout is at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CheckoutHead {
    /// On a branch.
    Branch(String),
    /// At a commit and on no branch.
    Detached,
    /// Nothing that can be read: no repository, or one that keeps its references elsewhere.
    Unknown,
}

impl CheckoutHead {
    /// What the checkout at `root` is at.
    pub(crate) fn read(root: &Path) -> Self {
        match read_git_position(root) {
            None => Self::Unknown,
            Some(point) if point.unknown => Self::Unknown,
            Some(point) => point.branch.map_or(Self::Detached, Self::Branch),
        }
    }
}

/// Tells the streams of a directory when its checkout is on another branch, for as long as the server runs.
pub(crate) async fn watch_branches(app: AppState) {
    let mut published: BTreeMap<PathBuf, CheckoutHead> = BTreeMap::new();
    loop {
        tokio::time::sleep(POLL_INTERVAL).await;
        let known = published.clone();
        match app.run_blocking(move |app| Ok(publish_branch_changes(app, known))).await {
            Ok(now) => published = now,
            Err(_) => tracing::warn!("the branches of checkouts could not be looked at"),
        }
    }
}

/// Looks at every directory that is known; what each is at now.
fn publish_branch_changes(
    app: &AppState,
    mut published: BTreeMap<PathBuf, CheckoutHead>,
) -> BTreeMap<PathBuf, CheckoutHead> {
    let places = app.project_directories().list();
    // What is not remembered any more is not compared either.
    published.retain(|directory, _| places.iter().any(|place| place.directory == *directory));
    for place in places {
        let before = published.entry(place.directory.clone()).or_insert(place.head);
        let now = CheckoutHead::read(&place.root);
        // In the middle of a switch there may be nothing to read.
        if now == CheckoutHead::Unknown || now == *before {
            continue;
        }
        let properties = match &now {
            CheckoutHead::Branch(branch) => json!({ "branch": branch }),
            CheckoutHead::Detached | CheckoutHead::Unknown => json!({}),
        };
        *before = now;
        app.hub().publish(&place.directory, "vcs.branch.updated", properties);
    }
    published
}
