//! Recording a function that the peer shall apply: calls inside it become instructions.
//!
//! The function runs once, here, with a placeholder for the element. While it does, nothing is called:
//! every call, read or map on any stub or promise is written down, as npm's `map` does it.

use std::cell::RefCell;
use std::sync::Arc;

use super::command_queue::CommandQueue;
use super::object_ref::ObjectRef;
use super::promise_cell::PromiseCell;
use super::remote_map::RecordedMap;
use super::stub::{Promise, Stub};
use super::work_queue::AccessOp;
use crate::error::RpcError;
use crate::value::{HttpParts, Value};
use crate::wire::{ErrorExpr, Expr, HttpInit, PathKey, RefExpr, RemapExpr};

/// One function that is being recorded.
#[derive(Default)]
struct MapRecorder {
    /// The element, then the result of each instruction.
    variables: Vec<PromiseCell>,
    captures: Vec<Stub>,
    instructions: Vec<Expr>,
    error: Option<RpcError>,
}

thread_local! {
    /// The functions being recorded on this thread, the innermost last.
    static RECORDERS: RefCell<Vec<MapRecorder>> = const { RefCell::new(Vec::new()) };
}

/// Takes the innermost recorder off when the function is done or panics.
struct RecordingGuard;

impl RecordingGuard {
    fn begin(element: &PromiseCell) -> Self {
        let variables = vec![element.clone()];
        let recorder = MapRecorder { variables, ..MapRecorder::default() };
        RECORDERS.with_borrow_mut(|recorders| recorders.push(recorder));
        Self
    }

    fn end(self) -> MapRecorder {
        with_recorder(std::mem::take).unwrap_or_default()
    }
}

impl Drop for RecordingGuard {
    fn drop(&mut self) {
        RECORDERS.with_borrow_mut(Vec::pop);
    }
}

/// Records a function: `body` gets the element and returns the result.
pub(crate) fn record_map(body: impl FnOnce(Promise) -> Value) -> Result<RecordedMap, RpcError> {
    let element = placeholder();
    let recording = RecordingGuard::begin(&element);
    let result = body(Promise { cell: element, home: None });
    let last = with_recorder(|recorder| recorder.value_expr(&result));
    let recorder = recording.end();
    if let Some(error) = recorder.error {
        return Err(error);
    }
    let mut instructions = recorder.instructions;
    instructions.push(last.unwrap_or(Ok(Expr::Undefined))?);
    Ok(RecordedMap { captures: recorder.captures, instructions })
}

/// Writes an access down if a function is being recorded; otherwise gives it back.
pub(crate) fn record_access(
    hook: &ObjectRef,
    home: Option<&Arc<CommandQueue>>,
    path: &[&str],
    op: AccessOp,
) -> Result<Promise, AccessOp> {
    let recorded = with_recorder(|recorder| {
        let target = Stub::from_ref(hook.clone(), home);
        let path = path.iter().map(|part| PathKey::Name((*part).into())).collect();
        let expr = recorder.access(&target, path, &op);
        recorder.add_instruction(expr)
    });
    // Here, not before, the arguments may be dropped: disposing of one may call something.
    recorded.map(|cell| Promise { cell, home: None }).ok_or(op)
}

/// Runs with the innermost recorder, if there is one.
fn with_recorder<T>(body: impl FnOnce(&mut MapRecorder) -> T) -> Option<T> {
    RECORDERS.with_borrow_mut(|recorders| recorders.last_mut().map(body))
}

/// A promise for a value inside a map; it has no meaning outside of it.
fn placeholder() -> PromiseCell {
    let message = "a placeholder of a map means nothing outside of its function";
    PromiseCell::already_settled(Err(RpcError::with_code("map", message)))
}

impl MapRecorder {
    /// Adds an instruction; returns the variable that holds its result.
    fn add_instruction(&mut self, expr: Result<Expr, RpcError>) -> PromiseCell {
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

    fn access(
        &mut self,
        target: &Stub,
        path: Vec<PathKey>,
        op: &AccessOp,
    ) -> Result<Expr, RpcError> {
        let id = self.variable_id(target);
        let reference =
            |path, args| Expr::Pipeline(Box::new(RefExpr { id, path: Some(path), args }));
        match op {
            AccessOp::Get => Ok(reference(path, None)),
            AccessOp::Call(args) => {
                let args: Result<Vec<_>, _> = args.iter().map(|arg| self.value_expr(arg)).collect();
                Ok(reference(path, Some(args?)))
            }
            AccessOp::Map(mapper) => {
                // What the function inside captures, this one captures too.
                let captures = mapper.captures.iter().map(|hook| {
                    let stub = if let ObjectRef::Foreign(stub) = hook {
                        (**stub).clone()
                    } else {
                        Stub::from_ref(hook.clone(), None)
                    };
                    Expr::Import(Box::new(whole_ref(self.variable_id(&stub))))
                });
                let captures = captures.collect();
                let instructions = mapper.instructions.to_vec();
                Ok(Expr::Remap(Box::new(RemapExpr { id, path, captures, instructions })))
            }
        }
    }

    /// Returns what a stub or promise is called in this function; what is from outside is captured.
    fn variable_id(&mut self, stub: &Stub) -> i64 {
        let id = |place: usize| i64::try_from(place).unwrap_or(i64::MAX);
        if let ObjectRef::Promise(cell) = &stub.reference {
            let own = self.variables.iter().position(|variable| variable.is_same(cell));
            if let Some(place) = own {
                return id(place);
            }
        }
        let known = self
            .captures
            .iter()
            .position(|capture| is_same_reference(&capture.reference, &stub.reference));
        let place = known.unwrap_or_else(|| {
            self.captures.push(stub.clone());
            self.captures.len() - 1
        });
        -id(place + 1)
    }

    /// Makes an expression of a value inside the function.
    fn value_expr(&mut self, value: &Value) -> Result<Expr, RpcError> {
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
                let items = items.iter().map(|item| self.value_expr(item));
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
            Value::Stub(stub) => Expr::Import(Box::new(whole_ref(self.variable_id(stub)))),
            Value::Promise(promise) => {
                let stub = promise.clone().into_stub();
                Expr::Pipeline(Box::new(whole_ref(self.variable_id(&stub))))
            }
            Value::Blob(..) | Value::Readable(_) | Value::Writable(_) => {
                let message = format!("{} cannot be sent inside a map", value.kind_name());
                return Err(RpcError::type_error(message));
            }
        })
    }

    fn fields(&mut self, fields: &[(String, Value)]) -> Result<Vec<(String, Expr)>, RpcError> {
        let field = |(key, value): &(String, Value)| Ok((key.clone(), self.value_expr(value)?));
        fields.iter().map(field).collect()
    }

    fn http(&mut self, http: &HttpParts) -> Result<HttpInit, RpcError> {
        Ok(HttpInit {
            headers: http.headers.clone(),
            body: http.body.as_ref().map(|body| self.value_expr(body)).transpose()?,
            fields: http.fields.clone(),
        })
    }
}

fn whole_ref(id: i64) -> RefExpr {
    RefExpr { id, path: None, args: None }
}

/// Tells whether both are the same object, as far as can be seen from here.
fn is_same_reference(one: &ObjectRef, other: &ObjectRef) -> bool {
    match (one, other) {
        (ObjectRef::Promise(one), ObjectRef::Promise(other)) => one.is_same(other),
        (ObjectRef::Remote(one), ObjectRef::Remote(other)) => one.is_same(other),
        (ObjectRef::Target(one), ObjectRef::Target(other)) => Arc::ptr_eq(one, other),
        _ => false,
    }
}
