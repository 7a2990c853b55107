//! A program under test: it captures and restores, prints what was acknowledged, and may die anywhere.
//!
//! `handle DIR load SEED COUNT` edits `DIR/work`, captures, and prints `ack ID TREE` for each capture.
//! `handle DIR swing SEED COUNT` restores the worktree to its first capture and back again, and prints
//! `done` for each. `handle DIR churn SEED COUNT` captures for a group that stays and one that goes, and
//! collects or repacks after each; only captures that stay are acknowledged. `handle DIR maintain
//! SEED COUNT` does all kinds of maintenance each round and prints `gone ID` before a capture expires. `handle
//! DIR fill SEED COUNT` captures until it is done, whatever fails on the way. `handle DIR time`
//! prints how long captures of `DIR/work` take, `handle DIR edits SIZE COUNT` what so many edits of one
//! text of that size take before and after a repack. `handle DIR states COUNT` makes worktrees of every
//! kind of file, durably, and prints `ack ID TREE` for the capture of each; `handle DIR step FIRST COUNT`
//! restores them from the `FIRST` on, one after the other, and prints `done INDEX CONFLICTS` for each.
//! `handle DIR grow FOLDERS` makes a worktree of fifty files in each folder; `handle DIR reuse SEED COUNT`
//! captures a committed checkout and releases the borrowed packs each time; `handle DIR first` prints how long the
//! first capture takes, `handle DIR walk` walks that find nothing changed.

use std::io::Write;
use std::path::Path;

use turnstone_core::time::EpochMillis;
use turnstone_snapshot::{
    CaptureError, CaptureRules, EvictionRequest, PinGroup, RootPolicy, SnapshotStore,
    UserGitSettings, Worktree,
};
use turnstone_testkit::fixture::SeededRng;

type Fallible<T = ()> = Result<T, Box<dyn std::error::Error>>;

const NOW: EpochMillis = EpochMillis(1_794_728_448_904);

fn main() -> std::process::ExitCode {
    match run() {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            drop(writeln!(std::io::stderr(), "error: {error}"));
            std::process::ExitCode::FAILURE
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
    let dir = Path::new(*words.first().ok_or("usage: vault DIR COMMAND …")?);
    if let ["reuse", seed, count] = words[1..] {
        return reuse_packs(dir, seed.parse()?, count.parse()?);
    }
    let store = open(dir)?;
    match words[1..] {
        ["load", seed, count] => load(&store, dir, seed.parse()?, count.parse()?)?,
        ["swing", seed, count] => swing(&store, dir, seed.parse()?, count.parse()?)?,
        ["churn", seed, count] => churn(&store, dir, seed.parse()?, count.parse()?)?,
        ["maintain", seed, count] => maintain(&store, dir, seed.parse()?, count.parse()?)?,
        ["fill", seed, count] => fill(&store, dir, seed.parse()?, count.parse()?)?,
        ["edits", size, count] => edits(&store, dir, size.parse()?, count.parse()?)?,
        ["states", count] => states(&store, dir, count.parse()?)?,
        ["step", first, count] => step(&store, first.parse()?, count.parse()?)?,
        ["time"] => time(&store, dir)?,
        ["first"] => first(&store)?,
        ["walk"] => walk(&store)?,
        ["grow", folders] => grow(dir, folders.parse()?)?,
        _ => return Err("unknown command".into()),
    }
    scenario.teardown();
    Ok(())
}

fn open(dir: &Path) -> Fallible<SnapshotStore> {
    let worktree = Worktree::open(&dir.join("work"), &RootPolicy::default())?;
    // No user, no settings: an index of the worktree's repository is believed.
    let selection =
        CaptureRules { user_git: Some(UserGitSettings::default()), ..CaptureRules::default() };
    Ok(SnapshotStore::open(&dir.join("store"), worktree, selection)?)
}

/// One line in one write, so that a reader never sees half of an acknowledgement.
fn say(line: &str) -> Fallible {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("{line}\n").as_bytes())?;
    Ok(out.flush()?)
}

fn edit(dir: &Path, rng: &mut SeededRng) -> Fallible {
    for _ in 0..rng.in_range(1..=4) {
        let name = format!("work/d{}/f{}", rng.below(4), rng.below(6));
        let path = dir.join(name);
        fs_err::create_dir_all(path.parent().ok_or("no parent")?)?;
        match rng.below(4) {
            0 => drop(fs_err::remove_file(path)),
            _ => fs_err::write(path, format!("{}\n", rng.below(u64::MAX)).repeat(40))?,
        }
    }
    Ok(())
}

