//! Trees that give themselves other roots, mounts and numbers of processes.

use crate::process_fixture::Fallible;
use crate::trace::trace_fixture::{TraceFixture, assert_complete};

fn lines_of(script: &str) -> Fallible<Vec<String>> {
    let case = TraceFixture::new()?;
    fs_err::create_dir_all(case.dir.join("a/b"))?;
    let log = case.run(script)?;
    assert_complete(&log);
    Ok(case.lines(&log))
}

#[test]
fn nested_namespaces_are_seen_through() -> Fallible {
    let script = "unshare --user --map-root-user --mount --pid --fork --mount-proc sh -ec '\
                  echo x > a/one; cd a; echo x > ../two; echo x > \"$PWD/three\"; \
                  echo x 9> b/four > /proc/self/fd/9; mv one b; rm /proc/self/cwd/three'";
    assert_eq!(
        lines_of(script)?,
        [
            "Create a/one",
            "Create two",
            "Create a/three",
            "Create a/b/four",
            "Truncate a/b/four",
            "MoveFrom a/one a/b/one",
            "MoveTo a/b/one a/one",
            "Remove a/three",
        ]
    );
    Ok(())
}

#[test]
fn bind_mounts_of_the_tree_are_translated() -> Fallible {
    let script = "mkdir elsewhere; unshare --user --map-root-user --mount sh -ec '\
                  mount --bind a elsewhere; echo x > elsewhere/one; cd elsewhere/b; \
                  echo x > ../two; echo x > three; mount -t tmpfs none .; cd .; cd \"$PWD\"; \
                  echo hidden > four'";
    assert_eq!(
        lines_of(script)?,
        ["CreateDirectory elsewhere", "Create a/one", "Create a/two", "Create a/b/three",]
    );
    Ok(())
}

#[test]
fn paths_in_another_root_are_resolved_in_it() -> Fallible {
    let script = "PATH=$PATH:/usr/sbin:/sbin; mkdir a/bin; cp /bin/busybox a/bin/sh 2>/dev/null || { \
                  for file in /bin/sh $(ldd /bin/sh | grep -o '/[^ ]*'); do \
                  mkdir -p a$(dirname $file); cp $file a$file; done; }; touch ready; \
                  ln -s /b/real a/link; \
                  unshare --user --map-root-user --mount chroot a /bin/sh -ec '\
                  echo x > /b/one; cd b; echo x > ../../../two; echo x > /link; \
                  echo x > ../b/../../b/three'";
    let lines = lines_of(script)?;
    let after = lines.iter().skip_while(|line| *line != "Symlink a/link");
    assert_eq!(
        after.collect::<Vec<_>>(),
        ["Symlink a/link", "Create a/b/one", "Create a/two", "Create a/b/real", "Create a/b/three",]
    );
    Ok(())
}

#[test]
fn files_on_a_mount_of_the_tree_alone_are_no_gap() -> Fallible {
    let script = "unshare --user --map-root-user --mount sh -ec '\
                  mount -t tmpfs none a; echo x > a/hidden; mkdir a/d; echo x > seen'";
    assert_eq!(lines_of(script)?, ["Create seen"]);
    Ok(())
}

#[test]
fn overlay_of_the_tree_is_a_gap() -> Fallible {
    let case = TraceFixture::new()?;
    // The upper directory of an overlay cannot lie on every file system: on tmpfs it can.
    let log = case.run(
        "mkdir -p s; unshare --user --map-root-user --mount sh -ec '\
         mount -t tmpfs none s; mkdir s/lower s/upper s/work s/merged; \
         mount -t overlay none -o lowerdir=s/lower,upperdir=s/upper,workdir=s/work,userxattr s/merged; \
         echo x > s/merged/file'",
    )?;
    let reasons: Vec<_> = log.hiding_gaps().map(|gap| gap.reason).collect();
    assert_eq!(reasons, [turnstone_trace::TraceGapReason::NestedFileSystem]);
    Ok(())
}
