//! Metadata values: the types that GGUF defines, and their decoding within a memory budget.
//!
//! Invariant: nothing is allocated before both the bytes of the file and the budget are known to cover it.

use super::reader::Reader;
use crate::error::{Error, Result, quoted};

/// Bytes that the decoded metadata of one file may take: vocabularies with their merges take up to about 40 MB.
const MAX_DECODED_BYTES: u64 = 128 << 20;
/// Arrays of arrays are allowed by the format, but no model is known to use them.
const MAX_ARRAY_DEPTH: u32 = 4;
const ARRAY_TYPE: u32 = 9;

/// One line per type: variant, Rust type, number in the file, name in messages. Arrays, which nest, are written out.
macro_rules! value_types {
    ($($variant:ident($ty:ty) = $number:literal, $name:literal;)*) => {
        /// A metadata value.
        #[derive(Debug, Clone, PartialEq)]
        pub enum Value {
            $($variant($ty),)*
            Array(Array),
        }

        /// An array, its elements all of one type.
        #[derive(Debug, Clone, PartialEq)]
        pub enum Array {
            $($variant(Vec<$ty>),)*
            Array(Vec<Array>),
        }

        impl Value {
            /// E.g. `u32` or `array of string`.
            pub fn type_name(&self) -> &'static str {
                match self {
                    $(Value::$variant(_) => $name,)*
                    Value::Array(array) => array.type_name(),
                }
            }
        }

        impl Array {
            pub fn type_name(&self) -> &'static str {
                match self {
                    $(Array::$variant(_) => concat!("array of ", $name),)*
                    Array::Array(_) => "array of arrays",
                }
            }

            pub fn len(&self) -> usize {
                match self {
                    $(Array::$variant(elements) => elements.len(),)*
                    Array::Array(elements) => elements.len(),
                }
            }

            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }
        }

        impl Decoder<'_, '_> {
            /// The value of type number `ty` that comes next. `what` names it in errors.
            fn typed_value(&mut self, ty: u32, what: &str) -> Result<Value> {
                match ty {
                    $($number => <$ty>::decode(self, what).map(Value::$variant),)*
                    ARRAY_TYPE => Array::decode(self, what).map(Value::Array),
                    _ => Err(unknown_type(ty, what)),
                }
            }

            fn typed_array(&mut self, ty: u32, len: u64, what: &str) -> Result<Array> {
                match ty {
                    $($number => self.elements(len, what).map(Array::$variant),)*
                    ARRAY_TYPE => self.elements(len, what).map(Array::Array),
                    _ => Err(unknown_type(ty, what)),
                }
            }
        }
    };
}

value_types! {
    U8(u8) = 0, "u8";
    I8(i8) = 1, "i8";
    U16(u16) = 2, "u16";
    I16(i16) = 3, "i16";
    U32(u32) = 4, "u32";
    I32(i32) = 5, "i32";
    F32(f32) = 6, "f32";
    Bool(bool) = 7, "bool";
    String(String) = 8, "string";
    U64(u64) = 10, "u64";
    I64(i64) = 11, "i64";
    F64(f64) = 12, "f64";
}

impl Value {
    /// Any integer type; an i128 holds them all.
    pub(super) fn as_integer(&self) -> Option<i128> {
        Some(match *self {
            Value::U8(v) => v.into(),
            Value::I8(v) => v.into(),
            Value::U16(v) => v.into(),
            Value::I16(v) => v.into(),
            Value::U32(v) => v.into(),
            Value::I32(v) => v.into(),
            Value::U64(v) => v.into(),
            Value::I64(v) => v.into(),
            _ => return None,
        })
    }
}

impl Array {
    /// Element `i` of an array of any integer type.
    pub(super) fn integer(&self, i: usize) -> Option<i128> {
        Some(match self {
            Array::U8(v) => (*v.get(i)?).into(),
            Array::I8(v) => (*v.get(i)?).into(),
            Array::U16(v) => (*v.get(i)?).into(),
            Array::I16(v) => (*v.get(i)?).into(),
            Array::U32(v) => (*v.get(i)?).into(),
            Array::I32(v) => (*v.get(i)?).into(),
            Array::U64(v) => (*v.get(i)?).into(),
            Array::I64(v) => (*v.get(i)?).into(),
            _ => return None,
        })
    }

    pub(super) fn is_integer(&self) -> bool {
        !matches!(self, Array::F32(_) | Array::F64(_) | Array::Bool(_) | Array::String(_) | Array::Array(_))
    }
}

