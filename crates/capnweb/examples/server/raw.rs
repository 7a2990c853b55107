//! The service that the raw client of capnweb-go calls, served on `/raw`.

use std::sync::{Arc, LazyLock};

use capnweb::app::{BoundObject, Interface, Method};
use capnweb::error::{CallFailure, RpcError};
use capnweb::json::Json;
use capnweb::session::{Readable, Stub};
use capnweb::value::{HttpParts, Value};
use capnweb::wire::{BigInt, TypedBytes};

/// A service without a memory.
pub(crate) struct Raw;

struct Child;

static RAW: LazyLock<Arc<Interface<Raw>>> =
    LazyLock::new(|| Arc::new(types(values(Interface::new()))));

static CHILD: LazyLock<Arc<Interface<Child>>> = LazyLock::new(|| {
    let method = Method::<(), String>::new("childMethod");
    Arc::new(Interface::new().method(method, |_, ()| Ok("from child".to_owned())))
});

/// Makes the main object of one session.
pub(crate) fn main_object() -> BoundObject<Raw> {
    RAW.bind(Raw)
}

fn text(text: &str) -> Value {
    Value::String(text.to_owned())
}

fn with_props() -> CallFailure {
    let cause = Value::Error(Box::new(RpcError::new("RangeError", "the cause")));
    let error = RpcError::new("Error", "with props").with_prop("code", Value::Number(42.0));
    error.with_prop("detail", text("extra")).with_prop("cause", cause).into()
}

async fn collect(mut readable: Readable) -> Result<String, CallFailure> {
    let mut all = String::new();
    while let Some(chunk) = readable.read().await {
        all.push_str(chunk?.as_str().unwrap_or_default());
    }
    Ok(all)
}

fn values(interface: Interface<Raw>) -> Interface<Raw> {
    interface
        .method(Method::<(Value,), Value>::new("echo"), |_, (value,)| Ok(value))
        .method(Method::<(f64, f64), f64>::new("add"), |_, (a, b)| Ok(a + b))
        .method(Method::<(f64,), f64>::new("double"), |_, (a,)| Ok(a * 2.0))
        .method(Method::<(String,), String>::new("greet"), |_, (name,)| {
            Ok(format!("Hello, {name}!"))
        })
        .method(Method::<(), ()>::new("fail"), |_, ()| {
            Err(RpcError::new("Error", "intentional error").into())
        })
        .method(Method::<(), ()>::new("failTyped"), |_, ()| {
            Err(RpcError::type_error("bad argument").into())
        })
        .method(Method::<(), ()>::new("failWithProps"), |_, ()| Err(with_props()))
        .method(Method::<(), Stub>::new("getChild"), |_, ()| Ok(Stub::new(CHILD.bind(Child))))
        .async_method(Method::<(Readable,), String>::new("collect"), |_, (readable,)| {
            collect(readable)
        })
        .method(Method::<(), Vec<f64>>::new("getNumbers"), |_, ()| Ok(vec![1.0, 2.0, 3.0]))
        .method(Method::<(), Vec<Value>>::new("getPeople"), |_, ()| {
            let person = |name| Value::object([("name", text(name))]);
            Ok(vec![person("Alice"), person("Bob")])
        })
}

fn types(interface: Interface<Raw>) -> Interface<Raw> {
    interface
        .method(Method::<(), Value>::new("makeBlob"), |_, ()| {
            Ok(Value::Blob("text/plain".to_owned(), b"blob payload".to_vec()))
        })
        .method(Method::<(), Value>::new("getInvalidDate"), |_, ()| Ok(Value::Date(None)))
        .method(Method::<(), Value>::new("getZeroTime"), |_, ()| {
            Ok(Value::Date(Some(-62_135_596_800_000.0)))
        })
        .method(Method::<(), BigInt>::new("bigNumber"), |_, ()| {
            Ok(BigInt::from(123_456_789_012_345_678_901_234_567_890))
        })
        .method(Method::<(), TypedBytes>::new("getBytes"), |_, ()| {
            Ok(TypedBytes::from(vec![0xde, 0xad]))
        })
        .method(Method::<(), Vec<f64>>::new("getSpecialFloats"), |_, ()| {
            Ok(vec![f64::INFINITY, f64::NEG_INFINITY, f64::NAN])
        })
        .method(Method::<(), Value>::new("getHeaders"), |_, ()| {
            Ok(Value::Headers(vec![("x-multi".to_owned(), "a, b".to_owned())]))
        })
        .method(Method::<(), Value>::new("getEmptyHeaders"), |_, ()| Ok(Value::Headers(Vec::new())))
        .method(Method::<(), Value>::new("getRequest"), |_, ()| {
            let field = |key: &str, value: &str| (key.to_owned(), Json::String(value.to_owned()));
            let http = HttpParts {
                headers: Vec::new(),
                body: Some(text("hello")),
                fields: vec![field("method", "POST"), field("duplex", "half")],
            };
            Ok(Value::Request("https://example.com/".to_owned(), Box::new(http)))
        })
}
