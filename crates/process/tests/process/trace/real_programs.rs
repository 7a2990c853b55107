//! Programs that people run: exit code and output as without a trace, and every change recorded.

use turnstone_trace::TraceGapReason;

use crate::process_fixture::Fallible;
use crate::trace::program_check::check_same;
use crate::trace::trace_fixture::{TraceFixture, assert_complete};

/// A C program that changes files in many ways.
const PROGRAM: &str = "cat > p.c <<'END'\n\
    #include <fcntl.h>\n#include <stdio.h>\n#include <unistd.h>\n#include <sys/stat.h>\n\
    int main(void) {\n\
    FILE *f = fopen(\"written\", \"w\"); fputs(\"x\\n\", f); fclose(f);\n\
    f = fopen(\"old\", \"a\"); fputs(\"more\\n\", f); fclose(f);\n\
    mkdir(\"d\", 0755); rename(\"written\", \"d/moved\"); link(\"old\", \"hard\"); symlink(\"old\", \"soft\");\n\
    chmod(\"old\", 0600); truncate(\"cut\", 1); unlink(\"gone\"); puts(\"done\");\n\
    return 3; }\nEND\n\
    echo one > old; echo two > cut; echo three > gone;";

/// No library of the program can tell what it does: it has none.
#[test]
fn static_program_is_traced() -> Fallible {
    check_same(&format!("{PROGRAM} musl-gcc -static -o p p.c; ! ldd p 2>/dev/null"), "./p", 3)?;
    check_same(&format!("{PROGRAM} cc -o p p.c"), "./p", 3)
}

#[test]
fn rsync_is_traced() -> Fallible {
    let files = "mkdir -p from/a/b to/old; for i in 1 2 3 4 5; do echo $i > from/a/b/$i; echo o > to/old/$i; \
                 done; ln -s b from/a/link; chmod 700 from/a/b/2; mkdir to/a; echo other > to/a/x;";
    check_same(files, "rsync -a from/ to/; rsync -a --delete from/ to/", 0)?;
    check_same(
        files,
        "rsync -a from/ to/; echo changed >> from/a/b/1; rsync -a --inplace from/ to/",
        0,
    )
}

#[test]
fn sandbox_of_bubblewrap_is_seen_through() -> Fallible {
    let bwrap =
        "bwrap --unshare-user --unshare-pid --ro-bind / / --dev /dev --proc /proc --tmpfs /tmp";
    let files = "mkdir -p src out; echo one > src/f; ln -s $PWD/out src/out;";
    // The working directory lies below /tmp, which the sandbox replaces; it is bound into it again.
    check_same(
        files,
        &format!(
            "{bwrap} --bind $PWD $PWD sh -ec 'echo two > src/f; cd src; echo x > ../out/a; \
             echo x > out/b; rm f; mv ../out/a ../moved; mkdir -p d/e; echo $$'"
        ),
        0,
    )?;
    // At another path, and in a sandbox inside of the sandbox.
    check_same(
        files,
        &format!("{bwrap} --bind $PWD /mnt --chdir /mnt sh -ec 'echo x > new; rm src/f'"),
        0,
    )?;
    check_same(
        files,
        &format!(
            "{bwrap} --bind $PWD $PWD bwrap --unshare-user --ro-bind / / --dev /dev --bind $PWD $PWD \
             sh -ec 'echo inner > src/f; cd out; \
             echo x > ./a; mv a ../src/b'"
        ),
        0,
    )
}

#[test]
fn editor_vim_is_traced() -> Fallible {
    let vim = "vim -es -u NONE -i NONE -N";
    let file = "echo one > f; echo other > g;";
    check_same(file, &format!("{vim} -c 'set nobackup' -c '%s/one/two/' -c wq f"), 0)?;
    check_same(file, &format!("{vim} -c 'set backup backupcopy=no' -c '%s/one/two/' -c wq f"), 0)?;
    check_same(
        file,
        &format!(
            "{vim} -c 'set undofile undodir=.' -c 'normal ofour' -c wq f; {vim} -c 'w new' -c q g"
        ),
        0,
    )
}

#[test]
fn database_with_mapped_pages_is_traced() -> Fallible {
    let table = "sqlite3 db 'CREATE TABLE t(a); INSERT INTO t VALUES (1)';";
    check_same(
        table,
        "sqlite3 db 'PRAGMA mmap_size=1000000; UPDATE t SET a = 2; SELECT a FROM t'",
        0,
    )?;
    check_same(
        table,
        "sqlite3 db 'PRAGMA mmap_size=1000000; PRAGMA journal_mode=WAL; UPDATE t SET a = 3; \
         PRAGMA wal_checkpoint; INSERT INTO t SELECT a FROM t; VACUUM INTO \"copy\"; SELECT count(*) FROM t'",
        0,
    )
}

