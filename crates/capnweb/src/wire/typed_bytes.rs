//! Bytes, and the JavaScript type that holds them.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

/// Prints no padding and reads both, as the peers do.
const ENGINE: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_encode_padding(false)
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Bytes with the type they have in JavaScript; elements are little-endian.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypedBytes {
    /// The bytes.
    pub data: Vec<u8>,
    /// The type; a plain `Uint8Array` is sent without a mark.
    pub kind: BytesKind,
}

impl From<Vec<u8>> for TypedBytes {
    fn from(data: Vec<u8>) -> Self {
        let kind = BytesKind::Uint8Array;
        Self { data, kind }
    }
}

/// The JavaScript types that hold bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are those of JavaScript")]
pub enum BytesKind {
    Uint8Array,
    ArrayBuffer,
    DataView,
    Int8Array,
    Uint8ClampedArray,
    Int16Array,
    Uint16Array,
    Int32Array,
    Uint32Array,
    BigInt64Array,
    BigUint64Array,
    Float32Array,
    Float64Array,
}

impl BytesKind {
    const ALL: [(Self, &'static str, usize); 13] = [
        (Self::Uint8Array, "Uint8Array", 1),
        (Self::ArrayBuffer, "ArrayBuffer", 1),
        (Self::DataView, "DataView", 1),
        (Self::Int8Array, "Int8Array", 1),
        (Self::Uint8ClampedArray, "Uint8ClampedArray", 1),
        (Self::Int16Array, "Int16Array", 2),
        (Self::Uint16Array, "Uint16Array", 2),
        (Self::Int32Array, "Int32Array", 4),
        (Self::Uint32Array, "Uint32Array", 4),
        (Self::BigInt64Array, "BigInt64Array", 8),
        (Self::BigUint64Array, "BigUint64Array", 8),
        (Self::Float32Array, "Float32Array", 4),
        (Self::Float64Array, "Float64Array", 8),
    ];

    /// Returns the name of the type in JavaScript.
    pub fn name(self) -> &'static str {
        let found = Self::ALL.iter().find(|(kind, ..)| *kind == self);
        found.map_or("Uint8Array", |(_, name, _)| name)
    }

    /// Returns the type of that name.
    pub fn find(name: &str) -> Option<Self> {
        let found = Self::ALL.iter().find(|(_, known, _)| *known == name);
        found.map(|(kind, ..)| *kind)
    }

    /// Returns the bytes of one element; the length is a multiple of it.
    pub fn element_bytes(self) -> usize {
        let found = Self::ALL.iter().find(|(kind, ..)| *kind == self);
        found.map_or(1, |(.., size)| *size)
    }
}

/// Reads base64 with or without padding.
pub(super) fn from_base64(text: &str) -> Option<Vec<u8>> {
    ENGINE.decode(text).ok()
}

/// Appends base64 without padding.
pub(super) fn write_base64(data: &[u8], out: &mut String) {
    ENGINE.encode_string(data, out);
}
