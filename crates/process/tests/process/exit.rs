//! Exit codes, and what is said when nothing was started.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use turnstone_process::{Environment, Exit, Keeper, Limits, StartError};

use crate::case::{Case, Fallible, attend};

#[test]
fn the_code_is_the_commands_or_128_and_the_signal_r33() -> Fallible {
    let case = Case::new()?;
    for (script, exit, code) in [
        ("exit 0", Exit::Code(0), 0),
        ("exit 7", Exit::Code(7), 7),
        ("exit 127", Exit::Code(127), 127),
        ("exit 255", Exit::Code(255), 255),
        ("kill -TERM $$", Exit::Signal(15), 143),
        ("kill -KILL $$", Exit::Signal(9), 137),
        ("kill -PIPE $$", Exit::Signal(13), 141),
    ] {
        let (outcome, _) = case.run(script)?;
        assert_eq!((outcome.exit, outcome.exit.code()), (exit, code), "{script}");
        assert_eq!(outcome.exit.is_success(), code == 0);
    }
    Ok(())
}

#[test]
fn what_cannot_be_started_says_why_r33() -> Fallible {
    let case = Case::new()?;
    fs_err::write(case.at("plain"), "not a program")?;
    // Its interpreter is a folder.
    fs_err::write(case.at("broken"), "#!/\n")?;
    fs_err::set_permissions(case.at("broken"), std::fs::Permissions::from_mode(0o755))?;
    let error =
        |program: &str| case.prepare(&case.program(program)).and_then(|it| it.go()).unwrap_err();

    for (program, code) in [
        ("no-such-command", 127),
        ("./missing", 127),
        ("./plain", 126),
        ("/", 126),
        ("./broken", 126),
        ("", 127),
    ] {
        let error = error(program);
        assert_eq!(error.exit_code(), code, "{program}: {error}");
        let typed = match code {
            127 => matches!(error, StartError::NotFound { .. }),
            _ => matches!(error, StartError::NotExecutable { .. }),
        };
        assert!(typed, "{program}: {error:?}");
    }
    Ok(())
}

#[test]
fn arguments_arrive_byte_for_byte_or_not_at_all_r33() -> Fallible {
    let case = Case::new()?;
    let odd =
        [OsStr::new(""), OsStr::new(" a'\"b\n"), OsStr::from_bytes(b"\xff\x01"), OsStr::new("-x")];
    let program = case.program("printf").args([OsStr::new("<%s>")]).args(odd);
    let mut keeper = Keeper::new(Limits::default(), None);
    attend(case.prepare(&program)?.go()?, &mut keeper)?;
    assert_eq!(keeper.finish().head.to_bytes(), b"<>< a'\"b\n><\xff\x01><-x>");

    let program = case.program("true").args(["x".repeat(3 << 20)]);
    let error = case.prepare(&program)?.go().unwrap_err();
    assert!(matches!(error, StartError::NotExecutable { .. }), "{error:?}");
    Ok(())
}

#[test]
fn a_missing_directory_is_not_a_missing_command_r33() -> Fallible {
    let case = Case::new()?;
    let mut program = case.script("true");
    program.dir = case.at("nowhere");
    let error = case.prepare(&program).unwrap_err();
    assert!(matches!(error, StartError::Directory { .. }), "{error:?}");
    assert_eq!(error.exit_code(), 125);
    Ok(())
}

#[test]
fn a_missing_supervisor_is_our_own_failure_r33() -> Fallible {
    let mut case = Case::new()?;
    case.supervisor.program = case.at("nowhere");
    let error = case.prepare(&case.script("true")).unwrap_err();
    assert!(matches!(error, StartError::Supervisor { .. }), "{error:?}");
    assert_eq!(error.exit_code(), 125);

    // A program that is no supervisor at all.
    case.supervisor.program = "/bin/true".into();
    let error = case.prepare(&case.script("true")).unwrap_err();
    assert_eq!(error.exit_code(), 125, "{error:?}");
    Ok(())
}

#[test]
fn the_command_gets_exactly_the_environment_and_signals_it_should() -> Fallible {
    let case = Case::new()?;
    let env = Environment::default().with("PATH", "/usr/bin:/bin").with("ONLY", "this ä");
    let program = case.program("env").env(env);
    let mut keeper = Keeper::new(Limits::default(), None);
    attend(case.prepare(&program)?.go()?, &mut keeper)?;
    assert_eq!(keeper.finish().text().head, "ONLY=this ä\nPATH=/usr/bin:/bin\n");

    // Neither ignored nor blocked signals; 32 and 33 are the C library's own affair.
    let (_, kept) = case.run("exec cat /proc/self/status")?;
    let text = kept.text().head;
    for name in ["SigBlk", "SigIgn"] {
        let line = text.lines().find(|line| line.starts_with(name)).ok_or("no such line")?;
        let mask = line.split_whitespace().last().unwrap_or_default();
        let mask = u64::from_str_radix(mask, 16)?;
        assert_eq!(mask & !(0b11 << 31), 0, "{line}");
    }
    Ok(())
}

#[test]
fn no_descriptor_of_ours_is_inherited() -> Fallible {
    let case = Case::new()?;
    let list = |text: &str| text.split_whitespace().map(str::to_owned).collect::<BTreeSet<_>>();
    // What this test itself was started with, its parents have given to everybody.
    #[expect(clippy::disallowed_methods, reason = "a test compares with a plain start")]
    let plain = Command::new("ls").arg("/proc/self/fd").output()?;
    let (_, kept) = case.run("exec ls /proc/self/fd")?;
    assert_eq!(list(&kept.text().head), list(&String::from_utf8(plain.stdout)?));
    Ok(())
}

#[test]
fn nothing_runs_before_the_word_is_given_r32() -> Fallible {
    let case = Case::new()?;
    let prepared = case.prepare(&case.script("touch ran"))?;
    let group = prepared.group().clone();
    assert!(group.is_alive()?);
    drop(prepared);
    assert!(group.wait(std::time::Duration::from_secs(60))?);
    assert!(!case.at("ran").exists());
    Ok(())
}
