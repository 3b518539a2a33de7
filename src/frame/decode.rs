//! A Native block of ours, read where it lies.

use super::header::ID_STEP;
use super::native::{COLUMNS, MAP_OF_FEW, kind_in};
use super::read::{LowCardinality, MapColumn, Reader, fixed};
use super::{Error, Frame, Header};
use crate::record::{Level, Receiver};

/// A decoded block; its text borrows from the frame. Every look-up is of constant cost.
///
/// Methods that take a row panic when there is no such row, as a slice does.
#[derive(Debug)]
pub struct Block<'a> {
    rows: usize,
    timestamps: &'a [u8],
    ids: &'a [u8],
    levels: LowCardinality<'a>,
    severity_numbers: &'a [u8],
    severity_texts: LowCardinality<'a>,
    services: LowCardinality<'a>,
    environments: LowCardinality<'a>,
    messages: Vec<&'a str>,
    trace_ids: Vec<&'a str>,
    span_ids: Vec<&'a str>,
    trace_flags: &'a [u8],
    event_names: LowCardinality<'a>,
    scope_names: LowCardinality<'a>,
    scope_versions: LowCardinality<'a>,
    attributes: MapColumn<'a>,
    resources: MapColumn<'a>,
    receivers: LowCardinality<'a>,
    received_at: &'a [u8],
}

/// One row of a [`Block`].
#[derive(Debug, Clone, Copy)]
pub struct Row<'a> {
    block: &'a Block<'a>,
    row: usize,
}

impl<'a> Block<'a> {
    /// Reads a frame's block and checks all of it.
    ///
    /// # Errors
    /// [`Error::Block`] when the block is not one that [`super::BlockBuilder`] makes, or not the one
    /// that the frame's header speaks of.
    pub fn decode(frame: &'a Frame) -> Result<Self, Error> {
        let mut reader = Reader::new(frame.block());
        if reader.varint()? != COLUMNS.len() {
            return Err(reader.error("another number of columns than the records table has"));
        }
        let rows = reader.varint()?;
        if rows != frame.header().num_records as usize {
            return Err(reader.error("another number of rows than the header says"));
        }
        let mut columns = Columns {
            reader,
            columns: COLUMNS.iter(),
            version: frame.header().version,
            rows,
        };
        // The order of COLUMNS: the fields of a struct expression are evaluated as they are written.
        let block = Block {
            rows,
            timestamps: columns.numbers(8)?,
            ids: columns.numbers(8)?,
            levels: columns.closed_set(&Level::ALL.map(Level::as_str))?,
            severity_numbers: columns.numbers(1)?,
            severity_texts: columns.low_cardinality()?,
            services: columns.low_cardinality()?,
            environments: columns.low_cardinality()?,
            messages: columns.strings()?,
            trace_ids: columns.strings()?,
            span_ids: columns.strings()?,
            trace_flags: columns.numbers(1)?,
            event_names: columns.low_cardinality()?,
            scope_names: columns.low_cardinality()?,
            scope_versions: columns.low_cardinality()?,
            attributes: columns.map()?,
            resources: columns.map()?,
            receivers: columns.closed_set(&Receiver::ALL.map(Receiver::as_str))?,
            received_at: columns.numbers(8)?,
        };
        if !columns.reader.is_at_end() {
            return Err(columns.reader.error("more bytes follow the last column"));
        }
        block.check(frame.header(), &columns.reader)?;
        Ok(block)
    }

    /// Holds what the header says of the rows against the rows.
    fn check(&self, header: &Header, reader: &Reader<'_>) -> Result<(), Error> {
        let ids = (0..self.rows).map(|row| u64::from_le_bytes(fixed(self.ids, row)));
        let mut expected = header.first_id;
        for id in ids {
            if id != expected {
                return Err(reader.error("its ids are not those of the header"));
            }
            // The header's last id was checked not to overflow; one step beyond it may.
            expected = expected.wrapping_add(ID_STEP);
        }
        let mut accepted = [0; Receiver::ALL.len()];
        for row in 0..self.rows {
            accepted[self.receivers.index(row)] += 1;
        }
        if accepted != header.accepted {
            return Err(reader.error("its receivers are not those of the header"));
        }
        Ok(())
    }

