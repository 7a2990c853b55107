//! Repositories with pipes and devices in place of files: every answer comes, and no git is left behind.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use fs_err::os::unix::fs::OpenOptionsExt;

use crate::fixture::CliFixture;
use crate::serve_process::{ServeProcess, start_serve};
use crate::serve_shutdown::{
    await_pid, await_process_exit, open_request, send_signals, wait_for_exit,
};

/// Opens a pipe for writing without waiting for a reader (Linux).
const O_NONBLOCK: i32 = 0o4000;

/// Files that git reads, below the top of the worktree.
const FILES: [&str; 16] = [
    ".git/HEAD",
    ".git/config",
    ".git/config.worktree",
    ".git/index",
    ".git/packed-refs",
    ".git/shallow",
    ".git/refs/heads/main",
    ".git/objects/info/alternates",
    ".git/info/attributes",
    ".git/info/exclude",
    ".git/info/grafts",
    ".git/info/sparse-checkout",
    ".git/included",
    ".gitmodules",
    ".gitattributes",
    ".gitignore",
];

#[expect(clippy::disallowed_methods, reason = "the shell makes repositories and pipes")]
fn shell(directory: &Path, script: &str) {
    let done = Command::new("/bin/sh")
        .args(["-ec", script])
        .current_dir(directory)
        .env("HOME", directory)
        .status();
    assert!(done.expect("runs").success(), "{script}");
}

fn repository(case: &CliFixture, name: &str) -> PathBuf {
    let path = case.path(name);
    fs_err::create_dir_all(path.join("deep")).expect("made");
    let identity = "-c user.name=a -c user.email=a@b";
    let make = "git init -q -b main; echo one > file; git add file";
    shell(&path, &format!("{make}; git {identity} commit -q -m first; echo two > file"));
    path
}

/// A repository in which git waits for a writer; the pipe is returned.
fn waiting_repository(case: &CliFixture, name: &str) -> (PathBuf, PathBuf) {
    let path = repository(case, name);
    shell(&path, "mkfifo deep/.gitignore");
    (path.clone(), path.join("deep/.gitignore"))
}

fn ask(repository: &Path, route: &str) -> String {
    let directory = repository.display();
    format!("GET {route}?directory={directory} HTTP/1.0\r\nhost: localhost\r\n\r\n")
}

fn answer(started: &ServeProcess, head: &str) -> String {
    let mut text = Vec::new();
    open_request(started, head).read_to_end(&mut text).expect("an answer within 60 s");
    String::from_utf8_lossy(&text).into_owned()
}

fn serve(case: &CliFixture) -> ServeProcess {
    fs_err::create_dir_all(case.path("tmp")).expect("made");
    start_serve(case, &["serve", "--port", "0", "--json"], |command| {
        command.env("TMPDIR", case.path("tmp")).stderr(Stdio::null());
    })
}

fn assert_no_folder_is_left(case: &CliFixture) {
    let entries = fs_err::read_dir(case.path("tmp")).expect("listed");
    let names = entries.map(|entry| entry.expect("listed").file_name());
    let left: Vec<_> =
        names.filter(|name| name.to_string_lossy().starts_with("turnstone-git-")).collect();
    assert!(left.is_empty(), "{left:?}");
}

/// Waits until git has opened the pipe, and then feeds it until git is gone: a git that reads is not
/// idle, so no other limit ends it meanwhile.
struct Feeder(fs_err::File);

