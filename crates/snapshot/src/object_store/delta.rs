//! Deltas: an object as copies from another one plus new bytes, as git writes them.
//!
//! Pure: bytes in, bytes out. A delta is stored only after it was checked to restore the object.

/// Bytes that must be equal before a copy is thought of.
const BLOCK_BYTES: usize = 16;
/// How many equal-looking places of the base are tried: a file of equal lines has too many.
const MAX_CANDIDATES: usize = 12;
/// The longest copy one instruction can name.
const MAX_COPY_BYTES: usize = 0x00ff_ffff;
/// The longest run of new bytes one instruction can carry.
const MAX_INSERT_BYTES: usize = 0x7f;
/// Multiplier of the rolling hash.
const HASH_MULTIPLIER: u32 = 0x0100_0193;

/// Tells `target` as a change of `base`; `None` if that takes more than `limit` bytes.
pub(crate) fn encode_delta(base: &[u8], target: &[u8], limit: usize) -> Option<Vec<u8>> {
    if u32::try_from(base.len()).is_err() || u32::try_from(target.len()).is_err() {
        return None;
    }
    let head = common_prefix_len(base, target);
    let tail = common_suffix_len(&base[head..], &target[head..]);
    let mut script = DeltaScript { out: Vec::new(), limit };
    push_size(&mut script.out, base.len());
    push_size(&mut script.out, target.len());
    script.copy(0, head)?;
    let middle = &target[head..target.len() - tail];
    if middle.len() < BLOCK_BYTES {
        script.insert(middle)?;
    } else {
        BlockIndex::of(base).encode_target(middle, &mut script)?;
    }
    script.copy(base.len() - tail, tail)?;
    Some(script.out)
}

/// Applies a delta; `None` if it is not one of `base`.
pub(crate) fn apply_delta(base: &[u8], delta: &[u8]) -> Option<Vec<u8>> {
    let mut rest = delta;
    let from = take_size(&mut rest)?;
    let size = take_size(&mut rest)?;
    if from != base.len() {
        return None;
    }
    let mut out = Vec::with_capacity(size);
    while let Some((code, after)) = rest.split_first() {
        rest = after;
        if code & 0x80 == 0 {
            let (bytes, after) = rest.split_at_checked(usize::from(*code)).filter(|_| *code > 0)?;
            out.extend_from_slice(bytes);
            rest = after;
            continue;
        }
        let mut number = |bits: std::ops::Range<u32>| {
            let mut value = 0;
            for (place, bit) in bits.enumerate() {
                if code >> bit & 1 == 1 {
                    let (byte, after) = rest.split_first()?;
                    value |= usize::from(*byte) << (8 * place);
                    rest = after;
                }
            }
            Some(value)
        };
        let offset = number(0..4)?;
        let length = Some(number(4..7)?).filter(|length| *length > 0).unwrap_or(0x1_0000);
        out.extend_from_slice(base.get(offset..offset.checked_add(length)?)?);
    }
    (out.len() == size).then_some(out)
}

fn common_prefix_len(one: &[u8], other: &[u8]) -> usize {
    let blocks = one.chunks_exact(64).zip(other.chunks_exact(64));
    let start = 64 * blocks.take_while(|(one, other)| one == other).count();
    let rest = one[start..].iter().zip(&other[start..]);
    start + rest.take_while(|(one, other)| one == other).count()
}

fn common_suffix_len(one: &[u8], other: &[u8]) -> usize {
    let blocks = one.rchunks_exact(64).zip(other.rchunks_exact(64));
    let start = 64 * blocks.take_while(|(one, other)| one == other).count();
    let rest = one[..one.len() - start].iter().rev().zip(other[..other.len() - start].iter().rev());
    start + rest.take_while(|(one, other)| one == other).count()
}

fn push_size(out: &mut Vec<u8>, mut size: usize) {
    while size >= 0x80 {
        out.push(size as u8 | 0x80);
        size >>= 7;
    }
    out.push(size as u8);
}

