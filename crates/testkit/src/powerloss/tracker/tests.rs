//! Logs written by hand, for what real programs do too rarely to be relied on.

use super::*;
use crate::{
    fixture::TempDataDir,
    powerloss::{PowerCutPolicy, disk_model::DiskModel, memory_tree::MemoryTree},
};

/// Follows a log in which `@text@` is replaced by a string in escapes, from an empty directory `/r`.
fn track(log: &str) -> Result<Tracker, RecordError> {
    let escape = |text: &str| text.bytes().map(|byte| format!("\\x{byte:02x}")).collect::<String>();
    let parts = log.split('@').enumerate();
    let log: String = parts
        .map(|(index, part)| match index % 2 {
            0 => part.to_owned(),
            _ => format!("\"{}\"", escape(part)),
        })
        .collect();
    let empty = TempDataDir::new()?;
    let namespace = Namespace::new(vec!["/r".into()], MemoryTree::load(empty.path())?);
    let volatile = VolatileSuffixes(vec!["-shm".to_owned()]);
    Tracker::replay(&StraceLog::parse(&log)?, namespace, "/".into(), volatile)
}

fn contents(tracker: &Tracker, path: &str) -> String {
    let node = tracker.namespace.locate(&PathBuf::from("/r").join(path), true).node().unwrap();
    String::from_utf8(tracker.namespace.tree.contents(node).to_vec()).unwrap()
}

#[test]
fn shared_writable_mapping_is_refused_unless_file_is_volatile() {
    let map = |name: &str| {
        track(&format!(
            "1 openat(AT_FDCWD, @/r/{name}@, O_RDWR|O_CREAT, 0600) = 3\n\
             1 mmap(NULL, 4096, PROT_READ|PROT_WRITE, MAP_SHARED, 3, 0) = 0x7f0000000000\n"
        ))
    };
    assert!(map("db-shm").is_ok());
    let error = map("db").err().unwrap();
    assert!(matches!(error, RecordError::SharedMapping { .. }), "{error}");
}

#[test]
fn sync_started_before_a_write_returned_does_not_cover_it() {
    let tracker = track(
        "1 clone(child_stack=0x1, flags=CLONE_VM|CLONE_FILES) = 2\n\
         1 openat(AT_FDCWD, @/r/a@, O_WRONLY|O_CREAT, 0600) = 3\n\
         1 pwrite64(3, @early@, 5, 0) = 5\n\
         1 pwrite64(3, @late@, 4, 5 <unfinished ...>\n\
         2 fsync(3 <unfinished ...>\n\
         1 <... pwrite64 resumed>) = 4\n\
         2 <... fsync resumed>) = 0\n",
    )
    .unwrap();
    assert_eq!(contents(&tracker, "a"), "earlylate");
    let mut initial = tracker.namespace.tree.clone();
    let node = initial.child(crate::powerloss::memory_tree::ROOT, "a".as_ref()).unwrap();
    initial.set_contents(node, Vec::new());
    let mut disk = DiskModel::new(initial, PowerCutPolicy::STRICT);
    tracker.events.iter().for_each(|event| disk.apply_event(event));
    assert_eq!(disk.cut_power().contents(node), b"early");
}

#[test]
fn reused_descriptor_refers_to_the_new_file() {
    let tracker = track(
        "1 clone3({flags=CLONE_VM|CLONE_FILES, exit_signal=0} => {parent_tid=[2]}, 88) = 2\n\
         1 openat(AT_FDCWD, @/r/a@, O_WRONLY|O_CREAT, 0600) = 3\n\
         2 openat(AT_FDCWD, @/r/b@, O_WRONLY|O_CREAT, 0600 <unfinished ...>\n\
         1 close(3 <unfinished ...>\n\
         2 <... openat resumed>) = 3\n\
         1 <... close resumed>) = 0\n\
         2 write(3, @text@, 4) = 4\n",
    )
    .unwrap();
    assert_eq!((contents(&tracker, "a"), contents(&tracker, "b")), (String::new(), "text".into()));
}

