//! What the server may not do: write to the store.

use crate::finding::{TidyFinding, TidyRule, assert_lines, assert_no_findings};
use crate::repository_files::{self, SourceFile};

const ONE_WAY_IN: TidyRule = TidyRule {
    name: "server-writes",
    remedy: "call a function of the engine; the server only reads from the store",
};

const SERVER: &str = "crates/server/src/";

/// The methods of `Store` and of its views that the server may call: none of them changes history.
const STORE_READS: [&str; 8] = [
    "read",
    "commit_watch",
    "layout",
    "tail_log",
    "search_index().query",
    "maintenance().measure_sizes",
    "idempotency().find",
    "leases().is_held",
];

/// Finds calls of `Store` that write, and every use of a write transaction.
fn check_writes(source: &SourceFile) -> Vec<TidyFinding> {
    if !source.path.starts_with(SERVER) {
        return Vec::new();
    }
    let code = &source.code;
    let mut findings = Vec::new();
    for index in source.shipped_tokens() {
        let line = code.tokens[index].line;
        if code.text(index) == "Tx" {
            findings.push(ONE_WAY_IN.report(&source.path, line, "a write transaction is named"));
        }
        let at = if code.matches_at(index, &["store", "(", ")", "."]) {
            index + 4
        } else if code.matches_at(index, &["store", "."]) {
            index + 2
        } else {
            continue;
        };
        let mut method = code.text(at).to_owned();
        if code.matches_at(at + 1, &["(", ")", "."]) {
            method = format!("{method}().{}", code.text(at + 4));
        }
        if !STORE_READS.contains(&method.as_str()) {
            let what = format!("`store.{method}` is called");
            findings.push(ONE_WAY_IN.report(&source.path, line, what));
        }
    }
    findings
}

#[test]
fn server_writes_only_through_the_engine() {
    let sources = repository_files::read_sources();
    let findings: Vec<_> = sources.iter().flat_map(check_writes).collect();
    assert_no_findings(&findings);
}

#[test]
fn a_write_of_the_server_is_found() {
    let text = "use turnstone_store::Tx;\nfn f() { app.engine().store().write(ctx, put); }\n\
                fn g() { let store = engine.store(); store.leases().acquire(ctx, id); }\n\
                fn h() { store.read(ctx, get); engine\n.store()\n.search_index().query(ctx, a); }\n\
                #[cfg(test)]\nmod tests { fn i() { store.write(a); } }\n";

    assert_lines(
        &check_writes(&SourceFile::new("crates/server/src/route/part.rs", text)),
        &[1, 2, 3],
    );
    assert_lines(&check_writes(&SourceFile::new("crates/engine/src/turn.rs", text)), &[]);
}
