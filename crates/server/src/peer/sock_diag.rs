//! Asks the kernel for one TCP socket by its exact addresses, over netlink (`sock_diag(7)`).
//!
//! One request of 72 bytes and one answer of a fixed layout: less than what a library for netlink needs
//! to be known. The kernel answers within the call that sends the request, so nothing here waits.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;

use rustix::net::netlink::{SOCK_DIAG, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

use super::socket_row::SocketRow;

const HEADER: usize = 16;
const REQUEST: usize = HEADER + 56;
/// `struct inet_diag_msg` without the attributes behind it.
const MESSAGE: usize = 72;

/// `SOCK_DIAG_BY_FAMILY`, the type of the request and of its answer.
const BY_FAMILY: u16 = 20;
/// `NLMSG_ERROR`
const ERROR: u16 = 2;
/// `NLM_F_REQUEST`
const IS_REQUEST: u16 = 1;
const TCP: u8 = 6;
/// An answer that belongs to another request is skipped; more of them than this is an error.
const MAX_STRAY_ANSWERS: usize = 16;

/// A connection to the kernel's table of sockets.
#[derive(Debug)]
pub(super) struct SockDiag {
    socket: OwnedFd,
    sequence: u32,
}

/// The addresses of a socket as the kernel writes them: ports, then addresses of 16 bytes each.
type SocketId = [u8; 36];

impl SockDiag {
    pub(super) fn open() -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let kind = SocketType::DGRAM;
        let socket =
            rustix::net::socket_with(AddressFamily::NETLINK, kind, flags, Some(SOCK_DIAG))?;
        // Connected to the kernel: no other process can send to this socket.
        rustix::net::connect(&socket, &SocketAddrNetlink::new(0, 0))?;
        Ok(Self { socket, sequence: 0 })
    }

    /// The socket that has exactly these two ends; `None` if the kernel says there is none.
    pub(super) fn find(
        &mut self,
        local: SocketAddr,
        remote: SocketAddr,
    ) -> io::Result<Option<SocketRow>> {
        self.sequence = self.sequence.wrapping_add(1);
        let request = encode(self.sequence, local, remote);
        rustix::net::send(&self.socket, &request, SendFlags::empty())?;
        let mut buffer = [0; 8192];
        for _ in 0..MAX_STRAY_ANSWERS {
            let (length, _) = rustix::net::recv(&self.socket, &mut buffer, RecvFlags::DONTWAIT)?;
            match decode(&buffer[..length], self.sequence, local, remote)? {
                DiagAnswer::Row(row) => return Ok(Some(row)),
                DiagAnswer::Missing => return Ok(None),
                DiagAnswer::Stray => {}
            }
        }
        Err(invalid("too many answers that were not asked for"))
    }
}

/// What an answer says.
#[derive(Debug, PartialEq, Eq)]
enum DiagAnswer {
    Row(SocketRow),
    Missing,
    Stray,
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("sock_diag: {what}"))
}

/// Both addresses in one family: an IPv4 address in the form of IPv6 is an IPv4 address.
fn family_of(local: SocketAddr) -> u8 {
    match local.ip().to_canonical() {
        IpAddr::V4(_) => 2,
        IpAddr::V6(_) => 10,
    }
}

fn socket_id(local: SocketAddr, remote: SocketAddr) -> SocketId {
    let mut id = [0; 36];
    id[..2].copy_from_slice(&local.port().to_be_bytes());
    id[2..4].copy_from_slice(&remote.port().to_be_bytes());
    for (start, address) in [(4, local), (20, remote)] {
        match address.ip().to_canonical() {
            IpAddr::V4(v4) => id[start..start + 4].copy_from_slice(&v4.octets()),
            IpAddr::V6(v6) => id[start..start + 16].copy_from_slice(&v6.octets()),
        }
    }
    id
}

fn encode(sequence: u32, local: SocketAddr, remote: SocketAddr) -> [u8; REQUEST] {
    let mut bytes = [0; REQUEST];
    let length = (REQUEST as u32).to_ne_bytes();
    bytes[..4].copy_from_slice(&length);
    bytes[4..6].copy_from_slice(&BY_FAMILY.to_ne_bytes());
    bytes[6..8].copy_from_slice(&IS_REQUEST.to_ne_bytes());
    bytes[8..12].copy_from_slice(&sequence.to_ne_bytes());
    bytes[16] = family_of(local);
    bytes[17] = TCP;
    // Sockets in every state; what the state means is decided by the reader.
    bytes[20..24].fill(0xff);
    bytes[24..60].copy_from_slice(&socket_id(local, remote));
    let scope = match local {
        SocketAddr::V6(v6) => v6.scope_id(),
        SocketAddr::V4(_) => 0,
    };
    bytes[60..64].copy_from_slice(&scope.to_ne_bytes());
    // No cookie: any socket with these addresses.
    bytes[64..72].fill(0xff);
    bytes
}

