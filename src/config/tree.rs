//! A YAML document as a tree of texts, with the line of everything in it.
//!
//! Scalars keep the text they were written as (`0123`, `1e9` and `yes` stay just that), keys keep
//! their order and their repetitions: what a value means is for the key's type to say, and what is
//! wrong with a key for `load`.

use std::fmt;

use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, EnumAccess, Error as _, IgnoredAny, MapAccess,
    SeqAccess, Visitor,
};

/// One node of the document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Node {
    /// Nothing, `~` or `null`.
    Null,
    /// A scalar's text, quotes taken off.
    Scalar(String),
    /// A list.
    Seq(Vec<Node>),
    /// Keys and values in the order of the text, repeated keys included.
    Map(Vec<(String, Node)>),
}

/// Where a node is: the position of each ancestor among its siblings, outermost first.
pub(super) type Position = Vec<usize>;

/// A text that is not YAML.
#[derive(Debug)]
pub(super) struct SyntaxError {
    /// The line, counted from 1, where it is known.
    pub(super) line: Option<usize>,
    /// What the parser said.
    pub(super) message: String,
}

impl From<serde_yaml::Error> for SyntaxError {
    fn from(error: serde_yaml::Error) -> Self {
        Self {
            line: error.location().map(|location| location.line()),
            message: error.to_string(),
        }
    }
}

/// Reads a document; an empty one is `Null`.
pub(super) fn parse(text: &str) -> Result<Node, SyntaxError> {
    // serde_yaml tells either a value's type or its text as written. So the first pass learns the
    // shape, and the second asks for each scalar as text.
    let shape: Option<Shape> = match serde_yaml::from_str(text) {
        Ok(shape) => shape,
        Err(error) if error.location().is_none() && is_blank(text) => None,
        Err(error) => return Err(error.into()),
    };
    match shape {
        None => Ok(Node::Null),
        Some(shape) => Ok(shape.deserialize(serde_yaml::Deserializer::from_str(text))?),
    }
}

/// Whether there is nothing but blank lines and comments, which is no document to serde_yaml.
fn is_blank(text: &str) -> bool {
    text.lines()
        .map(str::trim)
        .all(|line| line.is_empty() || line.starts_with('#'))
}

/// The line of the key or list element at `position`, counted from 1.
pub(super) fn line_of(text: &str, position: &[usize]) -> Option<usize> {
    // serde_yaml tells a place only with an error, so this fails on purpose at that place.
    let error = Find(position)
        .deserialize(serde_yaml::Deserializer::from_str(text))
        .err()?;
    error.location().map(|location| location.line())
}

/// What a node is, without its text.
enum Shape {
    Null,
    Scalar,
    Seq(Vec<Shape>),
    Map(Vec<Shape>),
}

impl<'de> Deserialize<'de> for Shape {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ShapeVisitor)
    }
}

struct ShapeVisitor;

impl<'de> Visitor<'de> for ShapeVisitor {
    type Value = Shape;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value, a list or a section")
    }
    fn visit_unit<E>(self) -> Result<Shape, E> {
        Ok(Shape::Null)
    }
    fn visit_bool<E>(self, _: bool) -> Result<Shape, E> {
        Ok(Shape::Scalar)
    }
    fn visit_i64<E>(self, _: i64) -> Result<Shape, E> {
        Ok(Shape::Scalar)
    }
    fn visit_u64<E>(self, _: u64) -> Result<Shape, E> {
        Ok(Shape::Scalar)
    }
    fn visit_i128<E>(self, _: i128) -> Result<Shape, E> {
        Ok(Shape::Scalar)
    }
    fn visit_u128<E>(self, _: u128) -> Result<Shape, E> {
        Ok(Shape::Scalar)
    }
    fn visit_f64<E>(self, _: f64) -> Result<Shape, E> {
        Ok(Shape::Scalar)
    }
    fn visit_str<E>(self, _: &str) -> Result<Shape, E> {
        Ok(Shape::Scalar)
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Shape, A::Error> {
        let mut elements = Vec::new();
        while let Some(element) = seq.next_element()? {
            elements.push(element);
        }
        Ok(Shape::Seq(elements))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Shape, A::Error> {
        let mut values = Vec::new();
        while let Some(_key) = map.next_key::<String>()? {
            values.push(map.next_value()?);
        }
        Ok(Shape::Map(values))
    }
    fn visit_enum<A: EnumAccess<'de>>(self, _: A) -> Result<Shape, A::Error> {
        Err(A::Error::custom(
            "tags such as !name are not used here; quote the value if it begins with !",
        ))
    }
}

