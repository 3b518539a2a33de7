//! One JSON object of any shape to one record.

use std::borrow::Cow;

use super::super::damage::Damage;
use super::super::json::{Kind, Reader};
use super::fields::{Field, SHORT_MESSAGE_RANK};
use super::value::text;
use crate::normalize::{
    Attributes, Context, Decimal, Draft, Id, Repairs, ResourceDraft, ScopeDraft, Stamp,
    level_of_number, level_of_text, number_of_level, parse_epoch, parse_rfc3339,
};
use crate::record::{Level, Receiver};

/// Objects inside objects whose keys are joined with dots; what is deeper is an attribute of JSON.
pub(super) const MAX_FLATTENED: usize = 16;

/// Added to the rank of a value that says nothing, such as a level nobody knows.
const LAST_RESORT: u8 = 100;

/// A value that a field can take, with the key it came under.
#[derive(Debug)]
struct Candidate<'a> {
    rank: u8,
    key: Cow<'a, str>,
    value: Cow<'a, str>,
}

/// An object being read.
#[derive(Debug)]
pub(super) struct NativeRecord<'a, 'w> {
    context: &'w Context,
    repairs: &'w mut Repairs,
    /// Attributes of the record.
    attributes: &'w mut Attributes<'a>,
    /// Attributes of its resource.
    resource: ResourceDraft<'a>,
    fields: [Option<Candidate<'a>>; Field::COUNT],
}

/// What an object came to beside its attributes.
#[derive(Debug)]
pub(super) struct Parts<'a> {
    pub(super) draft: Draft<'a>,
    pub(super) resource: ResourceDraft<'a>,
    pub(super) scope: ScopeDraft<'a>,
}

