//! Nothing outside the root, nothing of the user's git, no program started.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use turnstone_snapshot::{PinGroup, RelPath, RestorePlan, RestoreStep, UncoveredReason};
use turnstone_testkit::required_tools;

use crate::fixture::{bootstrap, contents, revert, track};
use crate::support::{NOW, StoreFixture, path};

/// The example that is built with this test program.
fn example_program() -> PathBuf {
    let test = std::env::current_exe().expect("a path");
    test.parent()
        .and_then(Path::parent)
        .expect("a target directory")
        .join("examples/snapshot_store")
}

/// S1: paths of a plan or a list that lead outside are no paths at all.
#[test]
fn hostile_paths_are_rejected_everywhere() {
    for hostile in ["/etc/passwd", "../x", "a/../../x", "", "a//b", ".git/config", "x/.GIT/hooks/y"]
    {
        assert!(hostile.parse::<RelPath>().is_err(), "{hostile}");
        let state = r#"{"present":{"leaf":{"blob":"BLOB","mode":"file"},"perm":420}}"#
            .replace("BLOB", &"0".repeat(40));
        let step = format!(
            r#"{{"path":{hostile:?},"expected":"absent","target":{state},"merged":false}}"#
        );
        assert!(serde_json::from_str::<RestoreStep>(&step).is_err(), "{hostile}");
        let good = step.replace(&format!("{hostile:?}"), "\"fine\"");
        assert!(serde_json::from_str::<RestoreStep>(&good).is_ok(), "{good}");
    }
}

/// S1: a stored plan whose name is not one of ours is not applied; its name becomes a file name.
#[test]
fn hostile_stored_plan_is_rejected_and_writes_nothing() {
    let case = bootstrap();
    track(&case.store);
    let start = contents(&case.root());
    let plans = case.dir.path().join("store/plan");
    fs_err::create_dir_all(&plans).unwrap();
    for (file, id) in [("x", "../../x"), ("a", "b"), ("000000000000000000000000", "../out")] {
        let plan = serde_json::to_string(&RestorePlan::default()).unwrap();
        let guard = "0".repeat(40);
        let text = format!(r#"{{"id":{id:?},"guard":"{guard}","plan":{plan}}}"#);
        let at = plans.join(format!("{file}.json"));
        fs_err::write(&at, text).unwrap();

        assert!(case.store.restores().resume().is_err(), "{id}");

        fs_err::remove_file(at).unwrap();
    }
    assert_eq!(contents(&case.root()), start);
}

/// Files in `d`, and a directory outside that has files of the same names.
fn case_with_outside_directory() -> (StoreFixture, PathBuf) {
    let case = StoreFixture::in_memory();
    let outside = case.dir.path().join("outside");
    fs_err::create_dir(&outside).unwrap();
    for name in ["a", "b", "c"] {
        fs_err::write(outside.join(name), "new").unwrap();
        case.write(&format!("d/{name}"), "old");
    }
    (case, outside)
}

/// Changes, removes and adds a file of `d`, and plans to take that back.
fn plan_undo_of_edits(case: &StoreFixture) -> RestorePlan {
    let before = track(&case.store);
    case.write("d/a", "new");
    case.remove("d/b");
    case.write("d/added", "new");
    let now = track(&case.store);
    case.store.planner().plan_restore(&before, &now, None, false).unwrap()
}

/// S2, R16: before any one of its writes, the directory is swapped for a link that leads outside.
#[test]
fn directory_replaced_by_link_before_restore_is_not_followed() {
    let scenario = fail::FailScenario::setup();
    let mut swapped = 0;
    for nth in 0..20 {
        let (case, outside) = case_with_outside_directory();
        let plan = plan_undo_of_edits(&case);
        let kept = contents(&outside);
        let (dir, aside, target) = (case.at("d"), case.dir.path().join("aside"), outside.clone());
        let count = std::sync::atomic::AtomicUsize::new(0);
        fail::cfg_callback("snapshot::touch", move || {
            if count.fetch_add(1, Ordering::Relaxed) == nth {
                fs_err::rename(&dir, &aside).unwrap();
                std::os::unix::fs::symlink(&target, &dir).ok();
            }
        })
        .unwrap();

        case.store.restores().apply_plan(&plan, &PinGroup::new("guard"), NOW).ok();

        fail::remove("snapshot::touch");
        swapped += usize::from(case.at("d").is_symlink());
        assert_eq!(contents(&outside), kept, "write {nth}");
    }
    assert!(swapped > 8, "{swapped}");
    scenario.teardown();
}

/// The same by a thread that swaps all the time.
/// Proves S2, R16.
#[test]
fn directory_replaced_by_link_during_restore_is_not_followed() {
    for _ in 0..25 {
        let (case, outside) = case_with_outside_directory();
        let plan = plan_undo_of_edits(&case);
        let kept = contents(&outside);
        let (dir, aside) = (case.at("d"), case.dir.path().join("aside"));
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    fs_err::rename(&dir, &aside).ok();
                    std::os::unix::fs::symlink(&outside, &dir).ok();
                    fs_err::remove_file(&dir).ok();
                    fs_err::rename(&aside, &dir).ok();
                }
            });
            case.store.restores().apply_plan(&plan, &PinGroup::new("guard"), NOW).ok();
            case.store.restores().resume().ok();
            stop.store(true, Ordering::Relaxed);
        });
        assert_eq!(contents(&outside), kept);
    }
}

