//! A path becomes another kind of thing, and is stopped or refused between any two writes (R17).

#[cfg(test)]
#[expect(dead_code, reason = "shared by several test programs")]
mod support;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use support::{NOW, StoreFixture, path};
use turnstone_snapshot::{
    ConflictReason, PinGroup, RestoreError, RestorePlan, RestoreReport, TargetState,
};

const KINDS: [&str; 4] = ["absent", "file", "link", "directory"];

fn make(case: &StoreFixture, kind: &str, mark: &str) {
    let long = format!("{mark}\n").repeat(140);
    match kind {
        "file" => case.write("p", &long),
        "link" => case.link("p", mark),
        "directory" => {
            case.write("p/a", &long);
            case.write("p/b/c", mark);
            case.link("p/l", mark);
        }
        _ => {}
    }
}

fn remove_test_path(case: &StoreFixture) {
    let at = case.at("p");
    match fs_err::symlink_metadata(&at) {
        Ok(meta) if meta.is_dir() => fs_err::remove_dir_all(&at).expect("removed"),
        Ok(_) => fs_err::remove_file(&at).expect("removed"),
        Err(_) => {}
    }
}

/// A worktree in which `p` was `one` and is `other`, and the plan that takes that back.
fn plan_between_kinds(one: &str, other: &str) -> (StoreFixture, RestorePlan, Tree, Tree) {
    let case = StoreFixture::in_memory();
    case.write("keep", "k");
    make(&case, one, "old");
    let wanted = tree(&case.root());
    let names = ["p", "p/a", "p/b/c", "p/l"];
    let before = case.capture_named(&names).capture;
    remove_test_path(&case);
    make(&case, other, "new");
    let edited = tree(&case.root());
    let after = case.capture_named(&names).capture;
    let image = |capture, name: &str| {
        case.store.captures().path_image(capture, &path(name)).expect("readable")
    };
    let targets: Vec<TargetState> = names
        .iter()
        .map(|name| TargetState::new(path(name), Some(image(&after, name)), image(&before, name)))
        .collect();
    let plan = case.store.planner().plan_targets(&targets).expect("a plan");
    (case, plan, wanted, edited)
}

type Tree = BTreeMap<String, String>;

/// Files and links below a directory.
fn tree(root: &Path) -> Tree {
    let mut found = Tree::new();
    let mut todo = vec![root.to_owned()];
    while let Some(folder) = todo.pop() {
        for entry in fs_err::read_dir(folder).expect("listed") {
            let path = entry.expect("entry").path();
            let meta = fs_err::symlink_metadata(&path).expect("there");
            let name = path.strip_prefix(root).expect("below").display().to_string();
            if meta.is_dir() {
                todo.push(path);
            } else if meta.is_symlink() {
                found
                    .insert(name, format!("-> {}", fs_err::read_link(&path).expect("l").display()));
            } else {
                let text = fs_err::read_to_string(&path).expect("text");
                let count = text.lines().count();
                let first = text.lines().next().unwrap_or_default();
                let is_even = text.lines().all(|line| line == first);
                found.insert(name, if is_even { format!("{count} times {first}") } else { text });
            }
        }
    }
    found
}

fn apply(case: &StoreFixture, plan: &RestorePlan) -> Result<RestoreReport, RestoreError> {
    case.store.restores().apply_plan(plan, &PinGroup::new("guard"), NOW)
}

/// Runs something that dies at the `nth` change of the worktree; nothing if it died.
fn run_until_failpoint<T>(nth: usize, act: impl FnOnce() -> T) -> Option<T> {
    fail::cfg("snapshot::touch", &format!("{nth}*off->panic")).expect("a point");
    let done = catch_unwind(AssertUnwindSafe(act)).ok();
    fail::remove("snapshot::touch");
    done
}

/// Deaths that were ordered are not worth a word.
fn silence_panics() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if !info.to_string().contains("failpoint") {
            usual(info);
        }
    }));
}

