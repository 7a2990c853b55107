//! The bytes of a change as git writes them into a patch for files that are no text.

use std::io::{self, Write as _};

use gix::zlib::Compression;
use gix::zlib::stream::deflate;

/// The digits of git's base 85.
const DIGITS: &[u8; 85] =
    b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~";
/// Bytes in a line.
const LINE_BYTES: usize = 52;

/// Writes both directions of a change: `git apply` and `git apply --reverse` take it.
pub(super) fn write_binary_hunks(out: &mut Vec<u8>, old: &[u8], new: &[u8]) -> io::Result<()> {
    out.extend_from_slice(b"GIT binary patch\n");
    write_literal(out, new)?;
    write_literal(out, old)
}

/// Writes the whole content of one side.
fn write_literal(out: &mut Vec<u8>, bytes: &[u8]) -> io::Result<()> {
    out.extend_from_slice(format!("literal {}\n", bytes.len()).as_bytes());
    let mut packed = deflate::Write::new(Vec::new(), Compression::DEFAULT);
    packed.write_all(bytes)?;
    packed.flush()?;
    for line in packed.into_inner().chunks(LINE_BYTES) {
        out.push(length_letter(line.len()));
        line.chunks(4).for_each(|group| write_group(out, group));
        out.push(b'\n');
    }
    out.push(b'\n');
    Ok(())
}

/// The letter for the number of bytes in a line: A to Z, then a to z.
fn length_letter(bytes: usize) -> u8 {
    let nth = u8::try_from(bytes).unwrap_or(0).saturating_sub(1);
    if nth < 26 { b'A' + nth } else { b'a' + (nth - 26) }
}

/// Four bytes as five digits; missing bytes are zero.
fn write_group(out: &mut Vec<u8>, group: &[u8]) {
    let mut bytes = [0; 4];
    bytes[..group.len()].copy_from_slice(group);
    let mut value = u32::from_be_bytes(bytes);
    let mut digits = [0; 5];
    for digit in digits.iter_mut().rev() {
        *digit = DIGITS[(value % 85) as usize];
        value /= 85;
    }
    out.extend_from_slice(&digits);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_written_as_git_does() {
        let mut out = Vec::new();
        write_group(&mut out, &[0xff; 4]);
        write_group(&mut out, b"\0");
        assert_eq!(out, b"|NsC000000");
        assert_eq!([1, 26, 27, 52].map(length_letter), *b"AZaz");
    }
}
