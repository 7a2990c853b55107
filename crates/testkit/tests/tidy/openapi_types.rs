//! The schemas of native routes say what serde makes of the types of their handlers.
//!
//! `native.json` is written by hand, for its descriptions. Here each request and each answer is compared,
//! field by field, with the type that the handler of the route takes or returns.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use syn::{Expr, FnArg, Item, ReturnType, Type};

use crate::finding::{TidyFinding, TidyRule, assert_no_findings};
use crate::repository_files::{self, SourceFile};
use crate::serde_types::{
    JsonAlternative, JsonField, JsonShape, SerdeTypes, name_and_arguments, parse_items, text_of,
};

const SCHEMA: TidyRule = TidyRule {
    name: "openapi-schema",
    remedy: "change the schema in native.json, or the type, so that they describe the same JSON",
};

const DOCUMENT: &str = "crates/server/src/doc/native.json";
const ROUTES: &str = "crates/server/src/route/native/";
const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];
/// What a handler wraps its answer into.
const ANSWERS: [&str; 2] = ["Json", "SeqStamped"];

/// Whether a type is read from a request or written into an answer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Direction {
    Request,
    Answer,
}

/// What a handler takes as its body and returns.
#[derive(Default)]
struct HandlerTypes {
    request: Option<Type>,
    answer: Option<Type>,
}

/// Compares schemas with types and collects the differences.
struct Comparison<'a> {
    types: &'a SerdeTypes,
    schemas: &'a Value,
    /// Schemas by name that were compared with a type.
    done: BTreeSet<(String, String, Direction)>,
    findings: Vec<TidyFinding>,
}

