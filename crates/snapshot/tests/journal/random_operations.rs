//! Thousands of random operations; every capture by the journal equals a walk (R8).

use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use turnstone_snapshot::{JournalState, RelPath};
use turnstone_testkit::fixture::SeededRng;

use crate::fixture::JournalFixture;

/// Random operations on few names, so that they meet.
struct RandomWriter {
    rng: SeededRng,
    root: PathBuf,
    outside: PathBuf,
    /// With names outside that files are written through.
    uses_outside_links: bool,
}

impl RandomWriter {
    fn new(seed: u64, site: &JournalFixture, sly: bool) -> Self {
        Self {
            rng: SeededRng::new(seed),
            root: site.root(),
            outside: site.outside(""),
            uses_outside_links: sly,
        }
    }

    fn folder(&mut self) -> PathBuf {
        let mut path = self.root.clone();
        for _ in 0..self.rng.below(4) {
            path.push(format!("d{}", self.rng.below(3)));
        }
        path
    }

    fn path(&mut self) -> PathBuf {
        let folder = self.folder();
        match self.rng.below(8) {
            0 => folder.join(format!("d{}", self.rng.below(3))),
            1 => folder.join(format!("ignored{}", self.rng.below(2))),
            _ => folder.join(format!("f{}", self.rng.below(4))),
        }
    }

    fn write(&mut self, path: &Path) {
        path.parent().map(fs_err::create_dir_all);
        let length = match self.rng.below(12) {
            0 => 6000,
            _ => self.rng.below(40),
        };
        let byte = b'a' + self.rng.below(26) as u8;
        fs_err::write(path, vec![byte; length as usize]).ok();
    }

    /// One operation; what cannot be done is not done.
    fn random_operation(&mut self) {
        let (one, other) = (self.path(), self.path());
        match self.rng.below(24) {
            0..=6 => self.write(&one),
            7 => {
                let file = fs_err::OpenOptions::new().append(true).open(one);
                file.and_then(|mut file| std::io::Write::write_all(&mut file, b"more")).ok();
            }
            8 | 9 => drop(fs_err::rename(one, other)),
            10 => {
                // Never the root: while another writer moves the folder of the other name away, the kernel
                // would let it go, and a capture rightly refuses a root that was replaced.
                let (one, other) = (self.folder(), self.folder());
                if one != self.root && other != self.root {
                    fs_err::rename(one, other).ok();
                }
            }
            11 => {
                let away = self.outside.join(format!("away{}", self.rng.below(3)));
                let folder = self.folder();
                if folder != self.root {
                    fs_err::remove_dir_all(&away).ok();
                    fs_err::rename(folder, away).ok();
                }
            }
            12 => {
                let away = self.outside.join(format!("away{}", self.rng.below(3)));
                fs_err::rename(away, one).ok();
            }
            13 => drop(fs_err::remove_file(one)),
            14 => {
                let folder = self.folder();
                if folder != self.root {
                    fs_err::remove_dir_all(folder).ok();
                }
            }
            15 => {
                let perm = [0o644, 0o755, 0o600, 0o444][self.rng.below(4) as usize];
                fs_err::set_permissions(one, PermissionsExt::from_mode(perm)).ok();
            }
            16 => drop(symlink("f0", one)),
            17 => {
                let rules = ["ignored0\n", "ignored*\n!ignored1\n", "d1/\n", "f3\n", ""];
                let rules = rules[self.rng.below(5) as usize];
                let folder = self.folder();
                fs_err::write(folder.join(".gitignore"), rules).ok();
            }
            18 => drop(fs_err::remove_file(self.folder().join(".gitignore"))),
            19 => {
                let deep = self.folder().join("d0/d1/d2/d0");
                fs_err::create_dir_all(&deep).ok();
                (0..3).for_each(|index| self.write(&deep.join(format!("f{index}"))));
            }
            20 => {
                let git = self.folder().join(".git");
                match self.rng.below(2) {
                    0 => drop(fs_err::create_dir_all(git)),
                    _ => drop(fs_err::remove_dir_all(git)),
                }
            }
            21 => drop(fs_err::hard_link(one, other)),
            _ if self.uses_outside_links => self.write_through_outside_link(&one),
            _ => {
                // As editors save: a second file, then a rename over the first.
                let temp = one.with_extension("swp");
                self.write(&temp);
                fs_err::rename(temp, one).ok();
            }
        }
    }

