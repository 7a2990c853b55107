//! The head of a Markdown file between two lines `---`: the subset of YAML that agents and commands use.
//!
//! No YAML library on purpose. OpenCode accepts heads that are not YAML (`description: Look: at it`), which a parser
//! of the whole language refuses. The files come from repositories, so anchors, aliases, tags and merge keys must be
//! refused, not expanded. And an error may name a line but must not quote it, because a link may lead to a secret.
//! What is not understood is an error, never ignored.

use serde_json::{Map, Value};

/// The fields of the head and the text below it; without a head, all of it is text.
///
/// # Errors
///
/// What is wrong and in which line, without a word of the file.
pub fn split_front_matter(text: &str) -> Result<(Map<String, Value>, String), String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut lines = text.lines();
    if lines.next().map(str::trim_end) != Some("---") {
        return Ok((Map::new(), text.trim().to_owned()));
    }
    let mut head = Vec::new();
    for line in lines.by_ref() {
        if line.trim_end() == "---" {
            let body: Vec<&str> = lines.collect();
            let mut reader = FrontMatterReader { lines: head, at: 0 };
            let fields = reader.table(0)?;
            return Ok((fields, body.join("\n").trim().to_owned()));
        }
        head.push(line);
    }
    Err("the head that begins with --- has no end".to_owned())
}

const NOT_UNDERSTOOD: &str = "is not understood";

struct FrontMatterReader<'t> {
    lines: Vec<&'t str>,
    at: usize,
}

impl<'t> FrontMatterReader<'t> {
    /// The next line with content, and its indentation.
    fn peek_line(&mut self) -> Option<(usize, &'t str)> {
        while let Some(line) = self.lines.get(self.at) {
            let said = line.trim();
            if said.is_empty() || said.starts_with('#') {
                self.at += 1;
                continue;
            }
            return Some((line.len() - line.trim_start().len(), said));
        }
        None
    }

    fn table(&mut self, indent: usize) -> Result<Map<String, Value>, String> {
        let mut map = Map::new();
        while let Some((depth, line)) = self.peek_line() {
            if depth < indent {
                break;
            }
            if depth > indent {
                return Err(self.error_at_line("is indented too far"));
            }
            let (key, rest) = split_key(line).ok_or_else(|| self.error_at_line(NOT_UNDERSTOOD))?;
            self.at += 1;
            map.insert(key, self.value(rest, indent)?);
        }
        Ok(map)
    }

    fn value(&mut self, rest: &str, indent: usize) -> Result<Value, String> {
        if let "|" | "|-" | ">" | ">-" = rest {
            return Ok(Value::from(self.block(indent, rest.starts_with('>'))));
        }
        if !rest.is_empty() {
            self.at -= 1;
            let value = parse_scalar(rest).ok_or_else(|| self.error_at_line(NOT_UNDERSTOOD))?;
            self.at += 1;
            return Ok(value);
        }
        match self.peek_line() {
            Some((depth, line)) if depth > indent && line.starts_with("- ") => self.list(depth),
            Some((depth, line)) if depth == indent && line.starts_with("- ") => self.list(depth),
            Some((depth, _)) if depth > indent => self.table(depth).map(Value::Object),
            _ => Ok(Value::Null),
        }
    }

    fn list(&mut self, indent: usize) -> Result<Value, String> {
        let mut list = Vec::new();
        while let Some((depth, line)) = self.peek_line() {
            let Some(item) = line.strip_prefix("- ").filter(|_| depth == indent) else { break };
            list.push(parse_scalar(item.trim()).ok_or_else(|| self.error_at_line(NOT_UNDERSTOOD))?);
            self.at += 1;
        }
        Ok(Value::Array(list))
    }

    /// Names the present line by its number: what it says may be a secret a link leads to.
    fn error_at_line(&self, what: &str) -> String {
        // The head begins below the line `---`.
        format!("line {} {what}", self.at + 2)
    }

    /// A text of several lines; folded, its lines are joined by spaces.
    fn block(&mut self, indent: usize, folded: bool) -> String {
        let mut lines = Vec::new();
        while let Some(line) = self.lines.get(self.at) {
            let depth = line.len() - line.trim_start().len();
            if !line.trim().is_empty() && depth <= indent {
                break;
            }
            lines.push(line.trim());
            self.at += 1;
        }
        lines.join(if folded { " " } else { "\n" }).trim_end().to_owned()
    }
}

/// `key: rest`, the key perhaps in quotes.
fn split_key(line: &str) -> Option<(String, &str)> {
    let (key, rest) = match line.chars().next() {
        Some(quote @ ('"' | '\'')) => {
            let (key, rest) = line.get(1..).and_then(|l| l.split_once(quote))?;
            (key, rest.strip_prefix(':')?)
        }
        _ => {
            let end = line.find(": ").or_else(|| line.ends_with(':').then(|| line.len() - 1));
            let end = end?;
            (line.get(..end).unwrap_or_default(), line.get(end + 1..).unwrap_or_default())
        }
    };
    Some((key.trim().to_owned(), rest.trim()))
}

fn parse_scalar(text: &str) -> Option<Value> {
    let first = text.chars().next();
    if let Some('"') = first {
        return serde_json::from_str(text).ok();
    }
    if let Some('\'') = first {
        let inner = text.get(1..).and_then(|t| t.strip_suffix('\''))?;
        return Some(Value::from(inner.replace("''", "'")));
    }
    if let Some('{' | '[' | '&' | '*' | '!' | '|' | '>' | '%' | '@') = first {
        // What JSON can say is read as JSON; the rest of YAML is not.
        return serde_json::from_str(text).ok();
    }
    let text = text.split(" #").next().unwrap_or_default().trim_end();
    Some(match text {
        "true" => Value::from(true),
        "false" => Value::from(false),
        "null" | "~" => Value::Null,
        _ => match text.parse::<serde_json::Number>() {
            Ok(number) => Value::Number(number),
            Err(_) => Value::from(text),
        },
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::split_front_matter;

    #[test]
    fn front_matter_and_body_are_split() {
        let text = "---\ndescription: Look: at it # why\nmode: subagent\ntemperature: 0.5\n\
            # a remark\ntools:\n  write: false\n  \"bash *\": 'it''s'\nlist:\n- a\n- 2\n\
            long: |\n  one\n  two\nempty:\n---\n\nBody\n---\nmore\n";
        let (head, body) = split_front_matter(text).expect("read");
        let wanted = json!({ "description": "Look: at it", "mode": "subagent", "temperature": 0.5,
            "tools": { "write": false, "bash *": "it's" }, "list": ["a", 2],
            "long": "one\ntwo", "empty": null });
        assert_eq!(Value::Object(head), wanted);
        assert_eq!(body, "Body\n---\nmore");
        assert_eq!(split_front_matter("just text\n").expect("read").1, "just text");
    }

    #[test]
    fn unsupported_yaml_is_rejected() {
        for text in [
            "---\na: 1\n",
            "---\nno colon\n---\n",
            "---\na: &x 1\n---\n",
            "---\n  a: 1\n b: 2\n---",
        ] {
            assert!(split_front_matter(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn errors_name_the_line_without_quoting_it() {
        for (text, line) in [
            ("---\na: 1\nhunter2\n---\n", 3),
            ("---\na: &hunter2\n---\n", 2),
            ("---\na:\n- 1\n- [hunter2\n---\n", 4),
            ("---\na: 1\n  hunter2: 2\n---\n", 3),
        ] {
            let error = split_front_matter(text).expect_err(text);
            assert!(error.starts_with(&format!("line {line} ")), "{text:?}: {error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
    }
}