impl Comparison<'_> {
    fn report(&mut self, place: &str, what: &str) {
        self.findings.push(SCHEMA.report(DOCUMENT, 1, format!("{place}: {what}")));
    }

    /// Follows references into this document; `None` if OpenCode's document defines the schema.
    fn resolve<'v>(&'v self, schema: &'v Value) -> Option<&'v Value> {
        match reference_name(schema) {
            Some(name) => self.schemas.get(name).and_then(|found| self.resolve(found)),
            None => Some(schema),
        }
    }

    fn compare(&mut self, place: &str, schema: &Value, ty: &Type, direction: Direction) {
        let mut place = place;
        let name = reference_name(schema);
        if let (Some(name), Some((ty, _))) = (name, name_and_arguments(ty)) {
            if !self.done.insert((name.to_owned(), ty, direction)) {
                return;
            }
            place = name;
        }
        let Some(schema) = self.resolve(schema).cloned() else { return };
        let (schema, is_nullable) = without_null(&schema);
        // A schema without any of these says that every value is allowed.
        let says_nothing = ["type", "properties", "enum", "const", "oneOf", "anyOf", "$ref"]
            .map(|key| &schema[key]);
        if says_nothing.into_iter().all(Value::is_null) {
            return;
        }
        if !schema["$ref"].is_null() {
            return self.compare(place, &schema, option_content(ty), direction);
        }
        let Some((name, arguments)) = name_and_arguments(ty) else {
            return self.expect_type(place, &schema, &["array"]);
        };
        match (name.as_str(), &arguments[..]) {
            ("Option", [inner]) => {
                if direction == Direction::Answer && !is_nullable && !place.ends_with('?') {
                    self.report(place, "may be null");
                }
                self.compare(place, &schema, inner, direction);
            }
            ("Box" | "Arc" | "Cow", [inner]) => self.compare(place, &schema, inner, direction),
            ("Vec" | "BTreeSet" | "HashSet", [inner]) => {
                self.expect_type(place, &schema, &["array"]);
                self.compare(&format!("{place}[]"), &schema["items"], inner, direction);
            }
            // A path that is not UTF-8 is written in another way, which some schemas tell.
            ("RelPath", _) if schema["anyOf"].is_array() => {}
            ("String" | "str" | "PathBuf" | "RelPath", _) => {
                self.expect_type(place, &schema, &["string"]);
            }
            ("bool", _) => self.expect_type(place, &schema, &["boolean"]),
            ("f64" | "Number", _) => self.expect_type(place, &schema, &["number", "integer"]),
            ("i64" | "u64" | "u32" | "u16" | "usize" | "EpochMillis", _) => {
                self.expect_type(place, &schema, &["integer"]);
            }
            ("BTreeMap" | "HashMap" | "Map", _) => self.expect_type(place, &schema, &["object"]),
            _ => self.compare_named(place, &schema, &name, direction),
        }
    }

    fn expect_type(&mut self, place: &str, schema: &Value, wanted: &[&str]) {
        let found = schema["type"].as_str().or(schema["enum"].as_array().map(|_| "string"));
        if !found.is_some_and(|found| wanted.contains(&found)) {
            self.report(place, &format!("is {}, the schema says {}", wanted[0], schema["type"]));
        }
    }

    fn compare_named(&mut self, place: &str, schema: &Value, name: &str, direction: Direction) {
        let types = self.types;
        match types.find(name) {
            // An id, or a type that writes itself.
            None => {}
            Some(JsonShape::Same(inner)) => self.compare(place, schema, inner, direction),
            Some(JsonShape::Object { fields, is_closed }) => {
                self.compare_fields(place, schema, fields, &[], direction);
                let says_closed = schema["additionalProperties"] == Value::Bool(false);
                if direction == Direction::Request && *is_closed != says_closed {
                    self.report(place, "`additionalProperties` and `deny_unknown_fields` differ");
                }
            }
            Some(JsonShape::Words(words)) => self.compare_words(place, schema, words),
            Some(JsonShape::Tagged { tag, variants }) => {
                self.compare_tagged(place, schema, tag, variants, direction);
            }
            Some(JsonShape::Alternatives(alternatives)) => {
                self.compare_alternatives(place, schema, alternatives, direction);
            }
        }
    }

    fn compare_words(&mut self, place: &str, schema: &Value, words: &[String]) {
        let listed = schema["enum"].as_array().map_or(&[][..], Vec::as_slice);
        let listed: BTreeSet<&str> = listed.iter().filter_map(Value::as_str).collect();
        let words: BTreeSet<&str> = words.iter().map(String::as_str).collect();
        // A schema that lists no words leaves it at "a string".
        if !listed.is_empty() && listed != words {
            self.report(place, &format!("is one of {words:?}, the schema says {listed:?}"));
        }
    }

    /// Compares the fields of an object; those of `also` are known to be there.
    fn compare_fields(
        &mut self,
        place: &str,
        schema: &Value,
        fields: &[JsonField],
        also: &[&str],
        direction: Direction,
    ) {
        self.expect_type(place, schema, &["object"]);
        let Some(properties) = schema["properties"].as_object() else { return };
        let Some(fields) = self.flatten(fields) else { return };
        let names: BTreeSet<&str> =
            fields.iter().map(|field| field.name.as_str()).chain(also.iter().copied()).collect();
        for name in properties.keys().filter(|name| !names.contains(name.as_str())) {
            self.report(place, &format!("has no field `{name}`"));
        }
        let required: BTreeSet<&str> =
            schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        for field in &fields {
            let may_be_absent = match direction {
                Direction::Request => field.has_default,
                Direction::Answer => field.may_be_skipped,
            };
            let inner = format!("{place}.{}{}", field.name, if may_be_absent { "?" } else { "" });
            let Some(property) = properties.get(&field.name) else {
                // Where a schema says that there are further fields, they need not be in it.
                if schema["additionalProperties"] != Value::Bool(true) {
                    self.report(&inner, "is not in the schema");
                }
                continue;
            };
            // One of several is required where the schema says so by `oneOf`.
            let is_choice = schema["oneOf"].is_array();
            let is_required = required.contains(field.name.as_str());
            if !is_required && !may_be_absent && !is_choice {
                self.report(&inner, "is required");
            }
            // A request may be described more strictly than it is read.
            if is_required && may_be_absent && direction == Direction::Answer {
                self.report(&inner, "is not always there");
            }
            self.compare(&inner, property, &field.ty, direction);
        }
    }

    /// Replaces flattened fields by their own; `None` if they can have any name.
    fn flatten(&self, fields: &[JsonField]) -> Option<Vec<JsonField>> {
        let mut all = Vec::new();
        for field in fields {
            if !field.is_flattened {
                all.push(field.clone());
                continue;
            }
            let (mut name, arguments) = name_and_arguments(&field.ty)?;
            let is_optional = name == "Option";
            if is_optional {
                name = name_and_arguments(arguments.first()?)?.0;
            }
            let inner = match self.types.find(&name)? {
                JsonShape::Object { fields, .. } => self.flatten(fields)?,
                JsonShape::Alternatives(alternatives) => self.flatten_alternatives(alternatives)?,
                JsonShape::Same(_) | JsonShape::Words(_) | JsonShape::Tagged { .. } => return None,
            };
            all.extend(inner.into_iter().map(|inner| JsonField {
                may_be_skipped: inner.may_be_skipped || is_optional,
                has_default: inner.has_default || is_optional,
                ..inner
            }));
        }
        Some(all)
    }

    /// The fields of all alternatives: none of them is always there.
    fn flatten_alternatives(&self, alternatives: &[JsonAlternative]) -> Option<Vec<JsonField>> {
        let mut all = Vec::new();
        for alternative in alternatives {
            let JsonAlternative::Fields(fields) = alternative else { return None };
            all.extend(self.flatten(fields)?);
        }
        let optional = all.into_iter().map(|field| JsonField {
            may_be_skipped: true,
            has_default: true,
            ..field
        });
        Some(optional.collect())
    }

    fn compare_tagged(
        &mut self,
        place: &str,
        schema: &Value,
        tag: &str,
        variants: &[(String, Vec<JsonField>)],
        direction: Direction,
    ) {
        let options = alternatives_of(schema);
        if options.is_empty() {
            return self.compare_merged(place, schema, tag, variants, direction);
        }
        let word_of =
            |option: &Value| option["properties"][tag]["const"].as_str().map(str::to_owned);
        let options: BTreeMap<String, Value> = options
            .iter()
            .filter_map(|option| self.resolve(option))
            .filter_map(|option| Some((word_of(option)?, option.clone())))
            .collect();
        for (word, fields) in variants {
            match options.get(word) {
                Some(option) => {
                    let place = format!("{place}({word})");
                    self.compare_fields(&place, option, fields, &[tag], direction);
                }
                None => self.report(place, &format!("`{tag}` can be `{word}`")),
            }
        }
        for word in options.keys().filter(|word| variants.iter().all(|(name, _)| name != *word)) {
            self.report(place, &format!("`{tag}` is never `{word}`"));
        }
    }

    /// Compares a tagged enum with one object that has the fields of all variants.
    fn compare_merged(
        &mut self,
        place: &str,
        schema: &Value,
        tag: &str,
        variants: &[(String, Vec<JsonField>)],
        direction: Direction,
    ) {
        let words: Vec<String> = variants.iter().map(|(word, _)| word.clone()).collect();
        self.compare_words(&format!("{place}.{tag}"), &schema["properties"][tag], &words);
        let fields = variants.iter().flat_map(|(_, fields)| fields.clone());
        let fields: Vec<JsonField> = fields
            .map(|field| JsonField { may_be_skipped: true, has_default: true, ..field })
            .collect();
        self.compare_fields(place, schema, &fields, &[tag], direction);
    }

    fn compare_alternatives(
        &mut self,
        place: &str,
        schema: &Value,
        alternatives: &[JsonAlternative],
        direction: Direction,
    ) {
        let options = alternatives_of(schema);
        let mut words = Vec::new();
        for alternative in alternatives {
            if let JsonAlternative::Word(word) = alternative {
                words.push(word.clone());
            }
        }
        let mut objects = Vec::new();
        for option in options {
            match option["enum"].is_array() {
                true => self.compare_words(place, option, &words),
                false => objects.push(option.clone()),
            }
        }
        let shapes: Vec<_> =
            alternatives.iter().filter(|one| !matches!(one, JsonAlternative::Word(_))).collect();
        if shapes.len() != objects.len() {
            let what = format!("has {} forms, the schema {}", shapes.len(), objects.len());
            return self.report(place, &what);
        }
        for (index, (shape, option)) in shapes.into_iter().zip(&objects).enumerate() {
            let place = format!("{place}({index})");
            match shape {
                JsonAlternative::Value(ty) => self.compare(&place, option, ty, direction),
                JsonAlternative::Fields(fields) => {
                    self.compare_fields(&place, option, fields, &[], direction);
                }
                JsonAlternative::Wrapped(name, fields) => {
                    let inner = option["properties"][name].clone();
                    self.compare_fields(&format!("{place}.{name}"), &inner, fields, &[], direction);
                }
                JsonAlternative::Word(_) => {}
            }
        }
    }
}

