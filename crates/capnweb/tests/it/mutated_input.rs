//! A million texts that nobody wrote: nothing panics, nothing grows, nothing changes on the way (R36).

use std::path::Path;

use crate::check;

/// A small generator of our own: the same texts on every machine, always.
struct MutantRng(u64);

impl MutantRng {
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

fn mutate(random: &mut MutantRng, seed: &[u8], other: &[u8]) -> Vec<u8> {
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

/// The committed corpus: what npm sends, what it refuses, and what stands in neither.
fn seeds() -> Vec<String> {
    let vectors = |name: &str| -> Vec<String> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors").join(name);
        let text = fs_err::read_to_string(path).expect("the vectors are in the repository");
        text.lines().map(str::to_owned).collect()
    };
    let wrap = |value: String| format!("[\"push\",{value}]");
    let mut seeds = vectors("messages.txt");
    seeds.extend(vectors("values.txt").into_iter().map(wrap));
    seeds.extend(vectors("value-validity.txt").iter().map(|line| wrap(line[1..].to_owned())));
    seeds.extend(vectors("fuzz-seeds.txt"));
    seeds.retain(|seed| seed.len() < 400);
    seeds
}

struct MutantGenerator {
    seeds: Vec<String>,
    random: MutantRng,
}

impl MutantGenerator {
    fn of(seed: u64) -> Self {
        Self { seeds: seeds(), random: MutantRng(seed) }
    }

    fn next(&mut self) -> String {
        let seed = self.seeds[self.random.below(self.seeds.len())].as_bytes();
        let other = self.seeds[self.random.below(self.seeds.len())].as_bytes();
        String::from_utf8_lossy(&mutate(&mut self.random, seed, other)).into_owned()
    }
}

/// Proves R36.
#[test]
fn million_mutated_messages_never_panic_and_round_trip() {
    let mut mutants = MutantGenerator::of(0x5eed_cafe_f00d_d00d);
    let read = (0..1_000_000).filter(|_| check::message(&mutants.next())).count();
    assert!(read > 50_000, "only {read} mutants were messages: the test says little");
}

/// Proves R36.
#[test]
fn mutated_messages_break_only_their_session() {
    let mut mutants = MutantGenerator::of(0x0bad_5eed_0bad_5eed);
    let (mut sessions, mut taken) = (0, 0);
    while taken < 20_000 {
        sessions += 1;
        let lines = std::iter::from_fn(|| Some(mutants.next()));
        taken += check::session(lines.take(200));
    }
    assert!(sessions > 100, "{sessions} sessions took {taken} mutants");
}

/// Proves R36.
#[test]
fn regression_corpus_passes() {
    let seeds = seeds();
    let read = seeds.iter().filter(|seed| check::message(seed)).count();
    let taken: usize = seeds.iter().map(|seed| check::session(std::iter::once(seed))).sum();
    assert!(read > seeds.len() / 2 && taken == seeds.len());
}
