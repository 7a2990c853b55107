//! How many tokens fit, and how many a text is taken for.

use serde_json::Number;

use crate::model::Tokens;

/// Tokens held back for the answer, unless configured.
const RESERVE: u64 = 20_000;
/// The longest answer asked for, unless configured.
const OUTPUT_MAX: u64 = 32_000;

/// What a model can take; 0 means unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Input and output together.
    pub context: u64,
    /// Input alone, where the provider limits it.
    pub input: u64,
    /// Output alone.
    pub output: u64,
}

/// The `compaction` setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Compact without being asked.
    pub auto: bool,
    /// Tokens held back for the answer.
    pub reserved: Option<u64>,
    /// How many turns a compaction keeps as they are; none for no limit.
    pub tail_turns: Option<usize>,
    /// How many tokens those turns may take.
    pub preserve_recent_tokens: Option<u64>,
    /// The longest answer asked for.
    pub output_max: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            auto: true,
            reserved: None,
            tail_turns: None,
            preserve_recent_tokens: None,
            output_max: OUTPUT_MAX,
        }
    }
}

/// The longest answer asked of a model.
fn max_output(limits: Limits, settings: &Settings) -> u64 {
    match limits.output.min(settings.output_max) {
        0 => settings.output_max,
        known => known,
    }
}

/// How many tokens a conversation may have before it is compacted.
#[must_use]
pub fn usable(limits: Limits, settings: &Settings) -> u64 {
    let max_output = max_output(limits, settings);
    if limits.input > 0 {
        let reserved = settings.reserved.unwrap_or_else(|| RESERVE.min(max_output));
        limits.input.saturating_sub(reserved)
    } else {
        limits.context.saturating_sub(max_output)
    }
}

/// The tokens of a step: what the provider totalled, else input, output and both caches.
#[must_use]
pub fn token_count(tokens: &Tokens) -> f64 {
    let value = |number: &Number| number.as_f64().unwrap_or(0.0);
    match tokens.total.as_ref().map(value) {
        Some(total) if total != 0.0 => total,
        _ => {
            let cache = value(&tokens.cache.read) + value(&tokens.cache.write);
            value(&tokens.input) + value(&tokens.output) + cache
        }
    }
}

/// True if a step of these tokens leaves no room for the next.
///
/// Never with automatic compaction switched off, nor for a model whose context is unknown.
#[must_use]
pub fn is_overflow(tokens: &Tokens, limits: Limits, settings: &Settings) -> bool {
    settings.auto && limits.context > 0 && token_count(tokens) >= usable(limits, settings) as f64
}

/// How many tokens a text is taken for: a quarter of its UTF-16 units, rounded as JavaScript does.
#[must_use]
pub fn estimate(text: &str) -> u64 {
    (text.encode_utf16().count() as u64 + 2) / 4
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(input: u64, output: u64, read: u64) -> Tokens {
        let mut tokens = Tokens { input: input.into(), output: output.into(), ..Tokens::default() };
        tokens.cache.read = read.into();
        tokens
    }

    fn limits(context: u64, input: u64, output: u64) -> Limits {
        Limits { context, input, output }
    }

    fn overflows(tokens: &Tokens, limits: Limits) -> bool {
        is_overflow(tokens, limits, &Settings::default())
    }

    #[test]
    fn section_12_4_overflow_begins_at_the_usable_size() {
        let limits = limits(100_000, 0, 32_000);
        assert_eq!(usable(limits, &Settings::default()), 68_000);
        assert!(overflows(&tokens(75_000, 5_000, 0), limits));
        assert!(overflows(&tokens(68_000, 0, 0), limits));
        assert!(!overflows(&tokens(67_999, 0, 0), limits));
    }

    #[test]
    fn section_12_4_cached_tokens_count() {
        let limits = limits(100_000, 0, 32_000);
        assert!(overflows(&tokens(10_000, 10_000, 50_000), limits));
        assert!(!overflows(&tokens(10_000, 10_000, 40_000), limits));
        let mut written = tokens(60_000, 0, 0);
        written.cache.write = 8_000.into();
        assert!(overflows(&written, limits));
    }

    #[test]
    fn section_12_4_an_input_limit_keeps_headroom() {
        let limits = limits(400_000, 272_000, 128_000);
        assert_eq!(usable(limits, &Settings::default()), 252_000);
        assert!(overflows(&tokens(252_000, 0, 0), limits));
        assert!(!overflows(&tokens(251_999, 0, 0), limits));
        let small = Limits { output: 8_000, ..limits };
        assert_eq!(usable(small, &Settings::default()), 264_000);
    }

    #[test]
    fn section_12_4_near_the_boundary_it_makes_no_difference_how_the_limit_is_given() {
        let used = tokens(180_000, 15_000, 3_000);
        assert!(overflows(&used, limits(200_000, 200_000, 32_000)));
        assert!(overflows(&used, limits(200_000, 0, 32_000)));
    }

    #[test]
    fn section_12_4_an_unknown_context_never_overflows() {
        assert!(!overflows(&tokens(1_000_000, 0, 0), limits(0, 0, 32_000)));
        assert!(!overflows(&tokens(1_000_000, 0, 0), limits(0, 100, 32_000)));
    }

    #[test]
    fn section_12_4_no_overflow_when_switched_off() {
        let settings = Settings { auto: false, ..Settings::default() };
        assert!(!is_overflow(&tokens(1_000_000, 0, 0), limits(1_000, 0, 100), &settings));
    }

    #[test]
    fn section_8_1_a_total_of_the_provider_goes_first() {
        let mut counted = tokens(1, 2, 3);
        counted.total = Some(100.into());
        assert!((token_count(&counted) - 100.0).abs() < f64::EPSILON);
        counted.total = Some(0.into());
        assert!((token_count(&counted) - 6.0).abs() < f64::EPSILON);
    }

    #[test]
    fn section_8_1_configured_values_replace_the_built_in_ones() {
        let reserved = Settings { reserved: Some(1_000), ..Settings::default() };
        assert_eq!(usable(limits(50_000, 40_000, 0), &reserved), 39_000);
        // The reserve belongs to the input limit only.
        assert_eq!(usable(limits(50_000, 0, 0), &reserved), 18_000);
        let output_max = Settings { output_max: 64_000, ..Settings::default() };
        assert_eq!(usable(limits(100_000, 0, 100_000), &output_max), 36_000);
        assert_eq!(usable(limits(10_000, 0, 100_000), &output_max), 0);
    }

    #[test]
    fn section_12_4_an_estimate_is_a_quarter_of_the_characters_rounded() {
        for (length, expected) in [(0, 0), (1, 0), (2, 1), (4, 1), (5, 1), (6, 2), (4_000, 1_000)] {
            assert_eq!(estimate(&"x".repeat(length)), expected, "{length}");
        }
        assert_eq!(estimate("𝄞𝄞"), 1, "two units each, as JavaScript counts");
    }
}
