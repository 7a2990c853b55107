//! Finishing deletions: what a deleted session held leaves captures, database, search and spilled output (R23).
//!
//! Owns the order. Captures are deleted first, because the rows of the session's operations name the guards; then the rows, the
//! output, the read stamps, and at last what the rows left in free pages. The database remembers a deletion until all of it is done, so
//! a process that finds one continues. Copies in forks and backups stay.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use fail::fail_point;
use turnstone_core::change::ChangeRoot;
use turnstone_core::id::SessionId;
use turnstone_snapshot::{
    DeletedGroups, GcRequest, PinGroup, RemovalError, SnapshotError, StoreLocation,
    find_deleted_groups, remove_store,
};
use turnstone_store::{Context, PendingDeletion, SessionFilter, Store};

use crate::captures::operation_guard::CaptureRetention;
use crate::captures::snapshot_handles::SnapshotHandles;
use crate::captures::trace::TraceFiles;
use crate::error::Result;
use crate::maintenance::folder_entries::list_entries;
use crate::maintenance::scheduled_maintenance::{remove_if_present, remove_orphaned_outputs};
use crate::tool_calls::file::stamp_file_path;

/// Sessions read at once.
const PAGE: usize = 200;

/// What finishing deletions did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ErasureReport {
    /// Sessions of which nothing is left.
    pub sessions: Vec<SessionId>,
    /// Snapshot stores that still hold captures of them: their directory is gone, so that they cannot be opened, and
    /// they hold captures of other sessions.
    pub unreachable_stores: Vec<PathBuf>,
}

/// Copies of deleted sessions, which a deletion leaves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RetainedCopies {
    /// Sessions that were forked from them, or from their forks.
    pub forks: Vec<SessionId>,
    /// Copies of the database, which may hold them.
    pub backups: Vec<PathBuf>,
    /// Links of their shares that could not be ended: these are still public.
    pub shares: Vec<String>,
}

/// Removes what deleted sessions held from captures, database, search and output.
#[derive(Clone)]
pub struct SessionEraser {
    pub(crate) store: Arc<Store>,
    pub(crate) snapshots: Arc<SnapshotHandles>,
    pub(crate) pins: CaptureRetention,
    pub(crate) data: PathBuf,
    pub(crate) traces: TraceFiles,
    /// Held while deletions are finished.
    pub(crate) running: Arc<Mutex<()>>,
}

impl SessionEraser {
    /// The deletions that are not finished.
    ///
    /// # Errors
    ///
    /// The database cannot be read.
    pub fn pending_deletions(&self, ctx: &Context) -> Result<Vec<PendingDeletion>> {
        Ok(self.store.maintenance().pending_deletions(ctx)?)
    }

    /// Finishes the deletions that are pending. Afterwards nothing that these sessions held is in the data directory,
    /// except in [`RetainedCopies`] and where another session captured the same file.
    ///
    /// Rewrites the database, so writers wait meanwhile. Run by several at once, or again, it does everything once.
    ///
    /// # Errors
    ///
    /// A store or the database refused; the next call continues.
    pub fn finish_deletions(&self, ctx: &Context) -> Result<ErasureReport> {
        let ctx = &ctx.without_preconditions();
        let _running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let pending = self.pending_deletions(ctx)?;
        let mut report = ErasureReport::default();
        if pending.is_empty() {
            return Ok(report);
        }
        fail_point!("engine::deletion_acknowledged", |_| {
            Err(std::io::Error::other("failpoint").into())
        });
        report.sessions = pending.iter().map(|deleted| deleted.session.clone()).collect();
        self.erase_captures(ctx, &mut report)?;
        fail_point!("engine::erased_captures", |_| Err(std::io::Error::other("failpoint").into()));
        self.store.maintenance().purge_sessions(ctx, &pending)?;
        fail_point!("engine::erased_rows", |_| Err(std::io::Error::other("failpoint").into()));
        self.traces.remove_closed(&self.store, ctx)?;
        remove_orphaned_outputs(&self.store, &self.data.join("output"), ctx)?;
        for session in &report.sessions {
            remove_if_present(&stamp_file_path(&self.data, session))?;
        }
        fail_point!("engine::erased_outputs", |_| Err(std::io::Error::other("failpoint").into()));
        self.store.maintenance().erase_traces(ctx, &pending)?;
        Ok(report)
    }