    /// Number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Whether there is no row; a frame always has one.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// The rows, oldest id first.
    pub fn rows(&self) -> impl DoubleEndedIterator<Item = Row<'_>> + ExactSizeIterator {
        (0..self.rows).map(|row| Row { block: self, row })
    }

    /// One row, if it is there.
    #[must_use]
    pub fn row(&self, row: usize) -> Option<Row<'_>> {
        (row < self.rows).then_some(Row { block: self, row })
    }

    /// A row's event time in nanoseconds since the epoch.
    #[must_use]
    pub fn timestamp(&self, row: usize) -> i64 {
        i64::from_le_bytes(fixed(self.timestamps, row))
    }

    /// A row's id.
    #[must_use]
    pub fn id(&self, row: usize) -> u64 {
        u64::from_le_bytes(fixed(self.ids, row))
    }

    /// A row's level.
    #[must_use]
    pub fn level(&self, row: usize) -> Level {
        Level::ALL[self.levels.index(row)]
    }

    /// A row's severity number as sent; 0 where there was none.
    #[must_use]
    pub fn severity_number(&self, row: usize) -> u8 {
        self.severity_numbers[row]
    }

    /// The severity texts as sent.
    #[must_use]
    pub fn severity_text(&self) -> &LowCardinality<'a> {
        &self.severity_texts
    }

    /// The services.
    #[must_use]
    pub fn service(&self) -> &LowCardinality<'a> {
        &self.services
    }

    /// The environments.
    #[must_use]
    pub fn environment(&self) -> &LowCardinality<'a> {
        &self.environments
    }

    /// The messages, one per row.
    #[must_use]
    pub fn messages(&self) -> &[&'a str] {
        &self.messages
    }

    /// The trace ids in lower hex, one per row, empty where there was none.
    #[must_use]
    pub fn trace_ids(&self) -> &[&'a str] {
        &self.trace_ids
    }

    /// The span ids in lower hex, one per row, empty where there was none.
    #[must_use]
    pub fn span_ids(&self) -> &[&'a str] {
        &self.span_ids
    }

    /// A row's trace flags.
    #[must_use]
    pub fn trace_flags(&self, row: usize) -> u8 {
        self.trace_flags[row]
    }

    /// The event names.
    #[must_use]
    pub fn event_name(&self) -> &LowCardinality<'a> {
        &self.event_names
    }

    /// The names of the instrumentation scopes.
    #[must_use]
    pub fn scope_name(&self) -> &LowCardinality<'a> {
        &self.scope_names
    }

    /// The versions of the instrumentation scopes.
    #[must_use]
    pub fn scope_version(&self) -> &LowCardinality<'a> {
        &self.scope_versions
    }

    /// The attributes.
    #[must_use]
    pub fn attributes(&self) -> &MapColumn<'a> {
        &self.attributes
    }

    /// The resources' attributes.
    #[must_use]
    pub fn resource(&self) -> &MapColumn<'a> {
        &self.resources
    }

    /// The door through which a row came.
    #[must_use]
    pub fn receiver(&self, row: usize) -> Receiver {
        Receiver::ALL[self.receivers.index(row)]
    }

    /// When a row's request arrived, in milliseconds since the epoch.
    #[must_use]
    pub fn received_at(&self, row: usize) -> i64 {
        i64::from_le_bytes(fixed(self.received_at, row))
    }
}

impl<'a> Row<'a> {
    /// Which row of its block it is, from 0.
    #[must_use]
    pub fn index(&self) -> usize {
        self.row
    }

    /// Event time in nanoseconds since the epoch.
    #[must_use]
    pub fn timestamp(&self) -> i64 {
        self.block.timestamp(self.row)
    }

