//! What is kept of output, byte by byte.

use turnstone_process::{Keeper, Limits, Source};

use crate::case::Fallible;

const SMALL: Limits = Limits { head: 8, tail: 8, spill: 10 };

fn keep(limits: Limits, pieces: &[&[u8]]) -> Fallible<(turnstone_process::Kept, Vec<u8>)> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("spill");
    let mut keeper = Keeper::new(limits, Some(path.clone()));
    for piece in pieces {
        keeper.push(Source::Stdout, piece);
    }
    let kept = keeper.finish();
    let spilled = if path.exists() { fs_err::read(&path)? } else { Vec::new() };
    assert_eq!(kept.spill.is_some(), !spilled.is_empty());
    Ok((kept, spilled))
}

#[test]
fn what_fits_is_kept_whole_and_makes_no_file_r33() -> Fallible {
    for text in ["", "short", "exactly sixteen!"] {
        let (kept, spilled) = keep(SMALL, &[text.as_bytes()])?;
        assert_eq!((kept.text().head.as_str(), kept.text().omitted), (text, 0));
        assert!(spilled.is_empty());
    }
    Ok(())
}

#[test]
fn head_file_and_tail_make_the_whole_r33() -> Fallible {
    let all: Vec<u8> = (b'a'..=b'z').collect();
    for size in 1..=all.len() {
        let pieces: Vec<&[u8]> = all.chunks(size).collect();
        let (kept, spilled) = keep(SMALL, &pieces)?;
        let whole = [kept.head.to_bytes(), spilled, kept.tail.to_bytes()].concat();
        assert_eq!(whole, all, "in pieces of {size}");
        assert_eq!((kept.total(), kept.spilled, kept.lost), (26, 10, 0));
    }
    Ok(())
}

#[test]
fn what_is_beyond_the_file_is_counted_r33() -> Fallible {
    let all = vec![b'x'; 100];
    let (kept, spilled) = keep(SMALL, &[&all])?;
    assert_eq!((kept.total(), kept.spilled, kept.lost), (100, 10, 74));
    assert_eq!(spilled.len(), 10);
    assert_eq!(kept.text().omitted, 84);
    Ok(())
}

#[test]
fn no_character_is_cut_in_two_r33() -> Fallible {
    // Every way the edges can fall into characters of one to four bytes.
    for character in ["a", "ä", "€", "🦀"] {
        for shift in 0..4 {
            let text = format!("{}{}", "-".repeat(shift), character.repeat(30));
            let (kept, _) = keep(SMALL, &[text.as_bytes()])?;
            let shown = kept.text();
            assert!(!shown.head.contains('\u{fffd}') && !shown.tail.contains('\u{fffd}'));
            assert!(text.starts_with(&shown.head) && text.ends_with(&shown.tail));
            let omitted = text.len() - shown.head.len() - shown.tail.len();
            assert_eq!(shown.omitted, omitted as u64);
        }
    }
    Ok(())
}

#[test]
fn a_file_that_cannot_be_made_costs_only_its_bytes_r33() -> Fallible {
    let dir = tempfile::tempdir()?;
    let mut keeper = Keeper::new(SMALL, Some(dir.path().join("missing/spill")));
    keeper.push(Source::Stdout, &[b'x'; 100]);
    keeper.push(Source::Stderr, b"last");
    let kept = keeper.finish();
    assert_eq!((kept.total(), kept.spilled, kept.lost), (104, 0, 88));
    assert!(kept.spill_error.is_some());
    assert_eq!(kept.tail.bytes_of(Source::Stderr), b"last");
    Ok(())
}

#[test]
fn alternating_streams_stay_apart_through_every_cut_r33() -> Fallible {
    let mut keeper = Keeper::new(SMALL, None);
    for _ in 0..50 {
        keeper.push(Source::Stdout, b"o");
        keeper.push(Source::Stderr, b"ee");
    }
    let kept = keeper.finish();
    for piece in [&kept.head, &kept.tail] {
        assert!(piece.bytes_of(Source::Stdout).iter().all(|byte| *byte == b'o'));
        assert!(piece.bytes_of(Source::Stderr).iter().all(|byte| *byte == b'e'));
        let lengths: usize = piece.runs().map(|(_, length)| length).sum();
        assert_eq!(lengths, 8);
    }
    assert_eq!((kept.stdout_bytes, kept.stderr_bytes), (50, 100));
    Ok(())
}
