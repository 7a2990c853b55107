//! Functions that our client records and the peer applies.

use std::sync::Arc;

use capnweb::app::{Interface, Method, Property, function};
use capnweb::session::{Promise, SessionOptions, Stub, stream};
use capnweb::value::Value;

use crate::fixture::SessionPair;
use crate::service::{ECHO, IDS, MAKE_COUNTER, USER};

const ADD: Method<(f64,), f64> = Method::new("increment");
const NAME_OF: Method<(f64,), String> = Method::new("name");

fn object(fields: [(&str, Promise); 2]) -> Value {
    Value::object(fields.map(|(key, promise)| (key, Value::Promise(promise))))
}

#[test]
fn recorded_function_is_encoded_like_npm() {
    let (mut pair, main) = SessionPair::new(SessionOptions::default());
    let mapped = main.call(IDS, ()).into_promise().map(|id| {
        let name = main.call_path(&["name"], vec![Value::Promise(id.clone())]);
        object([("i", id), ("n", name)])
    });

    let value = pair.wait(mapped).expect("mapped");

    // The line that npm 0.12 sends for ids().map((id) => ({ i: id, n: main.name(id) })).
    let line = r#"["push",["remap",1,[],[["import",0]],[["pipeline",-1,["name"],[["pipeline",0]]],{"i":["pipeline",0],"n":["pipeline",1]}]]]"#;
    assert!(pair.log.iter().any(|text| text == line), "{:#?}", pair.log);
    let Value::Array(items) = value else { panic!("an array: {value:?}") };
    assert_eq!(items[2].field("n").and_then(Value::as_str), Some("n3"));
}

#[test]
fn nested_functions_capture_outer_variables() {
    let (mut pair, main) = SessionPair::new(SessionOptions::default());
    let user = main.call(USER, ());
    let ids = Property::<Vec<f64>>::new("ids");
    let nested = main.call(IDS, ()).map::<Vec<f64>, _>(|outer| {
        let counter = main.call(MAKE_COUNTER, (outer,));
        // The counter is of the function around, the user of neither.
        user.get(ids).map::<f64, _>(|by| counter.call(ADD, (by,)))
    });
    let sums = pair.wait(nested).expect("mapped");
    assert_eq!(sums, [[2.0, 4.0, 7.0], [3.0, 5.0, 8.0], [4.0, 6.0, 9.0]]);
}

#[test]
fn function_may_capture_local_objects() {
    let (mut pair, main) = SessionPair::new(SessionOptions::default());
    let ours = function(|(number,): (f64,)| async move { Ok(number * 10.0) });
    let mapped = main.call(IDS, ()).map::<f64, _>(|id| ours.invoke::<(f64,), f64>((id,)));
    assert_eq!(pair.wait(mapped).expect("mapped"), [10.0, 20.0, 30.0]);
}

#[test]
fn settled_value_is_mapped_locally() {
    let (mut pair, main) = SessionPair::new(SessionOptions::default());
    let ids = main.call(IDS, ());
    pair.wait(ids.clone()).expect("arrived");
    pair.log.clear();
    let names = pair.wait(ids.map::<String, _>(|id| main.call(NAME_OF, (id,)))).expect("mapped");
    assert_eq!(names, ["n1", "n2", "n3"]);
    assert!(!pair.log.iter().any(|text| text.contains("remap")), "{:#?}", pair.log);
}

#[test]
fn map_keeps_null_and_maps_single_values() {
    let (mut pair, main) = SessionPair::new(SessionOptions::default());
    let wrap = |element: Promise| Value::Array(vec![Value::Promise(element)]);
    let null = pair.wait(main.call(ECHO, (Value::Null,)).into_promise().map(wrap));
    assert!(matches!(null, Ok(Value::Null)), "{null:?}");
    let one = pair.wait(main.call(ECHO, (Value::Number(5.0),)).into_promise().map(wrap));
    assert!(matches!(one, Ok(Value::Array(items)) if items.len() == 1));
}

#[test]
fn unsendable_value_in_a_function_fails_only_the_map() {
    let (mut pair, main) = SessionPair::new(SessionOptions::default());
    let (_writable, readable) = stream();
    let mapped = main.call(IDS, ()).into_promise().map(|_| Value::Readable(readable));
    let error = pair.wait(mapped).expect_err("refused");
    assert!(error.message.contains("inside a map"), "{error}");
    assert_eq!(pair.wait(main.call(IDS, ())).expect("the session lives").len(), 3);
}

#[test]
fn dispose_inside_a_recorded_function_may_call_others() {
    let (mut pair, main) = SessionPair::new(SessionOptions::default());
    let (_writable, readable) = stream();
    let caller = main.clone();
    let interface = Interface::<()>::new().on_dispose(move |()| drop(caller.call(IDS, ())));
    let interface = Arc::new(interface);
    let mapped = main.call(IDS, ()).into_promise().map(|_| {
        let object = Value::Stub(Stub::new(interface.bind(())));
        let refused = vec![Value::Readable(readable), object];
        Value::Promise(main.call_path(&["echo"], refused))
    });
    assert!(pair.wait(mapped).is_err());
}

#[test]
fn placeholder_outside_its_function_is_an_error() {
    let (mut pair, main) = SessionPair::new(SessionOptions::default());
    let mut kept = None;
    let mapped = main.call(IDS, ()).into_promise().map(|id| {
        kept = Some(id.clone());
        Value::Promise(id)
    });
    let error = pair.wait(kept.expect("the function ran")).expect_err("a placeholder");
    assert_eq!(error.code(), Some("map"));
    assert!(pair.wait(mapped).is_ok());
}

#[test]
fn panicking_function_leaves_no_recorder() {
    let (mut pair, main) = SessionPair::new(SessionOptions::default());
    let ids = main.call(IDS, ()).into_promise();
    let body = std::panic::AssertUnwindSafe(|| ids.map(|_| panic!("a bug of the application")));
    assert!(std::panic::catch_unwind(body).is_err());
    assert_eq!(pair.wait(main.call(IDS, ())).expect("called, not recorded").len(), 3);
}
