//! The program that is killed, and what must hold afterwards.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use turnstone_core::time::Millis;
use turnstone_snapshot::{Group, Image, Oid, RootPolicy, Selection, Shadow, Worktree};

pub(crate) type Fallible<T = ()> = Result<T, Box<dyn std::error::Error>>;

/// The example beside this test program.
pub(crate) fn vault(dir: &Path, args: &[&str]) -> Fallible<Command> {
    let test = std::env::current_exe()?;
    let folder = test.parent().and_then(Path::parent).ok_or("no target directory")?;
    let program: PathBuf = folder.join("examples/vault");
    #[expect(clippy::disallowed_methods, reason = "the program under test")]
    let mut command = Command::new(program);
    command.arg(dir).args(args);
    Ok(command)
}

/// The captures that were acknowledged: id and tree.
pub(crate) fn acks(lines: &[String]) -> Vec<(Oid, Oid)> {
    let ack = |line: &String| {
        let mut words = line.strip_prefix("ack ")?.split(' ');
        Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?))
    };
    lines.iter().filter_map(ack).collect()
}

/// Opens the store, wants every acknowledged capture whole, no rest of a crash, and a next capture.
pub(crate) fn check(dir: &Path, acks: &[(Oid, Oid)]) -> Fallible<Shadow> {
    fs_err::create_dir_all(dir.join("work"))?;
    let worktree = Worktree::open(&dir.join("work"), &RootPolicy::default())?;
    let shadow = Shadow::open(&dir.join("store"), worktree, Selection::default())?;
    for (id, tree) in acks.iter().collect::<BTreeSet<_>>() {
        let capture = shadow.get_capture(id).map_err(|error| format!("{id}: {error}"))?;
        if capture.tree != *tree {
            return Err(format!("{id} has another tree").into());
        }
        let image = shadow.image(&capture, &"d0/f0".parse()?)?;
        if let Image::Uncovered { reason } = image {
            return Err(format!("{id}: d0/f0 is {reason:?}").into());
        }
    }
    for entry in fs_err::read_dir(shadow.git_dir().join("objects/pack"))? {
        let name = entry?.file_name();
        if name.to_string_lossy().starts_with("tmp_") {
            return Err(format!("{} is left", name.display()).into());
        }
    }
    shadow.resume()?;
    let captured = shadow.capture(&Group::new("after"), Millis(1))?;
    shadow.get_capture(&captured.capture.id)?;
    fsck(shadow.git_dir())?;
    Ok(shadow)
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

/// Makes `DIR/work` a committed checkout of the files that the example edits, all in one pack.
pub(crate) fn commit(dir: &Path) -> Fallible {
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
