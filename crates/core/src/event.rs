//! Events: the facts that the log records.

use serde::{Deserialize, Serialize};

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $code:literal $text:literal $class:ident;)*) => {
        /// The kinds of events. The code is what the database stores and never changes meaning.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub enum EventKind {
            $($(#[$doc])* $name = $code,)*
        }

        impl EventKind {
            /// Every kind, in the order of its code.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The name people and consumers see.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// The code stored in the database.
            #[must_use]
            pub const fn code(self) -> i64 {
                self as i64
            }

            /// The kind with this code.
            #[must_use]
            pub const fn from_code(code: i64) -> Option<Self> {
                match code { $($code => Some(Self::$name),)* _ => None }
            }

            /// What kind of thing the event is about.
            #[must_use]
            pub const fn class(self) -> EntityClass {
                match self { $(Self::$name => EntityClass::$class,)* }
            }
        }
    };
}

kinds! {
    /// A project was seen first or changed.
    ProjectUpdated = 1 "project.updated" Project;
    /// A further checkout of a project has all its files.
    WorktreeReady = 2 "worktree.ready" Project;
    /// A further checkout of a project could not be made.
    WorktreeFailed = 3 "worktree.failed" Project;
    /// A session began.
    SessionCreated = 10 "session.created" Session;
    /// A session changed; carries all of it.
    SessionUpdated = 11 "session.updated" Session;
    /// A session is gone; the tombstone readers learn it from.
    SessionDeleted = 12 "session.deleted" Session;
    /// A message was written or changed; carries all of it.
    MessageUpdated = 20 "message.updated" Message;
    /// A message is gone, with its parts.
    MessageRemoved = 21 "message.removed" Message;
    /// A part was written or changed; carries all of it.
    PartUpdated = 30 "message.part.updated" Part;
    /// A part is gone.
    PartRemoved = 31 "message.part.removed" Part;
    /// Text was appended to a part; carries how long it is now.
    PartDelta = 32 "message.part.delta" Part;
    /// The to-do list was replaced.
    TodoUpdated = 40 "todo.updated" Todo;
    /// A turn was accepted.
    TurnAccepted = 50 "turn.accepted" Turn;
    /// A turn runs.
    TurnStarted = 51 "turn.started" Turn;
    /// A turn waits for an answer.
    TurnAsked = 52 "turn.asked" Turn;
    /// A turn goes on after an answer.
    TurnAnswered = 53 "turn.answered" Turn;
    /// A turn ended.
    TurnEnded = 54 "turn.ended" Turn;
    /// A model call is being tried again.
    StatusRetrying = 55 "status.retrying" Status;
    /// A turn is asked to end; the process that runs it ends it.
    TurnAbortAsked = 56 "turn.abort_asked" Turn;
    /// A permission or an answer is wanted.
    RequestAsked = 60 "request.asked" Request;
    /// A request was answered, turned down or withdrawn.
    RequestResolved = 61 "request.resolved" Request;
    /// A rule was approved for a project from now on.
    ApprovalGranted = 65 "approval.granted" Approval;
    /// An approved rule was revoked.
    ApprovalWithdrawn = 66 "approval.withdrawn" Approval;
    /// A prompt was put into the inbox.
    InputAdmitted = 70 "input.admitted" Input;
    /// A prompt was taken from the inbox.
    InputPromoted = 71 "input.promoted" Input;
    /// A session is shared.
    ShareCreated = 80 "share.created" Share;
    /// A session is shared no longer.
    ShareRemoved = 81 "share.removed" Share;
    /// The diff of a session was stored.
    DiffUpdated = 90 "session.diff" Diff;
    /// A call that may change files began.
    ChangeOpened = 100 "change.opened" Change;
    /// A call that may have changed files ended; carries what it changed.
    ChangeClosed = 101 "change.closed" Change;
    /// An undo, a redo or another operation on the history was decided; carries its plan.
    OperationPlanned = 110 "operation.planned" Operation;
    /// An operation is complete; carries its report and the new head.
    OperationDone = 111 "operation.done" Operation;
}

