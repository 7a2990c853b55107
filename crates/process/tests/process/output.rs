//! Output through pipes: order, bounds, bytes, slow and vanished readers.

use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::process::Stdio;

use turnstone_process::{AttachOptions, CommandStdio, OutputLimits, OutputRecorder, OutputSource};

use crate::process_fixture::{Fallible, ProcessFixture, attach, bytes_of};

/// Proves R33.
#[test]
fn stdout_and_stderr_are_separate_and_ordered() -> Fallible {
    let case = ProcessFixture::new()?;
    // Each waits until the other was seen, so that the order is a fact.
    let script = "echo one; while [ ! -e 1 ]; do sleep 0.01; done
        echo two >&2; while [ ! -e 2 ]; do sleep 0.01; done; echo three";
    let mut recorder = OutputRecorder::new(OutputLimits::default(), None);
    let mark = |name: &'static str| MarkerWriter { path: case.at(name) };
    case.start(script)?.attach(AttachOptions {
        recorder: &mut recorder,
        stdout: &mut mark("1"),
        stderr: &mut mark("2"),
        terminal: None,
        signals: None,
    })?;
    let kept = recorder.finish();
    assert_eq!(kept.head.to_bytes(), b"one\ntwo\nthree\n");
    assert_eq!(bytes_of(&kept.head, OutputSource::Stderr), b"two\n");
    assert_eq!(bytes_of(&kept.head, OutputSource::Stdout), b"one\nthree\n");
    let runs: Vec<_> = kept.head.runs().collect();
    assert_eq!(
        runs,
        [(OutputSource::Stdout, 4), (OutputSource::Stderr, 4), (OutputSource::Stdout, 6)]
    );
    assert_eq!((kept.stdout_bytes, kept.stderr_bytes), (10, 4));
    Ok(())
}

/// Makes a file when something is written to it.
struct MarkerWriter {
    path: std::path::PathBuf,
}

impl Write for MarkerWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        fs_err::write(&self.path, "")?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Proves R33.
#[test]
fn endless_output_stays_within_bounds() -> Fallible {
    let case = ProcessFixture::new()?;
    let limits = OutputLimits { spill: 1 << 20, ..OutputLimits::default() };
    let mut recorder = OutputRecorder::new(limits, Some(case.at("spill")));
    let mut counter = CountingWriter::default();
    let before = peak_memory()?;
    let outcome = case.start("yes | head -c 50000000")?.attach(AttachOptions {
        recorder: &mut recorder,
        stdout: &mut counter,
        stderr: &mut io::sink(),
        terminal: None,
        signals: None,
    })?;
    let kept = recorder.finish();
    assert!(outcome.exit.is_success());
    assert_eq!(kept.total(), 50_000_000);
    assert_eq!(counter.bytes, 50_000_000);
    assert_eq!(kept.head.to_bytes().len(), 64 << 10);
    assert_eq!(kept.tail.to_bytes().len(), 64 << 10);
    assert_eq!(kept.spilled, 1 << 20);
    assert_eq!(kept.lost, 50_000_000 - (128 << 10) - (1 << 20));
    assert_eq!(fs_err::metadata(case.at("spill"))?.len(), 1 << 20);
    // No piece was ever larger than the buffer, however fast it came.
    assert!(counter.largest <= 64 << 10);
    assert!(peak_memory()? - before < 16 << 10, "more than 16 MiB for 50 MB of output");
    Ok(())
}

/// The most memory this process ever had, in KiB.
fn peak_memory() -> Fallible<u64> {
    let status = fs_err::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).ok_or("no peak")?;
    Ok(line.split_whitespace().nth(1).ok_or("no number")?.parse()?)
}

#[derive(Default)]
struct CountingWriter {
    bytes: usize,
    largest: usize,
}

impl Write for CountingWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes += bytes.len();
        self.largest = self.largest.max(bytes.len());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Proves R33.
#[test]
fn binary_output_is_passed_unchanged() -> Fallible {
    let case = ProcessFixture::new()?;
    let (_, kept) = case.run(r"printf '\000\377\376a\200\r\n'")?;
    assert_eq!(kept.head.to_bytes(), b"\0\xff\xfea\x80\r\n");
    assert_eq!(kept.text().head, "\0\u{fffd}\u{fffd}a\u{fffd}\r\n");
    Ok(())
}

