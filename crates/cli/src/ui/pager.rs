//! The pager on a terminal: which program it is, and the output that starts it.

use std::cell::RefCell;
use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::path::Path;
use std::rc::Rc;

use turnstone_process::{CommandEnvironment, CommandSpec, Pager};
use turnstone_server::PASSWORD_VARIABLES;

use crate::environment::StartupEnvironment;

/// The pager if the user has chosen none.
const DEFAULT_PAGER: &str = "less -FRX";
/// Characters that only a shell understands.
const SHELL_CHARACTERS: &[char] =
    &['|', '&', ';', '<', '>', '(', ')', '$', '`', '\\', '"', '\'', '*', '?', '[', '#', '~', '='];

/// The pager of the user: `TURNSTONE_PAGER`, else `PAGER`, else `less`. `None` if there is none, or if the user has
/// chosen an empty one or `cat`.
pub(super) fn find_pager(environment: &StartupEnvironment) -> Option<CommandSpec> {
    let named = |name: &str| {
        let mut all = environment.variables.iter();
        all.find(|(key, _)| key == OsStr::new(name)).and_then(|(_, value)| value.to_str())
    };
    let line = named("TURNSTONE_PAGER").or_else(|| named("PAGER")).unwrap_or(DEFAULT_PAGER).trim();
    if line.is_empty() || line == "cat" || named("TERM") == Some("dumb") {
        return None;
    }
    let mut env =
        CommandEnvironment::without(environment.variables.iter().cloned(), &PASSWORD_VARIABLES);
    // Colours are shown, and one page of output needs no key, unless the user has decided otherwise.
    for (name, value) in [("LESS", "FRX"), ("LV", "-c")] {
        if named(name).is_none() {
            env = env.with(name, value);
        }
    }
    let words: Vec<OsString> = match line.contains(SHELL_CHARACTERS) {
        true => ["/bin/sh", "-c", line].map(OsString::from).to_vec(),
        false => line.split_whitespace().map(OsString::from).collect(),
    };
    let (program, args) = words.split_first()?;
    let directory = environment.directory.as_deref().unwrap_or(Path::new("/"));
    let spec = CommandSpec::new(program, directory).args(args).env(env);
    // The directory is often a repository, and a repository chooses no pager.
    let spec = spec.without_relative_folders();
    spec.check_startable().is_ok().then_some(spec)
}

/// Standard output through a pager that starts with the first byte. Clones share the pager.
#[derive(Clone)]
pub(super) struct PagedOutput {
    spec: Rc<CommandSpec>,
    state: Rc<RefCell<PagerState>>,
}

enum PagerState {
    NotStarted,
    Running(Pager),
    Ended,
}

impl PagedOutput {
    pub(super) fn new(spec: CommandSpec) -> Self {
        Self { spec: Rc::new(spec), state: Rc::new(RefCell::new(PagerState::NotStarted)) }
    }

    /// Waits until the reader has closed the pager.
    pub(super) fn finish(&self) {
        // Dropping a running pager waits for it.
        drop(self.state.replace(PagerState::Ended));
    }
}

impl Write for PagedOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.state.borrow_mut();
        if let PagerState::NotStarted = *state
            && !bytes.is_empty()
        {
            *state = PagerState::Running(Pager::start(&self.spec)?);
        }
        match &mut *state {
            PagerState::Running(pager) => pager.write(bytes),
            PagerState::NotStarted => Ok(0),
            PagerState::Ended => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
