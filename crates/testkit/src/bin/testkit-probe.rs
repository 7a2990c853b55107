//! A program under test for testkit's own tests: does to files exactly what its arguments say.
//!
//! `testkit-probe DIR STEP…`: a step is a word and its arguments, joined by colons; see [`Probe::run_step`].
//! Each `ack` is one line on standard output, written at once.

use std::{
    collections::HashMap,
    error::Error,
    io::{self, Write},
    os::unix::fs::FileExt,
    path::PathBuf,
    process::{Command, ExitCode},
    thread,
    time::Duration,
};

use fs_err as fs;
use rusqlite::Connection;

type StepResult = Result<(), Box<dyn Error + Send + Sync>>;

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let dir = PathBuf::from(args.next().unwrap_or_default());
    let mut probe = Probe { dir, files: HashMap::new() };
    for step in args {
        if let Err(error) = probe.run_step(&step) {
            // Nothing is left to do if standard error is closed.
            writeln!(io::stderr(), "{step}: {error}").ok();
            return ExitCode::from(1);
        }
    }
    ExitCode::SUCCESS
}

fn acknowledge(text: &str) -> io::Result<()> {
    // One write for one line: the text and its line feed.
    io::stdout().lock().write_all(format!("{text}\n").as_bytes())?;
    io::stdout().flush()
}

struct Probe {
    dir: PathBuf,
    files: HashMap<String, fs::File>,
}

impl Probe {
    fn run_step(&mut self, step: &str) -> StepResult {
        let parts: Vec<&str> = step.split(':').collect();
        match parts.as_slice() {
            ["open", name] => drop(self.open_file(name)?),
            ["write", name, offset, text] => {
                let offset = offset.parse()?;
                self.open_file(name)?.file().write_all_at(text.as_bytes(), offset)?;
            }
            ["fill", name, offset, len, byte] => {
                let data = byte.repeat(len.parse()?);
                let offset = offset.parse()?;
                self.open_file(name)?.file().write_all_at(data.as_bytes(), offset)?;
            }
            ["put", name, text] => self.open_file(name)?.write_all(text.as_bytes())?,
            ["append", name, text] => {
                let path = self.dir.join(name);
                fs::OpenOptions::new()
                    .append(true)
                    .create(true)
                    .open(path)?
                    .write_all(text.as_bytes())?;
            }
            ["replace", name, text] => fs::write(self.dir.join(name), text)?,
            ["truncate", name, len] => {
                let len = len.parse()?;
                self.open_file(name)?.set_len(len)?;
            }
            ["fsync", name] => self.open_file(name)?.sync_all()?,
            ["fdatasync", name] => self.open_file(name)?.sync_data()?,
            ["syncdir", name] => fs::File::open(self.dir.join(name))?.sync_all()?,
            ["ack", text] => acknowledge(text)?,
            _ => self.run_other_step(&parts)?,
        }
        Ok(())
    }

    fn run_other_step(&mut self, parts: &[&str]) -> StepResult {
        let dir = &self.dir;
        match parts {
            ["rename", from, to] => fs::rename(dir.join(from), dir.join(to))?,
            ["link", from, to] => fs::hard_link(dir.join(from), dir.join(to))?,
            ["copy", from, to] => drop(fs::copy(dir.join(from), dir.join(to))?),
            ["unlink", name] => fs::remove_file(dir.join(name))?,
            ["mkdir", name] => fs::create_dir(dir.join(name))?,
            ["rmtree", name] => fs::remove_dir_all(dir.join(name))?,
            ["await", name] => {
                while !dir.join(name).exists() {
                    thread::sleep(Duration::from_millis(5));
                }
            }
            ["sleep", ms] => thread::sleep(Duration::from_millis(ms.parse()?)),
            ["count", to, pause] => {
                let pause = Duration::from_millis(pause.parse()?);
                for number in 1..=to.parse::<u64>()? {
                    acknowledge(&number.to_string())?;
                    thread::sleep(pause);
                }
            }
            ["partial", text] => {
                io::stdout().write_all(text.as_bytes()).and_then(|()| io::stdout().flush())?
            }
            ["child", steps] => {
                let steps = steps.split(';').map(|step| step.replace(',', ":"));
                let status =
                    Command::new(std::env::current_exe()?).arg(dir).args(steps).status()?;
                if !status.success() {
                    return Err(format!("the child ended with {status}").into());
                }
            }
            ["threads", count, rounds] => self.write_in_threads(count.parse()?, rounds.parse()?)?,
            ["sqlite", name, rows, synchronous] => {
                self.commit_rows(name, rows.parse()?, synchronous)?
            }
            _ => return Err("no such step".into()),
        }
        Ok(())
    }

    fn open_file(&mut self, name: &str) -> io::Result<&mut fs::File> {
        if !self.files.contains_key(name) {
            let mut options = fs::OpenOptions::new();
            let path = self.dir.join(name);
            let file = options.read(true).write(true).create(true).truncate(false).open(path)?;
            self.files.insert(name.to_owned(), file);
        }
        self.files.get_mut(name).ok_or_else(|| io::Error::other("the file is gone"))
    }

    /// Threads write, sync and acknowledge at the same time, each in a file of its own.
    fn write_in_threads(&self, count: usize, rounds: usize) -> StepResult {
        let run = |thread: usize| -> StepResult {
            let path = self.dir.join(format!("thread-{thread}"));
            let mut file = fs::File::create(path)?;
            fs::File::open(&self.dir)?.sync_all()?;
            for round in 0..rounds {
                file.write_all(format!("{thread}.{round}\n").as_bytes())?;
                file.sync_data()?;
                acknowledge(&format!("{thread}.{round}"))?;
            }
            Ok(())
        };
        thread::scope(|scope| {
            let threads: Vec<_> =
                (0..count).map(|thread| scope.spawn(move || run(thread))).collect();
            threads
                .into_iter()
                .try_for_each(|thread| thread.join().map_err(|_| "a thread panicked")?)
        })
    }

    /// Commits rows one by one and acknowledges each.
    fn commit_rows(&self, name: &str, rows: i64, synchronous: &str) -> StepResult {
        let db = Connection::open(self.dir.join(name))?;
        db.pragma_update(None, "journal_mode", "WAL")?;
        db.pragma_update(None, "synchronous", synchronous)?;
        db.execute("CREATE TABLE IF NOT EXISTS item (id INTEGER PRIMARY KEY, body BLOB)", [])?;
        let mut insert = db.prepare("INSERT INTO item (body) VALUES (randomblob(400))")?;
        for _ in 0..rows {
            let id = insert.insert([])?;
            acknowledge(&id.to_string())?;
        }
        Ok(())
    }
}
