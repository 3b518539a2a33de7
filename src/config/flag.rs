//! `--set key.path=value`: one setting from the command line.

use super::load::{Loader, Place, value_of};
use super::schema::Kind;
use super::tree::Node;

/// What a flag looks like, for messages.
const EXAMPLE: &str = "expected key.path=value, such as `retention=7d`";

impl Loader<'_> {
    pub(super) fn read_flags(&mut self, sets: &[String]) {
        for set in sets {
            self.read_flag(set);
        }
    }

    /// Takes one. What follows the `=` is the value as it stands: the shell has already had its way
    /// with it.
    fn read_flag(&mut self, set: &str) {
        let (key, text) = match set.split_once('=') {
            Some((key, text)) => (key.trim(), Some(text)),
            None => (set.trim(), None),
        };
        if key.is_empty() {
            let problem = format!("there is no key before the =; {EXAMPLE}");
            return self.fault("", &Place::Flag, problem);
        }
        let Some(kind) = self.schema.kind(key).cloned() else {
            let problem = self.unknown_key(key);
            return self.fault(key, &Place::Flag, problem);
        };
        let Some(text) = text else {
            return self.fault(key, &Place::Flag, format!("has no value; {EXAMPLE}"));
        };
        let value =
            node(&kind, text).and_then(|node| value_of(&kind, &node, &|text| Ok(text.to_owned())));
        match value {
            Ok(Some(value)) => self.set(key.to_owned(), value, Place::Flag),
            Ok(None) => drop(self.settings.remove(key)),
            Err(problem) => self.fault(key, &Place::Flag, problem),
        }
    }

    fn unknown_key(&self, key: &str) -> String {
        if self.schema.is_section(key) {
            return format!("is a section; set one of its keys: {}", self.names(key));
        }
        if let Some(near) = self.schema.nearest_key(key) {
            return format!("unknown key; did you mean `{near}`?");
        }
        let (section, name) = key.rsplit_once('.').unwrap_or(("", key));
        let section = if self.schema.is_section(section) {
            section
        } else {
            ""
        };
        format!("unknown key; {}", self.schema.hint(section, name))
    }
}

/// The value's text as the file would have it. A list's elements are separated by commas.
fn node(kind: &Kind, text: &str) -> Result<Node, String> {
    let is_list = *kind == Kind::List;
    if text.trim().is_empty() {
        return match kind {
            // Nothing takes back what the file says; only where nothing is something.
            Kind::Optional | Kind::Blank => Ok(Node::Scalar(String::new())),
            Kind::List => Err(
                "has no elements; write them with commas between, or write [] if there are to be none"
                    .to_owned(),
            ),
            Kind::Number(_) | Kind::Switch | Kind::Text => {
                Err(format!("has no value after the =; {EXAMPLE}"))
            }
        };
    }
    if !is_list {
        return Ok(Node::Scalar(text.to_owned()));
    }
    if text.trim() == "[]" {
        return Ok(Node::Seq(Vec::new()));
    }
    let elements = text.split(',').map(str::trim);
    // Taken as they stand they would be tokens that nobody meant.
    if elements
        .clone()
        .any(|element| element.starts_with(['[', '{']))
    {
        return Err("takes plain elements with commas between, such as one,two; write [ ] and { } into the file".to_owned());
    }
    if elements.clone().any(str::is_empty) {
        return Err("holds an empty element; write one between each two commas".to_owned());
    }
    Ok(Node::Seq(
        elements
            .map(|element| Node::Scalar(element.to_owned()))
            .collect(),
    ))
}