    /// Makes another name of a file outside, or writes through one.
    fn write_through_outside_link(&mut self, path: &Path) {
        let name = self.outside.join(format!("name{}", self.rng.below(4)));
        match self.rng.below(2) {
            0 => {
                fs_err::remove_file(&name).ok();
                fs_err::hard_link(path, name).ok();
            }
            _ if name.exists() => drop(fs_err::write(name, b"written through another name")),
            _ => {}
        }
    }
}

fn run_random_operations(seed: u64, sly: bool, captures: u64) {
    let mut site = fixture_for_seed(seed);
    let mut actor = RandomWriter::new(seed, &site, sly);
    for round in 0..captures {
        let what = format!("seed {seed}, round {round}");
        for _ in 0..actor.rng.in_range(1..=12) {
            actor.random_operation();
        }
        let captured = site.capture();
        if let Some(wrong) = site.difference_from_walk(&captured) {
            // Only what the kernel does not tell may be missed, and the audit must find it.
            let audit = site.store.journal().audit(crate::fixture::NOW).unwrap();
            assert!(!audit.missed.is_empty(), "{what}: not found by the audit: {wrong}");
            let names =
                |path: &RelPath| fs_err::metadata(site.at(&path.to_string())).unwrap().nlink();
            assert!(sly || audit.missed.iter().all(|path| names(path) > 1), "{what}: {wrong}");
            assert_eq!(site.store.journal().status().state, JournalState::Distrusted, "{what}");
            site.assert_equals_walk(&site.capture(), &what);
            drop(std::mem::replace(
                &mut site.store,
                crate::fixture::open_store(site.dir.path(), "spare"),
            ));
            site.store = crate::fixture::open_store(site.dir.path(), "store");
            site.store.journal().start();
            site.capture();
        } else if round % 50 == 49 {
            site.assert_equals_fresh_store(&captured, &what);
        }
    }
}

fn rounds(seed: u64) -> u64 {
    turnstone_testkit::test_rounds::choose_rounds(seed, 100)
}

/// Some on the disk, most in memory.
fn fixture_for_seed(seed: u64) -> JournalFixture {
    if seed.is_multiple_of(5) { JournalFixture::new() } else { JournalFixture::in_memory() }
}

#[test]
fn journal_captures_equal_walks_after_random_operations_1() {
    (1..=5).for_each(|seed| run_random_operations(seed, false, rounds(seed)));
}

#[test]
fn journal_captures_equal_walks_after_random_operations_2() {
    (11..=15).for_each(|seed| run_random_operations(seed, false, rounds(seed)));
}

/// Proves R8.
#[test]
fn writes_through_outside_links_are_found_or_journal_distrusted() {
    (21..=25).for_each(|seed| run_random_operations(seed, true, rounds(seed)));
}

#[test]
fn captures_during_concurrent_writes_converge_to_the_right_tree() {
    for seed in 31..=40 {
        let site = fixture_for_seed(seed);
        std::thread::scope(|scope| {
            let writers: Vec<_> = (0..2)
                .map(|index| {
                    let mut actor = RandomWriter::new(seed * 10 + index, &site, false);
                    scope.spawn(move || (0..800).for_each(|_| actor.random_operation()))
                })
                .collect();
            while writers.iter().any(|writer| !writer.is_finished()) {
                site.capture();
            }
        });
        let captured = site.capture();
        site.assert_equals_walk(&captured, &format!("seed {seed}"));
        site.assert_equals_fresh_store(&captured, &format!("seed {seed}"));
    }
}