fn load(store: &SnapshotStore, dir: &Path, seed: u64, count: usize) -> Fallible {
    let mut rng = SeededRng::new(seed);
    // Every other run captures by the journal.
    if seed.is_multiple_of(2) {
        store.journal().start();
    }
    for _ in 0..count {
        edit(dir, &mut rng)?;
        let group = PinGroup::new(&format!("group {}", rng.below(3)));
        let capture = store.capture(&group, NOW)?.capture;
        say(&format!("ack {} {}", capture.id, capture.tree))?;
    }
    Ok(())
}

/// Borrows from the repository of the worktree again and again, and settles each time.
fn reuse_packs(dir: &Path, seed: u64, count: usize) -> Fallible {
    let mut rng = SeededRng::new(seed);
    let group = PinGroup::new("reuse");
    for _ in 0..count {
        let store = open(dir)?;
        for _ in 0..2 {
            let captured = store.capture(&group, NOW)?;
            let capture = captured.capture;
            say(&format!("ack {} {}", capture.id, capture.tree))?;
            say(&format!("reused {}", captured.reused))?;
            edit(dir, &mut rng)?;
        }
        store.packs().release_borrowed_packs()?;
        drop(store);
        // Nothing is remembered of the worktree: the next capture borrows again.
        fs_err::remove_file(dir.join("store/stat-cache"))?;
    }
    Ok(())
}

fn churn(store: &SnapshotStore, dir: &Path, seed: u64, count: usize) -> Fallible {
    let mut rng = SeededRng::new(seed);
    let (stays, goes) = (PinGroup::new("stays"), PinGroup::new("goes"));
    let live = [stays.clone()].into();
    for round in 0..count {
        edit(dir, &mut rng)?;
        store.capture(&goes, NOW)?;
        edit(dir, &mut rng)?;
        let capture = store.capture(&stays, NOW)?.capture;
        say(&format!("ack {} {}", capture.id, capture.tree))?;
        match round % 4 {
            0 => drop(store.collector().gc(&live, NOW.plus(7_200_000), false)?),
            _ => drop(store.packs().repack(1 << 30)?),
        }
    }
    Ok(())
}

fn maintain(store: &SnapshotStore, dir: &Path, seed: u64, count: usize) -> Fallible {
    let mut rng = SeededRng::new(seed);
    let (stays, goes) = (PinGroup::new("stays"), PinGroup::new("goes"));
    let live = [stays.clone()].into();
    for _ in 0..count {
        for _ in 0..3 {
            edit(dir, &mut rng)?;
            store.capture(&goes, NOW)?;
            edit(dir, &mut rng)?;
            let capture = store.capture(&stays, NOW)?.capture;
            say(&format!("ack {} {}", capture.id, capture.tree))?;
        }
        store.packs().repack(1 << 30)?;
        let captures = store.captures().list(&stays)?;
        if let Some(oldest) = captures.get(5) {
            captures[6..].iter().try_for_each(|id| say(&format!("gone {id}")))?;
            store.expiry().expire_before(&stays, oldest)?;
        }
        store.collector().gc(&live, NOW.plus(7_200_000), false)?;
    }
    Ok(())
}

