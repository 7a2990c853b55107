//! Which events the log may drop (R25): the compaction rule, independent of the database.
//!
//! An event may be dropped only if a later retained event of the same entity carries its whole
//! effect and no boundary lies between them. A boundary is a position a session can be undone to;
//! its state is that of the events up to and including it. So the stream falls into segments that
//! each end with a boundary, and within a segment an entity needs its last image or removal, and
//! its last delta if that comes later.
//!
//! Of the facts, which are never dropped, the ends of turns are boundaries: a turn accepted,
//! started, ended; and the end of an operation that moves the head or the files. A turn that asks or
//! is answered, a request, an approval, a prompt, a share, a change set and a deletion are not
//! boundaries. The first image of a part that begins or ends a step is a boundary too.

use std::collections::HashMap;

use crate::event::{EntityClass, EntityEffect, EventKind};

/// What the rule wants to know of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetentionEvent {
    /// Its place in the stream; grows from entry to entry.
    pub at: i64,
    /// What happened.
    pub kind: EventKind,
    /// The thing it is about; names one thing together with the class of the kind.
    pub entity: i64,
    /// True if a session can be undone to this event, see [`is_boundary`].
    pub boundary: bool,
}

/// True if a session can be undone to an event of this kind.
///
/// `first_type` is the type of a part if the event is the part's first image, otherwise nothing: a
/// step begins where its part appears, not where the part is written again.
#[must_use]
pub fn is_boundary(kind: EventKind, first_type: Option<&str>) -> bool {
    match kind {
        EventKind::TurnAccepted
        | EventKind::TurnStarted
        | EventKind::TurnEnded
        | EventKind::OperationDone => true,
        EventKind::PartUpdated => matches!(first_type, Some("step-start" | "step-finish")),
        EventKind::ProjectUpdated
        | EventKind::WorktreeReady
        | EventKind::WorktreeFailed
        | EventKind::TurnAbortAsked
        | EventKind::SessionCreated
        | EventKind::SessionUpdated
        | EventKind::SessionDeleted
        | EventKind::MessageUpdated
        | EventKind::MessageRemoved
        | EventKind::PartRemoved
        | EventKind::PartDelta
        | EventKind::TodoUpdated
        | EventKind::TurnAsked
        | EventKind::TurnAnswered
        | EventKind::StatusRetrying
        | EventKind::RequestAsked
        | EventKind::RequestResolved
        | EventKind::ApprovalGranted
        | EventKind::ApprovalWithdrawn
        | EventKind::InputAdmitted
        | EventKind::InputPromoted
        | EventKind::ShareCreated
        | EventKind::ShareRemoved
        | EventKind::DiffUpdated
        | EventKind::ChangeOpened
        | EventKind::ChangeClosed
        | EventKind::OperationPlanned => false,
    }
}

/// True if an event of this kind may be dropped at all.
///
/// Facts stay. So does the event a session was created with, one per session: a repeated creation
/// is compared with it.
#[must_use]
pub fn is_droppable(kind: EventKind) -> bool {
    kind.effect() != EntityEffect::Fact && kind != EventKind::SessionCreated
}

/// Events of an entity that the current segment still needs.
#[derive(Clone, Copy, Debug, Default)]
struct SegmentState {
    image: Option<i64>,
    delta: Option<i64>,
}

/// Reads a stream in order and says which of the events it has seen may be dropped.
///
/// Keeps one small entry per entity of the current segment, however long the segment is. Its answers
/// remain valid for all later events; a new filter can start after any boundary.
#[derive(Clone, Debug, Default)]
pub struct EventRetention {
    entities: HashMap<(EntityClass, i64), SegmentState>,
}

