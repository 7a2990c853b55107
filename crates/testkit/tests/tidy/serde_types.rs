//! The JSON shapes that serde gives to the types of the program, read from their source.
//!
//! Type names are unique, so a name is enough to find a type of any crate.

use std::collections::BTreeMap;

use syn::punctuated::Punctuated;
use syn::{
    Attribute, Expr, ExprLit, Field, Fields, GenericArgument, Item, Lit, Meta, PathArguments,
};
use syn::{Token, Type};

use crate::repository_files::SourceFile;

/// A field of a JSON object.
#[derive(Clone)]
pub(crate) struct JsonField {
    pub(crate) name: String,
    pub(crate) ty: Type,
    /// It may be left out of what is read.
    pub(crate) has_default: bool,
    /// It may be left out of what is written.
    pub(crate) may_be_skipped: bool,
    /// Its own fields take its place.
    pub(crate) is_flattened: bool,
}

/// What serde makes of a type.
pub(crate) enum JsonShape {
    Object {
        fields: Vec<JsonField>,
        /// A field that is not known is an error.
        is_closed: bool,
    },
    /// One of these words.
    Words(Vec<String>),
    /// An object whose field `tag` says which fields follow.
    Tagged { tag: String, variants: Vec<(String, Vec<JsonField>)> },
    /// One of several shapes.
    Alternatives(Vec<JsonAlternative>),
    /// The same as another type.
    Same(Box<Type>),
}

/// One shape of several.
pub(crate) enum JsonAlternative {
    Word(String),
    Value(Box<Type>),
    Fields(Vec<JsonField>),
    /// An object with one field of this name.
    Wrapped(String, Vec<JsonField>),
}

/// The types that derive `Serialize` or `Deserialize`, by name.
pub(crate) struct SerdeTypes(BTreeMap<String, JsonShape>);

impl SerdeTypes {
    /// Reads the types of all shipped sources.
    pub(crate) fn read(sources: &[SourceFile]) -> Self {
        let mut types = BTreeMap::new();
        for source in sources.iter().filter(|source| source.is_shipped()) {
            collect_types(parse_items(source), &mut types);
        }
        Self(types)
    }

    pub(crate) fn find(&self, name: &str) -> Option<&JsonShape> {
        self.0.get(name)
    }
}

#[track_caller]
pub(crate) fn parse_items(source: &SourceFile) -> Vec<Item> {
    let parsed = syn::parse_file(&source.text);
    parsed.unwrap_or_else(|error| panic!("{}: {error}", source.path)).items
}

fn collect_types(items: Vec<Item>, types: &mut BTreeMap<String, JsonShape>) {
    for item in items {
        if let Item::Struct(item) = &item
            && is_serde(&item.attrs)
        {
            let shape = shape_of_struct(&SerdeOptions::parse(&item.attrs), &item.fields);
            types.extend(shape.map(|shape| (item.ident.to_string(), shape)));
        }
        if let Item::Enum(item) = &item
            && is_serde(&item.attrs)
        {
            let shape = shape_of_enum(&SerdeOptions::parse(&item.attrs), item);
            types.extend(shape.map(|shape| (item.ident.to_string(), shape)));
        }
    }
}

fn is_serde(attrs: &[Attribute]) -> bool {
    let derives = attrs.iter().filter(|attr| attr.path().is_ident("derive"));
    let mut lists = derives.filter_map(|attr| attr.meta.require_list().ok());
    lists.any(|list| {
        let names = list.tokens.to_string();
        names.contains("Serialize") || names.contains("Deserialize")
    })
}

/// The options in `#[serde(…)]`, by name.
struct SerdeOptions(BTreeMap<String, String>);

impl SerdeOptions {
    fn parse(attrs: &[Attribute]) -> Self {
        let mut options = BTreeMap::new();
        for attr in attrs.iter().filter(|attr| attr.path().is_ident("serde")) {
            let list = attr.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated);
            for meta in list.into_iter().flatten() {
                let name = meta.path().get_ident().map(ToString::to_string).unwrap_or_default();
                let value = match &meta {
                    Meta::NameValue(pair) => text_of(&pair.value).unwrap_or_default(),
                    Meta::Path(_) | Meta::List(_) => String::new(),
                };
                options.insert(name, value);
            }
        }
        Self(options)
    }

    fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    fn find(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// The name of a field or a variant in JSON.
    fn rename(&self, inner: &Self, name: &str) -> String {
        if let Some(renamed) = inner.find("rename") {
            return renamed.to_owned();
        }
        apply_case(self.find("rename_all"), name)
    }
}

pub(crate) fn text_of(value: &Expr) -> Option<String> {
    if let Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) = value {
        return Some(text.value());
    }
    None
}

