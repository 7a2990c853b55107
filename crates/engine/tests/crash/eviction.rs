//! Expiry and forks, killed at every named point.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use turnstone_core::id::SessionId;
use turnstone_core::operation::OperationKind;
use turnstone_core::time::EpochMillis;
use turnstone_engine::{
    Engine, EngineError, EngineSettings, UndoOptions, UndoTarget, list_guard_groups,
};
use turnstone_snapshot::{FreeSpaceFloor, PinGroup, StorageBudget};
use turnstone_store::{Actor, Context, SessionFilter};
use turnstone_testkit::crash::{KillTrigger, KillableProgram, run_until_failpoint};
use turnstone_testkit::fixture::{SeededRng, TempDataDir};
use turnstone_testkit::test_rounds;

pub(crate) type Fallible<T = ()> = Result<T, Box<dyn std::error::Error>>;

const NOW: EpochMillis = EpochMillis(1_767_225_600_000);
const LIMIT: Duration = Duration::from_secs(300);
const STORE: u64 = 48 << 10;

/// The example built with this test program.
pub(crate) fn space_command(dir: &Path, args: &[&str]) -> Fallible<Command> {
    let test = std::env::current_exe()?;
    let folder = test.parent().and_then(Path::parent).ok_or("no target directory")?;
    #[expect(clippy::disallowed_methods, reason = "the program under test")]
    let mut command = Command::new(folder.join("examples/space"));
    command.arg(dir).args(args);
    Ok(command)
}

pub(crate) fn ctx() -> Context {
    Context::new(Actor::new("ada").expect("a name"), NOW)
}

pub(crate) fn open(dir: &Path) -> Fallible<Engine> {
    let mut settings = EngineSettings::new(&dir.join("data"));
    settings.snapshot_options.budget =
        StorageBudget { store: STORE, floor: FreeSpaceFloor::Bytes(0), ..StorageBudget::default() };
    let engine = Engine::open(settings, NOW)?;
    engine.maintenance().recover_all(&ctx())?;
    Ok(engine)
}

/// What holds after any death: expired turns say so, all others can be planned, nothing is half done
/// and nothing is over its budget. Returns how many have expired.
fn check_evicted_turns(dir: &Path, acknowledged: &[String]) -> Fallible<usize> {
    let engine = open(dir)?;
    let session: SessionId = "ses_a".parse()?;
    let (turns, expired, open) = engine.store().read(&ctx(), |r| {
        Ok((
            r.turns().list(&session)?,
            r.undo_expiry().expired_turns(&session)?,
            r.undo_expiry().unfinished()?,
        ))
    })?;
    assert!(open.is_empty(), "recovery finished what was cut off: {open:?}");
    for line in acknowledged.iter().filter_map(|line| line.strip_prefix("turn ")) {
        assert!(turns.iter().any(|turn| turn.id.as_str() == line), "{line} is lost");
    }
    for turn in &turns {
        let which = UndoTarget::Turn(turn.id.clone());
        match engine.history().plan_undo(&ctx(), &session, &which, &UndoOptions::default()) {
            Err(EngineError::UndoExpired { .. }) if expired.contains_key(&turn.id) => {}
            Ok(_) if !expired.contains_key(&turn.id) => {}
            other => return Err(format!("{}: {other:?}", turn.id).into()),
        }
    }
    let newest = turns.last().ok_or("no turn")?;
    assert!(!expired.contains_key(&newest.id), "the newest turn stays");
    let handle = engine.snapshots().open(&dir.join("work"), NOW)?;
    let (used, verified) = (handle.reader().usage()?.bytes, handle.reader().verify_objects()?);
    assert!(used <= STORE, "{used} bytes are used");
    assert!(verified.damaged.is_empty(), "{verified:?}");
    Ok(expired.len())
}

/// Proves R13.
#[test]
fn turn_eviction_killed_at_any_failpoint_stays_consistent() -> Fallible {
    let points = [
        "engine::expiry_written",
        "engine::expiry_dropped",
        "snapshot::expired_packed",
        "snapshot::expired",
        "snapshot::repacked",
        "snapshot::pack_dropped",
    ];
    for point in points {
        let data = TempDataDir::in_memory()?;
        let mut expired = 0;
        for after in [0, 1, 2, 6, 10] {
            let mut program = space_command(data.path(), &["fill", "40"])?;
            let outcome =
                run_until_failpoint(&mut program, &format!("{point}={after}*off->panic"), LIMIT)?;
            expired = check_evicted_turns(data.path(), &outcome.acknowledged)
                .map_err(|error| format!("{point} after {after}: {error}"))?;
        }
        assert!(expired > 0, "{point}: nothing had expired");
    }
    Ok(())
}

