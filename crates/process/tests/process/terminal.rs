//! Commands in a terminal, and an owner that sits in one itself.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use rustix::process::Signal;
use rustix::termios::{LocalModes, tcgetattr};
use turnstone_process::{
    AttachOptions, AttachOutcome, CommandExit, CommandSpec, CommandStdio, OutputLimits,
    OutputRecorder, ProcessGroupId, Pty, TerminalSize,
};

use crate::process_fixture::{
    Fallible, ProcessFixture, bytes_of, example, is_alive, signal, wait_until,
};

const SIZE: TerminalSize = TerminalSize { rows: 33, columns: 111 };

/// A terminal with a program in it, seen by the test as a person sees it.
struct TestTerminal {
    pty: Pty,
    shown: Arc<Mutex<Vec<u8>>>,
    ending: JoinHandle<Result<AttachOutcome, String>>,
    group: ProcessGroupId,
}

impl TestTerminal {
    fn open(case: &ProcessFixture, program: &CommandSpec) -> Fallible<Self> {
        let streams = CommandStdio::Terminal { size: SIZE, outside: None, errors_apart: false };
        let running = case.supervisor.prepare(program, streams)?.start()?;
        let pty = running.pty().ok_or("no terminal")?.try_clone()?;
        let group = running.group().clone();
        let shown = Arc::new(Mutex::new(Vec::new()));
        let mut show = SharedOutput(Arc::clone(&shown));
        let ending = std::thread::spawn(move || {
            let outcome = running.attach(AttachOptions {
                recorder: &mut OutputRecorder::new(OutputLimits::default(), None),
                stdout: &mut show,
                stderr: &mut io::sink(),
                terminal: None,
                signals: None,
            });
            outcome.map_err(|error| error.to_string())
        });
        Ok(Self { pty, shown, ending, group })
    }

    /// The owner program in this terminal, with a script of its own inside.
    fn owner(case: &ProcessFixture, script: &str) -> Fallible<Self> {
        let owner = example()?.into_os_string().into_string().map_err(|_| "no text")?;
        let program = case.program(&owner);
        Self::open(case, &program.args(["run", "1000", "group.json", "/bin/sh", "-c", script]))
    }

    fn text(&self) -> String {
        let shown = self.shown.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        String::from_utf8_lossy(&shown).into_owned()
    }

    fn wait_for_text(&self, text: &str) -> Fallible {
        wait_until(text, || self.text().contains(text))
            .map_err(|_| format!("{text:?} was never shown, but {:?}", self.text()).into())
    }

    fn is_raw(&self) -> Fallible<bool> {
        Ok(!tcgetattr(&self.pty)?.local_modes.contains(LocalModes::ICANON))
    }

    fn end(self) -> Fallible<CommandExit> {
        let text = || format!("the program ends, which shows {:?}", self.text());
        wait_until("the program ends", || self.ending.is_finished()).map_err(|_| text())?;
        Ok(self.ending.join().map_err(|_| "the terminal failed")??.exit)
    }
}

struct SharedOutput(Arc<Mutex<Vec<u8>>>);

impl Write for SharedOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().map_err(|_| io::Error::other("poisoned"))?.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Proves R33.
#[test]
fn command_sees_terminal_of_given_size() -> Fallible {
    let case = ProcessFixture::new()?;
    let script = "tty; stty size; [ -t 0 ] && [ -t 1 ] && [ -t 2 ] && echo all
        : > /dev/tty && echo controlling; ps -o stat= -p $$ | grep -q + && echo foreground";
    let screen = TestTerminal::open(&case, &case.script(script))?;
    screen.wait_for_text("/dev/pts/")?;
    screen.wait_for_text("33 111")?;
    screen.wait_for_text("all")?;
    screen.wait_for_text("controlling")?;
    screen.wait_for_text("foreground")?;
    assert_eq!(screen.end()?, CommandExit::Code(0));
    Ok(())
}

