//! The same as a user without any capability, who needs `no_new_privs`.

use std::os::unix::fs::PermissionsExt;

use turnstone_trace::{TraceGapReason, TraceLog};

use crate::process_fixture::Fallible;
use crate::trace::program_check::{Account, ProgramCase};
use crate::trace::trace_fixture::{TraceFixture, assert_complete};

/// Runs a traced script as a user without capabilities; it must succeed.
fn run_unprivileged(
    script: &str,
    prepare: impl Fn(&TraceFixture) -> Fallible,
) -> Fallible<(TraceFixture, TraceLog)> {
    let account =
        if rustix::process::geteuid().is_root() { Account::Unprivileged } else { Account::Own };
    let case = ProgramCase::new(account)?;
    prepare(&case.trace)?;
    let (code, output) = case.run(&format!("exec 2>&1; {script}"), true)?;
    assert_eq!(code, 0, "{output}");
    let log = case.trace.read("trace")?;
    Ok((case.trace, log))
}

#[test]
fn unprivileged_commands_are_traced() -> Fallible {
    let (case, log) = run_unprivileged(
        "grep -q 'NoNewPrivs:.*1' /proc/self/status && mkdir a && cd a && echo x > b && mv b ../c && rm ../c",
        |_| Ok(()),
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
    let (case, log) = run_unprivileged(
        "mkdir a e; unshare --user --map-root-user --mount --pid --fork sh -ec \
         'mount --bind a e; echo x > e/one; echo x > a/two; chmod 600 /proc/self/cwd/a/two'",
        |_| Ok(()),
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
    let (case, log) =
        run_unprivileged("echo x 2>/dev/null > closed/file; echo y > file", |case| {
            fs_err::create_dir(case.dir.join("closed"))?;
            let nothing = std::fs::Permissions::from_mode(0o000);
            Ok(fs_err::set_permissions(case.dir.join("closed"), nothing)?)
        })?;
    assert_complete(&log);
    assert_eq!(case.lines(&log), ["Create file"]);
    Ok(())
}

#[test]
fn set_uid_programs_are_named_where_they_lose_their_rights() -> Fallible {
    let (case, log) = run_unprivileged("./set-uid && ./set-uid && true", |case| {
        let program = case.dir.join("set-uid");
        fs_err::copy("/bin/true", &program)?;
        Ok(fs_err::set_permissions(&program, std::fs::Permissions::from_mode(0o4755))?)
    })?;
    assert_complete(&log);
    let named: Vec<_> = log.gaps.iter().map(|gap| (gap.reason, gap.path.clone())).collect();
    assert_eq!(named, [(TraceGapReason::SetUidProgram, Some(case.dir.join("set-uid")))]);
    Ok(())
}

/// A process that is not dumpable cannot be read by its own user.
#[test]
fn unreadable_process_is_a_gap() -> Fallible {
    let (case, log) = run_unprivileged("cc -o hide hide.c && ./hide", |case| {
        Ok(fs_err::write(case.dir.join("hide.c"), HIDE)?)
    })?;
    let reasons: Vec<_> = log.hiding_gaps().map(|gap| gap.reason).collect();
    assert_eq!(reasons, [TraceGapReason::UnreadableMemory]);
    assert!(case.dir.join("hidden").exists());
    Ok(())
}

const HIDE: &str = "#include <fcntl.h>\n#include <sys/prctl.h>\n\
    int main(void) { prctl(PR_SET_DUMPABLE, 0); return open(\"hidden\", O_CREAT | O_WRONLY, 0600) < 0; }\n";
