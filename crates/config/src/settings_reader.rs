//! Typed access to merged settings: a value of the wrong type is reported with file, line and key.

use serde_json::{Map, Value};

use crate::error::ConfigError;
use crate::source::SettingsLayer;

/// A table of settings, and where it is.
#[derive(Clone)]
pub(crate) struct SettingsReader<'s> {
    layers: &'s [SettingsLayer],
    table: &'s Map<String, Value>,
    path: Vec<String>,
}

impl<'s> SettingsReader<'s> {
    /// Reads the merged settings of all layers.
    pub(crate) fn new(layers: &'s [SettingsLayer], table: &'s Map<String, Value>) -> Self {
        Self { layers, table, path: Vec::new() }
    }

    /// Returns the table itself.
    pub(crate) fn map(&self) -> &'s Map<String, Value> {
        self.table
    }

    /// Returns the error about one of the keys, at the strongest source that sets it.
    pub(crate) fn error(&self, key: &str, message: &str) -> ConfigError {
        let inner = (!key.is_empty()).then_some(key);
        let mut path: Vec<&str> = self.path.iter().map(String::as_str).chain(inner).collect();
        let key = Some(path.join("."));
        while !path.is_empty() {
            if let Some(layer) = self.layers.iter().rev().find(|layer| layer.has(&path)) {
                let error = ConfigError::new(&layer.path, message);
                return ConfigError { line: layer.find_line(&path), key, ..error };
            }
            path.pop();
        }
        let file = self.layers.last().map(|layer| layer.path.clone()).unwrap_or_default();
        ConfigError { key, ..ConfigError::new(&file, message) }
    }

    fn value(&self, key: &str) -> Option<&'s Value> {
        self.table.get(key).filter(|value| !value.is_null())
    }

    fn typed<T>(
        &self,
        key: &str,
        wanted: &str,
        read: impl FnOnce(&'s Value) -> Option<T>,
    ) -> Result<Option<T>, ConfigError> {
        let Some(value) = self.value(key) else { return Ok(None) };
        match read(value) {
            Some(typed) => Ok(Some(typed)),
            None => Err(self.error(key, &format!("it must be {wanted}"))),
        }
    }

    /// Returns a text.
    pub(crate) fn text(&self, key: &str) -> Result<Option<String>, ConfigError> {
        self.typed(key, "a text", |value| value.as_str().map(str::to_owned))
    }

    /// Returns `true` or `false`.
    pub(crate) fn flag(&self, key: &str) -> Result<Option<bool>, ConfigError> {
        self.typed(key, "true or false", Value::as_bool)
    }

    /// Returns a whole number that is not negative.
    pub(crate) fn count(&self, key: &str) -> Result<Option<u64>, ConfigError> {
        let read = |value: &Value| {
            let whole = value.as_f64().filter(|it| it.fract() == 0.0 && (0.0..9e15).contains(it));
            value.as_u64().or(whole.map(|it| it as u64))
        };
        self.typed(key, "a whole number that is not negative", read)
    }

    /// Returns a number.
    pub(crate) fn number(&self, key: &str) -> Result<Option<f64>, ConfigError> {
        self.typed(key, "a number", Value::as_f64)
    }

    /// Returns a list of texts; empty if it is not set.
    pub(crate) fn texts(&self, key: &str) -> Result<Vec<String>, ConfigError> {
        let read = |value: &Value| {
            let entries = value.as_array()?.iter();
            entries.map(|entry| entry.as_str().map(str::to_owned)).collect::<Option<Vec<_>>>()
        };
        Ok(self.typed(key, "a list of texts", read)?.unwrap_or_default())
    }

    /// Returns a table of texts in written order; empty if it is not set.
    pub(crate) fn text_table(&self, key: &str) -> Result<Vec<(String, String)>, ConfigError> {
        let Some(table) = self.find_table(key)? else { return Ok(Vec::new()) };
        let names = table.table.keys();
        let entry = |name: &String| Ok((name.clone(), table.text(name)?.unwrap_or_default()));
        names.map(entry).collect()
    }

    /// Returns a nested table; nothing if it is not set.
    pub(crate) fn find_table(&self, key: &str) -> Result<Option<Self>, ConfigError> {
        let table = self.typed(key, "a table: { … }", Value::as_object)?;
        Ok(table.map(|table| self.nested(key, table)))
    }

    /// Returns the tables of a table, by name.
    pub(crate) fn tables(&self, key: &str) -> Result<Vec<(String, Self)>, ConfigError> {
        let Some(outer) = self.find_table(key)? else { return Ok(Vec::new()) };
        let mut tables = Vec::new();
        for (name, value) in outer.table {
            match value {
                Value::Null => {}
                Value::Object(table) => tables.push((name.clone(), outer.nested(name, table))),
                Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                    return Err(outer.error(name, "it must be a table: { … }"));
                }
            }
        }
        Ok(tables)
    }

    /// Returns the tables of a list; empty if it is not set.
    pub(crate) fn list_of_tables(&self, key: &str) -> Result<Vec<Self>, ConfigError> {
        let entries = self.typed(key, "a list of tables: [{ … }]", |value| {
            value.as_array()?.iter().map(Value::as_object).collect::<Option<Vec<_>>>()
        })?;
        let entries = entries.unwrap_or_default().into_iter();
        Ok(entries.map(|table| self.nested(key, table)).collect())
    }

    fn nested(&self, key: &str, table: &'s Map<String, Value>) -> Self {
        let path = self.path.iter().cloned().chain([key.to_owned()]).collect();
        Self { layers: self.layers, table, path }
    }
}