    /// The id.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.block.id(self.row)
    }

    /// The level.
    #[must_use]
    pub fn level(&self) -> Level {
        self.block.level(self.row)
    }

    /// The severity number as sent; 0 where there was none.
    #[must_use]
    pub fn severity_number(&self) -> u8 {
        self.block.severity_number(self.row)
    }

    /// The severity text as sent.
    #[must_use]
    pub fn severity_text(&self) -> &'a str {
        self.block.severity_texts.get(self.row)
    }

    /// The service.
    #[must_use]
    pub fn service(&self) -> &'a str {
        self.block.services.get(self.row)
    }

    /// The environment, or empty.
    #[must_use]
    pub fn environment(&self) -> &'a str {
        self.block.environments.get(self.row)
    }

    /// The message.
    #[must_use]
    pub fn message(&self) -> &'a str {
        self.block.messages[self.row]
    }

    /// The trace id in lower hex, or empty.
    #[must_use]
    pub fn trace_id(&self) -> &'a str {
        self.block.trace_ids[self.row]
    }

    /// The span id in lower hex, or empty.
    #[must_use]
    pub fn span_id(&self) -> &'a str {
        self.block.span_ids[self.row]
    }

    /// The low eight bits of the flags.
    #[must_use]
    pub fn trace_flags(&self) -> u8 {
        self.block.trace_flags(self.row)
    }

    /// The event's name, or empty.
    #[must_use]
    pub fn event_name(&self) -> &'a str {
        self.block.event_names.get(self.row)
    }

    /// The instrumentation scope's name, or empty.
    #[must_use]
    pub fn scope_name(&self) -> &'a str {
        self.block.scope_names.get(self.row)
    }

    /// The instrumentation scope's version, or empty.
    #[must_use]
    pub fn scope_version(&self) -> &'a str {
        self.block.scope_versions.get(self.row)
    }

    /// The attributes, in the order in which they were sent.
    pub fn attributes(&self) -> impl ExactSizeIterator<Item = (&'a str, &'a str)> + use<'a> {
        self.block.attributes.entries(self.row)
    }

    /// The resource's attributes, in the order in which they were sent.
    pub fn resource(&self) -> impl ExactSizeIterator<Item = (&'a str, &'a str)> + use<'a> {
        self.block.resources.entries(self.row)
    }

    /// The door through which it came.
    #[must_use]
    pub fn receiver(&self) -> Receiver {
        self.block.receiver(self.row)
    }

    /// When its request arrived, in milliseconds since the epoch.
    #[must_use]
    pub fn received_at(&self) -> i64 {
        self.block.received_at(self.row)
    }
}

/// Reads one column after the other, each under the name and type that it must have.
struct Columns<'a> {
    reader: Reader<'a>,
    columns: std::slice::Iter<'static, super::Column>,
    version: u16,
    rows: usize,
}

impl<'a> Columns<'a> {
    fn begin(&mut self) -> Result<&mut Reader<'a>, Error> {
        let column = self.columns.next().expect("no more columns than COLUMNS");
        self.reader
            .column(column.name, kind_in(self.version, column))?;
        Ok(&mut self.reader)
    }

    fn numbers(&mut self, bytes: usize) -> Result<&'a [u8], Error> {
        let rows = self.rows;
        self.begin()?.items(rows, bytes)
    }

    fn strings(&mut self) -> Result<Vec<&'a str>, Error> {
        let rows = self.rows;
        self.begin()?.strings(rows)
    }

    fn low_cardinality(&mut self) -> Result<LowCardinality<'a>, Error> {
        let rows = self.rows;
        self.begin()?.low_cardinality(rows)
    }

    /// A column whose dictionary is always the same, so that an index says which one it is.
    fn closed_set(&mut self, names: &[&str]) -> Result<LowCardinality<'a>, Error> {
        let column = self.low_cardinality()?;
        if column.dictionary() != names {
            return Err(self.reader.error("not the names that this column can have"));
        }
        Ok(column)
    }

    fn map(&mut self) -> Result<MapColumn<'a>, Error> {
        let (rows, next) = (self.rows, self.columns.as_slice().first());
        let of_few = next.is_some_and(|column| kind_in(self.version, column) == MAP_OF_FEW);
        self.begin()?.map(rows, of_few)
    }
}
