//! What agents and people do to files: one line of shell each, and the same in the model.

use std::collections::BTreeMap;

use turnstone_testkit::fixture::SeededRng;

use crate::tree::{ModelNode, ModelTree, SLOTS, is_below, parent_of};

/// Bits that files get; their owner can always read and write them.
const FILE_BITS: [u32; 6] = [0o600, 0o640, 0o644, 0o664, 0o700, 0o755];
/// Bits that directories get.
const DIRECTORY_BITS: [u32; 3] = [0o700, 0o750, 0o755];

/// Paths that exist at the beginning, and are taken by something else once they are gone.
const INITIAL_PATHS: [&str; 6] = ["a.txt", "b.txt", "run.sh", "void", "src/c.txt", "src/deep"];

/// One change of the files.
#[derive(Clone, Debug)]
pub(crate) enum Edit {
    /// Changes one slot; the file stays what it is.
    SetSlot {
        path: String,
        slot: usize,
        value: u64,
    },
    Create {
        path: String,
        slots: [u64; SLOTS],
        binary: bool,
        perm: u32,
    },
    Remove {
        path: String,
    },
    Rename {
        from: String,
        to: String,
    },
    SetBits {
        path: String,
        perm: u32,
    },
    CreateDirectory {
        path: String,
        perm: u32,
    },
    RemoveTree {
        path: String,
    },
    /// A file becomes a directory of the same name.
    FileToDirectory {
        path: String,
    },
    Link {
        path: String,
        target: String,
    },
}

/// What a command did to a path, as a tracer sees it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PathDeeds {
    pub(crate) has_written: bool,
    pub(crate) has_removed: bool,
    pub(crate) has_set_bits: bool,
}

/// What a command did to the paths that it touched.
pub(crate) type CommandDeeds = BTreeMap<String, PathDeeds>;

impl Edit {
    /// Adds what a tracer sees of the edit; `tree` is what it finds.
    pub(crate) fn record(&self, tree: &ModelTree, deeds: &mut CommandDeeds) {
        let mut wrote = |path: &String| deeds.entry(path.clone()).or_default().has_written = true;
        match self {
            Self::SetSlot { path, .. } | Self::Link { path, .. } => wrote(path),
            Self::Create { path, .. } | Self::CreateDirectory { path, .. } => {
                wrote(path);
                deeds.entry(path.clone()).or_default().has_set_bits = true;
            }
            Self::Rename { from, to } => {
                wrote(to);
                deeds.entry(from.clone()).or_default().has_removed = true;
            }
            Self::Remove { path } => deeds.entry(path.clone()).or_default().has_removed = true,
            Self::FileToDirectory { path } => {
                wrote(path);
                deeds.entry(path.clone()).or_default().has_removed = true;
            }
            Self::SetBits { path, .. } => {
                deeds.entry(path.clone()).or_default().has_set_bits = true;
            }
            Self::RemoveTree { path } => {
                for gone in tree.keys().filter(|it| *it == path || is_below(it, path)) {
                    deeds.entry(gone.clone()).or_default().has_removed = true;
                }
            }
        }
    }

    /// Draws an edit that is possible now; `fresh` is a number no file holds yet.
    pub(crate) fn draw(rng: &mut SeededRng, tree: &ModelTree, fresh: u64) -> Self {
        loop {
            if let Some(edit) = Self::try_draw(rng, tree, fresh) {
                return edit;
            }
        }
    }

