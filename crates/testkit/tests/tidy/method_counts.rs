//! How much one type may do: the inherent methods of a type, and the files they are spread over.
//!
//! A type with hundreds of methods is a global variable with a name. Its parts cannot be read, tested
//! or replaced alone, and its fields say nothing about what each of them needs.

use std::collections::{BTreeMap, BTreeSet};

use crate::finding::{TidyFinding, TidyRule, assert_no_findings};
use crate::repository_files::{self, SourceFile};
use crate::rust_tokens::TokenizedSource;

const METHODS: usize = 30;
const FILES: usize = 3;

const LIMIT: TidyRule = TidyRule {
    name: "type-size",
    remedy: "split the type along its subjects: a service or a view of its own with the fields it needs \
             (`store.sessions().find(…)`), or plain functions in a module that take what they use; \
             trait impls and test code are not counted. A type that must be larger is listed in \
             LARGE_TYPES with its present figures and the reason",
};
const STALE: TidyRule = TidyRule {
    name: "type-size",
    remedy: "LARGE_TYPES in crates/testkit/tests/tidy/method_counts.rs holds exact figures, so that they \
             can only go down: write the new ones, or remove the line if the type is within the limit",
};

/// A type that is larger than the limit: what it has today and why it may.
struct LargeType {
    /// Crate and type, as `engine::Engine`.
    name: &'static str,
    methods: usize,
    files: usize,
    reason: &'static str,
}

/// Types over the limit: none.
const LARGE_TYPES: &[LargeType] = &[];

/// What a type has, and where it was seen first.
#[derive(Default)]
struct TypeSize {
    methods: usize,
    files: BTreeSet<String>,
    /// File and line of the first impl block.
    first: (String, usize),
}

/// Returns the token behind `index`, or behind the generic arguments that open there.
fn skip_generics(code: &TokenizedSource, mut index: usize) -> usize {
    if code.text(index) != "<" {
        return index;
    }
    let mut depth = 0_usize;
    while index < code.tokens.len() {
        match code.text(index) {
            "<" => depth += 1,
            // The arrow of `Fn(…) -> …` closes nothing.
            ">" if code.text_before(index, 1) != "-" => depth -= 1,
            _ => {}
        }
        index = code.tokens[index].close + 1;
        if depth == 0 {
            break;
        }
    }
    index
}

/// Returns the type and the opening brace of the inherent impl block at `index`, if one begins there.
fn inherent_impl(code: &TokenizedSource, index: usize) -> Option<(&str, usize)> {
    let before = code.text_before(index, 1);
    // Anywhere else the word is part of a type: `-> impl Trait`, `name: impl Trait`.
    let is_item = matches!(before, "" | "}" | ";" | "]" | "{" | "unsafe");
    if code.text(index) != "impl" || !is_item {
        return None;
    }
    let mut place = skip_generics(code, index + 1);
    let mut name = None;
    let mut is_bounded = false;
    while place < code.tokens.len() {
        match code.text(place) {
            "{" => return name.map(|name| (name, place)),
            "for" | ";" if !is_bounded => return None,
            "where" => is_bounded = true,
            "<" => {
                place = skip_generics(code, place);
                continue;
            }
            text if !is_bounded && text.starts_with(|c: char| c.is_alphabetic() || c == '_') => {
                name = Some(text);
            }
            _ => {}
        }
        place = code.tokens[place].close + 1;
    }
    None
}

fn measure_types(sources: &[SourceFile]) -> BTreeMap<String, TypeSize> {
    let mut sizes: BTreeMap<String, TypeSize> = BTreeMap::new();
    for source in sources.iter().filter(|source| source.is_shipped()) {
        let code = &source.code;
        for index in source.shipped_tokens() {
            let Some((name, open)) = inherent_impl(code, index) else { continue };
            let is_method = |inner: &usize| {
                code.tokens[*inner].parent == Some(open)
                    && code.text(*inner) == "fn"
                    && !code.is_in_test(*inner)
            };
            let methods = (open..code.tokens[open].close).filter(is_method).count();
            let size = sizes.entry(format!("{}::{name}", source.crate_name())).or_default();
            if size.first.0.is_empty() {
                size.first = (source.path.clone(), code.tokens[index].line);
            }
            size.methods += methods;
            if methods > 0 {
                size.files.insert(source.path.clone());
            }
        }
    }
    sizes
}