#[test]
fn forked_child_shares_offsets_but_not_descriptors() {
    // The child appears in the log before its parent's call returns.
    let tracker = track(
        "1 openat(AT_FDCWD, @/r/a@, O_RDWR|O_CREAT|O_CLOEXEC, 0600) = 3\n\
         1 vfork( <unfinished ...>\n\
         2 write(3, @child @, 6) = 6\n\
         2 close(3) = 0\n\
         2 openat(AT_FDCWD, @/r/b@, O_RDWR|O_CREAT, 0600) = 3\n\
         1 <... vfork resumed>) = 2\n\
         1 write(3, @parent@, 6) = 6\n\
         2 execve(@/bin/true@, [], NULL) = 0\n\
         2 write(3, @b@, 1) = 1\n\
         2 +++ exited with 0 +++\n",
    )
    .unwrap();
    assert_eq!(contents(&tracker, "a"), "child parent");
    assert_eq!(contents(&tracker, "b"), "b");
}

#[test]
fn failed_injected_and_short_calls_are_not_counted_as_done() {
    let tracker = track(
        "1 openat(AT_FDCWD, @/r/no@, O_RDWR|O_CREAT, 0600) = -1 EACCES (Permission denied)\n\
         1 openat(AT_FDCWD, @/r/a@, O_RDWR|O_CREAT, 0600) = 3\n\
         1 write(3, @lost@, 4) = -1 ENOSPC (No space left on device) (INJECTED)\n\
         1 writev(3, [{iov_base=@ab@, iov_len=2}, {iov_base=@cd@, iov_len=2}], 2) = 3\n\
         1 read(0x3, 0x7f0000000000, 0x10) = 0x10\n\
         1 lseek(3, 1, SEEK_SET) = 1\n\
         1 write(3, @X@, 1) = 1\n\
         1 fsync(3) = 0 (INJECTED)\n\
         1 fsync(3) = -1 EIO (Input/output error)\n",
    )
    .unwrap();
    assert_eq!(contents(&tracker, "a"), "aXc");
    assert!(!tracker.events.iter().any(|event| event.call == "fsync"));
    assert!(tracker.namespace.locate("/r/no".as_ref(), true).node().is_none());
}

#[test]
fn changes_count_at_start_and_syncs_and_acks_at_return() {
    let tracker = track(
        "1 clone(child_stack=0x1, flags=CLONE_VM|CLONE_FILES) = 2\n\
         1 openat(AT_FDCWD, @/r/a@, O_WRONLY|O_CREAT, 0600) = 3\n\
         1 write(1, @ack@, 3 <unfinished ...>\n\
         2 pwrite64(3, @text@, 4, 0 <unfinished ...>\n\
         1 <... write resumed>) = 3\n\
         1 fsync(3 <unfinished ...>\n\
         2 <... pwrite64 resumed>) = 4\n\
         1 <... fsync resumed>) = 0\n",
    )
    .unwrap();
    let order: Vec<_> = tracker.events.iter().map(|e| (e.call.as_str(), e.position())).collect();
    assert_eq!(order, [("openat", 2), ("pwrite64", 5), ("write", 6), ("fsync", 9)]);
}

#[test]
fn reads_move_offsets_and_closed_descriptors_are_ignored() {
    let tracker = track(
        "1 openat(AT_FDCWD, @/r/a@, O_RDWR|O_CREAT, 0600) = 3\n\
         1 write(3, @abcd@, 4) = 4\n\
         1 lseek(3, 0, SEEK_SET) = 0\n\
         1 read(0x3, 0x7f0000000000, 0x2) = 0x2\n\
         1 dup2(3, 9) = 9\n\
         1 write(9, @X@, 1) = 1\n\
         1 close(3) = 0\n\
         1 write(3, @to a socket of that number@, 27) = 27\n\
         1 write(9, @Y@, 1) = 1\n",
    )
    .unwrap();
    assert_eq!(contents(&tracker, "a"), "abXY");
}

#[test]
fn unfinished_write_is_an_error() {
    let error = track(
        "1 openat(AT_FDCWD, @/r/a@, O_RDWR|O_CREAT, 0600) = 3\n\
         1 write(3, @text@, 4) = ?\n\
         1 +++ killed by SIGKILL +++\n",
    );
    assert!(matches!(error.err().unwrap(), RecordError::Unfinished { .. }));
}

