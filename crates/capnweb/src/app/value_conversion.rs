//! Between Rust types and values.

use crate::error::RpcError;
use crate::json::{MAX_SAFE_INTEGER, as_safe_integer};
use crate::session::{Promise, Readable, Stub, Writable};
use crate::value::Value;
use crate::wire::{BigInt, TypedBytes};

/// A value is not of the type that was declared.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected {expected}, got {got}")]
pub struct TypeMismatch {
    /// What was declared.
    pub expected: &'static str,
    /// What came.
    pub got: &'static str,
}

impl TypeMismatch {
    /// Tells that the value is not what was expected.
    pub fn new(expected: &'static str, value: &Value) -> Self {
        let got = value.kind_name();
        Self { expected, got }
    }
}

impl From<TypeMismatch> for RpcError {
    fn from(mismatch: TypeMismatch) -> Self {
        Self::type_error(mismatch.to_string())
    }
}

/// A type that can be read from a value; what does not fit is refused, never converted.
pub trait FromValue: Sized {
    /// Reads the value.
    ///
    /// # Errors
    ///
    /// [`TypeMismatch`] if the value is of another type.
    fn from_value(value: Value) -> Result<Self, TypeMismatch>;
}

/// A type that can be sent.
pub trait IntoValue {
    /// Makes a value of it.
    fn into_value(self) -> Value;
}

impl FromValue for Value {
    fn from_value(value: Value) -> Result<Self, TypeMismatch> {
        Ok(value)
    }
}

impl IntoValue for Value {
    fn into_value(self) -> Value {
        self
    }
}

impl FromValue for () {
    fn from_value(value: Value) -> Result<Self, TypeMismatch> {
        if value.is_nullish() {
            return Ok(());
        }
        Err(TypeMismatch::new("nothing", &value))
    }
}

impl IntoValue for () {
    fn into_value(self) -> Value {
        Value::Undefined
    }
}

/// Types that are one variant of a value.
macro_rules! variants {
    ($($type:ty, $variant:ident, $expected:literal;)*) => {$(
        impl FromValue for $type {
            fn from_value(value: Value) -> Result<Self, TypeMismatch> {
                if let Value::$variant(inner) = value {
                    return Ok(inner);
                }
                Err(TypeMismatch::new($expected, &value))
            }
        }

        impl IntoValue for $type {
            fn into_value(self) -> Value {
                Value::$variant(self)
            }
        }
    )*};
}

variants! {
    bool, Bool, "a boolean";
    f64, Number, "a number";
    String, String, "a string";
    TypedBytes, Bytes, "bytes";
    BigInt, BigInt, "a bigint";
    Stub, Stub, "a stub";
    Promise, Promise, "a promise";
    Readable, Readable, "a readable stream";
    Writable, Writable, "a writable stream";
}

/// Integers: only those that JavaScript counts exactly.
macro_rules! integers {
    ($($type:ty),*) => {$(
        impl FromValue for $type {
            fn from_value(value: Value) -> Result<Self, TypeMismatch> {
                if let Value::Number(number) = value
                    && let Some(whole) = as_safe_integer(number)
                    && let Ok(whole) = <$type>::try_from(whole)
                {
                    return Ok(whole);
                }
                Err(TypeMismatch::new(concat!("an integer (", stringify!($type), ")"), &value))
            }
        }
    )*};
}

integers!(i32, u32, i64, u64);

impl IntoValue for i32 {
    fn into_value(self) -> Value {
        Value::Number(self.into())
    }
}

impl IntoValue for u32 {
    fn into_value(self) -> Value {
        Value::Number(self.into())
    }
}

/// A number where JavaScript counts exactly, and a bigint beyond.
impl IntoValue for i64 {
    fn into_value(self) -> Value {
        if self.abs_diff(0) <= MAX_SAFE_INTEGER.unsigned_abs() {
            return Value::Number(self as f64);
        }
        Value::BigInt(BigInt::from(i128::from(self)))
    }
}

/// A number where JavaScript counts exactly, and a bigint beyond.
impl IntoValue for u64 {
    fn into_value(self) -> Value {
        if self <= MAX_SAFE_INTEGER.unsigned_abs() {
            return Value::Number(self as f64);
        }
        Value::BigInt(BigInt::from(i128::from(self)))
    }
}

impl IntoValue for &str {
    fn into_value(self) -> Value {
        Value::String(self.to_owned())
    }
}

impl IntoValue for RpcError {
    fn into_value(self) -> Value {
        Value::Error(Box::new(self))
    }
}

/// Absent, `undefined` and `null` are nothing.
impl<T: FromValue> FromValue for Option<T> {
    fn from_value(value: Value) -> Result<Self, TypeMismatch> {
        if value.is_nullish() {
            return Ok(None);
        }
        T::from_value(value).map(Some)
    }
}

impl<T: IntoValue> IntoValue for Option<T> {
    fn into_value(self) -> Value {
        self.map_or(Value::Null, T::into_value)
    }
}

impl<T: FromValue> FromValue for Vec<T> {
    fn from_value(value: Value) -> Result<Self, TypeMismatch> {
        if let Value::Array(items) = value {
            return items.into_iter().map(T::from_value).collect();
        }
        Err(TypeMismatch::new("an array", &value))
    }
}

impl<T: IntoValue> IntoValue for Vec<T> {
    fn into_value(self) -> Value {
        Value::Array(self.into_iter().map(T::into_value).collect())
    }
}
