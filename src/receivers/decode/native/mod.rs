//! The native JSON POST: one object, an array of them, or any number one after the other, a line
//! each or not.

mod fields;
mod record;
pub(super) mod value;

use self::record::{NativeRecord, Parts};
use super::damage::Damage;
use super::json::{BYTE_ORDER_MARK, Kind, Place, Reader};
use super::{DecodeError, Outcome};
use crate::normalize::{Attributes, Context, Emitter, Expands, Repairs, Shared};
use crate::record::Sink;

/// Reads JSON records and hands them to the sink. A damaged record costs itself: reading goes on
/// with the next one of its array, else with the next line that can begin a record.
///
/// # Errors
/// When nothing could be read at all, or the records take too much memory. In the second case some
/// are in the sink by then; the caller takes them out again.
pub fn decode_native(
    body: &[u8],
    context: &Context,
    sink: &mut impl Sink,
) -> Result<Outcome, DecodeError> {
    let mut reader = Reader::new(body);
    if reader.next_byte().is_none() {
        return Err(DecodeError::Empty);
    }
    let mut walk = Walk {
        emitter: Emitter::new(context, sink),
        outcome: Outcome::default(),
        attributes: Attributes::of_objects(),
        shared: None,
        index: 0,
        any_readable: false,
        damage: None,
        patience: body.len().saturating_mul(2).max(MIN_PATIENCE),
    };
    walk.body(&mut reader)?;
    let Walk {
        emitter,
        mut outcome,
        damage,
        any_readable,
        ..
    } = walk;
    if let Some(damage) = damage.filter(|_| !any_readable) {
        return Err(damage);
    }
    outcome.accepted = emitter.accepted;
    outcome.repairs = emitter.repairs;
    outcome.explain(None);
    Ok(outcome)
}

/// Least that may be read a second time: so little costs nothing, and a short body of nothing but
/// damaged lines still gives up its good ones.
const MIN_PATIENCE: usize = 256 << 10;

struct Walk<'a, 's, S> {
    emitter: Emitter<'s, S>,
    outcome: Outcome,
    attributes: Attributes<'a>,
    /// What the last record shares with the next one, if that names the same service and so on.
    shared: Option<Shared<'a>>,
    /// Place of the next record.
    index: u32,
    /// Whether there was any JSON value, be it one that is no record.
    any_readable: bool,
    /// The first damage.
    damage: Option<DecodeError>,
    /// Bytes that may still be read a second time after damage. A body of lines that each open an
    /// array would otherwise be read once for every line.
    patience: usize,
}