#[track_caller]
fn apply_case(case: Option<&str>, name: &str) -> String {
    let mut words: Vec<String> = Vec::new();
    for letter in name.chars() {
        if letter == '_' || letter.is_uppercase() || words.is_empty() {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| letter != '_') {
            word.extend(letter.to_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    match case {
        None => name.to_owned(),
        Some("lowercase") => name.to_lowercase(),
        Some("snake_case") => words.join("_"),
        Some("kebab-case") => words.join("-"),
        Some("camelCase") => {
            let capital = |word: &String| word[..1].to_uppercase() + &word[1..];
            words[0].clone() + &words[1..].iter().map(capital).collect::<String>()
        }
        Some(other) => panic!("rename_all = \"{other}\" is not known here"),
    }
}

fn shape_of_struct(options: &SerdeOptions, fields: &Fields) -> Option<JsonShape> {
    if options.has("into") || options.has("try_from") || options.has("from") {
        return None;
    }
    match fields {
        Fields::Named(_) => Some(JsonShape::Object {
            fields: json_fields(options, fields),
            is_closed: options.has("deny_unknown_fields"),
        }),
        Fields::Unnamed(fields) if fields.unnamed.len() == 1 => {
            Some(JsonShape::Same(Box::new(fields.unnamed[0].ty.clone())))
        }
        Fields::Unnamed(_) | Fields::Unit => None,
    }
}

fn json_fields(options: &SerdeOptions, fields: &Fields) -> Vec<JsonField> {
    let all_default = options.has("default");
    fields.iter().filter_map(|field| json_field(options, all_default, field)).collect()
}

fn json_field(outer: &SerdeOptions, all_default: bool, field: &Field) -> Option<JsonField> {
    let options = SerdeOptions::parse(&field.attrs);
    let name = field.ident.as_ref()?.to_string();
    if options.has("skip") {
        return None;
    }
    Some(JsonField {
        name: outer.rename(&options, name.trim_start_matches("r#")),
        ty: field.ty.clone(),
        has_default: all_default
            || options.has("default")
            || (is_option(&field.ty) && !options.has("deserialize_with")),
        may_be_skipped: options.has("skip_serializing_if"),
        is_flattened: options.has("flatten"),
    })
}

fn shape_of_enum(options: &SerdeOptions, item: &syn::ItemEnum) -> Option<JsonShape> {
    if options.has("into") || options.has("try_from") {
        return None;
    }
    let named = item.variants.iter().map(|variant| {
        let own = SerdeOptions::parse(&variant.attrs);
        (options.rename(&own, &variant.ident.to_string()), &variant.fields, own)
    });
    let fields_of = |fields: &Fields, own: &SerdeOptions| {
        let case = own.find("rename_all").or(options.find("rename_all_fields"));
        let outer = case.map(|case| ("rename_all".to_owned(), case.to_owned()));
        json_fields(&SerdeOptions(outer.into_iter().collect()), fields)
    };
    if let Some(tag) = options.find("tag") {
        let variants = named.map(|(name, fields, own)| {
            let inner = match fields {
                // The fields of the inner type stand next to the tag.
                Fields::Unnamed(inner) => vec![JsonField {
                    name: String::new(),
                    ty: inner.unnamed[0].ty.clone(),
                    has_default: false,
                    may_be_skipped: false,
                    is_flattened: true,
                }],
                Fields::Named(_) | Fields::Unit => fields_of(fields, &own),
            };
            (name, inner)
        });
        return Some(JsonShape::Tagged { tag: tag.to_owned(), variants: variants.collect() });
    }
    if item.variants.iter().all(|variant| matches!(variant.fields, Fields::Unit)) {
        return Some(JsonShape::Words(named.map(|(name, ..)| name).collect()));
    }
    let is_untagged = options.has("untagged");
    let alternative = |(name, fields, own): (String, &Fields, SerdeOptions)| match fields {
        Fields::Unit => JsonAlternative::Word(name),
        Fields::Unnamed(inner) if is_untagged => {
            JsonAlternative::Value(Box::new(inner.unnamed[0].ty.clone()))
        }
        Fields::Named(_) if is_untagged => JsonAlternative::Fields(fields_of(fields, &own)),
        Fields::Unnamed(inner) => {
            let field = JsonField {
                name: name.clone(),
                ty: inner.unnamed[0].ty.clone(),
                has_default: false,
                may_be_skipped: false,
                is_flattened: false,
            };
            JsonAlternative::Fields(vec![field])
        }
        Fields::Named(_) => JsonAlternative::Wrapped(name, fields_of(fields, &own)),
    };
    Some(JsonShape::Alternatives(named.map(alternative).collect()))
}

/// The name of a type and its arguments: `Vec` and `[String]` for `Vec<String>`.
pub(crate) fn name_and_arguments(ty: &Type) -> Option<(String, Vec<&Type>)> {
    if let Type::Reference(inner) = ty {
        return name_and_arguments(&inner.elem);
    }
    let Type::Path(path) = ty else { return None };
    let last = path.path.segments.last()?;
    let mut arguments = Vec::new();
    if let PathArguments::AngleBracketed(list) = &last.arguments {
        for argument in &list.args {
            if let GenericArgument::Type(ty) = argument {
                arguments.push(ty);
            }
        }
    }
    Some((last.ident.to_string(), arguments))
}

fn is_option(ty: &Type) -> bool {
    name_and_arguments(ty).is_some_and(|(name, _)| name == "Option")
}
