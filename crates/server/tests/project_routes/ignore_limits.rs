//! Ignore files of a repository cannot exhaust memory, and rules that are left out are reported.

use crate::support::ServerFixture;

/// The most memory this process ever held, in kilobytes.
fn peak_memory() -> u64 {
    let status = fs_err::read_to_string("/proc/self/status").expect("read");
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("a line");
    line.split_whitespace().nth(1).and_then(|text| text.parse().ok()).expect("a number")
}

/// Rules of about `size` bytes, each of which becomes a regular expression.
fn expensive_rules(size: usize) -> String {
    let mut text = String::with_capacity(size);
    for number in 0.. {
        let rule = format!("a?{number:x}*.c\n");
        if text.len() + rule.len() > size {
            break;
        }
        text.push_str(&rule);
    }
    text
}

#[test]
fn huge_ignore_files_take_little_memory_and_are_reported() {
    let house = ServerFixture::with_git();
    house.write_file("a/b/c/needle.txt", "needle\n");
    let routes = ["/find?pattern=needle", "/find/file?query=needle", "/file?path=a/b/c"];
    for route in routes {
        let answer = house.client().get(route);
        assert_eq!((answer.status, answer.header("x-turnstone-truncated")), (200, None), "{route}");
    }
    let before = peak_memory();
    // Too large for one file; then as large as is read, three times on one way down.
    for size in [1 << 20, 250 << 10] {
        let rules = expensive_rules(size);
        for folder in ["a", "a/b", "a/b/c"] {
            house.write_file(&format!("{folder}/.gitignore"), &rules);
            house.write_file(&format!("{folder}/.ignore"), &rules);
        }
        for route in routes {
            let answer = house.client().get(route);
            assert_eq!(answer.header("x-turnstone-truncated"), Some("ignore-rules"), "{route}");
            let found = answer.expect(200).to_string();
            assert!(found.contains("needle.txt"), "{route}: {found}");
        }
    }
    let grown = peak_memory() - before;
    assert!(grown < 250_000, "grew by {grown} KB");
}
