//! Which addresses a request may reach.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Which addresses a request may reach. Redirects are held to it too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AddressPolicy {
    /// All, such as a model that runs on this machine.
    Any,
    /// Only public ones: an address that a page or a model names must not lead into this machine or
    /// its network.
    PublicOnly,
}

impl AddressPolicy {
    /// Tells whether the policy allows an address.
    pub(crate) fn allows(self, address: IpAddr) -> bool {
        match self {
            Self::Any => true,
            Self::PublicOnly => is_public_address(address),
        }
    }
}

/// Azure answers requests for credentials of a machine here, on an address that looks public.
const AZURE_METADATA: Ipv4Addr = Ipv4Addr::new(168, 63, 129, 16);

/// Returns true for an address on the public internet. Addresses that carry another one (mapped,
/// translated, 6to4) count as that other one.
#[must_use]
pub fn is_public_address(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let is_reserved = match (a, b, c) {
        // This network, private, loopback, multicast and reserved.
        (0 | 10 | 127 | 224..=255, _, _) => true,
        // Carrier-grade NAT, also the metadata service of Alibaba.
        (100, 64..=127, _) => true,
        // Link-local, also the metadata services of most clouds.
        (169, 254, _) => true,
        (172, 16..=31, _) => true,
        // Protocol assignments, documentation, relays of 6to4.
        (192, 0, 0 | 2) | (192, 88, 99) => true,
        (192, 168, _) => true,
        // Benchmarks and documentation.
        (198, 18..=19, _) | (198, 51, 100) | (203, 0, 113) => true,
        _ => false,
    };
    !is_reserved && address != AZURE_METADATA
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    if let Some(carried) = carried_v4(address) {
        return is_public_v4(carried);
    }
    match address.segments() {
        // Teredo, benchmarks, ORCHID; documentation.
        [0x2001, 0..=0x01ff, ..] | [0x2001, 0x0db8, ..] | [0x3fff, 0..=0x0fff, ..] => false,
        // The global addresses assigned so far. All others are local or reserved.
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

/// Returns the IPv4 address that an IPv6 address leads to.
fn carried_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let from = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        Ipv4Addr::new(a, b, c, d)
    };
    match address.segments() {
        // Mapped, and translated by SIIT and NAT64.
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0, 0, 0, 0, 0xffff, 0, high, low] => {
            Some(from(high, low))
        }
        [0x0064, 0xff9b, 0, 0, 0, 0, high, low] => Some(from(high, low)),
        // 6to4.
        [0x2002, high, low, ..] => Some(from(high, low)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_and_reserved_addresses_are_not_public() {
        let refused = [
            "0.0.0.0",
            "10.1.2.3",
            "100.64.0.1",
            "100.100.100.200",
            "127.0.0.1",
            "127.9.9.9",
            "168.63.129.16",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.192",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.19.1.1",
            "198.51.100.1",
            "203.0.113.9",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::127.0.0.1",
            "::ffff:0:169.254.169.254",
            "64:ff9b::a00:1",
            "64:ff9b:1::1",
            "2001::1",
            "2001:db8::1",
            "2002:7f00:1::",
            "2002:a9fe:a9fe::1",
            "3fff::1",
            "5f00::1",
            "fc00::1",
            "fd00:ec2::254",
            "fe80::1",
            "fec0::1",
            "ff02::1",
            "100::1",
        ];
        for address in refused {
            assert!(!is_public_address(address.parse().unwrap()), "{address}");
        }
    }

    #[test]
    fn addresses_of_the_internet_are_public() {
        let allowed = [
            "1.1.1.1",
            "8.8.8.8",
            "100.63.0.1",
            "100.128.0.1",
            "172.15.0.1",
            "172.32.0.1",
            "192.0.1.1",
            "192.167.0.1",
            "198.17.0.1",
            "198.20.0.1",
            "223.255.255.1",
            "2606:4700::1111",
            "2a00:1450::1",
            "2001:4860:4860::8888",
            "::ffff:8.8.8.8",
            "64:ff9b::808:808",
            "2002:808:808::1",
        ];
        for address in allowed {
            assert!(is_public_address(address.parse().unwrap()), "{address}");
        }
    }
}
