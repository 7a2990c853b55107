//! What was seen of the tools that were allowed: a server that changes one afterwards is asked about again.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use turnstone_mcp::ServerTool;

/// The name of the record below the data directory.
const FILE_NAME: &str = "mcp-tools.json";
/// The file whose lock a writer holds.
const LOCK_NAME: &str = "mcp-tools.lock";
/// A larger record is damaged.
const MAX_FILE_BYTES: u64 = 16 << 20;
/// How many definitions of one tool are remembered; projects may have servers of the same name.
const MAX_PER_TOOL: usize = 16;
/// How many definitions are remembered.
const MAX_PINS: usize = 10_000;

/// The record of tools cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} the record of allowed tools {}: {reason}", path.display())]
pub struct ToolPinError {
    /// The record.
    pub path: PathBuf,
    /// What failed.
    pub action: &'static str,
    /// Why.
    pub reason: String,
}

/// A definition of a tool, by hashes of what it says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolPin {
    /// The name of the server.
    pub server: String,
    /// The name of the tool at the server.
    pub tool: String,
    /// The hash of the program with its arguments, or of the address.
    pub program: String,
    /// The hash of the description.
    pub description: String,
    /// The hash of the schema.
    pub schema: String,
    /// Whether the server says that the tool changes nothing.
    pub is_read_only: bool,
}

/// What is known of a definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PinState {
    /// It was allowed before, as it is now.
    Known,
    /// The tool was never allowed.
    New,
    /// The tool was allowed when it was something else: what has changed.
    Changed(Vec<&'static str>),
}

impl ToolPin {
    /// Returns the definition of a tool; `program` says what runs it.
    pub(crate) fn new(server: &str, program: &str, tool: &ServerTool) -> Self {
        let hash = |text: &str| blake3::hash(text.as_bytes()).to_hex().to_string();
        let schema = serde_json::Value::Object(tool.input_schema.clone());
        Self {
            server: server.to_owned(),
            tool: tool.name.clone(),
            program: hash(program),
            description: hash(&tool.description),
            schema: hash(&schema.to_string()),
            is_read_only: tool.is_read_only,
        }
    }

    /// Returns one hash of the whole definition, for people.
    #[must_use]
    pub fn hash(&self) -> String {
        let all = format!(
            "{}\0{}\0{}\0{}",
            self.program, self.description, self.schema, self.is_read_only
        );
        blake3::hash(all.as_bytes()).to_hex().to_string()
    }

    fn is_of(&self, other: &Self) -> bool {
        self.server == other.server && self.tool == other.tool
    }

    /// Names what differs from another definition.
    fn differences(&self, other: &Self) -> Vec<&'static str> {
        let compared = [
            ("program", self.program != other.program),
            ("description", self.description != other.description),
            ("schema", self.schema != other.schema),
            ("read-only mark", self.is_read_only != other.is_read_only),
        ];
        compared.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name).collect()
    }
}

/// The record of the definitions that were allowed. Every method reads it again: other processes write it, too.
#[derive(Clone, Debug)]
pub struct ToolPins {
    data: PathBuf,
}

#[derive(Serialize, Deserialize)]
struct StoredPins {
    version: u32,
    tools: Vec<ToolPin>,
}

impl ToolPins {
    /// Returns the record in a data directory.
    #[must_use]
    pub fn new(data: &Path) -> Self {
        Self { data: data.to_owned() }
    }

    /// Returns what is known of a definition.
    pub(crate) fn check(&self, pin: &ToolPin) -> Result<PinState, ToolPinError> {
        let pins = self.list()?;
        let mut same: Vec<&ToolPin> = pins.iter().filter(|it| it.is_of(pin)).collect();
        if same.contains(&pin) {
            return Ok(PinState::Known);
        }
        let newest = same.pop();
        Ok(newest.map_or(PinState::New, |it| PinState::Changed(it.differences(pin))))
    }

    /// Adds a definition that was allowed; durable when this returns.
    pub(crate) fn add(&self, pin: ToolPin) -> Result<(), ToolPinError> {
        self.update(|pins| {
            pins.retain(|it| *it != pin);
            let same = pins.iter().filter(|it| it.is_of(&pin)).count();
            if let Some(oldest) = pins.iter().position(|it| it.is_of(&pin))
                && same >= MAX_PER_TOOL
            {
                pins.remove(oldest);
            }
            let over = (pins.len() + 1).saturating_sub(MAX_PINS);
            drop(pins.drain(..over));
            pins.push(pin);
        })
    }

