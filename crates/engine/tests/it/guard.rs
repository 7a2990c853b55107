//! Guards: what operations displaced is pinned by them, is evicted last, and is never guessed (R14).

use std::collections::BTreeSet;

use turnstone_core::id::{OperationId, SessionId};
use turnstone_core::time::EpochMillis;
use turnstone_engine::{Engine, EngineError, UndoOptions, UndoTarget, decode_expired_guards};
use turnstone_snapshot::MaintenanceInterval;
use turnstone_store::Context;

use crate::engine_fixture::{EngineFixture, NOW, ctx};
use crate::eviction::{IncompressibleText, fixture_with_budget, settings};

const HOUR: i64 = 3_600_000;
const SIZE: usize = 20 << 10;
const TEN: &str = "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n";

fn later(hours: i64) -> Context {
    let mut ctx = ctx();
    ctx.now = EpochMillis(NOW.0 + hours * HOUR);
    ctx
}

fn expired(case: &EngineFixture, session: &SessionId) -> Vec<OperationId> {
    let read = case
        .engine
        .store()
        .read(&ctx(), |r| r.undo_expiry().expired_guards(session))
        .expect("reads");
    read.into_keys().collect()
}

/// Proves R14.
#[test]
fn guard_is_kept_as_long_as_its_session() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    case.put("f", Some(TEN));
    case.turn(&session, "f", Some(&TEN.replace("2\n", "two\n").replace("9\n", "nine\n")));
    let found = TEN.replace("2\n", "two\n").replace("5\n", "FIVE\n");
    case.put("f", Some(&found));
    case.undo(&session, &UndoTarget::Last);
    let guards = || {
        let handle = case.engine.snapshots().open(&case.root(), NOW).expect("opens");
        handle.reader().list_captures().expect("reads").iter().filter(|it| it.is_guard()).count()
    };
    assert!(guards() > 0);

    // A year later, maintenance runs.
    assert_eq!(
        case.engine
            .maintenance()
            .run(&later(366 * 24), MaintenanceInterval::Hourly)
            .expect("tends")
            .stores,
        1
    );

    assert!(case.redo(&session).is_complete());
    assert_eq!(case.read("f"), Some(found));
    case.engine.store().delete_session(&ctx(), &session).expect("deletes");
    case.engine
        .maintenance()
        .run(&later(2 * 366 * 24), MaintenanceInterval::Hourly)
        .expect("tends");
    assert_eq!(guards(), 0, "they go with their session");
}

/// A turn that writes a line into a file with much in it, a person who changes the rest, and an undo:
/// what the person wrote is in the guard alone once they write something else.
fn merged_undo(
    case: &EngineFixture,
    session: &SessionId,
    noise: &mut IncompressibleText,
) -> OperationId {
    let much = noise.text(SIZE);
    case.put("f", Some(&format!("1\n2\n3\n4\n{much}\n")));
    case.turn(session, "f", Some(&format!("one\n2\n3\n4\n{much}\n")));
    case.put("f", Some(&format!("one\n2\n3\n4\n{}\n", noise.text(SIZE))));
    let report = case.undo(session, &UndoTarget::Last);
    assert!(report.is_complete(), "{report:?}");
    case.put("f", Some("x"));
    report.operation
}

/// Opens the case with a smaller budget.
fn with_smaller_budget(mut case: EngineFixture, room: usize) -> EngineFixture {
    case.engine = Engine::open(settings(&case, room), NOW).expect("opens");
    case
}

