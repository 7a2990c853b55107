//! The moments of messages and parts: milliseconds since 1970, never negative, as the document says.

use serde_json::{Number, Value};

use super::parsing::ShapeError;
use crate::model::ExtraFields;

/// The fields of `time` that hold a moment.
const MOMENTS: [&str; 5] = ["start", "end", "created", "completed", "compacted"];

/// Which numbers are moments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// Whole milliseconds: parts.
    Whole,
    /// Fractions too: messages.
    Any,
}

impl Precision {
    /// True if an answer may hold this number.
    #[must_use]
    pub fn accepts(self, number: &Number) -> bool {
        let Some(value) = number.as_f64() else { return false };
        value >= 0.0 && (self == Self::Any || value.fract() == 0.0)
    }
}

/// Refuses a message or part with a moment that no answer may hold.
pub(super) fn check_moments(
    what: &'static str,
    map: &ExtraFields,
    precision: Precision,
) -> Result<(), ShapeError> {
    let of_state = map.get("state").and_then(|state| state.get("time"));
    for time in map.get("time").into_iter().chain(of_state) {
        for name in MOMENTS {
            let Some(Value::Number(number)) = time.get(name) else { continue };
            if !precision.accepts(number) {
                let wanted = "an integer that is not negative";
                return Err(ShapeError::new(
                    what,
                    format!("time.{name}: {number} is not {wanted}"),
                ));
            }
        }
    }
    Ok(())
}

/// Repairs the timestamps of a foreign message or part for responses: negative ones become zero, and
/// fractions are truncated where whole numbers are required. Returns true if one was changed.
pub fn repair_moments(map: &mut ExtraFields, precision: Precision) -> bool {
    let mut repaired = false;
    let mut repair = |time: Option<&mut Value>| {
        let Some(time) = time.and_then(Value::as_object_mut) else { return };
        for name in MOMENTS {
            let Some(Value::Number(number)) = time.get_mut(name) else { continue };
            if !precision.accepts(number) {
                *number = Number::from(number.as_f64().map_or(0, |value| value.max(0.0) as i64));
                repaired = true;
            }
        }
    };
    repair(map.get_mut("time"));
    repair(map.get_mut("state").and_then(|state| state.get_mut("time")));
    repaired
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: &Value) -> ExtraFields {
        value.as_object().expect("an object").clone()
    }

    #[test]
    fn negative_and_fractional_moments_are_refused_and_repaired() {
        for (part, repaired) in [
            (json!({"time": {"start": -1}}), json!({"time": {"start": 0}})),
            (json!({"time": {"start": 1, "end": 2.5}}), json!({"time": {"start": 1, "end": 2}})),
            (json!({"time": {"created": -5}}), json!({"time": {"created": 0}})),
            (
                json!({"state": {"time": {"start": 1, "end": 2, "compacted": -3}}}),
                json!({"state": {"time": {"start": 1, "end": 2, "compacted": 0}}}),
            ),
        ] {
            let mut part = object(&part);
            assert!(check_moments("part", &part, Precision::Whole).is_err(), "{part:?}");
            assert!(repair_moments(&mut part, Precision::Whole));
            assert_eq!(Value::Object(part.clone()), repaired);
            check_moments("part", &part, Precision::Whole).expect("repaired");
            assert!(!repair_moments(&mut part, Precision::Whole));
        }
        let fraction = object(&json!({"time": {"created": 1.5}}));
        check_moments("message", &fraction, Precision::Any).expect("messages have fractions");
    }
}
