//! Rust source as a flat list of tokens that know their line and their group.
//!
//! The rules look at tokens, not at a syntax tree: a token list also shows what stands inside the
//! arguments of a macro, and never what stands in a comment or a string.

use std::ops::RangeInclusive;
use std::str::FromStr;

use proc_macro2::{Delimiter, LexError, TokenStream, TokenTree};

/// One token; a group is an opening and a closing token with the content between them.
pub(crate) struct Token {
    /// The token as written: `fn`, `:`, `(`, `"text"`.
    pub(crate) text: String,
    pub(crate) line: usize,
    pub(crate) literal: bool,
    /// Index of the opening token of the group around this token.
    pub(crate) parent: Option<usize>,
    /// Of an opening token: index of its closing token; of any other token: its own index.
    pub(crate) close: usize,
}

/// An attribute, `#[…]` or `#![…]`: the indices of its `#` and of its brackets.
pub(crate) struct Attribute {
    pub(crate) start: usize,
    pub(crate) open: usize,
    pub(crate) close: usize,
    pub(crate) inner: bool,
}

/// The tokens of one file, and which of them are compiled for tests only.
pub(crate) struct TokenizedSource {
    pub(crate) tokens: Vec<Token>,
    tests: Vec<RangeInclusive<usize>>,
}

impl TokenizedSource {
    /// Splits `text` into tokens.
    ///
    /// # Errors
    ///
    /// [`LexError`] when `text` is not made of Rust tokens.
    pub(crate) fn parse(text: &str) -> Result<Self, LexError> {
        let mut tokens = Vec::new();
        flatten(TokenStream::from_str(text)?, None, &mut tokens);
        let mut code = Self { tokens, tests: Vec::new() };
        let marked: Vec<_> =
            code.attributes().filter(|attribute| code.marks_test(attribute)).collect();
        code.tests =
            marked.iter().map(|attribute| attribute.start..=code.end_of_item(attribute)).collect();
        Ok(code)
    }

    /// Returns the text of the token at `index`, or nothing behind the last one.
    pub(crate) fn text(&self, index: usize) -> &str {
        self.tokens.get(index).map_or("", |token| token.text.as_str())
    }

    /// Returns the text of the token `back` places before `index`, or nothing before the first.
    pub(crate) fn text_before(&self, index: usize, back: usize) -> &str {
        index.checked_sub(back).map_or("", |index| self.text(index))
    }

    /// Tells whether the tokens from `index` on read as `pattern`.
    pub(crate) fn matches_at(&self, index: usize, pattern: &[&str]) -> bool {
        pattern.iter().enumerate().all(|(offset, text)| self.text(index + offset) == *text)
    }

    /// Tells whether the token at `index` is compiled for tests only.
    pub(crate) fn is_in_test(&self, index: usize) -> bool {
        self.tests.iter().any(|range| range.contains(&index))
    }

    /// Lists the attributes in the order of the text, those inside macro arguments too.
    pub(crate) fn attributes(&self) -> impl Iterator<Item = Attribute> {
        (0..self.tokens.len()).filter_map(|start| {
            let inner = self.matches_at(start, &["#", "!", "["]);
            let open = if inner { start + 2 } else { start + 1 };
            let opens = self.text(start) == "#" && self.text(open) == "[";
            opens.then(|| Attribute { start, open, close: self.tokens[open].close, inner })
        })
    }

    /// Returns the path of an attribute, `tokio::test` for `#[tokio::test(flavor = "…")]`.
    pub(crate) fn path(&self, attribute: &Attribute) -> String {
        (attribute.open + 1..attribute.close)
            .map(|index| self.text(index))
            .take_while(|text| *text != "(" && *text != "=")
            .collect()
    }

    /// Tells whether an attribute makes the function behind it a test.
    pub(crate) fn is_test_attribute(&self, attribute: &Attribute) -> bool {
        let path = self.path(attribute);
        path == "test" || path.ends_with("::test")
    }