/// The name in a reference.
fn reference_name(schema: &Value) -> Option<&str> {
    schema["$ref"].as_str()?.rsplit('/').next()
}

/// The type in an `Option`, or the type itself.
fn option_content(ty: &Type) -> &Type {
    match name_and_arguments(ty) {
        Some((name, arguments)) if name == "Option" => arguments.first().copied().unwrap_or(ty),
        Some(_) | None => ty,
    }
}

fn alternatives_of(schema: &Value) -> &[Value] {
    let found = schema["oneOf"].as_array().or(schema["anyOf"].as_array());
    found.map_or(&[], Vec::as_slice)
}

/// A schema without `null`, and whether it had it.
fn without_null(schema: &Value) -> (Value, bool) {
    let mut schema = schema.clone();
    if let Some(types) = schema["type"].as_array().cloned() {
        let rest: Vec<Value> = types.iter().filter(|one| *one != "null").cloned().collect();
        if let [only] = &rest[..] {
            schema["type"] = only.clone();
        }
        return (schema, rest.len() < types.len());
    }
    for key in ["oneOf", "anyOf"] {
        let Some(all) = schema[key].as_array().cloned() else { continue };
        let rest: Vec<Value> = all.iter().filter(|one| one["type"] != "null").cloned().collect();
        if rest.len() == all.len() {
            continue;
        }
        return match &rest[..] {
            [only] => (only.clone(), true),
            _ => {
                schema[key] = Value::Array(rest);
                (schema, true)
            }
        };
    }
    (schema, false)
}

