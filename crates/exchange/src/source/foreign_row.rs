//! Rows of a foreign table: any column may be missing or of any type.

use std::collections::HashMap;

use rusqlite::types::ValueRef;
use serde_json::{Map, Number, Value};

use super::source_limits;

/// One row by column name.
pub(super) struct ForeignRow {
    cells: HashMap<String, ForeignCell>,
}

enum ForeignCell {
    Null,
    Integer(i64),
    Real(f64),
    Text(String),
    /// Bytes that are no text; the reason says so.
    Unreadable(&'static str),
}

impl ForeignRow {
    pub(super) fn from_sqlite(row: &rusqlite::Row<'_>) -> rusqlite::Result<Self> {
        let names: Vec<String> = row.as_ref().column_names().map(str::to_owned).collect();
        let mut cells = HashMap::with_capacity(names.len());
        for (index, name) in names.into_iter().enumerate() {
            let cell = match row.get_ref(index)? {
                ValueRef::Null => ForeignCell::Null,
                ValueRef::Integer(value) => ForeignCell::Integer(value),
                ValueRef::Real(value) => ForeignCell::Real(value),
                ValueRef::Text(bytes) => match std::str::from_utf8(bytes) {
                    Ok(text) => ForeignCell::Text(text.to_owned()),
                    Err(_) => ForeignCell::Unreadable("is not UTF-8"),
                },
                ValueRef::Blob(bytes) => match std::str::from_utf8(bytes) {
                    Ok(text) => ForeignCell::Text(text.to_owned()),
                    Err(_) => ForeignCell::Unreadable("is binary data"),
                },
            };
            cells.insert(name, cell);
        }
        Ok(Self { cells })
    }

    /// The text of a column; numbers are written out, anything else is absent.
    pub(super) fn text(&self, column: &str) -> Option<String> {
        match self.cells.get(column)? {
            ForeignCell::Text(text) => Some(text.clone()),
            ForeignCell::Integer(value) => Some(value.to_string()),
            ForeignCell::Real(value) => Some(value.to_string()),
            ForeignCell::Null | ForeignCell::Unreadable(_) => None,
        }
    }

    /// The text of a column, unless it is empty.
    pub(super) fn nonempty_text(&self, column: &str) -> Option<String> {
        self.text(column).filter(|text| !text.is_empty())
    }

    /// The number in a column, whole where it is whole.
    pub(super) fn number(&self, column: &str) -> Option<Number> {
        match self.cells.get(column)? {
            ForeignCell::Integer(value) => Some(Number::from(*value)),
            ForeignCell::Real(value) if value.fract() == 0.0 && value.abs() < 9e15 => {
                Some(Number::from(*value as i64))
            }
            ForeignCell::Real(value) => Number::from_f64(*value),
            ForeignCell::Text(_) | ForeignCell::Null | ForeignCell::Unreadable(_) => None,
        }
    }

    /// The whole number in a column.
    pub(super) fn integer(&self, column: &str) -> Option<i64> {
        let number = self.number(column)?;
        number.as_i64().or_else(|| number.as_f64().map(|value| value as i64))
    }

    /// The JSON in a column.
    ///
    /// # Errors
    ///
    /// Why it is no JSON, in words.
    pub(super) fn json(&self, column: &str) -> Result<Option<Value>, String> {
        match self.cells.get(column) {
            None | Some(ForeignCell::Null) => Ok(None),
            Some(ForeignCell::Integer(_) | ForeignCell::Real(_)) => {
                Err(format!("{column} is a number, not JSON text"))
            }
            Some(ForeignCell::Unreadable(why)) => Err(format!("{column} {why}")),
            Some(ForeignCell::Text(text)) => source_limits::parse_json(text)
                .map(Some)
                .map_err(|reason| format!("{column}: {reason}")),
        }
    }

    /// Puts the text of a column into `map` under `key`, if there is any.
    pub(super) fn put_text(&self, column: &str, key: &str, map: &mut Map<String, Value>) {
        if let Some(text) = self.text(column) {
            map.insert(key.to_owned(), Value::String(text));
        }
    }

    /// Puts the number of a column into `map` under `key`, if there is one.
    pub(super) fn put_number(&self, column: &str, key: &str, map: &mut Map<String, Value>) {
        if let Some(number) = self.number(column) {
            map.insert(key.to_owned(), Value::Number(number));
        }
    }
}