fn decode(
    bytes: &[u8],
    sequence: u32,
    local: SocketAddr,
    remote: SocketAddr,
) -> io::Result<DiagAnswer> {
    let short = || invalid("an answer that is cut off");
    let word = |at: usize| -> io::Result<u32> {
        let four = bytes.get(at..at + 4).ok_or_else(short)?;
        Ok(u32::from_ne_bytes([four[0], four[1], four[2], four[3]]))
    };
    let kind = bytes.get(4..6).ok_or_else(short)?;
    if word(8)? != sequence {
        return Ok(DiagAnswer::Stray);
    }
    match u16::from_ne_bytes([kind[0], kind[1]]) {
        ERROR => {
            let error = io::Error::from_raw_os_error(word(HEADER)?.cast_signed().wrapping_neg());
            if error.kind() == io::ErrorKind::NotFound {
                Ok(DiagAnswer::Missing)
            } else {
                Err(error)
            }
        }
        BY_FAMILY if bytes.len() >= HEADER + MESSAGE => {
            let body = &bytes[HEADER..];
            if body[0] != family_of(local) || body[4..40] != socket_id(local, remote) {
                return Ok(DiagAnswer::Missing);
            }
            let (uid, inode) = (word(HEADER + 64)?, u64::from(word(HEADER + 68)?));
            Ok(DiagAnswer::Row(SocketRow { state: body[1], uid, inode }))
        }
        BY_FAMILY => Err(short()),
        _ => Err(invalid("an answer of an unknown kind")),
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::super::identity::own_user;
    use super::*;

    /// An answer of a Linux 6.18 for uid 1000, inode 37218, in state ESTABLISHED.
    fn recorded(local: SocketAddr, remote: SocketAddr) -> Vec<u8> {
        let mut bytes = vec![0; HEADER + MESSAGE];
        bytes[..4].copy_from_slice(&88_u32.to_ne_bytes());
        bytes[4..6].copy_from_slice(&BY_FAMILY.to_ne_bytes());
        bytes[8..12].copy_from_slice(&7_u32.to_ne_bytes());
        bytes[16..18].copy_from_slice(&[2, 1]);
        bytes[20..56].copy_from_slice(&socket_id(local, remote));
        bytes[80..84].copy_from_slice(&1000_u32.to_ne_bytes());
        bytes[84..88].copy_from_slice(&37_218_u32.to_ne_bytes());
        bytes
    }

    fn ends() -> (SocketAddr, SocketAddr) {
        (SocketAddr::from(([127, 0, 0, 1], 50_000)), SocketAddr::from(([127, 0, 0, 1], 4_096)))
    }

    #[test]
    fn answer_for_another_socket_is_ignored() {
        let (local, remote) = ends();
        let bytes = recorded(local, remote);
        let row = SocketRow { state: 1, uid: 1000, inode: 37_218 };
        assert_eq!(decode(&bytes, 7, local, remote).expect("read"), DiagAnswer::Row(row));
        assert_eq!(decode(&bytes, 8, local, remote).expect("read"), DiagAnswer::Stray);
        let other = SocketAddr::from(([127, 0, 0, 1], 50_001));
        assert_eq!(decode(&bytes, 7, other, remote).expect("read"), DiagAnswer::Missing);
        for length in 0..bytes.len() {
            assert!(decode(&bytes[..length], 7, local, remote).is_err(), "{length}");
        }
    }

    #[test]
    fn ipv4_client_of_dual_stack_listener_is_found() {
        // A machine without IPv6 has no such listener.
        let Ok(listener) = TcpListener::bind("[::]:0") else { return };
        let port = listener.local_addr().expect("an address").port();
        let socket = TcpStream::connect(("127.0.0.1", port)).expect("connects");
        let (accepted, client) = listener.accept().expect("accepted");
        let server = accepted.local_addr().expect("an address");
        assert!(client.is_ipv6(), "it is written in the form of IPv6: {client}");
        let row = SockDiag::open().and_then(|mut diag| diag.find(client, server));
        assert_eq!(row.expect("asked").and_then(SocketRow::owner), Some(own_user()));
        let row = super::super::proc_net::find_socket(client, server);
        assert_eq!(row.expect("read").and_then(SocketRow::owner), Some(own_user()));
        drop(socket);
    }

    #[test]
    fn sock_diag_reports_owner_and_close() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            // A machine without IPv6 has nothing to ask for.
            let Ok(listener) = TcpListener::bind(address) else { continue };
            let server = listener.local_addr().expect("an address");
            let socket = TcpStream::connect(server).expect("connects");
            let client = socket.local_addr().expect("an address");
            let (accepted, _) = listener.accept().expect("accepted");
            let mut diag = SockDiag::open().expect("netlink");
            let row = diag.find(client, server).expect("asked").expect("a row");
            assert_eq!(row.owner(), Some(own_user()));
            drop(socket);
            let row = diag.find(client, server).expect("asked");
            assert_eq!(row.and_then(SocketRow::owner), None);
            drop(accepted);
        }
    }
}
