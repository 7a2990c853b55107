//! The turn and the tool machine: against independent models, and as `docs/machines.md`.

use proptest::prelude::*;
use serde_json::{Value, json};
use turnstone_core::model::ToolState;
use turnstone_core::time::EpochMillis;
use turnstone_core::tool_state::{
    self, ToolPhase, ToolTransition, check_transition, interrupt_call,
};
use turnstone_core::transition_table::render_markdown;
use turnstone_core::turn::{self, TurnEvent, TurnOutcome, TurnState};

/// What is remembered of a turn by somebody who only listens: no states, just facts.
#[derive(Default)]
struct TurnObserver {
    started: bool,
    asked: bool,
    end: Option<TurnOutcome>,
}

impl TurnObserver {
    /// Applies an event; false if it is invalid.
    fn observe(&mut self, event: TurnEvent) -> bool {
        match event {
            TurnEvent::Started if self.end.is_some() || self.asked => return false,
            TurnEvent::Asked | TurnEvent::Answered if self.end.is_some() || !self.started => {
                return false;
            }
            TurnEvent::Ended { outcome } if self.end.is_some_and(|end| end != outcome) => {
                return false;
            }
            TurnEvent::Started => self.started = true,
            TurnEvent::Asked => self.asked = true,
            TurnEvent::Answered => self.asked = false,
            TurnEvent::Ended { outcome } => self.end = Some(outcome),
        }
        true
    }

    fn state(&self) -> TurnState {
        match (self.end, self.started, self.asked) {
            (Some(outcome), _, _) => outcome.state(),
            (None, false, _) => TurnState::Accepted,
            (None, true, false) => TurnState::Running,
            (None, true, true) => TurnState::Waiting,
        }
    }
}

proptest! {
    #[test]
    fn r28_the_turn_machine_agrees_with_a_listener(
        events in prop::collection::vec(prop::sample::select(TurnEvent::ALL.to_vec()), 0..20),
    ) {
        let (mut state, mut listener) = (TurnState::Accepted, TurnObserver::default());
        for event in events {
            let after = state.apply(&event);
            prop_assert_eq!(after.is_ok(), listener.observe(event), "{} {:?}", state, event);
            let was_open = state.is_open();
            state = after.unwrap_or(state);
            prop_assert_eq!(state, listener.state());
            prop_assert!(was_open || !state.is_open(), "an ended turn opened again");
            // A repeat of what was accepted changes nothing.
            if after.is_ok() {
                prop_assert_eq!(state.apply(&event), Ok(state));
            }
        }
    }
}

/// Any state of a call, from few values, so that equal and nearly equal ones come up often.
fn any_state() -> impl Strategy<Value = Value> {
    let small = || 0..2_i64;
    let compacted = prop::option::of(5..7_i64);
    (0..4_usize, small(), small(), compacted).prop_map(|(phase, input, end, compacted)| {
        let input = json!({ "n": input });
        match phase {
            0 => json!({ "status": "pending", "input": input, "raw": "{" }),
            1 => json!({
                "status": "running", "input": input, "metadata": { "m": end }, "time": { "start": 1 }
            }),
            2 => {
                let mut state = json!({
                    "status": "completed", "input": input, "output": "o", "title": "t",
                    "metadata": {}, "time": { "start": 1, "end": 2 + end }
                });
                if let Some(at) = compacted {
                    state["time"]["compacted"] = at.into();
                }
                state
            }
            _ => json!({
                "status": "error", "input": input, "error": "e", "time": { "start": 1, "end": 2 + end }
            }),
        }
    })
}

/// The same rules on plain JSON, as pairs of words.
fn reference(from: Option<&Value>, to: &Value) -> Option<ToolTransition> {
    const PAIRS: [&str; 6] = [
        "pending>pending",
        "pending>running",
        "pending>error",
        "running>running",
        "running>completed",
        "running>error",
    ];
    let Some(from) = from else {
        return Some(ToolTransition::First);
    };
    if from == to {
        return Some(ToolTransition::Same);
    }
    let word = |state: &Value| state["status"].as_str().expect("a status").to_owned();
    let pair = format!("{}>{}", word(from), word(to));
    let unmarked = |state: &Value| {
        let mut state = state.clone();
        let mark = state["time"].as_object_mut().and_then(|time| time.remove("compacted"));
        (state, mark.is_some())
    };
    let pruned =
        pair == "completed>completed" && unmarked(from).0 == unmarked(to).0 && unmarked(to).1;
    (pruned || PAIRS.contains(&pair.as_str())).then_some(ToolTransition::Moved)
}

proptest! {
    #[test]
    fn section_4_4_the_tool_machine_agrees_with_its_pairs(
        states in prop::collection::vec(any_state(), 1..20),
    ) {
        let mut stored: Option<Value> = None;
        for next in states {
            let read = |state: &Value| {
                serde_json::from_value::<ToolState>(state.clone()).expect("a tool state")
            };
            let before = stored.as_ref().map(read);
            let found = check_transition(before.as_ref(), &read(&next));
            prop_assert_eq!(found.ok(), reference(stored.as_ref(), &next), "{:?} {}", stored, next);
            if found.is_ok() {
                let was_open = before.is_none_or(|state| state.phase().is_open());
                prop_assert!(was_open || !read(&next).phase().is_open(), "a closed call opened");
                stored = Some(next);
            }
        }
    }

    /// Proves R28.
    #[test]
    fn interrupting_a_call_is_a_legal_transition(state in any_state()) {
        let state: ToolState = serde_json::from_value(state).expect("a tool state");
        match interrupt_call(&state, "Tool execution aborted", EpochMillis(9)) {
            None => prop_assert!(!state.phase().is_open()),
            Some(closed) => {
                prop_assert!(state.phase().is_open());
                prop_assert_eq!(closed.phase(), ToolPhase::Error);
                prop_assert_eq!(check_transition(Some(&state), &closed), Ok(ToolTransition::Moved));
                prop_assert_eq!(interrupt_call(&closed, "again", EpochMillis(10)), None);
            }
        }
    }
}

