//! Words that a reader has to translate: in names, and in everything a person reads.
//!
//! The list is `banned_words.txt`; it names the replacement of each entry.

use std::collections::{BTreeMap, BTreeSet};

use crate::finding::{TidyFinding, TidyRule, assert_lines, assert_no_findings};
use crate::repository_files::{self, SourceFile, TextFile};

const PHRASE: TidyRule = TidyRule {
    name: "banned-phrase",
    remedy: "say it as you would to a colleague; crates/testkit/tests/tidy/banned_words.txt has proposals",
};
const NAME: TidyRule = TidyRule {
    name: "banned-name",
    remedy: "use the field's own word (docs/glossary.md); a name that is stored or sent is listed under \
             [exempt] in crates/testkit/tests/tidy/banned_words.txt",
};
const EXEMPT: TidyRule = TidyRule {
    name: "banned-word-exempt",
    remedy: "remove the line from [exempt] in crates/testkit/tests/tidy/banned_words.txt",
};

const LIST: &str = include_str!("banned_words.txt");

/// Files that are not written by us, or that must quote the words.
const SKIPPED: [&str; 3] = ["audit/", "LICENSE", "crates/testkit/tests/tidy/"];
/// Endings of files that people read.
const READ_BY_PEOPLE: [&str; 9] =
    [".html", ".js", ".md", ".py", ".rs", ".sh", ".toml", "justfile", ".yml"];

/// The list, by section.
#[derive(Default)]
struct BannedWords<'l> {
    /// Phrases and what to write instead, by the first word.
    phrases: BTreeMap<&'l str, Vec<(&'l str, &'l str)>>,
    /// Parts of identifiers.
    identifiers: BTreeMap<&'l str, &'l str>,
    /// Whole names of types, modules and functions.
    names: BTreeMap<&'l str, &'l str>,
    exempt: Vec<ExemptWord<'l>>,
}

/// A word that may stay below a path.
struct ExemptWord<'l> {
    entry: &'l str,
    path: &'l str,
}

impl<'l> BannedWords<'l> {
    fn parse(list: &'l str) -> Self {
        let mut words = Self::default();
        let mut section = "";
        let lines = list.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        for line in lines {
            if line.starts_with('[') {
                section = line;
                continue;
            }
            let (entry, advice) = line.split_once(" => ").unwrap_or((line, ""));
            match section {
                "[phrases]" => {
                    let first = entry.split(' ').next().unwrap_or_default();
                    words.phrases.entry(first).or_default().push((entry, advice));
                }
                "[identifiers]" => _ = words.identifiers.insert(entry, advice),
                "[names]" => _ = words.names.insert(entry, advice),
                "[exempt]" => {
                    let parts: Vec<&str> = line.split(" | ").collect();
                    let [entry, path, _reason] = parts[..] else { panic!("{line}: three parts") };
                    words.exempt.push(ExemptWord { entry, path });
                }
                _ => panic!("{line}: outside of a section"),
            }
        }
        words
    }
}

/// A place where a banned entry was found.
struct BannedUse<'l> {
    entry: &'l str,
    finding: TidyFinding,
}

/// Splits a text into lower-case words with their lines; a mark that ends a clause is a word, too.
///
/// What stands between words of one sentence in a comment or a string over several lines is left out.
fn split_words(text: &str) -> Vec<(usize, String)> {
    let mut words = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let mut word = String::new();
        let mut push = |word: &mut String| {
            if !word.is_empty() {
                words.push((number + 1, std::mem::take(word)));
            }
        };
        let mut letters = line.chars().peekable();
        while let Some(letter) = letters.next() {
            match letter {
                '\\' => {
                    push(&mut word);
                    letters.next();
                }
                '\'' | '_' => word.push(letter),
                _ if letter.is_alphanumeric() => word.extend(letter.to_lowercase()),
                ' ' | '\t' | '/' | '!' | '*' | '#' | '>' | '|' | '"' | '`' => push(&mut word),
                _ => {
                    push(&mut word);
                    push(&mut letter.to_string());
                }
            }
        }
        push(&mut word);
    }
    words
}

fn find_phrases<'l>(file: &TextFile, banned: &BannedWords<'l>) -> Vec<BannedUse<'l>> {
    let words = split_words(&file.text);
    let mut found = Vec::new();
    for (index, (line, word)) in words.iter().enumerate() {
        for &(entry, advice) in banned.phrases.get(word.as_str()).into_iter().flatten() {
            let parts: Vec<&str> = entry.split(' ').collect();
            let rest = words[index..].iter().map(|(_, word)| word.as_str());
            if rest.take(parts.len()).eq(parts) {
                let what = format!("\"{entry}\": write \"{advice}\"");
                let finding = PHRASE.report(&file.path, *line, what);
                found.push(BannedUse { entry, finding });
            }
        }
    }
    found
}

/// Splits an identifier into its lower-case parts: `isTold`, `is_told` and `IS_TOLD` have two.
fn split_identifier(name: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut was_lower = false;
    for letter in name.chars() {
        if letter == '_' || (was_lower && letter.is_uppercase()) {
            parts.push(String::new());
        }
        if letter != '_' {
            parts.last_mut().expect("there is one").extend(letter.to_lowercase());
        }
        was_lower = letter.is_lowercase() || letter.is_ascii_digit();
    }
    parts
}

