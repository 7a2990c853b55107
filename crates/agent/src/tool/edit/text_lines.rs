//! A text as lines, and the stretches of it that some lines take.

/// The lines of a text, without their ends.
pub(super) struct TextLines<'t> {
    text: &'t str,
    /// Where each line begins.
    starts: Vec<usize>,
}

impl<'t> TextLines<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        let starts = std::iter::once(0);
        let starts = starts.chain(text.match_indices('\n').map(|(at, _)| at + 1));
        Self { text, starts: starts.collect() }
    }

    /// How many lines there are; a text that ends with a line end has an empty last line.
    pub(super) fn count(&self) -> usize {
        self.starts.len()
    }

    /// Returns one line, without its end.
    pub(super) fn line(&self, index: usize) -> &'t str {
        self.window(index, index)
    }

    /// Returns the lines from `first` to `last`, without the end of the last one.
    pub(super) fn window(&self, first: usize, last: usize) -> &'t str {
        let text = self.window_with_end(first, last);
        let text = text.strip_suffix('\n').unwrap_or(text);
        text.strip_suffix('\r').unwrap_or(text)
    }

    /// Returns the lines from `first` to `last`, with the end of the last one if it has one.
    pub(super) fn window_with_end(&self, first: usize, last: usize) -> &'t str {
        let start = self.starts.get(first).copied().unwrap_or(self.text.len());
        let end = self.starts.get(last + 1).copied().unwrap_or(self.text.len());
        self.text.get(start..end).unwrap_or_default()
    }

    /// Returns where windows of `length` lines can begin.
    pub(super) fn window_starts(&self, length: usize) -> std::ops::Range<usize> {
        0..(self.count() + 1).saturating_sub(length.max(1))
    }
}

/// The lines that a call wants to replace.
pub(super) struct WantedLines<'t> {
    pub(super) lines: Vec<&'t str>,
    /// True if the text ends with a line end: then the replacement takes that of the file, too.
    ends_line: bool,
}

impl<'t> WantedLines<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        let mut lines: Vec<&str> = text.split('\n').collect();
        let ends_line = lines.len() > 1 && lines.last() == Some(&"");
        if ends_line {
            lines.pop();
        }
        Self { lines, ends_line }
    }

    /// Returns what a match from `first` to `last` replaces.
    pub(super) fn matched<'f>(&self, file: &TextLines<'f>, first: usize, last: usize) -> &'f str {
        match self.ends_line {
            true => file.window_with_end(first, last),
            false => file.window(first, last),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_stretches_of_the_text() {
        let lines = TextLines::new("a\r\nb\n\nc");
        assert_eq!(lines.count(), 4);
        assert_eq!(
            (lines.line(0), lines.line(1), lines.line(2), lines.line(3)),
            ("a", "b", "", "c")
        );
        assert_eq!(lines.window(0, 1), "a\r\nb");
        assert_eq!(lines.window_with_end(0, 1), "a\r\nb\n");
        assert_eq!(lines.window_with_end(2, 3), "\nc");
        assert_eq!(lines.window_starts(4), 0..1);
        assert_eq!(lines.window_starts(5), 0..0);
        assert_eq!(TextLines::new("").count(), 1);
    }
}
