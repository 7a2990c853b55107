//! Outgoing HTTP: TLS with the system's trust store, proxies, redirects, and the policy that decides
//! which addresses may be reached.
