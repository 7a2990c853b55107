//! What kind of disk the data is on.

use std::path::Path;

use crate::error::DatabaseOpenError;

/// File systems on which SQLite's locks and shared memory cannot be trusted, by their magic number.
const NETWORK_FS_MAGICS: &[(i64, &str)] = &[
    (0x6969, "NFS"),
    (0xFF53_4D42, "CIFS"),
    (0xFE53_4D42, "SMB2"),
    (0x517B, "SMB"),
    (0x0102_1997, "9P"),
    (0x5346_414F, "AFS"),
    (0x0BD0_0BD0, "Lustre"),
    (0x00C3_6400, "Ceph"),
];

/// Refuses a directory on a network file system.
pub(crate) fn reject_network_fs(path: &Path) -> Result<(), DatabaseOpenError> {
    let found = rustix::fs::statfs(path).map_err(|e| DatabaseOpenError::Directory {
        path: path.to_path_buf(),
        reason: e.to_string(),
    })?;
    match network_fs_name(found.f_type) {
        Some(fs) => Err(DatabaseOpenError::Network { path: path.to_path_buf(), fs }),
        None => Ok(()),
    }
}

fn network_fs_name(magic: i64) -> Option<&'static str> {
    NETWORK_FS_MAGICS.iter().find(|(known, _)| *known == magic & 0xFFFF_FFFF).map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_file_systems_are_recognised() {
        assert_eq!(network_fs_name(0x6969), Some("NFS"));
        // A 32-bit magic may arrive sign-extended.
        assert_eq!(network_fs_name(0xFF53_4D42_u32 as i32 as i64), Some("CIFS"));
        assert_eq!(network_fs_name(0xEF53), None, "ext4");
    }
}
