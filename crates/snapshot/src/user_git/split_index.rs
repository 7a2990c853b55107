//! A split index: the changes of one half applied to the other, which is shared.

use super::git_index::{GitIndex, GitIndexError, IndexReader};

/// The extension that names the shared half and says which of its entries still count.
#[derive(Debug)]
pub(super) struct SplitIndexLink {
    /// The name of the shared half, as its file is called.
    pub(super) base: String,
    removed: Vec<bool>,
    replaced: Vec<bool>,
}

impl SplitIndexLink {
    pub(super) fn parse(data: &[u8], width: usize) -> Result<Option<Self>, GitIndexError> {
        let mut reader = IndexReader { rest: data };
        let base = reader.take(width)?;
        if base.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        let base = base.iter().map(|byte| format!("{byte:02x}")).collect();
        if reader.rest.is_empty() {
            return Ok(Some(Self { base, removed: Vec::new(), replaced: Vec::new() }));
        }
        let (removed, replaced) = (read_ewah_bitmap(&mut reader)?, read_ewah_bitmap(&mut reader)?);
        Ok(Some(Self { base, removed, replaced }))
    }

    /// Puts both halves together.
    pub(super) fn join_halves(
        &self,
        base: &GitIndex,
        own: &GitIndex,
    ) -> Result<GitIndex, GitIndexError> {
        let mut all = GitIndex { time: base.time.min(own.time), ..GitIndex::default() };
        // Replacements come first and have no path of their own: they stand in the shared half's order.
        let (nameless, named) = own.entries.split_at(
            own.entries.iter().position(|it| !own.path(it).is_empty()).unwrap_or(own.entries.len()),
        );
        let mut nameless = nameless.iter();
        let is_set = |bits: &[bool], at: usize| bits.get(at).copied().unwrap_or_default();
        let mut named = named.iter().peekable();
        for (at, entry) in base.entries.iter().enumerate() {
            let path = base.path(entry);
            while let Some(own_entry) = named.next_if(|it| own.path(it) < path) {
                all.push(own_entry, own.path(own_entry))?;
            }
            let replaced = is_set(&self.replaced, at);
            let newer =
                replaced.then(|| nameless.next().ok_or(GitIndexError("too few replacements")));
            let entry = newer.transpose()?.unwrap_or(entry);
            if !is_set(&self.removed, at) {
                all.push(entry, path)?;
            }
        }
        named.try_for_each(|entry| all.push(entry, own.path(entry)))?;
        match nameless.next() {
            Some(_) => Err(GitIndexError("too many replacements")),
            None => Ok(all),
        }
    }
}

/// Reads a bitmap of runs and literal words (EWAH).
fn read_ewah_bitmap(reader: &mut IndexReader<'_>) -> Result<Vec<bool>, GitIndexError> {
    let bits = reader.number()? as usize;
    let words = reader.number()? as usize;
    let bytes = reader.take(words.checked_mul(8).ok_or(GitIndexError("huge bitmap"))?)?;
    reader.number()?;
    let mut words = bytes
        .chunks_exact(8)
        .map(|word| word.iter().fold(0_u64, |value, byte| value << 8 | u64::from(*byte)));
    let mut found = Vec::new();
    while let Some(word) = words.next() {
        let run = (word >> 1 & 0xffff_ffff) as usize;
        let literals = word >> 33;
        // A run beyond the end says nothing, however long it claims to be.
        let end = run.saturating_mul(64).saturating_add(found.len()).min(bits.max(found.len()));
        if end > 1 << 28 {
            return Err(GitIndexError("huge bitmap"));
        }
        found.resize(end, word & 1 == 1);
        for _ in 0..literals {
            let word = words.next().ok_or(GitIndexError("cut off"))?;
            found.extend((0..64).map(|bit| word >> bit & 1 == 1));
        }
    }
    found.truncate(bits);
    Ok(found)
}
