//! Commands in a terminal, and an owner that sits in one itself.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use rustix::process::Signal;
use rustix::termios::{LocalModes, tcgetattr};
use turnstone_process::{
    Attend, Exit, GroupId, Keeper, Limits, Outcome, Program, Pty, Size, Streams,
};

use crate::case::{Case, Fallible, example, is_alive, signal, until};

const SIZE: Size = Size { rows: 33, columns: 111 };

/// A terminal with a program in it, seen by the test as a person sees it.
struct Screen {
    pty: Pty,
    shown: Arc<Mutex<Vec<u8>>>,
    ending: JoinHandle<Result<Outcome, String>>,
    group: GroupId,
}

impl Screen {
    fn open(case: &Case, program: &Program) -> Fallible<Self> {
        let streams = Streams::Terminal { size: SIZE, outside: None, errors_apart: false };
        let running = case.supervisor.prepare(program, streams)?.go()?;
        let pty = running.pty().ok_or("no terminal")?.try_clone()?;
        let group = running.group().clone();
        let shown = Arc::new(Mutex::new(Vec::new()));
        let mut show = Show(Arc::clone(&shown));
        let ending = std::thread::spawn(move || {
            let outcome = running.attend(Attend {
                keeper: &mut Keeper::new(Limits::default(), None),
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
    fn owner(case: &Case, script: &str) -> Fallible<Self> {
        let owner = example()?.into_os_string().into_string().map_err(|_| "no text")?;
        let program = case.program(&owner);
        Self::open(case, &program.args(["run", "1000", "group.json", "/bin/sh", "-c", script]))
    }

    fn text(&self) -> String {
        let shown = self.shown.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        String::from_utf8_lossy(&shown).into_owned()
    }

    fn shows(&self, text: &str) -> Fallible {
        until(text, || self.text().contains(text))
            .map_err(|_| format!("{text:?} was never shown, but {:?}", self.text()).into())
    }

    fn is_raw(&self) -> Fallible<bool> {
        Ok(!tcgetattr(&self.pty)?.local_modes.contains(LocalModes::ICANON))
    }

    fn end(self) -> Fallible<Exit> {
        let text = || format!("the program ends, which shows {:?}", self.text());
        until("the program ends", || self.ending.is_finished()).map_err(|_| text())?;
        Ok(self.ending.join().map_err(|_| "the terminal failed")??.exit)
    }
}

struct Show(Arc<Mutex<Vec<u8>>>);

impl Write for Show {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().map_err(|_| io::Error::other("poisoned"))?.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_command_sees_a_terminal_of_the_right_size_r33() -> Fallible {
    let case = Case::new()?;
    let script = "tty; stty size; [ -t 0 ] && [ -t 1 ] && [ -t 2 ] && echo all
        : > /dev/tty && echo controlling; ps -o stat= -p $$ | grep -q + && echo foreground";
    let screen = Screen::open(&case, &case.script(script))?;
    screen.shows("/dev/pts/")?;
    screen.shows("33 111")?;
    screen.shows("all")?;
    screen.shows("controlling")?;
    screen.shows("foreground")?;
    assert_eq!(screen.end()?, Exit::Code(0));
    Ok(())
}

#[test]
fn a_key_interrupts_the_command_and_nobody_else_r33() -> Fallible {
    let case = Case::new()?;
    let screen = Screen::open(&case, &case.script("echo ready; exec sleep 1000"))?;
    screen.shows("ready")?;
    screen.pty.type_in(b"\x03")?;
    assert_eq!(screen.end()?, Exit::Signal(2));
    Ok(())
}

#[test]
fn an_owner_in_a_terminal_gives_the_command_another_like_it_r33() -> Fallible {
    let case = Case::new()?;
    let screen = Screen::owner(&case, "stty size; read word; echo \"<$word>\"; exit 5")?;
    screen.shows("33 111")?;
    assert!(screen.is_raw()?);
    screen.pty.type_in(b"hello\r")?;
    screen.shows("<hello>")?;
    let pty = screen.pty.try_clone()?;
    assert_eq!(screen.end()?, Exit::Code(5));
    assert!(tcgetattr(&pty)?.local_modes.contains(LocalModes::ICANON | LocalModes::ECHO));
    Ok(())
}

#[test]
fn the_size_is_followed_r33() -> Fallible {
    let case = Case::new()?;
    let script = "trap 'stty size; exit 0' WINCH; echo ready; while :; do sleep 0.05; done";
    let screen = Screen::owner(&case, script)?;
    screen.shows("ready")?;
    screen.pty.resize(Size { rows: 44, columns: 155 })?;
    screen.shows("44 155")?;
    assert_eq!(screen.end()?, Exit::Code(0));
    Ok(())
}

#[test]
fn interrupt_passes_through_the_owner_to_the_command_r33() -> Fallible {
    let case = Case::new()?;
    let script = "trap 'echo caught; exit 8' INT; echo ready; while :; do sleep 0.05; done";
    let screen = Screen::owner(&case, script)?;
    screen.shows("ready")?;
    screen.pty.type_in(b"\x03")?;
    screen.shows("caught")?;
    assert_eq!(screen.end()?, Exit::Code(8));
    Ok(())
}

#[test]
fn the_terminal_is_put_back_whatever_ends_the_owner_r33() -> Fallible {
    let case = Case::new()?;
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
        let screen = Screen::open(&case, &case.script(&script))?;
        screen.shows("ready")?;
        until("the terminal is raw", || screen.is_raw().unwrap_or_default())?;
        let inner = case.recorded()?;
        signal(&case.told("owner")?, how)?;
        screen.shows("over")?;
        until("the terminal is put back", || !screen.is_raw().unwrap_or(true))?;
        assert!(inner.wait(std::time::Duration::from_secs(60))?, "{code:?}");
        fs_err::write(case.at("done"), "")?;
        assert_eq!(screen.end()?, Exit::Code(0));
        fs_err::remove_file(case.at("done"))?;
    }
    Ok(())
}

#[test]
fn a_suspended_command_suspends_its_owner_and_wakes_with_it_r33() -> Fallible {
    let case = Case::new()?;
    let owner = example()?.display().to_string();
    // A shell with job control: it reports the stopped job, then brings it back.
    let script = format!(
        "set -m
         {owner} run 1000 group.json /bin/sh -c 'echo ready; read word; echo \"<$word>\"'
         echo \"stopped $?\"; fg; echo \"end $?\""
    );
    let screen = Screen::open(&case, &case.program("/bin/bash").args(["-c", &script]))?;
    screen.shows("ready")?;
    until("the terminal is raw", || screen.is_raw().unwrap_or_default())?;
    screen.pty.type_in(b"\x1a")?;
    screen.shows("stopped ")?;
    screen.pty.type_in(b"again\r")?;
    screen.shows("<again>")?;
    screen.shows("end 0")?;
    assert_eq!(screen.end()?, Exit::Code(0));
    Ok(())
}

#[test]
fn a_shell_inside_has_its_own_job_control_r33() -> Fallible {
    let case = Case::new()?;
    let shell = case.program("/bin/bash").args(["--norc", "--noprofile", "-i"]);
    let screen = Screen::open(&case, &shell)?;
    // Said by the job itself: a key before it is there would be lost.
    screen.pty.type_in(b"sh -c 'echo re\"\"ady; exec sleep 1000'\r")?;
    screen.shows("\nready")?;
    let shell = screen.group.pgid.to_string();
    let job_runs = || {
        let stat = fs_err::read_to_string(format!("/proc/{shell}/stat")).unwrap_or_default();
        stat.split(' ').nth(7) != Some(&shell)
    };
    until("the job is in the foreground", job_runs)?;
    screen.pty.type_in(b"\x1a")?;
    screen.shows("Stopped")?;
    until("the shell is in the foreground", || !job_runs())?;
    screen.pty.type_in(b"fg\r")?;
    until("the job is in the foreground again", job_runs)?;
    screen.pty.type_in(b"\x03")?;
    until("the shell is in the foreground again", || !job_runs())?;
    screen.pty.type_in(b"exit 6\r")?;
    let shown = Arc::clone(&screen.shown);
    assert_eq!(screen.end()?, Exit::Code(6));
    let shown = shown.lock().map_err(|_| "poisoned")?;
    let text = String::from_utf8_lossy(&shown);
    assert!(!text.contains("no job control"), "{text}");
    Ok(())
}

#[test]
fn a_terminal_that_closes_ends_everything_in_it_r32() -> Fallible {
    let case = Case::new()?;
    let screen = Screen::owner(&case, "echo $$ > leader; echo ready; exec sleep 1000")?;
    screen.shows("ready")?;
    let leader = case.told("leader")?;
    let inner = case.recorded()?;
    screen.group.end(std::time::Duration::from_secs(60))?;
    assert!(inner.wait(std::time::Duration::from_secs(60))?);
    assert!(!is_alive(&leader));
    Ok(())
}

#[test]
fn errors_sent_elsewhere_stay_out_of_the_terminal_r33() -> Fallible {
    let case = Case::new()?;
    let streams = Streams::Terminal { size: SIZE, outside: None, errors_apart: true };
    let program = case.script("echo shown; echo apart >&2");
    let running = case.supervisor.prepare(&program, streams)?.go()?;
    let mut keeper = Keeper::new(Limits::default(), None);
    crate::case::attend(running, &mut keeper)?;
    let kept = keeper.finish();
    assert_eq!(kept.head.bytes_of(turnstone_process::Source::Stdout), b"shown\r\n");
    assert_eq!(kept.head.bytes_of(turnstone_process::Source::Stderr), b"apart\n");
    Ok(())
}