fn find_names<'l>(source: &SourceFile, banned: &BannedWords<'l>) -> Vec<BannedUse<'l>> {
    let mut found = Vec::new();
    let mut check = |line: usize, name: &str, is_definition: bool| {
        let parts = split_identifier(name);
        let used = parts.iter().filter_map(|part| banned.identifiers.get_key_value(part.as_str()));
        let whole = banned.names.get_key_value(parts.join("_").as_str());
        for (&entry, &advice) in used.chain(whole.filter(|_| is_definition)) {
            let what = format!("`{name}`: `{entry}` tells a reader nothing; such as {advice}");
            found.push(BannedUse { entry, finding: NAME.report(&source.path, line, what) });
        }
    };
    let path = source.path.trim_end_matches(".rs");
    for part in path.split('/').skip(2) {
        check(1, part, true);
    }
    let code = &source.code;
    for (index, token) in code.tokens.iter().enumerate() {
        if !token.literal && token.text.starts_with(|c: char| c.is_alphabetic() || c == '_') {
            let keyword = code.text_before(index, 1);
            let is_definition =
                matches!(keyword, "fn" | "mod" | "struct" | "enum" | "trait" | "type" | "union");
            check(token.line, &token.text, is_definition);
        }
    }
    found
}

/// Removes what is exempt; an exemption that covers nothing is a finding.
fn apply_exemptions(found: Vec<BannedUse<'_>>, exempt: &[ExemptWord<'_>]) -> Vec<TidyFinding> {
    let mut used = BTreeSet::new();
    let mut findings = Vec::new();
    for BannedUse { entry, finding } in found {
        let covers =
            |one: &ExemptWord<'_>| one.entry == entry && finding.file.starts_with(one.path);
        match exempt.iter().position(covers) {
            Some(index) => _ = used.insert(index),
            None => findings.push(finding),
        }
    }
    let unused = exempt.iter().enumerate().filter(|(index, _)| !used.contains(index));
    findings.extend(unused.map(|(_, one)| {
        EXEMPT.report(one.path, 1, format!("the exemption of `{}` is no longer needed", one.entry))
    }));
    findings
}

fn is_read_by_people(path: &str) -> bool {
    let is_skipped = SKIPPED.iter().any(|start| path.starts_with(start));
    !is_skipped
        && (path.starts_with("scripts/") || READ_BY_PEOPLE.iter().any(|end| path.ends_with(end)))
}

#[test]
fn names_and_texts_use_the_words_of_the_field() {
    let banned = BannedWords::parse(LIST);
    let files = repository_files::read_files();
    let sources = repository_files::read_sources();
    let phrases = files.iter().filter(|file| is_read_by_people(&file.path));
    let names = sources.iter().filter(|source| is_read_by_people(&source.path));
    let found = phrases.flat_map(|file| find_phrases(file, &banned));
    let found = found.chain(names.flat_map(|source| find_names(source, &banned)));
    assert_no_findings(&apply_exemptions(found.collect(), &banned.exempt));
}

#[test]
fn the_list_is_complete() {
    let banned = BannedWords::parse(LIST);

    assert!(banned.phrases.len() > 20 && banned.identifiers.len() > 40 && banned.names.len() > 30);
    assert!(
        banned.names.values().chain(banned.identifiers.values()).all(|advice| !advice.is_empty())
    );
}

const SAMPLE: &str = "[phrases]\nis told => is reported\nanew => again\n[identifiers]\nvault => handle\n\
                      [names]\nheld => what is held\n[exempt]\nanew | docs/old | quoted\n";

fn lines_of(found: Vec<BannedUse<'_>>) -> Vec<TidyFinding> {
    found.into_iter().map(|one| one.finding).collect()
}

#[test]
fn banned_phrase_is_reported_over_the_end_of_a_line() {
    let text = "The caller is told.\n/// Nobody is\n/// told of it, Anew.\nlet a = \"it is \\\n  told\";\n\
                what it is. Told you\nis_told anewed\n";
    let file = TextFile { path: "docs/a.md".to_owned(), text: text.to_owned() };
    let found = find_phrases(&file, &BannedWords::parse(SAMPLE));

    assert_lines(&lines_of(found), &[1, 2, 3, 4]);
}

#[test]
fn banned_name_is_reported() {
    let banned = BannedWords::parse(SAMPLE);
    let check =
        |path: &str, text: &str| lines_of(find_names(&SourceFile::new(path, text), &banned));
    let text = "fn open(the_vault: u8) {}\nstruct VaultRow;\nfn held() {}\nlet held = is_held;\nenum Held {}\n\
                // vault\nconst A: &str = \"vault\";\nfn vaulted() {}\n";

    assert_lines(&check("crates/core/src/a.rs", text), &[1, 2, 3, 5]);
    assert_lines(&check("crates/core/src/held.rs", ""), &[1]);
    assert_lines(&check("crates/core/src/vault/row.rs", ""), &[1]);
}

#[test]
fn exemption_covers_its_path_and_must_be_needed() {
    let banned = BannedWords::parse(SAMPLE);
    let file = |path: &str| TextFile { path: path.to_owned(), text: "anew".to_owned() };
    let check =
        |path: &str| apply_exemptions(find_phrases(&file(path), &banned), &banned.exempt).len();

    assert_eq!([check("docs/old.md"), check("docs/new.md")], [0, 2]);
}
