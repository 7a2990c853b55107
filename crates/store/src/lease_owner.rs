//! Owners and leases (R27): a process is alive while it holds the kernel lock on its owner file.

use std::fs::File;
use std::path::PathBuf;

use turnstone_core::call_context::{Context, Lease, OwnerId};
use turnstone_core::id::SessionId;
use turnstone_core::time::EpochMillis;

use crate::data_layout::{DataLayout, open_private_file};
use crate::error::{Result, StoreError};
use crate::store::Store;
use crate::table_row_ids::SessionNum;
use crate::tx::Tx;

/// Where locks do not work, an owner counts as dead after this long without a heartbeat.
pub(crate) const HEARTBEAT_TIMEOUT_MS: i64 = 30_000;

/// This process as a holder of leases; its file is locked as long as it lives.
pub(crate) struct OwnerRegistration {
    pub(crate) id: OwnerId,
    file: File,
    path: PathBuf,
}

impl OwnerRegistration {
    /// Makes and locks this process's owner file.
    pub(crate) fn register(layout: &DataLayout) -> Result<Self> {
        let mut random = [0; 8];
        getrandom::fill(&mut random).map_err(|e| StoreError::Io(e.to_string()))?;
        let id = OwnerId::new(format!("owner-{:016x}", u64::from_le_bytes(random)));
        let path = owner_path(layout, &id);
        let file = open_private_file(&path)?;
        // Waits out somebody who is just looking whether this file is locked.
        if let Err(error) = file.lock() {
            tracing::warn!(%error, "file locks do not work here; leases rely on heartbeats");
        }
        // Only for people who look; nothing reads it.
        drop(std::io::Write::write_all(&mut &file, std::process::id().to_string().as_bytes()));
        Ok(Self { id, file, path })
    }

    /// Shows that this process lives, where locks do not; not a database write.
    pub(crate) fn heartbeat(&self, now: EpochMillis) -> Result<()> {
        let at = std::time::UNIX_EPOCH
            + std::time::Duration::from_millis(u64::try_from(now.0).unwrap_or(0));
        Ok(self.file.set_modified(at)?)
    }
}

impl Drop for OwnerRegistration {
    fn drop(&mut self) {
        drop(fs_err::remove_file(&self.path));
    }
}

fn owner_path(layout: &DataLayout, id: &OwnerId) -> PathBuf {
    layout.locks().join(id.as_str())
}

/// True if the process behind `id` holds its lock, or, where locks do not work, beat recently.
pub(crate) fn is_alive(layout: &DataLayout, id: &OwnerId, now: EpochMillis) -> Result<bool> {
    let path = owner_path(layout, id);
    let file = match fs_err::OpenOptions::new().read(true).write(true).open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error.into()),
    };
    // Shared, so that two who look at once do not take each other for the owner.
    match file.file().try_lock_shared() {
        Ok(()) => Ok(false),
        Err(std::fs::TryLockError::WouldBlock) => Ok(true),
        Err(std::fs::TryLockError::Error(_)) => {
            let modified = file.metadata()?.modified()?;
            let beat = modified.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
            Ok(now.0 - i64::try_from(beat.as_millis()).unwrap_or(i64::MAX) < HEARTBEAT_TIMEOUT_MS)
        }
    }
}

/// The owner of this name; nothing if it is not the name of one.
pub(crate) fn parse_owner_id(name: &str) -> Option<OwnerId> {
    let body = name.strip_prefix("owner-")?;
    let is_plain = body.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    is_plain.then(|| OwnerId::new(name.to_owned()))
}

/// Removes owner files of dead processes; call it with the open lock held.
pub(crate) fn remove_dead_owner_files(layout: &DataLayout, now: EpochMillis) -> Result<()> {
    for entry in fs_err::read_dir(layout.locks())?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with("owner-") && !is_alive(layout, &OwnerId::new(name), now)? {
            drop(fs_err::remove_file(entry.path()));
        }
    }
    Ok(())
}

/// The living processes that have the store open; call it with the open lock held.
pub(crate) fn list_live_owners(layout: &DataLayout, now: EpochMillis) -> Result<Vec<OwnerId>> {
    let mut living = Vec::new();
    for entry in fs_err::read_dir(layout.locks())? {
        let id = OwnerId::new(entry?.file_name().to_string_lossy().into_owned());
        if id.as_str().starts_with("owner-") && is_alive(layout, &id, now)? {
            living.push(id);
        }
    }
    Ok(living)
}

