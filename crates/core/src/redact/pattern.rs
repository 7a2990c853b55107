//! Regular expressions of this module, and replacement by them.

use std::ops::Range;
use std::sync::LazyLock;

use regex_automata::meta::Regex;
use regex_automata::util::captures::Captures;

use super::REDACTED;

/// One regular expression, compiled when it is first used.
pub(super) type Pattern = LazyLock<Option<Regex>>;

/// Compiles a constant expression; a test compiles all of them.
pub(super) fn compile(expression: &str) -> Option<Regex> {
    Regex::new(expression).ok()
}

/// The text with the ranges hidden that `choose` names for each match.
///
/// A pattern that does not compile hides the whole text: what was not examined is not shown.
pub(super) fn hide(
    text: &str,
    pattern: &Pattern,
    choose: impl Fn(&Match<'_>) -> Option<Range<usize>>,
) -> String {
    replace(text, pattern, |found| Some((choose(found)?, REDACTED.to_owned())))
}

/// The text with the ranges replaced that `choose` names for each match.
pub(super) fn replace(
    text: &str,
    pattern: &Pattern,
    choose: impl Fn(&Match<'_>) -> Option<(Range<usize>, String)>,
) -> String {
    let Some(regex) = &**pattern else { return REDACTED.to_owned() };
    let mut shown = String::with_capacity(text.len());
    let mut copied = 0;
    for captures in regex.captures_iter(text) {
        let Some((range, with)) = choose(&Match { text, captures: &captures }) else { continue };
        // A value may reach beyond its match and into the next one.
        if range.start < copied {
            continue;
        }
        shown.push_str(&text[copied..range.start]);
        shown.push_str(&with);
        copied = range.end;
    }
    shown.push_str(&text[copied..]);
    shown
}

/// One match of a pattern in a text.
pub(super) struct Match<'m> {
    text: &'m str,
    captures: &'m Captures,
}

impl<'m> Match<'m> {
    /// The range of a group; nothing if the group did not take part.
    pub(super) fn range(&self, group: usize) -> Option<Range<usize>> {
        self.captures.get_group(group).map(|span| span.range())
    }

    /// The text of a group; empty if the group did not take part.
    pub(super) fn group(&self, group: usize) -> &'m str {
        self.range(group).map_or("", |range| &self.text[range])
    }
}
