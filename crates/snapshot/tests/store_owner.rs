//! Several processes on one store: one keeps it, all are served, and death is survived (R11).

#[cfg(test)]
#[expect(dead_code, reason = "shared by several test programs")]
mod support;

#[cfg(test)]
mod case {
    use std::io::{BufRead, BufReader};
    use std::path::{Path, PathBuf};
    use std::process::{Child, Command, Stdio};

    use tempfile::TempDir;
    use turnstone_snapshot::{RestoreReport, SnapshotHandle, SnapshotOptions};

    use crate::support::NOW;

    pub(crate) const OPERATION: &str = "0123456789abcdef01234567";

    pub(crate) struct OwnerFixture {
        dir: TempDir,
    }

    /// What a process said, and whether it ended well.
    #[derive(Debug)]
    #[expect(dead_code, reason = "stderr is printed when a test fails")]
    pub(crate) struct ProcessOutput {
        pub(crate) lines: Vec<String>,
        pub(crate) err: String,
        pub(crate) ok: bool,
    }

    impl ProcessOutput {
        /// The captures that were acknowledged: id and tree.
        pub(crate) fn acks(&self) -> Vec<(String, String)> {
            assert!(self.ok, "{self:?}");
            let ack = |line: &String| {
                let (id, tree) = line.strip_prefix("ack ")?.split_once(' ')?;
                Some((id.to_owned(), tree.to_owned()))
            };
            self.lines.iter().filter_map(ack).collect()
        }

        pub(crate) fn report(&self) -> RestoreReport {
            assert!(self.ok, "{self:?}");
            serde_json::from_str(self.lines.last().unwrap()).unwrap()
        }

        pub(crate) fn took_over(&self) -> bool {
            self.lines.iter().any(|line| line == "owner" || line == "owner true")
        }
    }

    impl OwnerFixture {
        pub(crate) fn new() -> Self {
            let case = Self { dir: tempfile::tempdir().unwrap() };
            fs_err::create_dir(case.at("work")).unwrap();
            case
        }

        pub(crate) fn at(&self, path: &str) -> PathBuf {
            self.dir.path().join(path)
        }

        /// Opens the handle in this process.
        pub(crate) fn open(&self) -> SnapshotHandle {
            let (data, run) = (self.at("data"), self.at("run"));
            let options = SnapshotOptions::default();
            SnapshotHandle::open(&data, Some(&run), &self.at("work"), options, NOW).unwrap()
        }

        /// The example that is built with this test program, started by `wrapper` if there is one.
        pub(crate) fn start(&self, wrapper: &[&str], args: &[&str], failpoints: &str) -> Child {
            let test = std::env::current_exe().unwrap();
            let folder = test.parent().and_then(Path::parent).unwrap();
            let program = folder.join("examples/store_owner").display().to_string();
            let dir = self.dir.path().display().to_string();
            let words: Vec<&str> = [wrapper, &[program.as_str(), dir.as_str()], args].concat();
            #[expect(clippy::disallowed_methods, reason = "the program under test")]
            let mut command = Command::new(words[0]);
            command.args(&words[1..]).env("FAILPOINTS", failpoints);
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
            command.spawn().expect("the example is built by the test command")
        }

        pub(crate) fn run(&self, args: &[&str]) -> ProcessOutput {
            finish(self.start(&[], args, ""))
        }

        /// A owner that is ready.
        pub(crate) fn start_owner(&self, wrapper: &[&str], failpoints: &str) -> Child {
            let mut child = self.start(wrapper, &["hold"], failpoints);
            let mut line = String::new();
            let out = child.stdout.as_mut().unwrap();
            BufReader::new(out).read_line(&mut line).unwrap();
            assert_eq!(line, "ready\n");
            child
        }
    }

    /// Lets a process end by itself.
    pub(crate) fn finish(mut child: Child) -> ProcessOutput {
        drop(child.stdin.take());
        let output = child.wait_with_output().unwrap();
        let lines = String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect();
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        ProcessOutput { lines, err, ok: output.status.success() }
    }
}

use case::{OPERATION, OwnerFixture, finish};
use support::{NOW, git_in, path};
use turnstone_snapshot::PinGroup;

