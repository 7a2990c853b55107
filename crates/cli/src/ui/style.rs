//! Text styles. Output is complete without them.
//!
//! Styled text contains marks instead of escape sequences. A mark starts with a number that is random per
//! process, so that no file name, title or output can contain one.

use std::fmt::Display;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::LazyLock;

use anstyle::{AnsiColor, Style};

/// Headings.
pub(crate) const HEADING_STYLE: Style = Style::new().bold();
/// IDs.
pub(crate) const ID_STYLE: Style = AnsiColor::Cyan.on_default();
/// Search matches.
pub(crate) const MATCH_STYLE: Style = AnsiColor::Yellow.on_default().bold();
/// Secondary text.
pub(crate) const DIM_STYLE: Style = Style::new().dimmed();
/// Success.
pub(crate) const SUCCESS_STYLE: Style = AnsiColor::Green.on_default();
/// Warnings.
pub(crate) const WARNING_STYLE: Style = AnsiColor::Yellow.on_default();
/// Errors.
pub(crate) const ERROR_STYLE: Style = AnsiColor::Red.on_default();

/// All styles, in the order of their mark letters.
const STYLES: [Style; 7] =
    [HEADING_STYLE, ID_STYLE, MATCH_STYLE, DIM_STYLE, SUCCESS_STYLE, WARNING_STYLE, ERROR_STYLE];
/// The letter of the mark that ends a style.
const END_LETTER: char = 'z';

/// Prefix of all marks of this process.
static MARK_PREFIX: LazyLock<String> = LazyLock::new(|| {
    let random = || RandomState::new().build_hasher().finish();
    format!("\u{fdd0}{:016x}{:016x}", random(), random())
});

/// A piece of styled text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StyledSpan<'a> {
    /// Text without a style of its own.
    Data(&'a str),
    /// A style begins.
    Style(Style),
    /// The style ends.
    Reset,
}

/// Text in a style.
pub(crate) fn apply_style(style: Style, text: impl Display) -> String {
    match style_letters().find(|(known, _)| *known == style) {
        Some((_, letter)) => format!("{mark}{letter}{text}{mark}{END_LETTER}", mark = *MARK_PREFIX),
        None => text.to_string(),
    }
}

/// Converts ANSI styles in output of this program back to marks; other escape sequences stay data.
pub(crate) fn restore_style_marks(output: &str) -> String {
    let reset = format!("{}", anstyle::Reset.render());
    let mut text = output.replace(&reset, &format!("{}{END_LETTER}", *MARK_PREFIX));
    // Longer sequences first: a style may start with the sequence of another.
    let mut styles: Vec<(String, char)> =
        style_letters().map(|(style, letter)| (format!("{}", style.render()), letter)).collect();
    styles.sort_by_key(|(sequence, _)| std::cmp::Reverse(sequence.len()));
    for (sequence, letter) in styles {
        text = text.replace(&sequence, &format!("{}{letter}", *MARK_PREFIX));
    }
    text
}

fn style_letters() -> impl Iterator<Item = (Style, char)> {
    STYLES.into_iter().zip('a'..END_LETTER)
}

/// The pieces of a styled text.
pub(super) fn split_spans(text: &str) -> Vec<StyledSpan<'_>> {
    let mut pieces = text.split(MARK_PREFIX.as_str());
    let mut spans = vec![StyledSpan::Data(pieces.next().unwrap_or_default())];
    for piece in pieces {
        let mut rest = piece.chars();
        let letter = rest.next();
        let style = style_letters().find(|(_, known)| Some(*known) == letter);
        spans.push(style.map_or(StyledSpan::Reset, |(style, _)| StyledSpan::Style(style)));
        spans.push(StyledSpan::Data(rest.as_str()));
    }
    spans.retain(|span| *span != StyledSpan::Data(""));
    spans
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn styled_text_splits_into_data_and_styles() {
        let text = format!("a {}c\u{1b}[1m", apply_style(ERROR_STYLE, "b"));
        let expected = [
            StyledSpan::Data("a "),
            StyledSpan::Style(ERROR_STYLE),
            StyledSpan::Data("b"),
            StyledSpan::Reset,
            StyledSpan::Data("c\u{1b}[1m"),
        ];
        assert_eq!(split_spans(&text), expected);
        assert!(!text.replace("\u{1b}[1m", "").contains('\u{1b}'), "marks hold no escape");
    }

    #[test]
    fn only_known_styles_are_converted_to_marks() {
        let output = format!(
            "{MATCH_STYLE}x{MATCH_STYLE:#} {HEADING_STYLE}y{HEADING_STYLE:#} \u{1b}]0;z\u{7}\u{1b}[5m"
        );
        let expected = [
            StyledSpan::Style(MATCH_STYLE),
            StyledSpan::Data("x"),
            StyledSpan::Reset,
            StyledSpan::Data(" "),
            StyledSpan::Style(HEADING_STYLE),
            StyledSpan::Data("y"),
            StyledSpan::Reset,
            StyledSpan::Data(" \u{1b}]0;z\u{7}\u{1b}[5m"),
        ];
        assert_eq!(split_spans(&restore_style_marks(&output)), expected);
    }
}