/// R16: a path behind a link is not covered, absolute targets included.
#[test]
fn path_behind_a_link_is_uncovered() {
    let case = bootstrap();
    let outside = tempfile::tempdir().unwrap();
    fs_err::write(outside.path().join("f"), "secret").unwrap();
    case.link("out", outside.path().to_str().unwrap());

    let captured = case.capture_named(&["out/f"]);

    assert_eq!(captured.files, 0);
    assert_eq!(
        captured.capture.coverage.uncovered_reason(&path("out/f")),
        Some(UncoveredReason::BehindLink)
    );
    assert_eq!(fs_err::read(outside.path().join("f")).unwrap(), b"secret");
}

/// S5, S6, W42, W48: neither the environment nor anybody's configuration of git has an effect, and the
/// user's own repository is not written.
#[test]
fn hostile_git_settings_and_variables_have_no_effect() {
    let case = bootstrap();
    case.git_in(&case.root(), &["add", "-A"]);
    let evil = case.dir.path().join("evil");
    let hooks = evil.join("hooks");
    fs_err::create_dir_all(&hooks).unwrap();
    let script = format!("#!/bin/sh\ntouch {}\n", evil.join("ran").display());
    for hook in ["post-checkout", "post-index-change", "reference-transaction"] {
        fs_err::write(hooks.join(hook), &script).unwrap();
        let meta: std::fs::Permissions = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs_err::set_permissions(hooks.join(hook), meta).unwrap();
    }
    let config = format!(
        "[core]\nhooksPath={0}\nautocrlf=true\n[color]\nui=always\n[diff]\nnoprefix=true\n\
         relative=true\n[filter \"x\"]\nclean=touch {1}\nsmudge=touch {1}\nrequired=true\n\
         [init]\ntemplateDir={0}\n",
        hooks.display(),
        evil.join("ran").display()
    );
    fs_err::write(evil.join("config"), config).unwrap();
    case.write(".gitattributes", "* filter=x\n");
    let git_before = file_stats(&case.at(".git"));
    let plain = captured_trees_with_env(&case, &[]);
    let index = evil.join("index");
    let hostile = captured_trees_with_env(
        &case,
        &[
            ("GIT_CONFIG_GLOBAL", evil.join("config").as_path()),
            ("GIT_CONFIG_SYSTEM", evil.join("config").as_path()),
            ("GIT_INDEX_FILE", &index),
            ("GIT_DIR", &case.at(".git")),
            ("GIT_OBJECT_DIRECTORY", &evil),
            ("GIT_WORK_TREE", &evil),
            ("HOME", &evil),
        ],
    );

    assert_eq!(plain, hostile, "the same trees");
    assert!(!evil.join("ran").exists() && !index.exists());
    assert_eq!(file_stats(&case.at(".git")), git_before);
}

