//! Files that only their owner may read.

use std::io;
use std::path::Path;

/// Replaces a file as a whole: after a crash it has the old or the new content, and it is never readable by
/// others, not even for a moment.
///
/// # Errors
///
/// The file cannot be written; the old one is unchanged then.
pub(crate) fn write_private_file(
    path: &Path,
    write: impl FnOnce(&mut dyn io::Write) -> io::Result<()>,
) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs_err::create_dir_all(folder)?;
    // Temporary files have mode 0600.
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    write(&mut file)?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    fs_err::File::open(folder)?.sync_all()
}
