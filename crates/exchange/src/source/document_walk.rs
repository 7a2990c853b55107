//! Walks over export documents element by element, so that no more than one element is in memory.

use std::cell::Cell;
use std::fmt;
use std::io::{self, BufRead, BufReader, Read};
use std::ops::ControlFlow;
use std::rc::Rc;

use serde::de::{self, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::source_limits::MAX_ELEMENT;

/// What a walk meets, in the order of the document. Elements are JSON texts of at most [`MAX_ELEMENT`].
#[derive(Clone, Copy, Debug)]
pub(super) enum DocumentEvent<'a> {
    /// A document begins.
    Document,
    /// Something is where a document should be.
    NotADocument,
    /// The session of the document.
    Info(&'a str),
    /// The messages begin; false if they are not a list.
    Messages(bool),
    /// A message begins; false if it is not an object.
    Message(bool),
    /// The message itself.
    MessageInfo(&'a str),
    /// A part of the message.
    Part(&'a str),
    /// The message ends.
    MessageEnd,
    /// The to-do list of the session.
    Todos(&'a str),
    /// The document ends.
    End,
}

/// Why a walk ended before the end.
#[derive(Debug)]
pub(super) enum WalkStop {
    /// The visitor had enough.
    Cancelled,
    /// An element is too large to be held.
    TooLarge {
        /// Which element.
        place: String,
    },
    /// The text is not JSON, or cannot be read.
    Invalid {
        /// Where and why.
        reason: String,
    },
}

/// Walks over every document in `input`.
pub(super) fn walk_documents(
    input: impl Read,
    visit: &mut dyn FnMut(DocumentEvent<'_>) -> ControlFlow<()>,
) -> Result<(), WalkStop> {
    let left = Rc::new(Cell::new(u64::MAX));
    let reader = BudgetedReader { inner: BufReader::new(input), left: Rc::clone(&left) };
    let mut json = serde_json::Deserializer::from_reader(reader);
    let mut walk =
        DocumentWalk { visit, left, place: DocumentPosition::default(), is_stopped: false };
    loop {
        walk.refill();
        if json.end().is_ok() {
            return Ok(());
        }
        match ElementSeed(&mut walk, ExpectedElement::Documents).deserialize(&mut json) {
            Ok(()) => {}
            Err(_) if walk.is_stopped => return Err(WalkStop::Cancelled),
            Err(error) if error.io_error_kind() == Some(io::ErrorKind::FileTooLarge) => {
                return Err(WalkStop::TooLarge { place: walk.place.to_string() });
            }
            Err(error) => return Err(WalkStop::Invalid { reason: format!("not JSON: {error}") }),
        }
    }
}

/// Input that ends with an error once its budget is used up.
struct BudgetedReader<R> {
    inner: BufReader<R>,
    left: Rc<Cell<u64>>,
}

impl<R: Read> Read for BudgetedReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.left.get();
        if left == 0 {
            return Err(io::Error::from(io::ErrorKind::FileTooLarge));
        }
        // One byte at a time is what the parser asks for.
        let count = match (buffer, self.inner.fill_buf()?) {
            ([byte], [first, ..]) => {
                *byte = *first;
                1
            }
            (buffer, have) => {
                let count = buffer.len().min(have.len());
                let count = count.min(usize::try_from(left).unwrap_or(usize::MAX));
                buffer[..count].copy_from_slice(&have[..count]);
                count
            }
        };
        self.inner.consume(count);
        self.left.set(left - count as u64);
        Ok(count)
    }
}

/// Where in the documents a walk is, counted from 1.
#[derive(Default)]
struct DocumentPosition {
    document: usize,
    message: usize,
    part: usize,
}

impl fmt::Display for DocumentPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "document {}", self.document)?;
        if self.message > 0 {
            write!(f, ", message {}", self.message)?;
        }
        if self.part > 0 {
            write!(f, ", part {}", self.part)?;
        }
        Ok(())
    }
}

struct DocumentWalk<'v> {
    visit: &'v mut dyn FnMut(DocumentEvent<'_>) -> ControlFlow<()>,
    left: Rc<Cell<u64>>,
    place: DocumentPosition,
    is_stopped: bool,
}

