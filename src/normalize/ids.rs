//! Trace and span ids: valid, or none. An invalid id never costs its record.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// What a sender's id field came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Id<const N: usize> {
    /// The field is absent, empty or all zeroes: the record has no id.
    Absent,
    /// It holds something that is no id.
    Invalid,
    /// A valid id.
    Valid([u8; N]),
}

impl<const N: usize> Id<N> {
    /// From the bytes of a protobuf field. Some senders put the hex text there; it is as unambiguous.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Self {
        if let Ok(id) = bytes.try_into() {
            return Self::of(id);
        }
        match bytes {
            [] => Self::Absent,
            _ => hex(bytes).map_or(Self::Invalid, Self::of),
        }
    }

    /// The bytes of a protobuf field that is no id, in hex; empty for an id.
    pub(crate) fn odd_bytes(self, bytes: &[u8]) -> Cow<'static, str> {
        /// Bytes that are told of a long field.
        const MOST: usize = 512;
        if self != Self::Invalid {
            return Cow::Borrowed("");
        }
        let told = bytes.get(..MOST).unwrap_or(bytes);
        told.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// From text: hex in either case, or the base64 that generic protobuf-to-JSON mappers write.
    pub(crate) fn from_text(text: &str) -> Self {
        if text.is_empty() {
            return Self::Absent;
        }
        hex(text.as_bytes())
            .or_else(|| base64_id(text))
            .map_or(Self::Invalid, Self::of)
    }

    fn of(id: [u8; N]) -> Self {
        if id == [0; N] {
            Self::Absent
        } else {
            Self::Valid(id)
        }
    }

    /// The id, if it is valid.
    pub(crate) fn valid(self) -> Option<[u8; N]> {
        match self {
            Self::Valid(id) => Some(id),
            Self::Absent | Self::Invalid => None,
        }
    }
}

fn hex<const N: usize>(digits: &[u8]) -> Option<[u8; N]> {
    if digits.len() != 2 * N {
        return None;
    }
    let mut id = [0; N];
    for (byte, pair) in id.iter_mut().zip(digits.chunks_exact(2)) {
        let &[high, low] = pair else { return None };
        *byte = nibble(high)? << 4 | nibble(low)?;
    }
    Some(id)
}

fn nibble(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

fn base64_id<const N: usize>(text: &str) -> Option<[u8; N]> {
    // The padded length first, so that decoding never allocates for what cannot be an id.
    if text.len() != N.div_ceil(3) * 4 {
        return None;
    }
    STANDARD.decode(text).ok()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn m_24_only_ids_of_the_right_length_count() {
        let id: [u8; 16] = std::array::from_fn(|i| i as u8 + 1);
        assert_eq!(Id::from_bytes(&id), Id::Valid(id));
        assert_eq!(Id::<16>::from_bytes(&[]), Id::Absent);
        assert_eq!(Id::<16>::from_bytes(&[0; 16]), Id::Absent);
        assert_eq!(Id::<16>::from_bytes(&[7; 15]), Id::Invalid);
        assert_eq!(Id::<16>::from_bytes(&[7; 32]), Id::Invalid);
        assert_eq!(Id::<8>::from_bytes(&[7; 16]), Id::Invalid);
    }

    #[test]
    fn j_03_hex_of_either_case() {
        let id = *b"\x5b\x8e\xff\xf7\x98\x03\x81\x03\xd2\x69\xb6\x33\x81\x3f\xc6\x0c";
        assert_eq!(
            Id::from_text("5B8EFFF798038103D269B633813FC60C"),
            Id::Valid(id)
        );
        assert_eq!(
            Id::from_text("5b8efff798038103d269b633813fc60c"),
            Id::Valid(id)
        );
        for text in [
            "5b8",
            "zz8efff798038103d269b633813fc60c",
            "5b8efff798038103d269b633813fc60c00",
        ] {
            assert_eq!(Id::<16>::from_text(text), Id::Invalid, "{text}");
        }
        assert_eq!(Id::<16>::from_text(""), Id::Absent);
        assert_eq!(Id::<8>::from_text("0000000000000000"), Id::Absent);
    }

    #[test]
    fn m_25_ids_in_the_other_encoding_are_rescued() {
        assert_eq!(
            Id::from_bytes(b"eee19b7ec3c1b174"),
            Id::Valid(*b"\xee\xe1\x9b\x7e\xc3\xc1\xb1\x74")
        );
        assert_eq!(
            Id::from_text("7uGbfsPBsXQ="),
            Id::Valid(*b"\xee\xe1\x9b\x7e\xc3\xc1\xb1\x74")
        );
        assert_eq!(
            Id::from_text("W47/95gDgQPSabYzgT/GDA=="),
            Id::from_text("5b8efff798038103d269b633813fc60c") as Id<16>
        );
    }
}