    fn try_draw(rng: &mut SeededRng, tree: &ModelTree, fresh: u64) -> Option<Self> {
        let paths = |wanted: fn(&ModelNode) -> bool| -> Vec<String> {
            tree.iter().filter(|(_, node)| wanted(node)).map(|(path, _)| path.clone()).collect()
        };
        let files = paths(|node| matches!(node, ModelNode::File { .. }));
        let folders = paths(ModelNode::is_directory);
        let new_path = |rng: &mut SeededRng| {
            let name = ["n", "m", "k"][rng.below(3) as usize];
            let path = match rng.choose(&folders) {
                // In the place of something that was removed or renamed.
                _ if rng.below(4) == 0 => rng.choose(&INITIAL_PATHS)?.to_string(),
                Some(folder) if rng.below(2) == 0 => format!("{folder}/{name}"),
                _ => name.to_owned(),
            };
            let is_possible =
                parent_of(&path).is_none_or(|above| folders.iter().any(|it| it == above));
            if !is_possible {
                return None;
            }
            (!tree.contains_key(&path)).then_some(path)
        };
        let file = rng.choose(&files).cloned();
        let folder = rng.choose(&folders).cloned();
        let perm = *rng.choose(&FILE_BITS)?;
        let folder_perm = *rng.choose(&DIRECTORY_BITS)?;
        let binary = rng.below(4) == 0;
        Some(match rng.below(100) {
            0..=39 => {
                let slot = rng.below(SLOTS as u64) as usize;
                Self::SetSlot { path: file?, slot, value: fresh }
            }
            40..=54 => {
                let slots = [fresh, fresh + 1, fresh + 2];
                Self::Create { path: new_path(rng)?, slots, binary, perm }
            }
            55..=62 => Self::Remove { path: file? },
            63..=70 => Self::Rename { from: file?, to: new_path(rng)? },
            71..=80 => Self::SetBits { path: file?, perm },
            81..=85 => Self::SetBits { path: folder?, perm: folder_perm },
            86..=91 => Self::CreateDirectory { path: new_path(rng)?, perm: folder_perm },
            92..=94 => Self::RemoveTree { path: folder? },
            95..=97 => Self::FileToDirectory { path: file? },
            _ => Self::Link { path: new_path(rng)?, target: "a.txt".to_owned() },
        })
    }

    /// The edit as a line of shell; `tree` is what it finds.
    pub(crate) fn script(&self, tree: &ModelTree) -> String {
        match self {
            Self::SetSlot { path, .. } => {
                let mut after = tree.clone();
                self.apply(&mut after);
                // In place, as an editor that keeps the file and its bits does.
                format!("printf '{}' >{path}", printf_text(after.get(path)))
            }
            Self::Create { path, slots, binary, perm } => {
                let node = ModelNode::File { slots: *slots, binary: *binary, perm: *perm };
                format!("printf '{}' >{path}; chmod {perm:o} {path}", printf_text(Some(&node)))
            }
            Self::Remove { path } => format!("rm {path}"),
            Self::Rename { from, to } => format!("mv {from} {to}"),
            Self::SetBits { path, perm } => format!("chmod {perm:o} {path}"),
            Self::CreateDirectory { path, perm } => format!("mkdir {path}; chmod {perm:o} {path}"),
            Self::RemoveTree { path } => format!("rm -r {path}"),
            Self::FileToDirectory { path } => format!("rm {path}; mkdir {path}"),
            Self::Link { path, target } => format!("ln -s {target} {path}"),
        }
    }

    /// The same in the model.
    pub(crate) fn apply(&self, tree: &mut ModelTree) {
        match self {
            Self::SetSlot { path, slot, value } => {
                if let Some(ModelNode::File { slots, .. }) = tree.get_mut(path) {
                    slots[*slot] = *value;
                }
            }
            Self::Create { path, slots, binary, perm } => {
                let node = ModelNode::File { slots: *slots, binary: *binary, perm: *perm };
                tree.insert(path.clone(), node);
            }
            Self::Remove { path } => drop(tree.remove(path)),
            Self::Rename { from, to } => {
                if let Some(node) = tree.remove(from) {
                    tree.insert(to.clone(), node);
                }
            }
            Self::SetBits { path, perm: bits } => match tree.get_mut(path) {
                Some(ModelNode::File { perm, .. } | ModelNode::Directory { perm }) => *perm = *bits,
                Some(ModelNode::Link { .. }) | None => {}
            },
            Self::CreateDirectory { path, perm } => {
                tree.insert(path.clone(), ModelNode::Directory { perm: *perm });
            }
            Self::RemoveTree { path } => {
                tree.retain(|below, _| below != path && !is_below(below, path));
            }
            Self::FileToDirectory { path } => {
                tree.insert(path.clone(), ModelNode::Directory { perm: 0o755 });
            }
            Self::Link { path, target } => {
                tree.insert(path.clone(), ModelNode::Link { target: target.clone() });
            }
        }
    }
}

/// The bytes of a file as `printf` takes them.
fn printf_text(node: Option<&ModelNode>) -> String {
    let text = node.map(ModelNode::render).unwrap_or_default();
    text.replace('\0', "\\000").replace('\n', "\\n")
}
