//! What the kernel reports of one TCP socket, and when that identifies a peer.

/// The number of the state ESTABLISHED.
pub(super) const ESTABLISHED: u8 = 1;

/// One socket in the kernel's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SocketRow {
    pub(super) state: u8,
    pub(super) uid: u32,
    pub(super) inode: u64,
}

impl SocketRow {
    /// The user who holds the socket; `None` if that is unknown.
    ///
    /// A socket that its process has closed lives on in the table without an inode, and then its user
    /// reads as 0: that is not root.
    pub(super) fn owner(self) -> Option<u32> {
        (self.state == ESTABLISHED && self.inode != 0).then_some(self.uid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_established_sockets_have_an_owner() {
        let row = |state, inode| SocketRow { state, uid: 1000, inode }.owner();
        assert_eq!(row(ESTABLISHED, 7), Some(1000));
        assert_eq!(row(ESTABLISHED, 0), None);
        // FIN_WAIT, TIME_WAIT, CLOSE_WAIT, LISTEN …
        assert!(
            (0..=12).filter(|state| *state != ESTABLISHED).all(|state| row(state, 7).is_none())
        );
    }
}