/// The trees of a run of the example with these variables, in a store of its own.
fn captured_trees_with_env(case: &StoreFixture, variables: &[(&str, &Path)]) -> Vec<String> {
    let dir = tempfile::tempdir_in(case.dir.path()).unwrap();
    copy(&case.root(), &dir.path().join("work"));
    #[expect(clippy::disallowed_methods, reason = "the program under test")]
    let mut command = Command::new(example_program());
    command.arg(dir.path()).args(["load", "7", "4"]).envs(variables.iter().copied());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| line.rsplit(' ').next().unwrap().to_owned()).collect()
}

fn copy(from: &Path, to: &Path) {
    fs_err::create_dir_all(to).unwrap();
    for entry in fs_err::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        match path.is_dir() {
            true => copy(&path, &target),
            false => drop(fs_err::copy(&path, target).unwrap()),
        }
    }
}

/// Sizes, inodes and times of everything below.
fn file_stats(folder: &Path) -> BTreeMap<PathBuf, (u64, u64, i64, i64)> {
    let mut found = BTreeMap::new();
    for entry in fs_err::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let meta = fs_err::symlink_metadata(&path).unwrap();
        if meta.is_dir() {
            found.extend(file_stats(&path));
        }
        found.insert(path, (meta.size(), meta.ino(), meta.ctime(), meta.ctime_nsec()));
    }
    found
}

/// W50: no process is started by captures, comparisons, restores, merges and collections.
#[test]
fn capture_and_restore_start_no_process() {
    let strace = required_tools::find_strace().expect("strace, which these tests need");
    for command in [["load", "1", "5"], ["swing", "1", "3"], ["churn", "1", "4"]] {
        let case = StoreFixture::in_memory();
        let (dir, log) = (case.dir.path().join("run"), case.dir.path().join("log"));
        fs_err::create_dir_all(dir.join("work")).unwrap();
        #[expect(clippy::disallowed_methods, reason = "the judge of the program under test")]
        let mut traced = Command::new(&strace);
        traced.args(["-f", "-qq", "-e", "trace=execve,execveat,fork,vfork", "-o"]).arg(&log);
        traced.arg(example_program()).arg(&dir).args(command);
        let output = traced.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let calls = fs_err::read_to_string(&log).unwrap();
        assert_eq!(calls.lines().filter(|line| line.contains('(')).count(), 1, "{calls}");
    }
}

/// R18: a replaced file keeps its extended attributes, group and second names.
#[test]
fn replaced_file_keeps_its_extended_attributes() {
    let case = StoreFixture::new();
    case.write("f", "old");
    case.chmod("f", 0o640);
    let name = "user.turnstone.test";
    let set = rustix::fs::setxattr(case.at("f"), name, b"mine", rustix::fs::XattrFlags::empty());
    // Owner rw, a user 12345 rw, group r, mask rw, others none: a list of access rights.
    let rights = [(1_u16, 6_u16, u32::MAX), (2, 6, 12345), (4, 4, u32::MAX), (16, 6, u32::MAX)];
    let mut list = 2_u32.to_le_bytes().to_vec();
    for (tag, perm, id) in rights.into_iter().chain([(32, 0, u32::MAX)]) {
        list.extend([&tag.to_le_bytes()[..], &perm.to_le_bytes(), &id.to_le_bytes()].concat());
    }
    let access = "system.posix_acl_access";
    let listed = rustix::fs::setxattr(case.at("f"), access, &list, rustix::fs::XattrFlags::empty());
    let before = track(&case.store);
    case.write("f", "new");

    revert(&case.store, &before);

    assert_eq!(case.read("f"), "old");
    let mode = fs_err::metadata(case.at("f")).unwrap().mode();
    assert_eq!(mode & 0o777, if listed.is_ok() { 0o660 } else { 0o640 });
    if listed.is_ok() {
        let mut value = [0; 128];
        let length = rustix::fs::getxattr(case.at("f"), access, &mut value[..]).expect("kept");
        assert_eq!(&value[..length], list);
    }
    if set.is_ok() {
        let mut value = [0; 16];
        let length = rustix::fs::getxattr(case.at("f"), name, &mut value[..]).expect("kept");
        assert_eq!(&value[..length], b"mine");
    }
}
