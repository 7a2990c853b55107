//! What is asked of a keeper, and what it answers. Both are sent as JSON.

use serde::{Deserialize, Serialize};
use turnstone_core::time::Millis;

use super::error::Failure;
use crate::capture::{Captured, Mode};
use crate::gc::GcReport;
use crate::object::Oid;
use crate::path::RelPath;
use crate::restore::{OperationId, Order, Plan, Report, Wish};

/// The form of requests and answers; the keeper refuses any other.
pub(super) const VERSION: u32 = 1;

/// A request, and who it is for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Envelope {
    pub(super) version: u32,
    /// The store; a socket that was meant for another one refuses.
    pub(super) store: String,
    pub(super) request: Request,
}

/// What only a keeper can do.
///
/// Each is safe to be asked twice: a capture or a plan that was made in vain harms nobody, and an
/// order carries the id under which it is carried out once.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Request {
    /// Tells nothing but that it is there.
    Hello,
    Capture {
        group: String,
        now: Millis,
    },
    CaptureNamed {
        group: String,
        paths: Vec<RelPath>,
        keep: bool,
        now: Millis,
    },
    PlanRestore {
        target: Oid,
        paths: Option<Vec<RelPath>>,
        keep_added: bool,
        now: Millis,
    },
    Plan {
        wishes: Vec<Wish>,
    },
    PlanUndo {
        operation: OperationId,
    },
    Apply {
        order: Box<Order>,
        now: Millis,
    },
    Gc {
        keep: i64,
        now: Millis,
        dry_run: bool,
    },
}

/// What a keeper answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Answer {
    Hello,
    Captured(Receipt),
    Planned(Box<Plan>),
    Applied(Box<Report>),
    Collected(GcReport),
    Failed(Failure),
}

/// A capture, without what the asker can read by itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Receipt {
    pub(super) id: Oid,
    pub(super) files: usize,
    pub(super) changed: usize,
    pub(super) mode: Mode,
    pub(super) is_new: bool,
}

impl From<&Captured> for Receipt {
    fn from(captured: &Captured) -> Self {
        let Captured { capture, files, changed, mode, is_new } = captured;
        Self { id: capture.id, files: *files, changed: *changed, mode: *mode, is_new: *is_new }
    }
}
