//! Tools, shells and builds that people run: the same result as untraced, and every change recorded.

use std::path::Path;

use crate::process_fixture::Fallible;
use crate::trace::program_check::{check_same, check_with_programs};

const REPOSITORY: &str = "git init -q -b main .; for i in 1 2 3 4 5 6 7 8 9; do echo $i > f$i; \
    mkdir -p d$i; echo $i > d$i/g; done; git add .; git commit -qm one; git checkout -qb side; \
    echo side > f1; rm -r d2; git mv f3 d3/moved; git commit -qam side; git checkout -q main; \
    echo main > f9; git commit -qam main;";

#[test]
fn git_is_traced() -> Fallible {
    check_same(REPOSITORY, "git checkout -q side", 0)?;
    check_same(REPOSITORY, "git checkout -q side; git rebase -q main", 0)?;
    check_same(REPOSITORY, "echo x > f5; git stash -q; git stash pop -q", 0)?;
    check_same(REPOSITORY, "git merge -q --no-edit side; git gc -q", 0)?;
    check_same(REPOSITORY, "git clone -q . copy; git worktree add -q other side", 0)
}

#[test]
fn tools_for_files_are_traced() -> Fallible {
    let files = "mkdir -p a/b; for i in 1 2 3 4 5; do echo line $i > a/b/$i; done; ln -s b a/link;";
    check_same(files, "sed -i s/line/word/ a/b/*", 0)?;
    check_same(files, "cp -a a c; mv a/b a/d; rm -r a/d/1; touch new; truncate -s 3 a/d/2", 0)?;
    check_same(files, "tar cf x.tar a; mkdir y; tar xf x.tar -C y; gzip -c x.tar > z.gz", 0)?;
    check_same(
        files,
        "cp --reflink=auto a/b/1 copy; dd if=copy of=a/b/2 conv=notrunc status=none",
        0,
    )?;
    check_same(
        files,
        "ln a/b/1 hard; install -m 700 a/b/2 tool; mktemp -p . >/dev/null; chmod 600 tool",
        0,
    )?;
    check_same(files, "find a -name '[12]' -delete; split -b 2 a/b/3 part; sort -o a/b/4 a/b/5", 0)
}

#[test]
fn shells_and_interpreters_are_traced() -> Fallible {
    let files = "for i in 1 2 3; do echo line $i > $i; done;";
    check_same(
        files,
        "bash -c 'echo a > a; { echo b; } >| b; echo c >> 1; exec 7<>2; echo d >&7'",
        0,
    )?;
    check_same(files, "perl -pi -e 's/line/word/' 1 2 3", 0)?;
    check_same(
        files,
        "python3 -B -c \"
import mmap, multiprocessing, pathlib, shutil, tempfile, os
def work(i): pathlib.Path(f'p{i}').write_text('x')
with multiprocessing.get_context('fork').Pool(3) as pool: pool.map(work, range(20))
f = open('1', 'r+b'); m = mmap.mmap(f.fileno(), 0); m[0:1] = b'X'; m.flush()
shutil.copytree('.', 'copy', ignore=shutil.ignore_patterns('copy')); os.replace('2', 'two')
\"",
        0,
    )
}

#[test]
fn parallel_builds_are_traced() -> Fallible {
    let project = "for i in 1 2 3 4 5 6 7 8; do echo \"int f$i(void) { return $i; }\" > f$i.c; done; \
        echo 'int main(void) { return 0; }' > main.c; \
        printf 'prog: main.o f1.o f2.o f3.o f4.o f5.o f6.o f7.o f8.o\\n\\tcc -o $@ $^\\n\\tar rcs lib.a $^\\n' > Makefile;";
    check_same(project, "make -s -j4; ./prog", 0)
}

#[test]
fn builds_of_rust_are_traced() -> Fallible {
    let package = "mkdir src; printf '[package]\\nname = \"p\"\\nversion = \"0.1.0\"\\nedition = \"2024\"\\n' > Cargo.toml; \
        echo 'pub fn two() -> u32 { 2 }' > src/lib.rs; \
        echo 'fn main() { println!(\"{}\", p::two()); }' > src/main.rs;";
    let cargo = Path::new(env!("CARGO")).parent().ok_or("no folder")?;
    check_with_programs(
        cargo,
        package,
        "cargo build -q --offline; target/debug/p; echo 'pub fn two() -> u32 { 3 }' > src/lib.rs; \
         cargo build -q --offline; target/debug/p; cargo clean -q",
    )
}

/// Namespaces that `unshare` makes: of users, mounts and processes.
#[test]
fn unshared_programs_are_traced() -> Fallible {
    let files = "mkdir -p a/b e; echo one > a/f; echo two > g;";
    let unshare = "unshare --user --map-root-user --mount --pid --fork --mount-proc sh -ec";
    check_same(
        files,
        &format!("{unshare} 'mount --bind a e; echo x > e/new; mv e/f e/b; rm g; echo $$; ls e'"),
        0,
    )?;
    // Inside of another root, made of the files themselves.
    check_same(
        files,
        &format!(
            "{unshare} 'mount --rbind / e; cd e; exec /usr/sbin/chroot . sh -ec \"cd $PWD/..; echo x > a/inside; mv g a/g\"'"
        ),
        0,
    )
}

/// Programs that start others apart from the command, which must end before it does.
#[test]
fn programs_in_sessions_of_their_own_are_traced() -> Fallible {
    check_same(
        "echo one > f;",
        "setsid --wait sh -c 'echo two > f; setsid --wait sh -c \"mkdir d; mv f d\"'; timeout 60 sh -c 'echo x > t'; \
         nohup sh -c 'echo y > n' 2>/dev/null; (echo z > z) & wait",
        0,
    )
}
