//! Doors for the fuzz targets to what is private here. Not part of any build but theirs.

use super::sse::Parser;

/// Reads a stream of events that arrives in pieces of one size: each event's name and data, and the
/// last id. `None` where an event is too large.
#[must_use]
pub fn read_events(stream: &[u8], piece: usize) -> Option<(Vec<(String, String)>, Option<String>)> {
    let mut parser = Parser::default();
    let mut events = Vec::new();
    for piece in stream.chunks(piece.max(1)) {
        let some = parser.feed(piece).ok()?;
        events.extend(some.into_iter().map(|event| (event.name, event.data)));
    }
    Some((events, parser.last_id))
}
