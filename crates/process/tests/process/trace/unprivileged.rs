//! The same as a user without any capability, who needs `no_new_privs`.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use turnstone_trace::{TraceGapReason, TraceLog};

use crate::process_fixture::{Fallible, example};
use crate::trace::trace_fixture::{TraceFixture, assert_complete};

/// The user without rights on every Linux.
const UNPRIVILEGED_ID: u32 = 65_534;

/// Runs a traced script as a user without capabilities.
fn run_unprivileged(case: &TraceFixture, script: &str) -> Fallible<TraceLog> {
    fs_err::set_permissions(&case.dir, std::fs::Permissions::from_mode(0o777))?;
    let program = case.dir.join("owner");
    fs_err::copy(example()?, &program)?;
    let log = case.log_path("trace");
    #[expect(clippy::disallowed_methods, reason = "a test starts the program as another user")]
    let mut command = Command::new(&program);
    command.arg("trace").arg(&log).args(["1000", "group", "/bin/sh", "-c", script]);
    command.current_dir(&case.dir);
    if rustix::process::geteuid().is_root() {
        command.uid(UNPRIVILEGED_ID).gid(UNPRIVILEGED_ID);
    }
    let output = command.output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && errors.is_empty(), "{errors}");
    Ok(TraceLog::read(log)?)
}

#[test]
fn unprivileged_commands_are_traced() -> Fallible {
    let case = TraceFixture::new()?;
    let log = run_unprivileged(
        &case,
        "grep -q 'NoNewPrivs:.*1' /proc/self/status && mkdir a && cd a && echo x > b && mv b ../c && rm ../c",
    )?;
    assert_complete(&log);
    assert_eq!(
        case.lines(&log),
        ["CreateDirectory a", "Create a/b", "MoveFrom a/b c", "MoveTo c a/b", "Remove c",]
    );
    Ok(())
}

#[test]
fn unprivileged_namespaces_are_seen_through() -> Fallible {
    let case = TraceFixture::new()?;
    let log = run_unprivileged(
        &case,
        "mkdir a e; unshare --user --map-root-user --mount --pid --fork sh -ec \
         'mount --bind a e; echo x > e/one; echo x > a/two; chmod 600 /proc/self/cwd/a/two'",
    )?;
    assert_complete(&log);
    let lines = case.lines(&log);
    assert_eq!(
        lines.get(2..),
        Some(&["Create a/one", "Create a/two", "Mode a/two"].map(str::to_owned)[..])
    );
    Ok(())
}

#[test]
fn paths_that_the_user_may_not_reach_are_no_gap() -> Fallible {
    let case = TraceFixture::new()?;
    fs_err::create_dir(case.dir.join("closed"))?;
    fs_err::set_permissions(case.dir.join("closed"), std::fs::Permissions::from_mode(0o000))?;
    let log = run_unprivileged(&case, "echo x 2>/dev/null > closed/file; echo y > file")?;
    assert_complete(&log);
    assert_eq!(case.lines(&log), ["Create file"]);
    Ok(())
}

#[test]
fn set_uid_programs_are_named_where_they_lose_their_rights() -> Fallible {
    let case = TraceFixture::new()?;
    let program = case.dir.join("set-uid");
    fs_err::copy("/bin/true", &program)?;
    fs_err::set_permissions(&program, std::fs::Permissions::from_mode(0o4755))?;
    let log = run_unprivileged(&case, "./set-uid && ./set-uid && true")?;
    assert_complete(&log);
    let named: Vec<_> = log.gaps.iter().map(|gap| (gap.reason, gap.path.clone())).collect();
    assert_eq!(named, [(TraceGapReason::SetUidProgram, Some(program))]);
    Ok(())
}

/// A process that is not dumpable cannot be read by its own user.
#[test]
fn unreadable_process_is_a_gap() -> Fallible {
    let case = TraceFixture::new()?;
    fs_err::write(case.dir.join("hide.c"), HIDE)?;
    let log = run_unprivileged(&case, "cc -o hide hide.c && ./hide")?;
    let reasons: Vec<_> = log.hiding_gaps().map(|gap| gap.reason).collect();
    assert_eq!(reasons, [TraceGapReason::UnreadableMemory]);
    assert!(case.dir.join("hidden").exists());
    Ok(())
}

const HIDE: &str = "#include <fcntl.h>\n#include <sys/prctl.h>\n\
    int main(void) { prctl(PR_SET_DUMPABLE, 0); return open(\"hidden\", O_CREAT | O_WRONLY, 0600) < 0; }\n";
