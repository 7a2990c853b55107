//! Integers of any size, as decimal text.

use std::fmt;
use std::str::FromStr;

/// An integer of any size, kept as its canonical decimal digits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BigInt(String);

/// The text is not a decimal integer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a decimal integer")]
pub struct BigIntError;

impl BigInt {
    /// Returns the digits, after a `-` if it is negative.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for BigInt {
    type Err = BigIntError;

    fn from_str(text: &str) -> Result<Self, BigIntError> {
        let (sign, digits) = match text.strip_prefix('-') {
            Some(digits) => ("-", digits),
            None => ("", text),
        };
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(BigIntError);
        }
        match digits.trim_start_matches('0') {
            "" => Ok(Self("0".to_owned())),
            digits => Ok(Self(format!("{sign}{digits}"))),
        }
    }
}

impl From<i128> for BigInt {
    fn from(number: i128) -> Self {
        Self(number.to_string())
    }
}

impl fmt::Display for BigInt {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}
