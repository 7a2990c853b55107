//! Following a path to its end, and reading, calling or mapping what is there.

use std::sync::Arc;

use super::cell::{Cell, State};
use super::export::Made;
use super::hook::{Hook, Member, MemberKind, RemoteRef, Target};
use super::mailbox::Command;
use super::map::Budget;
use super::pipe::WriteEnd;
use super::stub::Stub;
use super::turn::{HeldCall, Session, limit};
use super::work::{Access, Bridge, Delivery, Mapper, Op, Then, Waiter, Work};
use crate::cost;
use crate::error::RpcError;
use crate::value::{Value, is_inherited};
use crate::wire::{Expr, Key, RefExpr, RemapExpr};

/// Where a path inside a value leads.
enum Found {
    Value(Value),
    /// On to something else, with the rest of the path.
    Hook(Hook, usize),
    Error(RpcError),
}

impl Session {
    pub(super) fn access(&mut self, access: Access) {
        match access.hook.clone() {
            Hook::Target(target) => self.access_target(target, access),
            Hook::Method(target, name) => {
                if access.at < access.path.len() {
                    self.access_value(&Value::Undefined, access, true);
                    return;
                }
                self.at_function(target, Member::Method(name), access);
            }
            Hook::Remote(remote) => self.access_remote(&remote, access),
            Hook::Cell(cell) => self.access_cell(&cell, access),
            Hook::Sink(sink) => self.access_sink(sink, access),
            Hook::Foreign(stub) => self.access_foreign(&stub, access),
        }
    }

    fn access_cell(&mut self, cell: &Cell, mut access: Access) {
        let cell = cell.root();
        let mut state = cell.lock();
        let found = match &mut *state {
            State::Done(Ok(value)) => self.walk(value, &mut access),
            State::Done(Err(error)) => Found::Error(error.clone()),
            State::Pending(pending) => {
                if let Some(remote) = pending.remote.clone() {
                    drop(state);
                    // Reading the whole promise is the promise.
                    if access.at == access.path.len() && matches!(access.op, Op::Get) {
                        let value = self.promise(cell);
                        self.work.push_back(Work::Settle(access.result, Ok(value)));
                    } else {
                        self.access_remote(&remote, access);
                    }
                } else {
                    pending.waiters.push(Waiter::Access(Box::new(access)));
                }
                return;
            }
            State::Forward(_) => return,
        };
        drop(state);
        match found {
            Found::Value(value) => self.at_value(value, access),
            Found::Hook(hook, at) => {
                access.start = at;
                access.at = at;
                access.hook = hook;
                // Not from here: a chain of promises may be longer than the stack.
                self.work.push_front(Work::Access(Box::new(access)));
            }
            Found::Error(error) => self.work.push_back(Work::Settle(access.result, Err(error))),
        }
    }

    fn promise(&self, cell: Cell) -> Value {
        Value::Promise(super::stub::Promise::of(cell, &self.mailbox))
    }

    /// Follows the rest of the path inside a value that nobody else holds.
    fn access_value(&mut self, value: &Value, mut access: Access, skip: bool) {
        access.at += usize::from(skip);
        match self.walk(value, &mut access) {
            Found::Value(value) => self.at_value(value, access),
            Found::Error(error) => self.work.push_back(Work::Settle(access.result, Err(error))),
            Found::Hook(..) => {}
        }
    }

    fn walk(&self, value: &Value, access: &mut Access) -> Found {
        let mut value = value;
        for (at, key) in access.path.iter().enumerate().skip(access.at) {
            if let Value::Object(fields) = value
                && let Err(error) =
                    pay_for_search(&mut access.compared, fields.len(), access.budget.as_ref())
            {
                return Found::Error(error);
            }
            if let Some(hook) = self.hook_in(value) {
                return Found::Hook(hook, at);
            }
            if matches!(key, Key::Name(name) if is_inherited(name)) {
                value = &Value::Undefined;
                continue;
            }
            value = match (value, key) {
                (Value::Object(_), Key::Name(name)) => {
                    value.field(name).unwrap_or(&Value::Undefined)
                }
                (Value::Object(_), Key::Index(_)) => {
                    value.field(&shown(key)).unwrap_or(&Value::Undefined)
                }
                (Value::Array(items), Key::Index(index)) => {
                    element(items, *index).unwrap_or(&Value::Undefined)
                }
                (Value::Undefined, key) => {
                    let name = shown(key);
                    let message = format!("Cannot read properties of undefined (reading '{name}')");
                    return Found::Error(RpcError::type_error(message));
                }
                _ => &Value::Undefined,
            };
        }
        let end = access.path.len();
        match (value, &access.op) {
            (Value::Promise(_), _) | (Value::Stub(_), Op::Call(_)) => match self.hook_in(value) {
                Some(hook) => Found::Hook(hook, end),
                None => Found::Value(Value::Undefined),
            },
            _ => match self.pay_for_copy(value, access) {
                Ok(()) => Found::Value(value.clone()),
                Err(error) => Found::Error(error),
            },
        }
    }

