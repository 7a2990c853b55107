//! Which proxy a request goes through.

use std::net::IpAddr;

use reqwest::Url;

use crate::OutboundError;

/// The values of the proxy variables, as they are.
#[derive(Clone, Default)]
pub struct ProxySettings {
    /// `HTTP_PROXY`: for addresses of `http`.
    pub http: Option<String>,
    /// `HTTPS_PROXY`: for addresses of `https`.
    pub https: Option<String>,
    /// `ALL_PROXY`: where the others are not set.
    pub all: Option<String>,
    /// `NO_PROXY`: hosts that are asked directly.
    pub no_proxy: Option<String>,
}

impl std::fmt::Debug for ProxySettings {
    /// Shows no address: it may contain a password.
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("ProxySettings")
            .field("http", &self.http.is_some())
            .field("https", &self.https.is_some())
            .field("all", &self.all.is_some())
            .field("no_proxy", &self.no_proxy)
            .finish()
    }
}

/// The proxies, read.
pub(crate) struct ProxyRules {
    http: Option<Url>,
    https: Option<Url>,
    direct: Vec<DirectHosts>,
}

/// One entry of `NO_PROXY`.
#[derive(Debug, PartialEq, Eq)]
enum DirectHosts {
    All,
    /// A domain and what is below it, in lower case, and the port if it counts.
    Domain(String, Option<u16>),
    Network(IpAddr, u8, Option<u16>),
}

impl ProxyRules {
    pub(crate) fn new(settings: &ProxySettings) -> Result<Self, OutboundError> {
        let all = settings.all.as_deref();
        let read = |value: Option<&str>| value.filter(|value| !value.is_empty()).map(proxy_url);
        Ok(Self {
            http: read(settings.http.as_deref().or(all)).transpose()?,
            https: read(settings.https.as_deref().or(all)).transpose()?,
            direct: settings.no_proxy.as_deref().map(direct_hosts).unwrap_or_default(),
        })
    }

    /// Returns the proxy for an address. This machine itself is always asked directly.
    pub(crate) fn find(&self, url: &Url) -> Option<&Url> {
        let proxy = if url.scheme() == "https" { &self.https } else { &self.http };
        let host = url.host_str()?.trim_matches(['[', ']']).trim_end_matches('.').to_lowercase();
        let address = host.parse::<IpAddr>().ok();
        let is_local = host == "localhost"
            || host.ends_with(".localhost")
            || address.is_some_and(|address| address.is_loopback());
        let port = url.port_or_known_default();
        let is_direct = |hosts: &DirectHosts| hosts.contains(&host, address, port);
        if is_local || self.direct.iter().any(is_direct) { None } else { proxy.as_ref() }
    }
}

fn proxy_url(value: &str) -> Result<Url, OutboundError> {
    let invalid = |reason: &str| OutboundError::InvalidProxy { reason: reason.to_owned() };
    let text = if value.contains("://") { value.to_owned() } else { format!("http://{value}") };
    let url = Url::parse(&text).map_err(|_| invalid("its address cannot be read"))?;
    match url.scheme() {
        "http" | "https" | "socks4" | "socks4a" | "socks5" | "socks5h" => Ok(url),
        other => Err(invalid(&format!("the scheme `{other}` is not known"))),
    }
}

fn direct_hosts(value: &str) -> Vec<DirectHosts> {
    let entries = value.split([',', ' ']).map(str::trim).filter(|entry| !entry.is_empty());
    entries.map(direct_entry).collect()
}

fn direct_entry(entry: &str) -> DirectHosts {
    if entry == "*" {
        return DirectHosts::All;
    }
    let address = |text: &str| text.trim_matches(['[', ']']).parse::<IpAddr>().ok();
    if let Some((network, bits)) = entry.split_once('/')
        && let (Some(network), Ok(bits)) = (address(network), bits.parse::<u8>())
    {
        return DirectHosts::Network(network, bits, None);
    }
    let full = |address: IpAddr| if address.is_ipv4() { 32 } else { 128 };
    if let Some(found) = address(entry) {
        return DirectHosts::Network(found, full(found), None);
    }
    let (host, port) = match entry.rsplit_once(':') {
        Some((host, port)) => (host, port.parse::<u16>().ok()),
        None => (entry, None),
    };
    if let Some(found) = address(host) {
        return DirectHosts::Network(found, full(found), port);
    }
    let domain = host.trim_start_matches("*.").trim_matches('.').to_lowercase();
    DirectHosts::Domain(domain, port)
}