fn fill(store: &SnapshotStore, dir: &Path, seed: u64, count: usize) -> Fallible {
    let mut rng = SeededRng::new(seed);
    for _ in 0..count {
        edit(dir, &mut rng)?;
        match store.capture(&PinGroup::new("fill"), NOW) {
            Ok(captured) => say(&format!("ack {} {}", captured.capture.id, captured.capture.tree))?,
            Err(CaptureError::NoSpace(_)) => say("full")?,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn swing(store: &SnapshotStore, dir: &Path, seed: u64, count: usize) -> Fallible {
    store.restores().resume()?;
    let group = PinGroup::new("swing");
    let mut rng = SeededRng::new(seed);
    let first = match store.captures().list(&group)?.last() {
        Some(id) => store.captures().get(id)?,
        None => store.capture(&group, NOW)?.capture,
    };
    say("open")?;
    for _ in 0..count {
        edit(dir, &mut rng)?;
        let now = store.capture(&group, NOW)?.capture;
        say(&format!("ack {} {}", now.id, now.tree))?;
        let plan = store.planner().plan_restore(&first, &now, None, false)?;
        store.restores().apply_plan(&plan, &PinGroup::new("guard"), NOW)?;
        say("done")?;
        store.restores().apply_plan(
            &store.planner().plan_targets(&plan.inverse())?,
            &PinGroup::new("guard"),
            NOW,
        )?;
        say("done")?;
    }
    Ok(())
}

/// The budget's own example (R13): one line of a text changes, again and again.
#[expect(clippy::disallowed_methods, reason = "it measures")]
fn edits(store: &SnapshotStore, dir: &Path, size: usize, count: usize) -> Fallible {
    let mut rng = SeededRng::new(1);
    let mut word = || format!("{:x} {:x}\n", rng.below(u64::MAX), rng.below(u64::MAX));
    let mut lines: Vec<String> = (0..size / 33).map(|_| word()).collect();
    let paths = ["big.txt".parse()?].into();
    let (group, live) = (PinGroup::new("edits"), [PinGroup::new("edits")].into());
    let request = EvictionRequest { bytes: 0, live, effort: 256 << 20, now: NOW };
    let mut evictions = 0;
    let started = std::time::Instant::now();
    for round in 0..count {
        let at = (round * 7919) % lines.len();
        lines[at] = word();
        fs_err::write(dir.join("work/big.txt"), lines.concat())?;
        while let Err(error) = store.capture_named(&group, &paths, false, NOW) {
            let CaptureError::OverBudget(over) = error else { return Err(error.into()) };
            let request = EvictionRequest { bytes: over.needed, ..request.clone() };
            if !store.eviction().reclaim_unpinned(&request)?.fits {
                return Err(error.into());
            }
            evictions += 1;
        }
    }
    let usage = store.inspection().usage()?;
    say(&format!("{count} captures: {:.0} ms, room made {evictions} times", ms(started)))?;
    say(&format!("{usage:?}"))?;
    loop {
        let started = std::time::Instant::now();
        let merged = store.packs().repack(256 << 20)?;
        say(&format!("repack: {:.0} ms, {merged:?}", ms(started)))?;
        if merged.is_done {
            break;
        }
    }
    let status = fs_err::read_to_string("/proc/self/status")?;
    let peak = status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or_default();
    say(&format!("{:?}, {peak}", store.inspection().usage()?))
}

fn states(store: &SnapshotStore, dir: &Path, count: usize) -> Fallible {
    let work = dir.join("work");
    for index in 0..count {
        for entry in fs_err::read_dir(&work)? {
            let path = entry?.path();
            match path.is_dir() && !path.is_symlink() {
                true => fs_err::remove_dir_all(path)?,
                false if !path.ends_with("two") => fs_err::remove_file(path)?,
                false => {}
            }
        }
        make_state(dir, index)?;
        sync(&work)?;
        let capture = store.capture(&PinGroup::new("states"), NOW)?.capture;
        say(&format!("ack {} {}", capture.id, capture.tree))?;
    }
    Ok(())
}

/// Files that stay, come and go, links, a name that is a file, a directory or a link in turn, a file
/// with two names.
fn make_state(dir: &Path, index: usize) -> Fallible {
    let work = dir.join("work");
    let text = |lines: usize| format!("state {index}\n").repeat(lines);
    for name in ["a", "deep/er/b", &format!("d{}/c", index % 2)] {
        let path = work.join(name);
        fs_err::create_dir_all(path.parent().ok_or("no parent")?)?;
        fs_err::write(path, text(300))?;
    }
    std::os::unix::fs::symlink(format!("state {index}"), work.join("link"))?;
    let kind = work.join("kind");
    match index % 3 {
        0 => fs_err::write(kind, text(2))?,
        1 => {
            fs_err::create_dir(&kind)?;
            fs_err::write(kind.join("x"), text(2))?;
            fs_err::write(kind.join("y"), text(3))?;
        }
        _ => std::os::unix::fs::symlink(format!("state {index}"), kind)?,
    }
    fs_err::write(work.join("two"), text(500 - 70 * index))?;
    fs_err::hard_link(work.join("two"), dir.join("second")).or_else(|error| {
        let is_there = error.kind() == std::io::ErrorKind::AlreadyExists;
        if is_there { Ok(()) } else { Err(error) }
    })?;
    Ok(())
}

/// Makes everything below a directory durable, as a careful editor would have.
fn sync(folder: &Path) -> Fallible {
    for entry in fs_err::read_dir(folder)? {
        let path = entry?.path();
        match fs_err::symlink_metadata(&path)? {
            meta if meta.is_dir() => sync(&path)?,
            meta if meta.is_file() => fs_err::File::open(path)?.sync_all()?,
            _ => {}
        }
    }
    Ok(fs_err::File::open(folder)?.sync_all()?)
}

fn step(store: &SnapshotStore, first: usize, count: usize) -> Fallible {
    store.restores().resume()?;
    let mut ids = store.captures().list(&PinGroup::new("states"))?;
    ids.reverse();
    say("open")?;
    for index in first..first + count {
        let target = store.captures().get(&ids[index % ids.len()])?;
        let now = store.capture(&PinGroup::new("now"), NOW)?.capture;
        let plan = store.planner().plan_restore(&target, &now, None, false)?;
        let report = store.restores().apply_plan(&plan, &PinGroup::new("guard"), NOW)?;
        say(&format!("done {} {}", index % ids.len(), report.conflicts.len()))?;
    }
    Ok(())
}

/// Prints how long walks take when nothing changed.
#[expect(clippy::disallowed_methods, reason = "it measures")]
fn walk(store: &SnapshotStore) -> Fallible {
    store.capture(&PinGroup::new("time"), NOW)?;
    for _ in 0..7 {
        let started = std::time::Instant::now();
        store.capture(&PinGroup::new("time"), NOW)?;
        say(&format!("unchanged, walked: {:.1} ms", ms(started)))?;
    }
    Ok(())
}

/// Makes folders of fifty files each.
fn grow(dir: &Path, folders: usize) -> Fallible {
    let mut rng = SeededRng::new(7);
    for folder in 0..folders {
        let at = dir.join(format!("work/d{folder}"));
        fs_err::create_dir_all(&at)?;
        for file in 0..50 {
            let lines = rng.in_range(1..=60) as usize;
            fs_err::write(at.join(format!("f{file}")), format!("{folder} {file}\n").repeat(lines))?;
        }
    }
    Ok(())
}

/// One capture, for measuring the process.
#[expect(clippy::disallowed_methods, reason = "it measures")]
fn first(store: &SnapshotStore) -> Fallible {
    let started = std::time::Instant::now();
    let captured = store.capture(&PinGroup::new("time"), NOW)?;
    say(&format!("first: {:.1} ms, {} reused", ms(started), captured.reused))
}

#[expect(clippy::disallowed_methods, reason = "it measures")]
fn time(store: &SnapshotStore, dir: &Path) -> Fallible {
    let group = PinGroup::new("time");
    let timed = |what: &str| -> Fallible {
        let started = std::time::Instant::now();
        let captured = store.capture(&group, NOW)?;
        let took = started.elapsed().as_secs_f64() * 1000.0;
        say(&format!(
            "{what}: {took:.2} ms, {} files, {} changed, {} reused, {:?}",
            captured.files, captured.changed, captured.reused, captured.mode
        ))
    };
    timed("first")?;
    for _ in 0..7 {
        timed("unchanged, walked")?;
    }
    store.journal().start();
    timed("journal starts")?;
    for _ in 0..7 {
        timed("unchanged, told")?;
    }
    for round in 0..7 {
        fs_err::write(dir.join("work/d7/one-changed"), format!("{round}"))?;
        timed("one changed")?;
    }
    for round in 0..3 {
        for index in 0..10_000 {
            let path = format!("work/d{}/f{}", index % 200, index / 200);
            fs_err::write(dir.join(path), format!("{round} {index}\n").repeat(20))?;
        }
        timed("10,000 changed")?;
    }
    let started = std::time::Instant::now();
    let audit = store.journal().audit(NOW)?;
    say(&format!(
        "audit of {}: {:.1} ms, {} missed",
        audit.files,
        ms(started),
        audit.missed.len()
    ))?;
    for round in 0..5 {
        let path = "one-changed".parse()?;
        fs_err::write(dir.join("work/one-changed"), format!("named {round}"))?;
        let started = std::time::Instant::now();
        store.capture_named(&group, &[path].into(), false, NOW)?;
        say(&format!("named: {:.2} ms", started.elapsed().as_secs_f64() * 1000.0))?;
    }
    let started = std::time::Instant::now();
    let settled = store.packs().release_borrowed_packs()?;
    say(&format!("settled: {:.1} ms, {} copied", ms(started), settled.copied))?;
    revert(store, dir)
}

#[expect(clippy::disallowed_methods, reason = "it measures")]
fn revert(store: &SnapshotStore, dir: &Path) -> Fallible {
    let group = PinGroup::new("time");
    fs_err::create_dir_all(dir.join("work/hundred"))?;
    let write = |text: &str| -> Fallible {
        for index in 0..100 {
            fs_err::write(dir.join(format!("work/hundred/{index}")), format!("{text} {index}\n"))?;
        }
        Ok(())
    };
    write("old")?;
    let target = store.capture(&group, NOW)?.capture;
    write("new")?;
    let now = store.capture(&group, NOW)?.capture;
    let started = std::time::Instant::now();
    let diff = store.diffs().between(&target, &now, &turnstone_snapshot::DiffOptions::default())?;
    say(&format!("diff of {}: {:.1} ms", diff.files.len(), ms(started)))?;
    let started = std::time::Instant::now();
    let plan = store.planner().plan_restore(&target, &now, None, false)?;
    say(&format!("plan of {}: {:.1} ms", plan.steps.len(), ms(started)))?;
    let started = std::time::Instant::now();
    store.restores().apply_plan(&plan, &group, NOW)?;
    say(&format!("apply: {:.1} ms", ms(started)))
}

fn ms(started: std::time::Instant) -> f64 {
    started.elapsed().as_secs_f64() * 1000.0
}
