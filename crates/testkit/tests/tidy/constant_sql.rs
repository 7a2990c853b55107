//! SQL text is constant (R44): values are bound, never written into the statement.
//!
//! Looks at string literals that begin like SQL and at what is done with them. `concat!` is fine:
//! it takes literals only, so its result is constant.

use crate::finding::{
    RuleException, TidyFinding, TidyRule, apply_exceptions, assert_lines, assert_no_findings,
};
use crate::repository_files::{self, SourceFile};

const SQL: TidyRule = TidyRule {
    name: "constant-sql",
    remedy: "write the statement as one literal and bind the values; choose between whole \
             statements, not between pieces (R44)",
};

/// Files that may build SQL, and why nothing of a user can get into it.
const ALLOWED_FILES: &[RuleException] = &[];

const CRATES: [&str; 2] = ["store", "exchange"];
const MACROS: [&str; 4] = ["format", "format_args", "write", "writeln"];
const METHODS: [&str; 3] = ["push_str", "insert_str", "write_str"];

/// Words a statement, or a piece of one, begins with; in capitals, as all our SQL is written.
const WORDS: [&str; 20] = [
    "SELECT", "INSERT", "REPLACE", "UPDATE", "DELETE", "PRAGMA", "CREATE", "ALTER", "DROP",
    "ATTACH", "VACUUM", "BEGIN", "WITH", "WHERE", "ORDER", "GROUP", "LIMIT", "VALUES", "FROM",
    "JOIN",
];

fn check_constant_sql(source: &SourceFile) -> Vec<TidyFinding> {
    if !CRATES.contains(&source.crate_name()) {
        return Vec::new();
    }
    let tokens = &source.code.tokens;
    let literals = source.shipped_tokens().filter(|index| tokens[*index].literal);
    let built = literals.filter(|index| looks_like_sql(&tokens[*index].text));
    built
        .filter_map(|index| {
            let what = format!("SQL is built with {}", find_sql_builder(source, index)?);
            Some(SQL.report(&source.path, tokens[index].line, what))
        })
        .collect()
}

/// Tells whether a literal, as written in the source, begins like SQL.
fn looks_like_sql(literal: &str) -> bool {
    let Some((prefix, text)) = literal.split_once('"') else {
        return false;
    };
    if !prefix.chars().all(|c| matches!(c, 'r' | '#' | 'b' | 'c')) {
        return false;
    }
    let text = text.replace("\\n", "\n").replace("\\t", "\t");
    let text = text.trim_start_matches(|c: char| c.is_whitespace() || c == '\\');
    let first: String = text.chars().take_while(char::is_ascii_alphabetic).collect();
    let rest = &text[first.len()..];
    WORDS.contains(&first.as_str())
        && rest.starts_with(|c: char| c.is_whitespace() || c == '\\')
        && (first != "WITH" || rest.contains(" AS "))
}

/// Returns what builds a larger text out of the literal at `index`, if anything does.
fn find_sql_builder(source: &SourceFile, index: usize) -> Option<String> {
    let code = &source.code;
    if let Some(open) = code.tokens[index].parent {
        let name = code.text_before(open, 2);
        if code.text_before(open, 1) == "!" && MACROS.contains(&name) {
            return Some(format!("`{name}!`"));
        }
        let method = code.text_before(open, 1);
        if METHODS.contains(&method) && name == "." {
            return Some(format!("`.{method}()`"));
        }
        let after = code.tokens[open].close + 1;
        let joined = code.text(after + 1);
        if code.text(open) == "[" && code.text(after) == "." && matches!(joined, "concat" | "join")
        {
            return Some(format!("`.{joined}()`"));
        }
    }
    let before = [code.text_before(index, 1), code.text_before(index, 2)];
    let added = matches!(before, ["+", _] | ["=" | "&", "+"])
        || code.text(skip_string_conversion(source, index)) == "+";
    added.then(|| "`+`".to_owned())
}

/// Returns the place behind a literal and behind what only makes it a `String`.
fn skip_string_conversion(source: &SourceFile, index: usize) -> usize {
    let code = &source.code;
    let mut place = index + 1;
    loop {
        let call = code.text(place) == "." && code.text(place + 2) == "(";
        let wrapped = code.text(place) == ")" && code.text_before(index, 2) == "from";
        place = match (call, wrapped) {
            (true, _) => code.tokens[place + 2].close + 1,
            (_, true) => place + 1,
            _ => return place,
        };
    }
}

/// Proves R44.
#[test]
fn sql_text_is_constant() {
    let findings = repository_files::read_sources().iter().flat_map(check_constant_sql).collect();
    assert_no_findings(&apply_exceptions(&SQL, findings, ALLOWED_FILES));
}

#[test]
fn built_sql_is_reported() {
    let text = r##"
fn f() {
    format!("SELECT * FROM {table}");
    write!(out, "\n  DELETE FROM x WHERE id = {id}");
    sql.push_str(" WHERE a = 1");
    format!(r#"
        WITH a AS (SELECT 1) SELECT * FROM {a}"#);
    "PRAGMA user_version = ".to_owned() + &version;
    String::from("UPDATE x ") + set;
    sql += " ORDER BY a";
    let all = start + "LIMIT 3";
    ["INSERT INTO x VALUES (", marks, ")"].concat();
    call(&format!("VACUUM INTO '{path}'"));
}"##;
    let check = |path| check_constant_sql(&SourceFile::new(path, text));

    assert_lines(&check("crates/store/src/turn.rs"), &[3, 4, 5, 6, 8, 9, 10, 11, 12, 13]);
    assert_eq!(check("crates/exchange/src/source/opencode.rs").len(), 10);
    assert_lines(&check("crates/server/src/turn.rs"), &[]);
    assert_lines(&check("crates/store/tests/turn.rs"), &[]);
}

#[test]
fn constant_sql_and_sentences_pass() {
    let text = r#"
const A: &str = "SELECT * FROM turn";
const B: &str = concat!("SELECT ", "a", " FROM turn");
fn f() {
    connection.prepare("DELETE FROM turn WHERE id = ?1")?.execute([id])?;
    format!("delete {path} failed, create it from the backup");
    format!("WITH care: {path}");
    text.push_str("SELECTED");
    write!(out, "{}", 'a');
    // format!("SELECT {a}")
}
#[cfg(test)]
mod tests {
    fn count() { format!("SELECT count(*) FROM {table}"); }
}"#;

    assert_lines(&check_constant_sql(&SourceFile::new("crates/store/src/turn.rs", text)), &[]);
}
