//! One file's change as a unified patch.

use std::collections::HashSet;
use std::ops::Range;

use gix::diff::blob::{Algorithm, InternedInput, Token, diff_with_slider_heuristics, sources};

use super::DiffOptions;
use super::binary_patch::write_binary_hunks;
use super::path_quoting::quote_path;
use crate::object_store::{FileMode, TreeLeaf};
use crate::path::RelPath;

/// Bytes looked at to tell a binary file, as git does.
const SNIFFED: usize = 8000;

/// A change as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PatchBody {
    /// A patch that `git apply` takes.
    Text(Vec<u8>),
    /// One of the sides is no text.
    Binary,
    /// One of the sides is no text: the bytes, as a patch that `git apply` takes.
    BinaryPatch(Vec<u8>),
    /// The files, or the patch, are larger than was asked for.
    TooLarge,
}

type PatchSide<'a> = Option<(TreeLeaf, &'a [u8])>;

/// Makes the patch and counts lines: added, then deleted.
pub(super) fn build_patch(
    path: &RelPath,
    before: PatchSide<'_>,
    after: PatchSide<'_>,
    options: &DiffOptions,
) -> (PatchBody, usize, usize) {
    let (old, new) = (side_bytes(before), side_bytes(after));
    let is_text = |bytes: &[u8]| {
        let is_readable = !options.only_utf8_is_text || std::str::from_utf8(bytes).is_ok();
        is_readable && !is_binary(bytes)
    };
    let compared = match is_text(old) && is_text(new) {
        true => build_text_patch(path, before, after, options),
        false => (PatchBody::Binary, 0, 0),
    };
    match compared {
        (PatchBody::Binary | PatchBody::TooLarge, ..) if options.binary_patches => {
            (build_binary_patch(path, before, after, options), 0, 0)
        }
        compared => compared,
    }
}

/// The change of a text, line by line.
fn build_text_patch(
    path: &RelPath,
    before: PatchSide<'_>,
    after: PatchSide<'_>,
    options: &DiffOptions,
) -> (PatchBody, usize, usize) {
    let (old, new) = (side_bytes(before), side_bytes(after));
    if old.len().max(new.len()) > options.max_file_bytes {
        return (PatchBody::TooLarge, 0, 0);
    }
    let lines = |bytes: &[u8]| bytes.iter().filter(|byte| **byte == b'\n').count();
    if lines(old) + lines(new) > options.max_lines
        && count_contested_lines(old, new) > options.max_lines
    {
        return (PatchBody::TooLarge, 0, 0);
    }
    let mut text = Vec::new();
    let (additions, deletions) = if is_type_change(before, after) {
        // git cannot say it in one: a file that goes and a link that comes, or the reverse.
        let (_, gone) = write_file_section(&mut text, path, before, None, options);
        let (come, _) = write_file_section(&mut text, path, None, after, options);
        (come, gone)
    } else {
        write_file_section(&mut text, path, before, after, options)
    };
    let too_large = text.len() > options.max_patch_bytes;
    (if too_large { PatchBody::TooLarge } else { PatchBody::Text(text) }, additions, deletions)
}

/// The bytes of a change that is not shown line by line; too large if there are more than are written.
fn build_binary_patch(
    path: &RelPath,
    before: PatchSide<'_>,
    after: PatchSide<'_>,
    options: &DiffOptions,
) -> PatchBody {
    if side_bytes(before).len().max(side_bytes(after).len()) > options.max_binary_bytes {
        return PatchBody::TooLarge;
    }
    let sections = match is_type_change(before, after) {
        true => vec![(before, None), (None, after)],
        false => vec![(before, after)],
    };
    let mut out = Vec::new();
    for (before, after) in sections {
        let (old, new) = (side_bytes(before), side_bytes(after));
        write_file_header(&mut out, path, before, after);
        if old != new && write_binary_hunks(&mut out, old, new).is_err() {
            return PatchBody::Binary;
        }
    }
    PatchBody::BinaryPatch(out)
}

/// True if a file became a link, or a link a file.
fn is_type_change(before: PatchSide<'_>, after: PatchSide<'_>) -> bool {
    let is_link = |side: PatchSide<'_>| side.is_some_and(|(leaf, _)| leaf.mode == FileMode::Link);
    before.is_some() && after.is_some() && is_link(before) != is_link(after)
}

fn side_bytes<'a>(side: PatchSide<'a>) -> &'a [u8] {
    side.map_or(&[], |(_, bytes)| bytes)
}

/// True if bytes are no text.
pub(super) fn is_binary(bytes: &[u8]) -> bool {
    bytes.iter().take(SNIFFED).any(|byte| *byte == 0)
}

/// How many lines are neither at an equal end of both sides nor on one side only: where there are
/// many of them, finding the fewest changes takes long.
fn count_contested_lines(old: &[u8], new: &[u8]) -> usize {
    let input = InternedInput::new(sources::byte_lines(old), sources::byte_lines(new));
    let equal = |(one, other): &(&Token, &Token)| one == other;
    let lead = input.before.iter().zip(&input.after).take_while(equal).count();
    let (before, after) = (&input.before[lead..], &input.after[lead..]);
    let trail = before.iter().rev().zip(after.iter().rev()).take_while(equal).count();
    let (before, after) = (&before[..before.len() - trail], &after[..after.len() - trail]);
    let here = |tokens: &[Token]| tokens.iter().copied().collect::<HashSet<Token>>();
    let (old_lines, new_lines) = (here(before), here(after));
    let shared = |tokens: &[Token], others: &HashSet<Token>| {
        tokens.iter().filter(|token| others.contains(token)).count()
    };
    shared(before, &new_lines) + shared(after, &old_lines)
}