fn check_sizes(sources: &[SourceFile], large: &[LargeType]) -> Vec<TidyFinding> {
    let sizes = measure_types(sources);
    let mut findings = Vec::new();
    for (name, size) in &sizes {
        let (methods, files) = (size.methods, size.files.len());
        let listed = large.iter().find(|one| one.name == name);
        let is_large = methods > METHODS || files > FILES;
        let (file, line) = (size.first.0.as_str(), size.first.1);
        let figures = format!("`{name}` has {methods} methods in {files} file(s)");
        match listed {
            None if is_large => {
                let what = format!("{figures}, {METHODS} in {FILES} are allowed");
                findings.push(LIMIT.report(file, line, what));
            }
            Some(one) if methods > one.methods || files > one.files => {
                let what = format!("{figures}, up from {} in {}", one.methods, one.files);
                findings.push(LIMIT.report(file, line, what));
            }
            Some(one) if !is_large || (methods, files) != (one.methods, one.files) => {
                let what = format!("{figures}, LARGE_TYPES says {} in {}", one.methods, one.files);
                findings.push(STALE.report(file, line, what));
            }
            _ => {}
        }
    }
    let gone = large.iter().filter(|one| !sizes.contains_key(one.name));
    findings.extend(gone.map(|one| {
        STALE.report("crates", 1, format!("`{}` ({}) does not exist", one.name, one.reason))
    }));
    findings
}

#[test]
fn no_type_has_too_many_methods() {
    let sources = repository_files::read_sources();
    assert!(measure_types(&sources).len() > 300, "the impl blocks were not found");
    assert_no_findings(&check_sizes(&sources, LARGE_TYPES));
}

fn rust(path: &str, text: &str) -> SourceFile {
    SourceFile::new(path, text)
}

#[test]
fn methods_are_counted_over_all_inherent_impls_of_a_crate() {
    let sources = [
        rust(
            "crates/store/src/a.rs",
            "impl<F: Fn(u8) -> Vec<u8>> Row<'_, F> where for<'a> F: Fn(&'a u8) { fn a() { fn inner() {} } }\n\
             impl Display for Row<'_, u8> { fn fmt() {} }\n\
             fn free(x: impl Fn()) -> impl Iterator<Item = u8> { todo() }\n\
             #[cfg(test)]\nimpl Row<'_, u8> { fn only_for_tests() {} }\n\
             #[cfg(test)]\nmod tests { impl Row<'_, u8> { fn another() {} } }\n",
        ),
        rust(
            "crates/store/src/b.rs",
            "#[expect(x)]\nimpl super::Row<'static, u8> { const fn b() {}\n#[cfg(test)] fn c() {}\npub(crate) fn d() {} }\n\
             mod inner { impl Other { fn e() {} } }\nimpl Row<'_, u8> {}\n",
        ),
        rust("crates/core/src/a.rs", "impl Row { fn f() {} }"),
        rust("crates/store/tests/a.rs", "impl Row { fn g() {} }"),
        rust("crates/testkit/src/a.rs", "impl Row { fn h() {} }"),
    ];
    let sizes = measure_types(&sources);
    let figures: Vec<_> =
        sizes.iter().map(|(name, size)| (name.as_str(), size.methods, size.files.len())).collect();

    assert_eq!(figures, [("core::Row", 1, 1), ("store::Other", 1, 1), ("store::Row", 3, 2)]);
}

#[test]
fn large_type_is_reported() {
    let block = |methods: usize| format!("\nimpl Row {{ {} }}", "fn f() {} ".repeat(methods));
    let sources = |each: usize, files: usize| -> Vec<SourceFile> {
        (0..files).map(|n| rust(&format!("crates/store/src/{n}.rs"), &block(each))).collect()
    };
    let count = |each, files| check_sizes(&sources(each, files), &[]).len();

    assert_eq!([count(10, 3), count(30, 1)], [0, 0]);
    assert_eq!([count(31, 1), count(1, 4)], [1, 1]);
    let findings = check_sizes(&sources(31, 1), &[]);
    assert_eq!((findings[0].file.as_str(), findings[0].line), ("crates/store/src/0.rs", 2));
}

#[test]
fn exception_must_have_the_exact_figures() {
    let sources = |methods: usize| {
        vec![rust(
            "crates/store/src/a.rs",
            &format!("impl Row {{ {} }}", "fn f() {} ".repeat(methods)),
        )]
    };
    let large = [LargeType { name: "store::Row", methods: 40, files: 1, reason: "sample" }];
    let count = |methods| check_sizes(&sources(methods), &large).len();

    assert_eq!(count(40), 0);
    assert_eq!([count(41), count(39), count(30)], [1, 1, 1]);
    assert_eq!(check_sizes(&[], &large).len(), 1);
}