    /// Names the copies of these deleted sessions that a deletion leaves.
    ///
    /// # Errors
    ///
    /// The database or the data directory cannot be read.
    pub fn find_retained_copies(
        &self,
        ctx: &Context,
        deleted: &[SessionId],
    ) -> Result<RetainedCopies> {
        let forks = self.find_forks(ctx, deleted)?;
        let backups = list_entries(&self.store.layout().backups())?;
        let backups: Vec<PathBuf> = backups.into_iter().map(|(path, _)| path).collect();
        let shares = self.store.read(ctx, |r| r.shares().list_unrevoked())?;
        let shares = shares.into_iter().filter(|kept| deleted.contains(&kept.session));
        Ok(RetainedCopies { forks, backups, shares: shares.map(|kept| kept.share.url).collect() })
    }

    /// The sessions that are copies of these, over any number of forks, newest change first.
    fn find_forks(&self, ctx: &Context, deleted: &[SessionId]) -> Result<Vec<SessionId>> {
        let filter = SessionFilter { archived: true, ..SessionFilter::default() };
        let (mut forks, mut origins, mut cursor) = (Vec::new(), BTreeMap::new(), None);
        loop {
            let at: Option<String> = cursor.take();
            let page = self.store.read(ctx, |r| r.sessions().list(&filter, at.as_deref(), PAGE))?;
            for row in page.items {
                let origin = row.session.origin.map(|origin| origin.session);
                forks.extend(origin.as_ref().map(|_| row.session.id.clone()));
                origins.insert(row.session.id, origin);
            }
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
        let find = |id: &SessionId| match origins.get(id) {
            Some(origin) => Ok(origin.clone()),
            None => self.store.read(ctx, |r| r.sessions().find_origin_of_deleted(id)),
        };
        let mut copies = Vec::new();
        for fork in forks {
            let (mut seen, mut at) = (BTreeSet::new(), find(&fork)?);
            while let Some(origin) = at.take().filter(|origin| seen.insert(origin.clone())) {
                if deleted.contains(&origin) {
                    copies.push(fork);
                    break;
                }
                at = find(&origin)?;
            }
        }
        Ok(copies)
    }

    /// Drops the captures of deleted sessions from every store that holds some.
    fn erase_captures(&self, ctx: &Context, report: &mut ErasureReport) -> Result<()> {
        let groups = self.pins.deleted_pin_groups(ctx, &report.sessions)?;
        let registry = self.snapshots.registry();
        registry.finish_removals().map_err(SnapshotError::from)?;
        // Nothing else expires: scheduled maintenance, which knows what is live, decides over that.
        let request = GcRequest {
            live: BTreeSet::new(),
            deleted: groups.iter().map(|group| group.name().to_owned()).collect(),
            keep: i64::MAX,
            effort: u64::MAX,
            dry_run: false,
            now: ctx.now,
        };
        for location in registry.list_locations().map_err(SnapshotError::from)? {
            let held = find_deleted_groups(&location.folder, &groups)?;
            if !held.has_deleted {
                continue;
            }
            let store = location.id.to_string();
            let path = location.root.to_string_lossy().into_owned();
            if self.snapshots.find_root_error(&ChangeRoot { store, path })?.is_some() {
                if !remove_abandoned_store(&location, held)? {
                    report.unreachable_stores.push(location.folder);
                }
                continue;
            }
            self.erase_captures_in(ctx, &location, &groups, &request)?;
        }
        Ok(())
    }

    fn erase_captures_in(
        &self,
        ctx: &Context,
        location: &StoreLocation,
        groups: &BTreeSet<PinGroup>,
        request: &GcRequest,
    ) -> Result<()> {
        let by_root = self.snapshots.find(&location.root, ctx.now).ok().flatten();
        // After a relink, a root has the store of its former place too.
        let handle = match by_root.filter(|handle| handle.location().id == location.id) {
            Some(handle) => handle,
            None => self.snapshots.open_by_id(&location.id, &location.folder, ctx.now)?,
        };
        handle.maintenance().collect_garbage(request)?;
        // The store may belong to a process of an older version, which does not know this request.
        if find_deleted_groups(&location.folder, groups)?.has_deleted {
            let reason = "the captures of a deleted session are still there; try again when the other process has ended";
            return Err(std::io::Error::other(reason).into());
        }
        Ok(())
    }
}

/// Removes the store of a directory that is gone, if it holds nothing but captures of deleted sessions.
fn remove_abandoned_store(location: &StoreLocation, held: DeletedGroups) -> Result<bool> {
    let Some(stores) = location.folder.parent().filter(|_| !held.has_others) else {
        return Ok(false);
    };
    match remove_store(stores, location.id.as_str()) {
        Ok(_) => Ok(true),
        Err(RemovalError::Io(error)) => Err(error.into()),
        Err(error) => Err(std::io::Error::other(error).into()),
    }
}