/// What holds after any death among guards: each that has not expired is there, none other is, and
/// the newest operation can be undone. Returns how many have expired.
fn check_evicted_guards(dir: &Path, acknowledged: &[String]) -> Fallible<usize> {
    let engine = open(dir)?;
    let session: SessionId = "ses_a".parse()?;
    let (operations, expired, open) = engine.store().read(&ctx(), |r| {
        Ok((
            r.operations().list(&session)?,
            r.undo_expiry().expired_guards(&session)?,
            r.undo_expiry().unfinished()?,
        ))
    })?;
    assert!(open.is_empty(), "recovery finished what was cut off: {open:?}");
    let undone: Vec<_> = operations.iter().filter(|it| it.kind == OperationKind::Undo).collect();
    for line in acknowledged.iter().filter_map(|line| line.strip_prefix("undone ")) {
        assert!(undone.iter().any(|it| it.id.as_str() == line), "{line} is lost");
    }
    let newest = undone.last().ok_or("nothing was undone")?;
    assert!(!expired.contains_key(&newest.id), "the newest operation keeps its guard");
    let handle = engine.snapshots().open(&dir.join("work"), NOW)?;
    let pinned = list_guard_groups(engine.store(), &ctx())?;
    let there: BTreeSet<PinGroup> = handle
        .reader()
        .list_captures()?
        .iter()
        .filter(|it| it.is_guard())
        .map(|it| PinGroup::new(&it.group))
        .collect();
    assert_eq!(pinned.len() + expired.len(), undone.len());
    assert_eq!(there, pinned, "rows and objects agree");
    let options = UndoOptions::default();
    match engine.history().plan_redo(&ctx(), &session, &UndoTarget::Last, &options) {
        // The next prompt was there when it died.
        Ok(_) | Err(EngineError::NothingToRedo(_) | EngineError::UndoSuperseded { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    assert!(handle.reader().verify_objects()?.damaged.is_empty());
    Ok(expired.len())
}

/// Proves R14.
#[test]
fn guard_eviction_killed_at_any_failpoint_stays_consistent() -> Fallible {
    let points = [
        "engine::expiry_written",
        "snapshot::guard_expired",
        "engine::expiry_dropped",
        "snapshot::repacked",
        "snapshot::pack_dropped",
    ];
    for point in points {
        let data = TempDataDir::in_memory()?;
        // Until a guard has to go for every undo.
        let filled = space_command(data.path(), &["guards", "10"])?.output()?;
        assert!(filled.status.success(), "{}", String::from_utf8_lossy(&filled.stderr));
        let mut expired = check_evicted_guards(data.path(), &[])?;
        assert!(expired > 0, "no guard had to go");
        for after in [0, 1, 2] {
            let mut program = space_command(data.path(), &["guards", "20"])?;
            let outcome =
                run_until_failpoint(&mut program, &format!("{point}={after}*off->panic"), LIMIT)?;
            expired = check_evicted_guards(data.path(), &outcome.acknowledged)
                .map_err(|error| format!("{point} after {after}: {error}"))?
                .max(expired);
        }
        assert!(expired > 2, "{point}: {expired}");
    }
    Ok(())
}

/// Proves R13.
#[test]
fn turn_eviction_killed_at_random_stays_consistent() -> Fallible {
    let (data, mut rng) = (TempDataDir::in_memory()?, SeededRng::new(11));
    let mut all = Vec::new();
    for round in 0..test_rounds::choose_rounds(11, 12) {
        let victim = KillableProgram::start(&mut space_command(data.path(), &["fill", "100000"])?)?;
        let trigger = KillTrigger::random(&mut rng, 12, Duration::from_millis(150));
        all.extend(victim.kill_on(trigger, LIMIT)?.acknowledged);
        if !all.is_empty() {
            check_evicted_turns(data.path(), &all)
                .map_err(|error| format!("round {round}: {error}"))?;
        }
    }
    let expired = check_evicted_turns(data.path(), &all)?;
    assert!(expired > 3, "only {expired} have expired");
    Ok(())
}

/// Proves R40.
#[test]
fn interrupted_fork_is_removed_and_retry_succeeds() -> Fallible {
    let data = TempDataDir::in_memory()?;
    let filled = space_command(data.path(), &["fill", "4"])?.output()?;
    assert!(filled.status.success(), "{}", String::from_utf8_lossy(&filled.stderr));
    for point in ["engine::fork_begun=panic", "engine::fork_copies=panic"] {
        let mut program = space_command(data.path(), &["fork"])?;
        run_until_failpoint(&mut program, point, LIMIT)?;
    }
    let engine = open(data.path())?;
    let filter = SessionFilter { archived: true, ..SessionFilter::default() };
    let ids = |engine: &Engine| -> Fallible<Vec<String>> {
        let page = engine.store().read(&ctx(), |r| r.sessions().list(&filter, None, 10))?;
        Ok(page.items.iter().map(|row| row.session.id.to_string()).collect())
    };
    assert_eq!(ids(&engine)?, ["ses_a"], "nothing half is left");
    let whole = engine.history().forks().fork_session(&ctx(), &"ses_a".parse()?, None)?;
    assert!(whole.extra.is_empty() && whole.time.archived.is_none(), "{whole:?}");
    assert!(engine.maintenance().recover_all(&ctx())?.removed.is_empty());
    assert_eq!(ids(&engine)?.len(), 2);
    Ok(())
}
