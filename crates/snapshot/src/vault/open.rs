//! A vault, open: asks itself if it keeps the store, and the keeper if it does not.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use turnstone_core::time::Millis;

use super::client::{self, Unanswered};
use super::error::{Failure, FailureKind, VaultError};
use super::keeper::{Keeper, open_root};
use super::listing::{ListedCapture, ListedFile};
use super::request::{Answer, Envelope, Receipt, Request, VERSION};
use super::socket;
use super::verify::Verified;
use super::work::serve;
use crate::capture::{Capture, Captured};
use crate::diff::{Diff, DiffOptions};
use crate::gc::{GcReport, Usage};
use crate::group::Group;
use crate::object::ObjectError;
use crate::path::RelPath;
use crate::registry::{Place, Registry};
use crate::restore::{Operation, OperationId, Order, Plan, Report, Wish};
use crate::shadow::Shadow;
use crate::walk::Selection;
use crate::worktree::RootPolicy;

/// How long a kept store is asked for before it is called unreachable: so many times, so long apart.
const TRIES: u32 = 500;
const PAUSE: Duration = Duration::from_millis(20);

/// How a vault is opened.
#[derive(Clone, Debug)]
pub struct VaultOptions {
    /// What is captured.
    pub selection: Selection,
    /// Which roots are refused.
    pub policy: RootPolicy,
    /// True to make a store for a directory that has none.
    pub make: bool,
    /// How long a keeper may take for one request.
    pub patience: Duration,
}

impl Default for VaultOptions {
    fn default() -> Self {
        Self {
            selection: Selection::default(),
            policy: RootPolicy::default(),
            make: true,
            patience: Duration::from_secs(1800),
        }
    }
}

/// The store of a directory, for whoever wants something of it.
pub struct Vault {
    place: Place,
    data: PathBuf,
    socket: PathBuf,
    options: VaultOptions,
    /// When it was opened.
    opened: Millis,
    side: Mutex<Side>,
}

/// Which side of the socket this process is on.
#[derive(Clone)]
enum Side {
    Keeper(Arc<Keeper>),
    /// Reads by itself, once somebody has made the store.
    Reader(Option<Arc<Shadow>>),
}

impl Vault {
    /// Opens the store of `directory`; this process becomes its keeper if nobody is (R11).
    ///
    /// `runtime` is where the socket goes: a directory of this user's that is closed to others, made
    /// if need be; without one, a folder in the data directory.
    ///
    /// # Errors
    ///
    /// See [`VaultError`].
    pub fn open(
        data: &Path,
        runtime: Option<&Path>,
        directory: &Path,
        options: VaultOptions,
        now: Millis,
    ) -> Result<Self, VaultError> {
        let registry = Registry::new(data);
        let found = match options.make {
            true => Some(registry.open(directory, &options.policy, now)?),
            false => match registry.find(directory, &options.policy)? {
                Some(_) => Some(registry.open(directory, &options.policy, now)?),
                None => None,
            },
        };
        let (mut place, _) = found.ok_or_else(|| VaultError::Untracked(directory.to_owned()))?;
        place.folder = fs_err::canonicalize(&place.folder)?;
        let data = fs_err::canonicalize(data)?;
        let runtime = runtime.map_or_else(|| data.join("run"), Path::to_owned);
        let socket = socket::path(&runtime, &place.folder)?;
        let side = Mutex::new(Side::Reader(None));
        let vault = Self { place, data, socket, options, opened: now, side };
        vault.try_keep(now)?;
        Ok(vault)
    }

    /// Which store it is, and how it was found.
    #[must_use]
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// True if this process keeps the store.
    #[must_use]
    pub fn is_keeper(&self) -> bool {
        matches!(&*self.side(), Side::Keeper(_))
    }

    /// True if this process keeps the store and others can ask it.
    #[must_use]
    pub fn is_listening(&self) -> bool {
        matches!(&*self.side(), Side::Keeper(keeper) if keeper.is_listening())
    }

    /// Restores that were cut off and that this process finished when it became the keeper.
    #[must_use]
    pub fn resumed(&self) -> Vec<Report> {
        match &*self.side() {
            Side::Keeper(keeper) => keeper.resumed.clone(),
            Side::Reader(_) => Vec::new(),
        }
    }

    /// Becomes the keeper if nobody is; returns whether this process is the keeper now.
    ///
    /// # Errors
    ///
    /// The store cannot be opened, or what was cut off not be finished.
    pub fn try_keep(&self, now: Millis) -> Result<bool, VaultError> {
        let mut side = self.side();
        if let Side::Reader(_) = &*side {
            let Self { place, options, data, socket, .. } = self;
            if let Some(keeper) = Keeper::become_one(place, options, data, socket, now)? {
                *side = Side::Keeper(Arc::new(keeper));
            }
        }
        Ok(matches!(&*side, Side::Keeper(_)))
    }