fn closed(state: Value) -> Option<Value> {
    let state: ToolState = serde_json::from_value(state).expect("a tool state");
    let closed = interrupt_call(&state, "Tool execution aborted", EpochMillis(50))?;
    Some(serde_json::to_value(closed).expect("JSON"))
}

#[test]
fn interrupted_running_call_keeps_its_data() {
    let running = json!({
        "status": "running", "input": { "command": "make" }, "title": "make",
        "metadata": { "output": "half" }, "time": { "start": 10.5, "x": 1 }, "y": 2
    });
    let expected = json!({
        "status": "error", "input": { "command": "make" }, "error": "Tool execution aborted",
        "metadata": { "output": "half", "interrupted": true },
        "time": { "start": 10.5, "end": 50, "x": 1 }, "y": 2
    });
    assert_eq!(closed(running), Some(expected));
}

#[test]
fn interrupted_pending_call_starts_and_ends_now() {
    let pending = json!({ "status": "pending", "input": {}, "raw": "{\"comm" });
    let expected = json!({
        "status": "error", "input": {}, "error": "Tool execution aborted",
        "metadata": { "interrupted": true }, "time": { "start": 50, "end": 50 }
    });
    assert_eq!(closed(pending), Some(expected));
}

#[test]
fn non_object_metadata_is_kept() {
    let metadata = |metadata: Value| {
        let running = json!({
            "status": "running", "input": {}, "metadata": metadata, "time": { "start": 1 }
        });
        closed(running).expect("an open call")["metadata"].clone()
    };
    assert_eq!(metadata(json!("half")), json!({ "value": "half", "interrupted": true }));
    assert_eq!(metadata(Value::Null), json!({ "interrupted": true }));
    assert_eq!(metadata(json!({ "interrupted": false })), json!({ "interrupted": true }));
}

#[test]
fn illegal_tool_transition_names_phases_and_reason() {
    let read = |state: Value| serde_json::from_value::<ToolState>(state).expect("a tool state");
    let pending = read(json!({ "status": "pending", "input": {}, "raw": "" }));
    let completed = |output: &str| {
        read(json!({
            "status": "completed", "input": {}, "output": output, "title": "", "metadata": {},
            "time": { "start": 1, "end": 2 }
        }))
    };
    let refused = |from: &ToolState, to: &ToolState| {
        check_transition(Some(from), to).expect_err("refused").to_string()
    };
    assert_eq!(
        refused(&pending, &completed("")),
        "a pending tool call cannot become completed: it never ran"
    );
    assert_eq!(
        refused(&completed("a"), &completed("b")),
        "a completed tool call cannot become completed: only time.compacted may be set"
    );
    assert_eq!(
        refused(&completed("a"), &pending),
        "a completed tool call cannot become pending: it has ended"
    );
}

#[test]
fn tool_phases_round_trip_by_name() {
    for phase in ToolPhase::ALL {
        assert_eq!(ToolPhase::parse(phase.as_str()), Some(phase));
    }
    assert_eq!(ToolPhase::parse("done"), None);
}

fn machines() -> String {
    format!(
        "# State machines\n\n\
         Generated by `crates/core/tests/machines.rs`, which runs both state machines over every state and\n\
         every event. Do not edit; run `UPDATE_DOCS=1 cargo nextest run -p turnstone-core docs`.\n\n\
         An event whose result is already reached changes nothing and writes nothing. A transition that is\n\
         not in the table is rejected and writes nothing. Turn events are never dropped from the log, so\n\
         the first table holds for live writes and for replay. Parts are logged as images, and older\n\
         images may be dropped (R25): the second table holds for live writes, and a replay accepts the\n\
         images as they are.\n\n\
         ## A turn\n\n{}\n\
         Recovery ends a turn as `interrupted` if it is `running` and its owner is dead, and leaves every\n\
         other turn to the next runner (R28).\n\n\
         ## A tool call\n\n\
         `none` is a call that is not stored yet: subtasks and shell commands start in `running`, imported\n\
         calls are already complete. `pruned` is a completed call whose `time.compacted` is set. A closed\n\
         call is never reopened; when a turn ends, its open calls become `error` and keep their output.\n\n{}",
        render_markdown(&turn::transition_table()),
        render_markdown(&tool_state::transition_table()),
    )
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a test that writes its own page of documentation")]
fn docs_machines_md_matches_the_machines() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/machines.md");
    let expected = machines();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, &expected).expect("docs/machines.md can be written");
    }
    let found = std::fs::read_to_string(path).unwrap_or_default();
    assert!(found == expected, "docs/machines.md is stale; run this test with UPDATE_DOCS=1");
}
