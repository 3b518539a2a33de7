//! Where a stream stands: the last id of each node.

use std::fmt;
use std::str::FromStr;

use crate::frame::ID_STEP;

/// Most nodes of a cursor: as many as ids can name.
const MAX_NODES: usize = ID_STEP as usize;

/// The node that gave out an id.
#[must_use]
pub const fn node_of(id: u64) -> u16 {
    (id % ID_STEP) as u16
}

/// A text that is not a cursor.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a cursor of this daemon")]
pub struct CursorError;

/// The last id of each node that a stream has passed. Its text (`node:id,…`) is opaque to clients.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cursor {
    /// Sorted by node; there are few.
    nodes: Vec<(u16, u64)>,
}

impl Cursor {
    /// A cursor that stands at one record.
    #[must_use]
    pub fn at(id: u64) -> Self {
        Self {
            nodes: vec![(node_of(id), id)],
        }
    }

    /// The last id of a node.
    #[must_use]
    pub fn get(&self, node: u16) -> Option<u64> {
        self.nodes
            .binary_search_by_key(&node, |entry| entry.0)
            .ok()
            .and_then(|at| self.nodes.get(at))
            .map(|entry| entry.1)
    }

    /// The nodes and their last ids.
    pub fn iter(&self) -> impl Iterator<Item = (u16, u64)> + '_ {
        self.nodes.iter().copied()
    }

    /// Moves on to an id; never back.
    pub fn advance(&mut self, id: u64) {
        let node = node_of(id);
        match self.nodes.binary_search_by_key(&node, |entry| entry.0) {
            Ok(at) => self.nodes[at].1 = self.nodes[at].1.max(id),
            Err(at) => self.nodes.insert(at, (node, id)),
        }
    }

    /// This cursor, moved on to an id.
    #[must_use]
    pub fn advanced(&self, id: u64) -> Self {
        let mut cursor = self.clone();
        cursor.advance(id);
        cursor
    }

    /// Whether the record with this id was passed.
    #[must_use]
    pub fn has_passed(&self, id: u64) -> bool {
        self.get(node_of(id)).is_some_and(|last| last >= id)
    }

    /// Whether everything that `other` has passed was passed here too.
    #[must_use]
    pub fn covers(&self, other: &Cursor) -> bool {
        other.iter().all(|(_, id)| self.has_passed(id))
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (node, id)) in self.iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            write!(f, "{comma}{node}:{id}")?;
        }
        Ok(())
    }
}

impl FromStr for Cursor {
    type Err = CursorError;

    fn from_str(text: &str) -> Result<Self, CursorError> {
        let mut cursor = Cursor::default();
        for (i, part) in text.split(',').enumerate() {
            let (node, id) = part.split_once(':').ok_or(CursorError)?;
            let node: u16 = node.parse().map_err(|_| CursorError)?;
            let id: u64 = id.parse().map_err(|_| CursorError)?;
            if i >= MAX_NODES || node_of(id) != node {
                return Err(CursorError);
            }
            cursor.advance(id);
        }
        Ok(cursor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_gives_back_the_cursor() {
        let mut cursor = Cursor::at(7 * ID_STEP + 1);
        cursor.advance(9 * ID_STEP + 2);
        cursor.advance(8 * ID_STEP + 1);
        assert_eq!(cursor.to_string(), "1:8193,2:9218");
        assert_eq!(cursor.to_string().parse(), Ok(cursor));
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "1",
            "1:",
            ":5",
            "1:8194",
            "70000:1",
            "1:8193,",
            "1:-8",
            "x:y",
            "1:99999999999999999999",
        ] {
            assert_eq!(text.parse::<Cursor>(), Err(CursorError), "{text}");
        }
    }

    #[test]
    fn never_moves_back() {
        let mut cursor = Cursor::at(5 * ID_STEP);
        cursor.advance(3 * ID_STEP);
        assert_eq!(cursor.get(0), Some(5 * ID_STEP));
        assert!(cursor.has_passed(5 * ID_STEP) && !cursor.has_passed(6 * ID_STEP));
        assert!(!cursor.has_passed(ID_STEP + 1), "another node's record");
        assert!(cursor.covers(&Cursor::default()) && !Cursor::default().covers(&cursor));
    }
}
