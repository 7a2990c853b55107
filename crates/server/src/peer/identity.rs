//! The identity by which limits are kept, and how the peer reached the server.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// Whom limits are counted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum PeerId {
    /// A user of this machine.
    User(u32),
    /// An address, where the user is unknown.
    Address(IpAddr),
}

impl PeerId {
    /// The identity of an address.
    ///
    /// One IPv6 host commonly owns a whole /64, so all of that is one peer; local addresses are not
    /// handed out that way.
    pub(crate) fn of_address(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V6(v6) if !v6.is_loopback() && !v6.is_unicast_link_local() => {
                Self::Address(Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64).into())
            }
            other @ (IpAddr::V4(_) | IpAddr::V6(_)) => Self::Address(other),
        }
    }
}

impl fmt::Display for PeerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(uid) => write!(f, "uid {uid}"),
            Self::Address(address) => write!(f, "{address}"),
        }
    }
}

/// How a peer reached the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    /// The port: without a password only this server's own user gets through.
    Tcp,
    /// The Unix socket: only this server's own user gets through, without a password.
    Unix,
}

/// The other end of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConnectionPeer {
    pub(crate) id: PeerId,
    pub(crate) transport: Transport,
}

/// The user this server runs as.
pub(crate) fn own_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ipv6_network_is_one_peer_and_local_addresses_are_their_own() {
        let id = |text: &str| PeerId::of_address(text.parse().expect("an address"));
        assert_eq!(id("2001:db8:1:2::1"), id("2001:db8:1:2:ffff::9"));
        assert_ne!(id("2001:db8:1:2::1"), id("2001:db8:1:3::1"));
        assert_ne!(id("fe80::1"), id("fe80::2"));
        assert_ne!(id("::1"), id("::2"));
        assert_eq!(id("::ffff:10.0.0.1"), id("10.0.0.1"));
        assert_ne!(id("10.0.0.1"), id("10.0.0.2"));
    }
}
