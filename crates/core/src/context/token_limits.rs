//! How many tokens fit, and how many a text is taken for.

use serde_json::Number;

use crate::model::TokenCounts;

/// Tokens held back for the answer, unless configured.
const DEFAULT_RESERVED_TOKENS: u64 = 20_000;
/// The longest answer asked for, unless configured.
const DEFAULT_MAX_OUTPUT: u64 = 32_000;

/// What a model can take; 0 means unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModelLimits {
    /// Input and output together.
    pub context: u64,
    /// Input alone, where the provider limits it.
    pub input: u64,
    /// Output alone.
    pub output: u64,
}

/// The `compaction` setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompactionSettings {
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

impl Default for CompactionSettings {
    fn default() -> Self {
        Self {
            auto: true,
            reserved: None,
            tail_turns: None,
            preserve_recent_tokens: None,
            output_max: DEFAULT_MAX_OUTPUT,
        }
    }
}

/// The longest answer asked of a model.
fn max_output(limits: ModelLimits, settings: &CompactionSettings) -> u64 {
    match limits.output.min(settings.output_max) {
        0 => settings.output_max,
        known => known,
    }
}

/// How many tokens a conversation may have before it is compacted.
#[must_use]
pub fn usable_tokens(limits: ModelLimits, settings: &CompactionSettings) -> u64 {
    let max_output = max_output(limits, settings);
    if limits.input > 0 {
        let reserved = settings.reserved.unwrap_or_else(|| DEFAULT_RESERVED_TOKENS.min(max_output));
        limits.input.saturating_sub(reserved)
    } else {
        limits.context.saturating_sub(max_output)
    }
}

/// The tokens of a step: what the provider totalled, else input, output and both caches.
#[must_use]
pub fn token_count(tokens: &TokenCounts) -> f64 {
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
pub fn is_overflow(
    tokens: &TokenCounts,
    limits: ModelLimits,
    settings: &CompactionSettings,
) -> bool {
    settings.auto
        && limits.context > 0
        && token_count(tokens) >= usable_tokens(limits, settings) as f64
}

/// How many tokens a text is taken for: a quarter of its UTF-16 units, rounded as JavaScript does.
#[must_use]
pub fn estimate_tokens(text: &str) -> u64 {
    (text.encode_utf16().count() as u64 + 2) / 4
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(input: u64, output: u64, read: u64) -> TokenCounts {
        let mut tokens =
            TokenCounts { input: input.into(), output: output.into(), ..TokenCounts::default() };
        tokens.cache.read = read.into();
        tokens
    }

    fn limits(context: u64, input: u64, output: u64) -> ModelLimits {
        ModelLimits { context, input, output }
    }

    fn overflows(tokens: &TokenCounts, limits: ModelLimits) -> bool {
        is_overflow(tokens, limits, &CompactionSettings::default())
    }

    #[test]
    fn overflow_begins_at_usable_size() {
        let limits = limits(100_000, 0, 32_000);
        assert_eq!(usable_tokens(limits, &CompactionSettings::default()), 68_000);
        assert!(overflows(&tokens(75_000, 5_000, 0), limits));
        assert!(overflows(&tokens(68_000, 0, 0), limits));
        assert!(!overflows(&tokens(67_999, 0, 0), limits));
    }

    #[test]
    fn cached_tokens_count() {
        let limits = limits(100_000, 0, 32_000);
        assert!(overflows(&tokens(10_000, 10_000, 50_000), limits));
        assert!(!overflows(&tokens(10_000, 10_000, 40_000), limits));
        let mut written = tokens(60_000, 0, 0);
        written.cache.write = 8_000.into();
        assert!(overflows(&written, limits));
    }

    #[test]
    fn input_limit_keeps_headroom() {
        let limits = limits(400_000, 272_000, 128_000);
        assert_eq!(usable_tokens(limits, &CompactionSettings::default()), 252_000);
        assert!(overflows(&tokens(252_000, 0, 0), limits));
        assert!(!overflows(&tokens(251_999, 0, 0), limits));
        let small = ModelLimits { output: 8_000, ..limits };
        assert_eq!(usable_tokens(small, &CompactionSettings::default()), 264_000);
    }

    #[test]
    fn input_and_context_limits_agree_near_boundary() {
        let used = tokens(180_000, 15_000, 3_000);
        assert!(overflows(&used, limits(200_000, 200_000, 32_000)));
        assert!(overflows(&used, limits(200_000, 0, 32_000)));
    }

    #[test]
    fn unknown_context_never_overflows() {
        assert!(!overflows(&tokens(1_000_000, 0, 0), limits(0, 0, 32_000)));
        assert!(!overflows(&tokens(1_000_000, 0, 0), limits(0, 100, 32_000)));
    }

    #[test]
    fn disabled_compaction_never_overflows() {
        let settings = CompactionSettings { auto: false, ..CompactionSettings::default() };
        assert!(!is_overflow(&tokens(1_000_000, 0, 0), limits(1_000, 0, 100), &settings));
    }

    #[test]
    fn provider_total_takes_precedence() {
        let mut counted = tokens(1, 2, 3);
        counted.total = Some(100.into());
        assert!((token_count(&counted) - 100.0).abs() < f64::EPSILON);
        counted.total = Some(0.into());
        assert!((token_count(&counted) - 6.0).abs() < f64::EPSILON);
    }

    #[test]
    fn configured_limits_replace_defaults() {
        let reserved =
            CompactionSettings { reserved: Some(1_000), ..CompactionSettings::default() };
        assert_eq!(usable_tokens(limits(50_000, 40_000, 0), &reserved), 39_000);
        // The reserve belongs to the input limit only.
        assert_eq!(usable_tokens(limits(50_000, 0, 0), &reserved), 18_000);
        let output_max = CompactionSettings { output_max: 64_000, ..CompactionSettings::default() };
        assert_eq!(usable_tokens(limits(100_000, 0, 100_000), &output_max), 36_000);
        assert_eq!(usable_tokens(limits(10_000, 0, 100_000), &output_max), 0);
    }

    #[test]
    fn estimate_is_a_quarter_of_utf16_units() {
        for (length, expected) in [(0, 0), (1, 0), (2, 1), (4, 1), (5, 1), (6, 2), (4_000, 1_000)] {
            assert_eq!(estimate_tokens(&"x".repeat(length)), expected, "{length}");
        }
        assert_eq!(estimate_tokens("𝄞𝄞"), 1, "two units each, as JavaScript counts");
    }
}
