//! The arguments of a call, read field by field: a mistake names the tool and the place in the JSON.

use serde_json::{Map, Value};

use super::ToolError;

/// The largest integer that every JSON reader keeps exact.
const MAX_SAFE_INTEGER: f64 = 9_007_199_254_740_991.0;

/// An object in the arguments of a call.
pub(crate) struct ToolInput<'i> {
    tool: &'static str,
    path: String,
    fields: &'i Map<String, Value>,
}

impl<'i> ToolInput<'i> {
    /// Reads the arguments of a call.
    pub(crate) fn new(tool: &'static str, value: &'i Value) -> Result<Self, ToolError> {
        Self::at(tool, "$".to_owned(), value)
    }

    fn at(tool: &'static str, path: String, value: &'i Value) -> Result<Self, ToolError> {
        let Value::Object(fields) = value else {
            return Err(invalid_input(tool, &path, "an object", Some(value)));
        };
        Ok(Self { tool, path, fields })
    }

    /// Returns a field that is there; `null` counts as absent.
    fn find(&self, name: &str) -> Option<&'i Value> {
        self.fields.get(name).filter(|value| !value.is_null())
    }

    fn invalid(&self, name: &str, wanted: &str) -> ToolError {
        let path = format!("{}.{name}", self.path);
        invalid_input(self.tool, &path, wanted, self.find(name))
    }

    /// Returns a text that must be there.
    pub(crate) fn string(&self, name: &str) -> Result<&'i str, ToolError> {
        self.optional_string(name)?.ok_or_else(|| self.invalid(name, "a string"))
    }

    /// Returns a text that may be absent.
    pub(crate) fn optional_string(&self, name: &str) -> Result<Option<&'i str>, ToolError> {
        match self.find(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(self.invalid(name, "a string")),
        }
    }

    /// Returns a flag that may be absent.
    pub(crate) fn optional_flag(&self, name: &str) -> Result<Option<bool>, ToolError> {
        match self.find(name) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(*flag)),
            Some(_) => Err(self.invalid(name, "true or false")),
        }
    }

    /// Returns an integer of at least `least` that may be absent. `5.0` is an integer.
    pub(crate) fn optional_integer(
        &self,
        name: &str,
        least: u64,
    ) -> Result<Option<u64>, ToolError> {
        let Some(value) = self.find(name) else { return Ok(None) };
        let whole = |number: f64| {
            let fits = number.fract() == 0.0 && (0.0..=MAX_SAFE_INTEGER).contains(&number);
            fits.then(|| format!("{number:.0}").parse().ok()).flatten()
        };
        let number = value.as_u64().or_else(|| value.as_f64().and_then(whole));
        match number.filter(|number| *number >= least) {
            Some(number) => Ok(Some(number)),
            None => Err(self.invalid(name, &format!("an integer of at least {least}"))),
        }
    }

    /// Returns the objects of a list that must be there.
    pub(crate) fn objects(&self, name: &str) -> Result<Vec<ToolInput<'i>>, ToolError> {
        let Some(Value::Array(items)) = self.find(name) else {
            return Err(self.invalid(name, "an array"));
        };
        let at = |(index, item)| {
            ToolInput::at(self.tool, format!("{}.{name}[{index}]", self.path), item)
        };
        items.iter().enumerate().map(at).collect()
    }
}

/// Returns what the model reads about a wrong argument.
fn invalid_input(tool: &str, path: &str, wanted: &str, found: Option<&Value>) -> ToolError {
    let found = match found {
        None => "is missing".to_owned(),
        Some(Value::Null) => "is null".to_owned(),
        Some(Value::Bool(flag)) => format!("is {flag}"),
        Some(Value::Number(number)) => format!("is {number}"),
        Some(Value::String(_)) => "is a string".to_owned(),
        Some(Value::Array(_)) => "is an array".to_owned(),
        Some(Value::Object(_)) => "is an object".to_owned(),
    };
    ToolError::failed(format!(
        "The arguments of the tool {tool} are invalid: {path} {found}, expected {wanted}. \
         Call it again with arguments that match its schema."
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn words(error: &ToolError) -> String {
        error.to_string()
    }

    #[test]
    fn invalid_arguments_name_tool_and_json_path() {
        let value = json!({"path": 3, "limit": -1, "part": 1.5, "all": "yes",
            "list": [{"name": "a"}, {}], "gone": null});
        let input = ToolInput::new("read", &value).expect("an object");
        let error = input.string("path").expect_err("no text");
        assert_eq!(
            words(&error),
            "The arguments of the tool read are invalid: $.path is 3, expected a string. \
             Call it again with arguments that match its schema."
        );
        assert!(words(&input.string("gone").expect_err("null")).contains("$.gone is missing"));
        for name in ["limit", "part", "all"] {
            let error = input.optional_integer(name, 0).expect_err(name);
            assert!(words(&error).contains(&format!("$.{name} is")), "{error}");
        }
        assert!(words(&input.optional_flag("all").expect_err("text")).contains("true or false"));
        let list = input.objects("list").expect("objects");
        let error = list[1].string("name").expect_err("missing");
        assert!(words(&error).contains("$.list[1].name is missing"), "{error}");
        assert!(ToolInput::new("read", &json!("text")).is_err());
    }

    #[test]
    fn integers_may_be_written_with_a_fraction_of_zero() {
        let value = json!({"a": 5.0, "b": 7, "c": 1e300});
        let input = ToolInput::new("read", &value).expect("an object");
        assert_eq!(input.optional_integer("a", 1).expect("whole"), Some(5));
        assert_eq!(input.optional_integer("b", 1).expect("whole"), Some(7));
        assert_eq!(input.optional_integer("d", 1).expect("absent"), None);
        assert!(input.optional_integer("c", 1).is_err());
    }
}