/// Proves R33.
#[test]
fn interrupt_key_reaches_only_the_command() -> Fallible {
    let case = ProcessFixture::new()?;
    let screen = TestTerminal::open(&case, &case.script("echo ready; exec sleep 1000"))?;
    screen.wait_for_text("ready")?;
    screen.pty.write_input(b"\x03")?;
    assert_eq!(screen.end()?, CommandExit::Signal(2));
    Ok(())
}

/// Proves R33.
#[test]
fn owner_in_terminal_gives_command_its_own_pty() -> Fallible {
    let case = ProcessFixture::new()?;
    let screen = TestTerminal::owner(&case, "stty size; read word; echo \"<$word>\"; exit 5")?;
    screen.wait_for_text("33 111")?;
    assert!(screen.is_raw()?);
    screen.pty.write_input(b"hello\r")?;
    screen.wait_for_text("<hello>")?;
    let pty = screen.pty.try_clone()?;
    assert_eq!(screen.end()?, CommandExit::Code(5));
    assert!(tcgetattr(&pty)?.local_modes.contains(LocalModes::ICANON | LocalModes::ECHO));
    Ok(())
}

/// Proves R33.
#[test]
fn terminal_resize_is_followed() -> Fallible {
    let case = ProcessFixture::new()?;
    let script = "trap 'stty size; exit 0' WINCH; echo ready; while :; do sleep 0.05; done";
    let screen = TestTerminal::owner(&case, script)?;
    screen.wait_for_text("ready")?;
    screen.pty.resize(TerminalSize { rows: 44, columns: 155 })?;
    screen.wait_for_text("44 155")?;
    assert_eq!(screen.end()?, CommandExit::Code(0));
    Ok(())
}

/// Proves R33.
#[test]
fn interrupt_passes_through_owner() -> Fallible {
    let case = ProcessFixture::new()?;
    let script = "trap 'echo caught; exit 8' INT; echo ready; while :; do sleep 0.05; done";
    let screen = TestTerminal::owner(&case, script)?;
    screen.wait_for_text("ready")?;
    screen.pty.write_input(b"\x03")?;
    screen.wait_for_text("caught")?;
    assert_eq!(screen.end()?, CommandExit::Code(8));
    Ok(())
}

/// Proves R33.
#[test]
fn terminal_modes_are_restored_after_any_owner_exit() -> Fallible {
    let case = ProcessFixture::new()?;
    for (how, code) in [(Signal::TERM, None), (Signal::HUP, None), (Signal::KILL, Some(9))] {
        fs_err::remove_file(case.at("group.json")).ok();
        // The outer shell stays and so does its terminal, whatever happens to the owner.
        let owner = example()?.display().to_string();
        let script = format!(
            "{owner} run 1000 group.json /bin/sh -c 'echo $$ > leader; echo ready; exec sleep 1000' &
             echo $! > owner; wait $!; echo over; while [ ! -e done ]; do sleep 0.05; done"
        );
        // In the foreground group, as a script without job control runs its children.
        let script = script.replace("' &\n", "' < /dev/tty &\n");
        let screen = TestTerminal::open(&case, &case.script(&script))?;
        screen.wait_for_text("ready")?;
        wait_until("the terminal is raw", || screen.is_raw().unwrap_or_default())?;
        let inner = case.recorded_group()?;
        signal(&case.wait_for_file("owner")?, how)?;
        screen.wait_for_text("over")?;
        wait_until("the terminal is put back", || !screen.is_raw().unwrap_or(true))?;
        assert!(inner.wait(std::time::Duration::from_secs(60))?, "{code:?}");
        fs_err::write(case.at("done"), "")?;
        assert_eq!(screen.end()?, CommandExit::Code(0));
        fs_err::remove_file(case.at("done"))?;
    }
    Ok(())
}