fn take_size(rest: &mut &[u8]) -> Option<usize> {
    let (mut size, mut shift) = (0_usize, 0);
    loop {
        let (byte, after) = rest.split_first()?;
        *rest = after;
        size |= usize::from(byte & 0x7f).checked_shl(shift)?;
        shift += 7;
        if byte & 0x80 == 0 {
            return Some(size);
        }
    }
}

/// The instructions so far.
struct DeltaScript {
    out: Vec<u8>,
    limit: usize,
}

impl DeltaScript {
    fn copy(&mut self, mut offset: usize, mut length: usize) -> Option<()> {
        while length > 0 {
            let part = length.min(MAX_COPY_BYTES);
            let at = self.out.len();
            self.out.push(0x80);
            let mut code = 0x80;
            for (bit, byte) in (offset as u32).to_le_bytes().into_iter().enumerate() {
                if byte != 0 {
                    code |= 1 << bit;
                    self.out.push(byte);
                }
            }
            let short = if part == 0x1_0000 { 0 } else { part as u32 };
            for (bit, byte) in short.to_le_bytes().into_iter().take(3).enumerate() {
                if byte != 0 {
                    code |= 0x10 << bit;
                    self.out.push(byte);
                }
            }
            self.out[at] = code;
            offset += part;
            length -= part;
        }
        (self.out.len() <= self.limit).then_some(())
    }

    fn insert(&mut self, bytes: &[u8]) -> Option<()> {
        if self.out.len() + bytes.len() > self.limit {
            return None;
        }
        for part in bytes.chunks(MAX_INSERT_BYTES) {
            self.out.push(part.len() as u8);
            self.out.extend_from_slice(part);
        }
        (self.out.len() <= self.limit).then_some(())
    }
}

/// Where blocks of the base are, by their hash.
struct BlockIndex<'b> {
    base: &'b [u8],
    /// The last block with a hash, plus one.
    heads: Vec<u32>,
    /// The block before it with the same hash, plus one.
    before: Vec<u32>,
    shift: u32,
}

impl<'b> BlockIndex<'b> {
    fn of(base: &'b [u8]) -> Self {
        let blocks = base.len() / BLOCK_BYTES;
        let bits = (blocks.max(16)).next_power_of_two().trailing_zeros();
        let mut index = Self {
            base,
            heads: vec![0; 1 << bits],
            before: Vec::with_capacity(blocks),
            shift: 32 - bits,
        };
        for (number, block) in base.chunks_exact(BLOCK_BYTES).enumerate() {
            let slot = index.slot(hash(block));
            index.before.push(index.heads[slot]);
            index.heads[slot] = number as u32 + 1;
        }
        index
    }

    fn slot(&self, hash: u32) -> usize {
        // The low bits of the sum are weak; the multiplication brings the others down.
        (hash.wrapping_mul(0x9e37_79b1) >> self.shift) as usize
    }

    /// Describes `target` by copies out of the base and new bytes.
    fn encode_target(&self, target: &[u8], script: &mut DeltaScript) -> Option<()> {
        let (mut at, mut fresh) = (0, 0);
        let gone = (0..BLOCK_BYTES).fold(1_u32, |power, _| power.wrapping_mul(HASH_MULTIPLIER));
        let mut sum = hash(&target[..BLOCK_BYTES]);
        while at + BLOCK_BYTES <= target.len() {
            if let Some((offset, length)) = self.longest_match(sum, &target[at..]) {
                let back = common_suffix_len(&self.base[..offset], &target[fresh..at]);
                script.insert(&target[fresh..at - back])?;
                script.copy(offset - back, length + back)?;
                at += length;
                fresh = at;
                if let Some(block) = target.get(at..at + BLOCK_BYTES) {
                    sum = hash(block);
                }
                continue;
            }
            if let Some(next) = target.get(at + BLOCK_BYTES) {
                let lost = u32::from(target[at]).wrapping_mul(gone);
                sum = sum
                    .wrapping_mul(HASH_MULTIPLIER)
                    .wrapping_add(u32::from(*next))
                    .wrapping_sub(lost);
            }
            at += 1;
            if at - fresh > script.limit {
                return None;
            }
        }
        script.insert(&target[fresh..])
    }