impl<'a, S: Sink> Walk<'a, '_, S> {
    fn body(&mut self, reader: &mut Reader<'a>) -> Result<(), Expands> {
        while let Some(byte) = reader.next_byte() {
            let start = reader.offset();
            match byte {
                // Between records; 0x1e is the separator of JSON text sequences.
                b',' | 0x1e => reader.seek(start + 1),
                // Files that were put behind one another, each with its mark.
                0xef if reader.rest().starts_with(BYTE_ORDER_MARK) => {
                    reader.seek(start + BYTE_ORDER_MARK.len());
                }
                // The end of an array in which something was damaged.
                b']' if self.damage.is_some() => reader.seek(start + 1),
                b'[' => {
                    if let Err((start, damage)) = self.array(reader)? {
                        self.damaged(reader, start, damage, Place::Array);
                    }
                }
                _ => {
                    if let Err((start, damage)) = self.member(reader)? {
                        self.damaged_on_a_line(reader, start, damage);
                    }
                }
            }
        }
        Ok(())
    }

    /// Reads an array of records. A damaged one costs itself, if its end can be told; else the error
    /// says where it begins.
    fn array(&mut self, reader: &mut Reader<'a>) -> Result<Result<(), (usize, Damage)>, Expands> {
        let mut members = reader.enter();
        loop {
            let start = reader.offset();
            match reader.next_element(&mut members) {
                Ok(true) => {}
                Ok(false) => {
                    self.any_readable = true;
                    return Ok(Ok(()));
                }
                // As between records that are in no array, there may be no comma.
                Err(_) if reader.next_byte() == Some(b'{') => {}
                Err(damage) => return Ok(Err((start, damage))),
            }
            let Err((start, damage)) = self.member(reader)? else {
                continue;
            };
            let read_up_to = reader.offset();
            reader.seek(start);
            if !reader.seek_behind_damaged(Place::Array) {
                let reached = reader.offset().max(read_up_to);
                reader.seek(reached);
                return Ok(Err((start, damage)));
            }
            self.give_up(damage, |damage| damage.to_string());
        }
    }

    /// Reads a record, or what stands in its place.
    fn member(&mut self, reader: &mut Reader<'a>) -> Result<Result<(), (usize, Damage)>, Expands> {
        let kind = reader.kind();
        let start = reader.offset();
        match kind {
            Ok(Kind::Object) => {}
            Ok(kind) => {
                if let Err(damage) = reader.skip() {
                    return Ok(Err((start, damage)));
                }
                self.any_readable = true;
                self.reject(|| format!("a record must be a JSON object, not {}", named(kind)));
                return Ok(Ok(()));
            }
            Err(damage) => return Ok(Err((start, damage))),
        }
        if is_otlp(reader) {
            // It is well-formed, or would not have been told from a damaged record.
            if let Err(damage) = reader.pass() {
                return Ok(Err((start, damage)));
            }
            self.any_readable = true;
            self.reject(|| IS_OTLP.to_owned());
            return Ok(Ok(()));
        }
        let (context, repairs) = (self.emitter.context, &mut self.emitter.repairs);
        match NativeRecord::read(reader, context, &mut self.attributes, repairs) {
            Ok(parts) => {
                self.any_readable = true;
                self.index = self.index.saturating_add(1);
                self.emit(parts).map(Ok)
            }
            Err(damage) => {
                let list = self.attributes.take();
                self.attributes.reuse(list);
                Ok(Err((start, damage)))
            }
        }
    }

    fn emit(&mut self, parts: Parts<'a>) -> Result<(), Expands> {
        // The record says of itself that a value was nested too deep, wherever it stood.
        let deep = std::mem::take(&mut self.emitter.repairs.deep);
        let group = parts
            .resource
            .into_group(self.emitter.context, &mut self.emitter.repairs);
        let shared = Shared::new(group, parts.scope, &mut self.emitter.repairs);
        self.emitter.repairs.deep = deep;
        let current = match self.shared.take() {
            Some(last) if last.group() == shared.group() => last,
            _ => {
                self.emitter.regroup();
                shared
            }
        };
        let emitted = self
            .emitter
            .emit(parts.draft, &mut self.attributes, &current);
        self.shared = Some(current);
        emitted
    }

    fn reject(&mut self, error: impl FnOnce() -> String) {
        self.outcome.reject(self.index, error);
        self.index = self.index.saturating_add(1);
    }

    /// Rejects what is damaged, with the words for it.
    fn give_up(&mut self, damage: Damage, error: impl FnOnce(&DecodeError) -> String) {
        let damage = DecodeError::from(damage.within("the record"));
        self.reject(|| error(&damage));
        self.damage.get_or_insert(damage);
    }

    /// Rejects what begins at `start` and stands in no array. Where its end can be told, and another
    /// record or nothing follows on its line, it costs itself.
    fn damaged_on_a_line(&mut self, reader: &mut Reader<'a>, start: usize, damage: Damage) {
        let read_up_to = reader.offset();
        reader.seek(start);
        let is_object = reader.next_byte() == Some(b'{');
        if is_object && reader.seek_behind_damaged(Place::Line) {
            let behind = reader.offset();
            if let None | Some(b'{' | b',' | b'\n' | 0x1e) = reader.next_on_line() {
                reader.seek(behind);
                return self.give_up(damage, |damage| damage.to_string());
            }
        }
        reader.seek(reader.offset().max(read_up_to));
        self.damaged(reader, start, damage, Place::Line);
    }

    /// Rejects what begins at `start` and goes to the next line that can begin a record. Lines that
    /// begin with a space, a closing bracket, a comma or a quote belong to what was damaged.
    fn damaged(&mut self, reader: &mut Reader<'a>, start: usize, damage: Damage, place: Place) {
        let read_up_to = reader.offset();
        reader.seek(start);
        while reader.next_line() {
            if let Some(b' ' | b'\t' | b'\r' | b'\n' | b'}' | b']' | b',' | b'"') =
                reader.rest().first()
            {
                continue;
            }
            break;
        }
        let unread = reader.offset() - start;
        self.give_up(damage, |damage| match place {
            Place::Line => format!("{damage}; the rest of its line was not read"),
            Place::Array => format!(
                "{damage}; the rest of the array, {unread} bytes up to the next line that can begin a \
                 record, could not be read"
            ),
        });
        let twice = read_up_to.saturating_sub(reader.offset());
        if twice > self.patience {
            let unread = reader.rest().len();
            self.reject(|| {
                format!(
                    "the rest of the body, {unread} bytes, was not read: too much of it is damaged"
                )
            });
            while reader.next_line() {}
        }
        self.patience = self.patience.saturating_sub(twice);
    }
}

/// The lists of OTLP's requests in JSON.
const OTLP_LISTS: [&str; 8] = [
    "resourceLogs",
    "resource_logs",
    "resourceSpans",
    "resource_spans",
    "resourceMetrics",
    "resource_metrics",
    "resourceProfiles",
    "resource_profiles",
];

const IS_OTLP: &str =
    "this is an OTLP request, which is taken by POST /v1/logs; /api/logs takes plain JSON";

/// Whether the object that comes next is a request of OTLP: lists of one signal or several, and
/// nothing else.
fn is_otlp(reader: &Reader<'_>) -> bool {
    let mut reader = reader.clone();
    let mut repairs = Repairs::default();
    let mut members = reader.enter();
    let mut any = false;
    while let Ok(Some(key)) = reader.next_key(&mut members, &mut repairs) {
        let is_list = OTLP_LISTS.contains(&&*key) && matches!(reader.kind(), Ok(Kind::Array));
        if !is_list || reader.pass().is_err() {
            return false;
        }
        any = true;
    }
    any
}

fn named(kind: Kind) -> &'static str {
    match kind {
        Kind::Object => "an object",
        Kind::Array => "an array",
        Kind::String => "a string",
        Kind::Number => "a number",
        Kind::True | Kind::False => "a bool",
        Kind::Null => "null",
    }
}
