//! Text that is never shown.

use std::fmt;

/// A key or another secret. It has no `Display` and no `Serialize`, its `Debug` hides it, and its memory is
/// overwritten when it is dropped.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(Vec<u8>);

impl Secret {
    /// Wraps a text.
    #[must_use]
    pub fn new(text: String) -> Self {
        Self(text.into_bytes())
    }

    /// Returns the text, for the one request or file that needs it.
    #[must_use]
    pub fn expose(&self) -> &str {
        // It was made from text.
        str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        self.0.fill(0);
        // Without a reader, the compiler may drop the writes.
        std::hint::black_box(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_is_not_printed() {
        let secret = Secret::new("sk-0123456789abcdefghij".to_owned());
        assert_eq!(format!("{secret:?}"), "Secret(…)");
        assert_eq!(secret.expose(), "sk-0123456789abcdefghij");
    }
}
