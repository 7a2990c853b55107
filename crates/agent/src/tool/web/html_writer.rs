//! An HTML page as Markdown or as plain text.

use super::html_token::{HtmlToken, HtmlTokens};

/// Elements that begin a paragraph.
const BLOCK_ELEMENTS: [&str; 28] = [
    "address",
    "article",
    "aside",
    "blockquote",
    "body",
    "dd",
    "details",
    "div",
    "dl",
    "dt",
    "fieldset",
    "figcaption",
    "figure",
    "footer",
    "form",
    "header",
    "hr",
    "li",
    "main",
    "nav",
    "ol",
    "p",
    "pre",
    "section",
    "summary",
    "table",
    "tr",
    "ul",
];
/// Lists and quotes that are nested more deeply are not indented further.
const MAX_DEPTH: usize = 8;

/// In which form a page is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PageText {
    Markdown,
    Plain,
}

/// Converts a page.
pub(super) fn convert_html(html: &str, form: PageText) -> String {
    let mut writer = HtmlWriter { form, ..HtmlWriter::new() };
    for token in HtmlTokens::new(html) {
        match token {
            HtmlToken::Text(text) => writer.text(&text),
            HtmlToken::Open { name, href, src, alt } => writer.open(&name, href, src, alt),
            HtmlToken::Close(name) => writer.close(&name),
        }
    }
    writer.finish()
}

struct HtmlWriter {
    form: PageText,
    output: String,
    /// Line ends that come before the next text.
    pending_lines: usize,
    pending_space: bool,
    preformatted: usize,
    quotes: usize,
    /// How many quotes were around the last text.
    last_quotes: usize,
    /// The lists around this place: the number of the next item, or none for bullets.
    lists: Vec<Option<usize>>,
    /// Where the links around this place lead.
    links: Vec<Option<String>>,
}

impl HtmlWriter {
    const fn new() -> Self {
        Self {
            form: PageText::Plain,
            output: String::new(),
            pending_lines: 0,
            pending_space: false,
            preformatted: 0,
            quotes: 0,
            last_quotes: 0,
            lists: Vec::new(),
            links: Vec::new(),
        }
    }

    fn is_markdown(&self) -> bool {
        self.form == PageText::Markdown
    }

    /// Makes sure that the next text begins after so many line ends.
    fn break_lines(&mut self, count: usize) {
        self.pending_lines = self.pending_lines.max(count);
        self.pending_space = false;
    }

    /// Writes what is due before the next text.
    fn begin_text(&mut self) {
        if self.pending_lines > 0 && !self.output.is_empty() {
            let (quote, gap) = (self.quote_mark(self.quotes), self.quote_mark(self.last_quotes));
            let ends = self.output.bytes().rev().take_while(|byte| *byte == b'\n').count();
            for count in ends..self.pending_lines {
                self.output.push('\n');
                let is_last = count + 1 == self.pending_lines;
                // An empty line between two paragraphs is quoted if both are.
                let mark = if is_last || gap.len() > quote.len() { &quote } else { &gap };
                self.output.push_str(if is_last { mark } else { mark.trim_end() });
            }
        } else if self.pending_space && !self.output.is_empty() {
            self.output.push(' ');
        }
        self.pending_lines = 0;
        self.pending_space = false;
        self.last_quotes = self.quotes;
    }

    fn quote_mark(&self, depth: usize) -> String {
        if self.is_markdown() { "> ".repeat(depth.min(MAX_DEPTH)) } else { String::new() }
    }

    fn text(&mut self, text: &str) {
        if self.preformatted > 0 {
            if !text.is_empty() {
                self.begin_text();
                self.output.push_str(text);
            }
            return;
        }
        let starts_with_space = text.starts_with(char::is_whitespace);
        for (index, word) in text.split_whitespace().enumerate() {
            self.pending_space |= (index > 0 || starts_with_space) && self.pending_lines == 0;
            self.begin_text();
            self.output.push_str(word);
        }
        self.pending_space |= text.ends_with(char::is_whitespace) && self.pending_lines == 0;
    }

    /// Writes a mark of Markdown.
    fn mark(&mut self, mark: &str) {
        if self.is_markdown() && self.preformatted == 0 {
            self.begin_text();
            self.output.push_str(mark);
        }
    }

