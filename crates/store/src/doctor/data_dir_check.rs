//! The data directory: permissions, sizes, and what dead processes left in it.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use turnstone_core::call_context::OwnerId;
use turnstone_core::time::EpochMillis;

use super::{DiagnosisBuilder, display_path, remedy};
use crate::data_layout::DataLayout;
use crate::error::Result;
use crate::lease_owner::is_alive;
use crate::network_fs;

pub(super) fn check_data_dir(
    layout: &DataLayout,
    now: EpochMillis,
    report: &mut DiagnosisBuilder,
) -> Result<()> {
    if !layout.root().is_dir() {
        let what = "there is no data directory".to_owned();
        report.note("place", what, display_path(layout.root()), remedy::OPEN);
        return Ok(());
    }
    if let Err(error) = network_fs::reject_network_fs(layout.root()) {
        report.warning(error.to_string(), display_path(layout.root()), error.remedy());
    }
    check_permissions(layout, report)?;
    check_owner_files(layout, now, report)?;
    check_partial_blobs(layout, report)?;
    collect_sizes(layout, report)
}

fn check_permissions(layout: &DataLayout, report: &mut DiagnosisBuilder) -> Result<()> {
    let mine = fs_err::metadata(layout.root())?.uid();
    let wal = layout.wal();
    let shm = wal.with_extension("db-shm");
    let folders = [layout.root().to_path_buf(), layout.blobs(), layout.locks(), layout.backups()];
    for path in folders.iter().chain(&[layout.database(), wal, shm]) {
        let Ok(found) = fs_err::metadata(path) else {
            continue;
        };
        if found.mode() & 0o077 != 0 {
            let what = format!("others may read or change it (mode {:o})", found.mode() & 0o7777);
            report.warning(what, display_path(path), remedy::CHMOD);
        }
        if found.uid() != mine {
            let what = "belongs to another user than the data directory".to_owned();
            report.warning(what, display_path(path), remedy::NONE);
        }
    }
    Ok(())
}

/// A process that is just registering must not meet our look at its lock: the open lock prevents it.
fn check_owner_files(
    layout: &DataLayout,
    now: EpochMillis,
    report: &mut DiagnosisBuilder,
) -> Result<()> {
    let Ok(lock) = fs_err::File::open(layout.locks().join("open")) else {
        return Ok(());
    };
    if lock.file().try_lock().is_err() {
        return Ok(());
    }
    let Ok(entries) = fs_err::read_dir(layout.locks()) else {
        return Ok(());
    };
    for entry in entries {
        let entry = entry?;
        let id = OwnerId::new(entry.file_name().to_string_lossy().into_owned());
        if id.as_str().starts_with("owner-") && !is_alive(layout, &id, now).unwrap_or(true) {
            let what = "a process ended without removing its owner file".to_owned();
            report.note("place", what, display_path(&entry.path()), remedy::OPEN);
        }
    }
    Ok(())
}

/// Values that a killed process was still writing.
fn check_partial_blobs(layout: &DataLayout, report: &mut DiagnosisBuilder) -> Result<()> {
    for_each_file(&layout.blobs(), &mut |path, _| {
        if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(".new-")) {
            let what = "a value was not written to its end; it is removed after an hour".to_owned();
            report.note("place", what, display_path(path), remedy::OPEN);
        }
    })
}

fn collect_sizes(layout: &DataLayout, report: &mut DiagnosisBuilder) -> Result<()> {
    for entry in fs_err::read_dir(layout.root())? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let mut bytes = 0;
        if entry.file_type()?.is_dir() {
            for_each_file(&entry.path(), &mut |_, len| bytes += len)?;
            report.diagnosis.sizes.push((format!("{name}/"), bytes));
        } else {
            report.diagnosis.sizes.push((name, entry.metadata()?.len()));
        }
    }
    report.diagnosis.sizes.sort();
    Ok(())
}

/// Calls `each` with every file below `folder` and its length; follows no links.
pub(super) fn for_each_file(folder: &Path, each: &mut dyn FnMut(&Path, u64)) -> Result<()> {
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        // What goes away while we look is gone.
        let Ok(entries) = fs_err::read_dir(&folder) else {
            continue;
        };
        for entry in entries {
            let entry = entry?;
            let Ok(found) = fs_err::symlink_metadata(entry.path()) else {
                continue;
            };
            if found.is_dir() {
                folders.push(entry.path());
            } else {
                each(&entry.path(), found.len());
            }
        }
    }
    Ok(())
}