/// Proves R33.
#[test]
fn suspended_command_suspends_and_resumes_owner() -> Fallible {
    let case = ProcessFixture::new()?;
    let owner = example()?.display().to_string();
    // A shell with job control: it reports the stopped job, then brings it back.
    let script = format!(
        "set -m
         {owner} run 1000 group.json /bin/sh -c 'echo ready; read word; echo \"<$word>\"'
         echo \"stopped $?\"; fg; echo \"end $?\""
    );
    let screen = TestTerminal::open(&case, &case.program("/bin/bash").args(["-c", &script]))?;
    screen.wait_for_text("ready")?;
    wait_until("the terminal is raw", || screen.is_raw().unwrap_or_default())?;
    screen.pty.write_input(b"\x1a")?;
    screen.wait_for_text("stopped ")?;
    screen.pty.write_input(b"again\r")?;
    screen.wait_for_text("<again>")?;
    screen.wait_for_text("end 0")?;
    assert_eq!(screen.end()?, CommandExit::Code(0));
    Ok(())
}

/// Proves R33.
#[test]
fn inner_shell_has_job_control() -> Fallible {
    let case = ProcessFixture::new()?;
    let shell = case.program("/bin/bash").args(["--norc", "--noprofile", "-i"]);
    let screen = TestTerminal::open(&case, &shell)?;
    // Said by the job itself: a key before it is there would be lost.
    screen.pty.write_input(b"sh -c 'echo re\"\"ady; exec sleep 1000'\r")?;
    screen.wait_for_text("\nready")?;
    let shell = screen.group.pgid.to_string();
    let job_runs = || {
        let stat = fs_err::read_to_string(format!("/proc/{shell}/stat")).unwrap_or_default();
        stat.split(' ').nth(7) != Some(&shell)
    };
    wait_until("the job is in the foreground", job_runs)?;
    screen.pty.write_input(b"\x1a")?;
    screen.wait_for_text("Stopped")?;
    wait_until("the shell is in the foreground", || !job_runs())?;
    screen.pty.write_input(b"fg\r")?;
    wait_until("the job is in the foreground again", job_runs)?;
    screen.pty.write_input(b"\x03")?;
    wait_until("the shell is in the foreground again", || !job_runs())?;
    screen.pty.write_input(b"exit 6\r")?;
    let shown = Arc::clone(&screen.shown);
    assert_eq!(screen.end()?, CommandExit::Code(6));
    let shown = shown.lock().map_err(|_| "poisoned")?;
    let text = String::from_utf8_lossy(&shown);
    assert!(!text.contains("no job control"), "{text}");
    Ok(())
}

/// Proves R32.
#[test]
fn closed_terminal_ends_its_commands() -> Fallible {
    let case = ProcessFixture::new()?;
    let screen = TestTerminal::owner(&case, "echo $$ > leader; echo ready; exec sleep 1000")?;
    screen.wait_for_text("ready")?;
    let leader = case.wait_for_file("leader")?;
    let inner = case.recorded_group()?;
    screen.group.end(std::time::Duration::from_secs(60))?;
    assert!(inner.wait(std::time::Duration::from_secs(60))?);
    assert!(!is_alive(&leader));
    Ok(())
}

/// Proves R33.
#[test]
fn redirected_stderr_stays_out_of_terminal() -> Fallible {
    let case = ProcessFixture::new()?;
    let streams = CommandStdio::Terminal { size: SIZE, outside: None, errors_apart: true };
    let program = case.script("echo shown; echo apart >&2");
    let running = case.supervisor.prepare(&program, streams)?.start()?;
    let mut recorder = OutputRecorder::new(OutputLimits::default(), None);
    crate::process_fixture::attach(running, &mut recorder)?;
    let kept = recorder.finish();
    assert_eq!(bytes_of(&kept.head, turnstone_process::OutputSource::Stdout), b"shown\r\n");
    assert_eq!(bytes_of(&kept.head, turnstone_process::OutputSource::Stderr), b"apart\n");
    Ok(())
}
