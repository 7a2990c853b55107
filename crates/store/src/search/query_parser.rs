//! What a user asks for: words, "phrases" and prefix*, all of them required.
//!
//! The expression handed to FTS5 is built of our own words only, each quoted: what is not a letter
//! or a digit never gets there (R44).

use super::tokenizer::{fold_word, words};
use crate::error::{Result, StoreError};
use crate::table_row_ids::SessionNum;

/// The longest query, in bytes.
const MAX_QUERY: usize = 4096;
/// The most words in a query.
const MAX_WORDS: usize = 64;

/// Words that must follow each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Phrase {
    /// The words as they were typed.
    typed: Vec<String>,
    /// The words without case and diacritics.
    pub(super) words: Vec<String>,
    /// The last word is only the beginning of one.
    pub(super) prefix: bool,
}

/// Reads a query.
///
/// Whatever is not a word separates words; a quotation mark that is never closed reaches to the end.
pub(super) fn parse_query(query: &str) -> Result<Vec<Phrase>> {
    if query.len() > MAX_QUERY {
        return Err(StoreError::Invalid(format!("a query has at most {MAX_QUERY} bytes")));
    }
    let mut phrases = Vec::new();
    let mut rest = query;
    while let Some(c) = rest.chars().next() {
        if c == '"' {
            let body = &rest[1..];
            let end = body.find('"').unwrap_or(body.len());
            let after = body.get(end + 1..).unwrap_or("");
            phrases.extend(parse_phrase(&body[..end], after.starts_with('*')));
            rest = after;
        } else if is_space(c) {
            rest = &rest[c.len_utf8()..];
        } else {
            let end = rest.find(|c| is_space(c) || c == '"').unwrap_or(rest.len());
            phrases.extend(parse_phrase(&rest[..end], rest[..end].ends_with('*')));
            rest = &rest[end..];
        }
    }
    match phrases.iter().map(|p| p.words.len()).sum() {
        0 => Err(StoreError::Invalid("the query has no word to search for".to_owned())),
        1..=MAX_WORDS => Ok(phrases),
        _ => Err(StoreError::Invalid(format!("a query has at most {MAX_WORDS} words"))),
    }
}

fn is_space(c: char) -> bool {
    c.is_whitespace() || c.is_control()
}

/// A prefix of one ASCII letter would match half of everything: it is taken as a word.
fn parse_phrase(text: &str, prefix: bool) -> Option<Phrase> {
    let typed: Vec<String> = words(text).map(|r| text[r].to_owned()).collect();
    let prefix = prefix && typed.last()?.len() > 1;
    let folded = typed.iter().map(|word| fold_word(word)).collect();
    (!typed.is_empty()).then_some(Phrase { typed, words: folded, prefix })
}

/// The query as an FTS5 expression, narrowed to one session and to kinds.
pub(super) fn fts_expression(
    phrases: &[Phrase],
    session: Option<SessionNum>,
    kinds: &[i64],
) -> String {
    let list: Vec<String> = phrases
        .iter()
        .map(|phrase| {
            let star = if phrase.prefix { " *" } else { "" };
            format!("{}{star}", quoted(&phrase.typed.join(" ")))
        })
        .collect();
    let mut all = format!("{{body camel}} : ({})", list.join(" AND "));
    if let Some(session) = session {
        all.push_str(&format!(" AND scope : {}", quoted(&session_term(session))));
    }
    if !kinds.is_empty() {
        let kinds: Vec<String> = kinds.iter().map(|kind| quoted(&kind_term(*kind))).collect();
        all.push_str(&format!(" AND scope : ({})", kinds.join(" OR ")));
    }
    all
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
}

fn session_term(session: SessionNum) -> String {
    format!("s{session}")
}

fn kind_term(kind: i64) -> String {
    format!("k{kind}")
}

/// The words by which the index narrows to a session and a kind.
pub(super) fn scope_terms(session: SessionNum, kind: i64) -> String {
    format!("{} {}", session_term(session), kind_term(kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expr(query: &str) -> String {
        fts_expression(&parse_query(query).expect("a query"), None, &[])
    }

    #[test]
    fn words_phrases_and_prefixes_are_quoted() {
        assert_eq!(expr("foo bar"), r#"{body camel} : ("foo" AND "bar")"#);
        assert_eq!(expr(r#""foo bar" ba*"#), r#"{body camel} : ("foo bar" AND "ba" *)"#);
        assert_eq!(expr("src/foo_bar.rs"), r#"{body camel} : ("src foo bar rs")"#);
        assert_eq!(expr(r#""to be"*"#), r#"{body camel} : ("to be" *)"#);
        let phrases = parse_query("x").expect("a query");
        assert_eq!(
            fts_expression(&phrases, Some(SessionNum(7)), &[1, 2]),
            r#"{body camel} : ("x") AND scope : "s7" AND scope : ("k1" OR "k2")"#
        );
    }

    #[test]
    fn fts_operators_are_treated_as_words() {
        assert_eq!(expr(r#"" OR 1"#), r#"{body camel} : ("OR 1")"#);
        assert_eq!(expr("NEAR(a b)"), r#"{body camel} : ("NEAR a" AND "b")"#);
        assert_eq!(
            expr("col:x ^y -z +w {a}"),
            r#"{body camel} : ("col x" AND "y" AND "z" AND "w" AND "a")"#
        );
        assert_eq!(expr("a\0b a*"), r#"{body camel} : ("a" AND "b" AND "a")"#);
    }

    #[test]
    fn empty_and_oversized_queries_are_rejected() {
        for bad in ["", " ", "*", "\"\"", "🙂", "(){}:^-+", "\0\0", "\"", "***"] {
            assert!(matches!(parse_query(bad), Err(StoreError::Invalid(_))), "{bad:?}");
        }
        assert!(matches!(parse_query(&"x ".repeat(65)), Err(StoreError::Invalid(_))));
        assert!(matches!(parse_query(&"x".repeat(1 << 20)), Err(StoreError::Invalid(_))));
    }
}
