//! The codec against what the npm package wrote, and against a million texts that nobody wrote.

use std::path::Path;

use capnweb::wire::{DecodeError, EncodeError, Expr, Message, Profile, WireLimits};

const LIMITS: WireLimits = WireLimits { message_bytes: 1 << 20, depth: 256, bigint_digits: 16_384 };

fn vectors(name: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors").join(name);
    let text = fs_err::read_to_string(path).expect("the vectors are in the repository");
    text.lines().map(str::to_owned).collect()
}

fn decode(text: &str) -> Result<Message, DecodeError> {
    Message::decode(text, &LIMITS)
}

fn encode(message: &Message) -> String {
    message.encode(Profile::Current, &LIMITS).expect("what was read can be written")
}

#[test]
fn values_of_npm_are_printed_again_byte_for_byte() {
    for value in vectors("values.txt") {
        let text = format!("[\"push\",{value}]");
        assert_eq!(encode(&decode(&text).expect(&text)), text);
    }
}

#[test]
fn messages_of_npm_are_printed_again_byte_for_byte() {
    let messages = vectors("messages.txt");
    assert!(messages.len() > 100, "the session was recorded whole");
    for text in messages {
        assert_eq!(encode(&decode(&text).expect(&text)), text);
    }
}

/// npm looks capabilities up while it reads; without a session it refuses them all.
#[test]
fn what_npm_refuses_is_refused_and_what_it_takes_is_taken() {
    for line in vectors("verdicts.txt") {
        let (verdict, text) = line.split_at(1);
        let read = decode(&format!("[\"push\",{text}]"));
        assert_eq!(read.is_ok(), verdict == "+", "{text:.80}: {read:?}");
    }
}

#[test]
fn wrong_messages_are_refused() {
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
fn more_elements_than_needed_are_tolerated_where_npm_does() {
    let text = "[\"resolve\",1,[\"date\",5,\"extra\"],\"more\"]";
    let message = Message::Resolve(1, Expr::Date(Some(5.0)));
    assert_eq!(decode(text), Ok(message));
    assert_eq!(decode("[\"abort\"]"), Ok(Message::Abort(Expr::Undefined)));
}

#[test]
fn a_long_message_is_refused_before_it_is_read() {
    let limits = WireLimits { message_bytes: 8, ..LIMITS };
    let refused = Message::decode("[\"pull\",1]", &limits);
    assert_eq!(refused, Err(DecodeError::TooLong(8)));
}

#[test]
fn the_arguments_of_calls_count_as_depth() {
    let nested = |count: usize| {
        let open = "[\"pipeline\",0,[\"f\"],[".repeat(count);
        format!("[\"push\",{open}1{}]", "]]".repeat(count))
    };
    assert!(decode(&nested(255)).is_ok());
    assert_eq!(decode(&nested(256)), Err(DecodeError::TooDeep(256)));
    assert!(decode(&nested(100_000)).is_err());
}

#[test]
fn a_value_deeper_than_the_limit_is_not_sent() {
    let deep = (0..300).fold(Expr::Null, |inner, _| Expr::Array(vec![inner]));
    let refused = Message::Push(deep).encode(Profile::Current, &LIMITS);
    assert_eq!(refused, Err(EncodeError::TooDeep));
}

#[test]
fn a_peer_of_0_4_never_gets_a_form_it_does_not_know() {
    let known = |text: &str| {
        let message = decode(text).expect(text);
        message.encode(Profile::V0_4, &LIMITS)
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

/// A small generator of our own: the same texts on every machine, for ever.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit.max(1) as u64).expect("less than a usize")
    }
}

/// Bytes that matter to a reader of this protocol.
const TOKENS: [&[u8]; 24] = [
    b"[",
    b"]",
    b"{",
    b"}",
    b",",
    b":",
    b"\"",
    b"\\",
    b"\\u",
    b"\\ud800",
    b"-",
    b"1e400",
    b"0.",
    b"[[",
    b"]]",
    b"null",
    b"[\"export\",-1]",
    b"[\"pipeline\",0",
    b"[\"bytes\",\"A\"",
    b"\xff",
    b"\xf0\x9f",
    b"\0",
    b"9007199254740993",
    b"[\"date\",",
];

fn mutate(random: &mut Random, seed: &[u8], other: &[u8]) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..=random.below(2) {
        let at = random.below(bytes.len() + 1);
        let end = (at + random.below(9)).min(bytes.len());
        match random.below(9) {
            0 => drop(bytes.drain(at..end)),
            1 => drop(bytes.splice(at..at, TOKENS[random.below(TOKENS.len())].iter().copied())),
            2 => drop(bytes.splice(at..end, TOKENS[random.below(TOKENS.len())].iter().copied())),
            3 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            4 => {
                let from = random.below(other.len());
                drop(bytes.splice(at..end, other[from..].iter().copied().take(40)));
            }
            5 => bytes.truncate(bytes.len() - bytes.len() / 9),
            // Other digits and letters: mostly still a message, but another one.
            _ => {
                let plain = |byte: &&mut u8| byte.is_ascii_alphanumeric();
                if let Some(byte) = bytes[at..].iter_mut().find(plain) {
                    *byte = b"0123456789azAZ"[random.below(14)];
                }
            }
        }
    }
    bytes
}

#[test]
fn a_million_mutated_messages_neither_panic_nor_change_when_printed_again() {
    let mut seeds = vectors("messages.txt");
    let wrap = |value: String| format!("[\"push\",{value}]");
    seeds.extend(vectors("values.txt").into_iter().map(wrap));
    seeds.extend(vectors("verdicts.txt").iter().map(|line| wrap(line[1..].to_owned())));
    seeds.extend(vectors("corpus.txt"));
    seeds.retain(|seed| seed.len() < 400);
    let mut random = Random(0x5eed_cafe_f00d_d00d);
    let mut read = 0_u32;
    for _ in 0..1_000_000 {
        let seed = seeds[random.below(seeds.len())].as_bytes();
        let other = seeds[random.below(seeds.len())].as_bytes();
        let bytes = mutate(&mut random, seed, other);
        let text = String::from_utf8_lossy(&bytes);
        let Ok(message) = decode(&text) else {
            continue;
        };
        read += 1;
        let printed = encode(&message);
        let again = decode(&printed).expect(&printed);
        assert_eq!(encode(&again), printed, "{text}");
    }
    assert!(read > 50_000, "only {read} mutants were messages: the test says little");
}
