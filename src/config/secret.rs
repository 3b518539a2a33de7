//! Passwords and tokens: where they come from, and that they are never printed.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::de::{self, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Largest file taken for a secret; a larger one is some other file.
const MAX_FILE_BYTES: u64 = 64 << 10;

/// What is printed in a secret's place.
const HIDDEN: &str = "***";

/// Longest name of a token.
const MAX_NAME: usize = 64;

/// A password or token, written as its text, or as `{file: PATH}`, or as `{env: NAME}`; a token may have a
/// name beside it. Printing it in any way prints `***`.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Secret {
    text: String,
    name: Option<String>,
}

impl Secret {
    /// Wraps a secret.
    #[must_use]
    pub fn new(secret: String) -> Self {
        Self {
            text: secret,
            name: None,
        }
    }

    /// What it is called, which is no secret.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// The secret itself; never to be printed.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.text
    }
    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Reads a file of one line; blanks around it, such as the newline at its end, are not part of
    /// the secret.
    fn from_file(path: &Path) -> Result<Self, Error> {
        let unreadable = |source| Error::Read {
            path: path.to_owned(),
            source,
        };
        let size = std::fs::metadata(path).map_err(unreadable)?.len();
        if size > MAX_FILE_BYTES {
            return Err(Error::TooLarge(path.to_owned()));
        }
        let text = std::fs::read_to_string(path).map_err(unreadable)?;
        match text.trim() {
            "" => Err(Error::Empty(path.to_owned())),
            secret if secret.contains(['\n', '\r']) => Err(Error::Lines(path.to_owned())),
            secret => Ok(Self::new(secret.to_owned())),
        }
    }

    fn from_env(name: &str) -> Result<Self, Error> {
        match std::env::var(name) {
            Ok(secret) if !secret.is_empty() => Ok(Self::new(secret)),
            Ok(_) => Err(Error::EmptyEnv(name.to_owned())),
            Err(std::env::VarError::NotPresent) => Err(Error::Env(name.to_owned())),
            Err(std::env::VarError::NotUnicode(_)) => Err(Error::NotText(name.to_owned())),
        }
    }
}

/// Why a secret cannot be had. None of these tells the secret.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("cannot read {path}: {source}; make it readable for the user the daemon runs as")]
    Read {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("{0} is over 64KiB, which no secret is")]
    TooLarge(PathBuf),
    #[error("{0} is empty")]
    Empty(PathBuf),
    #[error("{0} has more than one line; put one secret in it")]
    Lines(PathBuf),
    #[error("environment variable {0} is not set")]
    Env(String),
    #[error("environment variable {0} is empty")]
    EmptyEnv(String),
    #[error("environment variable {0} is not text")]
    NotText(String),
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HIDDEN)
    }
}

impl Serialize for Secret {
    /// Writes `***`, or nothing where there is no secret, which is no secret either.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let shown = if self.is_empty() { "" } else { HIDDEN };
        let Some(name) = &self.name else {
            return serializer.serialize_str(shown);
        };
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry("name", name)?;
        map.serialize_entry("token", shown)?;
        map.end()
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SecretVisitor)
    }
}

struct SecretVisitor;

impl<'de> Visitor<'de> for SecretVisitor {
    type Value = Secret;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the secret as text, or {file: PATH}, or {env: NAME}")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Secret, E> {
        Ok(Secret::new(text.to_owned()))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Secret, A::Error> {
        let shape = || {
            de::Error::custom(
                "write the secret as text, or {file: PATH}, or {env: NAME}; a token may have a name: {name: shop, \
                 file: PATH}, or {name: shop, token: TEXT}",
            )
        };
        let (mut source, mut name) = (None, None);
        while let Some((key, value)) = map.next_entry::<String, String>()? {
            match key.as_str() {
                "name" if name.is_none() => name = Some(value),
                "file" | "env" | "token" if source.is_none() => source = Some((key, value)),
                _ => return Err(shape()),
            }
        }
        let (key, value) = source.ok_or_else(shape)?;
        let secret = match key.as_str() {
            "file" => Secret::from_file(Path::new(&value)).map_err(de::Error::custom)?,
            "env" => Secret::from_env(&value).map_err(de::Error::custom)?,
            _ => Secret::new(value),
        };
        if let Some(name) = &name
            && !is_name(name)
        {
            return Err(de::Error::custom(format!(
                "{name:?} is no name for a token; use letters, digits, dots, - and _, at most {MAX_NAME}"
            )));
        }
        Ok(Secret { name, ..secret })
    }
}

