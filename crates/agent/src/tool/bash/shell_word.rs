//! Words of a command line, as far as they are known without running it.

use tree_sitter::Node;

/// A word of a command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ShellWord {
    /// The word without quotes, up to the first pattern such as `*`.
    pub(super) text: String,
    /// False if the word depends on what runs: variables, substitutions.
    pub(super) is_known: bool,
    /// True if the word goes on with a pattern.
    pub(super) has_pattern: bool,
}

/// What is known about the shell that reads a command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ShellKnowledge {
    /// The home directory.
    pub(super) home: Option<String>,
    /// The directory in which the command line begins.
    pub(super) directory: String,
}

/// Reads a word.
pub(super) fn read_word(node: Node<'_>, source: &str, known: &ShellKnowledge) -> ShellWord {
    let mut word = ShellWord { is_known: true, ..ShellWord::default() };
    append(node, source, known, &mut word);
    if let (Some(rest), Some(home)) = (word.text.strip_prefix('~'), &known.home)
        && is_tilde_open(node, source)
        && (rest.is_empty() || rest.starts_with('/'))
    {
        word.text = format!("{home}{rest}");
    }
    word
}

/// True if a word begins with a tilde that is not quoted.
fn is_tilde_open(node: Node<'_>, source: &str) -> bool {
    source.as_bytes().get(node.start_byte()) == Some(&b'~')
}

fn append(node: Node<'_>, source: &str, known: &ShellKnowledge, word: &mut ShellWord) {
    if word.has_pattern || !word.is_known {
        return;
    }
    let text = source.get(node.byte_range()).unwrap_or_default();
    match node.kind() {
        "word" | "number" | "extglob_pattern" | "regex" | "special_character" => {
            append_unquoted(text, word);
        }
        "raw_string" => word.text.push_str(text.trim_matches('\'')),
        "string_content" => append_in_quotes(text, word),
        "simple_expansion" | "expansion" => {
            let name = text.trim_start_matches('$').trim_matches(['{', '}']);
            match (name, &known.home) {
                ("HOME", Some(home)) => word.text.push_str(home),
                ("PWD", _) => word.text.push_str(&known.directory),
                _ => word.is_known = false,
            }
        }
        "command_name" | "concatenation" | "string" => {
            append_children(node, source, known, word);
        }
        _ => word.is_known = false,
    }
}

/// Appends the pieces of a word. Blanks between the pieces of a string belong to no node: they are taken from the
/// source.
fn append_children(node: Node<'_>, source: &str, known: &ShellKnowledge, word: &mut ShellWord) {
    let is_string = node.kind() == "string";
    let (mut at, mut end) = (node.start_byte(), node.end_byte());
    if is_string {
        (at, end) = (at + 1, end.saturating_sub(1));
    }
    let mut cursor = node.walk();
    for child in node.named_children(&mut cursor) {
        append_in_quotes(source.get(at..child.start_byte()).unwrap_or_default(), word);
        append(child, source, known, word);
        at = child.end_byte();
    }
    if node.named_child_count() == 0 || is_string {
        append_in_quotes(source.get(at..end).unwrap_or_default(), word);
    }
}

fn append_unquoted(text: &str, word: &mut ShellWord) {
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => word.text.extend(letters.next().filter(|next| *next != '\n')),
            '*' | '?' | '[' | '{' => {
                word.has_pattern = true;
                return;
            }
            other => word.text.push(other),
        }
    }
}

fn append_in_quotes(text: &str, word: &mut ShellWord) {
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        let next = letters.next_if(|next| letter == '\\' && ['"', '\\', '$', '`'].contains(next));
        word.text.push(next.unwrap_or(letter));
    }
}
