//! Commits: how a capture is written down so that plain git can read and keep it.

use super::{ObjectError, Oid};

/// A commit in a snapshot store: the author is always Turnstone, the time comes from the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Commit {
    pub(crate) tree: Oid,
    pub(crate) parents: Vec<Oid>,
    /// Seconds since the epoch.
    pub(crate) seconds: i64,
    pub(crate) message: String,
}

impl Commit {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut text = format!("tree {}\n", self.tree);
        for parent in &self.parents {
            text.push_str(&format!("parent {parent}\n"));
        }
        let seconds = self.seconds.max(0);
        for who in ["author", "committer"] {
            text.push_str(&format!("{who} Turnstone <turnstone@localhost> {seconds} +0000\n"));
        }
        text.push('\n');
        text.push_str(&self.message);
        text.into_bytes()
    }

    pub(crate) fn decode(oid: &Oid, data: &[u8]) -> Result<Self, ObjectError> {
        let corrupt = || ObjectError::Corrupt(*oid);
        let text = std::str::from_utf8(data).map_err(|_| corrupt())?;
        let (head, message) = text.split_once("\n\n").ok_or_else(corrupt)?;
        let (mut tree, mut parents, mut seconds) = (None, Vec::new(), 0);
        for line in head.lines() {
            match line.split_once(' ') {
                Some(("tree", value)) => tree = Some(value.parse().map_err(|_| corrupt())?),
                Some(("parent", value)) => parents.push(value.parse().map_err(|_| corrupt())?),
                Some(("committer", value)) => {
                    let number = value.rsplit(' ').nth(1).and_then(|text| text.parse().ok());
                    seconds = number.ok_or_else(corrupt)?;
                }
                _ => {}
            }
        }
        let tree = tree.ok_or_else(corrupt)?;
        Ok(Self { tree, parents, seconds, message: message.to_owned() })
    }

    /// Finds a trailer of the message.
    pub(crate) fn trailer(&self, key: &str) -> Option<&str> {
        let mut lines = self.message.lines();
        lines.find_map(|line| line.strip_prefix(key)?.strip_prefix(": "))
    }
}
