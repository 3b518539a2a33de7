//! JSON strings: where they end, and what their escapes mean.

use memchr::{memchr, memchr3};

use super::super::damage::Damage;
use crate::normalize::Repairs;

/// Where a string ends, or anything but plain text begins. Most strings are short: eight bytes at a
/// time finds their end before a vector search has begun.
#[inline]
pub(super) fn find_special(text: &[u8]) -> Option<usize> {
    const WORDS: usize = 6;
    let mut rest = text;
    for word in 0..WORDS {
        let Some((bytes, tail)) = rest.split_first_chunk() else {
            break;
        };
        let found = special_bytes(u64::from_le_bytes(*bytes));
        if found != 0 {
            return Some(word * 8 + found.trailing_zeros() as usize / 8);
        }
        rest = tail;
    }
    let found = memchr3(b'"', b'\\', b'\n', rest)?;
    Some(text.len() - rest.len() + found)
}

/// The top bit of the lowest byte that is a quote, a backslash or a line feed; those above it mean
/// nothing.
#[inline]
fn special_bytes(word: u64) -> u64 {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    let zero_bytes = |word: u64| word.wrapping_sub(ONES) & !word & (ONES << 7);
    let equal = |byte: u8| zero_bytes(word ^ (ONES * u64::from(byte)));
    equal(b'"') | equal(b'\\') | equal(b'\n')
}

/// The text of a string's inside; `offset` is where it stands in the body.
pub(super) fn unescape(raw: &[u8], offset: usize, repairs: &mut Repairs) -> Result<String, Damage> {
    let mut text = Vec::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(found) = memchr(b'\\', rest) {
        let (plain, tail) = rest.split_at(found);
        text.extend_from_slice(plain);
        let here = offset + (raw.len() - tail.len());
        let (escape, tail) = match tail {
            [_, escape, tail @ ..] => (*escape, tail),
            _ => return Err(Damage::new("a string ends within an escape", here)),
        };
        rest = tail;
        let plain = match escape {
            b'"' | b'\\' | b'/' => escape,
            b'b' => 0x08,
            b'f' => 0x0c,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => {
                let character = unicode_escape(&mut rest)
                    .ok_or_else(|| Damage::new("four hex digits should follow \\u", here))?;
                repairs.invalid_utf8 += u32::from(character.is_none());
                let character = character.unwrap_or(char::REPLACEMENT_CHARACTER);
                text.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                continue;
            }
            _ => return Err(Damage::new("there is no such escape in a string", here)),
        };
        text.push(plain);
    }
    text.extend_from_slice(rest);
    Ok(String::from_utf8(text).unwrap_or_else(|error| {
        repairs.invalid_utf8 += 1;
        String::from_utf8_lossy(error.as_bytes()).into_owned()
    }))
}

/// Reads what follows `\u`, and a second escape where the first is half a pair. `Some(None)` is half
/// a pair without its other half.
fn unicode_escape(rest: &mut &[u8]) -> Option<Option<char>> {
    let high = four_hex(rest)?;
    if !(0xd800..0xdc00).contains(&high) {
        return Some(char::from_u32(high));
    }
    let Some(mut behind) = rest.strip_prefix(b"\\u") else {
        return Some(None);
    };
    match four_hex(&mut behind) {
        Some(low) if (0xdc00..0xe000).contains(&low) => {
            *rest = behind;
            Some(char::from_u32(
                0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00),
            ))
        }
        _ => Some(None),
    }
}

fn four_hex(rest: &mut &[u8]) -> Option<u32> {
    let (digits, tail) = rest.split_first_chunk::<4>()?;
    let mut value = 0;
    for &digit in digits {
        value = value << 4 | char::from(digit).to_digit(16)?;
    }
    *rest = tail;
    Some(value)
}