/// Proves R33.
#[test]
fn slow_reader_loses_nothing() -> Fallible {
    let case = ProcessFixture::new()?;
    let (mut slow, full) = io::pipe()?;
    let reader = std::thread::spawn(move || {
        let mut all = Vec::new();
        let mut bytes = [0; 1000];
        loop {
            match slow.read(&mut bytes) {
                Ok(0) | Err(_) => return all,
                Ok(count) => all.extend_from_slice(&bytes[..count]),
            }
            std::thread::yield_now();
        }
    });
    let mut full = full;
    let mut recorder = OutputRecorder::new(OutputLimits::default(), None);
    let outcome = case.start("seq 1 100000; echo end >&2")?.attach(AttachOptions {
        recorder: &mut recorder,
        stdout: &mut full,
        stderr: &mut io::sink(),
        terminal: None,
        signals: None,
    })?;
    drop(full);
    let all = reader.join().map_err(|_| "the reader failed")?;
    let expected: String = (1..=100_000).map(|number| format!("{number}\n")).collect();
    assert!(outcome.stdout_error.is_none());
    assert!(all == expected.as_bytes());
    assert_eq!(recorder.finish().stderr_bytes, 4);
    Ok(())
}

/// Proves R33.
#[test]
fn closed_output_reaches_command_as_sigpipe() -> Fallible {
    let case = ProcessFixture::new()?;
    let (closed, mut write) = io::pipe()?;
    drop(closed);
    let mut recorder = OutputRecorder::new(OutputLimits::default(), None);
    let outcome = case.start("exec yes")?.attach(AttachOptions {
        recorder: &mut recorder,
        stdout: &mut write,
        stderr: &mut io::sink(),
        terminal: None,
        signals: None,
    })?;
    assert_eq!(outcome.exit.code(), 141);
    let error = outcome.stdout_error.ok_or("no error was reported")?;
    assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    Ok(())
}

#[test]
fn daemon_holding_the_pipe_is_not_awaited() -> Fallible {
    let case = ProcessFixture::new()?;
    let (outcome, kept) = case.run("echo here; setsid sleep 1000 & echo $! > daemon")?;
    assert!(outcome.exit.is_success());
    assert_eq!(kept.text().head, "here\n");
    crate::process_fixture::signal(&case.wait_for_file("daemon")?, rustix::process::Signal::KILL)
}

#[test]
fn stdin_is_passed_or_empty() -> Fallible {
    let case = ProcessFixture::new()?;
    let (read, mut write) = io::pipe()?;
    write.write_all(b"some words\n")?;
    drop(write);
    let stdin = Some(OwnedFd::from(read));
    let running =
        case.supervisor.prepare(&case.program("cat"), CommandStdio::Pipes { stdin })?.start()?;
    let mut recorder = OutputRecorder::new(OutputLimits::default(), None);
    attach(running, &mut recorder)?;
    assert_eq!(recorder.finish().text().head, "some words\n");

    let (_, kept) = case.run("wc -c")?;
    assert_eq!(kept.text().head.trim(), "0");
    Ok(())
}

#[test]
fn given_streams_are_used_directly() -> Fallible {
    let case = ProcessFixture::new()?;
    let (mut read, write) = io::pipe()?;
    let streams = CommandStdio::Given {
        stdin: fs_err::File::open("/dev/null")?.into_parts().0.into(),
        stdout: write.try_clone()?.into(),
        stderr: write.into(),
    };
    let program = case.script("echo out; echo err >&2");
    let running = case.supervisor.prepare(&program, streams)?.start()?;
    attach(running, &mut OutputRecorder::new(OutputLimits::default(), None))?;
    let mut text = String::new();
    read.read_to_string(&mut text)?;
    assert_eq!(text, "out\nerr\n");
    Ok(())
}

/// Proves R33.
#[test]
fn owner_in_pipeline_passes_output_and_code() -> Fallible {
    let case = ProcessFixture::new()?;
    let mut owner = case.owner(1000, "echo out; echo err >&2; exit 3")?;
    let output = owner.stdout(Stdio::piped()).stderr(Stdio::piped()).output()?;
    assert_eq!(
        (output.stdout.as_slice(), output.stderr.as_slice()),
        (&b"out\n"[..], &b"err\n"[..])
    );
    assert_eq!(output.status.code(), Some(3));
    Ok(())
}
