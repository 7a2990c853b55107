//! Real programs: the same result as untraced, and every change recorded.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use turnstone_process::{OutputLimits, OutputRecorder};
use turnstone_trace::{TouchKind, TraceLog};

use crate::process_fixture::{Fallible, attach};
use crate::trace::trace_fixture::{TraceFixture, assert_complete};

/// What a folder holds: type, mode and content of each path.
type FolderImage = BTreeMap<PathBuf, (u32, Vec<u8>)>;

fn read_folder(dir: &Path, into: &mut FolderImage) -> Fallible {
    use std::os::unix::ffi::OsStringExt;
    use std::os::unix::fs::MetadataExt;
    for entry in fs_err::read_dir(dir)? {
        let entry = entry?;
        let (path, found) = (entry.path(), entry.path().symlink_metadata()?);
        let content = if found.is_symlink() {
            fs_err::read_link(&path)?.into_os_string().into_vec()
        } else if found.is_file() {
            fs_err::read(&path)?
        } else {
            Vec::new()
        };
        into.insert(path.clone(), (found.mode(), content));
        if found.is_dir() {
            read_folder(&path, into)?;
        }
    }
    Ok(())
}

/// What scripts expect of their environment.
const ENVIRONMENT: &str = "export HOME=$PWD GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b \
                           GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b; cd work; set -e;";

/// Runs a script without a trace; returns its exit code and output.
fn run_plain(case: &TraceFixture, script: &str) -> Fallible<(i32, String)> {
    let mut recorder = OutputRecorder::new(OutputLimits::default(), None);
    let outcome = attach(case.process.start(&format!("{ENVIRONMENT}{script}"))?, &mut recorder)?;
    let output = recorder.finish().head.to_bytes();
    Ok((outcome.exit.code(), String::from_utf8_lossy(&output).into_owned()))
}

/// Makes the folder `work`, empty but for what a script puts there.
fn prepare_work(case: &TraceFixture, prepare: &str) -> Fallible<PathBuf> {
    let work = case.dir.join("work");
    if work.exists() {
        fs_err::remove_dir_all(&work)?;
    }
    fs_err::create_dir(&work)?;
    let (code, output) = run_plain(case, prepare)?;
    assert_eq!(code, 0, "{output}");
    Ok(work)
}

/// Prepares a folder, runs a script in it traced, and checks that every changed path was touched.
fn check(prepare: &str, script: &str) -> Fallible {
    let case = TraceFixture::new()?;
    let work = prepare_work(&case, prepare)?;
    check_in(&case, &work, script, 0)?;
    Ok(())
}

/// The same, and checks that exit code and output are those of the script without a trace.
pub(crate) fn check_same(prepare: &str, script: &str, code: i32) -> Fallible {
    let case = TraceFixture::new()?;
    prepare_work(&case, prepare)?;
    let plain = run_plain(&case, script)?;
    assert_eq!(plain.0, code, "{}", plain.1);
    let work = prepare_work(&case, prepare)?;
    let output = check_in(&case, &work, script, code)?;
    assert_eq!(output, plain.1, "{script}");
    Ok(())
}

/// Runs a script traced; returns its output.
fn check_in(case: &TraceFixture, work: &Path, script: &str, code: i32) -> Fallible<String> {
    let (mut before, mut after) = (FolderImage::new(), FolderImage::new());
    read_folder(work, &mut before)?;
    let command = case.process.script(&format!("{ENVIRONMENT}{script}"));
    let (outcome, output) = case.run_command(&command)?;
    assert_eq!(outcome.exit.code(), code, "{output}");
    let log = case.read("trace")?;
    read_folder(work, &mut after)?;
    assert_complete(&log);
    assert_touched(&before, &after, &log, script);
    Ok(output)
}

