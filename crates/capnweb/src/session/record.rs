//! Recording a function that the peer shall apply: calls inside it become instructions.
//!
//! The function runs once, here, with a placeholder for the element. While it does, nothing is called:
//! every call, read or map on any stub or promise is written down, as npm's `map` does it.

use std::cell::RefCell;
use std::sync::Arc;

use super::cell::Cell;
use super::hook::Hook;
use super::mailbox::Mailbox;
use super::map::Mapping;
use super::stub::{Promise, Stub};
use super::work::Op;
use crate::error::RpcError;
use crate::value::{Http, Value};
use crate::wire::{ErrorExpr, Expr, HttpInit, Key, RefExpr, RemapExpr};

/// One function that is being recorded.
#[derive(Default)]
struct Recorder {
    /// The element, then the result of each instruction.
    variables: Vec<Cell>,
    captures: Vec<Stub>,
    instructions: Vec<Expr>,
    error: Option<RpcError>,
}

thread_local! {
    /// The functions being recorded on this thread, the innermost last.
    static RECORDERS: RefCell<Vec<Recorder>> = const { RefCell::new(Vec::new()) };
}

/// Takes the innermost recorder off when the function is done or panics.
struct Recording;

impl Recording {
    fn begin(element: &Cell) -> Self {
        let variables = vec![element.clone()];
        let recorder = Recorder { variables, ..Recorder::default() };
        RECORDERS.with_borrow_mut(|recorders| recorders.push(recorder));
        Self
    }

    fn end(self) -> Recorder {
        write(std::mem::take).unwrap_or_default()
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        RECORDERS.with_borrow_mut(Vec::pop);
    }
}

/// Records a function: `body` gets the element and returns the result.
pub(crate) fn record(body: impl FnOnce(Promise) -> Value) -> Result<Mapping, RpcError> {
    let element = placeholder();
    let recording = Recording::begin(&element);
    let result = body(Promise { cell: element, home: None });
    let last = write(|recorder| recorder.expr(&result));
    let recorder = recording.end();
    if let Some(error) = recorder.error {
        return Err(error);
    }
    let mut instructions = recorder.instructions;
    instructions.push(last.unwrap_or(Ok(Expr::Undefined))?);
    Ok(Mapping { captures: recorder.captures, instructions })
}

/// Writes an access down if a function is being recorded; otherwise gives it back.
pub(crate) fn intercept(
    hook: &Hook,
    home: Option<&Arc<Mailbox>>,
    path: &[&str],
    op: Op,
) -> Result<Promise, Op> {
    let recorded = write(|recorder| {
        let target = Stub::of(hook.clone(), home);
        let path = path.iter().map(|part| Key::Name((*part).into())).collect();
        let expr = recorder.access(&target, path, &op);
        recorder.add(expr)
    });
    // Here, not before, the arguments may be dropped: disposing of one may call something.
    recorded.map(|cell| Promise { cell, home: None }).ok_or(op)
}

/// Runs with the innermost recorder, if there is one.
fn write<T>(body: impl FnOnce(&mut Recorder) -> T) -> Option<T> {
    RECORDERS.with_borrow_mut(|recorders| recorders.last_mut().map(body))
}

/// A promise that stands for something inside a map, and for nothing outside of it.
fn placeholder() -> Cell {
    let message = "a placeholder of a map means nothing outside of its function";
    Cell::done(Err(RpcError::coded("map", message)))
}

impl Recorder {
    /// Adds an instruction; returns the variable that holds its result.
    fn add(&mut self, expr: Result<Expr, RpcError>) -> Cell {
        let variable = placeholder();
        match expr {
            Ok(expr) => {
                self.instructions.push(expr);
                self.variables.push(variable.clone());
            }
            Err(error) => {
                self.error.get_or_insert(error);
            }
        }
        variable
    }

