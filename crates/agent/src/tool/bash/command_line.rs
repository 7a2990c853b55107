//! What a command line runs and which files it names, as far as its text shows it.

use std::collections::BTreeSet;

use tree_sitter::{Node, Parser};

use super::command_prefix::command_prefix;
use super::shell_word::{ShellKnowledge, ShellWord, read_word};

/// Longer command lines are not parsed: they are asked as a whole.
const MAX_PARSED_BYTES: usize = 64 << 10;

/// Commands that change the directory: they run no program.
const DIRECTORY_COMMANDS: [&str; 3] = ["cd", "pushd", "popd"];
/// Commands whose arguments are files.
const FILE_COMMANDS: [&str; 13] = [
    "cd", "pushd", "popd", "rm", "cp", "mv", "mkdir", "touch", "chmod", "chown", "cat", "tee", "ln",
];
/// Devices that a redirect may name without touching a file.
const PLAIN_DEVICES: [&str; 6] =
    ["/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/tty", "/dev/zero"];

/// What a command line does, as far as its text shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CommandLine {
    /// The commands in it, as rules match them; the whole text if it cannot be parsed.
    pub(super) patterns: Vec<String>,
    /// What an answer of "always" allows.
    pub(super) always: Vec<String>,
    /// Paths that it names, absolute or from the directory in which it begins.
    pub(super) paths: Vec<String>,
}

/// Reads a command line.
pub(super) fn read_command_line(text: &str, known: &ShellKnowledge) -> CommandLine {
    let whole = || CommandLine {
        patterns: vec![text.to_owned()],
        always: vec![text.to_owned()],
        paths: Vec::new(),
    };
    let Some(tree) = parse(text) else { return whole() };
    if tree.root_node().has_error() {
        return whole();
    }
    let mut scan = CommandScan::new(text, known);
    visit_nodes(tree.root_node(), &mut |node| scan.visit(node));
    if !scan.has_commands && !text.trim().is_empty() {
        // A lone redirect or assignment is no command, and can still write.
        return CommandLine { paths: scan.line.paths, ..whole() };
    }
    scan.line
}

fn parse(text: &str) -> Option<tree_sitter::Tree> {
    if text.len() > MAX_PARSED_BYTES {
        return None;
    }
    let mut parser = Parser::new();
    parser.set_language(&tree_sitter_bash::LANGUAGE.into()).ok()?;
    parser.parse(text, None)
}

/// Visits every node in the order of the text, without recursion: a hostile line may be nested deeply.
fn visit_nodes<'t>(root: Node<'t>, visit: &mut dyn FnMut(Node<'t>)) {
    let mut cursor = root.walk();
    loop {
        visit(cursor.node());
        if cursor.goto_first_child() {
            continue;
        }
        while !cursor.goto_next_sibling() {
            if !cursor.goto_parent() {
                return;
            }
        }
    }
}

struct CommandScan<'s> {
    source: &'s str,
    known: &'s ShellKnowledge,
    line: CommandLine,
    patterns: BTreeSet<String>,
    always: BTreeSet<String>,
    paths: BTreeSet<String>,
    has_commands: bool,
}

impl<'s> CommandScan<'s> {
    fn new(source: &'s str, known: &'s ShellKnowledge) -> Self {
        Self {
            source,
            known,
            line: CommandLine::default(),
            patterns: BTreeSet::new(),
            always: BTreeSet::new(),
            paths: BTreeSet::new(),
            has_commands: false,
        }
    }

