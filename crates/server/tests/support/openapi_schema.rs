//! The schema of a body, compared with the body: as much of JSON Schema as the document uses.

use std::sync::OnceLock;

use regex_automata::meta::Regex;
use serde_json::{Map, Value};

use super::client::HttpAnswer;

const NATIVE: &str = include_str!("../../src/doc/native.json");
const OPENCODE: &str = include_str!("../../src/doc/opencode.json");

/// The keywords the checks know; a schema with another one fails the test that meets it.
const KEYWORDS: [&str; 21] = [
    "$ref",
    "type",
    "enum",
    "const",
    "pattern",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "minItems",
    "maxItems",
    "items",
    "properties",
    "required",
    "additionalProperties",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "description",
    "default",
];

/// The document of the server, both parts.
#[derive(Debug)]
pub(crate) struct OpenApiDocument {
    pub(crate) native: Value,
    opencode: Value,
}

/// Where a value is not what its schema says.
type Violation = String;

impl OpenApiDocument {
    pub(crate) fn get() -> &'static Self {
        static DOCUMENT: OnceLock<OpenApiDocument> = OnceLock::new();
        let parse = |text| serde_json::from_str(text).expect("JSON");
        DOCUMENT.get_or_init(|| Self { native: parse(NATIVE), opencode: parse(OPENCODE) })
    }

    /// Every native operation that takes a body: its method, its path and the schema of the body.
    pub(crate) fn native_bodies(&self) -> impl Iterator<Item = (&str, &str, &Value)> {
        let paths = self.native["paths"].as_object().expect("paths").iter();
        let methods = paths.flat_map(|(path, item)| {
            item.as_object().expect("an item").iter().map(move |(name, it)| (name, path, it))
        });
        methods.filter_map(|(method, path, operation)| {
            let schema = operation.pointer("/requestBody/content/application~1json/schema")?;
            Some((method.as_str(), path.as_str(), schema))
        })
    }

    /// The schema a reference leads to.
    pub(crate) fn resolve<'a>(&'a self, schema: &'a Value) -> &'a Value {
        let Some(place) = schema["$ref"].as_str() else { return schema };
        let place = place.trim_start_matches('#');
        let found = self.native.pointer(place).or_else(|| self.opencode.pointer(place));
        self.resolve(found.unwrap_or_else(|| panic!("{place} leads nowhere")))
    }

    /// Fails if an answer of a native route is not what the document says, or has a field it does not name.
    pub(crate) fn check_native_answer(method: &str, path: &str, answer: &HttpAnswer) {
        let (document, status) = (Self::get(), answer.status);
        let path = path.split('?').next().unwrap_or_default();
        let Some(operation) = document.native_operation(method, path) else { return };
        let place = format!("/responses/{status}/content/application~1json/schema");
        let (Some(schema), Ok(value)) =
            (operation.pointer(&place), serde_json::from_slice(&answer.body))
        else {
            return;
        };
        if let Err(violation) = document.check(schema, &value, true) {
            panic!("{method} {path} answered {status} {value}, and the document says: {violation}");
        }
    }

    fn native_operation(&self, method: &str, path: &str) -> Option<&Value> {
        let paths = self.native["paths"].as_object().expect("paths");
        let fits = |template: &str| {
            let (mut wanted, mut given) = (template.split('/'), path.split('/'));
            wanted.by_ref().zip(given.by_ref()).all(|(a, b)| a.starts_with('{') || a == b)
                && template.split('/').count() == path.split('/').count()
        };
        // A literal path comes before one with names in it.
        let found = paths.iter().filter(|(template, _)| fits(template));
        let (_, item) = found.min_by_key(|(template, _)| template.matches('{').count())?;
        item.get(method.to_ascii_lowercase())
    }

    /// True if `value` is what `schema` says.
    pub(crate) fn accepts(&self, schema: &Value, value: &Value) -> bool {
        self.check(schema, value, false).is_ok()
    }

    /// `strict` refuses fields that the schema of an object does not name.
    fn check(&self, schema: &Value, value: &Value, strict: bool) -> Result<(), Violation> {
        let strict = strict && schema["$ref"].as_str().is_none_or(is_native);
        let schema = self.resolve(schema);
        for keyword in schema.as_object().expect("a schema").keys() {
            assert!(KEYWORDS.contains(&keyword.as_str()), "{keyword} in {schema}");
        }
        self.check_value(schema, value)?;
        self.check_alternatives(schema, value, strict)?;
        match value {
            Value::Object(map) => self.check_object(schema, map, strict),
            Value::Array(list) => {
                let (least, most) = (&schema["minItems"], &schema["maxItems"]);
                check_count(list.len(), least, most, schema)?;
                let items = &schema["items"];
                let mut checked = list.iter().filter(|_| items.is_object());
                checked.try_for_each(|item| self.check(items, item, strict))
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
        }
    }

    fn check_value(&self, schema: &Value, value: &Value) -> Result<(), Violation> {
        let fail = || Err(format!("{value} is not {schema}"));
        let types =
            schema["type"].as_array().map_or(std::slice::from_ref(&schema["type"]), Vec::as_slice);
        let has_type = types.iter().any(|name| name.is_null() || is_of_type(name, value));
        let is_listed = schema["enum"].as_array().is_none_or(|all| all.contains(value));
        let is_constant = schema.get("const").is_none_or(|constant| constant == value);
        if !has_type || !is_listed || !is_constant {
            return fail();
        }
        if let Some(text) = value.as_str() {
            check_count(text.chars().count(), &schema["minLength"], &schema["maxLength"], schema)?;
            let pattern = schema["pattern"].as_str();
            if pattern.is_some_and(|pattern| !regex(pattern).is_match(text)) {
                return fail();
            }
        }
        if let Some(number) = value.as_f64() {
            let least = schema["minimum"].as_f64().is_none_or(|least| number >= least);
            let most = schema["maximum"].as_f64().is_none_or(|most| number <= most);
            if !least || !most {
                return fail();
            }
        }
        Ok(())
    }

    fn check_alternatives(
        &self,
        schema: &Value,
        value: &Value,
        strict: bool,
    ) -> Result<(), Violation> {
        let fits = |one: &Value, strict| self.check(one, value, strict).is_ok();
        let all = |key: &str| schema[key].as_array().map(Vec::as_slice).unwrap_or_default();
        for one in all("allOf") {
            self.check(one, value, strict)?;
        }
        let (any, one) = (all("anyOf"), all("oneOf"));
        let has_any = any.is_empty() || any.iter().any(|it| fits(it, strict));
        // Fields that the schema names next to its alternatives are known.
        let strict = strict && schema["properties"].is_null();
        let has_one = one.is_empty() || one.iter().filter(|it| fits(it, strict)).count() == 1;
        let is_excluded = schema.get("not").is_some_and(|not| fits(not, false));
        if has_any && has_one && !is_excluded {
            Ok(())
        } else {
            Err(format!("{value} is not {schema}"))
        }
    }

    fn check_object(
        &self,
        schema: &Value,
        map: &Map<String, Value>,
        strict: bool,
    ) -> Result<(), Violation> {
        for name in schema["required"].as_array().into_iter().flatten() {
            let name = name.as_str().expect("a name");
            if !map.contains_key(name) {
                return Err(format!("{name} is missing in {map:?}"));
            }
        }
        for (name, value) in map {
            let known = &schema["properties"][name];
            let more = &schema["additionalProperties"];
            if !known.is_null() {
                self.check(known, value, strict).map_err(|why| format!("{name}: {why}"))?;
            } else if more == false
                || (strict && more.is_null() && schema["properties"].is_object())
            {
                return Err(format!("{name} is not known in {map:?}"));
            } else if more.is_object() {
                self.check(more, value, strict).map_err(|why| format!("{name}: {why}"))?;
            }
        }
        Ok(())
    }
}

fn is_native(reference: &str) -> bool {
    reference.starts_with("#/components/schemas/Turnstone")
}

fn is_of_type(name: &Value, value: &Value) -> bool {
    match name.as_str().expect("a type") {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "number" => value.is_number(),
        // JSON Schema: a number without a fraction, however it is written.
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("the type {other}"),
    }
}

fn check_count(count: usize, least: &Value, most: &Value, schema: &Value) -> Result<(), Violation> {
    let least = least.as_u64().is_none_or(|least| count as u64 >= least);
    let most = most.as_u64().is_none_or(|most| count as u64 <= most);
    if least && most { Ok(()) } else { Err(format!("{count} is not {schema}")) }
}

fn regex(pattern: &str) -> Regex {
    // The way JavaScript writes a character is not the way this library does.
    let mut rust = String::new();
    let mut rest = pattern;
    while let Some((before, after)) = rest.split_once("\\u") {
        let (code, after) = after.split_at(4);
        rust.push_str(&format!("{before}\\x{{{code}}}"));
        rest = after;
    }
    rust.push_str(rest);
    Regex::new(&rust).unwrap_or_else(|error| panic!("{pattern}: {error}"))
}