    fn open(&mut self, name: &str, href: Option<String>, src: Option<String>, alt: Option<String>) {
        if let Some(level) = heading_level(name) {
            self.break_lines(2);
            self.mark(&format!("{} ", "#".repeat(level)));
            return;
        }
        if BLOCK_ELEMENTS.contains(&name) {
            let is_row = ["li", "tr", "dt", "dd"].contains(&name);
            let is_nested_list = ["ul", "ol"].contains(&name) && !self.lists.is_empty();
            self.break_lines(if is_row || is_nested_list { 1 } else { 2 });
        }
        match name {
            "br" => self.break_lines(1),
            "hr" => self.mark("---"),
            "ul" => self.lists.push(None),
            "ol" => self.lists.push(Some(1)),
            "li" => self.begin_item(),
            "blockquote" => self.quotes += 1,
            "pre" => {
                self.mark("```\n");
                self.preformatted += 1;
            }
            "code" => self.mark("`"),
            "strong" | "b" => self.mark("**"),
            "em" | "i" => self.mark("*"),
            "td" | "th" => self.mark("| "),
            "a" => {
                self.links.push(href.filter(|href| !href.starts_with("javascript:")));
                if self.links.last().is_some_and(Option::is_some) {
                    self.mark("[");
                }
            }
            "img" => {
                let alt = alt.unwrap_or_default();
                match src.filter(|src| !src.starts_with("data:")) {
                    Some(src) if self.is_markdown() => self.mark(&format!("![{alt}]({src})")),
                    Some(_) | None => self.text(&alt),
                }
            }
            _ => {}
        }
    }

    fn begin_item(&mut self) {
        let depth = self.lists.len().saturating_sub(1).min(MAX_DEPTH);
        let mark = match self.lists.last_mut() {
            Some(Some(number)) => {
                *number += 1;
                format!("{}. ", *number - 1)
            }
            Some(None) | None => "- ".to_owned(),
        };
        self.begin_text();
        self.output.push_str(&"  ".repeat(depth));
        self.output.push_str(&mark);
    }

    fn close(&mut self, name: &str) {
        match name {
            "ul" | "ol" => drop(self.lists.pop()),
            "blockquote" => self.quotes = self.quotes.saturating_sub(1),
            "pre" => {
                self.preformatted = self.preformatted.saturating_sub(1);
                if !self.output.ends_with('\n') {
                    self.output.push('\n');
                }
                self.mark("```");
            }
            "code" => self.mark_end("`"),
            "strong" | "b" => self.mark_end("**"),
            "em" | "i" => self.mark_end("*"),
            "td" | "th" => self.pending_space = true,
            "a" => {
                if let Some(Some(href)) = self.links.pop() {
                    self.mark_end(&format!("]({href})"));
                }
            }
            _ => {}
        }
        let is_list_end = ["ul", "ol"].contains(&name) && !self.lists.is_empty();
        if heading_level(name).is_some() || BLOCK_ELEMENTS.contains(&name) {
            let is_row = ["li", "tr", "dt", "dd"].contains(&name) || is_list_end;
            self.break_lines(if is_row { 1 } else { 2 });
        }
    }

    /// Writes a mark directly behind the text; white space before it comes behind it.
    fn mark_end(&mut self, mark: &str) {
        if self.is_markdown() && self.preformatted == 0 {
            self.output.push_str(mark);
        }
    }

    fn finish(self) -> String {
        let lines: Vec<&str> = self.output.lines().map(str::trim_end).collect();
        lines.join("\n").trim().to_owned()
    }
}

fn heading_level(name: &str) -> Option<usize> {
    let level = name.strip_prefix('h')?.parse().ok()?;
    (1..=6).contains(&level).then_some(level)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "<html><head><title>T</title><style>p {}</style></head><body>\n\
        <h1>Head &amp; line</h1><p>Some <b>bold</b> and <a href='/x'>a link</a>.<br>Next</p>\n\
        <ul><li>one</li><li>two<ol><li>a</li><li>b</li></ol></li></ul>\
        <pre><code>let a = 1;\n  let b;</code></pre><blockquote><p>said</p></blockquote>\
        <table><tr><th>k</th><th>v</th></tr><tr><td>1</td><td>2</td></tr></table>\
        <img src=\"/i.png\" alt=\"pic\"><script>alert(1)</script></body></html>";

    #[test]
    fn page_becomes_markdown() {
        assert_eq!(
            convert_html(PAGE, PageText::Markdown),
            "# Head & line\n\nSome **bold** and [a link](/x).\nNext\n\n- one\n- two\n  1. a\n  2. b\n\n\
             ```\nlet a = 1;\n  let b;\n```\n\n> said\n\n| k | v\n| 1 | 2\n\n![pic](/i.png)"
        );
    }

    #[test]
    fn page_becomes_text() {
        assert_eq!(
            convert_html(PAGE, PageText::Plain),
            "Head & line\n\nSome bold and a link.\nNext\n\n- one\n- two\n  1. a\n  2. b\n\n\
             let a = 1;\n  let b;\n\nsaid\n\nk v\n1 2\n\npic"
        );
    }

    #[test]
    fn deeply_nested_page_takes_little_time_and_memory() {
        let html = "<ul><li><blockquote>".repeat(20_000) + "x";
        assert!(convert_html(&html, PageText::Markdown).len() < 4_000_000);
        assert_eq!(convert_html("", PageText::Markdown), "");
        assert_eq!(convert_html("</p></a></ul></pre>x<", PageText::Plain), "x<");
    }
}
