//! Finds one TCP socket in `/proc/net/tcp` and `/proc/net/tcp6`, for kernels without `sock_diag`.

use std::io::{self, BufRead as _, BufReader};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

use super::socket_row::SocketRow;

const TABLES: [&str; 2] = ["/proc/net/tcp", "/proc/net/tcp6"];

/// The socket that has exactly these two ends; `None` if there is none.
///
/// Looked for twice: the kernel reads the fields of a row one after the other, and a socket that is
/// closed in between shows the inode it had with user 0.
pub(super) fn find_socket(local: SocketAddr, remote: SocketAddr) -> io::Result<Option<SocketRow>> {
    let first = find_socket_once(local, remote)?;
    let again = if first.is_some() { find_socket_once(local, remote)? } else { None };
    Ok(first.filter(|row| again.as_ref() == Some(row)))
}

fn find_socket_once(local: SocketAddr, remote: SocketAddr) -> io::Result<Option<SocketRow>> {
    let mut readable = false;
    for table in TABLES {
        // Without IPv6 there is no second table.
        let file = match fs_err::File::open(Path::new(table)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        readable = true;
        for line in BufReader::new(file).lines().skip(1) {
            if let Some(row) = parse_row(&line?, local, remote) {
                return Ok(Some(row));
            }
        }
    }
    if readable { Ok(None) } else { Err(io::ErrorKind::NotFound.into()) }
}

/// The row of a line if it is about these two ends.
fn parse_row(line: &str, local: SocketAddr, remote: SocketAddr) -> Option<SocketRow> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let is_same = |text: &str, wanted: SocketAddr| {
        parse_address(text) == Some((wanted.ip().to_canonical(), wanted.port()))
    };
    if !is_same(fields.get(1)?, local) || !is_same(fields.get(2)?, remote) {
        return None;
    }
    Some(SocketRow {
        state: u8::from_str_radix(fields.get(3)?, 16).ok()?,
        uid: fields.get(7)?.parse().ok()?,
        inode: fields.get(9)?.parse().ok()?,
    })
}

/// `0100007F:1000` or 32 digits and a port: words in the machine's order, of bytes in the network's.
fn parse_address(text: &str) -> Option<(IpAddr, u16)> {
    let (ip, port) = text.split_once(':')?;
    let word = |at: usize| Some(u32::from_str_radix(ip.get(at..at + 8)?, 16).ok()?.to_ne_bytes());
    let ip = match ip.len() {
        8 => IpAddr::V4(Ipv4Addr::from(word(0)?)),
        32 => {
            let mut octets = [0; 16];
            for at in 0..4 {
                octets[at * 4..at * 4 + 4].copy_from_slice(&word(at * 8)?);
            }
            IpAddr::V6(Ipv6Addr::from(octets)).to_canonical()
        }
        _ => return None,
    };
    Some((ip, u16::from_str_radix(port, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::super::identity::own_user;
    use super::*;

    fn at(text: &str) -> SocketAddr {
        text.parse().expect("an address")
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn recorded_proc_rows_parse() {
        let four = "   2: 0100007F:8D9E 0100007F:1000 01 00000000:00000001 00:00000000 00000000  1000        0 37223 3 0000 20 0 1 10 -1";
        let row = SocketRow { state: 1, uid: 1000, inode: 37_223 };
        assert_eq!(parse_row(four, at("127.0.0.1:36254"), at("127.0.0.1:4096")), Some(row));
        assert_eq!(parse_row(four, at("127.0.0.1:4096"), at("127.0.0.1:36254")), None);
        let six = "   3: 00000000000000000000000001000000:8D9E 00000000000000000000000001000000:1000 01 0:0 00:0 0  1000  0 5 1";
        assert!(parse_row(six, at("[::1]:36254"), at("[::1]:4096")).is_some());
        let mapped = "   4: 0000000000000000FFFF00000100007F:8D9E 0000000000000000FFFF00000100007F:1000 01 0:0 00:0 0  1000  0 5 1";
        assert!(parse_row(mapped, at("127.0.0.1:36254"), at("127.0.0.1:4096")).is_some());
        assert!(parse_row(mapped, at("[::ffff:127.0.0.1]:36254"), at("127.0.0.1:4096")).is_some());
        for broken in ["", "x", "  2: 0100007F:8D9E 0100007F:1000 01", "  2: 0100007F 0100007F 01"]
        {
            assert_eq!(parse_row(broken, at("127.0.0.1:36254"), at("127.0.0.1:4096")), None);
        }
    }

    #[test]
    fn proc_net_reports_owner_and_close() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a socket");
        let server = listener.local_addr().expect("an address");
        let socket = TcpStream::connect(server).expect("connects");
        let client = socket.local_addr().expect("an address");
        let (accepted, _) = listener.accept().expect("accepted");
        let row = find_socket(client, server).expect("read").expect("a row");
        assert_eq!(row.owner(), Some(own_user()));
        drop(socket);
        assert_eq!(find_socket(client, server).expect("read").and_then(SocketRow::owner), None);
        drop(accepted);
    }
}
