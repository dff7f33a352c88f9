//! Plain text tables: columns padded with spaces, figures to the right, readable without colour and when piped.

use unicode_width::UnicodeWidthStr as _;

use super::visible;

/// Rows of text under a heading.
#[derive(Debug, Default)]
pub struct TextTable {
    heading: Vec<String>,
    right: Vec<bool>,
    widths: Vec<usize>,
    rows: Vec<Vec<String>>,
}

impl TextTable {
    /// A table with these columns; a heading that starts with `>` is set to the right.
    pub fn new(heading: &[&str]) -> Self {
        let right = heading.iter().map(|text| text.starts_with('>')).collect();
        let heading = heading
            .iter()
            .map(|text| text.trim_start_matches('>').to_owned())
            .collect();
        Self::with_alignment(heading, right)
    }

    /// A table with these columns, set to the right where `right` says so.
    pub fn with_alignment(heading: Vec<String>, right: Vec<bool>) -> Self {
        let heading: Vec<String> = heading.iter().map(|text| visible(text).into_owned()).collect();
        let widths = heading.iter().map(|text| text.width()).collect();
        Self {
            heading,
            right,
            widths,
            rows: Vec::new(),
        }
    }

    /// Adds a row. Missing cells are empty, further cells are dropped.
    pub fn row<S: AsRef<str>>(&mut self, cells: impl IntoIterator<Item = S>) {
        let mut cells: Vec<String> = cells
            .into_iter()
            .map(|cell| visible(cell.as_ref()).into_owned())
            .collect();
        cells.resize(self.heading.len(), String::new());
        for (width, cell) in self.widths.iter_mut().zip(&cells) {
            *width = (*width).max(cell.width());
        }
        self.rows.push(cells);
    }

    /// Whether it has no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Rows it holds.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// The heading and the line under it.
    pub fn render_heading(&self) -> String {
        let rule: Vec<String> = self.widths.iter().map(|width| "-".repeat(*width)).collect();
        format!("{}{}", self.render_cells(&self.heading), self.render_cells(&rule))
    }

    /// The rows gathered so far, which are forgotten; widths stay, so that later rows line up.
    pub fn take_rows(&mut self) -> String {
        let rows = std::mem::take(&mut self.rows);
        rows.iter().map(|row| self.render_cells(row)).collect()
    }

    /// Everything, without a last line break.
    pub fn render(mut self) -> String {
        let mut text = self.render_heading();
        text.push_str(&self.take_rows());
        text.truncate(text.trim_end_matches('\n').len());
        text
    }

    fn render_cells(&self, cells: &[String]) -> String {
        let mut line = String::new();
        for ((cell, width), right) in cells.iter().zip(&self.widths).zip(&self.right) {
            let pad = " ".repeat(width.saturating_sub(cell.width()));
            if !line.is_empty() {
                line.push_str("  ");
            }
            let padded = if *right {
                [pad.as_str(), cell]
            } else {
                [cell.as_str(), &pad]
            };
            line.extend(padded);
        }
        line.truncate(line.trim_end().len());
        line.push('\n');
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut table = TextTable::new(&["name", ">rows", "state"]);
        table.row(["weather", "26115", "queryable"]);
        table.row(["東京", "7", "bell\u{7}"]);
        insta::assert_snapshot!(table.render(), @r"
        name      rows  state
        -------  -----  ---------
        weather  26115  queryable
        東京         7  bell\u{7}
        ");
    }

    #[test]
    fn later_rows_keep_the_widths_of_the_first() {
        let mut table = TextTable::new(&["a", ">b"]);
        table.row(["wide cell", "1"]);
        assert_eq!(table.take_rows(), "wide cell  1\n");
        table.row(["x", "2"]);
        assert_eq!(table.take_rows(), "x          2\n");
    }
}
