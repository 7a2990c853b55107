//! What is kept of output, byte by byte.

use turnstone_process::{OutputLimits, OutputRecorder, OutputSource};

use crate::process_fixture::{Fallible, bytes_of};

const SMALL: OutputLimits = OutputLimits { head: 8, tail: 8, spill: 10 };

fn record(
    limits: OutputLimits,
    pieces: &[&[u8]],
) -> Fallible<(turnstone_process::RecordedOutput, Vec<u8>)> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("spill");
    let mut recorder = OutputRecorder::new(limits, Some(path.clone()));
    for piece in pieces {
        recorder.push(OutputSource::Stdout, piece);
    }
    let kept = recorder.finish();
    let spilled = if path.exists() { fs_err::read(&path)? } else { Vec::new() };
    assert_eq!(kept.spill.is_some(), !spilled.is_empty());
    Ok((kept, spilled))
}

/// Proves R33.
#[test]
fn short_output_is_kept_without_spill_file() -> Fallible {
    for text in ["", "short", "exactly sixteen!"] {
        let (kept, spilled) = record(SMALL, &[text.as_bytes()])?;
        assert_eq!((kept.text().head.as_str(), kept.text().omitted), (text, 0));
        assert!(spilled.is_empty());
    }
    Ok(())
}

/// Proves R33.
#[test]
fn head_spill_and_tail_make_the_whole() -> Fallible {
    let all: Vec<u8> = (b'a'..=b'z').collect();
    for size in 1..=all.len() {
        let pieces: Vec<&[u8]> = all.chunks(size).collect();
        let (kept, spilled) = record(SMALL, &pieces)?;
        let whole = [kept.head.to_bytes(), spilled, kept.tail.to_bytes()].concat();
        assert_eq!(whole, all, "in pieces of {size}");
        assert_eq!((kept.total(), kept.spilled, kept.lost), (26, 10, 0));
    }
    Ok(())
}

/// Proves R33.
#[test]
fn bytes_beyond_spill_limit_are_counted() -> Fallible {
    let all = vec![b'x'; 100];
    let (kept, spilled) = record(SMALL, &[&all])?;
    assert_eq!((kept.total(), kept.spilled, kept.lost), (100, 10, 74));
    assert_eq!(spilled.len(), 10);
    assert_eq!(kept.text().omitted, 84);
    Ok(())
}

/// Proves R33.
#[test]
fn no_character_is_split() -> Fallible {
    // Every way the edges can fall into characters of one to four bytes.
    for character in ["a", "ä", "€", "🦀"] {
        for shift in 0..4 {
            let text = format!("{}{}", "-".repeat(shift), character.repeat(30));
            let (kept, _) = record(SMALL, &[text.as_bytes()])?;
            let shown = kept.text();
            assert!(!shown.head.contains('\u{fffd}') && !shown.tail.contains('\u{fffd}'));
            assert!(text.starts_with(&shown.head) && text.ends_with(&shown.tail));
            let omitted = text.len() - shown.head.len() - shown.tail.len();
            assert_eq!(shown.omitted, omitted as u64);
        }
    }
    Ok(())
}

/// Proves R33.
#[test]
fn unwritable_spill_file_loses_only_its_bytes() -> Fallible {
    let dir = tempfile::tempdir()?;
    let mut recorder = OutputRecorder::new(SMALL, Some(dir.path().join("missing/spill")));
    recorder.push(OutputSource::Stdout, &[b'x'; 100]);
    recorder.push(OutputSource::Stderr, b"last");
    let kept = recorder.finish();
    assert_eq!((kept.total(), kept.spilled, kept.lost), (104, 0, 88));
    assert!(kept.spill_error.is_some());
    assert_eq!(bytes_of(&kept.tail, OutputSource::Stderr), b"last");
    Ok(())
}

/// Proves R33.
#[test]
fn streams_stay_apart_through_every_cut() -> Fallible {
    let mut recorder = OutputRecorder::new(SMALL, None);
    for _ in 0..50 {
        recorder.push(OutputSource::Stdout, b"o");
        recorder.push(OutputSource::Stderr, b"ee");
    }
    let kept = recorder.finish();
    for piece in [&kept.head, &kept.tail] {
        assert!(bytes_of(piece, OutputSource::Stdout).iter().all(|byte| *byte == b'o'));
        assert!(bytes_of(piece, OutputSource::Stderr).iter().all(|byte| *byte == b'e'));
        let lengths: usize = piece.runs().map(|(_, length)| length).sum();
        assert_eq!(lengths, 8);
    }
    assert_eq!((kept.stdout_bytes, kept.stderr_bytes), (50, 100));
    Ok(())
}
