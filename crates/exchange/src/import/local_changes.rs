//! What somebody did here to an imported session since: it is kept, not overwritten.

use std::collections::{HashMap, HashSet};

use serde_json::Value;
use turnstone_core::event::{EntityClass, EventKind};
use turnstone_core::id::SessionId;
use turnstone_core::time::SessionSeq;
use turnstone_store::{Context, LogEvent, Store, StoreError};

use super::import_run::IMPORT_ACTOR;

const PAGE_SIZE: usize = 200;

/// Whose hand was last on the things of one session.
#[derive(Debug, Default)]
pub(super) struct LocalChanges {
    /// Messages and parts last written by another program, by id.
    changed: HashSet<String>,
    /// Messages and parts somebody else removed, by id.
    removed: HashSet<String>,
    /// Kinds of which a session has one, last written by another program.
    touched_classes: HashSet<EntityClass>,
    /// True if somebody else made the session.
    is_created_here: bool,
    /// True if somebody else added a message.
    is_continued_here: bool,
}

impl LocalChanges {
    /// Reads the session's history.
    pub(super) fn read(store: &Store, ctx: &Context, id: &SessionId) -> Result<Self, StoreError> {
        let mut scan = LogScan::default();
        let mut seq = SessionSeq(0);
        loop {
            let page = store.read(ctx, |r| r.log().stream_after(id, seq, PAGE_SIZE))?;
            let Some(last) = page.events.last().and_then(|event| event.seq) else {
                return Ok(scan.local);
            };
            for event in &page.events {
                scan.apply_event(event);
            }
            seq = last;
        }
    }

    /// True if somebody else wrote the message or part last.
    pub(super) fn is_changed(&self, id: &str) -> bool {
        self.changed.contains(id)
    }

    /// True if somebody else removed the message or part.
    pub(super) fn is_removed(&self, id: &str) -> bool {
        self.removed.contains(id)
    }

    /// True if somebody else wrote the session, its to-do list, its share or its diff last.
    pub(super) fn is_touched(&self, class: EntityClass) -> bool {
        self.is_created_here || self.touched_classes.contains(&class)
    }

    /// True if nothing is added to the session: it was made or continued here. What a source adds would
    /// be the newest of it, and speak for the person.
    pub(super) fn rejects_additions(&self) -> bool {
        self.is_created_here || self.is_continued_here
    }
}

/// Ids by entity number: an event whose payload was compacted away still names its entity.
#[derive(Default)]
struct LogScan {
    ids: HashMap<i64, String>,
    has_begun: bool,
    local: LocalChanges,
}

impl LogScan {
    fn apply_event(&mut self, event: &LogEvent) {
        let ours = event.actor == IMPORT_ACTOR;
        if !std::mem::replace(&mut self.has_begun, true) {
            self.local.is_created_here = !ours;
        }
        let class = event.kind.class();
        match class {
            EntityClass::Message | EntityClass::Part => self.apply_content_event(event, ours),
            EntityClass::Session | EntityClass::Todo | EntityClass::Share | EntityClass::Diff => {
                if ours {
                    self.local.touched_classes.remove(&class);
                } else {
                    self.local.touched_classes.insert(class);
                }
            }
            EntityClass::Project
            | EntityClass::Turn
            | EntityClass::Status
            | EntityClass::Request
            | EntityClass::Approval
            | EntityClass::Input
            | EntityClass::Change
            | EntityClass::Operation => {}
        }
    }

    fn apply_content_event(&mut self, event: &LogEvent, ours: bool) {
        let named = event.payload.as_ref().and_then(|payload| payload.get("id")?.as_str());
        if let Some(id) = named {
            let is_new = self.ids.insert(event.entity, id.to_owned()).is_none();
            self.local.is_continued_here |=
                is_new && !ours && event.kind.class() == EntityClass::Message;
        }
        let Some(id) = self.ids.get(&event.entity).cloned() else {
            return;
        };
        let removal = matches!(event.kind, EventKind::MessageRemoved | EventKind::PartRemoved);
        self.local.changed.remove(&id);
        self.local.removed.remove(&id);
        if ours {
            return;
        }
        if removal {
            self.local.removed.insert(id)
        } else {
            self.local.changed.insert(id)
        };
    }
}

/// True if two values are the same JSON.
pub(super) fn is_same_json(left: &impl serde::Serialize, right: &impl serde::Serialize) -> bool {
    let value = |result: Result<Value, _>| result.ok().filter(|value| !value.is_null());
    let left = value(serde_json::to_value(left));
    left.is_some() && left == value(serde_json::to_value(right))
}
