//! Which keys there are: read off the defaults, so that the list cannot differ from the code.

use serde_yaml::Value;

use super::Config;

/// What a key takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    /// A whole number without a unit; the default, as an example.
    Number(String),
    /// `true` or `false`.
    Switch,
    /// A list.
    List,
    /// Anything that may be left out.
    Optional,
    /// Text that is empty where nobody sets it: a password.
    Blank,
    /// Any other single value.
    Text,
}

/// Every section and key, in the order of the structs.
pub(super) struct Schema {
    sections: Vec<String>,
    keys: Vec<(String, Kind)>,
}

impl Schema {
    pub(super) fn new() -> Self {
        let defaults = serde_yaml::to_value(Config::default())
            .expect("the configuration's own types can all be written as YAML");
        let mut schema = Self {
            sections: Vec::new(),
            keys: Vec::new(),
        };
        schema.add("", &defaults);
        schema
    }

    fn add(&mut self, path: &str, value: &Value) {
        let kind = match value {
            Value::Mapping(entries) => {
                self.sections.push(path.to_owned());
                for (key, value) in entries {
                    self.add(&join(path, key.as_str().unwrap_or_default()), value);
                }
                return;
            }
            Value::Number(number) => Kind::Number(number.to_string()),
            Value::Bool(_) => Kind::Switch,
            Value::Sequence(_) => Kind::List,
            Value::Null => Kind::Optional,
            Value::String(text) if text.is_empty() => Kind::Blank,
            _ => Kind::Text,
        };
        self.keys.push((path.to_owned(), kind));
    }

    /// Every key that takes a value, by its whole path.
    pub(super) fn keys(&self) -> impl Iterator<Item = &str> {
        self.keys.iter().map(|(path, _)| path.as_str())
    }

    pub(super) fn kind(&self, path: &str) -> Option<&Kind> {
        self.keys
            .iter()
            .find(|(key, _)| key == path)
            .map(|(_, kind)| kind)
    }

    pub(super) fn is_section(&self, path: &str) -> bool {
        self.sections.iter().any(|section| section == path)
    }

    /// The names that may stand in a section.
    fn names_in<'a>(&'a self, section: &'a str) -> impl Iterator<Item = &'a str> {
        let all = self.sections.iter().map(String::as_str).chain(self.keys());
        all.filter_map(move |path| {
            let (parent, name) = split(path);
            (!path.is_empty() && parent == section).then_some(name)
        })
    }

    /// What to write instead of a key that there is not.
    pub(super) fn hint(&self, section: &str, name: &str) -> String {
        // A path written as one key, as it stands in messages and in `--set`.
        if self.kind(name).is_some() && name.contains('.') {
            return format!("write it as nested sections: {}", nested(name));
        }
        let elsewhere: Vec<&str> = self.keys().filter(|path| split(path).1 == name).collect();
        if let [path] = elsewhere[..] {
            return match split(path).0 {
                "" => format!("`{name}` belongs at the top level, not in `{section}`"),
                parent => format!(
                    "`{name}` belongs in the section `{parent}`: {}",
                    nested(path)
                ),
            };
        }
        let near = nearest(name, self.names_in(section));
        if let Some(near) = near {
            return format!("did you mean `{}`?", join(section, near));
        }
        if !elsewhere.is_empty() {
            let paths: Vec<_> = elsewhere.iter().map(|path| format!("`{path}`")).collect();
            return format!("did you mean {}?", paths.join(" or "));
        }
        if let Some(near) = nearest(name, self.keys().map(|path| split(path).1)) {
            let path = self
                .keys()
                .find(|path| split(path).1 == near)
                .unwrap_or(near);
            return format!("did you mean `{path}`?");
        }
        let names: Vec<_> = self.names_in(section).collect();
        match section {
            "" => format!("at the top level there are: {}", names.join(", ")),
            _ => format!("in `{section}` there are: {}", names.join(", ")),
        }
    }

    /// The key most like a path that there is not.
    pub(super) fn nearest_key(&self, path: &str) -> Option<&str> {
        nearest(path, self.keys())
    }
}

/// A key's path within a section.
pub(super) fn join(section: &str, name: &str) -> String {
    if section.is_empty() {
        name.to_owned()
    } else {
        format!("{section}.{name}")
    }
}

/// A path's section and its last name.
fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('.').unwrap_or(("", path))
}

/// A path as YAML's flow style writes it on one line: `queue: {disk: {fsync: …}}`.
fn nested(path: &str) -> String {
    let mut text = String::new();
    let depth = path.matches('.').count();
    for (index, name) in path.split('.').enumerate() {
        text.push_str(name);
        text.push_str(if index < depth { ": {" } else { ": …" });
    }
    text.push_str(&"}".repeat(depth));
    text
}

/// The candidate that takes the fewest edits, if those are few for its length.
fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let (distance, best) = candidates
        .map(|candidate| (edits(name, candidate), candidate))
        .min_by_key(|(d, _)| *d)?;
    (distance <= (name.chars().count().max(best.len()) / 3).max(1)).then_some(best)
}

/// How many letters must be put in, taken out, changed or swapped with their neighbour to make one
/// text of the other; `-` and `_` are the same here.
fn edits(from: &str, to: &str) -> usize {
    let letters = |text: &str| -> Vec<char> {
        let lower = text.chars().flat_map(char::to_lowercase);
        lower
            .map(|c| if c == '-' { '_' } else { c })
            .take(64)
            .collect()
    };
    let (from, to) = (letters(from), letters(to));
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, b) in to.iter().enumerate() {
            let change = last[j] + usize::from(a != b);
            let mut best = change.min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && from[i - 1] == *b && to[j - 1] == *a {
                best = best.min(before_last[j - 1] + 1);
            }
            row.push(best);
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_count_changes_and_swaps() {
        for (from, to, count) in [
            ("", "abc", 3),
            ("abc", "", 3),
            ("retention", "retention", 0),
            ("retenton", "retention", 1),
            ("fysnc", "fsync", 1),
            ("max-bytes", "max_bytes", 0),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!(edits(from, to), count, "{from} {to}");
        }
    }

    #[test]
    fn hints_name_the_nearest_key_or_its_section() {
        let schema = Schema::new();
        for (section, name, hint) in [
            ("", "retenton", "did you mean `retention`?"),
            (
                "queue.disk",
                "max_byte",
                "did you mean `queue.disk.max_bytes`?",
            ),
            (
                "",
                "fsync",
                "`fsync` belongs in the section `queue.disk`: queue: {disk: {fsync: …}}",
            ),
            (
                "store",
                "retention",
                "`retention` belongs at the top level, not in `store`",
            ),
            (
                "",
                "store.url",
                "write it as nested sections: store: {url: …}",
            ),
            (
                "",
                "password",
                "did you mean `queue.redis.password` or `store.password`?",
            ),
            ("log", "zzzzzz", "in `log` there are: level, format"),
            ("tls", "certfile", "did you mean `tls.cert_file`?"),
        ] {
            assert_eq!(schema.hint(section, name), hint, "{section} {name}");
        }
    }
}
