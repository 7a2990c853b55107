//! The pieces of an HTML page, however broken it is.

use super::entity::decode_entities;

/// Elements whose content is no text of the page.
const HIDDEN_ELEMENTS: [&str; 10] = [
    "script", "style", "noscript", "template", "iframe", "object", "svg", "canvas", "textarea",
    "title",
];

/// A piece of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum HtmlToken {
    /// Text, with references decoded.
    Text(String),
    /// An element begins: its name in lower case, and the attributes that matter.
    Open { name: String, href: Option<String>, src: Option<String>, alt: Option<String> },
    /// An element ends.
    Close(String),
}

/// Reads the pieces of a page in order.
pub(super) struct HtmlTokens<'h> {
    rest: &'h str,
}

impl<'h> HtmlTokens<'h> {
    pub(super) const fn new(html: &'h str) -> Self {
        Self { rest: html }
    }

    /// Passes over everything up to and including `end`; to the end of the page if it is missing.
    fn skip_past(&mut self, end: &str) {
        let at = self.rest.find(end).map_or(self.rest.len(), |at| at + end.len());
        self.rest = self.rest.get(at..).unwrap_or_default();
    }

    /// Passes over the content of an element that is no text.
    fn skip_content(&mut self, name: &str) {
        let mut from = 0;
        while let Some(at) = self.rest.get(from..).and_then(|rest| rest.find("</")) {
            let start = from + at + 2;
            let found = self.rest.get(start..start + name.len());
            if found.is_some_and(|found| found.eq_ignore_ascii_case(name)) {
                self.rest = self.rest.get(start..).unwrap_or_default();
                self.skip_past(">");
                return;
            }
            from = start;
        }
        self.rest = "";
    }

    /// Reads a tag behind its `<`.
    fn read_tag(&mut self) -> Option<HtmlToken> {
        let end = tag_end(self.rest);
        let tag = self.rest.get(..end).unwrap_or_default();
        self.rest = self.rest.get(end + 1..).unwrap_or_default();
        if let Some(name) = tag.strip_prefix('/') {
            return Some(HtmlToken::Close(tag_name(name)));
        }
        let name = tag_name(tag);
        if HIDDEN_ELEMENTS.contains(&name.as_str()) {
            if !tag.ends_with('/') {
                self.skip_content(&name);
            }
            return None;
        }
        let (mut href, mut src, mut alt) = (None, None, None);
        for (key, value) in read_attributes(tag.get(name.len()..).unwrap_or_default()) {
            match key.as_str() {
                "href" => href = Some(value),
                "src" => src = Some(value),
                "alt" => alt = Some(value),
                _ => {}
            }
        }
        Some(HtmlToken::Open { name, href, src, alt })
    }
}

impl Iterator for HtmlTokens<'_> {
    type Item = HtmlToken;

    fn next(&mut self) -> Option<HtmlToken> {
        while !self.rest.is_empty() {
            let Some(after) = self.rest.strip_prefix('<') else {
                let end = self.rest.find('<').unwrap_or(self.rest.len());
                let (text, rest) = self.rest.split_at(end);
                self.rest = rest;
                return Some(HtmlToken::Text(decode_entities(text)));
            };
            if after.starts_with("!--") {
                self.skip_past("-->");
            } else if after.starts_with(['!', '?']) {
                self.skip_past(">");
            } else if after.trim_start_matches('/').starts_with(|it: char| it.is_ascii_alphabetic())
            {
                self.rest = after;
                if let Some(token) = self.read_tag() {
                    return Some(token);
                }
            } else {
                self.rest = after;
                return Some(HtmlToken::Text("<".to_owned()));
            }
        }
        None
    }
}

/// Returns where the `>` of a tag is, outside of quotes.
fn tag_end(text: &str) -> usize {
    let mut quote = None;
    for (at, byte) in text.bytes().enumerate() {
        match (quote, byte) {
            (None, b'>') => return at,
            (None, b'"' | b'\'') => quote = Some(byte),
            (Some(open), byte) if open == byte => quote = None,
            _ => {}
        }
    }
    // A quote that is never closed ends with the tag.
    text.find('>').unwrap_or(text.len())
}

fn tag_name(tag: &str) -> String {
    let end =
        tag.find(|it: char| it.is_whitespace() || it == '/' || it == '>').unwrap_or(tag.len());
    tag.get(..end).unwrap_or_default().to_ascii_lowercase()
}

fn read_attributes(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches(|it: char| it.is_whitespace() || it == '/');
        if rest.is_empty() {
            return found;
        }
        let end = rest
            .find(|it: char| it.is_whitespace() || it == '=' || it == '/')
            .unwrap_or(rest.len());
        let (name, after) = rest.split_at(end.max(1).min(rest.len()));
        let after = after.trim_start();
        let Some(value) = after.strip_prefix('=') else {
            rest = after;
            continue;
        };
        let value = value.trim_start();
        let quote = value.chars().next().filter(|it| *it == '"' || *it == '\'');
        let (value, after) = match quote {
            Some(quote) => {
                let value = value.get(1..).unwrap_or_default();
                value.split_once(quote).unwrap_or((value, ""))
            }
            None => value.split_at(value.find(char::is_whitespace).unwrap_or(value.len())),
        };
        found.push((name.to_ascii_lowercase(), decode_entities(value)));
        rest = after;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tokens(html: &str) -> Vec<HtmlToken> {
        HtmlTokens::new(html).collect()
    }

    #[test]
    fn scripts_styles_and_comments_are_no_text() {
        let html = "<!DOCTYPE html><script>if (a<b) '</p>'</SCRIPT><style>p{}</style>\
                    <!-- <p> --><p class='a>b'>x</p>";
        let open = HtmlToken::Open { name: "p".to_owned(), href: None, src: None, alt: None };
        let text = HtmlToken::Text("x".to_owned());
        assert_eq!(tokens(html), [open, text, HtmlToken::Close("p".to_owned())]);
        assert_eq!(tokens("<script>never closed"), []);
    }

    #[test]
    fn attributes_are_read_with_any_quotes() {
        for html in ["<a href=\"/x&amp;y\">", "<a HREF='/x&y' b>", "<a\n b c=d href=/x&y>"] {
            let href = Some("/x&y".to_owned());
            let open = HtmlToken::Open { name: "a".to_owned(), href, src: None, alt: None };
            assert_eq!(tokens(html), [open], "{html}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_to_its_end(html in "[<>/!\"'=a &;#\\-äp]{0,60}") {
            prop_assert!(HtmlTokens::new(&html).count() <= html.len());
        }
    }
}
