//! What each system call leaves in the log.

use crate::process_fixture::Fallible;
use crate::trace::trace_fixture::{TraceFixture, assert_complete};

/// Runs Python with `os`, `ctypes` and a function `call(number, …)` for raw system calls.
fn trace_python(case: &TraceFixture, script: &str) -> Fallible<Vec<String>> {
    let prelude = "import os, ctypes, sys, mmap, struct\n\
        libc = ctypes.CDLL(None, use_errno=True)\n\
        def call(number, *args):\n    \
            result = libc.syscall(ctypes.c_long(number), *args)\n    \
            if result < 0: raise OSError(ctypes.get_errno(), 'call')\n    \
            return result\n";
    let script = format!("{prelude}{script}");
    let python = case.process.program(&find_python()?).args(["-B", "-c", script.as_str()]);
    let (outcome, output) = case.run_command(&python)?;
    assert_eq!(outcome.exit.code(), 0, "{output}");
    let log = case.read("trace")?;
    assert_complete(&log);
    assert!(log.ended, "nothing of the tree is left");
    Ok(case.lines(&log))
}

fn find_python() -> Fallible<String> {
    // A shim of a version manager would look for its configuration first.
    let found = ["/usr/bin/python3", "/usr/local/bin/python3"];
    let found = found.into_iter().find(|path| std::path::Path::new(path).exists());
    Ok(found.ok_or("python3 is missing")?.to_owned())
}

fn check(script: &str, expected: &[&str]) -> Fallible {
    let case = TraceFixture::new()?;
    fs_err::write(case.dir.join("old"), "content")?;
    fs_err::create_dir(case.dir.join("dir"))?;
    assert_eq!(trace_python(&case, script)?, expected, "{script}");
    Ok(())
}

#[test]
fn opening_for_writing_is_recorded_and_reading_is_not() -> Fallible {
    check("open('old').read()", &[])?;
    check("os.stat('old'); os.listdir('.'); os.readlink('/proc/self/exe')", &[])?;
    check("open('old', 'r+')", &["OpenForWrite old"])?;
    check("open('old', 'a')", &["OpenForWrite old"])?;
    check("open('old', 'w')", &["Truncate old"])?;
    check("open('new', 'w')", &["Create new"])?;
    check("os.open('old', os.O_RDONLY | os.O_TRUNC)", &["Truncate old"])?;
    check("os.open('new', os.O_RDONLY | os.O_CREAT)", &["Create new"])?;
    check("open('/dev/null', 'w'); os.open('old', os.O_PATH | os.O_RDWR)", &[])?;
    check("open('dir/new', 'w'); open('dir/new', 'w')", &["Create dir/new", "Truncate dir/new"])
}

#[test]
fn calls_that_cannot_change_anything_are_not_recorded() -> Fallible {
    check(
        "def fails(f, *a):\n    try: f(*a)\n    except OSError: return\n    sys.exit('no error')\n\
         fails(os.unlink, 'none'); fails(os.rmdir, 'none'); fails(os.mkdir, 'dir')\n\
         fails(os.rename, 'none', 'old'); fails(os.open, 'none', os.O_WRONLY)\n\
         fails(os.open, 'old', os.O_WRONLY | os.O_CREAT | os.O_EXCL); fails(os.symlink, 'x', 'old')\n\
         fails(os.link, 'old', 'dir'); fails(os.unlink, 'dir'); fails(os.rmdir, 'old')\n\
         fails(os.chmod, 'none', 0o600); fails(os.truncate, 'none', 0); fails(open, 'no/x', 'w')\n",
        &[],
    )
}

