//! A program under test: it opens the handle of `DIR/work` next to others and may die anywhere.
//!
//! `owner DIR hold` keeps the store until its input ends and prints `ready`. `owner DIR track NAME
//! COUNT` writes files of its own, captures each time and prints `ack ID TREE`. `owner DIR restore
//! TREE OPERATION` restores a tree under this id and prints the report; `owner DIR undo` takes the
//! newest operation back.

use std::io::{Read, Write};
use std::path::Path;
use std::process::ExitCode;

use turnstone_core::time::EpochMillis;
use turnstone_snapshot::{
    OperationAction, OperationRequest, PinGroup, RestoreOperationId, SnapshotHandle,
    SnapshotOptions,
};

type Fallible<T = ()> = Result<T, Box<dyn std::error::Error>>;

const NOW: EpochMillis = EpochMillis(1_794_728_448_904);

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            drop(writeln!(std::io::stderr(), "error: {error:?}"));
            ExitCode::FAILURE
        }
    }
}

fn run() -> Fallible {
    // As after kill -9: no destructor tidies up.
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        usual(info);
        std::process::abort();
    }));
    let scenario = fail::FailScenario::setup();
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let dir = Path::new(*words.first().ok_or("usage: store_owner DIR COMMAND …")?);
    let (data, run) = (dir.join("data"), dir.join("run"));
    let options = SnapshotOptions::default();
    let handle = SnapshotHandle::open(&data, Some(&run), &dir.join("work"), options, NOW)?;
    match words[1..] {
        ["hold"] => hold(&handle)?,
        ["track", name, count] => track(&handle, dir, name, count.parse()?)?,
        ["restore", tree, id] => {
            let target = handle.reader().find_capture(tree)?;
            let plan = handle.plan_restore(&target, None, false, NOW)?;
            let action = OperationAction::Restore { tree: target.tree, paths: Vec::new() };
            apply(&handle, &OperationRequest { id: id.parse()?, action, plan })?;
        }
        ["undo"] => {
            let of = handle.reader().find_operation(None)?.id;
            let plan = handle.plan_undo(&of, NOW)?;
            apply(
                &handle,
                &OperationRequest {
                    id: RestoreOperationId::generate()?,
                    action: OperationAction::Undo { of },
                    plan,
                },
            )?;
        }
        _ => return Err("unknown command".into()),
    }
    drop(handle);
    scenario.teardown();
    Ok(())
}

/// One line in one write, so that a reader never sees half of an acknowledgement.
fn say(line: &str) -> Fallible {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("{line}\n").as_bytes())?;
    Ok(out.flush()?)
}

fn hold(handle: &SnapshotHandle) -> Fallible {
    while !handle.try_acquire(NOW)? {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    say("ready")?;
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

fn track(handle: &SnapshotHandle, dir: &Path, name: &str, count: usize) -> Fallible {
    let group = PinGroup::new(name);
    for round in 0..count {
        fs_err::write(dir.join("work").join(name), format!("{name} {round}\n"))?;
        let capture = handle.capture(&group, NOW)?.capture;
        say(&format!("ack {} {}", capture.id, capture.tree))?;
    }
    say(if handle.is_owner() { "owner" } else { "client" })
}

fn apply(handle: &SnapshotHandle, order: &OperationRequest) -> Fallible {
    let report = handle.apply_once(order, NOW)?;
    say(&format!("owner {}", handle.is_owner()))?;
    say(&serde_json::to_string(&report)?)
}