/// Proves R11.
#[test]
fn concurrent_capturing_processes_all_succeed() {
    let case = OwnerFixture::new();
    let names = ["one", "two", "three"];

    let children = names.map(|name| case.start(&[], &["track", name, "30"], ""));
    let said = children.map(finish);

    let handle = case.open();
    for (name, said) in names.iter().zip(&said) {
        let acks = said.acks();
        assert_eq!(acks.len(), 30);
        for (round, (id, tree)) in acks.iter().enumerate() {
            let capture = handle.reader().find_capture(id).unwrap();
            assert_eq!(capture.tree.to_string(), *tree);
            // What a process wrote before it asked is in what it was answered.
            let show = format!("{tree}:{name}");
            let text = git_in(&handle.reader().git_dir().unwrap(), &["show", &show]);
            assert_eq!(text, format!("{name} {round}"));
        }
    }
    assert!(handle.reader().verify_objects().unwrap().damaged.is_empty());
    git_in(&handle.reader().git_dir().unwrap(), &["fsck", "--full"]);
}

/// Proves R11.
#[test]
fn command_is_served_by_the_running_owner() {
    let case = OwnerFixture::new();
    let owner = case.start_owner(&[], "");

    let said = case.run(&["track", "a", "3"]);
    assert_eq!(said.lines.last().unwrap(), "client");
    let first = said.acks()[0].1.clone();
    assert_eq!(case.run(&["restore", &first, OPERATION]).report().restored, [path("a")]);
    assert_eq!(fs_err::read_to_string(case.at("work/a")).unwrap(), "a 0\n");
    assert_eq!(case.run(&["undo"]).report().restored, [path("a")]);
    assert_eq!(fs_err::read_to_string(case.at("work/a")).unwrap(), "a 2\n");

    assert!(finish(owner).ok);
    assert_eq!(case.run(&["track", "a", "1"]).lines.last().unwrap(), "owner");
}

/// Proves R11.
#[test]
fn client_survives_owner_killed_around_a_capture() {
    for point in [
        "store_owner::asked",
        "snapshot::pack_durable",
        "snapshot::ref_durable",
        "store_owner::served",
    ] {
        let case = OwnerFixture::new();
        let owner = case.start_owner(&[], &format!("{point}=1*off->panic"));

        let said = case.run(&["track", "a", "3"]);

        assert_eq!(said.acks().len(), 3, "{point}: {said:?}");
        assert!(said.took_over(), "{point}: {said:?}");
        assert!(!finish(owner).ok);
        let handle = case.open();
        for (id, tree) in said.acks() {
            assert_eq!(
                handle.reader().find_capture(&id).unwrap().tree.to_string(),
                tree,
                "{point}"
            );
        }
        assert!(handle.reader().verify_objects().unwrap().damaged.is_empty(), "{point}");
    }
}

/// Proves R11.
#[test]
fn client_finishes_restore_once_after_owner_is_killed() {
    for point in [
        "snapshot::plan_stored",
        "snapshot::before_swap",
        "snapshot::swapped",
        "snapshot::restored",
        "snapshot::logged",
        "store_owner::served",
    ] {
        let case = OwnerFixture::new();
        let acks = case.run(&["track", "a", "2"]).acks();
        fs_err::write(case.at("work/b"), "new").unwrap();
        // The plan is the first request of the restore, after the question whether one is there.
        let after = if point == "store_owner::served" { 2 } else { 0 };
        let owner = case.start_owner(&[], &format!("{point}={after}*off->panic"));

        let said = case.run(&["restore", &acks[0].1, OPERATION]);

        let report = said.report();
        assert!(!finish(owner).ok, "{point}");
        assert!(said.took_over(), "{point}: {said:?}");
        assert_eq!(report.restored, [path("a")], "{point}: {report:?}");
        assert_eq!(report.removed, [path("b")], "{point}");
        assert!(report.conflicts.is_empty() && report.guard.is_some(), "{point}: {report:?}");
        assert_eq!(fs_err::read_to_string(case.at("work/a")).unwrap(), "a 0\n");
        let handle = case.open();
        let operations = handle.reader().list_operations().unwrap();
        assert_eq!(operations.len(), 1, "{point}");
        assert_eq!(operations[0].report, report, "{point}");
        let names = fs_err::read_dir(case.at("work")).unwrap().count();
        assert_eq!(names, 1, "{point}: nothing of ours is left");
        assert_eq!(case.run(&["undo"]).report().restored, [path("a"), path("b")]);
    }
}

