//! Arguments as tuples.

use super::typed_call::TypedPromise;
use super::value_conversion::{FromValue, IntoValue};
use crate::error::RpcError;
use crate::value::Value;

/// Arguments as a method declares them.
pub trait FromArgs: Sized {
    /// Reads the arguments: missing ones are `undefined`, too many are refused.
    ///
    /// # Errors
    ///
    /// A `TypeError` that names the first argument that does not fit.
    fn from_args(args: Vec<Value>) -> Result<Self, RpcError>;
}

/// Something that can be passed where a `T` is declared: a `T`, or the promise of one.
pub trait ArgumentFor<T> {
    /// Makes a value of it.
    fn into_argument(self) -> Value;
}

impl<T: IntoValue> ArgumentFor<T> for T {
    fn into_argument(self) -> Value {
        self.into_value()
    }
}

impl<T> ArgumentFor<T> for TypedPromise<T> {
    fn into_argument(self) -> Value {
        Value::Promise(self.into_promise())
    }
}

impl ArgumentFor<String> for &str {
    fn into_argument(self) -> Value {
        self.into_value()
    }
}

/// Arguments that fit what a method declares.
pub trait IntoArgs<A> {
    /// Makes values of them.
    fn into_args(self) -> Vec<Value>;
}

macro_rules! tuples {
    ($(($($type:ident $given:ident $name:ident),*);)*) => {$(
        impl<$($type: FromValue),*> FromArgs for ($($type,)*) {
            fn from_args(args: Vec<Value>) -> Result<Self, RpcError> {
                let most = 0 $(+ { let _ = stringify!($name); 1 })*;
                if args.len() > most {
                    let message = format!("expected at most {most} arguments, got {}", args.len());
                    return Err(RpcError::type_error(message));
                }
                let mut args = args.into_iter().enumerate();
                $(let $name = next_arg(&mut args)?;)*
                Ok(($($name,)*))
            }
        }

        impl<$($type,)* $($given: ArgumentFor<$type>),*> IntoArgs<($($type,)*)> for ($($given,)*) {
            fn into_args(self) -> Vec<Value> {
                let ($($name,)*) = self;
                vec![$($name.into_argument()),*]
            }
        }
    )*};
}

fn next_arg<T: FromValue>(args: &mut impl Iterator<Item = (usize, Value)>) -> Result<T, RpcError> {
    let (place, value) = args.next().unwrap_or((usize::MAX, Value::Undefined));
    T::from_value(value).map_err(|mismatch| {
        let which = if place == usize::MAX {
            "a missing argument".to_owned()
        } else {
            format!("argument {}", place + 1)
        };
        RpcError::type_error(format!("{which}: {mismatch}"))
    })
}

impl FromArgs for () {
    fn from_args(args: Vec<Value>) -> Result<Self, RpcError> {
        if args.is_empty() {
            return Ok(());
        }
        let message = format!("expected no arguments, got {}", args.len());
        Err(RpcError::type_error(message))
    }
}

impl IntoArgs<()> for () {
    fn into_args(self) -> Vec<Value> {
        Vec::new()
    }
}

/// Any number of arguments of any type.
impl FromArgs for Vec<Value> {
    fn from_args(args: Vec<Value>) -> Result<Self, RpcError> {
        Ok(args)
    }
}

impl IntoArgs<Vec<Value>> for Vec<Value> {
    fn into_args(self) -> Vec<Value> {
        self
    }
}

tuples! {
    (A AA a);
    (A AA a, B BB b);
    (A AA a, B BB b, C CC c);
    (A AA a, B BB b, C CC c, D DD d);
    (A AA a, B BB b, C CC c, D DD d, E EE e);
    (A AA a, B BB b, C CC c, D DD d, E EE e, F FF f);
}
