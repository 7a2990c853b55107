//! Values that are secrets by their shape: tokens of known issuers, private keys, random text.

use std::ops::Range;

use super::REDACTED;

/// How tokens of known issuers begin, and the shortest run of letters and digits that must follow.
const ISSUERS: [(&str, usize); 73] = [
    ("sk-", 10),
    ("sk_live_", 8),
    ("sk_test_", 8),
    ("rk_live_", 8),
    ("rk_test_", 8),
    ("sk_", 20),
    ("csk-", 16),
    ("whsec_", 8),
    ("ghp_", 10),
    ("gho_", 10),
    ("ghu_", 10),
    ("ghs_", 10),
    ("ghr_", 10),
    ("github_pat_", 8),
    ("glpat-", 8),
    ("gldt-", 8),
    ("glptt-", 8),
    ("glrt-", 8),
    ("gloas-", 8),
    ("glcbt-", 8),
    ("glsa_", 16),
    ("glc_", 16),
    ("AIza", 16),
    ("ya29.", 10),
    ("xoxa-", 8),
    ("xoxb-", 8),
    ("xoxc-", 8),
    ("xoxd-", 8),
    ("xoxe-", 8),
    ("xoxe.", 8),
    ("xoxp-", 8),
    ("xoxr-", 8),
    ("xoxs-", 8),
    ("xapp-", 8),
    ("npm_", 16),
    ("pypi-", 16),
    ("hf_", 16),
    ("gsk_", 16),
    ("xai-", 16),
    ("SG.", 12),
    ("dop_v1_", 10),
    ("doo_v1_", 10),
    ("dor_v1_", 10),
    ("shpat_", 10),
    ("shpca_", 10),
    ("shppa_", 10),
    ("shpss_", 10),
    ("tvly-", 12),
    ("pplx-", 16),
    ("r8_", 16),
    ("lin_api_", 10),
    ("ntn_", 16),
    ("figd_", 10),
    ("eyJ", 10),
    ("dckr_pat_", 8),
    ("nvapi-", 16),
    ("sbp_", 16),
    ("sb_secret_", 8),
    ("lsv2_pt_", 10),
    ("hvs.", 12),
    ("hvb.", 12),
    ("PMAK-", 12),
    ("NRAK-", 12),
    ("sntrys_", 12),
    ("sntryu_", 12),
    ("ATATT", 16),
    ("ATCTT", 16),
    ("pul-", 20),
    ("dapi", 32),
    ("fc-", 20),
    ("AGE-SECRET-KEY-", 16),
    ("CFPAT-", 12),
    ("ops_eyJ", 10),
];

/// The shortest random text that is hidden; ids of sessions and messages are shorter.
const SHORTEST_RANDOM: usize = 32;

/// Hides tokens, keys of AWS and random text, wherever they are.
pub(super) fn redact_shapes(text: &str) -> String {
    let is_token = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let text = redact_runs(text, is_token, find_token);
    redact_runs(&text, |c| c.is_ascii_alphanumeric() || "+/=".contains(c), find_random)
}

/// Hides in each run of such characters the range that `find` names.
fn redact_runs(
    text: &str,
    is_part: impl Fn(char) -> bool,
    find: impl Fn(&str) -> Option<Range<usize>>,
) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(&is_part) {
        let (before, from) = rest.split_at(start);
        let (run, after) = from.split_at(from.find(|c| !is_part(c)).unwrap_or(from.len()));
        shown.push_str(before);
        match find(run) {
            Some(range) => {
                shown.push_str(&run[..range.start]);
                shown.push_str(REDACTED);
                shown.push_str(&run[range.end..]);
            }
            None => shown.push_str(run),
        }
        rest = after;
    }
    shown.push_str(rest);
    shown
}

/// The range of a token of a known issuer in a run of characters, from its prefix to the end.
fn find_token(run: &str) -> Option<Range<usize>> {
    let mut before = None;
    for (at, c) in run.char_indices() {
        let begins = before.is_none_or(|c: char| !c.is_ascii_alphanumeric());
        if begins && is_token(&run[at..]) {
            return Some(at..run.len());
        }
        before = Some(c);
    }
    None
}

fn is_token(text: &str) -> bool {
    if is_aws_key(text) {
        return true;
    }
    ISSUERS.iter().any(|(prefix, shortest)| {
        let Some(rest) = text.strip_prefix(prefix) else { return false };
        let runs = rest.split(|c: char| !c.is_ascii_alphanumeric());
        let longest = runs.map(str::len).max().unwrap_or(0);
        // `npm_config_registry` and `sk-learn` are words, not tokens.
        let is_mixed = rest.contains(|c: char| c.is_ascii_digit() || c.is_ascii_uppercase());
        longest >= *shortest && (is_mixed || longest >= 16)
    })
}

/// `AKIA` or `ASIA` and 16 capitals or digits.
fn is_aws_key(text: &str) -> bool {
    let rest = text.strip_prefix("AKIA").or(text.strip_prefix("ASIA")).unwrap_or_default();
    let end = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
    end == 16 && rest[..end].chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit())
}

fn find_random(run: &str) -> Option<Range<usize>> {
    is_random(run).then_some(0..run.len())
}

/// True for long text whose characters change their kind as often as random ones.
///
/// Hexadecimal text never does, so hashes and UUIDs are not random in this sense; nor are words in
/// camel case, because they change less often.
fn is_random(run: &str) -> bool {
    let kind = |c: u8| match c {
        b'0'..=b'9' => 0,
        b'a'..=b'z' => 1,
        b'A'..=b'Z' => 2,
        _ => 3,
    };
    let bytes = run.as_bytes();
    let count = |wanted: u8| bytes.iter().filter(|byte| kind(**byte) == wanted).count();
    let changes = bytes.windows(2).filter(|pair| kind(pair[0]) != kind(pair[1])).count();
    bytes.len() >= SHORTEST_RANDOM
        && (0..=2).all(|kind| count(kind) >= 3)
        && changes * 2 >= bytes.len() - 1
}

/// True for a word that reads like a value rather than like prose: letters and digits mixed.
pub(super) fn is_value_like(word: &str, shortest: usize) -> bool {
    let word = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    let has = |test: fn(&char) -> bool| word.chars().any(|c| test(&c));
    let is_mixed = has(char::is_ascii_digit) && has(char::is_ascii_alphabetic);
    let has_both_cases = has(char::is_ascii_lowercase) && has(char::is_ascii_uppercase);
    word.len() >= shortest
        && (is_mixed || word.len() >= 16 && has_both_cases)
        && !word.contains('/')
}

/// Hides private keys in PEM; one without an end, to the end of the text.
pub(super) fn redact_private_keys(text: &str) -> String {
    const BEGIN: &str = "-----BEGIN ";
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(BEGIN) {
        let (before, key) = rest.split_at(at);
        shown.push_str(before);
        let label = &key[BEGIN.len()..];
        let label_end = label.find("-----").unwrap_or(label.len());
        if !label[..label_end].contains("PRIVATE KEY") {
            shown.push_str(BEGIN);
            rest = label;
            continue;
        }
        shown.push_str(REDACTED);
        rest = match label.split_once("-----END ").and_then(|(_, end)| end.split_once("-----")) {
            Some((_, after)) => after,
            None => "",
        };
    }
    shown.push_str(rest);
    shown
}