    fn side(&self) -> MutexGuard<'_, Side> {
        self.side.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The store, to read from.
    pub(super) fn shadow(&self) -> Result<Arc<Shadow>, VaultError> {
        match &*self.side() {
            Side::Keeper(keeper) => return Ok(keeper.shadow.clone()),
            Side::Reader(Some(shadow)) => return Ok(shadow.clone()),
            Side::Reader(None) => {}
        }
        // A keeper that answers has made it; perhaps this process is the keeper afterwards.
        self.ask(&Request::Hello, self.opened)?;
        let mut side = self.side();
        match &mut *side {
            Side::Keeper(keeper) => Ok(keeper.shadow.clone()),
            Side::Reader(reader) => {
                let shadow = Shadow::open_to_read(&self.place.folder, open_root(&self.place)?)?;
                Ok(reader.insert(Arc::new(shadow)).clone())
            }
        }
    }

    /// Does it, or lets the keeper do it; takes over if the keeper ends before it answers.
    fn ask(&self, request: &Request, now: Millis) -> Result<Answer, VaultError> {
        let envelope = || Envelope {
            version: VERSION,
            store: self.place.id.to_string(),
            request: request.clone(),
        };
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        for _ in 0..TRIES {
            self.try_keep(now)?;
            let side = self.side().clone();
            if let Side::Keeper(keeper) = side {
                return serve(&keeper.shadow, request);
            }
            let path = socket::announced(&self.place.folder, &self.socket);
            match client::ask(&path, &envelope(), self.options.patience) {
                Ok(answer) => return Ok(answer),
                Err(Unanswered::Refused(failure)) => return Err(failure.into()),
                Err(Unanswered::Silent(source)) => return Err(self.unreachable(source)),
                Err(Unanswered::Gone(error)) => last = error,
            }
            std::thread::sleep(PAUSE);
        }
        Err(self.unreachable(last))
    }

    fn unreachable(&self, source: io::Error) -> VaultError {
        let who = fs_err::read_to_string(self.place.folder.join("keeper")).unwrap_or_default();
        VaultError::Unreachable { who, source }
    }
}

/// An answer to another question: a keeper that does that is not of this version.
fn strange() -> VaultError {
    Failure::new(FailureKind::Malformed, "the keeper answered another question").into()
}

impl Vault {
    /// Captures the whole worktree and pins it in `group`.
    ///
    /// # Errors
    ///
    /// See [`VaultError`].
    pub fn track(&self, group: &Group, now: Millis) -> Result<Captured, VaultError> {
        let group = group.name().to_owned();
        self.captured(&Request::Capture { group, now }, now)
    }

    /// Captures some paths, whatever the rules say of them (R6).
    ///
    /// # Errors
    ///
    /// See [`VaultError`].
    pub fn capture_named(
        &self,
        group: &Group,
        paths: &BTreeSet<RelPath>,
        keep: bool,
        now: Millis,
    ) -> Result<Captured, VaultError> {
        let (group, paths) = (group.name().to_owned(), paths.iter().cloned().collect());
        self.captured(&Request::CaptureNamed { group, paths, keep, now }, now)
    }

    fn captured(&self, request: &Request, now: Millis) -> Result<Captured, VaultError> {
        let Answer::Captured(receipt) = self.ask(request, now)? else {
            return Err(strange());
        };
        let Receipt { id, files, changed, mode, is_new } = receipt;
        let capture = self.shadow()?.get_capture(&id)?;
        Ok(Captured { capture, files, changed, mode, is_new })
    }

    /// Plans to make the worktree, or some paths of it, equal to a capture.
    ///
    /// # Errors
    ///
    /// See [`VaultError`].
    pub fn plan_restore(
        &self,
        target: &Capture,
        paths: Option<&BTreeSet<RelPath>>,
        keep_added: bool,
        now: Millis,
    ) -> Result<Plan, VaultError> {
        let paths = paths.map(|paths| paths.iter().cloned().collect());
        let request = Request::PlanRestore { target: target.id, paths, keep_added, now };
        self.planned(&request, now)
    }

    /// Plans to bring paths to what is wished, keeping what was changed since.
    ///
    /// # Errors
    ///
    /// See [`VaultError`].
    pub fn plan(&self, wishes: &[Wish], now: Millis) -> Result<Plan, VaultError> {
        self.planned(&Request::Plan { wishes: wishes.to_vec() }, now)
    }

    /// Plans to take an operation back, keeping what was changed since.
    ///
    /// # Errors
    ///
    /// See [`VaultError`].
    pub fn plan_undo(&self, operation: &OperationId, now: Millis) -> Result<Plan, VaultError> {
        self.planned(&Request::PlanUndo { operation: operation.clone() }, now)
    }