impl DocumentWalk<'_> {
    fn emit<E: de::Error>(&mut self, event: DocumentEvent<'_>) -> Result<(), E> {
        match (self.visit)(event) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => {
                self.is_stopped = true;
                Err(E::custom("stopped"))
            }
        }
    }

    /// Lets the next key or element be read.
    fn refill(&self) {
        self.left.set(MAX_ELEMENT);
    }

    fn next_key<'de, A: MapAccess<'de>>(&self, map: &mut A) -> Result<Option<String>, A::Error> {
        self.refill();
        let key = map.next_key()?;
        self.refill();
        Ok(key)
    }

    /// Reads over a value of any size; nothing of it is kept.
    fn skip<'de, A: MapAccess<'de>>(&self, map: &mut A) -> Result<(), A::Error> {
        self.left.set(u64::MAX);
        map.next_value::<IgnoredAny>().map(drop)
    }

    fn next_document(&mut self) {
        self.place =
            DocumentPosition { document: self.place.document + 1, ..DocumentPosition::default() };
    }

    fn documents<'de, A: SeqAccess<'de>>(&mut self, mut list: A) -> Result<(), A::Error> {
        loop {
            self.refill();
            if list.next_element_seed(ElementSeed(self, ExpectedElement::Document))?.is_none() {
                return Ok(());
            }
        }
    }

    fn messages<'de, A: SeqAccess<'de>>(&mut self, mut list: A) -> Result<(), A::Error> {
        self.emit(DocumentEvent::Messages(true))?;
        loop {
            self.refill();
            self.place.message += 1;
            self.place.part = 0;
            if list.next_element_seed(ElementSeed(self, ExpectedElement::Message))?.is_none() {
                self.place.message = 0;
                return Ok(());
            }
        }
    }

    fn parts<'de, A: SeqAccess<'de>>(&mut self, mut list: A) -> Result<(), A::Error> {
        loop {
            self.refill();
            self.place.part += 1;
            let Some(raw) = list.next_element::<Box<RawValue>>()? else {
                self.place.part = 0;
                return Ok(());
            };
            self.emit(DocumentEvent::Part(raw.get()))?;
        }
    }

    fn document<'de, A: MapAccess<'de>>(&mut self, mut map: A) -> Result<(), A::Error> {
        self.emit(DocumentEvent::Document)?;
        while let Some(key) = self.next_key(&mut map)? {
            match key.as_str() {
                "info" => {
                    let raw: Box<RawValue> = map.next_value()?;
                    self.emit(DocumentEvent::Info(raw.get()))?;
                }
                "messages" => map.next_value_seed(ElementSeed(self, ExpectedElement::Messages))?,
                "todos" => {
                    let raw: Box<RawValue> = map.next_value()?;
                    self.emit(DocumentEvent::Todos(raw.get()))?;
                }
                _ => self.skip(&mut map)?,
            }
        }
        self.emit(DocumentEvent::End)
    }

    fn message<'de, A: MapAccess<'de>>(&mut self, mut map: A) -> Result<(), A::Error> {
        self.emit(DocumentEvent::Message(true))?;
        while let Some(key) = self.next_key(&mut map)? {
            match key.as_str() {
                "info" => {
                    let raw: Box<RawValue> = map.next_value()?;
                    self.emit(DocumentEvent::MessageInfo(raw.get()))?;
                }
                "parts" => map.next_value_seed(ElementSeed(self, ExpectedElement::Parts))?,
                _ => self.skip(&mut map)?,
            }
        }
        self.emit(DocumentEvent::MessageEnd)
    }
}

/// What is expected next.
#[derive(Clone, Copy)]
enum ExpectedElement {
    /// A document, or a list of them.
    Documents,
    /// A document of such a list.
    Document,
    /// The messages of a document.
    Messages,
    /// A message.
    Message,
    /// The parts of a message.
    Parts,
}

/// Reads what is expected next.
struct ElementSeed<'a, 'v>(&'a mut DocumentWalk<'v>, ExpectedElement);

impl ElementSeed<'_, '_> {
    /// Something else is there, and was read over.
    fn reject_element<E: de::Error>(self) -> Result<(), E> {
        let Self(walk, expected) = self;
        match expected {
            ExpectedElement::Documents | ExpectedElement::Document => {
                walk.next_document();
                walk.emit(DocumentEvent::NotADocument)
            }
            ExpectedElement::Messages => walk.emit(DocumentEvent::Messages(false)),
            ExpectedElement::Message => walk.emit(DocumentEvent::Message(false)),
            // A message whose parts are no list has none.
            ExpectedElement::Parts => Ok(()),
        }
    }
}

impl<'de> DeserializeSeed<'de> for ElementSeed<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ElementSeed<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an export document")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        match self.1 {
            ExpectedElement::Documents | ExpectedElement::Document => {
                self.0.next_document();
                self.0.document(map)
            }
            ExpectedElement::Message => self.0.message(map),
            ExpectedElement::Messages | ExpectedElement::Parts => {
                self.0.left.set(u64::MAX);
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                self.reject_element()
            }
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        match self.1 {
            ExpectedElement::Documents => self.0.documents(list),
            ExpectedElement::Messages => self.0.messages(list),
            ExpectedElement::Parts => self.0.parts(list),
            ExpectedElement::Document | ExpectedElement::Message => {
                self.0.left.set(u64::MAX);
                while list.next_element::<IgnoredAny>()?.is_some() {}
                self.reject_element()
            }
        }
    }

    fn visit_bool<E: de::Error>(self, _: bool) -> Result<(), E> {
        self.reject_element()
    }

    fn visit_i64<E: de::Error>(self, _: i64) -> Result<(), E> {
        self.reject_element()
    }

    fn visit_u64<E: de::Error>(self, _: u64) -> Result<(), E> {
        self.reject_element()
    }

    fn visit_f64<E: de::Error>(self, _: f64) -> Result<(), E> {
        self.reject_element()
    }

    fn visit_str<E: de::Error>(self, _: &str) -> Result<(), E> {
        self.reject_element()
    }

    fn visit_unit<E: de::Error>(self) -> Result<(), E> {
        self.reject_element()
    }
}
