//! The HTTP client that environment variables describe.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use turnstone_outbound::{HttpClientSettings, ProxySettings, TrustSettings};

/// The `User-Agent` of requests.
const USER_AGENT: &str = concat!("turnstone/", env!("CARGO_PKG_VERSION"));

/// Returns the settings with the proxies and certificates that variables name. A proxy variable in lower case comes
/// before the same in upper case, as in other programs.
pub(super) fn http_settings(variables: &[(OsString, OsString)]) -> HttpClientSettings {
    let find = |name: &str| {
        let found = variables.iter().find(|(known, _)| known == OsStr::new(name));
        found.map(|(_, value)| value).filter(|value| !value.is_empty())
    };
    let text = |name: &str| {
        let found = find(&name.to_lowercase()).or_else(|| find(name));
        found.and_then(|value| value.to_str()).map(str::to_owned)
    };
    HttpClientSettings {
        proxies: ProxySettings {
            http: text("HTTP_PROXY"),
            https: text("HTTPS_PROXY"),
            all: text("ALL_PROXY"),
            no_proxy: text("NO_PROXY"),
        },
        trust: TrustSettings {
            file: find("SSL_CERT_FILE").map(PathBuf::from),
            folder: find("SSL_CERT_DIR").map(PathBuf::from),
        },
        ..HttpClientSettings::new(USER_AGENT)
    }
}

/// Returns the settings for requests that go through a proxy of their own.
pub(super) fn proxied_settings(usual: &HttpClientSettings, proxy: &str) -> HttpClientSettings {
    let proxies = ProxySettings { all: Some(proxy.to_owned()), ..ProxySettings::default() };
    HttpClientSettings { proxies, ..usual.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proxy_variables_are_read_in_both_spellings() {
        let variables = [
            ("HTTPS_PROXY", "upper.example:1"),
            ("https_proxy", "lower.example:1"),
            ("ALL_PROXY", ""),
            ("NO_PROXY", "a.example"),
            ("SSL_CERT_FILE", "/etc/own.pem"),
        ];
        let variables = variables.map(|(name, value)| (name.into(), value.into()));
        let settings = http_settings(&variables);
        assert_eq!(settings.proxies.https.as_deref(), Some("lower.example:1"));
        assert_eq!(settings.proxies.no_proxy.as_deref(), Some("a.example"));
        assert_eq!((settings.proxies.all, settings.proxies.http), (None, None));
        assert_eq!(settings.trust.file, Some(PathBuf::from("/etc/own.pem")));
    }
}
