//! What is heard of an answer while it comes in: the head, which says what the crate does not, and
//! how many bytes there are.

use std::io;
use std::sync::{Mutex, PoisonError};

/// Most bytes of an answer. A page of 1,000 records of a mebibyte each would be more; such a search
/// is refused rather than held in memory.
pub(super) const ANSWER_LIMIT: usize = 64 << 20;
/// Most headers that are looked at; as many as hyper takes.
const MAX_HEADERS: usize = 100;

const EXCEPTION_CODE: &str = "x-clickhouse-exception-code";
const EXCEPTION_TAG: &str = "x-clickhouse-exception-tag";

/// What an answer's head says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Head {
    /// The HTTP status.
    pub(super) status: u16,
    /// The exception's code, whatever the status; 0 if it cannot be read.
    pub(super) code: Option<i32>,
    /// What marks an exception that follows data; data cannot guess it.
    pub(super) tag: Option<String>,
}

/// The answer to the request that a line carries.
#[derive(Debug, Default)]
pub(super) struct Heard(Mutex<Answer>);

#[derive(Debug, Default)]
struct Answer {
    /// What came of the head, until it is whole.
    begun: Vec<u8>,
    head: Option<Head>,
    bytes: usize,
    /// It may be of any size: whoever asked does not keep it.
    endless: bool,
}

impl Heard {
    /// Forgets the answer before. The line is quiet then.
    pub(super) fn forget(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Answer::default();
    }

    /// As [`Heard::forget`], for an answer that may be of any size.
    pub(super) fn expect_endless(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Answer {
            endless: true,
            ..Answer::default()
        };
    }

    /// The head, once it is whole.
    pub(super) fn head(&self) -> Option<Head> {
        let answer = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        answer.head.clone()
    }

    /// Whether the answer was cut for its size.
    pub(super) fn is_too_large(&self) -> bool {
        let answer = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        answer.is_too_large()
    }

    /// Takes the next bytes.
    ///
    /// # Errors
    /// When the answer is too large: the socket is not read further.
    pub(super) fn hear(&self, bytes: &[u8]) -> io::Result<()> {
        let mut answer = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        answer.bytes = answer.bytes.saturating_add(bytes.len());
        if answer.is_too_large() {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        if answer.head.is_none() {
            answer.begun.extend_from_slice(bytes);
            answer.read_head();
        }
        Ok(())
    }
}

impl Answer {
    fn is_too_large(&self) -> bool {
        !self.endless && self.bytes > ANSWER_LIMIT
    }

    fn read_head(&mut self) {
        loop {
            let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
            let mut response = httparse::Response::new(&mut headers);
            // What is no head is none for hyper either, which says so.
            let Ok(httparse::Status::Complete(length)) = response.parse(&self.begun) else {
                return;
            };
            let status = response.code.unwrap_or_default();
            if (100..200).contains(&status) {
                // Said in between; the answer is still to come.
                self.begun.drain(..length);
                continue;
            }
            let value = |name: &str| {
                let mut headers = response.headers.iter();
                let header = headers.find(|header| header.name.eq_ignore_ascii_case(name))?;
                Some(String::from_utf8_lossy(header.value).trim().to_owned())
            };
            self.head = Some(Head {
                status,
                code: value(EXCEPTION_CODE).map(|code| code.parse().unwrap_or_default()),
                tag: value(EXCEPTION_TAG),
            });
            self.begun = Vec::new();
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn head_is_heard_in_any_pieces() {
        let answer = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nx-clickhouse-Exception-Code:  159 \r\n\
              X-ClickHouse-Exception-Tag: abc\r\nContent-Length: 4\r\n\r\nX-ClickHouse-Exception-Code: 1\r\n";
        for size in [1, 7, answer.len()] {
            let heard = Heard::default();
            for piece in answer.chunks(size) {
                heard.hear(piece).unwrap();
            }
            let head = Head {
                status: 200,
                code: Some(159),
                tag: Some("abc".to_owned()),
            };
            assert_eq!(heard.head(), Some(head), "{size}");
            heard.forget();
            assert_eq!(heard.head(), None);
        }
    }

    #[test]
    fn unreadable_code_is_an_exception_all_the_same() {
        let heard = Heard::default();
        heard
            .hear(b"HTTP/1.1 200 OK\r\nX-ClickHouse-Exception-Code: ?\r\n")
            .unwrap();
        assert_eq!(heard.head(), None);
        heard.hear(b"\r\n").unwrap();
        assert_eq!(heard.head().unwrap().code, Some(0));
        assert_eq!(heard.head().unwrap().tag, None);
    }

    #[test]
    fn too_large_an_answer_is_not_read_on() {
        let heard = Heard::default();
        let mebibyte = vec![b'x'; 1 << 20];
        for _ in 0..64 {
            heard.hear(&mebibyte).unwrap();
        }
        assert!(!heard.is_too_large());
        assert!(heard.hear(b"x").is_err());
        assert!(heard.is_too_large());
        heard.expect_endless();
        for _ in 0..65 {
            heard.hear(&mebibyte).unwrap();
        }
        assert!(!heard.is_too_large());
    }
}