/// A path with its names taken out: the document and the program may name them differently.
fn path_shape(path: &str) -> String {
    let shape = |part: &str| if part.starts_with('{') { "{}".to_owned() } else { part.to_owned() };
    path.split('/').map(shape).collect::<Vec<_>>().join("/")
}

/// The types of the handlers of one file, by method and path.
fn read_handlers(source: &SourceFile) -> BTreeMap<(String, String), HandlerTypes> {
    let items = parse_items(source);
    let mut handlers = BTreeMap::new();
    let mut routes = Vec::new();
    for item in &items {
        let Item::Fn(function) = item else { continue };
        if function.sig.ident == "routes" {
            let tail = function.block.stmts.last();
            if let Some(syn::Stmt::Expr(expression, None)) = tail {
                collect_routes(expression, &mut routes);
            }
        }
        handlers.insert(function.sig.ident.to_string(), &function.sig);
    }
    let typed = routes.into_iter().map(|(method, path, handler)| {
        let sig = handlers.get(&handler).unwrap_or_else(|| panic!("{}: {handler}", source.path));
        let request = sig.inputs.iter().find_map(|input| match input {
            FnArg::Typed(input) => argument_of(&input.ty, &["TypedBody"]),
            FnArg::Receiver(_) => None,
        });
        let answer = match &sig.output {
            ReturnType::Type(_, ty) => {
                argument_of(&argument_of(ty, &["Result"]).unwrap_or((**ty).clone()), &ANSWERS)
            }
            ReturnType::Default => None,
        };
        ((method, path_shape(&path)), HandlerTypes { request, answer })
    });
    typed.collect()
}