impl<'a, 'w> NativeRecord<'a, 'w> {
    /// Reads the object that comes next; its attributes go to `attributes`, which is empty.
    pub(super) fn read(
        reader: &mut Reader<'a>,
        context: &'w Context,
        attributes: &'w mut Attributes<'a>,
        repairs: &'w mut Repairs,
    ) -> Result<Parts<'a>, Damage> {
        let mut record = Self {
            context,
            repairs,
            attributes,
            resource: ResourceDraft {
                attributes: Attributes::of_objects(),
                ..ResourceDraft::default()
            },
            fields: [const { None }; Field::COUNT],
        };
        record.object(reader)?;
        Ok(record.finish())
    }

    fn object(&mut self, reader: &mut Reader<'a>) -> Result<(), Damage> {
        let mut path = String::new();
        let mut members = reader.enter();
        while let Some(key) = reader.next_key(&mut members, self.repairs)? {
            let is_object = reader.kind()? == Kind::Object;
            match &*key {
                "attributes" if is_object => {
                    self.flatten(reader, &mut path, Place::Attributes, 0)?
                }
                "resource" if is_object => self.flatten(reader, &mut path, Place::Resource, 0)?,
                "message" => {
                    let value = text(reader, self.context.limits.message, self.repairs)?;
                    self.leaf(key, value, Place::Fields);
                }
                _ if is_object => {
                    path.push_str(&key);
                    self.flatten(reader, &mut path, Place::Fields, 1)?;
                    path.clear();
                }
                _ => {
                    let limits = &self.context.limits;
                    let limit = limits.message.max(limits.value);
                    let value = text(reader, limit, self.repairs)?;
                    self.leaf(key, value, Place::Fields);
                }
            }
        }
        Ok(())
    }

    /// Takes the members of the object that comes next, their keys joined to `path`.
    fn flatten(
        &mut self,
        reader: &mut Reader<'a>,
        path: &mut String,
        place: Place,
        depth: usize,
    ) -> Result<(), Damage> {
        let outer = path.len();
        let mut empty = true;
        let mut members = reader.enter();
        while let Some(key) = reader.next_key(&mut members, self.repairs)? {
            empty = false;
            if outer > 0 {
                path.push('.');
            }
            path.push_str(&key);
            if reader.kind()? == Kind::Object && depth < MAX_FLATTENED {
                self.flatten(reader, path, place, depth + 1)?;
            } else {
                let value = text(reader, self.context.limits.value, self.repairs)?;
                let key = if outer == 0 {
                    key
                } else {
                    Cow::Owned(self.list(place).joined_key(path))
                };
                self.leaf(key, value, place);
            }
            path.truncate(outer);
        }
        if empty && outer > 0 {
            let place = if place == Place::Fields {
                Place::Attributes
            } else {
                place
            };
            let key = self.list(place).joined_key(path);
            self.leaf(Cow::Owned(key), Some(Cow::Borrowed("{}")), place);
        }
        Ok(())
    }

    /// The list that attributes of a place go to.
    fn list(&mut self, place: Place) -> &mut Attributes<'a> {
        match place {
            Place::Resource => &mut self.resource.attributes,
            Place::Attributes | Place::Fields => self.attributes,
        }
    }

    fn leaf(&mut self, key: Cow<'a, str>, value: Option<Cow<'a, str>>, place: Place) {
        let is_field = place == Place::Fields && Field::named(&key).is_some();
        let value = match value {
            // Null is the same as no field at all, while an attribute shows that it was there.
            None if is_field => return,
            None => Cow::Borrowed(""),
            Some(value) => value,
        };
        match place {
            Place::Resource => {
                let limits = &self.context.limits;
                self.resource
                    .attributes
                    .insert(key, value, limits, self.repairs);
            }
            Place::Attributes => self.attribute(key, value),
            Place::Fields => match Field::named(&key) {
                Some((field, rank)) => self.field(field, Candidate { rank, key, value }),
                None => self.attribute(key, value),
            },
        }
    }

    /// Adds an attribute. Members of several objects may come to one key, and none of them is lost; of one that is
    /// there twice the last stands, as everywhere.
    fn attribute(&mut self, key: Cow<'a, str>, value: Cow<'a, str>) {
        self.attributes
            .insert(key, value, &self.context.limits, self.repairs);
    }

    /// Gives the candidate its field, if it is the best so far; the other one becomes an attribute.
    fn field(&mut self, field: Field, mut candidate: Candidate<'a>) {
        if !takes(field, &mut candidate, self.context) {
            let is_id = matches!(field, Field::TraceId | Field::SpanId);
            self.repairs.invalid_ids += u32::from(is_id);
            self.repairs.odd_values += u32::from(!is_id && candidate.rank == 0);
            return self.attribute(candidate.key, candidate.value);
        }
        let Some(place) = self.fields.get_mut(field as usize) else {
            return;
        };
        let loser = match place {
            Some(best) if best.rank < candidate.rank => candidate,
            _ => match place.replace(candidate) {
                Some(loser) => loser,
                None => return,
            },
        };
        let same = self.fields.get(field as usize).and_then(Option::as_ref);
        if same.is_some_and(|best| best.key == loser.key) {
            self.repairs.duplicate_keys += 1;
        } else {
            self.attribute(loser.key, loser.value);
        }
    }

    fn take(&mut self, field: Field) -> Option<Candidate<'a>> {
        self.fields.get_mut(field as usize)?.take()
    }

    fn value(&mut self, field: Field) -> Option<Cow<'a, str>> {
        self.take(field).map(|candidate| candidate.value)
    }

    fn finish(mut self) -> Parts<'a> {
        let exported = self.drop_what_an_export_adds();
        self.resource.service = self.service();
        self.resource.environment = self.value(Field::Environment);
        let message = self.take(Field::Message);
        let is_gelf = message
            .as_ref()
            .is_some_and(|message| message.rank == SHORT_MESSAGE_RANK);
        let mut draft = Draft {
            body: message.map(|message| message.value),
            ..Draft::default()
        };
        self.severity(&mut draft, exported, is_gelf);
        if let Some(sent) = self.value(Field::Timestamp)
            && let Some(nanos) = parse_time(&sent)
        {
            draft.time = Stamp::Text(nanos, sent);
        }
        let id = self.value(Field::TraceId);
        draft.trace_id = id.and_then(|id| Id::from_text(&id).valid());
        let id = self.value(Field::SpanId);
        draft.span_id = id.and_then(|id| Id::from_text(&id).valid());
        draft.flags = self
            .value(Field::TraceFlags)
            .and_then(|text| flags(&text))
            .unwrap_or_default();
        draft.event_name = self.value(Field::EventName).unwrap_or_default();
        let scope = ScopeDraft {
            name: self.value(Field::ScopeName).unwrap_or_default(),
            version: self.value(Field::ScopeVersion).unwrap_or_default(),
            ..ScopeDraft::default()
        };
        Parts {
            draft,
            resource: self.resource,
            scope,
        }
    }

    /// A record of the export has `id`, `receiver` and `received_at` of its first arrival, which give
    /// way to those of this one. In any other record they are attributes.
    fn drop_what_an_export_adds(&mut self) -> bool {
        let added = [
            Field::ExportedId,
            Field::ExportedReceiver,
            Field::ExportedReceivedAt,
        ];
        let added = added.map(|field| self.take(field));
        let is_ours = |receiver: &Candidate<'_>| {
            Receiver::ALL
                .iter()
                .any(|known| known.as_str() == receiver.value)
        };
        if let [Some(_), Some(receiver), Some(_)] = &added
            && is_ours(receiver)
        {
            return true;
        }
        for candidate in added.into_iter().flatten() {
            self.attribute(candidate.key, candidate.value);
        }
        false
    }

    /// The service; bunyan's `name` where nothing else names it. In any other record `name` is an attribute.
    fn service(&mut self) -> Option<Cow<'a, str>> {
        let service = self.value(Field::Service);
        let Some(name) = self.take(Field::BunyanName) else {
            return service;
        };
        // Every record of bunyan (and of pino, if so configured) has these three beside each other.
        let has = |key| self.attributes.get(key).is_some();
        if service.is_none() && has("pid") && has("hostname") && has("v") {
            return Some(name.value);
        }
        self.attribute(name.key, name.value);
        service
    }

    /// Keeps a level as an attribute that neither the record's level nor its text says again.
    fn keep_level(&mut self, level: Option<Candidate<'a>>, text: &str, number: i64) {
        let Some(level) = level else { return };
        let meant = level_of_text(&level.value, self.context.digits);
        let is_said = level_of_number(number).unwrap_or_default() == meant;
        if !(is_said && meant != Level::Unspecified) && *level.value != *text {
            self.attribute(level.key, level.value);
        }
    }

    fn severity(&mut self, draft: &mut Draft<'a>, exported: bool, is_gelf: bool) {
        let level = self.take(Field::Level);
        let text = self.value(Field::SeverityText);
        let number = self
            .value(Field::SeverityNumber)
            .and_then(|number| whole(&number));
        let said = level.as_ref().map(|level| &*level.value);
        let syslog = said.filter(|_| is_gelf).and_then(syslog_level);
        let meant = [said, text.as_deref()]
            .into_iter()
            .flatten()
            .map(|text| level_of_text(text, self.context.digits));
        let meant = meant.into_iter().find(|level| *level != Level::Unspecified);
        let meant = syslog.or(meant).unwrap_or_default();
        draft.severity_number = match number {
            Some(number) => number,
            None if exported && text.is_some() => 0,
            None => number_of_level(meant).into(),
        };
        draft.severity_text = match (text, level) {
            (Some(text), level) => {
                self.keep_level(level, &text, draft.severity_number);
                text
            }
            (None, Some(level)) if !exported => level.value,
            _ => Cow::Borrowed(""),
        };
    }
}