impl EventRetention {
    /// Begins at the start of a stream, or behind a boundary.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next event; returns the places of the earlier ones it makes superfluous.
    pub fn push(&mut self, event: &RetentionEvent) -> impl Iterator<Item = i64> + use<> {
        let mut dropped = SegmentState::default();
        if event.kind.effect() != EntityEffect::Fact {
            let key = (event.kind.class(), event.entity);
            let held = self.entities.entry(key).or_default();
            let place = is_droppable(event.kind).then_some(event.at);
            dropped.delta = held.delta.take();
            if event.kind == EventKind::PartDelta {
                held.delta = place;
            } else {
                dropped.image = std::mem::replace(&mut held.image, place);
            }
        }
        if event.boundary {
            self.entities.clear();
        }
        [dropped.image, dropped.delta].into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// True if an event of kind `later` carries the whole effect of an earlier event of the same entity.
    ///
    /// A delta says how long a text is now: more than any delta before it, less than an image.
    fn supersedes(later: EventKind, earlier: EventKind) -> bool {
        match (later, earlier) {
            (EventKind::PartDelta, EventKind::PartDelta) => true,
            (EventKind::PartDelta, _) => false,
            (later, _) => later.effect() != EntityEffect::Fact,
        }
    }

    /// The rule of R25 literally, from the end: later events are already decided.
    fn reference(events: &[RetentionEvent]) -> BTreeSet<i64> {
        let mut dropped = BTreeSet::new();
        for (index, event) in events.iter().enumerate().rev() {
            let superfluous = events.iter().enumerate().skip(index + 1).any(|(later, other)| {
                let same = other.kind.class() == event.kind.class() && other.entity == event.entity;
                let between = events[index..later].iter().any(|event| event.boundary);
                same && !between
                    && !dropped.contains(&other.at)
                    && supersedes(other.kind, event.kind)
            });
            if superfluous && is_droppable(event.kind) {
                dropped.insert(event.at);
            }
        }
        dropped
    }

    fn run(events: &[RetentionEvent]) -> BTreeSet<i64> {
        let mut retention = EventRetention::new();
        events.iter().flat_map(|event| retention.push(event)).collect()
    }

    fn stream(kinds: &[(EventKind, i64, bool)]) -> Vec<RetentionEvent> {
        let numbered = kinds.iter().zip(1..);
        numbered
            .map(|(&(kind, entity, boundary), at)| RetentionEvent { at, kind, entity, boundary })
            .collect()
    }

    fn any_entry() -> impl Strategy<Value = (EventKind, i64, bool)> {
        // Parts are where the rule is not trivial, so they come often.
        let kind = prop_oneof![
            3 => Just(EventKind::PartUpdated),
            3 => Just(EventKind::PartDelta),
            1 => Just(EventKind::PartRemoved),
            4 => proptest::sample::select(EventKind::ALL),
        ];
        (kind, 1..4_i64, any::<u8>()).prop_map(|(kind, entity, dice)| {
            let step = (dice < 40).then_some("step-start");
            (kind, entity, is_boundary(kind, step))
        })
    }

    proptest! {
        #[test]
        fn the_stream_is_judged_as_the_rule_says(kinds in prop::collection::vec(any_entry(), 0..60)) {
            let events = stream(&kinds);
            prop_assert_eq!(run(&events), reference(&events));
        }

        #[test]
        fn what_is_left_has_nothing_more_to_drop(kinds in prop::collection::vec(any_entry(), 0..60)) {
            let events = stream(&kinds);
            let dropped = run(&events);
            let left: Vec<RetentionEvent> =
                events.into_iter().filter(|event| !dropped.contains(&event.at)).collect();
            prop_assert_eq!(run(&left), BTreeSet::new());
        }

        #[test]
        fn a_longer_stream_never_takes_a_decision_back(
            kinds in prop::collection::vec(any_entry(), 0..60), cut in 0..60_usize,
        ) {
            let events = stream(&kinds);
            let begun = run(&events[..cut.min(events.len())]);
            prop_assert!(begun.is_subset(&run(&events)));
        }
    }

    #[test]
    fn delta_does_not_supersede_image() {
        use EventKind::{PartDelta, PartUpdated};
        let part = |kind| (kind, 1, false);
        let kinds = [PartUpdated, PartDelta, PartDelta, PartUpdated, PartDelta].map(part);
        assert_eq!(run(&stream(&kinds)), BTreeSet::from([1, 2, 3]));
    }

    #[test]
    fn events_before_a_boundary_are_kept() {
        let kinds = [
            (EventKind::TodoUpdated, 1, false),
            (EventKind::TodoUpdated, 1, false),
            (EventKind::TurnStarted, 7, true),
            (EventKind::TodoUpdated, 1, false),
        ];
        assert_eq!(run(&stream(&kinds)), BTreeSet::from([1]));
    }

    #[test]
    fn facts_and_session_creation_are_kept() {
        let kinds = [
            (EventKind::SessionCreated, 1, false),
            (EventKind::ShareCreated, 1, false),
            (EventKind::SessionUpdated, 1, false),
            (EventKind::ShareRemoved, 1, false),
            (EventKind::SessionUpdated, 1, false),
        ];
        assert_eq!(run(&stream(&kinds)), BTreeSet::from([3]));
    }
}
