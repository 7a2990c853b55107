//! Prices of models, and what an answer cost.

use serde_json::{Map, Value};

/// Prices in dollars per million tokens; a price that is not known is absent and never zero.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TokenPrices {
    /// Of tokens of the request.
    pub input: Option<f64>,
    /// Of tokens of the answer, reasoning included.
    pub output: Option<f64>,
    /// Of tokens that the request reads from a cache.
    pub cache_read: Option<f64>,
    /// Of tokens that the request writes to a cache.
    pub cache_write: Option<f64>,
}

/// Prices of requests with more than a number of input tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PriceTier {
    /// The prices count for requests with more input tokens than this.
    pub above: u64,
    /// The prices.
    pub prices: TokenPrices,
}

/// The prices of a model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelPrices {
    /// The prices of ordinary requests.
    pub base: TokenPrices,
    /// The prices of large requests, the smallest size first.
    pub tiers: Vec<PriceTier>,
}

/// The tokens of one answer. Counts are inclusive: `input` contains what is read from and written to a cache,
/// `output` contains the reasoning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UsedTokens {
    /// All tokens of the request.
    pub input: u64,
    /// All tokens of the answer.
    pub output: u64,
    /// Those of the request that came from a cache.
    pub cache_read: u64,
    /// Those of the request that were written to a cache.
    pub cache_write: u64,
}

impl ModelPrices {
    /// Reads the `cost` of a model.
    ///
    /// # Errors
    ///
    /// The key whose value is not a price.
    pub(crate) fn parse(cost: &Map<String, Value>) -> Result<Self, String> {
        let base = parse_prices(cost, "")?;
        let mut tiers = Vec::new();
        if let Some(list) = cost.get("tiers").and_then(Value::as_array) {
            for tier in list.iter().filter_map(Value::as_object) {
                let above = tier.get("tier").and_then(|tier| tier.get("size")?.as_u64());
                let above = above.ok_or_else(|| "tiers".to_owned())?;
                tiers.push(PriceTier { above, prices: parse_prices(tier, "tiers.")? });
            }
        } else if let Some(large) = cost.get("context_over_200k").and_then(Value::as_object) {
            let prices = parse_prices(large, "context_over_200k.")?;
            tiers.push(PriceTier { above: 200_000, prices });
        }
        tiers.sort_by_key(|tier| tier.above);
        Ok(Self { base, tiers })
    }

    /// Returns what an answer cost in dollars; nothing if a price that it needs is not known.
    #[must_use]
    pub fn cost(&self, used: &UsedTokens) -> Option<f64> {
        let tier = self.tiers.iter().rev().find(|tier| used.input > tier.above);
        let prices = tier.map_or(&self.base, |tier| &tier.prices);
        let cached = used.cache_read.saturating_add(used.cache_write);
        let picodollars = [
            (used.input.saturating_sub(cached), prices.input),
            (used.output, prices.output),
            (used.cache_read, prices.cache_read),
            (used.cache_write, prices.cache_write),
        ]
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .try_fold(0_u128, |sum, (count, price)| Some(sum + u128::from(count) * micros(price?)))?;
        Some(picodollars as f64 / 1e12)
    }
}

/// A price in millionths of a dollar, so that sums are exact.
fn micros(price: f64) -> u128 {
    (price * 1e6).round() as u128
}

fn parse_prices(table: &Map<String, Value>, prefix: &str) -> Result<TokenPrices, String> {
    let price = |key: &str| match table.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => match value.as_f64().filter(|price| (0.0..1e9).contains(price)) {
            Some(price) => Ok(Some(price)),
            None => Err(format!("{prefix}{key}")),
        },
    };
    Ok(TokenPrices {
        input: price("input")?,
        output: price("output")?,
        cache_read: price("cache_read")?,
        cache_write: price("cache_write")?,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn prices(cost: &Value) -> ModelPrices {
        ModelPrices::parse(cost.as_object().expect("a table")).expect("prices")
    }

    #[test]
    fn cost_counts_each_kind_of_token_once() {
        let prices =
            prices(&json!({ "input": 3, "output": 15, "cache_read": 0.3, "cache_write": 3.75 }));
        let used = UsedTokens { input: 1_000, output: 50, cache_read: 100, cache_write: 200 };
        // 700 × 3 + 50 × 15 + 100 × 0.3 + 200 × 3.75 = 3630 millionths.
        assert_eq!(prices.cost(&used), Some(0.003_63));
        assert_eq!(prices.cost(&UsedTokens::default()), Some(0.0));
    }

    #[test]
    fn unknown_price_makes_the_cost_unknown_only_if_it_is_needed() {
        let prices = prices(&json!({ "input": 1, "output": 2 }));
        let used = UsedTokens { input: 10, output: 10, ..UsedTokens::default() };
        assert_eq!(prices.cost(&used), Some(0.000_03));
        assert_eq!(prices.cost(&UsedTokens { cache_read: 5, ..used }), None);
        assert_eq!(ModelPrices::default().cost(&used), None);
    }

    #[test]
    fn tier_is_chosen_by_all_input_tokens() {
        let cost = json!({ "input": 2, "output": 10, "tiers": [
            { "input": 8, "output": 30, "tier": { "type": "context", "size": 400_000 } },
            { "input": 4, "output": 20, "tier": { "type": "context", "size": 200_000 } }] });
        let prices = prices(&cost);
        let cost = |input| prices.cost(&UsedTokens { input, ..UsedTokens::default() });
        assert_eq!(cost(200_000), Some(0.4));
        assert_eq!(cost(300_000), Some(1.2));
        assert_eq!(cost(500_000), Some(4.0));
        let old =
            json!({ "input": 1, "output": 1, "context_over_200k": { "input": 2, "output": 2 } });
        assert_eq!(self::prices(&old).tiers.len(), 1);
        assert!(ModelPrices::parse(json!({ "input": -1 }).as_object().expect("a table")).is_err());
    }
}