/// Where members of an object belong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// To the record: they may name fields.
    Fields,
    /// To the record's attributes, whatever they are called.
    Attributes,
    /// To the resource.
    Resource,
}

/// Whether a field can take a value; may lower the candidate's rank.
fn takes(field: Field, candidate: &mut Candidate<'_>, context: &Context) -> bool {
    let value = &candidate.value;
    match field {
        Field::Timestamp => parse_time(value).is_some(),
        Field::Level => {
            if level_of_text(value, context.digits) == Level::Unspecified {
                candidate.rank += LAST_RESORT;
            }
            true
        }
        Field::SeverityNumber => whole(value).is_some_and(|number| (1..=24).contains(&number)),
        Field::TraceId => Id::<16>::from_text(value) != Id::Invalid,
        Field::SpanId => Id::<8>::from_text(value) != Id::Invalid,
        Field::TraceFlags => flags(value).is_some(),
        Field::Service | Field::Environment => {
            if value.is_empty() {
                candidate.rank += LAST_RESORT;
            }
            true
        }
        _ => true,
    }
}

fn parse_time(text: &str) -> Option<i64> {
    parse_epoch(text).or_else(|| parse_rfc3339(text))
}

fn whole(text: &str) -> Option<i64> {
    i64::try_from(Decimal::parse(text)?.whole()?).ok()
}

/// Two hex digits, as in a `traceparent`, or a number.
fn flags(text: &str) -> Option<u32> {
    match text.len() {
        2 => u32::from_str_radix(text, 16).ok(),
        _ => u8::try_from(whole(text)?).ok().map(u32::from),
    }
}

/// Syslog's numbers, by OpenTelemetry's table.
fn syslog_level(text: &str) -> Option<Level> {
    Some(match whole(text)? {
        0 => Level::Fatal,
        1..=3 => Level::Error,
        4 => Level::Warn,
        5 | 6 => Level::Info,
        7 => Level::Debug,
        _ => return None,
    })
}