    /// Counts the lines that are compiled for tests only.
    pub(crate) fn test_lines(&self) -> usize {
        let mut counted = 0;
        let mut last = 0;
        for range in &self.tests {
            let first = self.tokens[*range.start()].line.max(last + 1);
            let end = self.tokens[*range.end()].line;
            if end >= first {
                counted += end + 1 - first;
                last = end;
            }
        }
        counted
    }

    /// Lists the modules that are declared for tests only and live in a file of their own.
    pub(crate) fn test_modules(&self) -> Vec<&str> {
        self.tests
            .iter()
            .flat_map(Clone::clone)
            .filter(|index| self.text(*index) == "mod" && self.text(index + 2) == ";")
            .map(|index| self.text(index + 1))
            .collect()
    }

    fn marks_test(&self, attribute: &Attribute) -> bool {
        let positive = |index| self.text(index) == "test" && self.text_before(index, 2) != "not";
        self.is_test_attribute(attribute)
            || (self.path(attribute) == "cfg" && (attribute.open..attribute.close).any(positive))
    }

    /// Returns the last token of the item behind an attribute; the whole rest for an inner one.
    fn end_of_item(&self, attribute: &Attribute) -> usize {
        let last = match self.tokens[attribute.start].parent {
            Some(parent) => self.tokens[parent].close - 1,
            None => self.tokens.len() - 1,
        };
        if attribute.inner {
            return last;
        }
        let mut index = attribute.close + 1;
        while index < last {
            match self.text(index) {
                "{" | ";" => return self.tokens[index].close,
                _ => index = self.tokens[index].close + 1,
            }
        }
        last
    }
}

fn flatten(stream: TokenStream, parent: Option<usize>, tokens: &mut Vec<Token>) {
    for tree in stream {
        let own = tokens.len();
        let line = tree.span().start().line;
        let mut push = |text: String, line, literal, close| {
            tokens.push(Token { text, line, literal, parent, close });
        };
        match tree {
            TokenTree::Ident(ident) => push(ident.to_string(), line, false, own),
            TokenTree::Punct(punct) => push(punct.as_char().to_string(), line, false, own),
            TokenTree::Literal(literal) => push(literal.to_string(), line, true, own),
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::None => ("", ""),
                };
                push(open.to_owned(), line, false, own);
                flatten(group.stream(), Some(own), tokens);
                let end = tokens.len();
                tokens[own].close = end;
                let line = group.span_close().start().line;
                let text = close.to_owned();
                tokens.push(Token { text, line, literal: false, parent, close: end });
            }
        }
    }
}

#[test]
fn code_for_tests_is_told_from_shipped_code() -> Result<(), LexError> {
    let code = TokenizedSource::parse(
        "fn shipped() { one(); }\n\
         #[cfg(not(test))]\nfn shipped_too() { two(); }\n\
         #[cfg(all(test, unix))]\nmod tests {\n    fn fixture() { three(); }\n}\n\
         proptest! { #[test] fn property() { four(); } }\n\
         fn last() { five(); }\n\
         #[cfg(test)]\nmod elsewhere;\n",
    )?;
    let in_test = |name: &str| {
        let index = code.tokens.iter().position(|token| token.text == name);
        index.map(|index| code.is_in_test(index))
    };

    assert_eq!(["one", "two", "five"].map(in_test), [Some(false); 3]);
    assert_eq!(["three", "four"].map(in_test), [Some(true); 2]);
    assert_eq!(code.test_lines(), 4 + 1 + 2);
    assert_eq!(code.test_modules(), ["elsewhere"]);
    Ok(())
}

#[test]
fn an_inner_attribute_makes_the_whole_file_test_code() -> Result<(), LexError> {
    let code = TokenizedSource::parse("#![cfg(test)]\nfn fixture() {}\n")?;

    assert!((0..code.tokens.len()).all(|index| code.is_in_test(index)));
    Ok(())
}
