//! The application's side: interfaces with typed, checked arguments, and typed calls.
//!
//! A [`Method`] or [`Property`] is declared once and used at both ends: an [`Interface`] implements
//! it, a stub calls it. Names stand nowhere else.

mod args;
mod interface;
mod typed_call;
mod value_conversion;

pub use args::{ArgumentFor, FromArgs, IntoArgs};
pub use interface::{BoundObject, Interface, function};
pub use typed_call::{Method, Property, TypedPromise, TypedPromiseFuture};
pub use value_conversion::{FromValue, IntoValue, TypeMismatch};
