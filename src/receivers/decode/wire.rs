//! The protobuf wire format, read where it lies.
//!
//! Forgiving in what may vary (unknown fields and groups are skipped, varints need not be minimal,
//! fields come in any order) and strict in what means damage: a field that ends behind its message,
//! a wire type that its field cannot have.

use super::damage::Damage;

/// Groups inside groups that are skipped; unknown ones could otherwise nest without end.
const MAX_GROUPS: usize = 100;

/// A message, read from its front.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wire<'a> {
    rest: &'a [u8],
    /// Offset in the body of the byte behind the message.
    end: usize,
}

/// One field.
#[derive(Debug, Clone, Copy)]
pub(super) struct Field<'a> {
    /// Its number.
    pub(super) number: u32,
    value: Value<'a>,
    /// Offset in the body of the byte behind it.
    end: usize,
}

#[derive(Debug, Clone, Copy)]
enum Value<'a> {
    Varint(u64),
    Fixed64(u64),
    Fixed32(u32),
    Bytes(&'a [u8]),
    Group,
}

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

    /// The next field; `None` at the end of the message.
    #[inline]
    pub(super) fn next(&mut self) -> Result<Option<Field<'a>>, Damage> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let (number, kind) = self.key()?;
        let value = match kind {
            0 => Value::Varint(self.varint()?),
            1 => Value::Fixed64(u64::from_le_bytes(self.array()?)),
            2 => Value::Bytes(self.bytes()?),
            3 => {
                self.skip_group(number)?;
                Value::Group
            }
            5 => Value::Fixed32(u32::from_le_bytes(self.array()?)),
            4 => {
                return Err(Damage::new(
                    "a group ends that was not begun",
                    self.offset(),
                ));
            }
            _ => {
                return Err(Damage::new(
                    "wire type is 6 or 7, which do not exist",
                    self.offset(),
                ));
            }
        };
        Ok(Some(Field {
            number,
            value,
            end: self.offset(),
        }))
    }

    #[inline]
    fn key(&mut self) -> Result<(u32, u8), Damage> {
        let offset = self.offset();
        let key = self.varint()?;
        match u32::try_from(key) {
            Ok(key) if key >> 3 > 0 => Ok((key >> 3, key.to_le_bytes()[0] & 7)),
            _ => Err(Damage::new("field number is out of range", offset)),
        }
    }

    #[inline]
    fn varint(&mut self) -> Result<u64, Damage> {
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
    fn bytes(&mut self) -> Result<&'a [u8], Damage> {
        let length = self.varint()?;
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
            if self.rest.is_empty() {
                return Err(Damage::new("it ends within a group", self.offset()));
            }
            let (number, kind) = self.key()?;
            match kind {
                0 => drop(self.varint()?),
                1 => drop(self.array::<8>()?),
                2 => drop(self.bytes()?),
                3 if open.len() < MAX_GROUPS => open.push(number),
                3 => return Err(Damage::new("groups are nested too deep", self.offset())),
                4 if number == innermost => drop(open.pop()),
                5 => drop(self.array::<4>()?),
                _ => {
                    return Err(Damage::new(
                        "a group is not ended as it was begun",
                        self.offset(),
                    ));
                }
            }
        }
        Ok(())
    }
}

impl<'a> Field<'a> {
    #[cold]
    fn mismatch(&self, name: &'static str) -> Damage {
        Damage::new(
            "wire type does not fit the field; if these are traces or metrics: only logs are taken",
            self.end,
        )
        .within(name)
    }

    /// The number of a varint field.
    #[inline]
    pub(super) fn varint(&self, name: &'static str) -> Result<u64, Damage> {
        match self.value {
            Value::Varint(value) => Ok(value),
            _ => Err(self.mismatch(name)),
        }
    }

    /// The number of a fixed64 field.
    #[inline]
    pub(super) fn fixed64(&self, name: &'static str) -> Result<u64, Damage> {
        match self.value {
            Value::Fixed64(value) => Ok(value),
            _ => Err(self.mismatch(name)),
        }
    }

    /// The number of a fixed32 field.
    #[inline]
    pub(super) fn fixed32(&self, name: &'static str) -> Result<u32, Damage> {
        match self.value {
            Value::Fixed32(value) => Ok(value),
            _ => Err(self.mismatch(name)),
        }
    }

    /// The bytes of a string or bytes field.
    #[inline]
    pub(super) fn bytes(&self, name: &'static str) -> Result<&'a [u8], Damage> {
        match self.value {
            Value::Bytes(value) => Ok(value),
            _ => Err(self.mismatch(name)),
        }
    }

    /// The message of a message field.
    #[inline]
    pub(super) fn message(&self, name: &'static str) -> Result<Wire<'a>, Damage> {
        Ok(Wire {
            rest: self.bytes(name)?,
            end: self.end,
        })
    }
}
