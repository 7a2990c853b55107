//! A line that turns while a command waits, and is gone when it prints.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::Ui;
use crate::text;

/// A spinner on stderr; without a terminal it shows nothing.
pub(crate) struct ActivitySpinner {
    is_terminal: bool,
    bar: Option<ProgressBar>,
}

impl ActivitySpinner {
    /// A spinner that shows nothing yet.
    pub(crate) fn new(ui: &Ui) -> Self {
        Self { is_terminal: ui.is_stderr_terminal(), bar: None }
    }

    /// Shows the spinner one step on.
    pub(crate) fn tick(&mut self, activity: &str) {
        if !self.is_terminal {
            return;
        }
        let bar = self.bar.get_or_insert_with(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            match ProgressStyle::with_template("{spinner} {msg} ({elapsed})") {
                Ok(style) => bar.with_style(style),
                Err(_) => bar,
            }
        });
        bar.set_message(text::sanitize_line(activity));
        bar.tick();
    }

    /// Removes the spinner from the terminal.
    pub(crate) fn clear(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}