    /// Fails if a copy of the value would be too much for the session or for the map it is made in.
    fn pay_for_copy(&self, value: &Value, access: &Access) -> Result<(), RpcError> {
        if value.is_small() {
            return Ok(());
        }
        let bytes = cost::of_value(value);
        self.account.check(bytes)?;
        access.budget.iter().try_for_each(|budget| budget.spend_bytes(bytes))?;
        if let Op::Map(mapper) = &access.op {
            mapper.budget.spend_bytes(bytes)?;
        }
        Ok(())
    }

    fn hook_in(&self, value: &Value) -> Option<Hook> {
        if let Value::Stub(stub) = value {
            return Some(self.hook_of(stub));
        }
        if let Value::Promise(promise) = value {
            return Some(self.hook_of(&promise.clone().into_stub()));
        }
        None
    }

    /// The path has ended at a value that is no capability to be called.
    fn at_value(&mut self, value: Value, access: Access) {
        match access.op {
            Op::Get => self.work.push_back(Work::Settle(access.result, Ok(value))),
            Op::Call(_) => {
                let error = not_a_function(&access.path[access.start..]);
                self.work.push_back(Work::Settle(access.result, Err(error)));
            }
            Op::Map(mapper) => {
                let outcome = self.apply(value, &mapper);
                self.work.push_back(Work::Settle(access.result, outcome));
            }
        }
    }

    fn access_target(&mut self, target: Arc<dyn Target>, mut access: Access) {
        let Some(key) = access.path.get(access.at) else {
            if target.is_function() || !matches!(access.op, Op::Call(_)) {
                self.at_function(target, Member::Itself, access);
            } else {
                let error = not_a_function(&access.path[access.start..]);
                self.work.push_back(Work::Settle(access.result, Err(error)));
            }
            return;
        };
        let name = shown(key);
        let kind = if is_inherited(&name) { None } else { target.member(&name) };
        let last = access.at + 1 == access.path.len();
        match kind {
            None => self.access_value(&Value::Undefined, access, true),
            Some(MemberKind::Method) if last => {
                self.at_function(target, Member::Method(name), access);
            }
            // A function has no properties of its own.
            Some(MemberKind::Method) => {
                access.at += 1;
                self.access_value(&Value::Undefined, access, true);
            }
            Some(MemberKind::Getter) => {
                let read = Cell::pending();
                let held = HeldCall { result: read.clone(), charge: None };
                self.call(target, Member::Getter(name), Vec::new(), held);
                access.at += 1;
                access.hook = Hook::Cell(read);
                self.work.push_front(Work::Access(Box::new(access)));
            }
        }
    }

    /// The path has ended at something of ours: an object, or a method of one.
    fn at_function(&mut self, target: Arc<dyn Target>, member: Member, access: Access) {
        match access.op {
            Op::Call(args) => {
                let result = access.result;
                self.deliver(Delivery {
                    values: args,
                    waiting: None,
                    then: Then::Call { target, member, result },
                    charge: access.charge,
                });
            }
            op @ (Op::Get | Op::Map(_)) => {
                let hook = match member {
                    Member::Method(name) => Hook::Method(target, name),
                    Member::Itself | Member::Getter(_) => Hook::Target(target),
                };
                let value = Value::Stub(Stub::of(hook, Some(&self.mailbox)));
                self.at_value(value, Access { op, ..access });
            }
        }
    }

    fn access_sink(&mut self, sink: WriteEnd, access: Access) {
        let refuse = |message: String| Err(RpcError::new("Error", message));
        let name: Arc<str> = match &access.path[access.at.min(access.path.len())..] {
            [Key::Name(name)] => Arc::clone(name),
            _ => "".into(),
        };
        let charge = access.charge;
        let result = access.result;
        let (values, then) = match (access.op, name.as_ref()) {
            (Op::Call(args), "write") => (args, Then::Write { sink, result }),
            (Op::Call(args), "close" | "abort") => {
                let good = *name == *"close";
                (args, Then::End { sink, good, result })
            }
            (Op::Call(_), _) => {
                let error = refuse(format!("Unknown WritableStream method: {name}"));
                self.work.push_back(Work::Settle(result, error));
                return;
            }
            (Op::Get | Op::Map(_), _) => {
                let message = "Cannot access properties on a WritableStream stub";
                self.work.push_back(Work::Settle(result, refuse(message.to_owned())));
                return;
            }
        };
        self.deliver(Delivery { values, waiting: None, then, charge });
    }