impl<'de> DeserializeSeed<'de> for Shape {
    type Value = Node;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        match self {
            Self::Null => deserializer.deserialize_any(IgnoredAny).map(|_| Node::Null),
            Self::Scalar => deserializer.deserialize_str(self),
            Self::Seq(_) => deserializer.deserialize_seq(self),
            Self::Map(_) => deserializer.deserialize_map(self),
        }
    }
}

impl<'de> Visitor<'de> for Shape {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the same document as before")
    }
    fn visit_str<E>(self, text: &str) -> Result<Node, E> {
        Ok(Node::Scalar(text.to_owned()))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Node, A::Error> {
        let Self::Seq(shapes) = self else {
            return Err(A::Error::custom("a list where there was none"));
        };
        let mut elements = Vec::with_capacity(shapes.len());
        for shape in shapes {
            elements.extend(seq.next_element_seed(shape)?);
        }
        // The end of the list must be asked for, or the parser is left standing before it.
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Node::Seq(elements))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        let Self::Map(shapes) = self else {
            return Err(A::Error::custom("a section where there was none"));
        };
        let mut entries = Vec::with_capacity(shapes.len());
        for shape in shapes {
            if let Some(key) = map.next_key()? {
                entries.push((key, map.next_value_seed(shape)?));
            }
        }
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Node::Map(entries))
    }
}

/// Walks to a position and fails there.
struct Find<'a>(&'a [usize]);

impl<'de> DeserializeSeed<'de> for Find<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Find<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("nothing here: this error is wanted for its place")
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let Some((index, rest)) = self.0.split_first() else {
            return Err(A::Error::custom("found"));
        };
        for _ in 0..*index {
            seq.next_element::<IgnoredAny>()?;
        }
        seq.next_element_seed(Find(rest)).map(|_| ())
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Some((index, rest)) = self.0.split_first() else {
            return Err(A::Error::custom("found"));
        };
        for _ in 0..*index {
            map.next_entry::<IgnoredAny, IgnoredAny>()?;
        }
        if rest.is_empty() {
            return map.next_key_seed(Find(rest)).map(|_| ());
        }
        map.next_key::<IgnoredAny>()?;
        map.next_value_seed(Find(rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scalar(text: &str) -> Node {
        Node::Scalar(text.to_owned())
    }

    #[test]
    fn scalars_keep_the_text_they_were_written_as() {
        let text =
            "a: 0123\nb: 1e9\nc: yes\nd: 1.10\ne: \"null\"\nf: null\ng:\nh: '${X:-a: b}'\ni: -1s";
        let Ok(Node::Map(entries)) = parse(text) else {
            panic!("not a map")
        };
        let values: Vec<_> = entries.into_iter().map(|(_, value)| value).collect();
        assert_eq!(
            values,
            [
                scalar("0123"),
                scalar("1e9"),
                scalar("yes"),
                scalar("1.10"),
                scalar("null"),
                Node::Null,
                Node::Null,
                scalar("${X:-a: b}"),
                scalar("-1s"),
            ]
        );
    }

    #[test]
    fn repeated_keys_are_kept_and_told_apart_by_line() {
        let text = "a:\n  x: 1\n\n  # note\n  y: [p,\n    q]\n  x: 2\n";
        let Ok(Node::Map(root)) = parse(text) else {
            panic!("not a map")
        };
        let Some((_, Node::Map(inner))) = root.first() else {
            panic!("no section")
        };
        let keys: Vec<_> = inner.iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!(keys, ["x", "y", "x"]);
        assert_eq!(line_of(text, &[0]), Some(1));
        assert_eq!(line_of(text, &[0, 0]), Some(2));
        assert_eq!(line_of(text, &[0, 1]), Some(5));
        assert_eq!(line_of(text, &[0, 1, 1]), Some(6));
        assert_eq!(line_of(text, &[0, 2]), Some(7));
    }

    #[test]
    fn a_document_of_comments_only_is_empty() {
        for text in ["", "\n\n", "# nothing\n", "---\n", "~", "# a\n---\n# b\n"] {
            assert_eq!(parse(text).ok(), Some(Node::Null), "{text:?}");
        }
    }

    #[test]
    fn a_syntax_error_tells_its_line() {
        for (text, line) in [
            ("a: 1\nb:\n\tc: 1\n", Some(3)),
            ("a: 1\n  b: 2\n", Some(2)),
            ("a: [1\nb: 2\n", Some(2)),
            ("a: !x 1\n", Some(1)),
            ("a: 1\n? [x]\n: 1\n", Some(2)),
        ] {
            let error = parse(text).unwrap_err();
            assert_eq!(error.line, line, "{text:?}: {}", error.message);
        }
    }
}