/// The first argument of a type of one of these names.
fn argument_of(ty: &Type, names: &[&str]) -> Option<Type> {
    let (name, arguments) = name_and_arguments(ty)?;
    if !names.contains(&name.as_str()) {
        return None;
    }
    arguments.first().map(|one| (*one).clone())
}

/// Finds `.route("/path", get(one).post(two))` in a chain of calls.
fn collect_routes(expression: &Expr, routes: &mut Vec<(String, String, String)>) {
    let Expr::MethodCall(call) = expression else { return };
    collect_routes(&call.receiver, routes);
    if call.method != "route" {
        return;
    }
    let mut arguments = call.args.iter();
    let (Some(path), Some(methods)) = (arguments.next().and_then(text_of), arguments.next()) else {
        panic!("a route without a path");
    };
    collect_methods(methods, &path, routes);
}

fn collect_methods(expression: &Expr, path: &str, routes: &mut Vec<(String, String, String)>) {
    let mut found = (None, None);
    if let Expr::Call(call) = expression
        && let Expr::Path(name) = &*call.func
    {
        let name = name.path.segments.last().map(|last| last.ident.to_string());
        found = (name, call.args.first());
    }
    if let Expr::MethodCall(call) = expression {
        collect_methods(&call.receiver, path, routes);
        found = (Some(call.method.to_string()), call.args.first());
    }
    let (method, argument) = found;
    let method = method.filter(|method| METHODS.contains(&method.as_str()));
    if let (Some(method), Some(Expr::Path(handler))) = (method, argument) {
        let handler = handler.path.segments.last().expect("a name").ident.to_string();
        routes.push((method, path.to_owned(), handler));
    }
}

/// Compares a document with the handlers in `sources`.
fn check(document: &Value, sources: &[SourceFile]) -> (usize, Vec<TidyFinding>) {
    let types = SerdeTypes::read(sources);
    let schemas = &document["components"]["schemas"];
    let mut comparison =
        Comparison { types: &types, schemas, done: BTreeSet::new(), findings: Vec::new() };
    let routes = sources.iter().filter(|source| source.path.starts_with(ROUTES));
    let handlers: BTreeMap<_, _> = routes.flat_map(read_handlers).collect();
    let mut compared = 0;
    for (path, item) in document["paths"].as_object().into_iter().flatten() {
        for (method, operation) in item.as_object().into_iter().flatten() {
            let place = operation["operationId"].as_str().unwrap_or(path);
            let key = (method.clone(), path_shape(path));
            let Some(handler) = handlers.get(&key) else { continue };
            let schema_of =
                |content: &Value| content["content"]["application/json"]["schema"].clone();
            let request = schema_of(&operation["requestBody"]);
            if request.is_null() == handler.request.is_some() {
                comparison.report(place, "only one of schema and handler has a body");
            }
            if let Some(ty) = &handler.request {
                compared += 1;
                let place = format!("request of {place}");
                comparison.compare(&place, &request, ty, Direction::Request);
            }
            if let Some(ty) = &handler.answer {
                compared += 1;
                let answer = schema_of(&operation["responses"]["200"]);
                comparison.compare(&format!("answer of {place}"), &answer, ty, Direction::Answer);
            }
        }
    }
    (compared, comparison.findings)
}

#[test]
fn schemas_of_native_routes_match_the_types_of_their_handlers() {
    let text = repository_files::find_text(DOCUMENT).expect("the document is there");
    let document: Value = serde_json::from_str(&text).expect("JSON");
    let (compared, findings) = check(&document, &repository_files::read_sources());

    assert!(compared > 60, "{compared} types were compared");
    assert_no_findings(&findings);
}