    /// Sends the access to the peer; the result becomes a promise of its.
    fn access_remote(&mut self, remote: &RemoteRef, access: Access) {
        if let Some(reason) = self.running.closed.clone() {
            self.settle(&access.result, Err(reason));
            return;
        }
        let path = access.path[access.at..].to_vec();
        let mut made = self.made();
        let expr = match access.op {
            Op::Get => Ok(pipeline(remote.id(), path, None)),
            Op::Call(args) => {
                let args = args.into_iter().map(|arg| self.export(arg, &mut made, 1));
                let args = args.collect::<Result<Vec<_>, _>>();
                args.map(|args| pipeline(remote.id(), path, Some(args)))
            }
            Op::Map(mapper) => Ok(self.export_map(remote.id(), path, &mapper, &mut made)),
        };
        let pushed = expr.and_then(|expr| self.push_out(expr));
        let outcome = match pushed {
            Ok(cell) => Ok(self.promise(cell)),
            Err(error) => {
                for id in made.ids {
                    self.tables.release(id, 1).ok();
                }
                Err(error)
            }
        };
        self.settle(&access.result, outcome);
    }

    fn export_map(&mut self, id: i64, path: Vec<Key>, mapper: &Mapper, made: &mut Made) -> Expr {
        let capture = |hook: &Hook| {
            if let Some(id) = peer_id(hook) {
                return whole(id);
            }
            let id = self.tables.add_export(hook.clone());
            made.ids.push(id);
            Expr::Export(id)
        };
        let captures = mapper.captures.iter().map(capture).collect();
        Expr::Remap(Box::new(RemapExpr {
            id,
            path,
            captures,
            instructions: mapper.instructions.to_vec(),
        }))
    }

    /// Lets the session do it that the stub belongs to.
    fn access_foreign(&mut self, stub: &Stub, access: Access) {
        let Some(home) = &stub.home else {
            return;
        };
        let there = Cell::pending();
        let bridge = Waiter::Bridge(Bridge {
            home: Arc::clone(&self.mailbox),
            follower: access.result.clone(),
            followed: there.clone(),
        });
        let access = Access {
            hook: stub.hook.clone(),
            path: access.path[access.at..].into(),
            start: 0,
            at: 0,
            op: access.op,
            result: there.clone(),
            charge: access.charge,
            compared: access.compared,
            budget: access.budget,
        };
        home.push(Command::Access(Box::new(access)));
        home.push(Command::Wait(there, bridge));
    }
}

/// Returns what the peer calls something of its own, even if it is only promised yet.
fn peer_id(hook: &Hook) -> Option<i64> {
    if let Hook::Remote(remote) = hook {
        return Some(remote.id());
    }
    let Hook::Cell(cell) = hook else {
        return None;
    };
    match &*cell.root().lock() {
        State::Pending(pending) => pending.remote.as_ref().map(RemoteRef::id),
        State::Done(Ok(Value::Stub(Stub { hook: Hook::Remote(remote), .. }))) => Some(remote.id()),
        State::Done(_) | State::Forward(_) => None,
    }
}

/// Fails if a path compares too many fields: rings of promises make the way as long as the path.
fn pay_for_search(
    compared: &mut usize,
    fields: usize,
    budget: Option<&Budget>,
) -> Result<(), RpcError> {
    const MOST: usize = 10_000_000;
    *compared = compared.saturating_add(fields);
    if *compared > MOST {
        return Err(limit("the path takes too many steps"));
    }
    // In a map, comparing is work like copying.
    budget.map_or(Ok(()), |budget| budget.spend_bytes(8 * fields))
}

fn pipeline(id: i64, path: Vec<Key>, args: Option<Vec<Expr>>) -> Expr {
    let path = Some(path);
    Expr::Pipeline(Box::new(RefExpr { id, path, args }))
}

fn whole(id: i64) -> Expr {
    let (path, args) = (None, None);
    Expr::Import(Box::new(RefExpr { id, path, args }))
}

fn element(items: &[Value], index: f64) -> Option<&Value> {
    let index = crate::json::integer(index)?;
    items.get(usize::try_from(index).ok()?)
}

fn shown(key: &Key) -> Arc<str> {
    match key {
        Key::Name(name) => Arc::clone(name),
        Key::Index(number) => {
            let mut text = String::new();
            crate::json::write_number(*number, &mut text);
            text.into()
        }
    }
}

fn not_a_function(path: &[Key]) -> RpcError {
    let path: Vec<_> = path.iter().map(shown).collect();
    RpcError::type_error(format!("'{}' is not a function.", path.join(".")))
}
