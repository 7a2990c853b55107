//! The program that is killed, and what must hold afterwards.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use turnstone_core::time::EpochMillis;
use turnstone_snapshot::{
    CaptureRules, Oid, PathImage, PinGroup, RootPolicy, SnapshotStore, Worktree,
};

pub(crate) type Fallible<T = ()> = Result<T, Box<dyn std::error::Error>>;

/// The example that is built with this test program.
pub(crate) fn store_process_command(dir: &Path, args: &[&str]) -> Fallible<Command> {
    let test = std::env::current_exe()?;
    let folder = test.parent().and_then(Path::parent).ok_or("no target directory")?;
    let program: PathBuf = folder.join("examples/snapshot_store");
    #[expect(clippy::disallowed_methods, reason = "the program under test")]
    let mut command = Command::new(program);
    command.arg(dir).args(args);
    Ok(command)
}

/// The captures that were acknowledged: id and tree.
pub(crate) fn acknowledged_captures(lines: &[String]) -> Vec<(Oid, Oid)> {
    let ack = |line: &String| {
        let mut words = line.strip_prefix("ack ")?.split(' ');
        Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?))
    };
    lines.iter().filter_map(ack).collect()
}

/// Opens the store, wants every acknowledged capture whole, no rest of a crash, and a next capture.
pub(crate) fn check_store(dir: &Path, acks: &[(Oid, Oid)]) -> Fallible<SnapshotStore> {
    fs_err::create_dir_all(dir.join("work"))?;
    let worktree = Worktree::open(&dir.join("work"), &RootPolicy::default())?;
    let store = SnapshotStore::open(&dir.join("store"), worktree, CaptureRules::default())?;
    for (id, tree) in acks.iter().collect::<BTreeSet<_>>() {
        let capture = store.captures().get(id).map_err(|error| format!("{id}: {error}"))?;
        if capture.tree != *tree {
            return Err(format!("{id} has another tree").into());
        }
        let image = store.captures().path_image(&capture, &"d0/f0".parse()?)?;
        if let PathImage::Uncovered { reason } = image {
            return Err(format!("{id}: d0/f0 is {reason:?}").into());
        }
    }
    for entry in fs_err::read_dir(store.git_dir().join("objects/pack"))? {
        let name = entry?.file_name();
        if name.to_string_lossy().contains("tmp_") {
            return Err(format!("{} is left", name.display()).into());
        }
    }
    store.restores().resume()?;
    let captured = store.capture(&PinGroup::new("after"), EpochMillis(1))?;
    store.captures().get(&captured.capture.id)?;
    fsck(store.git_dir())?;
    Ok(store)
}

/// Git's own judgement of the store.
fn fsck(git_dir: &Path) -> Fallible {
    #[expect(clippy::disallowed_methods, reason = "git is the judge of what we write")]
    let mut command = Command::new("git");
    command.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null");
    let output = command.arg("--git-dir").arg(git_dir).args(["fsck", "--full"]).output()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() { Ok(()) } else { Err(said.into()) }
}

/// The worktrees that `handle states` made.
pub(crate) struct WorktreeStates {
    acks: Vec<(Oid, Oid)>,
}

impl WorktreeStates {
    /// Makes them; the worktree holds the last one.
    pub(crate) fn make(dir: &Path, count: usize) -> Fallible<Self> {
        fs_err::create_dir(dir.join("work"))?;
        let output = store_process_command(dir, &["states", &count.to_string()])?.output()?;
        let text = String::from_utf8(output.stdout)?;
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let acks = acknowledged_captures(&lines);
        if acks.len() != count {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
        }
        Ok(Self { acks })
    }

    pub(crate) fn len(&self) -> usize {
        self.acks.len()
    }

    /// The id of a state's tree.
    pub(crate) fn tree(&self, index: usize) -> Oid {
        self.acks[index % self.acks.len()].1
    }

    /// Judges a worktree after a cut: whole files, and one of the two states that can be meant.
    pub(crate) fn check_after_cut(&self, dir: &Path, lines: &[String]) -> Fallible {
        check_state_files(&dir.join("work"))?;
        let last = lines.iter().rev().find_map(|line| line.strip_prefix("done "));
        let last = last.and_then(|line| line.split(' ').next()?.parse::<usize>().ok());
        let last = last.unwrap_or(self.len() - 1);
        let store = check_store(dir, &[])?;
        let found = store.capture(&PinGroup::new("judge"), EpochMillis(1))?.capture;
        if found.tree != self.tree(last) && found.tree != self.tree(last + 1) {
            let next = store.captures().get(&self.acks[(last + 1) % self.len()].0)?;
            let diff = store.diffs().between(
                &next,
                &found,
                &turnstone_snapshot::DiffOptions::default(),
            )?;
            let diff = String::from_utf8_lossy(&diff.patch()).into_owned();
            return Err(format!("not state {last} and not the next: {diff}").into());
        }
        for (id, _) in &self.acks {
            store.captures().get(id)?;
        }
        check_no_temp_files(&dir.join("work"))
    }
}

/// Every file of the states is wholly of one state; the one with two names may be cut off.
fn check_state_files(folder: &Path) -> Fallible {
    for path in list_regular_files(folder)? {
        let name = path.to_string_lossy().into_owned();
        if name.contains("turnstone-tmp") || name.ends_with("/two") {
            continue;
        }
        let text = fs_err::read_to_string(&path)?;
        let mut lines: Vec<&str> = text.lines().collect();
        let count = lines.len();
        lines.dedup();
        if lines.len() != 1 || ![2, 3, 300].contains(&count) || !text.ends_with('\n') {
            return Err(format!("{name} is damaged: {count} lines, {} kinds", lines.len()).into());
        }
    }
    Ok(())
}

/// No file of ours is left in the worktree.
pub(crate) fn check_no_temp_files(folder: &Path) -> Fallible {
    let left = list_regular_files(folder)?
        .into_iter()
        .find(|it| it.to_string_lossy().contains("turnstone-tmp"));
    left.map_or(Ok(()), |path| Err(format!("{} is left", path.display()).into()))
}

/// The regular files below a directory.
fn list_regular_files(folder: &Path) -> Fallible<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs_err::read_dir(folder)? {
        let path = entry?.path();
        match fs_err::symlink_metadata(&path)? {
            meta if meta.is_dir() => found.extend(list_regular_files(&path)?),
            meta if meta.is_file() => found.push(path),
            _ => {}
        }
    }
    Ok(found)
}
/// Makes `DIR/work` a committed checkout of the files that the example edits, all in one pack.
pub(crate) fn commit_checkout(dir: &Path) -> Fallible {
    let work = dir.join("work");
    for index in 0..24 {
        let folder = work.join(format!("d{}", index / 6));
        fs_err::create_dir_all(&folder)?;
        fs_err::write(folder.join(format!("f{}", index % 6)), format!("{index}\n").repeat(400))?;
    }
    // Old enough for the index to prove what the files hold.
    std::thread::sleep(std::time::Duration::from_millis(150));
    for args in
        [&["init", "-q"][..], &["add", "."], &["commit", "-qm", "x"], &["repack", "-a", "-d", "-q"]]
    {
        #[expect(clippy::disallowed_methods, reason = "the repository of a user")]
        let mut command = Command::new("git");
        command.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null");
        command.args(["-c", "user.name=t", "-c", "user.email=t@t"]).args(args);
        let output = command.current_dir(&work).output()?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
        }
    }
    Ok(())
}