impl Feeder {
    fn open(pipe: &Path) -> Self {
        for _ in 0..600 {
            let opened = fs_err::OpenOptions::new().write(true).custom_flags(O_NONBLOCK).open(pipe);
            if let Ok(file) = opened {
                return Self(file);
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("git did not open the pipe in 60 s");
    }

    fn await_end(mut self) {
        for _ in 0..600 {
            if self.0.write_all(b"#").is_err() {
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("git did not end in 60 s");
    }
}

#[test]
fn odd_files_in_place_of_those_git_reads_block_nothing() {
    let case = CliFixture::empty();
    let started = serve(&case);
    for put in ["mkfifo", "ln -s /dev/zero"] {
        for (number, name) in FILES.iter().enumerate() {
            let folder = format!("{}{number}", put.get(..2).unwrap_or_default());
            let path = repository(&case, &folder);
            let settings =
                "git config extensions.worktreeConfig true; git config include.path included";
            shell(&path, settings);
            shell(&path, &format!("mkdir -p .git/info; rm -f {name}; {put} {name}"));

            let shown = answer(&started, &ask(&path, "/vcs/status"));
            // Git itself refuses links in place of these two, and goes on.
            let is_skipped = put != "mkfifo" && matches!(*name, ".gitattributes" | ".gitignore");
            let (status, word) = if is_skipped { ("200", "file") } else { ("409", *name) };
            assert!(shown.starts_with(&format!("HTTP/1.0 {status}")), "{put} {name}: {shown}");
            assert!(shown.contains(word), "{put} {name}: {shown}");

            let mut exec = case.command(&folder, &["exec", "--", "true"]);
            exec.env("PATH", "/usr/bin:/bin").timeout(Duration::from_secs(60));
            let ran = exec.output().expect("it ends within 60 s");
            let stderr = String::from_utf8_lossy(&ran.stderr);
            assert!(ran.status.code().is_some(), "{put} {name}: {stderr}");
            assert!(ran.status.success() || stderr.contains(name), "{put} {name}: {stderr}");
        }
    }
    let health = answer(&started, &ask(&case.path("p"), "/global/health"));
    assert!(health.starts_with("HTTP/1.0 200"), "{health}");
}

#[test]
fn many_requests_that_wait_for_git_leave_room_for_others() {
    let case = CliFixture::empty();
    let honest = repository(&case, "honest");
    let (hostile, pipe) = waiting_repository(&case, "hostile");
    let started = serve(&case);
    let request = ask(&hostile, "/vcs/status");
    let waiting: Vec<TcpStream> = (0..600).map(|_| open_request(&started, &request)).collect();
    let feeder = Feeder::open(&pipe);

    let health = answer(&started, &ask(&honest, "/global/health"));
    assert!(health.starts_with("HTTP/1.0 200"), "{health}");
    let shown = answer(&started, &ask(&honest, "/vcs/status"));
    assert!(shown.starts_with("HTTP/1.0 200") && shown.contains("file"), "{shown}");
    drop(waiting);
    feeder.await_end();
}

#[test]
fn a_client_that_leaves_ends_its_git() {
    let case = CliFixture::empty();
    let (hostile, pipe) = waiting_repository(&case, "hostile");
    let started = serve(&case);
    let client = open_request(&started, &ask(&hostile, "/vcs/diff/raw"));
    let feeder = Feeder::open(&pipe);
    drop(client);
    feeder.await_end();
}

#[test]
fn the_end_of_the_server_ends_its_git_and_removes_its_folders() {
    for signals in [&["TERM"][..], &["TERM", "INT"]] {
        let case = CliFixture::empty();
        let (hostile, pipe) = waiting_repository(&case, "hostile");
        let mut started = serve(&case);
        let client = open_request(&started, &ask(&hostile, "/vcs/status"));
        let feeder = Feeder::open(&pipe);
        send_signals(&started.child, signals);
        wait_for_exit(&mut started.child);
        feeder.await_end();
        assert_no_folder_is_left(&case);
        drop(client);
    }
}

#[test]
fn folders_of_a_killed_server_are_removed_by_the_next_one() {
    let case = CliFixture::empty();
    let (hostile, pipe) = waiting_repository(&case, "hostile");
    let honest = repository(&case, "honest");
    let mut started = serve(&case);
    let client = open_request(&started, &ask(&hostile, "/vcs/status"));
    let feeder = Feeder::open(&pipe);
    started.child.kill().expect("killed");
    started.child.wait().expect("reaped");
    // Nothing tells git; the end of its input does.
    drop((feeder, client));
    let next = serve(&case);
    let shown = answer(&next, &ask(&honest, "/vcs/status"));
    assert!(shown.starts_with("HTTP/1.0 200"), "{shown}");
    assert_no_folder_is_left(&case);
}

/// Signals to commands of the command line, with a git that works without an end.
#[test]
#[expect(clippy::disallowed_methods, reason = "assert_cmd cannot leave a program running")]
fn a_signal_that_ends_a_command_ends_its_git() {
    for (name, number) in [("INT", 2), ("TERM", 15), ("HUP", 1)] {
        let case = CliFixture::empty();
        let path = repository(&case, "repository");
        let (bin, tmp, file) = (case.path("bin"), case.path("tmp"), case.path("number"));
        fs_err::create_dir_all(&bin).expect("made");
        fs_err::create_dir_all(&tmp).expect("made");
        let file_text = file.display();
        let script = format!(
            "#!/bin/sh\ncase \"$*\" in *version*|*config*) exec /usr/bin/git \"$@\";; esac\n\
             echo $$ > {file_text}.new; mv {file_text}.new {file_text}; while :; do :; done\n"
        );
        fs_err::write(bin.join("git"), script).expect("written");
        let mode = PermissionsExt::from_mode(0o755);
        fs_err::set_permissions(bin.join("git"), mode).expect("allowed");
        let mut child = Command::new(env!("CARGO_BIN_EXE_turnstone"))
            .env_clear()
            .env("PATH", format!("{}:/usr/bin:/bin", bin.display()))
            .env("HOME", case.path("home"))
            .env("TMPDIR", &tmp)
            .env("TURNSTONE_DATA", case.data_dir())
            .current_dir(&path)
            .args(["exec", "--", "true"])
            .stdin(Stdio::null())
            .spawn()
            .expect("starts");
        let git = await_pid(&file);
        send_signals(&child, &[name]);
        assert_eq!(wait_for_exit(&mut child).signal(), Some(number), "{name}");
        await_process_exit(git);
        assert_no_folder_is_left(&case);
    }
}

#[test]
fn links_in_the_temporary_folder_are_not_followed() {
    let case = CliFixture::empty();
    let honest = repository(&case, "honest");
    fs_err::create_dir_all(case.path("tmp")).expect("made");
    symlink(&honest, case.path("tmp/turnstone-git-link")).expect("linked");
    let started = serve(&case);
    let shown = answer(&started, &ask(&honest, "/vcs/status"));
    assert!(shown.starts_with("HTTP/1.0 200"), "{shown}");
    assert!(honest.join(".git/HEAD").exists() && honest.join("file").exists());
}
