//! Trees: built from a sorted list of files, exactly as git writes them.

use std::io;

use gix::objs::{Kind, TreeRefIter};

use super::{FileMode, ObjectError, Oid, PackedObject, TreeLeaf, from_gix, hash_object};
use crate::path::RelPath;

/// One line of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TreeEntry {
    Leaf(TreeLeaf),
    Tree(Oid),
}

/// Builds the trees of `files`, which are sorted by path; `made` gets each that `is_known` denies.
///
/// Sorted paths are in git's order: a directory sorts as if its name ended with a slash.
pub(crate) fn build_trees(
    files: &[(RelPath, TreeLeaf)],
    is_known: &mut dyn FnMut(&Oid) -> bool,
    made: &mut Vec<PackedObject>,
) -> io::Result<Oid> {
    build_below(files, 0, is_known, made)
}

/// Names the tree of sorted `files` that share their first `prefix` bytes; nothing is kept.
pub(crate) fn hash_tree(files: &[(RelPath, TreeLeaf)], prefix: usize) -> io::Result<Oid> {
    build_below(files, prefix, &mut |_| true, &mut Vec::new())
}

fn build_below(
    files: &[(RelPath, TreeLeaf)],
    prefix: usize,
    is_known: &mut dyn FnMut(&Oid) -> bool,
    made: &mut Vec<PackedObject>,
) -> io::Result<Oid> {
    let mut data = Vec::with_capacity(files.len().min(1000) * 40);
    let mut index = 0;
    while index < files.len() {
        let (path, leaf) = &files[index];
        let rest = &path.as_bytes()[prefix..];
        let (mode, name, oid) = match rest.iter().position(|byte| *byte == b'/') {
            None => {
                index += 1;
                (leaf.mode.octal(), rest, leaf.blob)
            }
            Some(slash) => {
                let directory = &path.as_bytes()[..=prefix + slash];
                let inside = files[index..]
                    .partition_point(|(path, _)| path.as_bytes().starts_with(directory));
                let below = &files[index..index + inside];
                index += inside;
                let oid = build_below(below, directory.len(), is_known, made)?;
                ("40000", &rest[..slash], oid)
            }
        };
        data.extend_from_slice(mode.as_bytes());
        data.push(b' ');
        data.extend_from_slice(name);
        data.push(0);
        data.extend_from_slice(&oid.0);
    }
    let oid = hash_object(Kind::Tree, &data)?;
    if !is_known(&oid) {
        made.push(PackedObject::with_oid(oid, Kind::Tree, &data)?);
    }
    Ok(oid)
}

/// Reads the lines of a tree.
pub(crate) fn parse_tree(
    tree: &Oid,
    data: &[u8],
) -> Result<Vec<(Vec<u8>, TreeEntry)>, ObjectError> {
    let corrupt = || ObjectError::Corrupt(*tree);
    let mut found = Vec::new();
    for entry in TreeRefIter::from_bytes(data, gix::hash::Kind::Sha1) {
        let entry = entry.map_err(|_| corrupt())?;
        let oid = from_gix(entry.oid.to_owned());
        let mode = match entry.mode.kind() {
            gix::objs::tree::EntryKind::Blob => FileMode::File,
            gix::objs::tree::EntryKind::BlobExecutable => FileMode::Exec,
            gix::objs::tree::EntryKind::Link => FileMode::Link,
            gix::objs::tree::EntryKind::Tree => {
                found.push((entry.filename.to_vec(), TreeEntry::Tree(oid)));
                continue;
            }
            gix::objs::tree::EntryKind::Commit => return Err(corrupt()),
        };
        found.push((entry.filename.to_vec(), TreeEntry::Leaf(TreeLeaf { blob: oid, mode })));
    }
    Ok(found)
}
