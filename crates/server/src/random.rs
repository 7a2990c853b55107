//! Random bytes from the system: the only module of this crate that asks for them.
//!
//! A failure is always an error: a token or id made of zeros would be the same for every caller.

use std::io;

/// The system has no random bytes.
#[derive(Debug, thiserror::Error)]
#[error("the system provides no random bytes")]
pub(crate) struct RandomnessError(#[source] io::Error);

/// Returns `N` random bytes.
///
/// # Errors
///
/// [`RandomnessError`] if the system has none.
pub(crate) fn random_bytes<const N: usize>() -> Result<[u8; N], RandomnessError> {
    random_bytes_from(|bytes| getrandom::fill(bytes).map_err(io::Error::other))
}

/// Returns `N` random bytes as hexadecimal digits.
///
/// # Errors
///
/// [`RandomnessError`] if the system has none.
pub(crate) fn random_hex<const N: usize>() -> Result<String, RandomnessError> {
    let bytes = random_bytes::<N>()?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn random_bytes_from<const N: usize>(
    fill: impl FnOnce(&mut [u8]) -> io::Result<()>,
) -> Result<[u8; N], RandomnessError> {
    let mut bytes = [0; N];
    fill(&mut bytes).map_err(RandomnessError)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_randomness_is_an_error_and_never_zeros() {
        let failed = random_bytes_from::<8>(|_| Err(io::Error::other("no entropy")));
        assert!(failed.is_err(), "{failed:?}");
        let error = failed.map(|_| ()).unwrap_err();
        assert_eq!(error.to_string(), "the system provides no random bytes");
    }

    #[test]
    fn random_values_differ() {
        assert_ne!(random_bytes::<16>().unwrap(), random_bytes::<16>().unwrap());
        assert_eq!(random_hex::<4>().unwrap().len(), 8);
    }
}
