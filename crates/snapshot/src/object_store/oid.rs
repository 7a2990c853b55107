//! Names of objects, computed and converted for gitoxide.

pub use turnstone_core::change::{Oid, OidError};

/// Names `data` as git would.
pub(crate) fn hash_object(kind: gix::objs::Kind, data: &[u8]) -> std::io::Result<Oid> {
    let id = gix::objs::compute_hash(gix::hash::Kind::Sha1, kind, data);
    Ok(from_gix(id.map_err(|error| std::io::Error::other(error.to_string()))?))
}

pub(crate) fn to_gix(oid: &Oid) -> gix::ObjectId {
    gix::ObjectId::Sha1(oid.0)
}

pub(crate) fn from_gix(id: gix::ObjectId) -> Oid {
    let mut bytes = [0; 20];
    bytes.copy_from_slice(&id.as_slice()[..20]);
    Oid(bytes)
}