/// It becomes a label of a metric.
fn is_name(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    (1..=MAX_NAME).contains(&name.len()) && name.bytes().all(fits)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn read(yaml: &str) -> Result<Secret, String> {
        serde_yaml::from_str(yaml).map_err(|error| error.to_string())
    }

    #[test]
    fn a_secret_is_read_from_text_a_file_or_the_environment() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        writeln!(file, "s3cret").unwrap();
        let from_file = read(&format!("file: {}", file.path().display()));
        assert_eq!(from_file, Ok(Secret::new("s3cret".to_owned())));
        assert_eq!(read("s3cret"), Ok(Secret::new("s3cret".to_owned())));
        // PATH is the one variable every test process has.
        assert_eq!(
            read("env: PATH").unwrap().expose(),
            std::env::var("PATH").unwrap()
        );
    }

    #[test]
    fn a_secret_that_cannot_be_had_says_why() {
        let mut lines = tempfile::NamedTempFile::new().unwrap();
        writeln!(lines, "one\ntwo").unwrap();
        let empty = tempfile::NamedTempFile::new().unwrap();
        for (yaml, says) in [
            (
                "file: /no/such/file".to_owned(),
                "cannot read /no/such/file: No such file",
            ),
            (
                format!("file: {}", lines.path().display()),
                "has more than one line",
            ),
            (format!("file: {}", empty.path().display()), "is empty"),
            (
                "env: WATCHTOWER_NOT_SET".to_owned(),
                "variable WATCHTOWER_NOT_SET is not set",
            ),
            (
                "path: x".to_owned(),
                "write the secret as text, or {file: PATH}, or {env: NAME}",
            ),
            ("{file: a, env: b}".to_owned(), "write the secret as text"),
        ] {
            let error = read(&yaml).unwrap_err();
            assert!(error.contains(says), "{yaml}: {error}");
        }
    }

    #[test]
    fn a_token_may_have_a_name_which_is_printed() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        writeln!(file, "s3cret").unwrap();
        for yaml in [
            format!("{{name: shop-1, file: {}}}", file.path().display()),
            "{token: s3cret, name: shop-1}".to_owned(),
        ] {
            let secret = read(&yaml).unwrap();
            assert_eq!((secret.expose(), secret.name()), ("s3cret", Some("shop-1")));
            let printed = serde_yaml::to_string(&secret).unwrap();
            assert_eq!(printed, "name: shop-1\ntoken: '***'\n");
            assert_eq!(read(&printed).unwrap().name(), Some("shop-1"));
        }
        for (yaml, says) in [
            ("{name: 'a b', token: t}", "\"a b\" is no name for a token"),
            ("{name: '', token: t}", "is no name"),
            ("{name: a}", "write the secret as text"),
            ("{name: a, name: b, token: t}", "write the secret as text"),
        ] {
            let error = read(yaml).unwrap_err();
            assert!(error.contains(says), "{yaml}: {error}");
        }
    }

    #[test]
    fn printing_a_secret_hides_it() {
        let secret = Secret::new("s3cret".to_owned());
        assert_eq!(format!("{secret:?}"), "***");
        assert_eq!(serde_yaml::to_string(&secret).unwrap().trim(), "'***'");
        assert_eq!(
            serde_yaml::to_string(&Secret::default()).unwrap().trim(),
            "''"
        );
    }
}
