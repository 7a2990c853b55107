//! The application's side: interfaces with typed, checked arguments, and typed calls.
//!
//! A [`Method`] or [`Property`] is declared once and used at both ends: an [`Interface`] implements
//! it, a stub calls it. Names stand nowhere else.

mod args;
mod convert;
mod interface;
mod typed;

pub use args::{Fits, FromArgs, IntoArgs};
pub use convert::{FromValue, IntoValue, Mismatch};
pub use interface::{Interface, Object, function};
pub use typed::{Method, Property, Typed, TypedFuture};