const SAMPLE: &str = r#"
fn routes() -> Router { Router::new().route("/x/{id}", get(read).post(write)) }
async fn read() -> Result<SeqStamped<ReadAnswer>, ApiError> { todo() }
async fn write(TypedBody(body): TypedBody<WriteRequest>) -> Json<Vec<Form>> { todo() }
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ReadAnswer { is_good: bool, #[serde(rename = "ID")] id: Id, why: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")] hint: Option<String>, #[serde(flatten)] more: More }
#[derive(Serialize)]
struct More { count: u64 }
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WriteRequest { name: String, #[serde(default)] mode: Mode, limit: Option<i64> }
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Mode { Fast, Safe }
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Form { FileRead { path: PathBuf }, Nothing }
"#;

/// A document that describes [`SAMPLE`].
fn sample_document() -> Value {
    let body = |schema: Value| json!({ "content": { "application/json": { "schema": schema } } });
    let answer = json!({ "type": "object", "required": ["isGood", "ID", "why", "count"], "properties": {
        "isGood": { "type": "boolean" }, "ID": { "type": "string" }, "why": { "type": ["string", "null"] },
        "hint": { "type": "string" }, "count": { "type": "integer" } } });
    let request = json!({ "type": "object", "additionalProperties": false, "required": ["name"],
        "properties": { "name": { "type": "string" }, "limit": { "type": "integer" },
        "mode": { "type": "string", "enum": ["fast", "safe"] } } });
    let forms = json!({ "type": "array", "items": { "oneOf": [
        { "type": "object", "required": ["type", "path"], "properties": {
            "type": { "const": "file_read" }, "path": { "type": "string" } } },
        { "type": "object", "required": ["type"], "properties": { "type": { "const": "nothing" } } } ] } });
    json!({ "components": { "schemas": { "Answer": answer } }, "paths": { "/x/{xID}": {
        "get": { "operationId": "read",
            "responses": { "200": body(json!({ "$ref": "#/components/schemas/Answer" })) } },
        "post": { "operationId": "write", "requestBody": body(request),
            "responses": { "200": body(forms) } } } } })
}

fn check_sample(document: &Value) -> Vec<String> {
    let source = SourceFile::new("crates/server/src/route/native/x.rs", SAMPLE);
    let (compared, findings) = check(document, &[source]);
    assert_eq!(compared, 3);
    findings.into_iter().map(|finding| finding.what).collect()
}

#[test]
fn schema_that_differs_from_its_type_is_reported() {
    assert_eq!(check_sample(&sample_document()), [""; 0]);
    let request = "/paths/~1x~1{xID}/post/requestBody/content/application~1json/schema";
    let forms = "/paths/~1x~1{xID}/post/responses/200/content/application~1json/schema/items/oneOf";
    let answer = "/components/schemas/Answer";
    let cases = [
        (format!("{answer}/properties/isGood/type"), json!("string"), "Answer.isGood: is boolean"),
        (format!("{answer}/properties/why/type"), json!("string"), "Answer.why: may be null"),
        (format!("{answer}/properties/extra"), json!({}), "Answer: has no field `extra`"),
        (format!("{answer}/required/3"), json!("hint"), "Answer.count: is required"),
        (format!("{answer}/required/3"), json!("hint"), "Answer.hint?: is not always there"),
        (format!("{request}/required"), json!([]), "request of write.name: is required"),
        (format!("{request}/additionalProperties"), json!(true), "`deny_unknown_fields` differ"),
        (
            format!("{request}/properties/mode/enum"),
            json!(["fast"]),
            "is one of {\"fast\", \"safe\"}",
        ),
        (format!("{forms}/0/properties/type/const"), json!("file"), "`type` can be `file_read`"),
        (format!("{forms}/0/properties/type/const"), json!("file"), "`type` is never `file`"),
        (format!("{forms}/0/properties/path/type"), json!("array"), "path: is string"),
    ];
    for (pointer, value, wanted) in cases {
        let mut document = sample_document();
        let (parent, key) = pointer.rsplit_once('/').expect("a path");
        let parent = document.pointer_mut(parent).expect("it is there");
        match parent.as_array_mut() {
            Some(list) => list[key.parse::<usize>().expect("a number")] = value,
            None => parent[key] = value,
        }
        let found = check_sample(&document);
        assert!(found.iter().any(|what| what.contains(wanted)), "{wanted}: {found:?}");
    }
}
