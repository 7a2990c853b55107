//! Real programs, run with and without a trace: the same exit code and output, and every change recorded.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use turnstone_trace::{TouchKind, TraceLog};

use crate::process_fixture::{Fallible, example};
use crate::trace::trace_fixture::{TraceFixture, assert_complete};

/// What a folder holds: type, mode and content of each path.
type FolderImage = BTreeMap<PathBuf, (u32, Vec<u8>)>;

/// The user without rights on every Linux.
const UNPRIVILEGED_ID: u32 = 65_534;

/// `S_IFDIR`.
const DIRECTORY: u32 = 0o040_000;

/// Who runs a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Account {
    /// The user of the test: root keeps its capabilities and needs no `no_new_privs`.
    Own,
    /// A user without capabilities.
    Unprivileged,
}

/// The accounts that this test can run as.
fn list_accounts() -> Vec<Account> {
    match rustix::process::geteuid().is_root() {
        true => vec![Account::Own, Account::Unprivileged],
        false => vec![Account::Own],
    }
}

/// A folder in which an account may run scripts.
pub(crate) struct ProgramCase {
    pub(crate) trace: TraceFixture,
    account: Account,
    /// Where programs are looked for.
    path: String,
}

/// What scripts expect of their environment.
const ENVIRONMENT: &str = "exec 2>&1; export HOME=$PWD GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=a \
                           GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b; \
                           cd work; set -e;";

impl ProgramCase {
    pub(crate) fn new(account: Account) -> Fallible<Self> {
        let trace = TraceFixture::new()?;
        fs_err::set_permissions(&trace.dir, std::fs::Permissions::from_mode(0o777))?;
        // The other user may not reach the folder of the build.
        fs_err::copy(example()?, trace.dir.join("owner"))?;
        Ok(Self { trace, account, path: "/usr/bin:/bin".to_owned() })
    }

    /// Runs a script in the foreground of a supervisor; returns its exit code and output.
    ///
    /// An error if it was to be traced and was not.
    pub(crate) fn run(&self, script: &str, is_traced: bool) -> Fallible<(i32, String)> {
        let dir = &self.trace.dir;
        #[expect(clippy::disallowed_methods, reason = "a test starts the program as another user")]
        let mut command = Command::new(dir.join("owner"));
        match is_traced {
            true => command.arg("trace").arg(self.trace.log_path("trace")),
            false => command.arg("run"),
        };
        command.args(["30000", "group", "/bin/sh", "-c", script]);
        command.env_clear().env("PATH", &self.path).current_dir(dir).stdin(Stdio::null());
        if self.account == Account::Unprivileged {
            command.uid(UNPRIVILEGED_ID).gid(UNPRIVILEGED_ID);
        }
        let output = command.output()?;
        let errors = String::from_utf8_lossy(&output.stderr);
        if !errors.is_empty() {
            return Err(errors.into());
        }
        let code = output.status.code().ok_or("the owner was killed")?;
        Ok((code, String::from_utf8_lossy(&output.stdout).into_owned()))
    }

    /// Makes the folder `work`, empty but for what a script puts there.
    fn prepare_work(&self, prepare: &str) -> Fallible<PathBuf> {
        let work = self.trace.dir.join("work");
        if work.exists() {
            fs_err::remove_dir_all(&work)?;
        }
        fs_err::create_dir(&work)?;
        if self.account == Account::Unprivileged {
            let id = Some(UNPRIVILEGED_ID);
            fs_err::os::unix::fs::chown(&work, id, id)?;
        }
        let (code, output) = self.run(&format!("{ENVIRONMENT}{prepare}"), false)?;
        assert_eq!(code, 0, "{output}");
        Ok(work)
    }

    /// Runs a script untraced and traced in the same folder, and compares.
    fn check(&self, prepare: &str, script: &str, code: i32) -> Fallible {
        let script = format!("{ENVIRONMENT}{script}");
        self.prepare_work(prepare)?;
        let plain = self.run(&script, false)?;
        assert_eq!(plain.0, code, "{:?}: {}", self.account, plain.1);
        let work = self.prepare_work(prepare)?;
        let before = read_folder(&work)?;

        let traced = self.run(&script, true)?;

        assert_eq!(traced, plain, "{:?}: {script}", self.account);
        let log = self.trace.read("trace")?;
        assert_complete(&log);
        assert_touched(&before, &read_folder(&work)?, &log, &script);
        Ok(())
    }
}

/// Prepares a folder and runs a script in it without and with a trace, as a privileged user and as one without
/// capabilities: exit code and output must be the same, and every changed path touched.
pub(crate) fn check_same(prepare: &str, script: &str, code: i32) -> Fallible {
    list_accounts()
        .into_iter()
        .try_for_each(|account| ProgramCase::new(account)?.check(prepare, script, code))
}

/// The same only as the user of the test, with programs of another folder.
pub(crate) fn check_with_programs(folder: &Path, prepare: &str, script: &str) -> Fallible {
    let mut case = ProgramCase::new(Account::Own)?;
    case.path = format!("{}:{}", folder.display(), case.path);
    case.check(prepare, script, 0)
}

fn read_folder(dir: &Path) -> Fallible<FolderImage> {
    let mut image = FolderImage::new();
    add_folder(dir, &mut image)?;
    Ok(image)
}

fn add_folder(dir: &Path, into: &mut FolderImage) -> Fallible {
    use std::os::unix::ffi::OsStringExt;
    use std::os::unix::fs::MetadataExt;
    for entry in fs_err::read_dir(dir)? {
        let path = entry?.path();
        let found = path.symlink_metadata()?;
        let content = if found.is_symlink() {
            fs_err::read_link(&path)?.into_os_string().into_vec()
        } else if found.is_file() {
            fs_err::read(&path)?
        } else {
            Vec::new()
        };
        into.insert(path.clone(), (found.mode(), content));
        if found.is_dir() {
            add_folder(&path, into)?;
        }
    }
    Ok(())
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
            image.get(path).is_some_and(|(mode, _)| mode & DIRECTORY == DIRECTORY)
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