    /// Returns all definitions that were allowed, the oldest first.
    ///
    /// # Errors
    ///
    /// The record cannot be read or is damaged: it is never taken for an empty one.
    pub fn list(&self) -> Result<Vec<ToolPin>, ToolPinError> {
        let path = self.data.join(FILE_NAME);
        let failed = |reason: String| ToolPinError { path: path.clone(), action: "read", reason };
        match fs_err::metadata(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed(error.to_string())),
            Ok(found) if found.len() > MAX_FILE_BYTES => {
                return Err(failed("it is too large".to_owned()));
            }
            Ok(_) => {}
        }
        let text = fs_err::read(&path).map_err(|error| failed(error.to_string()))?;
        let stored: StoredPins =
            serde_json::from_slice(&text).map_err(|error| failed(error.to_string()))?;
        match stored.version {
            1 => Ok(stored.tools),
            version => Err(failed(format!("version {version} is not known"))),
        }
    }

    /// Forgets the definitions of a server, or of one tool (`server_tool` as models call it); returns them.
    ///
    /// # Errors
    ///
    /// The record cannot be read or written.
    pub fn remove(&self, name: &str) -> Result<Vec<ToolPin>, ToolPinError> {
        let is_named = |pin: &ToolPin| {
            pin.server == name || super::tool_names::plain_name(&pin.server, &pin.tool) == name
        };
        let mut removed = Vec::new();
        self.update(|pins| removed.extend(pins.extract_if(.., |pin| is_named(pin))))?;
        Ok(removed)
    }

    fn update(&self, change: impl FnOnce(&mut Vec<ToolPin>)) -> Result<(), ToolPinError> {
        let path = self.data.join(FILE_NAME);
        let failed = |error: std::io::Error| ToolPinError {
            path: path.clone(),
            action: "write",
            reason: error.to_string(),
        };
        fs_err::create_dir_all(&self.data).map_err(failed)?;
        let lock = fs_err::File::create(self.data.join(LOCK_NAME)).map_err(failed)?;
        lock_within(&lock, Duration::from_secs(10)).map_err(failed)?;
        let mut tools = self.list()?;
        change(&mut tools);
        self.write(&path, &StoredPins { version: 1, tools }).map_err(failed)
    }

    /// Replaces the record as a whole; only its owner can read it.
    fn write(&self, path: &Path, stored: &StoredPins) -> std::io::Result<()> {
        let mut file = tempfile::NamedTempFile::new_in(&self.data)?;
        serde_json::to_writer_pretty(&mut file, stored)?;
        file.as_file().sync_all()?;
        file.persist(path).map_err(|error| error.error)?;
        fs_err::File::open(&self.data)?.sync_all()
    }
}

/// Waits for the lock of a file, within a limit.
fn lock_within(file: &fs_err::File, limit: Duration) -> std::io::Result<()> {
    let step = Duration::from_millis(20);
    let mut waited = Duration::ZERO;
    loop {
        match file.file().try_lock() {
            Ok(()) => return Ok(()),
            Err(std::fs::TryLockError::Error(error)) => return Err(error),
            Err(std::fs::TryLockError::WouldBlock) if waited >= limit => {
                return Err(std::io::Error::other("another process holds its lock"));
            }
            Err(std::fs::TryLockError::WouldBlock) => {
                std::thread::sleep(step);
                waited += step;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use serde_json::{Map, json};

    use super::*;

    fn tool(name: &str, description: &str) -> ServerTool {
        ServerTool {
            name: name.to_owned(),
            description: description.to_owned(),
            input_schema: Map::new(),
            is_read_only: true,
        }
    }

    #[test]
    fn change_of_an_allowed_tool_is_named() {
        let data = tempfile::tempdir().expect("a directory");
        let pins = ToolPins::new(data.path());
        let first = ToolPin::new("s", "npx a", &tool("t", "adds"));
        assert_eq!(pins.check(&first).expect("read"), PinState::New);
        pins.add(first.clone()).expect("written");
        assert_eq!(ToolPins::new(data.path()).check(&first).expect("read"), PinState::Known);
        let changed = |program: &str, tool: &ServerTool| match pins
            .check(&ToolPin::new("s", program, tool))
            .expect("read")
        {
            PinState::Changed(what) => what,
            other @ (PinState::Known | PinState::New) => panic!("{other:?}"),
        };
        assert_eq!(changed("npx a", &tool("t", "adds and mails")), ["description"]);
        assert_eq!(changed("npx b", &tool("t", "adds")), ["program"]);
        let mut writes = tool("t", "adds");
        writes.is_read_only = false;
        writes.input_schema = json!({"type": "object"}).as_object().cloned().expect("an object");
        assert_eq!(changed("npx a", &writes), ["schema", "read-only mark"]);
        assert_eq!(
            pins.check(&ToolPin::new("s2", "npx a", &tool("t", "adds"))).expect("read"),
            PinState::New
        );
        let second = ToolPin::new("s", "npx b", &tool("t", "adds"));
        pins.add(second.clone()).expect("written");
        assert_eq!(pins.check(&first).expect("read"), PinState::Known, "another project has it");
        assert_eq!(pins.remove("s_t").expect("written"), [first.clone(), second]);
        assert_eq!(pins.check(&first).expect("read"), PinState::New);
    }

    #[test]
    fn record_is_private_bounded_and_never_taken_for_empty() {
        let data = tempfile::tempdir().expect("a directory");
        let pins = ToolPins::new(data.path());
        for number in 0..40 {
            pins.add(ToolPin::new("s", "p", &tool("t", &number.to_string()))).expect("written");
        }
        assert_eq!(pins.list().expect("read").len(), 16);
        let path = data.path().join(FILE_NAME);
        let mode = fs_err::metadata(&path).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        for text in ["", "{", "{\"version\": 2, \"tools\": []}"] {
            fs_err::write(&path, text).expect("written");
            assert!(pins.list().is_err(), "{text:?}");
            assert!(pins.add(ToolPin::new("s", "p", &tool("t", ""))).is_err(), "{text:?}");
        }
    }
}
