//! What the server may not do: write to the store, or answer with JSON that has no type.

use crate::finding::{
    RuleException, TidyFinding, TidyRule, apply_exceptions, assert_lines, assert_no_findings,
};
use crate::repository_files::{self, SourceFile};

const ONE_WAY_IN: TidyRule = TidyRule {
    name: "server-writes",
    remedy: "call a function of the engine; the server only reads from the store",
};
const UNTYPED: TidyRule = TidyRule {
    name: "untyped-response",
    remedy: "define a struct that derives `Serialize`; stored wire text is a `StoredJson`",
};

/// The files that may answer with JSON that has no type.
const UNTYPED_RESPONSES: [RuleException; 0] = [];

const SERVER: &str = "crates/server/src/";

/// The methods of `Store` and of its views that the server may call: none of them changes history.
const STORE_READS: [&str; 8] = [
    "read",
    "commit_watch",
    "layout",
    "tail_log",
    "session_search().query",
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
        if !STORE_READS.contains(&method.as_str()) && code.matches_at(at + 1, &["(", ")", "."]) {
            method = format!("{method}().{}", code.text(at + 4));
        }
        if !STORE_READS.contains(&method.as_str()) {
            let what = format!("`store.{method}` is called");
            findings.push(ONE_WAY_IN.report(&source.path, line, what));
        }
    }
    findings
}

/// Finds responses that are any JSON.
fn check_untyped(source: &SourceFile) -> Vec<TidyFinding> {
    if !source.path.starts_with(SERVER) {
        return Vec::new();
    }
    let code = &source.code;
    let untyped = source.shipped_tokens().filter(|index| {
        code.matches_at(*index, &["Json", "<", "Value", ">"])
            || code.matches_at(*index, &["Json", "(", "json", "!"])
    });
    untyped
        .map(|index| {
            let line = code.tokens[index].line;
            UNTYPED.report(&source.path, line, "a response is any JSON")
        })
        .collect()
}

#[test]
fn server_writes_only_through_the_engine() {
    let sources = repository_files::read_sources();
    let findings: Vec<_> = sources.iter().flat_map(check_writes).collect();
    assert_no_findings(&findings);
}

#[test]
fn server_responses_have_types() {
    let sources = repository_files::read_sources();
    let findings = sources.iter().flat_map(check_untyped).collect();
    assert_no_findings(&apply_exceptions(&UNTYPED, findings, &UNTYPED_RESPONSES));
}

#[test]
fn a_write_of_the_server_is_found() {
    let text = "use turnstone_store::Tx;\nfn f() { app.engine().store().write(ctx, put); }\n\
                fn g() { let store = engine.store(); store.leases().acquire(ctx, id); }\n\
                fn h() { store.read(ctx, get); engine\n.store()\n.session_search().query(ctx, a); }\n\
                #[cfg(test)]\nmod tests { fn i() { store.write(a); } }\n";

    assert_lines(
        &check_writes(&SourceFile::new("crates/server/src/route/part.rs", text)),
        &[1, 2, 3],
    );
    assert_lines(&check_writes(&SourceFile::new("crates/engine/src/turn.rs", text)), &[]);
}

#[test]
fn an_untyped_response_is_found() {
    let text =
        "fn f() -> Json<Value> { Json(json!({})) }\nfn g() -> Json<Health> { Json(Health) }\n";

    assert_lines(
        &check_untyped(&SourceFile::new("crates/server/src/route/health.rs", text)),
        &[1, 1],
    );
    assert_lines(&check_untyped(&SourceFile::new("crates/cli/src/ui.rs", text)), &[]);
}
