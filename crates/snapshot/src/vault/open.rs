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
use super::request::{Answer, Envelope, Receipt, Request, Sweep, Swept, VERSION};
use super::socket;
use super::work::{serve, tend};
use crate::audit::Audit;
use crate::budget::Budget;
use crate::capture::{Capture, Captured};
use crate::group::Group;
use crate::journal::JournalStatus;
use crate::path::RelPath;
use crate::registry::{Place, Registry};
use crate::restore::{OperationId, Order, Plan, Report, Wish};
use crate::selection::Selection;
use crate::shadow::Shadow;
use crate::upkeep::Cadence;
use crate::worktree::{RootPolicy, Worktree};

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
    /// How much may be stored; the folder of all stores is filled in.
    pub budget: Budget,
    /// How long a keeper may take for one request.
    pub patience: Duration,
}

impl VaultOptions {
    /// What is captured of a worktree: never the data directory, should it lie there.
    pub(super) fn selection_in(&self, worktree: &Worktree, data: &Path) -> Selection {
        let mut selection = self.selection.clone();
        selection.own_data = selection.own_data.or_else(|| worktree.find_below(data));
        selection
    }
}

impl Default for VaultOptions {
    fn default() -> Self {
        Self {
            selection: Selection::default(),
            policy: RootPolicy::default(),
            make: true,
            budget: Budget::default(),
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
                let (folder, worktree) = (&self.place.folder, open_root(&self.place)?);
                let selection = self.options.selection_in(&worktree, &self.data);
                let shadow = Shadow::open_to_read(folder, worktree, selection)?;
                Ok(reader.insert(Arc::new(shadow)).clone())
            }
        }
    }

    /// Does it, or lets the keeper do it; takes over if the keeper ends before it answers.
    pub(super) fn ask(&self, request: &Request, now: Millis) -> Result<Answer, VaultError> {
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
        VaultError::Unreachable { who: self.keeper_words(), source }
    }

    /// What the keeper says of itself; for messages only.
    #[must_use]
    pub fn keeper_words(&self) -> String {
        let text = fs_err::read_to_string(self.place.folder.join("keeper")).unwrap_or_default();
        text.split(',').next().unwrap_or_default().to_owned()
    }
}

/// An answer to another question: a keeper that does that is not of this version.
pub(super) fn strange() -> VaultError {
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
        let Receipt { id, files, changed, reused, mode, journal, is_new } = receipt;
        let capture = self.shadow()?.get_capture(&id)?;
        Ok(Captured { capture, files, changed, reused, mode, journal, is_new })
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

    /// Lets old captures go, and what nobody pins.
    ///
    /// # Errors
    ///
    /// See [`VaultError`].
    pub fn gc(&self, sweep: &Sweep) -> Result<Swept, VaultError> {
        let Answer::Collected(swept) = self.ask(&Request::Gc(sweep.clone()), sweep.now)? else {
            return Err(strange());
        };
        Ok(*swept)
    }

    /// Does upkeep if this process keeps the store and it is time; nothing otherwise (R41).
    ///
    /// # Errors
    ///
    /// See [`VaultError`]; nothing is lost then.
    pub fn tend(&self, cadence: Cadence, sweep: &Sweep) -> Result<Option<Swept>, VaultError> {
        let side = self.side().clone();
        match side {
            Side::Keeper(keeper) if cadence.is_due(keeper.shadow.last_gc(), sweep.now) => {
                Ok(Some(tend(&keeper.shadow, sweep)?))
            }
            Side::Keeper(_) | Side::Reader(_) => Ok(None),
        }
    }

    /// Starts the journal, so that captures cost what changed; nothing if somebody else keeps the store.
    #[must_use]
    pub fn watch(&self) -> Option<JournalStatus> {
        match &*self.side() {
            Side::Keeper(keeper) => Some(keeper.shadow.watch()),
            Side::Reader(_) => None,
        }
    }

    /// How many files the last capture of the whole worktree had; zero if this process does not know.
    #[must_use]
    pub fn known_files(&self) -> usize {
        match &*self.side() {
            Side::Keeper(keeper) => keeper.shadow.picture().files(),
            Side::Reader(_) => 0,
        }
    }

    /// Audits the journal (R8); nothing if it is somebody else's business.
    ///
    /// # Errors
    ///
    /// The worktree cannot be walked.
    pub fn audit(&self, now: Millis) -> Result<Option<Audit>, VaultError> {
        let side = self.side().clone();
        match side {
            Side::Keeper(keeper) => Ok(Some(keeper.shadow.audit(now)?)),
            Side::Reader(_) => Ok(None),
        }
    }

    /// Audits the journal if that is due (R8); nothing if it is not, or somebody else's business.
    ///
    /// # Errors
    ///
    /// The worktree cannot be walked.
    pub fn audit_if_due(&self, now: Millis) -> Result<Option<Audit>, VaultError> {
        let side = self.side().clone();
        match side {
            Side::Keeper(keeper) if keeper.shadow.is_audit_due(now) => {
                Ok(Some(keeper.shadow.audit(now)?))
            }
            Side::Keeper(_) | Side::Reader(_) => Ok(None),
        }
    }

    /// Tells whether this process keeps the store and upkeep is due.
    #[must_use]
    pub fn is_due(&self, cadence: Cadence, now: Millis) -> bool {
        match &*self.side() {
            Side::Keeper(keeper) => cadence.is_due(keeper.shadow.last_gc(), now),
            Side::Reader(_) => false,
        }
    }

    /// How many objects this process has stored so far, to show that something happens.
    #[must_use]
    pub fn progress(&self) -> u64 {
        match &*self.side() {
            Side::Keeper(keeper) => keeper.shadow.stored_objects(),
            Side::Reader(_) => 0,
        }
    }
}