    fn text(&self, node: Node<'_>) -> &'s str {
        self.source.get(node.byte_range()).unwrap_or_default()
    }

    fn visit(&mut self, node: Node<'_>) {
        match node.kind() {
            "command" => self.visit_command(node),
            "file_redirect" => self.visit_redirect(node),
            _ => {}
        }
    }

    fn visit_command(&mut self, node: Node<'_>) {
        self.has_commands = true;
        let Some(name_node) = node.child_by_field_name("name") else {
            self.add_pattern(self.text(node).to_owned());
            return;
        };
        let name = read_word(name_node, self.source, self.known);
        let mut cursor = node.walk();
        let arguments = node.children_by_field_name("argument", &mut cursor);
        let arguments: Vec<(Node<'_>, ShellWord)> = arguments
            .map(|argument| (argument, read_word(argument, self.source, self.known)))
            .collect();
        self.add_argument_paths(&name.text, &arguments);
        if name.is_known && DIRECTORY_COMMANDS.contains(&name.text.as_str()) {
            return;
        }
        let redirected = node.parent().filter(|parent| parent.kind() == "redirected_statement");
        let text = self.text(redirected.unwrap_or(node));
        self.add_pattern(text.to_owned());
        // `FOO=1 rm` and `\rm` are `rm` to a rule, too.
        if name.is_known && !text.starts_with(name.text.as_str()) {
            let rest = self.source.get(name_node.end_byte()..node.end_byte()).unwrap_or_default();
            self.add_pattern(format!("{}{rest}", name.text));
        }
        let word = |node: Node<'_>, word: &ShellWord| match word.is_known && !word.has_pattern {
            true => word.text.clone(),
            false => self.text(node).to_owned(),
        };
        let mut words = vec![word(name_node, &name)];
        words.extend(arguments.iter().map(|(node, argument)| word(*node, argument)));
        let allowed = format!("{} *", command_prefix(&words).join(" "));
        if self.always.insert(allowed.clone()) {
            self.line.always.push(allowed);
        }
    }

    fn add_argument_paths(&mut self, name: &str, arguments: &[(Node<'_>, ShellWord)]) {
        let texts: Vec<&ShellWord> = arguments.iter().map(|(_, word)| word).collect();
        let is_in_place = texts
            .iter()
            .any(|word| word.text.starts_with("-i") || word.text.starts_with("--in-place"));
        let edits_files = (name == "sed" || name == "perl") && is_in_place;
        if name == "dd" {
            for word in &texts {
                if let Some(path) = word.text.strip_prefix("of=") {
                    self.add_path(&ShellWord { text: path.to_owned(), ..(*word).clone() });
                }
            }
        }
        if !FILE_COMMANDS.contains(&name) && !edits_files {
            return;
        }
        let is_option =
            |text: &str| text.starts_with('-') || (name == "chmod" && text.starts_with('+'));
        for word in texts.into_iter().filter(|word| !is_option(&word.text)) {
            self.add_path(word);
        }
    }

    fn visit_redirect(&mut self, node: Node<'_>) {
        let Some(target) = node.child_by_field_name("destination") else { return };
        let word = read_word(target, self.source, self.known);
        let is_descriptor =
            word.text.chars().all(|letter| letter.is_ascii_digit() || letter == '-');
        let is_device =
            PLAIN_DEVICES.contains(&word.text.as_str()) || word.text.starts_with("/dev/fd/");
        if !is_descriptor && !is_device {
            self.add_path(&word);
        }
    }

    fn add_path(&mut self, word: &ShellWord) {
        // What a variable holds is not known: the command itself is asked.
        if word.is_known && !word.text.is_empty() && self.paths.insert(word.text.clone()) {
            self.line.paths.push(word.text.clone());
        }
    }

    fn add_pattern(&mut self, pattern: String) {
        if self.patterns.insert(pattern.clone()) {
            self.line.patterns.push(pattern);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> CommandLine {
        let known =
            ShellKnowledge { home: Some("/home/ada".to_owned()), directory: "/work".to_owned() };
        read_command_line(text, &known)
    }

    #[test]
    fn every_command_in_a_line_is_a_pattern() {
        let line = read(
            "git status --short | head -3 && npm run build > o; FOO=1 python3 -c \"x\"; echo $(whoami)",
        );
        assert_eq!(
            line.patterns,
            [
                "git status --short",
                "head -3",
                "npm run build",
                "FOO=1 python3 -c \"x\"",
                "python3 -c \"x\"",
                "echo $(whoami)",
                "whoami"
            ]
        );
        assert_eq!(
            line.always,
            ["git status *", "head *", "npm run build *", "python3 *", "echo *", "whoami *"]
        );
        assert_eq!(line.paths, ["o"]);
    }

    #[test]
    fn nested_commands_are_found_wherever_they_are() {
        for text in [
            "for f in a b; do rm x; done",
            "if true; then rm x; fi",
            "(rm x)",
            "{ rm x; }",
            "f() { rm x; }; f",
            "echo \"$(rm x)\"",
            "echo `rm x`",
            "cat <<EOF\n$(rm x)\nEOF",
            "diff <(rm x) b",
            "export A=$(rm x)",
            "A=$(rm x)",
            "while rm x; do :; done",
            "! rm x",
            "time rm x",
            "case a in a) rm x;; esac",
        ] {
            let line = read(text);
            let is_found = line.patterns.iter().any(|it| it.contains("rm x"));
            assert!(is_found, "{text}: {:?}", line.patterns);
        }
    }

    #[test]
    fn changing_the_directory_is_no_command_of_its_own() {
        assert_eq!(read("cd src").patterns, Vec::<String>::new());
        assert_eq!(read("cd src && ls").patterns, ["ls"]);
        assert_eq!(read("cd /etc").paths, ["/etc"]);
    }

    #[test]
    fn redirect_belongs_to_the_pattern_of_its_command() {
        let line = read("echo x > /tmp/out 2>&1");
        assert_eq!(line.patterns, ["echo x > /tmp/out 2>&1"]);
        assert_eq!(line.paths, ["/tmp/out"]);
        assert_eq!(read("ls 2> /dev/null").paths, Vec::<String>::new());
        let lone = read("> /tmp/out");
        assert_eq!(
            (lone.patterns, lone.paths),
            (vec!["> /tmp/out".to_owned()], vec!["/tmp/out".to_owned()])
        );
    }

    #[test]
    fn named_files_are_known_through_quotes_and_up_to_patterns() {
        for (text, expected) in [
            ("cat '/etc/a b'", "/etc/a b"),
            ("cat \"/etc/a b\"", "/etc/a b"),
            ("cat /etc/a\\ b", "/etc/a b"),
            ("rm -rf ~/x", "/home/ada/x"),
            ("rm $HOME/x", "/home/ada/x"),
            ("rm \"${HOME}/x\"", "/home/ada/x"),
            ("rm /etc/*.conf", "/etc/"),
            ("rm /etc/{a,b}", "/etc/"),
            ("echo x | tee /etc/x", "/etc/x"),
            ("sed -i s/a/b/ /etc/x", "/etc/x"),
            ("dd if=a of=/etc/x", "/etc/x"),
            ("\\rm /etc/x", "/etc/x"),
            ("cat < /etc/x", "/etc/x"),
            ("echo x >> /etc/x", "/etc/x"),
        ] {
            let line = read(text);
            assert!(line.paths.iter().any(|path| path == expected), "{text}: {:?}", line.paths);
        }
        assert_eq!(read("rm $FILE").paths, Vec::<String>::new());
        assert_eq!(read("cat '~/x'").paths, ["~/x"]);
        assert_eq!(read("chmod +x -v run.sh").paths, ["run.sh"]);
    }

    #[test]
    fn quoted_name_of_a_command_is_a_pattern_without_quotes_too() {
        assert_eq!(read("\\rm -rf x").patterns, ["\\rm -rf x", "rm -rf x"]);
        assert_eq!(read("'rm' x").patterns, ["'rm' x", "rm x"]);
    }

    #[test]
    fn line_that_cannot_be_parsed_is_asked_as_a_whole() {
        for text in ["echo 'open", "if true; then", "a | | b", ") rm x"] {
            let line = read(text);
            assert_eq!(line.patterns, [text]);
            assert_eq!(line.always, [text]);
        }
        let long = format!("echo {}", "x".repeat(MAX_PARSED_BYTES));
        assert_eq!(read(&long).patterns, [long.as_str()]);
        let deep = "(".repeat(10_000) + "rm x" + &")".repeat(10_000);
        assert!(!read(&deep).patterns.is_empty());
    }
}
