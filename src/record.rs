//! The log record: what a request is normalized to, and what a frame stores.
//!
//! Everything here borrows from the request that carries it, and nothing here does I/O. The column
//! names and types are the store's (`store/schema.rs`); the mapping rules are `normalize`'s.

use std::borrow::Cow;

/// How bad a record says it is. The order is the order of severity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(u8)]
pub enum Level {
    /// The sender gave neither a usable number nor a usable text.
    #[default]
    Unspecified = 0,
    /// Severity numbers 1 to 4.
    Trace = 1,
    /// Severity numbers 5 to 8.
    Debug = 2,
    /// Severity numbers 9 to 12.
    Info = 3,
    /// Severity numbers 13 to 16.
    Warn = 4,
    /// Severity numbers 17 to 20.
    Error = 5,
    /// Severity numbers 21 to 24.
    Fatal = 6,
}

impl Level {
    /// Every level, least severe first.
    pub const ALL: [Level; 7] = [
        Level::Unspecified,
        Level::Trace,
        Level::Debug,
        Level::Info,
        Level::Warn,
        Level::Error,
        Level::Fatal,
    ];

    /// The name stored in the `level` column.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Level::Unspecified => "unspecified",
            Level::Trace => "trace",
            Level::Debug => "debug",
            Level::Info => "info",
            Level::Warn => "warn",
            Level::Error => "error",
            Level::Fatal => "fatal",
        }
    }

    /// The level with exactly this stored name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Level> {
        Level::ALL.into_iter().find(|level| level.as_str() == name)
    }
}

/// The door through which a record came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Receiver {
    /// OTLP over gRPC.
    OtlpGrpc = 0,
    /// OTLP over HTTP, protobuf or JSON.
    OtlpHttp = 1,
    /// The native JSON POST.
    Json = 2,
}

impl Receiver {
    /// Every receiver, in the order of the frame header's counters.
    pub const ALL: [Receiver; 3] = [Receiver::OtlpGrpc, Receiver::OtlpHttp, Receiver::Json];

    /// The name stored in the `receiver` column and used as a metric label.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Receiver::OtlpGrpc => "otlp_grpc",
            Receiver::OtlpHttp => "otlp_http",
            Receiver::Json => "json",
        }
    }
}

/// A key and its value as text. Keys are unique and not empty within one record or resource; the
/// one who makes the list sees to it (`normalize::attributes`).
pub type KeyValue<'a> = (Cow<'a, str>, Cow<'a, str>);

/// What the records of one (resource, scope) pair share. The frame encoder looks its strings up once
/// and then repeats the result for each record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group<'a> {
    /// `service.name`, or `unknown_service`.
    pub service: Cow<'a, str>,
    /// `deployment.environment.name` and its elders, or empty.
    pub environment: Cow<'a, str>,
    /// The instrumentation scope's name, or empty.
    pub scope_name: Cow<'a, str>,
    /// The instrumentation scope's version, or empty.
    pub scope_version: Cow<'a, str>,
    /// The resource's attributes.
    pub resource: Vec<KeyValue<'a>>,
    /// The door they came through.
    pub receiver: Receiver,
    /// When the request arrived, in milliseconds since the epoch.
    pub received_at: i64,
}

/// One normalized log record.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Record<'a> {
    /// Event time in nanoseconds since the epoch.
    pub timestamp: i64,
    /// The level that the severity came out as.
    pub level: Level,
    /// The severity number as sent; 0 where none or out of 1 to 24.
    pub severity_number: u8,
    /// The severity text as sent.
    pub severity_text: Cow<'a, str>,
    /// The body as text.
    pub message: Cow<'a, str>,
    /// The trace id, or `None` where absent or invalid.
    pub trace_id: Option<[u8; 16]>,
    /// The span id, or `None` where absent or invalid.
    pub span_id: Option<[u8; 8]>,
    /// The low eight bits of the flags.
    pub trace_flags: u8,
    /// The event's name, or empty.
    pub event_name: Cow<'a, str>,
    /// The record's attributes; its scope's too, their keys prefixed with `otel.scope.`.
    pub attributes: Vec<KeyValue<'a>>,
}

/// Takes records in the order in which a request holds them.
///
/// [`crate::frame::BlockBuilder`] is the one of the daemon; tests collect records with their own.
pub trait Sink {
    /// Sets what the records that follow share.
    fn group(&mut self, group: &Group<'_>);

    /// Takes one record. [`Sink::group`] was called at least once before.
    fn push(&mut self, record: &Record<'_>);

    /// Makes sure that there is memory for the records of the request once they come to so many bytes
    /// in all, before they do.
    ///
    /// # Errors
    /// When others hold it. The request may come again.
    fn hold(&mut self, bytes: usize) -> Result<(), NoRoom> {
        let _ = bytes;
        Ok(())
    }
}

/// The memory for requests is in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoRoom {
    /// Bytes in use.
    pub used: usize,
    /// Bytes that there are.
    pub cap: usize,
}