    /// Finds the longest piece of the base that `target` begins with, at least a block of it.
    fn longest_match(&self, sum: u32, target: &[u8]) -> Option<(usize, usize)> {
        let mut best = None;
        let mut number = self.heads[self.slot(sum)];
        for _ in 0..MAX_CANDIDATES {
            let Some(block) = (number as usize).checked_sub(1) else {
                break;
            };
            let offset = block * BLOCK_BYTES;
            let length = common_prefix_len(&self.base[offset..], target);
            if length >= BLOCK_BYTES && best.is_none_or(|(_, longest)| length > longest) {
                best = Some((offset, length));
            }
            number = self.before[block];
        }
        best
    }
}

fn hash(block: &[u8]) -> u32 {
    block
        .iter()
        .fold(0, |sum: u32, byte| sum.wrapping_mul(HASH_MULTIPLIER).wrapping_add(u32::from(*byte)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn round_trip(base: &[u8], target: &[u8]) -> usize {
        let delta = encode_delta(base, target, usize::MAX).unwrap();
        assert_eq!(apply_delta(base, &delta).as_deref(), Some(target));
        delta.len()
    }

    /// Proves R13.
    #[test]
    fn small_edit_of_large_text_gives_small_delta() {
        let lines: Vec<String> = (0..20_000).map(|line| format!("line {line}\n")).collect();
        let base = lines.concat();
        let mut edited = lines.clone();
        edited[17] = "another line\n".to_owned();
        edited[9_000] = String::new();
        edited[19_000].push_str("and one more\n");
        edited.swap(4_000, 12_000);

        assert!(round_trip(base.as_bytes(), edited.concat().as_bytes()) < 300);
        assert_eq!(encode_delta(base.as_bytes(), edited.concat().as_bytes(), 40), None);
    }

    #[test]
    fn copies_and_inserts_of_every_length_round_trip() {
        for length in [0, 1, 15, 16, 127, 128, 255, 256, 65_535, 65_536, 65_537, 1 << 24] {
            let base: Vec<u8> = (0..length as u32).map(|it| (it >> 8 ^ it) as u8).collect();
            round_trip(&base, &base);
            round_trip(&base, &[&base[..], &b"x"[..], &base[..]].concat());
            round_trip(&[&b"y"[..], &base[..]].concat(), &base);
            round_trip(&[], &base[..length.min(1000)]);
        }
        round_trip(&vec![7; 100_000], &vec![7; 90_001]);
    }

    #[test]
    fn delta_of_another_base_or_truncated_delta_is_rejected() {
        let delta = encode_delta(b"the base of it all", b"the base of it", usize::MAX).unwrap();
        assert_eq!(apply_delta(b"another base", &delta), None);
        for cut in 0..delta.len() {
            assert_eq!(apply_delta(b"the base of it all", &delta[..cut]), None);
        }
        assert_eq!(apply_delta(b"abc", &[3, 1, 0]), None);
        assert_eq!(apply_delta(b"abc", &[3, 4, 0x90, 4]), None);
    }

    proptest! {
        #[test]
        fn a_delta_gives_its_object_back(
            base in prop::collection::vec(0_u8..4, 0..600),
            target in prop::collection::vec(0_u8..4, 0..600),
            cuts in prop::collection::vec((0_usize..600, 0_usize..600), 0..6),
        ) {
            round_trip(&base, &target);
            let mut mixed = target.clone();
            for (from, to) in cuts {
                let piece: Vec<u8> = base.iter().skip(from).take(to).copied().collect();
                let at = to.min(mixed.len());
                mixed.splice(at..at, piece);
            }
            round_trip(&base, &mixed);
            round_trip(&mixed, &base);
        }
    }
}
