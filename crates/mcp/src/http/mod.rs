//! Servers that speak streamable HTTP.

mod event_stream;
mod http_exchange;
mod http_transport;

pub(crate) use http_transport::HttpTransport;