/// The same without `own`, as error messages describe them.
pub(crate) fn describe_other_owners(
    layout: &DataLayout,
    own: &OwnerId,
    now: EpochMillis,
) -> Result<Vec<String>> {
    let others = list_live_owners(layout, now)?.into_iter().filter(|id| id != own);
    let describe = |id: OwnerId| {
        let pid = fs_err::read_to_string(owner_path(layout, &id)).unwrap_or_default();
        format!("process {} ({})", pid.trim(), id.as_str())
    };
    let mut living: Vec<String> = others.map(describe).collect();
    living.sort_unstable();
    Ok(living)
}

/// How to get a lease that another process holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseTakeoverPolicy {
    /// Only if that process is dead.
    IfDead,
    /// Even if it lives: it is fenced from then on.
    Force,
}

/// A request for the lease on a session, on behalf of this process.
#[derive(Clone, Debug)]
pub struct LeaseRequest {
    pub(crate) layout: DataLayout,
    pub(crate) session: SessionId,
    pub(crate) owner: OwnerId,
    pub(crate) takeover: LeaseTakeoverPolicy,
}

/// Takes and releases the lease of a session.
#[derive(Clone, Copy)]
pub struct LeaseMutations<'a> {
    pub(crate) tx: &'a Tx<'a>,
}

impl LeaseMutations<'_> {
    /// Who holds the lease on a session, and its epoch.
    pub(crate) fn holder(&self, session: SessionNum) -> Result<(Option<OwnerId>, i64)> {
        let (owner, epoch): (Option<String>, i64) = self
            .tx
            .conn
            .prepare_cached("SELECT owner, epoch FROM stream WHERE session = ?1")?
            .query_row([session], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok((owner.map(OwnerId::new), epoch))
    }

    /// Takes the lease on a session and runs `work` under it: both are committed, or neither.
    ///
    /// # Errors
    ///
    /// [`StoreError::Busy`] if a living process holds the lease; what `work` answers.
    pub fn run_leased<T>(
        &self,
        request: &LeaseRequest,
        work: impl FnOnce(&Tx<'_>) -> Result<T>,
    ) -> Result<(Lease, T)> {
        let lease = self.acquire(request)?;
        let result = self.tx.run_under_lease(&lease, work)?;
        Ok((lease, result))
    }

    /// Takes the lease on a session for the owner of the request. Held by the same owner, it stays as it is.
    pub(crate) fn acquire(&self, request: &LeaseRequest) -> Result<Lease> {
        let LeaseRequest { layout, session, owner, takeover } = request;
        let num = self.tx.session_num(session)?;
        let (holder, epoch) = self.holder(num)?;
        match holder {
            Some(holder) if holder == *owner => {
                return Ok(Lease { session: session.clone(), owner: holder, epoch });
            }
            Some(holder)
                if *takeover == LeaseTakeoverPolicy::IfDead
                    && is_alive(layout, &holder, self.tx.now())? =>
            {
                return Err(StoreError::Busy(session.clone()));
            }
            _ => {}
        }
        let epoch = self.set_holder(num, Some(owner))?;
        Ok(Lease { session: session.clone(), owner: owner.clone(), epoch })
    }

    /// Gives the session to `owner`, or releases it; the former holder is fenced.
    pub(crate) fn set_holder(&self, session: SessionNum, owner: Option<&OwnerId>) -> Result<i64> {
        Ok(self
            .tx
            .conn
            .prepare_cached(
                "UPDATE stream SET owner = ?2, epoch = epoch + 1 WHERE session = ?1
                 RETURNING epoch",
            )?
            .query_row((session, owner.map(OwnerId::as_str)), |row| row.get(0))?)
    }

    /// Gives a lease back. Returns false if somebody else holds it by now, or needs it: one process
    /// has one lease on a session, and another thread of it may have begun a turn meanwhile.
    ///
    /// # Errors
    ///
    /// Only what the database refuses.
    pub fn release(&self, lease: &Lease) -> Result<bool> {
        let changed = self
            .tx
            .conn
            .prepare_cached(
                "UPDATE stream SET owner = NULL WHERE id = ?1 AND owner = ?2 AND epoch = ?3
                   AND NOT EXISTS (SELECT 1 FROM turn
                                   WHERE turn.session = stream.session AND ended IS NULL)",
            )?
            .execute((lease.session.as_str(), lease.owner.as_str(), lease.epoch))?;
        Ok(changed == 1)
    }
}

/// Takes, releases and examines the leases of sessions for this process.
#[derive(Clone, Copy)]
pub struct SessionLeases<'a> {
    pub(crate) store: &'a Store,
}

