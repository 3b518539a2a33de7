//! The protobuf wire format, read where it lies.
//!
//! Forgiving in what may vary (unknown fields and groups are skipped, varints need not be minimal,
//! fields come in any order) and strict in what means damage: a field that ends behind its message,
//! a wire type that its field cannot have.

use super::super::damage::Damage;

/// Groups inside groups that are skipped; unknown ones could otherwise nest without end.
const MAX_GROUPS: usize = 100;

/// A message, read from its front.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wire<'a> {
    rest: &'a [u8],
    /// Offset in the body of the byte behind the message.
    end: usize,
}

/// What stands before a field: its number and its wire type.
#[derive(Debug, Clone, Copy)]
pub(super) struct Key(u32);

impl Key {
    /// The field's number.
    #[inline(always)]
    pub(super) fn number(self) -> u32 {
        self.0 >> 3
    }

    #[inline(always)]
    fn kind(self) -> u32 {
        self.0 & 7
    }
}

const VARINT: u32 = 0;
const FIXED64: u32 = 1;
const BYTES: u32 = 2;
const GROUP: u32 = 3;
const GROUP_END: u32 = 4;
const FIXED32: u32 = 5;

impl<'a> Wire<'a> {
    /// The message that is the whole body.
    pub(super) fn new(body: &'a [u8]) -> Self {
        Self {
            rest: body,
            end: body.len(),
        }
    }

    fn offset(&self) -> usize {
        self.end - self.rest.len()
    }

    /// Whether the message is at its end.
    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The key of the next field. One of the functions below has to take the field.
    #[inline(always)]
    pub(super) fn key(&mut self) -> Result<Key, Damage> {
        match self.rest.split_first() {
            Some((&byte, rest)) if (8..0x80).contains(&byte) => {
                self.rest = rest;
                Ok(Key(byte.into()))
            }
            _ => self.long_key(),
        }
    }

    fn long_key(&mut self) -> Result<Key, Damage> {
        let offset = self.offset();
        match u32::try_from(self.raw_varint()?) {
            Ok(key) if key >> 3 > 0 => Ok(Key(key)),
            _ => Err(Damage::new("field number is out of range", offset)),
        }
    }

    #[cold]
    fn mismatch(&self, name: &'static str) -> Damage {
        Damage::new(
            "wire type does not fit the field; if these are traces or metrics: only logs are taken",
            self.offset(),
        )
        .within(name)
    }

    /// Takes a varint field.
    #[inline(always)]
    pub(super) fn varint(&mut self, key: Key, name: &'static str) -> Result<u64, Damage> {
        match key.kind() {
            VARINT => self.raw_varint(),
            _ => Err(self.mismatch(name)),
        }
    }

    /// Takes a fixed64 field.
    #[inline(always)]
    pub(super) fn fixed64(&mut self, key: Key, name: &'static str) -> Result<u64, Damage> {
        match key.kind() {
            FIXED64 => Ok(u64::from_le_bytes(self.array()?)),
            _ => Err(self.mismatch(name)),
        }
    }

    /// Takes a fixed32 field.
    #[inline(always)]
    pub(super) fn fixed32(&mut self, key: Key, name: &'static str) -> Result<u32, Damage> {
        match key.kind() {
            FIXED32 => Ok(u32::from_le_bytes(self.array()?)),
            _ => Err(self.mismatch(name)),
        }
    }

    /// Takes a string or bytes field.
    #[inline(always)]
    pub(super) fn bytes(&mut self, key: Key, name: &'static str) -> Result<&'a [u8], Damage> {
        match key.kind() {
            BYTES => self.raw_bytes(),
            _ => Err(self.mismatch(name)),
        }
    }

    /// Takes a message field.
    #[inline(always)]
    pub(super) fn message(&mut self, key: Key, name: &'static str) -> Result<Wire<'a>, Damage> {
        let rest = self.bytes(key, name)?;
        Ok(Wire {
            rest,
            end: self.offset(),
        })
    }

    /// Passes over a field, whatever it is.
    #[inline]
    pub(super) fn skip(&mut self, key: Key) -> Result<(), Damage> {
        match key.kind() {
            BYTES => self.raw_bytes().map(|_| ()),
            GROUP => self.skip_group(key.number()),
            GROUP_END => Err(Damage::new(
                "a group ends that was not begun",
                self.offset(),
            )),
            _ => self.skip_scalar(key),
        }
    }

    fn skip_scalar(&mut self, key: Key) -> Result<(), Damage> {
        match key.kind() {
            VARINT => self.raw_varint().map(|_| ()),
            FIXED64 => self.array::<8>().map(|_| ()),
            FIXED32 => self.array::<4>().map(|_| ()),
            _ => Err(Damage::new(
                "wire type is 6 or 7, which do not exist",
                self.offset(),
            )),
        }
    }

    #[inline]
    fn raw_varint(&mut self) -> Result<u64, Damage> {
        match self.rest.split_first() {
            Some((&byte, rest)) if byte < 0x80 => {
                self.rest = rest;
                Ok(byte.into())
            }
            _ => self.long_varint(),
        }
    }

    fn long_varint(&mut self) -> Result<u64, Damage> {
        let mut value = 0;
        for (index, &byte) in self.rest.iter().take(10).enumerate() {
            value |= u64::from(byte & 0x7f) << (7 * index);
            if byte < 0x80 {
                if index == 9 && byte > 1 {
                    break;
                }
                self.rest = self.rest.get(index + 1..).unwrap_or_default();
                return Ok(value);
            }
        }
        let what = if self.rest.len() < 10 {
            "it ends within a number"
        } else {
            "number is over 64 bits"
        };
        Err(Damage::new(what, self.offset()))
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N], Damage> {
        let Some((value, rest)) = self.rest.split_first_chunk() else {
            return Err(Damage::new("it ends within a number", self.offset()));
        };
        self.rest = rest;
        Ok(*value)
    }

    #[inline]
    fn raw_bytes(&mut self) -> Result<&'a [u8], Damage> {
        let length = self.raw_varint()?;
        let split = usize::try_from(length)
            .ok()
            .and_then(|length| self.rest.split_at_checked(length));
        let Some((value, rest)) = split else {
            return Err(Damage::new(
                "its length goes beyond the end of its message",
                self.offset(),
            ));
        };
        self.rest = rest;
        Ok(value)
    }

    fn skip_group(&mut self, number: u32) -> Result<(), Damage> {
        let mut open = vec![number];
        while let Some(&innermost) = open.last() {
            if self.is_empty() {
                return Err(Damage::new("it ends within a group", self.offset()));
            }
            let key = self.key()?;
            match key.kind() {
                GROUP if open.len() < MAX_GROUPS => open.push(key.number()),
                GROUP => return Err(Damage::new("groups are nested too deep", self.offset())),
                GROUP_END if key.number() == innermost => drop(open.pop()),
                GROUP_END => {
                    return Err(Damage::new(
                        "a group is not ended as it was begun",
                        self.offset(),
                    ));
                }
                _ => self.skip(key)?,
            }
        }
        Ok(())
    }
}