impl DirectHosts {
    fn contains(&self, host: &str, address: Option<IpAddr>, port: Option<u16>) -> bool {
        let is_port = |wanted: Option<u16>| wanted.is_none() || wanted == port;
        match self {
            Self::All => true,
            Self::Domain(domain, wanted) => {
                let is_below =
                    || host.strip_suffix(domain.as_str()).is_some_and(|below| below.ends_with('.'));
                is_port(*wanted) && !domain.is_empty() && (host == domain || is_below())
            }
            Self::Network(network, bits, wanted) => {
                is_port(*wanted)
                    && address.is_some_and(|address| is_in_network(address, *network, *bits))
            }
        }
    }
}

fn is_in_network(address: IpAddr, network: IpAddr, bits: u8) -> bool {
    match (address, network) {
        (IpAddr::V4(address), IpAddr::V4(network)) => {
            let shift = 32_u32.saturating_sub(u32::from(bits));
            let cut = |address: u32| address.checked_shr(shift).unwrap_or(0);
            cut(address.to_bits()) == cut(network.to_bits())
        }
        (IpAddr::V6(address), IpAddr::V6(network)) => {
            let shift = 128_u32.saturating_sub(u32::from(bits));
            let cut = |address: u128| address.checked_shr(shift).unwrap_or(0);
            cut(address.to_bits()) == cut(network.to_bits())
        }
        (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(no_proxy: &str) -> ProxyRules {
        let settings = ProxySettings {
            http: Some("plain.example:3128".to_owned()),
            https: None,
            all: Some("socks5h://all.example:1080".to_owned()),
            no_proxy: Some(no_proxy.to_owned()),
        };
        ProxyRules::new(&settings).unwrap()
    }

    fn proxy_of(rules: &ProxyRules, url: &str) -> Option<String> {
        rules.find(&Url::parse(url).unwrap()).map(|url| url.host_str().unwrap().to_owned())
    }

    #[test]
    fn the_scheme_decides_which_proxy_is_used() {
        let rules = rules("");
        assert_eq!(proxy_of(&rules, "http://a.example").as_deref(), Some("plain.example"));
        assert_eq!(proxy_of(&rules, "https://a.example").as_deref(), Some("all.example"));
        for local in
            ["http://localhost:11434", "http://127.0.0.1", "http://[::1]:1", "http://a.localhost"]
        {
            assert_eq!(proxy_of(&rules, local), None, "{local}");
        }
    }

    #[test]
    fn listed_hosts_are_asked_directly() {
        let rules =
            rules("a.example, .b.example,*.c.example,10.0.0.0/8 fd00::/8,1.2.3.4,d.example:81");
        let direct = [
            "http://a.example",
            "http://A.EXAMPLE.",
            "http://x.a.example",
            "http://b.example",
            "http://x.b.example",
            "http://c.example",
            "http://10.9.9.9",
            "http://[fd00::9]",
            "http://1.2.3.4",
            "http://d.example:81",
        ];
        for url in direct {
            assert_eq!(proxy_of(&rules, url), None, "{url}");
        }
        let proxied = [
            "http://xa.example",
            "http://11.0.0.1",
            "http://1.2.3.5",
            "http://d.example",
            "http://[fe00::9]",
        ];
        for url in proxied {
            assert!(proxy_of(&rules, url).is_some(), "{url}");
        }
        assert_eq!(proxy_of(&self::rules("*"), "http://x.example"), None);
    }

    #[test]
    fn an_invalid_proxy_is_an_error_without_its_password() {
        for value in ["ftp://user:secret@host", "http://user:secret@", "http://user:secret@h:99999"]
        {
            let settings =
                ProxySettings { all: Some(value.to_owned()), ..ProxySettings::default() };
            let Err(error) = ProxyRules::new(&settings) else { panic!("{value} is accepted") };
            assert!(!error.to_string().contains("secret"), "{error}");
            assert!(!format!("{settings:?}").contains("secret"));
        }
    }
}
