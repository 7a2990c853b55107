//! Resolves names to the addresses that a policy allows.
//!
//! The connection is made to the addresses that were checked, so a name cannot answer differently
//! the second time.

use std::net::SocketAddr;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use crate::AddressPolicy;

/// A name has no address that the policy allows.
#[derive(Debug, thiserror::Error)]
#[error("not a public address")]
pub(crate) struct RefusedName;

/// Resolves names under a policy.
pub(crate) struct PolicyResolver(pub(crate) AddressPolicy);

impl Resolve for PolicyResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let policy = self.0;
        Box::pin(async move {
            let addresses = resolve_allowed(name.as_str(), policy).await?;
            let addresses: Addrs = Box::new(addresses.into_iter());
            Ok(addresses)
        })
    }
}

/// Returns the addresses of a name that the policy allows; the error is `RefusedName` if it has only
/// others.
pub(crate) async fn resolve_allowed(
    name: &str,
    policy: AddressPolicy,
) -> Result<Vec<SocketAddr>, Box<dyn std::error::Error + Send + Sync>> {
    let found = tokio::net::lookup_host((name, 0)).await?;
    let allowed: Vec<SocketAddr> = found.filter(|found| policy.allows(found.ip())).collect();
    if allowed.is_empty() {
        return Err(RefusedName.into());
    }
    Ok(allowed)
}