    fn planned(&self, request: &Request, now: Millis) -> Result<Plan, VaultError> {
        let Answer::Planned(plan) = self.ask(request, now)? else {
            return Err(strange());
        };
        Ok(*plan)
    }

    /// Carries an order out, once, however often it is asked for.
    ///
    /// # Errors
    ///
    /// See [`VaultError`].
    pub fn apply(&self, order: &Order, now: Millis) -> Result<Report, VaultError> {
        let request = Request::Apply { order: Box::new(order.clone()), now };
        let Answer::Applied(report) = self.ask(&request, now)? else {
            return Err(strange());
        };
        Ok(*report)
    }

    /// Drops groups whose newest capture is older than `keep` milliseconds, and what nobody pins.
    ///
    /// # Errors
    ///
    /// See [`VaultError`].
    pub fn gc(&self, keep: i64, now: Millis, dry_run: bool) -> Result<GcReport, VaultError> {
        let Answer::Collected(report) = self.ask(&Request::Gc { keep, now, dry_run }, now)? else {
            return Err(strange());
        };
        Ok(report)
    }
}

impl Vault {
    /// Lists the captures of every group, newest first.
    ///
    /// # Errors
    ///
    /// The store cannot be read.
    pub fn list_captures(&self) -> Result<Vec<ListedCapture>, VaultError> {
        let shadow = self.shadow()?;
        match shadow.list_all() {
            // A collection dropped a group while it was being followed.
            Err(ObjectError::Missing(_)) => Ok(shadow.list_all()?),
            listed => Ok(listed?),
        }
    }

    /// Finds the capture that a tree, a capture's id, or a beginning of either means.
    ///
    /// # Errors
    ///
    /// As [`Shadow::find_capture`].
    pub fn find_capture(&self, text: &str) -> Result<Capture, VaultError> {
        self.shadow()?.find_capture(text)
    }

    /// Lists the files of a capture.
    ///
    /// # Errors
    ///
    /// The store cannot be read.
    pub fn list_files(&self, capture: &Capture) -> Result<Vec<ListedFile>, VaultError> {
        Ok(self.shadow()?.list_files(capture)?)
    }

    /// Compares two captures.
    ///
    /// # Errors
    ///
    /// The store cannot be read.
    pub fn diff(
        &self,
        one: &Capture,
        other: &Capture,
        options: &DiffOptions,
    ) -> Result<Diff, VaultError> {
        Ok(self.shadow()?.diff(one, other, options)?)
    }

    /// Compares a capture with the worktree as it is now.
    ///
    /// # Errors
    ///
    /// The worktree cannot be captured, or the store not be read.
    pub fn diff_worktree(
        &self,
        one: &Capture,
        options: &DiffOptions,
        now: Millis,
    ) -> Result<Diff, VaultError> {
        let present = self.track(&Group::new(super::work::LOOK), now)?.capture;
        self.diff(one, &present, options)
    }

    /// Lists the operations that were done, newest first.
    ///
    /// # Errors
    ///
    /// The store cannot be read.
    pub fn list_operations(&self) -> Result<Vec<Operation>, VaultError> {
        Ok(self.shadow()?.list_operations()?)
    }

    /// Finds the operation whose id begins so; the newest one for nothing.
    ///
    /// # Errors
    ///
    /// [`VaultError::NothingToUndo`] and [`VaultError::NoOperation`].
    pub fn find_operation(&self, text: Option<&str>) -> Result<Operation, VaultError> {
        let mut all = self.list_operations()?;
        let Some(text) = text else {
            let none = || VaultError::NothingToUndo(self.place.root.clone());
            return all.into_iter().next().ok_or_else(none);
        };
        all.retain(|operation| operation.id.as_str().starts_with(text));
        match all.len() {
            1 => Ok(all.remove(0)),
            _ => Err(VaultError::NoOperation(text.to_owned())),
        }
    }

    /// Says what takes space in the store.
    ///
    /// # Errors
    ///
    /// The store cannot be read.
    pub fn usage(&self) -> Result<Usage, VaultError> {
        Ok(self.shadow()?.usage()?)
    }

    /// Reads every object that is pinned and compares it with its name.
    ///
    /// # Errors
    ///
    /// As [`Shadow::verify`].
    pub fn verify(&self) -> Result<Verified, VaultError> {
        Ok(self.shadow()?.verify()?)
    }

    /// The bare repository, for plain git.
    ///
    /// # Errors
    ///
    /// The store cannot be opened.
    pub fn git_dir(&self) -> Result<PathBuf, VaultError> {
        Ok(self.shadow()?.git_dir().to_owned())
    }
}
