//! Events: the log, translated for whoever listens.

mod hub;

pub(crate) use hub::Hub;
