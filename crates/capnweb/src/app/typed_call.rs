//! Names with types: what both ends agree on.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::args::{ArgumentFor, IntoArgs};
use super::value_conversion::{FromValue, IntoValue};
use crate::error::RpcError;
use crate::session::{Promise, PromiseFuture, Stub};
use crate::value::Value;

/// A method: its name, the tuple of its arguments, and its result.
pub struct Method<A, R> {
    pub(super) name: &'static str,
    types: PhantomData<fn(A) -> R>,
}

impl<A, R> Method<A, R> {
    /// Declares a method.
    pub const fn new(name: &'static str) -> Self {
        let types = PhantomData;
        Self { name, types }
    }
}

impl<A, R> Clone for Method<A, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<A, R> Copy for Method<A, R> {}

/// A property that can be read: its name and its type.
pub struct Property<T> {
    pub(super) name: &'static str,
    types: PhantomData<fn() -> T>,
}

impl<T> Property<T> {
    /// Declares a property.
    pub const fn new(name: &'static str) -> Self {
        let types = PhantomData;
        Self { name, types }
    }
}

impl<T> Clone for Property<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Property<T> {}

/// The promise of a `T`; await it, call it, or pass it on.
pub struct TypedPromise<T> {
    promise: Promise,
    types: PhantomData<fn() -> T>,
}

impl<T> TypedPromise<T> {
    fn new(promise: Promise) -> Self {
        let types = PhantomData;
        Self { promise, types }
    }

    /// Forgets the type.
    pub fn into_promise(self) -> Promise {
        self.promise
    }

    /// Calls a method of what this will be, without waiting for it.
    pub fn call<A, R>(&self, method: Method<A, R>, args: impl IntoArgs<A>) -> TypedPromise<R> {
        TypedPromise::new(self.promise.call_path(&[method.name], args.into_args()))
    }

    /// Reads a property of what this will be, without waiting for it.
    pub fn get<P>(&self, property: Property<P>) -> TypedPromise<P> {
        TypedPromise::new(self.promise.get_path(&[property.name]))
    }
}

impl<T> TypedPromise<Vec<T>> {
    /// Applies a function to every element, where the elements are; see [`Promise::map`].
    ///
    /// The function returns a `U`, or the promise of one.
    pub fn map<U, R: ArgumentFor<U>>(
        &self,
        body: impl FnOnce(TypedPromise<T>) -> R,
    ) -> TypedPromise<Vec<U>> {
        TypedPromise::new(
            self.promise.map(|element| body(TypedPromise::new(element)).into_argument()),
        )
    }
}

impl<T> Clone for TypedPromise<T> {
    fn clone(&self) -> Self {
        Self::new(self.promise.clone())
    }
}

/// Waits for a [`TypedPromise`] promise that was pulled.
#[must_use = "nothing is waited for until it is awaited"]
pub struct TypedPromiseFuture<T> {
    value: PromiseFuture,
    types: PhantomData<fn() -> T>,
}

impl<T: FromValue> Future for TypedPromiseFuture<T> {
    type Output = Result<T, RpcError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let value = std::task::ready!(Pin::new(&mut self.value).poll(context))?;
        Poll::Ready(Ok(T::from_value(value)?))
    }
}

impl<T: FromValue> IntoFuture for TypedPromise<T> {
    type Output = Result<T, RpcError>;
    type IntoFuture = TypedPromiseFuture<T>;

    fn into_future(self) -> TypedPromiseFuture<T> {
        let value = self.promise.into_future();
        TypedPromiseFuture { value, types: PhantomData }
    }
}

impl<T> IntoValue for TypedPromise<T> {
    fn into_value(self) -> Value {
        Value::Promise(self.promise)
    }
}

impl<T> fmt::Debug for TypedPromise<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Typed")
    }
}

impl Stub {
    /// Calls a method. It starts at once, awaited or not.
    pub fn call<A, R>(&self, method: Method<A, R>, args: impl IntoArgs<A>) -> TypedPromise<R> {
        TypedPromise::new(self.call_path(&[method.name], args.into_args()))
    }

    /// Calls the stub itself, if it is a function.
    pub fn invoke<A, R>(&self, args: impl IntoArgs<A>) -> TypedPromise<R> {
        TypedPromise::new(self.call_path(&[], args.into_args()))
    }

    /// Reads a property.
    pub fn get<T>(&self, property: Property<T>) -> TypedPromise<T> {
        TypedPromise::new(self.get_path(&[property.name]))
    }
}