/// What an event is about; projections are rebuilt class by class in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EntityClass {
    /// Projects.
    Project,
    /// Sessions.
    Session,
    /// Messages.
    Message,
    /// Parts.
    Part,
    /// To-do lists.
    Todo,
    /// Turns.
    Turn,
    /// What a turn shows of a retry.
    Status,
    /// Permission requests and questions.
    Request,
    /// Approved rules.
    Approval,
    /// Prompts in the inbox.
    Input,
    /// Shares.
    Share,
    /// Session diffs.
    Diff,
    /// Change sets.
    Change,
    /// Operations on the history of a session.
    Operation,
}

impl EntityClass {
    /// The order in which projections are rebuilt: what is referred to comes first.
    pub const ALL: &'static [Self] = &[
        Self::Project,
        Self::Session,
        Self::Message,
        Self::Part,
        Self::Todo,
        Self::Turn,
        Self::Status,
        Self::Request,
        Self::Approval,
        Self::Input,
        Self::Share,
        Self::Diff,
        Self::Change,
        Self::Operation,
    ];
}

/// What an event's payload says about its entity; the basis of the compaction rule (R25).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntityEffect {
    /// The whole entity: every earlier event of the entity is contained in it.
    Image,
    /// The entity is gone: every earlier event of the entity is contained in it.
    Removal,
    /// One step of a history that matters: never dropped.
    Fact,
}

impl EventKind {
    /// What the payload says about the entity.
    #[must_use]
    pub const fn effect(self) -> EntityEffect {
        match self {
            Self::ProjectUpdated
            | Self::SessionCreated
            | Self::SessionUpdated
            | Self::MessageUpdated
            | Self::PartUpdated
            | Self::PartDelta
            | Self::TodoUpdated
            | Self::StatusRetrying
            | Self::DiffUpdated => EntityEffect::Image,
            Self::MessageRemoved | Self::PartRemoved => EntityEffect::Removal,
            Self::SessionDeleted
            | Self::WorktreeReady
            | Self::WorktreeFailed
            | Self::TurnAbortAsked
            | Self::TurnAccepted
            | Self::TurnStarted
            | Self::TurnAsked
            | Self::TurnAnswered
            | Self::TurnEnded
            | Self::RequestAsked
            | Self::RequestResolved
            | Self::ApprovalGranted
            | Self::ApprovalWithdrawn
            | Self::InputAdmitted
            | Self::InputPromoted
            | Self::ShareCreated
            | Self::ShareRemoved
            | Self::ChangeOpened
            | Self::ChangeClosed
            | Self::OperationPlanned
            | Self::OperationDone => EntityEffect::Fact,
        }
    }

    /// True for the types OpenCode numbers per session and sends as `sync` frames (R25).
    #[must_use]
    pub const fn is_opencode_durable(self) -> bool {
        matches!(
            self,
            Self::SessionCreated
                | Self::SessionUpdated
                | Self::SessionDeleted
                | Self::MessageUpdated
                | Self::MessageRemoved
                | Self::PartUpdated
                | Self::PartRemoved
        )
    }

    /// True for kinds without a payload.
    #[must_use]
    pub const fn has_no_payload(self) -> bool {
        matches!(self, Self::ShareRemoved)
    }

    /// True for writes only the holder of the session's lease may make while a turn is open (R27).
    #[must_use]
    pub const fn is_turn_owned(self) -> bool {
        matches!(
            self.class(),
            EntityClass::Message
                | EntityClass::Part
                | EntityClass::Turn
                | EntityClass::Status
                | EntityClass::Change
        )
    }
}

impl TryFrom<String> for EventKind {
    type Error = UnknownEventKind;

    fn try_from(name: String) -> Result<Self, UnknownEventKind> {
        Self::ALL.iter().copied().find(|kind| kind.name() == name).ok_or(UnknownEventKind(name))
    }
}

impl From<EventKind> for String {
    fn from(kind: EventKind) -> Self {
        kind.name().to_owned()
    }
}

impl std::fmt::Display for EventKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// An event of a kind this version does not know.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown event kind {0:?}")]
pub struct UnknownEventKind(pub String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_kinds_round_trip_by_code_and_name() {
        for kind in EventKind::ALL {
            assert_eq!(EventKind::from_code(kind.code()), Some(*kind));
            assert_eq!(EventKind::try_from(kind.name().to_owned()), Ok(*kind));
        }
        assert_eq!(EventKind::from_code(0), None);
    }
}
