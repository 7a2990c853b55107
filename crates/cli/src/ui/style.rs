//! The few styles there are; each is a help, none carries a meaning of its own.
//!
//! Styled text holds marks instead of escape sequences. A mark begins with a number that is drawn at
//! random in each process, so no file name, title or output can hold one.

use std::fmt::Display;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::LazyLock;

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

/// Every style, in the order of the letters of their marks.
const STYLES: [Style; 7] = [HEAD, NAME, FOUND, DIM, GOOD, WARN, BAD];
/// The letter of the mark that ends a style.
const END: char = 'z';

/// What every mark of this process begins with.
static MARK: LazyLock<String> = LazyLock::new(|| {
    let random = || RandomState::new().build_hasher().finish();
    format!("\u{fdd0}{:016x}{:016x}", random(), random())
});

/// A piece of styled text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Span<'a> {
    /// Text without a style of its own.
    Data(&'a str),
    /// A style begins.
    Style(Style),
    /// The style ends.
    Reset,
}

/// Text in a style.
pub(crate) fn paint(style: Style, text: impl Display) -> String {
    match letters().find(|(known, _)| *known == style) {
        Some((_, letter)) => format!("{mark}{letter}{text}{mark}{END}", mark = *MARK),
        None => text.to_string(),
    }
}

/// The output of this very program with its styles as marks; other escape sequences stay data.
pub(crate) fn adopt(output: &str) -> String {
    let reset = format!("{}", anstyle::Reset.render());
    let mut text = output.replace(&reset, &format!("{}{END}", *MARK));
    // A style of several sequences comes before those it begins with.
    let mut styles: Vec<(String, char)> =
        letters().map(|(style, letter)| (format!("{}", style.render()), letter)).collect();
    styles.sort_by_key(|(sequence, _)| std::cmp::Reverse(sequence.len()));
    for (sequence, letter) in styles {
        text = text.replace(&sequence, &format!("{}{letter}", *MARK));
    }
    text
}

fn letters() -> impl Iterator<Item = (Style, char)> {
    STYLES.into_iter().zip('a'..END)
}

/// The pieces of a styled text.
pub(super) fn spans(text: &str) -> Vec<Span<'_>> {
    let mut pieces = text.split(MARK.as_str());
    let mut spans = vec![Span::Data(pieces.next().unwrap_or_default())];
    for piece in pieces {
        let mut rest = piece.chars();
        let letter = rest.next();
        let style = letters().find(|(_, known)| Some(*known) == letter);
        spans.push(style.map_or(Span::Reset, |(style, _)| Span::Style(style)));
        spans.push(Span::Data(rest.as_str()));
    }
    spans.retain(|span| *span != Span::Data(""));
    spans
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn styled_text_splits_into_data_and_styles() {
        let text = format!("a {}c\u{1b}[1m", paint(BAD, "b"));
        let expected = [
            Span::Data("a "),
            Span::Style(BAD),
            Span::Data("b"),
            Span::Reset,
            Span::Data("c\u{1b}[1m"),
        ];
        assert_eq!(spans(&text), expected);
        assert!(!text.replace("\u{1b}[1m", "").contains('\u{1b}'), "marks hold no escape");
    }

    #[test]
    fn only_the_styles_of_this_program_are_adopted() {
        let output = format!("{FOUND}x{FOUND:#} {HEAD}y{HEAD:#} \u{1b}]0;z\u{7}\u{1b}[5m");
        let expected = [
            Span::Style(FOUND),
            Span::Data("x"),
            Span::Reset,
            Span::Data(" "),
            Span::Style(HEAD),
            Span::Data("y"),
            Span::Reset,
            Span::Data(" \u{1b}]0;z\u{7}\u{1b}[5m"),
        ];
        assert_eq!(spans(&adopt(&output)), expected);
    }
}
