//! `turnstone tour`: stub
mod run;
pub(crate) use run::{TourArgs, run};