/// Tracers inside of the traced tree see what they are asked about.
#[test]
fn tracers_work_inside_of_the_tree() -> Fallible {
    check_same(
        "echo one > f;",
        "strace -f -qq -e trace=openat -e signal=none -o calls sh -c 'echo two > f; echo x > new'; \
         grep -o '\"f\".*O_TRUNC\\|\"new\".*O_TRUNC' calls; rm calls",
        0,
    )?;
    check_same(
        &format!("{PROGRAM} cc -g -O0 -o p p.c"),
        "gdb -batch -nx -ex 'set debuginfod enabled off' -ex 'break rename' -ex run -ex 'print 1 + 1' \
         -ex continue ./p < /dev/null 2>/dev/null | grep -o 'Breakpoint 1, \\|^.1 = 2\\|code 03'",
        0,
    )
}

/// A filter that redirects calls to its tracer comes second: the calls that we report, it never sees.
#[test]
fn strace_by_filter_is_blind_to_reported_calls_and_changes_nothing() -> Fallible {
    let case = TraceFixture::new()?;
    let log = case.run(
        "strace -f --seccomp-bpf -qq -e trace=openat,unlink,unlinkat -e signal=none -o calls \
         sh -c 'echo x > made; cat made > /dev/null'",
    )?;
    assert_complete(&log);
    assert!(case.lines(&log).contains(&"Create made".to_owned()));
    let calls = fs_err::read_to_string(case.dir.join("calls"))?;
    assert!(calls.contains("O_RDONLY") && !calls.contains("O_WRONLY"), "{calls}");
    Ok(())
}

/// What a program's own filter refuses does not happen, and is answered by that filter.
#[test]
fn programs_with_filters_of_their_own_behave_as_untraced() -> Fallible {
    let source = include_str!("own_filter.c");
    let prepare = format!("echo one > old; cat > p.c <<'END'\n{source}\nEND\ncc -o p p.c");
    check_same(&prepare, "./p", 0)
}

#[test]
fn python_packages_are_traced() -> Fallible {
    // A wheel is an archive: no index and no build is needed.
    let wheel = "/usr/bin/python3 -B -c \"
import zipfile
w = zipfile.ZipFile('tiny-1.0-py3-none-any.whl', 'w')
w.writestr('tiny/__init__.py', 'x = 1\\n' * 50)
w.writestr('tiny/data/more.txt', 'text')
w.writestr('tiny-1.0.dist-info/METADATA', 'Metadata-Version: 2.1\\nName: tiny\\nVersion: 1.0\\n')
w.writestr('tiny-1.0.dist-info/WHEEL', 'Wheel-Version: 1.0\\nGenerator: t\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')
w.writestr('tiny-1.0.dist-info/RECORD', '')
w.close()
\";";
    // The wheel of pip itself, as Debian and as Python bring it: installing it would take ten seconds each time.
    let pip = "env/bin/python $(ls /usr/share/python-wheels/pip-*.whl \
        /usr/lib/python3*/ensurepip/_bundled/pip-*.whl 2>/dev/null | head -n 1)/pip -q --disable-pip-version-check";
    check_same(
        wheel,
        &format!(
            "/usr/bin/python3 -m venv --without-pip env; {pip} install --no-index ./tiny-*.whl; \
             env/bin/python -c 'import tiny; print(tiny.x)'; {pip} uninstall -y tiny"
        ),
        0,
    )
}

#[test]
fn node_packages_are_traced() -> Fallible {
    let packages = "for i in 1 2 3; do mkdir p$i; echo \"{\\\"name\\\":\\\"p$i\\\",\\\"version\\\":\\\"1.0.0\\\"}\" \
        > p$i/package.json; for j in 1 2 3 4 5; do echo \"exports.x = $j\" > p$i/f$j.js; done; \
        (cd p$i && npm pack --silent >/dev/null); done; mkdir app; echo '{\"name\":\"app\"}' > app/package.json;";
    check_same(
        packages,
        "cd app; npm install --offline --silent --no-audit --no-fund ../p1/p1-1.0.0.tgz ../p2/p2-1.0.0.tgz; \
         npm install --offline --silent --no-audit --no-fund ../p3/p3-1.0.0.tgz; \
         npm uninstall --silent --no-audit p1; ls node_modules",
        0,
    )
}

/// Another listener in the tree is refused by the kernel; the program hears why.
#[test]
fn second_listener_in_the_tree_is_refused_with_busy() -> Fallible {
    let case = TraceFixture::new()?;
    fs_err::write(case.dir.join("listen.c"), LISTEN)?;
    let log = case.run("cc -o listen listen.c; ./listen; echo x > after")?;
    assert_complete(&log);
    assert!(log.gaps.iter().all(|gap| gap.reason != TraceGapReason::HoldersLost));
    assert!(case.lines(&log).contains(&"Create after".to_owned()));
    Ok(())
}

const LISTEN: &str = "#include <errno.h>\n#include <linux/filter.h>\n#include <linux/seccomp.h>\n\
    #include <sys/prctl.h>\n#include <sys/syscall.h>\n#include <unistd.h>\n\
    int main(void) {\n\
    struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);\n\
    struct sock_fprog filter = {1, &allow};\n\
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);\n\
    long fd = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &filter);\n\
    return fd < 0 && errno == EBUSY ? 0 : 1; }\n";