/// Fails unless every path that differs was touched.
fn assert_touched(before: &FolderImage, after: &FolderImage, log: &TraceLog, script: &str) {
    let mut covered: Vec<PathBuf> = log.touches.iter().map(|touch| touch.path.clone()).collect();
    // What moves with a directory is covered below its old and its new name.
    let mut moved = Vec::new();
    for touch in &log.touches {
        if let TouchKind::MoveFrom { to } = &touch.kind {
            moved.extend([touch.path.clone(), to.clone()]);
        }
    }
    covered.sort_unstable();
    let mut changed = 0;
    for path in before.keys().chain(after.keys()) {
        let is_directory = |image: &FolderImage| {
            image.get(path).is_some_and(|(mode, _)| mode & libc_directory() == libc_directory())
        };
        let is_same = before.get(path) == after.get(path);
        if is_same || is_directory(before) && is_directory(after) {
            continue;
        }
        changed += 1;
        let is_covered = covered.binary_search(path).is_ok()
            || moved.iter().any(|directory| path.starts_with(directory));
        assert!(is_covered, "{} changed without a touch by {script}", path.display());
    }
    assert!(changed > 0, "{script} changed nothing");
}

/// `S_IFDIR`.
fn libc_directory() -> u32 {
    0o040_000
}

const REPOSITORY: &str = "git init -q -b main .; for i in 1 2 3 4 5 6 7 8 9; do echo $i > f$i; \
    mkdir -p d$i; echo $i > d$i/g; done; git add .; git commit -qm one; git checkout -qb side; \
    echo side > f1; rm -r d2; git mv f3 d3/moved; git commit -qam side; git checkout -q main; \
    echo main > f9; git commit -qam main;";

#[test]
fn git_is_traced() -> Fallible {
    check(REPOSITORY, "git checkout -q side")?;
    check(REPOSITORY, "git checkout -q side; git rebase -q main")?;
    check(REPOSITORY, "echo x > f5; git stash -q; git stash pop -q")?;
    check(REPOSITORY, "git merge -q --no-edit side; git gc -q")?;
    check(REPOSITORY, "git clone -q . copy; git worktree add -q other side")
}

#[test]
fn tools_for_files_are_traced() -> Fallible {
    let files = "mkdir -p a/b; for i in 1 2 3 4 5; do echo line $i > a/b/$i; done; ln -s b a/link;";
    check(files, "sed -i s/line/word/ a/b/*")?;
    check(files, "cp -a a c; mv a/b a/d; rm -r a/d/1; touch new; truncate -s 3 a/d/2")?;
    check(files, "tar cf x.tar a; mkdir y; tar xf x.tar -C y; gzip -c x.tar > z.gz")?;
    check(files, "cp --reflink=auto a/b/1 copy; dd if=copy of=a/b/2 conv=notrunc status=none")?;
    check(
        files,
        "ln a/b/1 hard; install -m 700 a/b/2 tool; mktemp -p . >/dev/null; chmod 600 tool",
    )?;
    check(files, "find a -name '[12]' -delete; split -b 2 a/b/3 part; sort -o a/b/4 a/b/5")
}

#[test]
fn shells_and_interpreters_are_traced() -> Fallible {
    let files = "for i in 1 2 3; do echo line $i > $i; done;";
    check(files, "bash -c 'echo a > a; { echo b; } >| b; echo c >> 1; exec 7<>2; echo d >&7'")?;
    check(files, "perl -pi -e 's/line/word/' 1 2 3")?;
    check(
        files,
        "python3 -B -c \"
import mmap, multiprocessing, pathlib, shutil, tempfile, os
def work(i): pathlib.Path(f'p{i}').write_text('x')
with multiprocessing.get_context('fork').Pool(3) as pool: pool.map(work, range(20))
f = open('1', 'r+b'); m = mmap.mmap(f.fileno(), 0); m[0:1] = b'X'; m.flush()
shutil.copytree('.', 'copy', ignore=shutil.ignore_patterns('copy')); os.replace('2', 'two')
\"",
    )
}

#[test]
fn parallel_builds_are_traced() -> Fallible {
    let project = "for i in 1 2 3 4 5 6 7 8; do echo \"int f$i(void) { return $i; }\" > f$i.c; done; \
        echo 'int main(void) { return 0; }' > main.c; \
        printf 'prog: main.o f1.o f2.o f3.o f4.o f5.o f6.o f7.o f8.o\\n\\tcc -o $@ $^\\n\\tar rcs lib.a $^\\n' > Makefile;";
    check(project, "make -s -j4; ./prog")
}