/// Proves R11.
#[test]
fn owner_in_another_pid_namespace_is_found() {
    let case = OwnerFixture::new();
    // As an administrator, or as a user who maps itself; where neither is permitted the owner only
    // claims to have another number.
    let ways: [&[&str]; 2] = [&["unshare", "-p", "--fork"], &["unshare", "-Urp", "--fork"]];
    let works = |way: &&&[&str]| finish(case.start(way, &["track", "probe", "1"], "")).ok;
    let wrapper = ways.iter().find(works).copied();
    let mut owner = case.start_owner(wrapper.unwrap_or_default(), "");
    let allowed = wrapper.is_some();
    if !allowed {
        let store = case.open().location().folder.clone();
        let text = fs_err::read_to_string(store.join("keeper")).unwrap();
        let (_, rest) = text.split_once(',').unwrap();
        fs_err::write(store.join("keeper"), format!("process 1,{rest}")).unwrap();
    }

    let said = case.run(&["track", "a", "2"]);
    assert_eq!(said.acks().len(), 2);
    assert!(!said.took_over(), "{said:?}");
    if !allowed {
        owner.kill().unwrap();
    }
    // The namespace dies with its first process.
    drop(owner.stdin.take());
    assert_eq!(owner.wait().unwrap().success(), allowed);
    assert_eq!(case.run(&["track", "a", "2"]).acks().len(), 2);
}

/// Proves R11.
#[test]
fn git_gc_under_load_loses_nothing() {
    let case = OwnerFixture::new();
    let owner = case.start_owner(&[], "");
    let git_dir = case.open().reader().git_dir().unwrap();

    let names = ["one", "two"];
    let children = names.map(|name| case.start(&[], &["track", name, "40"], ""));
    for _ in 0..6 {
        git_in(&git_dir, &["gc", "-q", "--prune=now"]);
    }
    let said = children.map(finish);

    let handle = case.open();
    for said in &said {
        let acks = said.acks();
        assert_eq!(acks.len(), 40);
        for (id, tree) in acks {
            assert_eq!(handle.reader().find_capture(&id).unwrap().tree.to_string(), tree);
        }
    }
    assert!(finish(owner).ok);
    let handle = case.open();
    let verified = handle.reader().verify_objects().unwrap();
    assert!(verified.damaged.is_empty(), "{:?}", verified.damaged);
    git_in(&git_dir, &["fsck", "--full"]);
}

/// Proves R11.
#[test]
fn reader_reopens_when_packs_were_replaced() {
    let case = OwnerFixture::new();
    let owner = case.open();
    let reader = case.open();
    let group = PinGroup::new("x");
    let captures: Vec<_> = (0..5)
        .map(|round| {
            fs_err::write(case.at("work/a"), format!("{round}")).unwrap();
            owner.capture(&group, NOW).unwrap().capture
        })
        .collect();
    assert_eq!(reader.reader().list_captures().unwrap().len(), 5);

    git_in(&owner.reader().git_dir().unwrap(), &["gc", "-q", "--prune=now"]);

    for capture in &captures {
        let found = reader.reader().find_capture(&capture.id.to_string()).unwrap();
        assert_eq!(reader.reader().list_files(&found).unwrap().len(), 1);
    }
    assert!(reader.reader().verify_objects().unwrap().damaged.is_empty());
}

/// Proves R12.
#[test]
fn kill_during_store_creation_leaves_one_store() {
    let case = OwnerFixture::new();
    let dead = finish(case.start(&[], &["track", "a", "1"], "registry::recorded=panic"));
    assert!(!dead.ok);

    assert_eq!(case.run(&["track", "a", "1"]).acks().len(), 1);

    let listed = turnstone_snapshot::StoreRegistry::new(&case.at("data")).list_stores().unwrap();
    assert_eq!(listed.len(), 1, "{listed:?}");
}
