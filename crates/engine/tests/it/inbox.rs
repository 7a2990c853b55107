//! Prompts during a run: kept at once, taken up once, whatever happens in between (R29).

use proptest::prelude::*;
use turnstone_core::id::{MessageId, SessionId};
use turnstone_engine::{EngineError, Submitted};
use turnstone_store::{Delivery, StoreError};

use crate::support::{Case, ctx, messages, prompt};

fn ids(found: &[MessageId]) -> Vec<&str> {
    found.iter().map(|id| &id.as_str()[4..]).collect()
}

fn waiting(case: &Case, session: &SessionId) -> Vec<String> {
    let inbox = case.engine.store().read(&ctx(), |r| r.inbox(session)).expect("reads");
    inbox.iter().map(|one| one.message.as_str()[4..].to_owned()).collect()
}

#[test]
fn a_prompt_during_a_run_steers_it_or_waits_for_its_own_turn_r29() {
    let case = Case::new();
    let session = case.session("ses_a", None);
    let first = case.engine.submit(&ctx(), prompt(&session, "u1"), Delivery::Steer);
    let Ok(Submitted::Begun(turn)) = first else { panic!("begun") };
    for (id, delivery) in
        [("s1", Delivery::Steer), ("q1", Delivery::Queue), ("q2", Delivery::Queue)]
    {
        let kept = case.engine.submit(&ctx(), prompt(&session, id), delivery).expect("kept");
        assert!(matches!(kept, Submitted::Admitted(_)), "{kept:?}");
    }
    assert_eq!(messages(&case, &session).len(), 4, "message and parts are there at once, W13");
    assert_eq!(messages(&case, &session)[1].parts.len(), 1);

    let taken = case.engine.take_steers(&ctx(), &turn).expect("taken");
    assert_eq!(ids(&taken), ["s1"]);
    assert!(case.engine.take_steers(&ctx(), &turn).expect("taken").is_empty(), "once");
    let early = case.engine.next_turn(&ctx(), &session).map(drop);
    assert!(matches!(early, Err(EngineError::Store(StoreError::Busy(_)))), "{early:?}");
    case.engine.abort_turn(&ctx(), &turn).expect("aborted");
    assert_eq!(waiting(&case, &session), ["q1", "q2"], "abort keeps the inbox");

    for id in ["q1", "q2"] {
        let turn = case.engine.next_turn(&ctx(), &session).expect("reads").expect("a turn");
        let turns = case.engine.store().read(&ctx(), |r| r.turns(&session)).expect("reads");
        assert_eq!(&turns.last().expect("one").message.as_str()[4..], id);
        case.end(&turn);
    }
    assert!(case.engine.next_turn(&ctx(), &session).expect("reads").is_none());
}

/// W5: the same prompt again is the same prompt; W4: an id of another session is refused.
#[test]
fn a_prompt_is_kept_once_under_its_id_and_never_in_anothers_session_w4_w5() {
    let case = Case::new();
    let (one, two) = (case.session("ses_a", None), case.session("ses_b", None));
    let turn = case.begin(&one);
    let first = case.engine.admit(&ctx(), prompt(&one, "x"), Delivery::Queue).expect("kept");
    let again = case.engine.admit(&ctx(), prompt(&one, "x"), Delivery::Queue).expect("kept");
    assert_eq!(first, again);
    assert_eq!(messages(&case, &one).len(), 2);
    let other = case.engine.admit(&ctx(), prompt(&one, "x"), Delivery::Steer);
    assert!(matches!(other, Err(EngineError::Store(StoreError::Conflict { .. }))), "{other:?}");
    assert!(case.engine.admit(&ctx(), prompt(&two, "x"), Delivery::Queue).is_err());
    assert!(messages(&case, &two).is_empty());
    case.end(&turn);
}

#[test]
fn prompts_outlive_the_process_and_what_was_not_read_in_time_begins_the_next_turn_w16() {
    let case = Case::new();
    let session = case.session("ses_a", None);
    case.begin(&session);
    case.engine.admit(&ctx(), prompt(&session, "q"), Delivery::Queue).expect("kept");
    case.engine.admit(&ctx(), prompt(&session, "s"), Delivery::Steer).expect("kept");
    let case = case.reopen();
    let turn = case.engine.next_turn(&ctx(), &session).expect("reads").expect("a turn");
    assert_eq!(waiting(&case, &session), ["q"], "what steered comes first");
    case.end(&turn);
    let turn = case.engine.next_turn(&ctx(), &session).expect("reads").expect("a turn");
    assert!(waiting(&case, &session).is_empty());
    case.end(&turn);
}

#[derive(Clone, Copy, Debug)]
enum Act {
    Steer,
    Queue,
    Take,
    End,
    Abort,
    Next,
    Die,
}

fn act() -> impl Strategy<Value = Act> {
    use Act::{Abort, Die, End, Next, Queue, Steer, Take};
    prop_oneof![3 => Just(Steer), 3 => Just(Queue), 2 => Just(Take), 2 => Just(End),
        1 => Just(Abort), 3 => Just(Next), 1 => Just(Die)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]
    #[test]
    fn every_prompt_is_taken_up_exactly_once_r29(acts in proptest::collection::vec(act(), 1..18)) {
        let mut case = Case::new();
        let session = case.session("ses_a", None);
        let (mut turn, mut sent, mut taken) = (None, 0, Vec::new());
        for act in acts.into_iter().chain([Act::End]) {
            match act {
                Act::Steer | Act::Queue => {
                    let id = format!("n{sent}");
                    sent += 1;
                    let steers = matches!(act, Act::Steer);
                    let delivery = if steers { Delivery::Steer } else { Delivery::Queue };
                    match case.engine.submit(&ctx(), prompt(&session, &id), delivery).expect("kept") {
                        Submitted::Begun(begun) => {
                            taken.push(id);
                            turn = Some(begun);
                        }
                        Submitted::Admitted(_) => prop_assert!(turn.is_some()),
                    }
                }
                Act::Take => if let Some(turn) = &turn {
                    let more = case.engine.take_steers(&ctx(), turn).expect("taken");
                    taken.extend(ids(&more).into_iter().map(str::to_owned));
                },
                Act::End => if let Some(turn) = turn.take() { case.end(&turn) },
                Act::Abort => if let Some(turn) = turn.take() {
                    case.engine.abort_turn(&ctx(), &turn).expect("aborted");
                },
                Act::Next => if turn.is_none() {
                    turn = case.engine.next_turn(&ctx(), &session).expect("reads");
                    if turn.is_some() {
                        let turns = case.engine.store().read(&ctx(), |r| r.turns(&session));
                        let message = turns.expect("reads").pop().expect("one").message;
                        taken.push(message.as_str()[4..].to_owned());
                    }
                },
                Act::Die => {
                    turn = None;
                    case = case.reopen();
                    case.engine.recover(&ctx()).expect("recovers");
                }
            }
        }
        while let Some(turn) = case.engine.next_turn(&ctx(), &session).expect("reads") {
            let turns = case.engine.store().read(&ctx(), |r| r.turns(&session)).expect("reads");
            taken.push(turns.last().expect("one").message.as_str()[4..].to_owned());
            case.end(&turn);
        }
        taken.sort();
        let mut all: Vec<String> = (0..sent).map(|n| format!("n{n}")).collect();
        all.sort();
        prop_assert_eq!(taken, all);
    }
}
