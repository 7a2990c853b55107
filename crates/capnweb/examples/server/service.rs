//! The service that the tests of this crate and the black-box suites of other ports call.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use capnweb::app::{BoundObject, Interface, Method, Property};
use capnweb::error::{CallFailure, RpcError};
use capnweb::session::{Readable, Stub, Writable, stream};
use capnweb::value::Value;
use capnweb::wire::TypedBytes;

/// Adds to a counter and returns its value.
pub(crate) const INCREMENT: Method<(Option<f64>,), f64> = Method::new("increment");
/// The value of a counter.
pub(crate) const VALUE: Property<f64> = Property::new("value");

/// Returns its argument.
pub(crate) const ECHO: Method<(Value,), Value> = Method::new("echo");
/// `hi …`
pub(crate) const GREET: Method<(String,), String> = Method::new("greet");
/// An object with a name.
pub(crate) const USER: Method<(), Value> = Method::new("user");
/// Makes a counter.
pub(crate) const MAKE_COUNTER: Method<(f64,), Stub> = Method::new("makeCounter");
/// Calls the function with `tick`.
pub(crate) const WITH_CALLBACK: Method<(Stub,), Value> = Method::new("withCallback");
/// Reads a stream to its end.
pub(crate) const CONSUME: Method<(Readable,), Vec<Value>> = Method::new("consume");
/// Writes two chunks into a stream.
pub(crate) const WRITE_TO: Method<(Writable,), String> = Method::new("writeTo");
/// Returns a stream.
pub(crate) const READABLE: Method<(), Readable> = Method::new("readable");
/// Fails with a code.
pub(crate) const FAIL_WITH_PROPS: Method<(), ()> = Method::new("failWithProps");
/// The numbers 1 to 3.
pub(crate) const IDS: Method<(), Vec<f64>> = Method::new("ids");
/// How many counters were given back.
pub(crate) const DISPOSED: Method<(), u64> = Method::new("disposed");

static COUNTER: LazyLock<Arc<Interface<Counter>>> = LazyLock::new(|| {
    Arc::new(
        Interface::new()
            .method(INCREMENT, |counter: &Arc<Counter>, (by,)| {
                let mut at = counter.at.lock().unwrap_or_else(PoisonError::into_inner);
                *at += by.unwrap_or(1.0);
                Ok(*at)
            })
            .property(VALUE, |counter| {
                Ok(*counter.at.lock().unwrap_or_else(PoisonError::into_inner))
            })
            .on_dispose(|counter| {
                counter.disposed.fetch_add(1, Ordering::Relaxed);
            }),
    )
});

static MAIN: LazyLock<Arc<Interface<Service>>> = LazyLock::new(|| {
    let interface = values(Interface::new());
    let interface = targets(interface);
    Arc::new(streams(failures(interface)))
});

struct Counter {
    at: Mutex<f64>,
    disposed: Arc<AtomicU64>,
}

/// What the service remembers.
#[derive(Default)]
pub(crate) struct Service {
    kept: Mutex<Option<Stub>>,
    disposed: Arc<AtomicU64>,
}

/// Makes the main object of one session.
pub(crate) fn main_object() -> BoundObject<Service> {
    MAIN.bind(Service::default())
}

fn counter(service: &Service, at: f64) -> Stub {
    Stub::new(COUNTER.bind(Counter { at: Mutex::new(at), disposed: Arc::clone(&service.disposed) }))
}

fn numbers(numbers: impl IntoIterator<Item = f64>) -> Value {
    Value::Array(numbers.into_iter().map(Value::Number).collect())
}

fn fibonacci(length: u32) -> Value {
    let (mut now, mut next) = (0.0, 1.0);
    numbers((0..length.min(1_000)).map(|_| {
        let shown = now;
        (now, next) = (next, now + next);
        shown
    }))
}

fn values(interface: Interface<Service>) -> Interface<Service> {
    interface
        .method(ECHO, |_, (value,)| Ok(value))
        .method(GREET, |_, (name,)| Ok(format!("hi {name}")))
        .method(Method::<(f64,), f64>::new("square"), |_, (a,)| Ok(a * a))
        .method(USER, |_, ()| {
            let name = Value::String("ann".to_owned());
            Ok(Value::object([("name", name), ("ids", numbers([1.0, 2.0, 3.0]))]))
        })
        .method(IDS, |_, ()| Ok(vec![1.0, 2.0, 3.0]))
        .method(Method::<(f64,), String>::new("name"), |_, (id,)| Ok(format!("n{id}")))
        .method(Method::<(u32,), Value>::new("generateFibonacci"), |_, (n,)| Ok(fibonacci(n)))
        .method(Method::<(), Value>::new("returnNull"), |_, ()| Ok(Value::Null))
        .method(Method::<(), Value>::new("returnUndefined"), |_, ()| Ok(Value::Undefined))
        .method(Method::<(f64,), f64>::new("returnNumber"), |_, (a,)| Ok(a))
        .method(Method::<(), TypedBytes>::new("getBytes"), |_, ()| {
            Ok(TypedBytes::from(vec![1, 2, 3]))
        })
        .method(Method::<(), Value>::new("getInvalidDate"), |_, ()| Ok(Value::Date(None)))
        .method(Method::<(Value,), Value>::new("echoBlob"), |_, (blob,)| {
            if matches!(blob, Value::Blob(..)) {
                return Ok(blob);
            }
            Err(RpcError::type_error("expected a blob").into())
        })
        .method(Method::<(), Value>::new("makeBlob"), |_, ()| {
            Ok(Value::Blob("text/plain".to_owned(), b"hello blob".to_vec()))
        })
}

