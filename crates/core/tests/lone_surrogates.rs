//! Half a character survives: any JSON text leaves as it came, and no text is taken for another.

use std::borrow::Cow;

use proptest::prelude::*;
use serde_json::Value;
use turnstone_core::lone_surrogates::{decode_json, encode_json, to_display};

/// A JSON text in which every unit is written `\uXXXX`.
fn escaped(units: &[u16]) -> String {
    let units: String = units.iter().map(|unit| format!("\\u{unit:04x}")).collect();
    format!("{{\"k{units}\":[\"{units}\"]}}")
}

/// The units of the only text in a list, however they are written.
fn units_of(json: &str) -> Vec<u16> {
    let text =
        json.split_once("[\"").and_then(|(_, text)| text.rsplit_once("\"]")).expect("a text").0;
    let mut units = Vec::new();
    let mut rest = text.chars();
    while let Some(next) = rest.next() {
        let mut plain = |c: char| units.extend(c.encode_utf16(&mut [0; 2]).iter());
        match (next, if next == '\\' { rest.next() } else { None }) {
            ('\\', Some('u')) => {
                let digits: String = rest.by_ref().take(4).collect();
                units.push(u16::from_str_radix(&digits, 16).expect("digits"));
            }
            ('\\', Some('n')) => plain('\n'),
            ('\\', Some('r')) => plain('\r'),
            ('\\', Some('t')) => plain('\t'),
            ('\\', Some('b')) => plain('\u{8}'),
            ('\\', Some('f')) => plain('\u{c}'),
            ('\\', Some(other)) => plain(other),
            (other, _) => plain(other),
        }
    }
    units
}

fn through(json: &str) -> String {
    let parsed: Value = serde_json::from_str(&decode_json(json)).expect("JSON");
    encode_json(&parsed.to_string()).into_owned()
}

/// Units that are often halves, marks or stand-ins.
fn unit() -> impl Strategy<Value = u16> {
    prop_oneof![
        any::<u16>(),
        0xD800_u16..0xE000,
        Just(0xFDD0),
        prop_oneof![Just(0xDBFE_u16), Just(0xDBFF)],
        Just(u16::from(b'\\')),
        Just(u16::from(b'u')),
        Just(u16::from(b'd')),
    ]
}

proptest! {
    #[test]
    fn any_text_of_utf16_units_leaves_as_it_came(units in prop::collection::vec(unit(), 0..24)) {
        let json = escaped(&units);
        prop_assert_eq!(units_of(&through(&json)), units.clone());
        // Written in another way, it is the same text.
        let again = through(&json);
        prop_assert_eq!(through(&again), again);
    }

    #[test]
    fn different_texts_stay_different(
        one in prop::collection::vec(unit(), 0..6),
        other in prop::collection::vec(unit(), 0..6),
    ) {
        let (left, right) = (escaped(&one), escaped(&other));
        let parse = |json: &str| serde_json::from_str::<Value>(&decode_json(json)).expect("JSON");
        prop_assert_eq!(parse(&left) == parse(&right), one == other);
    }

    #[test]
    fn texts_that_are_joined_join_their_halves(text in any::<char>(), rest in "\\PC{0,4}") {
        let mut units = [0; 2];
        let units = text.encode_utf16(&mut units);
        let parse = |unit: u16| -> Value {
            serde_json::from_str(&decode_json(&format!("\"\\u{unit:04x}\""))).expect("JSON")
        };
        let joined: String = units.iter().map(|unit| parse(*unit).as_str().expect("a text").to_owned()).collect();
        let joined = joined + &decode_json(&rest);
        let whole = format!("{text}{rest}");
        prop_assert_eq!(to_display(&joined), whole.as_str());
        let json = encode_json(&Value::from(joined.as_str()).to_string()).into_owned();
        prop_assert_eq!(serde_json::from_str::<String>(&json).expect("JSON"), whole);
    }
}

#[test]
fn text_without_halves_is_not_copied() {
    for json in ["{\"a\":\"\u{1F600} \\u001b[0m \\ud83d\"}", "\"C:\\\\users\\n\"", "[1,\"ü\"]"] {
        let halves = json.contains("\\ud83d");
        assert_eq!(matches!(decode_json(json), Cow::Owned(_)), halves, "{json}");
        assert!(matches!(encode_json(json), Cow::Borrowed(_)), "{json}");
    }
}

#[test]
fn what_only_looks_like_an_escape_stays() {
    for json in
        [r#"["\\ud83d"]"#, r#"["\\\\ud83d"]"#, "[\"\u{FDD0}\u{10F83D}\"]", "[\"\u{10F83D}\"]"]
    {
        assert_eq!(through(json), json);
    }
    assert_eq!(through(r#"["\\\ud83d"]"#), r#"["\\\ud83d"]"#, "a backslash and a half");
    assert_eq!(through(r#"["\uD83D\u0041\uDE00"]"#), r#"["\ud83dA\ude00"]"#);
}

#[test]
fn broken_json_is_still_broken() {
    for json in ["\"\\ud8", "\"\\u+d83\"", "\"\\", "\\ud83d", "\"\\ud83d\\u\""] {
        assert!(serde_json::from_str::<Value>(&decode_json(json)).is_err(), "{json}");
    }
}

#[test]
fn half_a_character_is_shown_as_a_replacement() {
    let text: String = serde_json::from_str(&decode_json(r#""a\ud83db""#)).expect("JSON");
    assert_eq!(to_display(&text), "a\u{FFFD}b");
}
