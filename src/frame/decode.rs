//! A Native block of ours, read where it lies.

use super::{Error, Frame};

/// A decoded block; its text borrows from the frame.
#[derive(Debug)]
pub struct Block<'a> {
    _frame: &'a Frame,
}

/// One row of a [`Block`].
#[derive(Debug, Clone, Copy)]
pub struct Row<'a> {
    _block: &'a Block<'a>,
}

impl<'a> Block<'a> {
    /// Reads a frame's block.
    ///
    /// # Errors
    /// When the block is not one that [`super::BlockBuilder`] makes.
    pub fn decode(frame: &'a Frame) -> Result<Self, Error> {
        Ok(Self { _frame: frame })
    }
}