/// Plays turns of a session, an hour each, until a guard of another one goes.
fn fill_until_guard_evicted(
    case: &EngineFixture,
    by: &SessionId,
    of: &SessionId,
    noise: &mut IncompressibleText,
) {
    for hour in 2..40 {
        let (turn, ctx) = (case.begin(by), later(hour));
        let paths = [std::path::PathBuf::from("g")];
        match case.engine.tool_calls().open_named(&ctx, &turn, None, &paths) {
            Ok(call) => {
                case.put("g", Some(&noise.text(SIZE)));
                case.engine.tool_calls().close(&ctx, &turn, &call).expect("closes");
            }
            Err(EngineError::OverBudget(_)) => {}
            Err(error) => panic!("{error:?}"),
        }
        case.end(&turn);
        if !expired(case, of).is_empty() {
            return;
        }
    }
    panic!("no guard ever went");
}

/// Proves R14.
#[test]
fn guards_are_evicted_last_and_never_the_newest() {
    let (case, mut noise) = (fixture_with_budget(64 * SIZE), IncompressibleText::new());
    let [session, other] = ["ses_a", "ses_b"].map(|id| case.session(id, None));
    let done: Vec<OperationId> = (0..4).map(|_| merged_undo(&case, &session, &mut noise)).collect();
    let case = with_smaller_budget(case, 7 * SIZE);

    fill_until_guard_evicted(&case, &other, &session, &mut noise);

    let gone = expired(&case, &session);
    assert!(done.starts_with(&gone) && gone.len() < done.len(), "oldest first: {gone:?}");
    // Whatever could expire of turns had done so before: all but the newest of each session.
    for id in [&session, &other] {
        let read = case
            .engine
            .store()
            .read(&ctx(), |r| Ok((r.turns().list(id)?, r.undo_expiry().expired_turns(id)?)));
        let (turns, expired) = read.expect("reads");
        let standing = turns.iter().filter(|turn| !expired.contains_key(&turn.id)).count();
        assert!(standing <= 2, "{id}: {standing} of {}", turns.len());
    }
    let handle = case.engine.snapshots().open(&case.root(), NOW).expect("opens");
    assert!(handle.reader().verify_objects().expect("reads").damaged.is_empty());
    let all = case.engine.store().read(&ctx(), |r| r.operations().list(&session)).expect("reads");
    let logged: BTreeSet<OperationId> =
        all.iter().flat_map(|it| decode_expired_guards(it).expect("readable")).collect();
    assert_eq!(logged, gone.into_iter().collect(), "each is written down");
    assert!(all.iter().all(|it| it.done.is_some()), "and over");
}

/// Proves R14.
#[test]
fn expired_guard_rejects_redo() {
    let (case, mut noise) = (fixture_with_budget(64 * SIZE), IncompressibleText::new());
    let [session, other] = ["ses_a", "ses_b"].map(|id| case.session(id, None));
    let older = case.turn(&session, "h", Some("small"));
    let first = merged_undo(&case, &session, &mut noise);
    let options = UndoOptions::default();
    let newest = case.engine.store().read(&ctx(), |r| r.turns().list(&session)).expect("reads");
    let which = UndoTarget::Turn(newest.last().expect("two").id.clone());
    // The turn it undid is the newest and never expires; the operation is not.
    case.undo(&session, &UndoTarget::Turn(older));
    let early =
        case.engine.history().plan_redo(&ctx(), &session, &which, &options).expect("a plan");
    assert_eq!(early.relies, std::slice::from_ref(&first));
    let case = with_smaller_budget(case, 4 * SIZE);
    fill_until_guard_evicted(&case, &other, &session, &mut noise);
    assert_eq!(expired(&case, &session), std::slice::from_ref(&first));
    let before = (case.read("f"), case.read("h"));

    let late = case.engine.history().apply(&ctx(), &early);
    let again = case.engine.history().plan_redo(&ctx(), &session, &which, &options);

    for refused in [late.map(drop), again.map(drop)] {
        match refused {
            Err(EngineError::GuardExpired { operation, .. }) => assert_eq!(operation, first),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((case.read("f"), case.read("h")), before);
    let open = case
        .engine
        .store()
        .read(&ctx(), |r| r.operations().sessions_in_operation())
        .expect("reads");
    assert!(open.is_empty(), "nothing is stuck");
}