/// For every pair of kinds and every write of the way from one to the other.
fn for_each_kill_point(
    without: &str,
    mut check: impl FnMut(&mut StoreFixture, &RestorePlan, [&Tree; 2], &str),
) -> usize {
    let scenario = fail::FailScenario::setup();
    silence_panics();
    let mut deaths = 0;
    if !without.is_empty() {
        fail::cfg(without, "return").expect("a point");
    }
    for one in KINDS {
        for other in KINDS {
            for nth in 0.. {
                let (mut case, plan, wanted, edited) = plan_between_kinds(one, other);
                if run_until_failpoint(nth, || apply(&case, &plan)).is_some() {
                    break;
                }
                deaths += 1;
                case.reopen();
                let about = format!("{other} to {one}, died at write {nth}");
                check(&mut case, &plan, [&wanted, &edited], &about);
            }
        }
    }
    drop(std::panic::take_hook());
    scenario.teardown();
    deaths
}

fn assert_resumes_after_every_kill(without: &str) {
    let deaths = for_each_kill_point(without, |case, _, [wanted, _], about| {
        // Finishing dies as well, a little later each time, until it does not.
        for nth in (0..).map(|round| 1 << round) {
            let done = run_until_failpoint(nth, || case.store.restores().resume());
            case.reopen();
            if let Some(reports) = done {
                let reports = reports.expect("resumed");
                assert!(reports.iter().all(|it| it.conflicts.is_empty()), "{about} {reports:?}");
                break;
            }
        }
        assert_eq!(&tree(&case.root()), wanted, "{about}");
    });
    assert!(deaths > 80, "{deaths}");
}

/// Proves R17.
#[test]
fn restore_killed_between_any_two_writes_resumes() {
    assert_resumes_after_every_kill("");
}

/// Proves R15, R17.
#[test]
fn restore_without_rename_exchange_resumes_after_kill() {
    assert_resumes_after_every_kill("snapshot::no_flags");
}

/// A foreign file appears inside after the death: the group is left as it was, or was done before.
/// Proves R17.
#[test]
fn foreign_file_created_after_kill_is_never_lost() {
    for_each_kill_point("", |case, _, [wanted, edited], about| {
        let foreign = case.at("p/foreign");
        let is_dir = fs_err::symlink_metadata(case.at("p")).is_ok_and(|meta| meta.is_dir());
        if !is_dir {
            return;
        }
        fs_err::write(&foreign, "mine").expect("written");

        let reports = case.store.restores().resume().expect("resumed");

        assert_eq!(case.read("p/foreign"), "mine", "{about}");
        let mut found = tree(&case.root());
        found.remove("p/foreign");
        let is_whole = found == *wanted || found == *edited;
        assert!(is_whole, "{about}: {found:?} {reports:?}");
    });
}

/// Every write fails once, and from some write on all of them: nothing is lost, nothing is half done
/// without a word, and once the disk works again the next open leaves no temporary name.
/// Proves R15.
#[test]
fn failing_writes_lose_no_file_and_are_reported() {
    let scenario = fail::FailScenario::setup();
    let (mut refusals, mut stuck) = (0, 0);
    for (one, other) in KINDS.iter().flat_map(|one| KINDS.map(|other| (*one, other))) {
        for (nth, lasting) in (0..).flat_map(|nth| [(nth, false), (nth, true)]) {
            let (mut case, plan, wanted, edited) = plan_between_kinds(one, other);
            let times = if lasting { "return" } else { "1*return->off" };
            fail::cfg("snapshot::touch", &format!("{nth}*off->{times}")).expect("a point");
            let result = apply(&case, &plan);
            fail::remove("snapshot::touch");
            let about = format!("{other} to {one}, write {nth} refused, lasting {lasting}");
            let is_reported = result.is_ok();
            let report = match result {
                Ok(report) => report,
                Err(RestoreError::Unfinished(_)) => {
                    stuck += 1;
                    case.reopen();
                    let mut reports = case.store.restores().resume().expect("resumed");
                    assert_eq!(tree(&case.root()), wanted, "{about} {reports:?}");
                    reports.remove(0)
                }
                Err(error) => panic!("{about}: {error}"),
            };
            refusals += report.conflicts.len();
            let refused = |name: &str| report.conflicts.iter().any(|it| it.path == path(name));
            let of = |side: &Tree, is_edited: bool| -> Tree {
                let chosen = side.iter().filter(|(name, _)| refused(name) == is_edited);
                chosen.map(|(name, text)| (name.clone(), text.clone())).collect()
            };
            let named: Tree = of(&wanted, false).into_iter().chain(of(&edited, true)).collect();
            assert_eq!(files(&case), named, "{about}: {report:?}");
            case.reopen();
            case.store.restores().resume().expect("resumed");
            assert_eq!(tree(&case.root()), named, "{about}: {report:?}");
            if nth > 40 || (is_reported && report.conflicts.is_empty() && lasting) {
                break;
            }
        }
    }
    assert!(refusals > 100 && stuck > 20, "{refusals} {stuck}");
    scenario.teardown();
}

