//! The world of the headline test: a workspace on disk, and agents in processes of their own.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::rc::Rc;
use std::time::Duration;

use serde_json::Value;

use crate::model::{Disk, SLOTS, render};

pub(crate) type Fallible<T = ()> = Result<T, Box<dyn std::error::Error>>;

/// The budget of the snapshot store: room for every file once, and not for much more.
pub(crate) fn budget(dir: &Path) -> Fallible<u64> {
    Ok(fs_err::read_to_string(dir.join("budget"))?.parse()?)
}

/// Writes a file whole, or removes it: an editor that replaces, so that a kill tears nothing.
pub(crate) fn put(dir: &Path, path: &str, text: Option<&str>) -> Fallible {
    let at = dir.join("work").join(path);
    match text {
        Some(text) => {
            let aside = dir.join(format!("aside-{}", std::process::id()));
            fs_err::write(&aside, text)?;
            fs_err::create_dir_all(at.parent().ok_or("no parent")?)?;
            fs_err::rename(aside, at)?;
        }
        None => fs_err::remove_file(at)?,
    }
    Ok(())
}

/// Makes the workspace: no repository itself, two in it, one of them without a commit.
pub(crate) fn grow(dir: &Path, files: usize) -> Fallible<Disk> {
    let work = dir.join("work");
    fs_err::write(dir.join("budget"), (229 * files.max(2000) + 82_000).to_string())?;
    let mut disk = Disk::new();
    for number in 0..files {
        let folder = match number % 40 {
            0 => "nested/src".to_owned(),
            1 => "unborn".to_owned(),
            other => format!("d{other}/e{}", number % 7),
        };
        let end = if number % 10 == 9 { "bin" } else { "txt" };
        let path = format!("{folder}/f{number}.{end}");
        let body = Rc::new([number as u64; SLOTS]);
        fs_err::create_dir_all(work.join(folder))?;
        fs_err::write(work.join(&path), render(&path, &body))?;
        disk.insert(path, body);
    }
    git(&work.join("nested"), &["init", "-q"])?;
    git(&work.join("nested"), &["add", "."])?;
    git(&work.join("nested"), &["commit", "-q", "-m", "one"])?;
    git(&work.join("unborn"), &["init", "-q"])?;
    Ok(disk)
}

#[expect(clippy::disallowed_methods, reason = "git itself makes the repositories of tests")]
fn git(dir: &Path, words: &[&str]) -> Fallible {
    fs_err::create_dir_all(dir)?;
    let done = Command::new("git")
        .args(["-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"])
        .args(["-c", "gc.auto=0"])
        .args(words)
        .current_dir(dir)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .output()?;
    match done.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&done.stderr).into_owned().into()),
    }
}

/// Every file below a folder with its bytes, sorted; repositories' own files are left out.
pub(crate) fn read_tree(folder: &Path) -> Fallible<Vec<(PathBuf, Vec<u8>)>> {
    let (mut todo, mut found) = (vec![folder.to_owned()], Vec::new());
    while let Some(folder) = todo.pop() {
        for entry in fs_err::read_dir(folder)? {
            let path = entry?.path();
            match fs_err::symlink_metadata(&path)?.is_dir() {
                true if path.ends_with(".git") => {}
                true => todo.push(path),
                false => found.push((path.clone(), fs_err::read(path)?)),
            }
        }
    }
    found.sort();
    Ok(found)
}

/// An agent in a process of its own.
pub(crate) struct AgentProcess {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl AgentProcess {
    /// Starts one; what it found in the database after recovery is its first answer.
    pub(crate) fn start(program: &Path, dir: &Path, session: &str) -> Fallible<(Self, Value)> {
        #[expect(clippy::disallowed_methods, reason = "the program under test")]
        let mut child = Command::new(program)
            .args(["worker".as_ref(), dir.as_os_str(), session.as_ref()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let input = child.stdin.take().ok_or("no input")?;
        let output = BufReader::new(child.stdout.take().ok_or("no output")?);
        let mut agent = Self { child, input, output };
        let facts = agent.answer()?.map_err(|error| format!("a start failed: {error}"))?;
        Ok((agent, facts))
    }

    fn answer(&mut self) -> Fallible<Result<Value, String>> {
        let mut line = String::new();
        if self.output.read_line(&mut line)? == 0 {
            return Err("the agent ended without an answer".into());
        }
        let mut answer: Value = serde_json::from_str(&line)?;
        match answer.get("error").and_then(Value::as_str) {
            Some(error) => Ok(Err(error.to_owned())),
            None => Ok(Ok(answer["ok"].take())),
        }
    }

    fn send(&mut self, order: &Value) -> Fallible {
        self.input.write_all(format!("{order}\n").as_bytes())?;
        Ok(self.input.flush()?)
    }

    /// Gives an order and waits for the answer.
    pub(crate) fn ask(&mut self, order: &Value) -> Fallible<Result<Value, String>> {
        self.send(order)?;
        self.answer()
    }

    /// Gives an order and kills the process while it may be at it.
    pub(crate) fn die_at(mut self, order: Option<&Value>, after: Duration) -> Fallible {
        if let Some(order) = order {
            self.send(order)?;
            std::thread::sleep(after);
        }
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}
