//! How the JSON of a native request becomes a structure: the rules that the document states for every body.
//!
//! A whole number may be written as `3.0`, as JSON allows; none is larger than a client in JavaScript can count to.
//! `null` is the same as leaving out what may be left out. An object is an object, never a list of its values.

use std::fmt::Display;

use serde::de::value::StringDeserializer;
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error as _, MapAccess, SeqAccess, Unexpected,
    VariantAccess, Visitor,
};
use serde::forward_to_deserialize_any;
use serde_json::{Error, Map, Number, Value};

/// The largest number a client in JavaScript can count to, as a float.
const MAX_SAFE_INTEGER: f64 = 9_007_199_254_740_991.0;

/// A value of a request's body.
pub(super) struct BodyDeserializer {
    value: Value,
    /// The body itself: none of its fields is free JSON, so `null` is left out of any shape.
    is_root: bool,
}

impl BodyDeserializer {
    /// A whole body.
    pub(super) fn from_root(fields: Map<String, Value>) -> Self {
        Self { value: Value::Object(fields), is_root: true }
    }

    fn from_inner(value: Value) -> Self {
        Self { value, is_root: false }
    }
}

macro_rules! deserialize_integers {
    ($($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            match &self.value {
                Value::Number(number) => visitor.visit_i64(safe_integer(number)?),
                _ => self.deserialize_any(visitor),
            }
        }
    )*};
}

impl<'de> Deserializer<'de> for BodyDeserializer {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.value {
            Value::Null => visitor.visit_unit(),
            Value::Bool(flag) => visitor.visit_bool(flag),
            Value::Number(number) => number.deserialize_any(visitor),
            Value::String(text) => visitor.visit_string(text),
            Value::Array(list) => visitor.visit_seq(BodyList(list.into_iter())),
            Value::Object(map) => visitor.visit_map(BodyFields::new(map)),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.value.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self.value {
            Value::Object(mut map) => {
                // A field that is not known is refused, be it null or not.
                map.retain(|name, value| !value.is_null() || !fields.contains(&name.as_str()));
                visitor.visit_map(BodyFields::new(map))
            }
            Value::Array(_) => Err(Error::invalid_type(Unexpected::Seq, &visitor)),
            other @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => {
                Self::from_inner(other).deserialize_any(visitor)
            }
        }
    }

    fn deserialize_map<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Error> {
        match &mut self.value {
            Value::Object(map) if self.is_root => map.retain(|_, value| !value.is_null()),
            // A map of serde_json would be an empty one.
            Value::Null => return Err(Error::invalid_type(Unexpected::Unit, &visitor)),
            Value::Object(_)
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_) => {}
        }
        self.deserialize_any(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self.value {
            Value::String(name) => visitor.visit_enum(BodyVariant { name, content: None }),
            Value::Object(map) => {
                let mut entries = map.into_iter();
                match (entries.next(), entries.next()) {
                    (Some((name, content)), None) => {
                        visitor.visit_enum(BodyVariant { name, content: Some(content) })
                    }
                    _ => Err(Error::invalid_value(Unexpected::Map, &"an object with one field")),
                }
            }
            other @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_)) => {
                Self::from_inner(other).deserialize_any(visitor)
            }
        }
    }

    deserialize_integers! {
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64
    }

    forward_to_deserialize_any! {
        bool i128 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct identifier ignored_any
    }
}

/// The whole number that `number` is.
fn safe_integer(number: &Number) -> Result<i64, Error> {
    let is_safe = |float: &f64| float.fract() == 0.0 && float.abs() <= MAX_SAFE_INTEGER;
    number.as_f64().filter(is_safe).map(|float| float as i64).ok_or_else(|| {
        Error::custom(format!(
            "Expected a whole number of at most {MAX_SAFE_INTEGER}, got {number}"
        ))
    })
}

/// The entries of a list.
struct BodyList(std::vec::IntoIter<Value>);

impl<'de> SeqAccess<'de> for BodyList {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Error> {
        self.0.next().map(|value| seed.deserialize(BodyDeserializer::from_inner(value))).transpose()
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.0.len())
    }
}

/// The fields of an object.
struct BodyFields {
    entries: <Map<String, Value> as IntoIterator>::IntoIter,
    /// The value of the field whose name was read last.
    value: Option<(String, Value)>,
}

impl BodyFields {
    fn new(map: Map<String, Value>) -> Self {
        Self { entries: map.into_iter(), value: None }
    }
}

impl<'de> MapAccess<'de> for BodyFields {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Error> {
        let Some((name, value)) = self.entries.next() else { return Ok(None) };
        self.value = Some((name.clone(), value));
        seed.deserialize(StringDeserializer::new(name)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        let missing = || Error::custom("a value was read before its name");
        let (name, value) = self.value.take().ok_or_else(missing)?;
        seed.deserialize(BodyDeserializer::from_inner(value))
            .map_err(|error| add_location(&name, &error))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.entries.len())
    }
}

/// Says in which field the mistake is, as the other routes do.
fn add_location(name: &str, error: &impl Display) -> Error {
    let text = error.to_string();
    let (what, inner) = text.split_once("\n  at ").unwrap_or((&text, ""));
    Error::custom(format!("{what}\n  at [{}]{inner}", Value::from(name)))
}

/// One of the cases of an enumeration, alone or with its content.
struct BodyVariant {
    name: String,
    content: Option<Value>,
}

impl<'de> EnumAccess<'de> for BodyVariant {
    type Error = Error;
    type Variant = BodyVariantContent;

    fn variant_seed<V: DeserializeSeed<'de>>(
        self,
        seed: V,
    ) -> Result<(V::Value, BodyVariantContent), Error> {
        let variant = seed.deserialize(StringDeserializer::<Error>::new(self.name))?;
        Ok((variant, BodyVariantContent(self.content)))
    }
}

/// The content of a case.
struct BodyVariantContent(Option<Value>);

impl BodyVariantContent {
    fn require(self) -> Result<BodyDeserializer, Error> {
        let missing = || Error::invalid_type(Unexpected::UnitVariant, &"an object with one field");
        self.0.map(BodyDeserializer::from_inner).ok_or_else(missing)
    }
}

impl<'de> VariantAccess<'de> for BodyVariantContent {
    type Error = Error;

    fn unit_variant(self) -> Result<(), Error> {
        match self.0 {
            None => Ok(()),
            Some(_) => Err(Error::invalid_type(Unexpected::Map, &"the name alone")),
        }
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Error> {
        seed.deserialize(self.require()?)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _len: usize, visitor: V) -> Result<V::Value, Error> {
        self.require()?.deserialize_seq(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.require()?.deserialize_struct("", fields, visitor)
    }
}