/// Writes header and hunks of one file.
fn write_file_section(
    out: &mut Vec<u8>,
    path: &RelPath,
    before: PatchSide<'_>,
    after: PatchSide<'_>,
    options: &DiffOptions,
) -> (usize, usize) {
    write_file_header(out, path, before, after);
    let (old, new) = (side_bytes(before), side_bytes(after));
    if old == new {
        return (0, 0);
    }
    let (a, b) = (quote_path("a/", path.as_bytes()), quote_path("b/", path.as_bytes()));
    file_line(out, "--- ", before.is_some().then_some(&a));
    file_line(out, "+++ ", after.is_some().then_some(&b));
    write_hunks(out, old, new, options.context)
}

/// Writes the names, the modes and, if the content differs, the objects of both sides.
fn write_file_header(
    out: &mut Vec<u8>,
    path: &RelPath,
    before: PatchSide<'_>,
    after: PatchSide<'_>,
) {
    let (a, b) = (quote_path("a/", path.as_bytes()), quote_path("b/", path.as_bytes()));
    out.extend_from_slice(&[b"diff --git ", &a[..], b" ", &b, b"\n"].concat());
    let mode = |side: PatchSide<'_>| side.map(|(leaf, _)| leaf.mode.octal());
    match (mode(before), mode(after)) {
        (None, Some(mode)) => put_text(out, &format!("new file mode {mode}\n")),
        (Some(mode), None) => put_text(out, &format!("deleted file mode {mode}\n")),
        (Some(old), Some(new)) if old != new => {
            put_text(out, &format!("old mode {old}\nnew mode {new}\n"));
        }
        _ => {}
    }
    if side_bytes(before) == side_bytes(after) {
        return;
    }
    let null = || "0".repeat(40);
    let name = |side: PatchSide<'_>| side.map_or_else(null, |(leaf, _)| leaf.blob.to_string());
    put_text(out, &format!("index {}..{}", name(before), name(after)));
    if let (Some(old), Some(new)) = (mode(before), mode(after))
        && old == new
    {
        put_text(out, &format!(" {old}"));
    }
    put_text(out, "\n");
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
}

fn file_line(out: &mut Vec<u8>, sign: &str, name: Option<&Vec<u8>>) {
    put_text(out, sign);
    match name {
        Some(name) => {
            out.extend_from_slice(name);
            // Without it a reader could take what follows a blank for a date.
            if name.contains(&b' ') && name[0] != b'"' {
                out.push(b'\t');
            }
        }
        None => put_text(out, "/dev/null"),
    }
    put_text(out, "\n");
}

/// Writes the hunks; returns how many lines were added and deleted.
fn write_hunks(out: &mut Vec<u8>, old: &[u8], new: &[u8], context: usize) -> (usize, usize) {
    let input = InternedInput::new(sources::byte_lines(old), sources::byte_lines(new));
    // Git's own default, so that git counts the same lines.
    let diff = diff_with_slider_heuristics(Algorithm::Myers, &input);
    let changes: Vec<(Range<usize>, Range<usize>)> = diff
        .hunks()
        .map(|hunk| (to_usize_range(hunk.before), to_usize_range(hunk.after)))
        .collect();
    let line = |tokens: &[Token], index: usize| input.interner[tokens[index]];
    let mut rest = &changes[..];
    while !rest.is_empty() {
        let near =
            |pair: &[(Range<usize>, Range<usize>)]| pair[1].0.start - pair[0].0.end <= 2 * context;
        let count = 1 + rest.windows(2).take_while(|pair| near(pair)).count();
        let (group, after) = rest.split_at(count);
        rest = after;
        let (first, last) = (&group[0], &group[count - 1]);
        let lead = context.min(first.0.start);
        let trail = context.min(input.before.len() - last.0.end);
        let old_lines = first.0.start - lead..last.0.end + trail;
        let new_lines = first.1.start - lead..last.1.end + trail;
        put_text(
            out,
            &format!(
                "@@ -{} +{} @@\n",
                format_hunk_range(&old_lines),
                format_hunk_range(&new_lines)
            ),
        );
        let mut at = old_lines.start;
        for (gone, come) in group {
            (at..gone.start).for_each(|index| write_line(out, b' ', line(&input.before, index)));
            gone.clone().for_each(|index| write_line(out, b'-', line(&input.before, index)));
            come.clone().for_each(|index| write_line(out, b'+', line(&input.after, index)));
            at = gone.end;
        }
        (at..old_lines.end).for_each(|index| write_line(out, b' ', line(&input.before, index)));
    }
    (diff.count_additions() as usize, diff.count_removals() as usize)
}

fn to_usize_range(range: Range<u32>) -> Range<usize> {
    range.start as usize..range.end as usize
}

/// A range as patches count it: from one, and an empty one from the line before it.
fn format_hunk_range(range: &Range<usize>) -> String {
    match range.len() {
        0 => format!("{},0", range.start),
        1 => format!("{}", range.start + 1),
        count => format!("{},{count}", range.start + 1),
    }
}

fn write_line(out: &mut Vec<u8>, sign: u8, line: &[u8]) {
    out.push(sign);
    out.extend_from_slice(line);
    if line.last() != Some(&b'\n') {
        put_text(out, "\n\\ No newline at end of file\n");
    }
}