#[test]
fn names_are_recorded_when_they_are_made_moved_and_removed() -> Fallible {
    check("os.mkdir('a'); os.rmdir('a')", &["CreateDirectory a", "RemoveDirectory a"])?;
    check("os.unlink('old')", &["Remove old"])?;
    check("os.symlink('old', 'link'); os.unlink('link')", &["Symlink link", "Remove link"])?;
    check("os.link('old', 'dir/hard')", &["Link dir/hard"])?;
    check("os.mkfifo('pipe'); os.mknod('file')", &["Node pipe", "Create file"])?;
    check("os.rename('old', 'dir/new')", &["MoveFrom old dir/new", "MoveTo dir/new old"])?;
    check("os.rename('dir', 'other')", &["MoveFrom dir other", "MoveTo other dir"])?;
    check("os.truncate('old', 3)", &["Truncate old"])?;
    check(
        "import socket; socket.socket(socket.AF_UNIX).bind('sock')\n\
         socket.socket(socket.AF_UNIX).bind('\\0abstract'); socket.socket().bind(('', 0))",
        &["Node sock"],
    )
}

#[test]
fn modes_and_owners_are_recorded() -> Fallible {
    check("os.chmod('old', 0o600)", &["Mode old"])?;
    check("os.chown('old', -1, -1)", &["Owner old"])?;
    check("os.lchown('old', -1, -1)", &["Owner old"])?;
    check("f = os.open('old', os.O_RDONLY); os.fchmod(f, 0o600)", &["Mode old"])?;
    check("f = os.open('dir', os.O_RDONLY); os.fchown(f, -1, -1)", &["Owner dir"])?;
    check("os.symlink('old', 'l'); os.chmod('l', 0o600)", &["Symlink l", "Mode old"])?;
    check("os.symlink('old', 'l'); os.lchown('l', -1, -1)", &["Symlink l", "Owner l"])
}

#[test]
fn links_are_followed_as_the_call_follows_them() -> Fallible {
    check(
        "os.symlink('../old', 'dir/l'); open('dir/l', 'a')",
        &["Symlink dir/l", "OpenForWrite old"],
    )?;
    check("os.symlink('dir', 'l'); open('l/x', 'w')", &["Symlink l", "Create dir/x"])?;
    check("os.symlink('made', 'l'); open('l', 'w')", &["Symlink l", "Create made"])?;
    check("os.symlink('dir', 'l'); os.unlink('l')", &["Symlink l", "Remove l"])?;
    check(
        "os.mkdir('made/'); os.rename('made/', 'moved/')",
        &["CreateDirectory made", "MoveFrom made moved", "MoveTo moved made"],
    )?;
    check("os.chdir('dir'); open('../dir/./../new', 'w')", &["Create new"])
}

#[test]
fn descriptors_of_directories_are_resolved() -> Fallible {
    check(
        "d = os.open('dir', os.O_RDONLY); open('x', 'w', opener=lambda p, f: os.open(p, f, dir_fd=d))",
        &["Create dir/x"],
    )?;
    // The directory has another name by the time of the call.
    check(
        "d = os.open('dir', os.O_RDONLY); os.rename('dir', 'now'); os.mkdir('sub', dir_fd=d)",
        &["MoveFrom dir now", "MoveTo now dir", "CreateDirectory now/sub"],
    )?;
    check(
        "os.chdir('dir'); os.rename('../dir', '../now'); open('x', 'w')",
        &["MoveFrom dir now", "MoveTo now dir", "Create now/x"],
    )
}

#[test]
fn files_without_a_name_are_recorded_when_they_get_one() -> Fallible {
    check(
        "f = os.open('.', os.O_TMPFILE | os.O_WRONLY, 0o600); os.write(f, b'x')\n\
         call(265, -100, f'/proc/self/fd/{f}'.encode(), -100, b'named', 0x400)",
        &["Link named"],
    )?;
    check("f = os.open('.', os.O_TMPFILE | os.O_WRONLY, 0o600); os.fchmod(f, 0o644)", &[])
}

#[test]
fn exchanged_names_are_both_recorded() -> Fallible {
    check("call(316, -100, b'old', -100, b'dir', 2)", &["Exchange old dir", "Exchange dir old"])?;
    check(
        "open('b', 'w'); call(316, -100, b'old', -100, b'x', 1)",
        &["Create b", "MoveFrom old x", "MoveTo x old"],
    )
}