#[test]
fn unmodelled_calls_are_refused() {
    for log in [
        "1 openat(AT_FDCWD, @/r/a@, O_WRONLY|O_CREAT|O_DSYNC, 0600) = 3\n",
        "1 rename(@/tmp/x@, @/r/a@) = 0\n",
        "1 link(@/tmp/x@, @/r/a@) = 0\n",
        "7 write(1, @x@, 1) = 1\n8 write(1, @x@, 1) = 1\n",
    ] {
        let error = track(log).err().unwrap();
        assert!(matches!(error, RecordError::Unsupported { .. }), "{log}: {error}");
    }
}

#[test]
fn exchanged_linked_and_self_renamed_names_are_tracked() {
    let tracker = track(
        "1 openat(AT_FDCWD, @/r/a@, O_WRONLY|O_CREAT, 0600) = 3\n\
         1 write(3, @A@, 1) = 1\n\
         1 openat(AT_FDCWD, @/r/b@, O_WRONLY|O_CREAT, 0600) = 4\n\
         1 write(4, @B@, 1) = 1\n\
         1 renameat2(AT_FDCWD, @/r/a@, AT_FDCWD, @/r/b@, RENAME_EXCHANGE) = 0\n\
         1 linkat(AT_FDCWD, @/r/a@, AT_FDCWD, @/r/c@, 0) = 0\n\
         1 rename(@/r/a@, @/r/c@) = 0\n\
         1 openat(AT_FDCWD, @/r@, O_RDWR|O_TMPFILE, 0600) = 5\n\
         1 write(5, @T@, 1) = 1\n\
         1 linkat(AT_FDCWD, @/proc/self/fd/5@, AT_FDCWD, @/r/t@, AT_SYMLINK_FOLLOW) = 0\n",
    )
    .unwrap();
    let all = ["a", "b", "c", "t"].map(|name| contents(&tracker, name));
    assert_eq!(all, ["B", "A", "B", "T"]);
}

#[test]
fn paths_resolve_through_links_descriptors_and_cwd() {
    let tracker = track(
        "1 mkdir(@/r/d@, 0700) = 0\n\
         1 symlink(@d/../d@, @/r/l@) = 0\n\
         1 openat(AT_FDCWD, @/r/l/a@, O_WRONLY|O_CREAT, 0600) = 3\n\
         1 write(3, @A@, 1) = 1\n\
         1 openat(AT_FDCWD, @/r/d@, O_RDONLY|O_DIRECTORY) = 4\n\
         1 rename(@/r/d@, @/r/e@) = 0\n\
         1 unlinkat(AT_FDCWD, @/r/l@, 0) = 0\n\
         1 openat(4, @b@, O_WRONLY|O_CREAT, 0600) = 5\n\
         1 write(5, @B@, 1) = 1\n\
         1 chdir(@/r@) = 0\n\
         1 openat(AT_FDCWD, @./x/../e/c@, O_WRONLY|O_CREAT, 0600) = 6\n\
         1 write(6, @C@, 1) = 1\n",
    )
    .unwrap();
    let all = ["e/a", "e/b", "e/c"].map(|name| contents(&tracker, name));
    assert_eq!(all, ["A", "B", "C"]);
}

#[test]
fn allocated_and_punched_ranges_are_tracked() {
    let tracker = track(
        "1 openat(AT_FDCWD, @/r/a@, O_RDWR|O_CREAT, 0600) = 3\n\
         1 write(3, @abcd@, 4) = 4\n\
         1 fallocate(3, FALLOC_FL_KEEP_SIZE, 0, 100) = 0\n\
         1 fallocate(3, FALLOC_FL_KEEP_SIZE|FALLOC_FL_PUNCH_HOLE, 1, 2) = 0\n\
         1 fallocate(3, 0, 2, 4) = 0\n",
    )
    .unwrap();
    assert_eq!(contents(&tracker, "a"), "a\0\0d\0\0");
    let collapse = track(
        "1 openat(AT_FDCWD, @/r/a@, O_RDWR|O_CREAT, 0600) = 3\n\
         1 fallocate(3, FALLOC_FL_COLLAPSE_RANGE, 0, 4096) = 0\n",
    );
    assert!(matches!(collapse.err().unwrap(), RecordError::Unsupported { .. }));
}