/// Files that are not ours on their way.
fn files(case: &StoreFixture) -> Tree {
    tree(&case.root()).into_iter().filter(|(name, _)| !name.contains("turnstone-tmp")).collect()
}

/// Somebody saves over a file that the group has placed, and the group fails later on.
/// Proves R15.
#[test]
fn rollback_keeps_concurrent_saves() {
    let scenario = fail::FailScenario::setup();
    for (one, other) in [("directory", "absent"), ("directory", "file"), ("directory", "link")] {
        let (mut case, plan, ..) = plan_between_kinds(one, other);
        let (saved, way) = (case.at("p/a"), case.at("p/l"));
        fail::cfg_callback("snapshot::swapped", move || {
            if saved.exists() && !way.exists() {
                fs_err::write(&saved, "saved by hand").expect("written");
                fs_err::write(&way, "in the way").expect("written");
            }
        })
        .expect("a point");

        let report = apply(&case, &plan).expect("a report");

        fail::remove("snapshot::swapped");
        assert!(!report.conflicts.is_empty(), "{report:?}");
        assert_eq!(case.read("p/a"), "saved by hand");
        assert_eq!(case.read("p/l"), "in the way");
        case.reopen();
        case.store.restores().resume().expect("resumed");
        let found = tree(&case.root());
        assert!(found.keys().all(|name| !name.contains("turnstone-tmp")), "{found:?}");
        assert!(report.guard.is_some());
    }
    scenario.teardown();
}

/// A file with a second name is written in place; cut off half way it is finished (R18).
#[test]
fn interrupted_write_of_hard_linked_file_is_finished() {
    let scenario = fail::FailScenario::setup();
    silence_panics();
    let (long, short) = ("old line\n".repeat(2000), "new\n".repeat(300));
    for (old, new) in [(&long, &short), (&short, &long)] {
        for nth in 0..6 {
            let mut case = StoreFixture::in_memory();
            case.write("f", old);
            fs_err::hard_link(case.at("f"), case.dir.path().join("second")).unwrap();
            let target = case.capture().capture;
            case.write("f", new);
            let now = case.capture().capture;
            let plan = case.store.planner().plan_restore(&target, &now, None, false).unwrap();
            if run_until_failpoint(nth, || apply(&case, &plan)).is_none() {
                // What a power cut can leave of it.
                let sectors = old.len().min(new.len()) / 512 / 2 * 512;
                let torn = [&old.as_bytes()[..sectors], &new.as_bytes()[sectors..]].concat();
                case.write("f", torn);
                case.reopen();
                let reports = case.store.restores().resume().unwrap();
                assert!(reports[0].conflicts.is_empty(), "{nth}: {reports:?}");
                assert_eq!(reports[0].in_place, [path("f")]);
            }
            assert_eq!(case.read("f"), *old, "{nth}");
            let second = fs_err::read_to_string(case.dir.path().join("second")).unwrap();
            assert_eq!(second, *old, "{nth}");
        }
    }
    drop(std::panic::take_hook());
    scenario.teardown();
}

/// Proves R18.
#[test]
fn failed_in_place_write_restores_old_bytes() {
    let scenario = fail::FailScenario::setup();
    for nth in 0..5 {
        let case = StoreFixture::in_memory();
        case.write("f", "old");
        fs_err::hard_link(case.at("f"), case.dir.path().join("second")).unwrap();
        let target = case.capture().capture;
        case.write("f", "new and longer");
        let now = case.capture().capture;
        let plan = case.store.planner().plan_restore(&target, &now, None, false).unwrap();
        fail::cfg("snapshot::touch", &format!("{nth}*off->1*return->off")).unwrap();
        let report = apply(&case, &plan).unwrap();
        fail::remove("snapshot::touch");
        match report.conflicts.first() {
            Some(conflict) => {
                assert_eq!(conflict.why, ConflictReason::Refused, "{nth}");
                assert_eq!(case.read("f"), "new and longer", "{nth}");
            }
            None => assert_eq!(case.read("f"), "old", "{nth}"),
        }
    }
    scenario.teardown();
}
