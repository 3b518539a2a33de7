//! Server-Sent Events, read piece by piece as they arrive.

/// Largest event that is taken; the daemon's own are at most 256 KiB.
const MAX_EVENT_BYTES: usize = 16 << 20;

/// The stream sends an event without end.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("an event of the stream is over {MAX_EVENT_BYTES} bytes; is this a Watchtower?")]
pub(super) struct TooLarge;

/// One event.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Event {
    /// Its name; `message` where the stream gives none.
    pub(super) name: String,
    /// Its data, the lines joined by newlines.
    pub(super) data: String,
}

/// The state between two pieces of a stream.
#[derive(Debug, Default)]
pub(super) struct Parser {
    /// The beginning of a line whose end has not arrived.
    line: Vec<u8>,
    after_cr: bool,
    name: String,
    data: String,
    has_data: bool,
    next_id: Option<String>,
    /// The id of the last complete event, also of one without data: where to go on from.
    pub(super) last_id: Option<String>,
    /// How long the stream asks to wait before connecting again, in milliseconds.
    pub(super) retry_ms: Option<u64>,
}

impl Parser {
    /// Takes the next bytes and returns the events they complete.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Result<Vec<Event>, TooLarge> {
        let mut events = Vec::new();
        for &byte in bytes {
            let second_of_crlf =
                std::mem::replace(&mut self.after_cr, byte == b'\r') && byte == b'\n';
            match byte {
                b'\n' if second_of_crlf => {}
                b'\n' | b'\r' => {
                    let line = std::mem::take(&mut self.line);
                    events.extend(self.end_of_line(&String::from_utf8_lossy(&line)));
                }
                _ => self.line.push(byte),
            }
            if self.line.len() + self.data.len() > MAX_EVENT_BYTES {
                return Err(TooLarge);
            }
        }
        Ok(events)
    }

    fn end_of_line(&mut self, line: &str) -> Option<Event> {
        if line.is_empty() {
            return self.end_of_event();
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.name),
            "data" => {
                if std::mem::replace(&mut self.has_data, true) {
                    self.data.push('\n');
                }
                self.data.push_str(value);
            }
            "id" if !value.contains('\0') => self.next_id = Some(value.to_owned()),
            "retry" => self.retry_ms = value.parse().ok().or(self.retry_ms),
            // A comment, or a field that is not known.
            _ => {}
        }
        None
    }

    fn end_of_event(&mut self) -> Option<Event> {
        if let Some(id) = self.next_id.take() {
            self.last_id = Some(id);
        }
        let mut name = std::mem::take(&mut self.name);
        let data = std::mem::take(&mut self.data);
        if !std::mem::take(&mut self.has_data) {
            return None;
        }
        if name.is_empty() {
            "message".clone_into(&mut name);
        }
        Some(Event { name, data })
    }

    /// Forgets what has not arrived whole, before a new connection.
    pub(super) fn reconnect(&mut self) {
        *self = Self {
            last_id: self.last_id.take(),
            retry_ms: self.retry_ms,
            ..Self::default()
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(name: &str, data: &str) -> Event {
        Event {
            name: name.to_owned(),
            data: data.to_owned(),
        }
    }

    const STREAM: &str = "retry: 1500\n\n: comment\n\nevent: logs\nid: 7\ndata: [1,\ndata: 2]\n\n\
                          data:x\r\n\r\nid: 9\n\nevent: logs\rdata\r\rid: 10\ndata: cut";

    #[test]
    fn events_are_the_same_however_the_stream_is_cut() {
        for size in 1..STREAM.len() {
            let mut parser = Parser::default();
            let mut events = Vec::new();
            for piece in STREAM.as_bytes().chunks(size) {
                events.extend(parser.feed(piece).unwrap());
            }
            let expected = [
                event("logs", "[1,\n2]"),
                event("message", "x"),
                event("logs", ""),
            ];
            assert_eq!(events, expected, "pieces of {size}");
            assert_eq!(parser.last_id.as_deref(), Some("9"));
            assert_eq!(parser.retry_ms, Some(1500));
        }
    }

    #[test]
    fn a_new_connection_goes_on_after_the_last_whole_event() {
        let mut parser = Parser::default();
        parser.feed(STREAM.as_bytes()).unwrap();
        parser.reconnect();
        assert_eq!(parser.last_id.as_deref(), Some("9"));
        assert_eq!(
            parser.feed(b"data: new\n\n").unwrap(),
            [event("message", "new")]
        );
    }

    #[test]
    fn an_event_without_end_is_refused() {
        let mut parser = Parser::default();
        let piece = vec![b'x'; 1 << 20];
        let refused = (0..20).any(|_| parser.feed(&piece) == Err(TooLarge));
        assert!(refused);
    }
}
