//! Prompts during a run: kept at once, taken up once, whatever happens in between (R29).

use proptest::prelude::*;
use turnstone_core::id::{MessageId, SessionId};
use turnstone_engine::{EngineError, Prompt, PromptOutcome, PromptRouting, PromptSubmission};
use turnstone_store::{PromptDelivery, StoreError};

use crate::engine_fixture::{EngineFixture, ctx, messages, prompt};

fn ids(found: &[MessageId]) -> Vec<&str> {
    found.iter().map(|id| &id.as_str()[4..]).collect()
}

fn waiting(case: &EngineFixture, session: &SessionId) -> Vec<String> {
    let inbox = case.engine.store().read(&ctx(), |r| r.prompts().waiting(session)).expect("reads");
    inbox.iter().map(|one| one.message.as_str()[4..].to_owned()).collect()
}

fn submit(case: &EngineFixture, prompt: Prompt, delivery: PromptDelivery) -> PromptOutcome {
    let routing = PromptRouting::RunHere(delivery);
    let new = PromptSubmission { prompt, rules: Vec::new(), routing };
    case.engine.turns().admit_prompt(&ctx(), &new).expect("kept")
}

/// Proves R29.
#[test]
fn prompt_during_turn_steers_or_queues() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    let first = submit(&case, prompt(&session, "u1"), PromptDelivery::Steer);
    let PromptOutcome::TurnBegun(turn) = first else { panic!("begun") };
    for (id, delivery) in [
        ("s1", PromptDelivery::Steer),
        ("q1", PromptDelivery::Queue),
        ("q2", PromptDelivery::Queue),
    ] {
        let kept = submit(&case, prompt(&session, id), delivery);
        assert!(matches!(kept, PromptOutcome::Admitted(_)), "{kept:?}");
    }
    assert_eq!(messages(&case, &session).len(), 4, "message and parts are there at once, W13");
    assert_eq!(messages(&case, &session)[1].parts.len(), 1);

    let taken = case.engine.turns().promote_steering_prompts(&ctx(), &turn).expect("taken");
    assert_eq!(ids(&taken), ["s1"]);
    assert!(
        case.engine.turns().promote_steering_prompts(&ctx(), &turn).expect("taken").is_empty(),
        "once"
    );
    let early = case.engine.turns().begin_next(&ctx(), &session).map(drop);
    assert!(matches!(early, Err(EngineError::Store(StoreError::Busy(_)))), "{early:?}");
    case.engine.turns().abort(&ctx(), &turn).expect("aborted");
    assert_eq!(waiting(&case, &session), ["q1", "q2"], "abort keeps the inbox");

    for id in ["q1", "q2"] {
        let turn =
            case.engine.turns().begin_next(&ctx(), &session).expect("reads").expect("a turn");
        let turns = case.engine.store().read(&ctx(), |r| r.turns().list(&session)).expect("reads");
        assert_eq!(&turns.last().expect("one").message.as_str()[4..], id);
        case.end(&turn);
    }
    assert!(case.engine.turns().begin_next(&ctx(), &session).expect("reads").is_none());
}

/// W5: the same prompt again is the same prompt; W4: an id of another session is refused.
#[test]
fn enqueue_is_idempotent_and_rejects_foreign_ids() {
    let case = EngineFixture::new();
    let (one, two) = (case.session("ses_a", None), case.session("ses_b", None));
    let turn = case.begin(&one);
    let first = case.enqueue_prompt(prompt(&one, "x"), PromptDelivery::Queue).expect("kept");
    let again = case.enqueue_prompt(prompt(&one, "x"), PromptDelivery::Queue).expect("kept");
    assert_eq!(first, again);
    assert_eq!(messages(&case, &one).len(), 2);
    let other = case.enqueue_prompt(prompt(&one, "x"), PromptDelivery::Steer);
    assert!(matches!(other, Err(StoreError::Conflict { .. })), "{other:?}");
    assert!(case.enqueue_prompt(prompt(&two, "x"), PromptDelivery::Queue).is_err());
    assert!(messages(&case, &two).is_empty());
    case.end(&turn);
}

