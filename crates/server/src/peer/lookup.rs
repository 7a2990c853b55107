//! Which user opened the other end of a TCP connection.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::identity::own_user;
use super::proc_net;
use super::sock_diag::SockDiag;
use super::socket_row::SocketRow;

/// How long a connection to this very process may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A way to look peers up that has been tried.
#[derive(Debug)]
pub(crate) struct PeerLookup {
    /// Without it the tables in `/proc` are read.
    diag: Option<Mutex<SockDiag>>,
}

impl PeerLookup {
    /// Finds out, on a connection to itself, in which way this system tells who a peer is.
    ///
    /// # Errors
    ///
    /// No way finds this very process.
    pub(crate) fn probe(listen: IpAddr) -> io::Result<Self> {
        let own = own_user();
        check_uid_distinct(own)?;
        let loopback: IpAddr = match listen.to_canonical() {
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        };
        let listener = TcpListener::bind((loopback, 0))?;
        let server = listener.local_addr()?;
        let socket = TcpStream::connect_timeout(&server, CONNECT_TIMEOUT)?;
        let client = socket.local_addr()?;
        let diag = SockDiag::open().and_then(|mut diag| Ok((diag.find(client, server)?, diag)));
        Self::choose_method(own, diag, || proc_net::find_socket(client, server))
    }

    /// The first way that found the socket of `own`.
    fn choose_method(
        own: u32,
        diag: io::Result<(Option<SocketRow>, SockDiag)>,
        find_in_tables: impl FnOnce() -> io::Result<Option<SocketRow>>,
    ) -> io::Result<Self> {
        let is_found = |row: Option<SocketRow>| row.and_then(SocketRow::owner) == Some(own);
        match diag {
            Ok((row, diag)) if is_found(row) => return Ok(Self { diag: Some(Mutex::new(diag)) }),
            Ok(_) => tracing::debug!("sock_diag does not know a socket of this process"),
            Err(error) => tracing::debug!("sock_diag cannot be used: {error}"),
        }
        if is_found(find_in_tables()?) {
            return Ok(Self { diag: None });
        }
        Err(io::Error::other("neither sock_diag nor /proc/net/tcp knows a socket of this process"))
    }

    /// The user who holds the client's end of a connection; `None` if there is no doubtless answer.
    ///
    /// # Errors
    ///
    /// The system could not be asked.
    pub(crate) fn owner_of(
        &self,
        client: SocketAddr,
        server: SocketAddr,
    ) -> io::Result<Option<u32>> {
        let asked = self
            .diag
            .as_ref()
            .map(|diag| diag.lock().unwrap_or_else(PoisonError::into_inner).find(client, server));
        let row = match asked {
            Some(Ok(row)) => row,
            Some(Err(error)) => {
                tracing::debug!("sock_diag failed, reading /proc/net/tcp: {error}");
                proc_net::find_socket(client, server)?
            }
            None => proc_net::find_socket(client, server)?,
        };
        Ok(row.and_then(SocketRow::owner))
    }
}

/// Inside a user namespace every user from outside reads as one "overflow" user; a server that runs as
/// that very user could not tell them from itself.
fn check_uid_distinct(own: u32) -> io::Result<()> {
    let overflow = fs_err::read_to_string("/proc/sys/kernel/overflowuid");
    let overflow = overflow.ok().and_then(|text| text.trim().parse::<u32>().ok()).unwrap_or(65_534);
    if own != overflow || is_full_uid_map(&fs_err::read_to_string("/proc/self/uid_map")?) {
        return Ok(());
    }
    Err(io::Error::other("in this user namespace users from outside look like this one"))
}

/// True if a namespace maps every user to itself.
fn is_full_uid_map(map: &str) -> bool {
    let mut numbers = map.split_whitespace().map(str::parse::<u32>);
    let first = [numbers.next(), numbers.next(), numbers.next()];
    first == [Some(Ok(0)), Some(Ok(0)), Some(Ok(u32::MAX))]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_lookups_find_this_process() {
        let probed = PeerLookup::probe(Ipv4Addr::LOCALHOST.into()).expect("works here");
        let tables = PeerLookup { diag: None };
        let listener = TcpListener::bind("127.0.0.1:0").expect("a socket");
        let server = listener.local_addr().expect("an address");
        let socket = TcpStream::connect(server).expect("connects");
        let client = socket.local_addr().expect("an address");
        for lookup in [&probed, &tables] {
            assert_eq!(lookup.owner_of(client, server).expect("asked"), Some(own_user()));
            // The other way round it is the socket of the server, which is not accepted yet.
            assert_eq!(lookup.owner_of(server, client).expect("asked"), None);
            let unknown = SocketAddr::from(([127, 0, 0, 1], 1));
            assert_eq!(lookup.owner_of(unknown, server).expect("asked"), None);
        }
    }

    #[test]
    fn a_system_that_cannot_identify_this_process_is_an_error() {
        let unknown = || Err(io::Error::from(io::ErrorKind::PermissionDenied));
        let row = |uid, inode| Some(SocketRow { state: 1, uid, inode });
        let choose = |found| PeerLookup::choose_method(1000, unknown(), move || Ok(found));
        assert!(
            PeerLookup::choose_method(1000, unknown(), || Err(io::ErrorKind::NotFound.into()))
                .is_err()
        );
        assert!(choose(None).is_err());
        assert!(choose(row(0, 0)).is_err());
        assert!(choose(row(1001, 5)).is_err());
        assert!(choose(row(1000, 5)).is_ok_and(|lookup| lookup.diag.is_none()));
        // A kernel without the module for TCP knows no socket, and says no more than that.
        let diag = SockDiag::open().expect("netlink");
        let chosen = PeerLookup::choose_method(1000, Ok((None, diag)), || Ok(row(1000, 5)));
        assert!(chosen.is_ok_and(|lookup| lookup.diag.is_none()));
    }

    #[test]
    fn full_uid_map_is_recognised() {
        assert!(is_full_uid_map("         0          0 4294967295\n"));
        assert!(!is_full_uid_map("         0       1000          1\n"));
        assert!(!is_full_uid_map("         0     100000      65536\n"));
        assert!(!is_full_uid_map(""));
    }
}
