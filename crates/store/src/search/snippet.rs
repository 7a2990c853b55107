//! Snippets: the stored text around the first match, with all matches in it marked.

use std::ops::Range;

use super::query_parser::Phrase;
use super::tokenizer::{is_word_match, split_camel_case, words};

/// Bytes shown before the first match, at most.
const BEFORE: usize = 60;
/// Bytes shown after its beginning, at most.
const AFTER: usize = 160;

/// A piece of a text, with what was found in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snippet {
    /// The text; line breaks and other control characters are blanks.
    pub text: String,
    /// The matches, as byte ranges of `text`, in order, without overlaps.
    pub matches: Vec<Range<usize>>,
}

/// Cuts the snippet of `text` for a query.
pub(super) fn cut_snippet(text: &str, phrases: &[Phrase]) -> Snippet {
    let first = first_match(text, phrases).unwrap_or(0..0);
    let window = snippet_range(text, &first);
    let piece = &text[window];
    Snippet { text: printable(piece), matches: matches(piece, phrases) }
}

/// A word of the text, and a word inside an identifier: phrases may match along either.
struct WordStreams {
    whole: Vec<Range<usize>>,
    subwords: Vec<Range<usize>>,
}

impl WordStreams {
    const fn new() -> Self {
        Self { whole: Vec::new(), subwords: Vec::new() }
    }

    fn push(&mut self, text: &str, word: &Range<usize>) {
        let inner = split_camel_case(&text[word.clone()]);
        self.subwords.extend(inner.into_iter().map(|r| word.start + r.start..word.start + r.end));
        self.whole.push(word.clone());
    }

    /// Matches that end with the newest word.
    fn match_ending(
        &self,
        text: &str,
        phrases: &[Phrase],
        humps_before: usize,
    ) -> Option<Range<usize>> {
        let whole =
            phrases.iter().filter_map(|p| phrase_ending_at(text, &self.whole, self.whole.len(), p));
        let inner = (humps_before + 1..=self.subwords.len()).flat_map(|end| {
            phrases.iter().filter_map(move |p| phrase_ending_at(text, &self.subwords, end, p))
        });
        whole.chain(inner).min_by_key(|r| (r.start, std::cmp::Reverse(r.end)))
    }
}

/// The range of `phrase` if its last word is word `end - 1` of the stream.
fn phrase_ending_at(
    text: &str,
    stream: &[Range<usize>],
    end: usize,
    phrase: &Phrase,
) -> Option<Range<usize>> {
    let start = end.checked_sub(phrase.words.len())?;
    let found = stream.get(start..end)?;
    let last = phrase.words.len().checked_sub(1)?;
    let same = found.iter().zip(&phrase.words).enumerate().all(|(i, (range, word))| {
        is_word_match(&text[range.clone()], word, phrase.prefix && i == last)
    });
    same.then(|| found[0].start..found[last].end)
}

fn first_match(text: &str, phrases: &[Phrase]) -> Option<Range<usize>> {
    let mut streams = WordStreams::new();
    words(text).find_map(|word| {
        let before = streams.subwords.len();
        streams.push(text, &word);
        streams.match_ending(text, phrases, before)
    })
}

fn matches(text: &str, phrases: &[Phrase]) -> Vec<Range<usize>> {
    let mut streams = WordStreams::new();
    let mut found: Vec<Range<usize>> = Vec::new();
    for word in words(text) {
        let before = streams.subwords.len();
        streams.push(text, &word);
        let Some(range) = streams.match_ending(text, phrases, before) else {
            continue;
        };
        while found.last().is_some_and(|last| last.start >= range.start) {
            found.pop();
        }
        match found.last_mut() {
            Some(last) if last.end > range.start => last.end = last.end.max(range.end),
            _ => found.push(range),
        }
    }
    found
}

/// The range to show: whole words around the match where there are blanks to cut at.
fn snippet_range(text: &str, found: &Range<usize>) -> Range<usize> {
    let mut start = text.floor_char_boundary(found.start.saturating_sub(BEFORE));
    if start > 0 {
        let blank = text[start..found.start].find(char::is_whitespace);
        start = blank.map_or(start, |at| text.ceil_char_boundary(start + at + 1));
    }
    let reach = found.end.max(found.start.saturating_add(AFTER));
    let mut end = text.ceil_char_boundary(reach.min(text.len()));
    if end < text.len() {
        let blank = text[found.end..end].rfind(char::is_whitespace);
        end = blank.filter(|at| *at > 0).map_or(end, |at| found.end + at);
    }
    start..end
}

/// Control characters become blanks of the same length, so that offsets hold.
fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() {
            out.extend(std::iter::repeat_n(' ', c.len_utf8()));
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::query_parser::parse_query;
    use super::*;

    fn marked(text: &str, query: &str) -> String {
        let snippet = cut_snippet(text, &parse_query(query).expect("a query"));
        let mut out = String::new();
        let mut at = 0;
        for range in &snippet.matches {
            out.push_str(&snippet.text[at..range.start]);
            out.push_str(&format!("[{}]", &snippet.text[range.clone()]));
            at = range.end;
        }
        out + &snippet.text[at..]
    }

    #[test]
    fn matches_ignore_case_and_diacritics() {
        assert_eq!(
            marked("Frau MÜLLER kam\nund ging", "muller und"),
            "Frau [MÜLLER] kam [und] ging"
        );
        assert_eq!(marked("to be or to BE", "\"to be\""), "[to be] or [to BE]");
        assert_eq!(marked("foo_bar foo bar", "foo_bar"), "[foo_bar] [foo bar]");
        assert_eq!(marked("the parseHTTPHeader", "http"), "the parse[HTTP]Header");
        assert_eq!(marked("the parseHTTPHeader", "parse_http"), "the [parseHTTP]Header");
        assert_eq!(marked("the parseHTTPHeader", "parseh*"), "the [parseHTTPHeader]");
        assert_eq!(marked("a \u{1b}[31mred", "nothing"), "a  [31mred");
    }

    #[test]
    fn snippet_is_short_and_cuts_at_words() {
        let text = format!("{}needle{}", "früh ".repeat(1000), " spät".repeat(1000));
        let snippet = cut_snippet(&text, &parse_query("needle").expect("a query"));
        assert!(snippet.text.len() <= BEFORE + AFTER + 10, "{}", snippet.text.len());
        assert!(snippet.text.starts_with("früh ") && snippet.text.ends_with(" spät"));
        let solid = "ä".repeat(100_000);
        assert!(cut_snippet(&solid, &parse_query("x").expect("a query")).text.len() <= AFTER + 4);
        assert!(cut_snippet(&solid, &parse_query("ä*x").expect("a query")).text.len() <= AFTER + 4);
    }
}
