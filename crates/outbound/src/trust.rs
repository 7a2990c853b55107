//! Which certificates are trusted.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore};

/// Where trusted certificates come from: the system, unless files are named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustSettings {
    /// `SSL_CERT_FILE`: a file of certificates to trust instead of the system's.
    pub file: Option<PathBuf>,
    /// `SSL_CERT_DIR`: a folder of certificates to trust instead of the system's.
    pub folder: Option<PathBuf>,
}

/// Returns the configuration of TLS connections: ring, TLS 1.2 and 1.3.
pub(crate) fn tls_configuration(settings: &TrustSettings) -> Result<ClientConfig, String> {
    let (file, folder) = (settings.file.as_deref(), settings.folder.as_deref());
    let found = if file.is_some() || folder.is_some() {
        rustls_native_certs::load_certs_from_paths(file, folder)
    } else {
        rustls_native_certs::load_native_certs()
    };
    if found.certs.is_empty()
        && let Some(error) = found.errors.first()
        && (file.is_some() || folder.is_some())
    {
        return Err(format!("the trusted certificates cannot be read: {error}"));
    }
    let mut roots = RootCertStore::empty();
    // A certificate that rustls cannot read is of no use; the others still are.
    roots.add_parsable_certificates(found.certs);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let configuration = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(configuration)
}
