//! What a run of the program printed, and whether it is what the model expects.

use serde_json::Value;

use crate::model::ExpectedResult;
use crate::round::Fallible;
use crate::scenarios::is_accepted_after_save;

/// What a run of the program gave.
pub(crate) struct CliOutput {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl CliOutput {
    pub(crate) fn show(&self) -> String {
        format!("(exit {:?}) {} {}", self.code, self.out, self.err)
    }
}

/// The lists of a report; what differs between a prediction and a report is left out.
pub(crate) fn summary(ran: &CliOutput) -> Value {
    let mut value: Value = serde_json::from_str(&ran.out).unwrap_or_default();
    for key in ["operation", "dry_run"] {
        value[key] = Value::Null;
    }
    for root in value["roots"].as_array_mut().into_iter().flatten() {
        for key in ["guard", "in_place"] {
            root["report"][key] = Value::Null;
        }
    }
    value
}

/// The exit code and the lists of a report are those of the model.
pub(crate) fn check_result(
    ran: &CliOutput,
    expected: &ExpectedResult,
    has_unfinished: bool,
) -> Fallible {
    if has_unfinished && is_accepted_after_save(ran) {
        return Ok(());
    }
    if expected.pending.is_empty() {
        return match ran.code {
            // Refused, or done already.
            Some(0 | 1) => Ok(()),
            code => Err(format!("nothing was left to do, and the exit code is {code:?}").into()),
        };
    }
    let is_clean = expected.conflicts.is_empty() && expected.contended.is_empty();
    let wanted = if is_clean { 0 } else { 4 };
    // A turn whose every path is as before already may be refused as well.
    let is_idle = expected.moved.is_empty() && is_clean;
    if ran.code != Some(wanted) && !(is_idle && ran.code == Some(1)) {
        return Err(format!("the exit code should be {wanted}: {expected:?}").into());
    }
    let report: Value = serde_json::from_str(&ran.out)?;
    let named = report.to_string();
    for path in expected.conflicts.iter().chain(&expected.contended).chain(&expected.kept) {
        if !named.contains(&format!("\"{path}\"")) {
            return Err(format!("{path} could not be moved and is not named").into());
        }
    }
    Ok(())
}
