//! Printing as `JSON.stringify` prints.

use std::fmt::Write as _;

use super::json_value::as_safe_integer;

/// Appends an integer.
pub(crate) fn write_integer(number: i64, out: &mut String) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    let mut left = number.unsigned_abs();
    loop {
        at -= 1;
        // Less than ten: it fits.
        digits[at] = b'0' + (left % 10) as u8;
        left /= 10;
        if left == 0 {
            break;
        }
    }
    if number < 0 {
        out.push('-');
    }
    out.push_str(std::str::from_utf8(&digits[at..]).unwrap_or_default());
}

/// Appends a finite number as JavaScript prints it: shortest digits, `1e+21`, never `-0`.
pub fn write_number(number: f64, out: &mut String) {
    if let Some(integer) = as_safe_integer(number) {
        write_integer(integer, out);
        return;
    }
    let shortest = format!("{number:e}");
    let (mantissa, exponent) = shortest.split_once('e').unwrap_or((&shortest, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if let Some(rest) = mantissa.strip_prefix('-') {
        out.push('-');
        write_digits(&rest.replace('.', ""), exponent + 1, out);
    } else {
        write_digits(&mantissa.replace('.', ""), exponent + 1, out);
    }
}

/// Places the decimal point after `point` digits, by the rules of `Number::toString`.
fn write_digits(digits: &str, point: i32, out: &mut String) {
    let count = i32::try_from(digits.len()).unwrap_or(i32::MAX);
    let zeros = |count: i32| "0".repeat(usize::try_from(count).unwrap_or(0));
    if count <= point && point <= 21 {
        out.push_str(digits);
        out.push_str(&zeros(point - count));
    } else if 0 < point && point <= 21 {
        let (whole, fraction) = digits.split_at(usize::try_from(point).unwrap_or(0));
        out.push_str(whole);
        out.push('.');
        out.push_str(fraction);
    } else if -6 < point && point <= 0 {
        out.push_str("0.");
        out.push_str(&zeros(-point));
        out.push_str(digits);
    } else {
        let (first, rest) = digits.split_at(1);
        out.push_str(first);
        if !rest.is_empty() {
            out.push('.');
            out.push_str(rest);
        }
        let exponent = point - 1;
        let sign = if exponent < 0 { '-' } else { '+' };
        let written = write!(out, "e{sign}{}", exponent.unsigned_abs());
        debug_assert!(written.is_ok(), "a string takes everything");
    }
}

/// Appends a quoted string with the escapes JavaScript uses.
pub fn write_string(text: &str, out: &mut String) {
    out.push('"');
    let mut clean = 0;
    for (place, byte) in text.bytes().enumerate() {
        if byte >= 0x20 && byte != b'"' && byte != b'\\' {
            continue;
        }
        out.push_str(&text[clean..place]);
        clean = place + 1;
        match byte {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            0x08 => out.push_str("\\b"),
            0x0c => out.push_str("\\f"),
            control => {
                let written = write!(out, "\\u{control:04x}");
                debug_assert!(written.is_ok(), "a string takes everything");
            }
        }
    }
    out.push_str(&text[clean..]);
    out.push('"');
}

/// Appends the items between brackets, separated by commas.
pub(crate) fn write_separated<T>(
    out: &mut String,
    (open, close): (char, char),
    items: impl IntoIterator<Item = T>,
    mut write: impl FnMut(T, &mut String),
) {
    out.push(open);
    for (index, item) in items.into_iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        write(item, out);
    }
    out.push(close);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_printed_as_javascript_prints_them() {
        let cases: [(f64, &str); 14] = [
            (0.0, "0"),
            (-0.0, "0"),
            (-12.0, "-12"),
            (0.1, "0.1"),
            (123.456, "123.456"),
            (1e21, "1e+21"),
            (1e20, "100000000000000000000"),
            (1.5e-7, "1.5e-7"),
            (1e-6, "0.000001"),
            (-2.5e-5, "-0.000025"),
            (9_007_199_254_740_993.0, "9007199254740992"),
            (1.797_693_134_862_315_7e308, "1.7976931348623157e+308"),
            (5e-324, "5e-324"),
            (123_456_789_012_345_680_000.0, "123456789012345680000"),
        ];
        for (number, text) in cases {
            let mut out = String::new();
            write_number(number, &mut out);
            assert_eq!(out, text);
        }
    }
}