#[test]
fn openat2_is_recorded_by_the_flags_in_memory() -> Fallible {
    check(
        "def how(flags, mode, resolve): return struct.pack('QQQ', flags, mode, resolve)\n\
         call(437, -100, b'old', how(os.O_WRONLY, 0, 0), 24)\n\
         call(437, -100, b'old', how(os.O_RDONLY, 0, 0), 24)\n\
         d = os.open('dir', os.O_RDONLY); os.symlink('/', 'dir/top')\n\
         call(437, d, b'/top/../in', how(os.O_WRONLY | os.O_CREAT, 0o600, 0x10), 24)",
        &["OpenForWrite old", "Symlink dir/top", "Create dir/in"],
    )
}

#[test]
fn files_reopened_by_proc_are_recorded_under_their_name() -> Fallible {
    check(
        "f = os.open('old', os.O_RDONLY); os.open(f'/proc/self/fd/{f}', os.O_WRONLY)",
        &["OpenForWrite old"],
    )?;
    check(
        "f = os.open('old', os.O_RDONLY); os.open(f'/dev/fd/{f}', os.O_WRONLY)",
        &["OpenForWrite old"],
    )?;
    check(
        "f = os.open('old', os.O_RDONLY); os.open(f'/proc/thread-self/fd/{f}', os.O_WRONLY)",
        &["OpenForWrite old"],
    )?;
    check("open('/proc/self/cwd/x', 'w')", &["Create x"])?;
    check(
        "os.symlink('/proc/self/cwd/dir', 'l'); open('l/x', 'w')",
        &["Symlink l", "Create dir/x"],
    )?;
    check("open('/proc/self/comm', 'w').write('a')", &[])
}

#[test]
fn mapped_files_are_recorded_when_they_are_opened() -> Fallible {
    check(
        "f = os.open('old', os.O_RDWR); m = mmap.mmap(f, 7); os.close(f); m[0:1] = b'x'; m.flush()",
        &["OpenForWrite old"],
    )
}

#[test]
fn threads_with_directories_of_their_own_are_resolved() -> Fallible {
    check(
        "import threading\n\
         def work():\n    \
             libc.unshare(0x200); os.chdir('dir'); open('inner', 'w')\n\
         t = threading.Thread(target=work); t.start(); t.join(); open('outer', 'w')",
        &["Create dir/inner", "Create outer"],
    )
}

#[test]
fn io_uring_and_x32_are_refused() -> Fallible {
    check(
        "import errno\n\
         for number in (425, 0x40000000 + 257):\n    \
             try: call(number, 1, 0)\n    \
             except OSError as e: assert e.errno == errno.ENOSYS, e\n    \
             else: sys.exit('allowed')",
        &[],
    )
}

#[test]
fn names_of_any_bytes_are_recorded() -> Fallible {
    let case = TraceFixture::new()?;
    trace_python(&case, "open(b'\\xff\\n x', 'w'); open(b'l' * 255, 'w')")?;
    let log = case.read("trace")?;
    let paths: Vec<_> = log.touches.iter().filter_map(|touch| touch.path.file_name()).collect();
    use std::os::unix::ffi::OsStrExt;
    let names: Vec<_> = paths.iter().map(|name| name.as_bytes()).collect();
    assert_eq!(names, [&b"\xff\n x"[..], &[b'l'; 255]]);
    Ok(())
}

/// 32-bit system calls of a 64-bit program: the same as those of a 32-bit program.
#[test]
#[cfg(target_arch = "x86_64")]
fn calls_of_32_bit_programs_are_recorded() -> Fallible {
    let case = TraceFixture::new()?;
    fs_err::write(case.dir.join("old"), "content")?;
    fs_err::write(case.dir.join("calls.c"), include_str!("calls32.c"))?;
    let log = case.run("cc -o calls calls.c && ./calls")?;
    assert_complete(&log);
    let lines = case.lines(&log);
    let own = lines.iter().skip_while(|line| *line != "Create made32");
    let expected = [
        "Create made32",
        "OpenForWrite old",
        "CreateDirectory dir32",
        "MoveFrom made32 dir32/moved",
        "MoveTo dir32/moved made32",
        "Node dir32/sock",
        "Remove dir32/moved",
    ];
    assert_eq!(own.collect::<Vec<_>>(), expected);
    Ok(())
}