/// Reads values and keeps account of the memory they take.
pub(super) struct Decoder<'r, 'a> {
    reader: &'r mut Reader<'a>,
    /// Bytes of decoded metadata still allowed.
    budget: u64,
    array_depth: u32,
}

impl<'r, 'a> Decoder<'r, 'a> {
    pub(super) fn new(reader: &'r mut Reader<'a>) -> Self {
        Self { reader, budget: MAX_DECODED_BYTES, array_depth: 0 }
    }

    /// The bytes of a string or key, not yet known to be UTF-8.
    pub(super) fn string_bytes(&mut self, what: &str) -> Result<&'a [u8]> {
        let bytes = self.reader.string(what)?;
        self.charge(bytes.len() as u64).ok_or_else(|| {
            Error::StringTooLong(format!(
                "Found a string of {} bytes for {what}; expected at most {MAX_DECODED_BYTES} bytes of decoded metadata in all.",
                bytes.len()
            ))
        })?;
        Ok(bytes)
    }

    /// A type number and a value of that type.
    pub(super) fn value(&mut self, what: &str) -> Result<Value> {
        let ty = self.reader.u32(what)?;
        self.typed_value(ty, what)
    }

    /// Takes `n_bytes` from the budget, if it holds them.
    fn charge(&mut self, n_bytes: u64) -> Option<()> {
        self.budget = self.budget.checked_sub(n_bytes)?;
        Some(())
    }

    fn elements<T: Element>(&mut self, len: u64, what: &str) -> Result<Vec<T>> {
        let decoded_bytes = len.checked_mul(size_of::<T>() as u64);
        decoded_bytes.and_then(|n| self.charge(n)).ok_or_else(|| {
            Error::ArrayTooLong(format!(
                "Found {len} elements in {what}; expected at most {MAX_DECODED_BYTES} bytes of decoded metadata in all."
            ))
        })?;
        // Cannot wrap: the budget bounds `len`.
        if !self.reader.has(len * T::MIN_STORED_BYTES) {
            return Err(Error::Truncated(format!(
                "The file ends inside {what}: found {} bytes, expected {len} elements.",
                self.reader.remaining()
            )));
        }
        let mut elements = Vec::with_capacity(usize::try_from(len).expect("the bytes here hold `len` elements"));
        for _ in 0..len {
            elements.push(T::decode(self, what)?);
        }
        Ok(elements)
    }
}

/// What an array may hold.
trait Element: Sized {
    /// The fewest bytes that an element takes in the file.
    const MIN_STORED_BYTES: u64;

    fn decode(decoder: &mut Decoder, what: &str) -> Result<Self>;
}

macro_rules! number_elements {
    ($($ty:ty),*) => {$(
        impl Element for $ty {
            const MIN_STORED_BYTES: u64 = size_of::<$ty>() as u64;

            fn decode(decoder: &mut Decoder, what: &str) -> Result<Self> {
                decoder.reader.array(what).map(<$ty>::from_le_bytes)
            }
        }
    )*};
}

number_elements!(u8, i8, u16, i16, u32, i32, u64, i64, f32, f64);

impl Element for bool {
    const MIN_STORED_BYTES: u64 = 1;

    fn decode(decoder: &mut Decoder, what: &str) -> Result<Self> {
        match u8::decode(decoder, what)? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(Error::BadValue(format!("Found the bool {other} in {what}; expected 0 or 1."))),
        }
    }
}

impl Element for String {
    const MIN_STORED_BYTES: u64 = 8;

    fn decode(decoder: &mut Decoder, what: &str) -> Result<Self> {
        let bytes = decoder.string_bytes(what)?;
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(text.to_owned()),
            Err(_) => Err(Error::BadValue(format!("Found {} for {what}; expected UTF-8.", quoted(bytes)))),
        }
    }
}

impl Element for Array {
    /// Element type and length.
    const MIN_STORED_BYTES: u64 = 12;

    fn decode(decoder: &mut Decoder, what: &str) -> Result<Self> {
        if decoder.array_depth == MAX_ARRAY_DEPTH {
            return Err(Error::NestedTooDeep(format!(
                "Found arrays nested deeper than {MAX_ARRAY_DEPTH} in {what}; expected at most that."
            )));
        }
        decoder.array_depth += 1;
        let ty = decoder.reader.u32(what)?;
        let len = decoder.reader.u64(what)?;
        let array = decoder.typed_array(ty, len, what)?;
        decoder.array_depth -= 1;
        Ok(array)
    }
}

fn unknown_type(ty: u32, what: &str) -> Error {
    Error::BadType(format!("Found value type {ty} for {what}; expected one of 0 to 12."))
}
