//! What is asked: the text of the prompt and the files that are attached to it.

use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use turnstone_core::model::{ExtraFields, FilePart, PartBody, TextPart};
use turnstone_engine::read_bounded_file;

use super::run_args::RunArgs;
use crate::app::CliApp;
use crate::error::CliError;
use crate::ui::Ui;

/// The longest text from standard input.
const MAX_INPUT_BYTES: usize = 4 << 20;
/// The largest attached file.
const MAX_FILE_BYTES: u64 = 10 << 20;
/// The longest attached text: the agent can read longer files by itself, in pages.
const MAX_TEXT_BYTES: usize = 256 << 10;
/// The beginnings of files that models can see, with their media types.
const MEDIA: [(&[u8], &str); 5] = [
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"RIFF", "image/webp"),
    (b"%PDF-", "application/pdf"),
];

/// Returns the parts of the prompt.
///
/// # Errors
///
/// There is no prompt, or a file cannot be attached.
pub(super) fn read_prompt(
    ui: &mut Ui,
    app: &CliApp,
    args: &RunArgs,
) -> Result<Vec<PartBody>, CliError> {
    let mut text = args.prompt.join(" ");
    if let Some(piped) = ui.read_piped_text(MAX_INPUT_BYTES)?.filter(|it| !it.trim().is_empty()) {
        if !text.is_empty() {
            text.push_str("\n\n");
        }
        text.push_str(&piped);
    }
    if text.trim().is_empty() {
        return Err(CliError::Refused {
            what: "there is no prompt".to_owned(),
            hint: Some("`turnstone run \"what the agent is to do\"`".to_owned()),
        });
    }
    let mut parts = vec![PartBody::Text(TextPart { text, ..TextPart::default() })];
    for file in &args.files {
        parts.push(attach(app, file)?);
    }
    Ok(parts)
}

fn refuse_file(file: &Path, why: &str, hint: &str) -> CliError {
    CliError::Refused {
        what: format!("cannot attach {}: {why}", file.display()),
        hint: Some(hint.to_owned()),
    }
}

/// Returns the real path of a file to attach. A name in a repository must not lead to the keys of the user: a link
/// out of the directory is refused, and so is what the system says about processes.
fn resolve_file(app: &CliApp, file: &Path) -> Result<PathBuf, CliError> {
    let failed =
        |source| CliError::File { what: format!("cannot attach {}", file.display()), source };
    let directory = fs_err::canonicalize(app.directory()?).map_err(failed)?;
    let path = directory.join(file);
    let real = match fs_err::canonicalize(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Err(refuse_file(file, "it does not exist", "check the path"));
        }
        found => found.map_err(failed)?,
    };
    if ["/proc", "/sys"].iter().any(|system| real.starts_with(system)) {
        let hint = "copy what the agent is to see into a file";
        return Err(refuse_file(file, "it describes this system and its processes", hint));
    }
    let is_named_below =
        path.starts_with(&directory) && !path.components().any(|it| it == Component::ParentDir);
    if is_named_below && !real.starts_with(&directory) {
        let hint = format!("if you mean it, attach {} itself", real.display());
        return Err(refuse_file(file, "it is a link that leads out of this directory", &hint));
    }
    Ok(real)
}

fn attach(app: &CliApp, file: &Path) -> Result<PartBody, CliError> {
    let path = resolve_file(app, file)?;
    let failed =
        |source| CliError::File { what: format!("cannot attach {}", path.display()), source };
    let refused = |why: &str, hint: &str| refuse_file(file, why, hint);
    let bytes = read_bounded_file(&path, MAX_FILE_BYTES).map_err(failed)?;
    let Some(bytes) = bytes else {
        return Err(refused("it does not exist", "check the path"));
    };
    if let Some((_, mime)) = MEDIA.iter().find(|(head, _)| bytes.starts_with(head)) {
        let filename = path.file_name().map(|name| name.to_string_lossy().into_owned());
        let url = format!("data:{mime};base64,{}", STANDARD.encode(&bytes));
        let mime = (*mime).to_owned();
        return Ok(PartBody::File(FilePart {
            mime,
            filename,
            url,
            source: None,
            extra: ExtraFields::new(),
        }));
    }
    let pages = "name the file in the prompt; the agent reads it in pages";
    if bytes.len() > MAX_TEXT_BYTES {
        return Err(refused("it is longer than 256 KiB", pages));
    }
    let Ok(content) = String::from_utf8(bytes) else {
        return Err(refused("it is neither text nor an image nor a PDF", pages));
    };
    let text = format!("Content of {}:\n\n{content}", path.display());
    Ok(PartBody::Text(TextPart { text, synthetic: Some(true), ..TextPart::default() }))
}
