//! Reading a secret: from a terminal without showing it, or from a pipe.

use std::io::{self, BufRead, IsTerminal, Read};

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

/// Switches the echo of the terminal on standard input off until it is dropped.
struct HiddenInput {
    before: Termios,
}

impl HiddenInput {
    fn start() -> io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let mut hidden = before.clone();
        hidden.local_modes.remove(LocalModes::ECHO);
        hidden.local_modes.insert(LocalModes::ECHONL);
        tcsetattr(io::stdin(), OptionalActions::Flush, &hidden)?;
        Ok(Self { before })
    }
}

impl Drop for HiddenInput {
    fn drop(&mut self) {
        if let Err(error) = tcsetattr(io::stdin(), OptionalActions::Flush, &self.before) {
            tracing::debug!("the terminal could not be restored: {error}");
        }
    }
}

/// True if a person would have to type the secret.
pub(super) fn is_typed() -> bool {
    io::stdin().is_terminal()
}

/// Reads a secret of at most `limit` bytes: one line from a terminal, everything from a pipe.
///
/// # Errors
///
/// Standard input cannot be read, is too long, or is no text.
pub(super) fn read_secret(limit: usize) -> io::Result<String> {
    let mut bytes = Vec::new();
    let limit = limit as u64 + 1;
    if is_typed() {
        let _hidden = HiddenInput::start()?;
        io::stdin().lock().take(limit).read_until(b'\n', &mut bytes)?;
    } else {
        io::stdin().lock().take(limit).read_to_end(&mut bytes)?;
    }
    if bytes.len() as u64 >= limit {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it is too long"));
    }
    String::from_utf8(bytes)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not text"))
}
