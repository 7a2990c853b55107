//! Outgoing HTTP: TLS with the system's trust store, proxies, redirects, and the policy that decides
//! which addresses may be reached.
//!
//! The interface is synchronous; the runtime behind it is private to this crate. Nothing is read from
//! the environment: proxies and certificate files are settings.

mod address_policy;
mod client;
mod error;
mod exchange;
mod proxy;
mod request;
mod resolver;
mod response;
mod trust;

pub use address_policy::{AddressPolicy, is_public_address};
pub use client::{HttpClient, HttpClientSettings};
pub use error::{OutboundError, TimeoutPhase};
pub use proxy::ProxySettings;
pub use request::{HttpMethod, OutboundRequest, OutboundTimeouts, RedirectPolicy};
pub use response::{RequestCanceller, ResponseHead, ResponseStream};
pub use trust::TrustSettings;
