//! The strace log as calls: halves of a call that another thread interrupted are joined again.
//!
//! Keeps one global order: the edges, at which a call starts, ends, or a thread exits. strace logs
//! a start before the kernel acts and an end after it has, so the order of edges is sound.

use std::{borrow::Cow, collections::HashMap};

use super::{RecordError, strace_value};

const UNFINISHED: &str = " <unfinished ...>";

/// One system call of one thread.
#[derive(Debug)]
pub(crate) struct TracedCall<'a> {
    pub(crate) line: usize,
    pub(crate) thread: u32,
    pub(crate) name: &'a str,
    /// The text between the outer parentheses.
    pub(crate) args: Cow<'a, str>,
    /// The returned value; `None` if the call never returned.
    pub(crate) result: Option<i64>,
    /// strace answered in place of the kernel: the call did not happen.
    pub(crate) injected: bool,
    /// The edge at which it started.
    pub(crate) start: usize,
    /// The edge at which it returned.
    pub(crate) end: Option<usize>,
}

impl TracedCall<'_> {
    /// Whether the kernel did what was asked.
    pub(crate) fn succeeded(&self) -> bool {
        !self.injected && self.result.is_some_and(|value| value >= 0)
    }

    /// Whether it is known that the call changed nothing.
    pub(crate) fn failed(&self) -> bool {
        self.injected || self.result.is_some_and(|value| value < 0)
    }

    /// The call and its place, for messages; data is cut.
    pub(crate) fn describe(&self) -> String {
        format!("{}({:.200})", self.name, self.args)
    }
}

/// A moment of the global order; its index is its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallEdge {
    Start(usize),
    End(usize),
    Exit(u32),
}

/// All calls of a run, and the order of their starts and ends.
#[derive(Debug, Default)]
pub(crate) struct StraceLog<'a> {
    pub(crate) calls: Vec<TracedCall<'a>>,
    pub(crate) edges: Vec<CallEdge>,
}

impl<'a> StraceLog<'a> {
    /// Reads the text strace wrote with `-f -xx`.
    pub(crate) fn parse(text: &'a str) -> Result<Self, RecordError> {
        let mut log = Self::default();
        let mut open: HashMap<u32, usize> = HashMap::new();
        for (index, text) in text.lines().enumerate() {
            let line = LogLine { number: index + 1, text };
            log.parse_line(&line, &mut open).ok_or_else(|| line.syntax_error())?;
        }
        Ok(log)
    }

    fn parse_line(&mut self, line: &LogLine<'a>, open: &mut HashMap<u32, usize>) -> Option<()> {
        let (thread, rest) = line.text.split_once(' ')?;
        let thread = thread.parse().ok()?;
        let rest = rest.trim_start();
        if rest.starts_with("+++ exited") || rest.starts_with("+++ killed") {
            open.remove(&thread);
            self.edges.push(CallEdge::Exit(thread));
        } else if rest.starts_with("+++ ") || rest.starts_with("--- ") {
            // A signal, or a thread that another one's execve has replaced.
        } else if let Some(resumed) = rest.strip_prefix("<... ") {
            let index = open.remove(&thread)?;
            let (name, tail) = resumed.split_once(" resumed>")?;
            let call = self.calls.get_mut(index).filter(|call| call.name == name)?;
            let (args, answer) = split_answer(tail)?;
            call.args.to_mut().push_str(args);
            self.finish(index, answer);
        } else {
            let (name, tail) = rest.split_once('(')?;
            let index = self.calls.len();
            let unfinished = tail.strip_suffix(UNFINISHED);
            let (args, answer) = match unfinished {
                Some(args) => (args, None),
                None => split_answer(tail).map(|(args, answer)| (args, Some(answer)))?,
            };
            self.calls.push(TracedCall {
                line: line.number,
                thread,
                name,
                args: Cow::Borrowed(args),
                result: None,
                injected: false,
                start: self.edges.len(),
                end: None,
            });
            self.edges.push(CallEdge::Start(index));
            match answer {
                Some(answer) => self.finish(index, answer),
                None => drop(open.insert(thread, index)),
            }
        }
        Some(())
    }

    fn finish(&mut self, index: usize, answer: &str) {
        let call = &mut self.calls[index];
        let first = answer.split(' ').next().unwrap_or_default();
        call.injected = answer.ends_with("(INJECTED)");
        call.result = match first {
            // Interrupted by a signal before it did anything; the kernel restarts it.
            "?" if answer.contains("ERESTART") => Some(-1),
            first => strace_value::parse_number(first),
        };
        if call.result.is_some() {
            call.end = Some(self.edges.len());
            self.edges.push(CallEdge::End(index));
        }
    }
}

struct LogLine<'a> {
    number: usize,
    text: &'a str,
}

impl LogLine<'_> {
    fn syntax_error(&self) -> RecordError {
        RecordError::Syntax { line: self.number, text: self.text.chars().take(300).collect() }
    }
}

/// Splits `args)   = answer`.
fn split_answer(tail: &str) -> Option<(&str, &str)> {
    let mut end = tail.len();
    while let Some(at) = tail[..end].rfind("= ") {
        if let Some(args) = tail[..at].trim_end().strip_suffix(')') {
            return Some((args, &tail[at + 2..]));
        }
        end = at;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interleaved_call_halves_are_paired_in_order() {
        let text = "7  write(3, \"\\x61\", 1 <unfinished ...>\n\
                    8  fsync(4)     = 0\n\
                    7  <... write resumed>) = 1\n\
                    8  +++ exited with 0 +++\n";
        let log = StraceLog::parse(text).unwrap();
        assert_eq!(
            log.edges,
            [
                CallEdge::Start(0),
                CallEdge::Start(1),
                CallEdge::End(1),
                CallEdge::End(0),
                CallEdge::Exit(8)
            ]
        );
        assert_eq!((log.calls[0].start, log.calls[0].end), (0, Some(3)));
        assert_eq!(log.calls[0].args, "3, \"\\x61\", 1");
        assert_eq!(log.calls[0].result, Some(1));
    }

    #[test]
    fn an_injected_success_did_not_happen() {
        let log = StraceLog::parse("7  fsync(3)   = 0 (INJECTED)\n").unwrap();
        assert!(!log.calls[0].succeeded());
        assert!(log.calls[0].failed());
    }

    #[test]
    fn a_call_that_never_returned_neither_succeeded_nor_failed() {
        let log = StraceLog::parse("7  write(3, \"\\x61\", 1) = ?\n7  +++ killed by SIGKILL +++\n")
            .unwrap();
        assert!(!log.calls[0].succeeded() && !log.calls[0].failed());
        assert_eq!(log.calls[0].end, None);
    }

    #[test]
    fn an_answer_with_a_comment_is_split_at_the_right_place() {
        let log =
            StraceLog::parse("7  fcntl(3, F_GETFL) = 0x8002 (flags O_RDWR|O_LARGEFILE)\n").unwrap();
        assert_eq!((log.calls[0].args.as_ref(), log.calls[0].result), ("3, F_GETFL", Some(0x8002)));
    }

    #[test]
    fn malformed_log_line_is_an_error() {
        let error = StraceLog::parse("7  <... write resumed>) = 1\n").unwrap_err();
        assert!(matches!(error, RecordError::Syntax { line: 1, .. }), "{error}");
    }
}
