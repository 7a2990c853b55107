//! Hashing ids: quick, and not to be foreseen by the peer that chooses them.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};

/// A map from ids.
pub(crate) type IdMap<K, V> = HashMap<K, V, IdHashBuilder>;

/// Two secrets; every map has its own.
#[derive(Clone)]
pub(crate) struct IdHashBuilder {
    mask: u64,
    factor: u64,
}

impl Default for IdHashBuilder {
    fn default() -> Self {
        let random = RandomState::new();
        Self { mask: random.hash_one(0), factor: random.hash_one(1) | 1 }
    }
}

impl BuildHasher for IdHashBuilder {
    type Hasher = IdHasher;

    fn build_hasher(&self) -> IdHasher {
        IdHasher { state: self.mask, factor: self.factor }
    }
}

/// Bits without a pattern: those of the golden ratio.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Multiplies and folds the halves of the product: every bit of either counts.
fn fold_multiply(number: u64, factor: u64) -> u64 {
    let product = u128::from(number) * u128::from(factor);
    (product as u64) ^ ((product >> 64) as u64)
}

pub(crate) struct IdHasher {
    state: u64,
    factor: u64,
}

impl Hasher for IdHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, number: u64) {
        self.state = fold_multiply(self.state ^ number, self.factor);
    }

    fn write_i64(&mut self, number: i64) {
        self.write_u64(number.cast_unsigned());
    }

    fn finish(&self) -> u64 {
        // Once more: ids that differ in few bits would share buckets under some secrets.
        fold_multiply(self.state, SPREAD)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn id_hashes_spread_over_low_and_high_bits() {
        for _ in 0..200 {
            let hash = IdHashBuilder::default();
            let ids = (-500..500).flat_map(|id: i64| [id, id << 32, id << 44]);
            let ids: HashSet<_> = ids.collect();
            let hashes: Vec<u64> = ids.iter().map(|id| hash.hash_one(id)).collect();
            let low: HashSet<_> = hashes.iter().map(|hash| hash & 0xfff).collect();
            let high: HashSet<_> = hashes.iter().map(|hash| hash >> 57).collect();
            // Dice would use 2128 of the 4096 buckets.
            assert!(low.len() > 1_700, "{} buckets are used", low.len());
            assert!(high.len() > 120, "{} tags are used", high.len());
        }
    }
}
