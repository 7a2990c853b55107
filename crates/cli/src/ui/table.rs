//! Tables that fit the terminal by truncating some columns.

use comfy_table::{CellAlignment, ContentArrangement, Table, TableStyle};

use super::style::{HEADING_STYLE, apply_style};
use crate::text;

/// Layout of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ColumnKind {
    /// Text that is never truncated.
    Text,
    /// Text that is truncated to fit the terminal.
    Truncated,
    /// Right-aligned numbers.
    Number,
}

/// Minimum width of a truncated column.
const MIN_TRUNCATED_WIDTH: usize = 12;
/// Columns between two columns.
const COLUMN_GAP: usize = 2;

/// Rows of text under headings.
pub(crate) struct TextTable {
    columns: Vec<ColumnKind>,
    headings: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl TextTable {
    /// A table with these columns; headings may be empty.
    pub(crate) fn new(columns: &[(&'static str, ColumnKind)]) -> Self {
        Self {
            columns: columns.iter().map(|column| column.1).collect(),
            headings: columns.iter().map(|column| column.0).collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row; control characters are escaped.
    pub(crate) fn add_row<const N: usize>(&mut self, cells: &[String; N]) {
        self.rows.push(cells.iter().map(|cell| text::sanitize_line(cell)).collect());
    }

    /// The lines of the table, at most `width` wide if the fixed columns allow it.
    pub(super) fn render(&self, width: Option<usize>) -> Vec<String> {
        let mut rows = self.rows.clone();
        if let Some(width) = width {
            self.truncate_to_fit(&mut rows, width);
        }
        let mut table = Table::new();
        table.load_style(TableStyle::new());
        table.set_content_arrangement(ContentArrangement::Disabled);
        // Styles are applied by the stream.
        table.force_no_tty();
        let has_head = self.headings.iter().any(|head| !head.is_empty());
        if has_head {
            table.set_header(self.headings.clone());
        }
        for row in rows {
            table.add_row(row);
        }
        for (index, kind) in self.columns.iter().enumerate() {
            let Some(column) = table.column_mut(index) else {
                continue;
            };
            let last = index + 1 == self.columns.len();
            column.set_padding((0, if last { 0 } else { COLUMN_GAP as u16 }));
            if *kind == ColumnKind::Number {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        let mut lines: Vec<String> = table.trim_fmt().lines().map(str::to_owned).collect();
        if let Some(head) = lines.first_mut().filter(|_| has_head) {
            *head = apply_style(HEADING_STYLE, &*head);
        }
        lines
    }

    /// Truncates columns, widest first, until the table fits.
    fn truncate_to_fit(&self, rows: &mut [Vec<String>], width: usize) {
        let mut widths: Vec<usize> =
            self.headings.iter().map(|head| text::display_width(head)).collect();
        for row in rows.iter() {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(text::display_width(cell));
            }
        }
        let gaps = COLUMN_GAP * widths.len().saturating_sub(1);
        let mut excess = (widths.iter().sum::<usize>() + gaps).saturating_sub(width);
        while excess > 0 {
            let open = |index: &usize| {
                self.columns[*index] == ColumnKind::Truncated
                    && widths[*index] > MIN_TRUNCATED_WIDTH
            };
            let widest = (0..widths.len()).filter(open).max_by_key(|index| widths[*index]);
            let Some(index) = widest else { break };
            widths[index] -= 1;
            excess -= 1;
        }
        for row in rows {
            for (index, cell) in row.iter_mut().enumerate() {
                if self.columns[index] == ColumnKind::Truncated {
                    *cell = text::truncate_to_width(cell, widths[index]);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid() -> TextTable {
        let mut grid = TextTable::new(&[
            ("ID", ColumnKind::Text),
            ("SIZE", ColumnKind::Number),
            ("TITLE", ColumnKind::Truncated),
        ]);
        grid.add_row(&["ses_one".into(), "1".into(), "A title that goes on and on".into()]);
        grid.add_row(&["ses_b".into(), "12,345".into(), "B\u{1b}[1m".into()]);
        grid
    }

    #[test]
    fn table_is_truncated_to_the_terminal_width_only() {
        assert_eq!(
            grid().render(None),
            [
                &*apply_style(HEADING_STYLE, "ID         SIZE  TITLE"),
                "ses_one       1  A title that goes on and on",
                "ses_b    12,345  B␛[1m",
            ]
        );
        let narrow = grid().render(Some(34));
        assert_eq!(narrow[1], "ses_one       1  A title that goe…");
        assert!(narrow.iter().skip(1).all(|line| text::display_width(line) <= 34), "{narrow:?}");
    }

    #[test]
    fn too_narrow_table_keeps_fixed_columns() {
        let tiny = grid().render(Some(5));
        assert_eq!(tiny[1], "ses_one       1  A title tha…");
    }
}
