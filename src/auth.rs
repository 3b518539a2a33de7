//! Tokens: who may send and who may read.

use std::sync::atomic::{AtomicU64, Ordering};

use http::HeaderMap;
use http::header::AUTHORIZATION;
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};

use crate::config::Secret;

/// Why a request may not pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Denied {
    /// It carries no token.
    Missing,
    /// It carries one that is not on the list.
    Wrong,
    /// It carries one that may do something else.
    Other,
}

impl Denied {
    /// What to tell the sender.
    #[must_use]
    pub fn message(self) -> &'static str {
        match self {
            Denied::Missing => {
                "a token is required: send the header `Authorization: Bearer <token>`"
            }
            Denied::Wrong => "the token is not one of this server's",
            Denied::Other => {
                "the token may read and not send; use one of `auth.ingest_tokens`, not of `auth.read_tokens`"
            }
        }
    }
}

/// A list of tokens. An empty one lets everybody pass.
#[derive(Debug, Clone, Default)]
pub struct Tokens {
    tokens: std::sync::Arc<[Secret]>,
    /// Known ones that may do something else.
    others: std::sync::Arc<[Secret]>,
    /// How often each was used.
    uses: std::sync::Arc<[std::sync::Arc<AtomicU64>]>,
}

impl Tokens {
    /// The tokens that may pass, and others that are known and may not.
    #[must_use]
    pub fn new(tokens: &[Secret], others: &[Secret]) -> Self {
        Self {
            tokens: tokens.into(),
            others: others.into(),
            uses: std::sync::Arc::default(),
        }
    }

    /// Counts each use of a token; `counter` gives the one for a name, which is the token's place among the others
    /// (from 1) where it has none of its own.
    #[must_use]
    pub fn counted(mut self, counter: impl Fn(&str) -> std::sync::Arc<AtomicU64>) -> Self {
        let named = self.tokens.iter().zip(1..).map(|(token, place): (_, u32)| {
            let place = place.to_string();
            counter(token.name().unwrap_or(&place))
        });
        self.uses = named.collect();
        self
    }

    /// Whether no token is asked for.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.tokens.is_empty()
    }

    /// Checks `Authorization: Bearer <token>`; the scheme's case does not matter (RFC 9110 §11.1).
    ///
    /// # Errors
    /// When tokens are asked for and the headers carry none, or a wrong one.
    pub fn check(&self, headers: &HeaderMap) -> Result<(), Denied> {
        if self.is_open() {
            return Ok(());
        }
        let value = headers
            .get(AUTHORIZATION)
            .ok_or(Denied::Missing)?
            .as_bytes();
        let Some((scheme, token)) = value.split_first_chunk::<7>() else {
            return Err(Denied::Missing);
        };
        if !scheme.eq_ignore_ascii_case(b"bearer ") {
            return Err(Denied::Missing);
        }
        self.check_token(token.trim_ascii())
    }

    /// A number for the token with which a request was let in; 0 where none is asked for.
    #[must_use]
    pub fn sender(&self, headers: &HeaderMap) -> u64 {
        let value = headers.get(AUTHORIZATION).filter(|_| !self.is_open());
        let token = value.and_then(|value| value.as_bytes().get(7..));
        token.map_or(0, |token| xxhash_rust::xxh3::xxh3_64(token.trim_ascii()))
    }

    /// Checks a bare token, in a time that tells nothing about where it differs.
    ///
    /// # Errors
    /// When it is empty or not on the list.
    pub fn check_token(&self, token: &[u8]) -> Result<(), Denied> {
        if self.is_open() {
            return Ok(());
        }
        if token.is_empty() {
            return Err(Denied::Missing);
        }
        // Both lists are always gone through whole.
        let (passes, place) = among(&self.tokens, token);
        let (other, _) = among(&self.others, token);
        if bool::from(passes) {
            if let Some(uses) = self.uses.get(place as usize) {
                uses.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        } else if bool::from(other) {
            Err(Denied::Other)
        } else {
            Err(Denied::Wrong)
        }
    }
}

/// Whether a token is in a list, and where.
fn among(tokens: &[Secret], token: &[u8]) -> (Choice, u32) {
    let tokens = tokens.iter().zip(0..);
    tokens.fold((Choice::from(0), 0), |(found, at), (known, place)| {
        let is_it = known.expose().as_bytes().ct_eq(token);
        (found | is_it, u32::conditional_select(&at, &place, is_it))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(value: &str) -> HeaderMap {
        HeaderMap::from_iter([(AUTHORIZATION, value.parse().unwrap())])
    }

    #[test]
    fn r_074_scheme_case_and_spaces_do_not_matter_but_the_token_does() {
        let secret = |text: &str| Secret::new(text.into());
        let tokens = Tokens::new(&[secret("other"), secret("s3cret")], &[secret("reader")]);
        for good in [
            "Bearer s3cret",
            "bearer s3cret",
            "BEARER s3cret",
            "Bearer  s3cret",
        ] {
            assert_eq!(tokens.check(&with(good)), Ok(()), "{good}");
        }
        for wrong in [
            "Bearer S3CRET",
            "Bearer s3cre",
            "Bearer s3crett",
            "Bearer nope",
        ] {
            assert_eq!(tokens.check(&with(wrong)), Err(Denied::Wrong), "{wrong}");
        }
        assert_eq!(tokens.check(&with("Bearer reader")), Err(Denied::Other));
        for missing in ["Bearer ", "Bearer", "", "Basic s3cret", "s3cret"] {
            assert_eq!(
                tokens.check(&with(missing)),
                Err(Denied::Missing),
                "{missing}"
            );
        }
        assert_eq!(tokens.check(&HeaderMap::new()), Err(Denied::Missing));
        assert_eq!(Tokens::default().check(&HeaderMap::new()), Ok(()));
    }
}
