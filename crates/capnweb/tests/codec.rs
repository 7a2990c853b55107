//! The codec against what the npm package wrote.

use std::path::Path;

use capnweb::wire::{DecodeError, EncodeError, Expr, PeerVersion, WireLimits, WireMessage};

const LIMITS: WireLimits =
    WireLimits { message_bytes: 1 << 20, values: 1_000_000, depth: 256, bigint_digits: 16_384 };

fn vectors(name: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors").join(name);
    let text = fs_err::read_to_string(path).expect("the vectors are in the repository");
    text.lines().map(str::to_owned).collect()
}

fn decode(text: &str) -> Result<WireMessage, DecodeError> {
    WireMessage::decode(text, &LIMITS)
}

fn encode(message: &WireMessage) -> String {
    message.encode(PeerVersion::Current, &LIMITS).expect("what was read can be written")
}

#[test]
fn npm_values_round_trip_byte_for_byte() {
    for value in vectors("values.txt") {
        let text = format!("[\"push\",{value}]");
        assert_eq!(encode(&decode(&text).expect(&text)), text);
    }
}

#[test]
fn npm_messages_round_trip_byte_for_byte() {
    let messages = vectors("messages.txt");
    assert!(messages.len() > 100, "the session was recorded whole");
    for text in messages {
        assert_eq!(encode(&decode(&text).expect(&text)), text);
    }
}

/// npm looks capabilities up while it reads; without a session it refuses them all.
#[test]
fn decoder_accepts_and_rejects_like_npm() {
    for line in vectors("value-validity.txt") {
        let (verdict, text) = line.split_at(1);
        let read = decode(&format!("[\"push\",{text}]"));
        assert_eq!(read.is_ok(), verdict == "+", "{text:.80}: {read:?}");
    }
}

#[test]
fn malformed_messages_are_rejected() {
    for text in [
        "",
        "null",
        "{}",
        "1",
        "\"push\"",
        "[]",
        "[1]",
        "[null]",
        "[\"push\"]",
        "[\"pull\"]",
        "[\"pull\",\"1\"]",
        "[\"pull\",true]",
        "[\"pull\",1.5]",
        "[\"pull\",9007199254740992]",
        "[\"resolve\",1]",
        "[\"resolve\",null,1]",
        "[\"reject\",1]",
        "[\"release\",1]",
        "[\"release\",1,0]",
        "[\"release\",1,-1]",
        "[\"release\",1,0.5]",
        "[\"release\",1,true]",
        "[\"stream\"]",
        "[\"hello\",1]",
        "[\"push\",[\"export\",1]]",
        "[\"push\",[\"export\",0]]",
        "[\"push\",[\"readable\",-1]]",
        "[\"push\",NaN]",
        "[\"push\",1]x",
    ] {
        assert!(decode(text).is_err(), "{text} was taken");
    }
}

#[test]
fn extra_elements_are_tolerated_like_npm() {
    let text = "[\"resolve\",1,[\"date\",5,\"extra\"],\"more\"]";
    let message = WireMessage::Resolve(1, Expr::Date(Some(5.0)));
    assert_eq!(decode(text), Ok(message));
    assert_eq!(decode("[\"abort\"]"), Ok(WireMessage::Abort(Expr::Undefined)));
}

#[test]
fn oversized_message_is_rejected_before_parsing() {
    let limits = WireLimits { message_bytes: 8, ..LIMITS };
    let refused = WireMessage::decode("[\"pull\",1]", &limits);
    assert_eq!(refused, Err(DecodeError::TooLong(8)));
}

#[test]
fn call_arguments_count_towards_depth() {
    let nested = |count: usize| {
        let open = "[\"pipeline\",0,[\"f\"],[".repeat(count);
        format!("[\"push\",{open}1{}]", "]]".repeat(count))
    };
    assert!(decode(&nested(255)).is_ok());
    assert_eq!(decode(&nested(256)), Err(DecodeError::TooDeep(256)));
    assert!(decode(&nested(100_000)).is_err());
}

#[test]
fn value_deeper_than_the_limit_is_not_encoded() {
    let deep = (0..300).fold(Expr::Null, |inner, _| Expr::Array(vec![inner]));
    let refused = WireMessage::Push(deep).encode(PeerVersion::Current, &LIMITS);
    assert_eq!(refused, Err(EncodeError::TooDeep));
}

#[test]
fn v0_4_peer_never_gets_unknown_forms() {
    let known = |text: &str| {
        let message = decode(text).expect(text);
        message.encode(PeerVersion::V0_4, &LIMITS)
    };
    for text in [
        "[\"pipe\"]",
        "[\"stream\",1]",
        "[\"push\",[\"url\",\"a:b\"]]",
        "[\"push\",[\"date\",null]]",
        "[\"push\",[[[\"headers\",[]]]]]",
        "[\"push\",{\"a\":[\"writable\",-1]}]",
        "[\"push\",[\"readable\",1]]",
        "[\"push\",[\"blob\",\"\",[\"readable\",1]]]",
        "[\"push\",[\"request\",\"a:b\",{}]]",
        "[\"push\",[\"response\",null,{}]]",
        "[\"reject\",1,[\"error\",\"Error\",\"m\",null,{\"u\":[\"url\",\"a:b\"]}]]",
    ] {
        assert!(matches!(known(text), Err(EncodeError::UnknownToPeer(_))), "{text} was sent");
    }
    let bytes = known("[\"push\",[\"bytes\",\"AQI\",\"Int16Array\"]]");
    assert_eq!(bytes.as_deref(), Ok("[\"push\",[\"bytes\",\"AQI\"]]"));
}