/// Proves W16.
#[test]
fn inbox_survives_restart_and_unread_steer_begins_turn() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    case.begin(&session);
    case.enqueue_prompt(prompt(&session, "q"), PromptDelivery::Queue).expect("kept");
    case.enqueue_prompt(prompt(&session, "s"), PromptDelivery::Steer).expect("kept");
    let case = case.reopen();
    let turn = case.engine.turns().begin_next(&ctx(), &session).expect("reads").expect("a turn");
    assert_eq!(waiting(&case, &session), ["q"], "what steered comes first");
    case.end(&turn);
    let turn = case.engine.turns().begin_next(&ctx(), &session).expect("reads").expect("a turn");
    assert!(waiting(&case, &session).is_empty());
    case.end(&turn);
}

#[derive(Clone, Copy, Debug)]
enum InboxAction {
    Steer,
    Queue,
    Take,
    End,
    Abort,
    Next,
    Die,
}

fn act() -> impl Strategy<Value = InboxAction> {
    use InboxAction::{Abort, Die, End, Next, Queue, Steer, Take};
    prop_oneof![3 => Just(Steer), 3 => Just(Queue), 2 => Just(Take), 2 => Just(End),
        1 => Just(Abort), 3 => Just(Next), 1 => Just(Die)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]
    /// Proves R29.
    #[test]
    fn every_prompt_is_promoted_exactly_once(acts in proptest::collection::vec(act(), 1..18)) {
        let mut case = EngineFixture::new();
        let session = case.session("ses_a", None);
        let (mut turn, mut sent, mut taken) = (None, 0, Vec::new());
        for act in acts.into_iter().chain([InboxAction::End]) {
            match act {
                InboxAction::Steer | InboxAction::Queue => {
                    let id = format!("n{sent}");
                    sent += 1;
                    let steers = matches!(act, InboxAction::Steer);
                    let delivery = if steers { PromptDelivery::Steer } else { PromptDelivery::Queue };
                    match submit(&case, prompt(&session, &id), delivery) {
                        PromptOutcome::TurnBegun(begun) => {
                            taken.push(id);
                            turn = Some(begun);
                        }
                        PromptOutcome::Admitted(_) => prop_assert!(turn.is_some()),
                        PromptOutcome::StoredOnly => prop_assert!(false, "it was to be answered"),
                    }
                }
                InboxAction::Take => if let Some(turn) = &turn {
                    let more = case.engine.turns().promote_steering_prompts(&ctx(), turn).expect("taken");
                    taken.extend(ids(&more).into_iter().map(str::to_owned));
                },
                InboxAction::End => if let Some(turn) = turn.take() { case.end(&turn) },
                InboxAction::Abort => if let Some(turn) = turn.take() {
                    case.engine.turns().abort(&ctx(), &turn).expect("aborted");
                },
                InboxAction::Next => if turn.is_none() {
                    turn = case.engine.turns().begin_next(&ctx(), &session).expect("reads");
                    if turn.is_some() {
                        let turns = case.engine.store().read(&ctx(), |r| r.turns().list(&session));
                        let message = turns.expect("reads").pop().expect("one").message;
                        taken.push(message.as_str()[4..].to_owned());
                    }
                },
                InboxAction::Die => {
                    turn = None;
                    case = case.reopen();
                    case.engine.maintenance().recover_all(&ctx()).expect("recovers");
                }
            }
        }
        while let Some(turn) = case.engine.turns().begin_next(&ctx(), &session).expect("reads") {
            let turns = case.engine.store().read(&ctx(), |r| r.turns().list(&session)).expect("reads");
            taken.push(turns.last().expect("one").message.as_str()[4..].to_owned());
            case.end(&turn);
        }
        taken.sort();
        let mut all: Vec<String> = (0..sent).map(|n| format!("n{n}")).collect();
        all.sort();
        prop_assert_eq!(taken, all);
    }
}