impl<'a> SessionLeases<'a> {
    /// Releases a lease after a turn.
    ///
    /// # Errors
    ///
    /// Errors of the database. Returns false if the lease was lost before, or an open turn needs it.
    pub fn release(&self, ctx: &Context, lease: &Lease) -> Result<bool> {
        let lease = lease.clone();
        self.store.write(ctx, move |tx| tx.leases().release(&lease)).wait()
    }

    /// The name of this process as a holder of leases.
    ///
    /// # Errors
    ///
    /// [`StoreError::ReadOnly`].
    pub fn owner_id(&self) -> Result<&'a OwnerId> {
        Ok(&self.store.owner()?.id)
    }

    /// Takes the lease on a session (R27).
    ///
    /// # Errors
    ///
    /// [`StoreError::Busy`] if a living process holds it.
    pub fn acquire(
        &self,
        ctx: &Context,
        session: &SessionId,
        takeover: LeaseTakeoverPolicy,
    ) -> Result<Lease> {
        let request = self.request(session, takeover)?;
        self.store.write(ctx, move |tx| tx.leases().acquire(&request)).wait()
    }

    /// A request for the lease on a session, to be used inside a transaction: see
    /// [`LeaseMutations::run_leased`].
    ///
    /// # Errors
    ///
    /// [`StoreError::ReadOnly`].
    pub fn request(
        &self,
        session: &SessionId,
        takeover: LeaseTakeoverPolicy,
    ) -> Result<LeaseRequest> {
        let (layout, owner) = (self.store.layout().clone(), self.owner_id()?.clone());
        Ok(LeaseRequest { layout, session: session.clone(), owner, takeover })
    }

    /// True if a living process, this one included, holds the lease on a session.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSession`].
    pub fn is_held(&self, ctx: &Context, session: &SessionId) -> Result<bool> {
        match self.store.read(ctx, |r| r.turns().lease_holder(session))? {
            Some(owner) => is_alive(self.store.layout(), &owner, ctx.now),
            None => Ok(false),
        }
    }

    /// Shows other processes that this one is alive, where file locks do not work.
    ///
    /// # Errors
    ///
    /// If the owner file cannot be touched.
    pub fn heartbeat(&self, now: EpochMillis) -> Result<()> {
        self.store.owner()?.heartbeat(now)
    }

    /// Archived sessions that say under `mark` which process works on them, and it is dead.
    ///
    /// # Errors
    ///
    /// Only what the database refuses, or an owner that cannot be looked at.
    pub fn find_abandoned_sessions(&self, ctx: &Context, mark: &str) -> Result<Vec<SessionId>> {
        let mut found = Vec::new();
        for session in self.store.read(ctx, |r| r.sessions().archived_with_field(mark))? {
            let owner = session.extra.get(mark).and_then(serde_json::Value::as_str);
            // Anything else was not written by us, and says nothing.
            let Some(owner) = owner.and_then(parse_owner_id) else { continue };
            if !is_alive(self.store.layout(), &owner, ctx.now)? {
                found.push(session.id);
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probing_an_owner_file_does_not_make_it_look_alive() {
        let dir = tempfile::tempdir().expect("temp dir");
        let layout = DataLayout::new(dir.path());
        layout.create().expect("made");
        let now = EpochMillis(0);
        let owner = OwnerRegistration::register(&layout).expect("registered");
        assert!(is_alive(&layout, &owner.id, now).expect("looks"));
        // R27: a dead owner's file, which another process is just looking at.
        let dead = OwnerId::new("owner-dead".to_owned());
        let looking = open_private_file(&owner_path(&layout, &dead)).expect("made");
        looking.lock_shared().expect("locked");
        assert!(!is_alive(&layout, &dead, now).expect("looks"));
        remove_dead_owner_files(&layout, now).expect("swept");
        assert!(!owner_path(&layout, &dead).exists());
        assert!(owner_path(&layout, &owner.id).exists(), "a living owner's file stays");
    }
}