    fn access(&mut self, target: &Stub, path: Vec<Key>, op: &Op) -> Result<Expr, RpcError> {
        let id = self.id_of(target);
        let reference =
            |path, args| Expr::Pipeline(Box::new(RefExpr { id, path: Some(path), args }));
        match op {
            Op::Get => Ok(reference(path, None)),
            Op::Call(args) => {
                let args: Result<Vec<_>, _> = args.iter().map(|arg| self.expr(arg)).collect();
                Ok(reference(path, Some(args?)))
            }
            Op::Map(mapper) => {
                // What the function inside captures, this one captures too.
                let captures = mapper.captures.iter().map(|hook| {
                    let stub = if let Hook::Foreign(stub) = hook {
                        (**stub).clone()
                    } else {
                        Stub::of(hook.clone(), None)
                    };
                    Expr::Import(Box::new(whole(self.id_of(&stub))))
                });
                let captures = captures.collect();
                let instructions = mapper.instructions.to_vec();
                Ok(Expr::Remap(Box::new(RemapExpr { id, path, captures, instructions })))
            }
        }
    }

    /// Returns what a stub or promise is called in this function; what is from outside is captured.
    fn id_of(&mut self, stub: &Stub) -> i64 {
        let id = |place: usize| i64::try_from(place).unwrap_or(i64::MAX);
        if let Hook::Cell(cell) = &stub.hook {
            let own = self.variables.iter().position(|variable| variable.is(cell));
            if let Some(place) = own {
                return id(place);
            }
        }
        let known = self.captures.iter().position(|capture| is_same(&capture.hook, &stub.hook));
        let place = known.unwrap_or_else(|| {
            self.captures.push(stub.clone());
            self.captures.len() - 1
        });
        -id(place + 1)
    }

    /// Makes an expression of a value inside the function.
    fn expr(&mut self, value: &Value) -> Result<Expr, RpcError> {
        Ok(match value {
            Value::Undefined => Expr::Undefined,
            Value::Null => Expr::Null,
            Value::Bool(value) => Expr::Bool(*value),
            Value::Number(number) => Expr::Number(*number),
            Value::String(text) => Expr::String(text.clone()),
            Value::BigInt(number) => Expr::BigInt(number.clone()),
            Value::Date(time) => Expr::Date(*time),
            Value::Bytes(bytes) => Expr::Bytes(bytes.clone()),
            Value::Url(href) => Expr::Url(href.clone()),
            Value::Headers(pairs) => Expr::Headers(pairs.clone()),
            Value::Array(items) => {
                let items = items.iter().map(|item| self.expr(item));
                Expr::Array(items.collect::<Result<_, _>>()?)
            }
            Value::Object(fields) => Expr::Object(self.fields(fields)?),
            Value::Error(error) => Expr::Error(Box::new(ErrorExpr {
                name: error.name.clone(),
                message: error.message.clone(),
                stack: None,
                props: self.fields(&error.props)?,
            })),
            Value::Request(url, http) => Expr::Request(url.clone(), Box::new(self.http(http)?)),
            Value::Response(http) => Expr::Response(Box::new(self.http(http)?)),
            Value::Stub(stub) => Expr::Import(Box::new(whole(self.id_of(stub)))),
            Value::Promise(promise) => {
                let stub = promise.clone().into_stub();
                Expr::Pipeline(Box::new(whole(self.id_of(&stub))))
            }
            Value::Blob(..) | Value::Readable(_) | Value::Writable(_) => {
                let message = format!("{} cannot be sent inside a map", value.kind());
                return Err(RpcError::type_error(message));
            }
        })
    }

    fn fields(&mut self, fields: &[(String, Value)]) -> Result<Vec<(String, Expr)>, RpcError> {
        let field = |(key, value): &(String, Value)| Ok((key.clone(), self.expr(value)?));
        fields.iter().map(field).collect()
    }

    fn http(&mut self, http: &Http) -> Result<HttpInit, RpcError> {
        Ok(HttpInit {
            headers: http.headers.clone(),
            body: http.body.as_ref().map(|body| self.expr(body)).transpose()?,
            fields: http.fields.clone(),
        })
    }
}

fn whole(id: i64) -> RefExpr {
    RefExpr { id, path: None, args: None }
}

/// Tells whether both are the same object, as far as can be seen from here.
fn is_same(one: &Hook, other: &Hook) -> bool {
    match (one, other) {
        (Hook::Cell(one), Hook::Cell(other)) => one.is(other),
        (Hook::Remote(one), Hook::Remote(other)) => one.is(other),
        (Hook::Target(one), Hook::Target(other)) => Arc::ptr_eq(one, other),
        _ => false,
    }
}
