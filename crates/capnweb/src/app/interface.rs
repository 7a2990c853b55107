//! Objects that peers may call, put together from typed methods.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;

use super::args::FromArgs;
use super::typed_call::{Method, Property};
use super::value_conversion::IntoValue;
use crate::error::CallFailure;
use crate::session::{CallReply, Member, MemberKind, RpcTarget, Stub};
use crate::value::Value;

type MethodHandler<S> = Box<dyn Fn(Arc<S>, Vec<Value>) -> CallReply + Send + Sync>;
type DisposeHandler<S> = Box<dyn Fn(&S) + Send + Sync>;

/// What objects of one kind can do. Made once, bound to as many states as there are objects.
pub struct Interface<S> {
    members: BTreeMap<&'static str, (MemberKind, MethodHandler<S>)>,
    dispose: Option<DisposeHandler<S>>,
}

impl<S> Default for Interface<S> {
    fn default() -> Self {
        Self { members: BTreeMap::new(), dispose: None }
    }
}

impl<S: Send + Sync + 'static> Interface<S> {
    /// Makes an interface without members.
    pub fn new() -> Self {
        Self::default()
    }

    /// Implements a method that is done when it returns.
    #[must_use]
    pub fn method<A: FromArgs, R: IntoValue>(
        mut self,
        method: Method<A, R>,
        body: impl Fn(&Arc<S>, A) -> Result<R, CallFailure> + Send + Sync + 'static,
    ) -> Self {
        let handler: MethodHandler<S> = Box::new(move |state, args| {
            let result = A::from_args(args).map_err(CallFailure::Domain);
            CallReply::Ready(result.and_then(|args| body(&state, args)).map(R::into_value))
        });
        self.members.insert(method.name, (MemberKind::Method, handler));
        self
    }

    /// Implements a method that takes its time.
    #[must_use]
    pub fn async_method<A: FromArgs, R: IntoValue, F>(
        mut self,
        method: Method<A, R>,
        body: impl Fn(Arc<S>, A) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<R, CallFailure>> + Send + 'static,
    {
        let handler: MethodHandler<S> = Box::new(move |state, args| match A::from_args(args) {
            Ok(args) => {
                let future = body(state, args);
                CallReply::Pending(Box::pin(async move { future.await.map(R::into_value) }))
            }
            Err(error) => CallReply::Ready(Err(CallFailure::Domain(error))),
        });
        self.members.insert(method.name, (MemberKind::Method, handler));
        self
    }

    /// Implements a property that peers may read.
    #[must_use]
    pub fn property<T: IntoValue>(
        mut self,
        property: Property<T>,
        body: impl Fn(&S) -> Result<T, CallFailure> + Send + Sync + 'static,
    ) -> Self {
        let handler: MethodHandler<S> =
            Box::new(move |state, _| CallReply::Ready(body(&state).map(T::into_value)));
        self.members.insert(property.name, (MemberKind::Getter, handler));
        self
    }

    /// Runs when the last peer has given an object back.
    #[must_use]
    pub fn on_dispose(mut self, body: impl Fn(&S) + Send + Sync + 'static) -> Self {
        self.dispose = Some(Box::new(body));
        self
    }

    /// Makes an object of a state.
    pub fn bind(self: &Arc<Self>, state: S) -> BoundObject<S> {
        let interface = Arc::clone(self);
        let state = Arc::new(state);
        BoundObject { interface, state }
    }
}

/// One object: an interface bound to a state.
pub struct BoundObject<S> {
    interface: Arc<Interface<S>>,
    state: Arc<S>,
}

impl<S: Send + Sync + 'static> RpcTarget for BoundObject<S> {
    fn member(&self, name: &str) -> Option<MemberKind> {
        self.interface.members.get(name).map(|(kind, _)| *kind)
    }

    fn invoke(self: Arc<Self>, member: Member, args: Vec<Value>) -> CallReply {
        let name = match &member {
            Member::Method(name) | Member::Getter(name) => name,
            Member::Itself => "",
        };
        match self.interface.members.get(name) {
            Some((_, handler)) => handler(Arc::clone(&self.state), args),
            None => CallReply::Ready(Err(CallFailure::internal("a member vanished"))),
        }
    }
}

impl<S> Drop for BoundObject<S> {
    fn drop(&mut self) {
        if let Some(dispose) = &self.interface.dispose {
            dispose(&self.state);
        }
    }
}

/// Makes a function that a peer may call, such as a callback.
pub fn function<A, R, F>(body: impl Fn(A) -> F + Send + Sync + 'static) -> Stub
where
    A: FromArgs + 'static,
    R: IntoValue + 'static,
    F: Future<Output = Result<R, CallFailure>> + Send + 'static,
{
    let call = move |args| match A::from_args(args) {
        Ok(args) => {
            let future = body(args);
            CallReply::Pending(Box::pin(async move { future.await.map(R::into_value) }))
        }
        Err(error) => CallReply::Ready(Err(CallFailure::Domain(error))),
    };
    Stub::new(FunctionTarget(call))
}

struct FunctionTarget<C>(C);

impl<C: Fn(Vec<Value>) -> CallReply + Send + Sync + 'static> RpcTarget for FunctionTarget<C> {
    fn member(&self, _name: &str) -> Option<MemberKind> {
        None
    }

    fn is_function(&self) -> bool {
        true
    }

    fn invoke(self: Arc<Self>, _member: Member, args: Vec<Value>) -> CallReply {
        (self.0)(args)
    }
}
