//! Exit codes, and what is said when nothing was started.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use turnstone_process::{
    CommandEnvironment, CommandExit, OutputLimits, OutputRecorder, StartError,
};

use crate::process_fixture::{Fallible, ProcessFixture, attach};

/// Proves R33.
#[test]
fn exit_code_is_own_or_128_plus_signal() -> Fallible {
    let case = ProcessFixture::new()?;
    for (script, exit, code) in [
        ("exit 0", CommandExit::Code(0), 0),
        ("exit 7", CommandExit::Code(7), 7),
        ("exit 127", CommandExit::Code(127), 127),
        ("exit 255", CommandExit::Code(255), 255),
        ("kill -TERM $$", CommandExit::Signal(15), 143),
        ("kill -KILL $$", CommandExit::Signal(9), 137),
        ("kill -PIPE $$", CommandExit::Signal(13), 141),
    ] {
        let (outcome, _) = case.run(script)?;
        assert_eq!((outcome.exit, outcome.exit.code()), (exit, code), "{script}");
        assert_eq!(outcome.exit.is_success(), code == 0);
    }
    Ok(())
}

/// Proves R33.
#[test]
fn start_failure_names_the_reason() -> Fallible {
    let case = ProcessFixture::new()?;
    fs_err::write(case.at("plain"), "not a program")?;
    // Its interpreter is a folder.
    fs_err::write(case.at("broken"), "#!/\n")?;
    fs_err::set_permissions(case.at("broken"), std::fs::Permissions::from_mode(0o755))?;
    let error =
        |program: &str| case.prepare(&case.program(program)).and_then(|it| it.start()).unwrap_err();

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

/// Proves R33.
#[test]
fn arguments_are_passed_byte_for_byte() -> Fallible {
    let case = ProcessFixture::new()?;
    let odd =
        [OsStr::new(""), OsStr::new(" a'\"b\n"), OsStr::from_bytes(b"\xff\x01"), OsStr::new("-x")];
    let program = case.program("printf").args([OsStr::new("<%s>")]).args(odd);
    let mut recorder = OutputRecorder::new(OutputLimits::default(), None);
    attach(case.prepare(&program)?.start()?, &mut recorder)?;
    assert_eq!(recorder.finish().head.to_bytes(), b"<>< a'\"b\n><\xff\x01><-x>");

    let program = case.program("true").args(["x".repeat(3 << 20)]);
    let error = case.prepare(&program)?.start().unwrap_err();
    assert!(matches!(error, StartError::NotExecutable { .. }), "{error:?}");
    Ok(())
}

/// Proves R33.
#[test]
fn missing_directory_differs_from_missing_command() -> Fallible {
    let case = ProcessFixture::new()?;
    let mut program = case.script("true");
    program.dir = case.at("nowhere");
    let error = case.prepare(&program).unwrap_err();
    assert!(matches!(error, StartError::Directory { .. }), "{error:?}");
    assert_eq!(error.exit_code(), 125);
    Ok(())
}

/// Proves R33.
#[test]
fn missing_supervisor_exits_125() -> Fallible {
    let mut case = ProcessFixture::new()?;
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
fn command_gets_exact_environment_and_signals() -> Fallible {
    let case = ProcessFixture::new()?;
    let env = CommandEnvironment::default().with("PATH", "/usr/bin:/bin").with("ONLY", "this ä");
    let program = case.program("env").env(env);
    let mut recorder = OutputRecorder::new(OutputLimits::default(), None);
    attach(case.prepare(&program)?.start()?, &mut recorder)?;
    assert_eq!(recorder.finish().text().head, "ONLY=this ä\nPATH=/usr/bin:/bin\n");

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
fn command_inherits_no_descriptors() -> Fallible {
    let case = ProcessFixture::new()?;
    let list = |text: &str| text.split_whitespace().map(str::to_owned).collect::<BTreeSet<_>>();
    // What this test itself was started with, its parents have given to everybody.
    #[expect(clippy::disallowed_methods, reason = "a test compares with a plain start")]
    let plain = Command::new("ls").arg("/proc/self/fd").output()?;
    let (_, kept) = case.run("exec ls /proc/self/fd")?;
    assert_eq!(list(&kept.text().head), list(&String::from_utf8(plain.stdout)?));
    Ok(())
}

/// Proves R32.
#[test]
fn nothing_runs_before_start() -> Fallible {
    let case = ProcessFixture::new()?;
    let prepared = case.prepare(&case.script("touch ran"))?;
    let group = prepared.group().clone();
    assert!(group.is_alive()?);
    drop(prepared);
    assert!(group.wait(std::time::Duration::from_secs(60))?);
    assert!(!case.at("ran").exists());
    Ok(())
}
