//! The few styles there are; each is a help, none carries a meaning of its own.

use std::fmt::Display;

use anstyle::{AnsiColor, Style};

/// Headings.
pub(crate) const HEAD: Style = Style::new().bold();
/// Names of things a person may type again.
pub(crate) const NAME: Style = AnsiColor::Cyan.on_default();
/// What was looked for.
pub(crate) const FOUND: Style = AnsiColor::Yellow.on_default().bold();
/// What can be skipped.
pub(crate) const DIM: Style = Style::new().dimmed();
/// What went well.
pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
/// What deserves a look.
pub(crate) const WARN: Style = AnsiColor::Yellow.on_default();
/// What went wrong.
pub(crate) const BAD: Style = AnsiColor::Red.on_default();

/// Text in a style.
pub(crate) fn paint(style: Style, text: impl Display) -> String {
    format!("{style}{text}{style:#}")
}
