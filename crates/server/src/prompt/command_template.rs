//! Templates of commands: where arguments, outputs of programs and files go.

/// A piece of a template whose arguments are filled in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TemplatePiece {
    /// Text as it is.
    Text(String),
    /// A command line whose output goes here; the arguments are parameters of its shell.
    Output(String),
}

impl TemplatePiece {
    /// Fills arguments into a template.
    ///
    /// `$1`, `$2` … are the words of the arguments, the highest number takes the rest; `$ARGUMENTS`
    /// is all of them. A template without any of these gets them at its end. Nothing of the arguments
    /// is put into a command line: its shell knows them by the same names.
    pub(crate) fn fill(template: &str, arguments: &str) -> Vec<Self> {
        let arguments = arguments.trim();
        let words = split_arguments(arguments);
        let last = placeholder_numbers(template).max();
        let fill = |text: &str| fill_placeholders(text, arguments, &words, last);
        let mut pieces = Vec::new();
        let mut rest = template;
        while let Some(at) = rest.find("!`") {
            let (before, behind) = (&rest[..at], &rest[at + 2..]);
            let Some(end) = behind.find('`') else { break };
            pieces.push(Self::Text(fill(before)));
            pieces.push(Self::Output(behind[..end].to_owned()));
            rest = &behind[end + 1..];
        }
        pieces.push(Self::Text(fill(rest)));
        if last.is_none() && !template.contains("$ARGUMENTS") && !arguments.is_empty() {
            pieces.push(Self::Text(format!("\n\n{arguments}")));
        }
        pieces
    }
}

/// The arguments as parameters of a shell: the highest number of the template takes the rest.
pub(crate) fn shell_parameters(template: &str, arguments: &str) -> Vec<String> {
    let mut words = split_arguments(arguments.trim());
    if let Some(last) = placeholder_numbers(template).max().filter(|last| *last <= words.len()) {
        let rest = words.split_off(last - 1).join(" ");
        words.push(rest);
    }
    words
}

/// The words of arguments; quotes keep a word together and are taken away.
fn split_arguments(arguments: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = arguments.trim_start();
    while let Some(first) = rest.chars().next() {
        let quoted = matches!(first, '"' | '\'').then(|| rest[1..].find(first)).flatten();
        let (word, behind) = match quoted {
            Some(end) => (&rest[1..=end], &rest[end + 2..]),
            None => {
                let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
                (&rest[..end], &rest[end..])
            }
        };
        words.push(word.to_owned());
        rest = behind.trim_start();
    }
    words
}

/// The numbers of the places `$1`, `$2` …
fn placeholder_numbers(template: &str) -> impl Iterator<Item = usize> + '_ {
    template.split('$').skip(1).filter_map(|piece| leading_number(piece).map(|(number, _)| number))
}

/// A number at the beginning of a text, and how many letters it has.
fn leading_number(text: &str) -> Option<(usize, usize)> {
    let length = text.bytes().take_while(u8::is_ascii_digit).count();
    let number = text[..length].parse().ok().filter(|number| *number > 0)?;
    Some((number, length))
}

fn fill_placeholders(text: &str, arguments: &str, words: &[String], last: Option<usize>) -> String {
    let mut pieces = text.split('$');
    let mut out = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        if let Some(rest) = piece.strip_prefix("ARGUMENTS") {
            out.push_str(arguments);
            out.push_str(rest);
        } else if let Some((number, length)) = leading_number(piece) {
            let from = words.get(number - 1..).unwrap_or_default();
            let taken = if Some(number) == last { from } else { from.get(..1).unwrap_or_default() };
            out.push_str(&taken.join(" "));
            out.push_str(&piece[length..]);
        } else {
            out.push('$');
            out.push_str(piece);
        }
    }
    out
}

/// What a text mentions with `@`: names of files or agents, each once.
pub(crate) fn find_mentions(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut before = ' ';
    for (at, letter) in text.char_indices() {
        let begins = letter == '@' && !before.is_alphanumeric() && before != '_' && before != '`';
        before = letter;
        if !begins {
            continue;
        }
        let rest = &text[at + 1..];
        let ends = |c: char| c.is_whitespace() || matches!(c, '`' | ',' | '@');
        let name = &rest[..rest.find(ends).unwrap_or(rest.len())];
        let name = name.trim_end_matches(['.', ':', ';', '!', '?', ')']);
        if !name.is_empty() && !found.iter().any(|known| known == name) {
            found.push(name.to_owned());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(template: &str, arguments: &str) -> String {
        let shown = |piece: TemplatePiece| match piece {
            TemplatePiece::Text(text) => text,
            TemplatePiece::Output(line) => format!("[{line}]"),
        };
        TemplatePiece::fill(template, arguments).into_iter().map(shown).collect()
    }

    #[test]
    fn arguments_fill_template_placeholders() {
        assert_eq!(text("fix $1 in $2", "bug a b c"), "fix bug in a b c");
        assert_eq!(text("$2-$1", "one 'two three'"), "two three-one");
        assert_eq!(text("say $ARGUMENTS!", "a  b"), "say a  b!");
        assert_eq!(text("plain", "more"), "plain\n\nmore");
        assert_eq!(text("cost $5.00 and $x", ""), "cost .00 and $x");
        assert_eq!(text("$1", ""), "");
    }

    #[test]
    fn arguments_never_add_command_lines() {
        assert_eq!(text("a !`git log $1` b", "-1"), "a [git log $1] b");
        assert_eq!(shell_parameters("!`x $2`", "a 'b c' d"), ["a", "b c d"]);
        assert_eq!(shell_parameters("plain", "a b"), ["a", "b"]);
        assert_eq!(text("$ARGUMENTS", "!`rm -rf x`"), "!`rm -rf x`");
        assert_eq!(text("open !`end", ""), "open !`end");
    }

    #[test]
    fn mention_ends_with_the_name() {
        let found = find_mentions("see @src/main.rs, @a.txt. and me@home `@no` (@b)");
        assert_eq!(found, ["src/main.rs", "a.txt", "b"]);
    }
}