fn targets(interface: Interface<Service>) -> Interface<Service> {
    interface
        .method(MAKE_COUNTER, |service: &Arc<Service>, (at,)| Ok(counter(service, at)))
        .method(Method::<(f64,), Vec<Stub>>::new("twice"), |service: &Arc<Service>, (at,)| {
            let one = counter(service, at);
            Ok(vec![one.clone(), one])
        })
        .method(DISPOSED, |service: &Arc<Service>, ()| Ok(service.disposed.load(Ordering::Relaxed)))
        .async_method(
            Method::<(Stub, Option<f64>), f64>::new("incrementCounter"),
            |_, (counter, by)| async move { Ok(counter.call(INCREMENT, (by,)).await?) },
        )
        .async_method(
            Method::<(Stub, f64), Value>::new("callSquare"),
            |_, (target, number)| async move {
                let square = Method::<(f64,), f64>::new("square");
                let result = Value::Promise(target.call(square, (number,)).into_promise());
                Ok(Value::object([("result", result)]))
            },
        )
        .async_method(
            Method::<(Stub, Value), Value>::new("callFunction"),
            |_, (function, argument)| async move {
                let result = function.invoke::<(Value,), Value>((argument,)).await?;
                Ok(Value::object([("result", result)]))
            },
        )
        .async_method(WITH_CALLBACK, |_, (callback,)| async move {
            let got = callback.invoke::<(String,), Value>(("tick",)).await?;
            Ok(Value::object([("got", got)]))
        })
        .method(Method::<(Stub,), String>::new("notify"), |_, (callback,)| {
            drop(callback.invoke::<(String,), Value>(("fire",)));
            Ok("ok".to_owned())
        })
        .method(Method::<(Stub,), bool>::new("keep"), |service: &Arc<Service>, (callback,)| {
            let mut kept = service.kept.lock().unwrap_or_else(PoisonError::into_inner);
            *kept = Some(callback);
            Ok(true)
        })
        .method(Method::<(), Value>::new("drop"), |service: &Arc<Service>, ()| {
            let mut kept = service.kept.lock().unwrap_or_else(PoisonError::into_inner);
            kept.take();
            Ok(Value::Null)
        })
        .async_method(Method::<(), ()>::new("never"), |_, ()| std::future::pending())
        .async_method(Method::<(Value,), ()>::new("keepWaiting"), |_, (value,)| async move {
            let never = std::future::pending().await;
            drop(value);
            never
        })
}

fn failures(interface: Interface<Service>) -> Interface<Service> {
    interface
        .method(Method::<(), ()>::new("throwError"), |_, ()| {
            Err(RpcError::new("RangeError", "test error").into())
        })
        .method(FAIL_WITH_PROPS, |_, ()| {
            let details = Value::object([("a", numbers([1.0]))]);
            let error = RpcError::new("RangeError", "bad range");
            let code = Value::String("E_RANGE".to_owned());
            Err(error.with_prop("code", code).with_prop("details", details).into())
        })
        .method(Method::<(), ()>::new("leak"), |_, ()| {
            Err(CallFailure::internal("password=hunter2"))
        })
}

fn streams(interface: Interface<Service>) -> Interface<Service> {
    interface
        .async_method(CONSUME, |_, (mut readable,)| async move {
            let mut chunks = Vec::new();
            while let Some(chunk) = readable.read().await {
                chunks.push(chunk?);
            }
            Ok(chunks)
        })
        .async_method(WRITE_TO, |_, (mut writable,)| async move {
            writable.write(Value::String("q".to_owned())).await?;
            writable.write(Value::Number(2.0)).await?;
            writable.close().await?;
            Ok("written".to_owned())
        })
        .method(READABLE, |_, ()| {
            let (writable, readable) = stream();
            let chunks =
                [Value::String("a".to_owned()), Value::Bytes(TypedBytes::from(vec![1, 2, 3]))];
            for chunk in chunks {
                writable.write_now(chunk)?;
            }
            writable.finish();
            Ok(readable)
        })
}
