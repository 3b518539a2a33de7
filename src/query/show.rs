//! The tree as text: what was understood, in a form that is read back as the same tree.

use std::fmt::{self, Display, Formatter, Write};

use super::LevelSet;
use super::lexer::is_key;
use super::tree::{Expr, Field, Relation, Scope, Test};

impl Display for Expr {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Expr::All => Ok(()),
            Expr::And(parts) => join(f, parts, " "),
            Expr::Or(parts) => join(f, parts, " OR "),
            Expr::Not(part) => match &**part {
                Expr::And(_) | Expr::Or(_) => write!(f, "-({part})"),
                _ => write!(f, "-{part}"),
            },
            Expr::Levels(levels) => show_levels(f, *levels),
            Expr::Id(relation, id) => write!(f, "id{}{id}", sign(*relation)),
            Expr::Field(field, test) => {
                let test = Shown(test).to_string();
                // `a::b` is a word, such as the path of a module; `"a"::b` has a key.
                show_field(f, field, test.starts_with("::"))?;
                f.write_str(&test)
            }
            Expr::Message(needle) => text(f, needle.text()),
            Expr::Anywhere(needle) => {
                f.write_str("*:")?;
                quoted(f, needle.text())
            }
            Expr::Matches(pattern) => write!(f, "/{}/", pattern.source().replace('/', "\\/")),
        }
    }
}

fn join(f: &mut Formatter<'_>, parts: &[Expr], between: &str) -> fmt::Result {
    for (at, part) in parts.iter().enumerate() {
        if at > 0 {
            f.write_str(between)?;
        }
        match part {
            Expr::And(_) | Expr::Or(_) => write!(f, "({part})")?,
            _ => write!(f, "{part}")?,
        }
    }
    Ok(())
}

fn show_levels(f: &mut Formatter<'_>, levels: LevelSet) -> fmt::Result {
    let mut names: Vec<_> = levels.iter().map(crate::record::Level::as_str).collect();
    match names.as_slice() {
        // Nothing is below the least.
        [] => return f.write_str("level<unspecified"),
        [only] => return write!(f, "level:{only}"),
        _ => {}
    }
    if let Some(least) = levels.iter().next()
        && levels == LevelSet::at_least(least)
    {
        return write!(f, "level>={}", least.as_str());
    }
    names.reverse();
    write!(f, "level:({})", names.join(" OR "))
}

fn show_field(f: &mut Formatter<'_>, field: &Field, in_quotes: bool) -> fmt::Result {
    let name = match field {
        Field::Column(column) => column.name().to_owned(),
        Field::Attribute(Scope::Any, key) => key.clone(),
        Field::Attribute(Scope::Attributes, key) => format!("attributes.{key}"),
        Field::Attribute(Scope::Resource, key) => format!("resource.{key}"),
    };
    if is_key(&name) && !in_quotes {
        f.write_str(&name)
    } else {
        quoted(f, &name)
    }
}

/// What a field is tested for, with its sign.
struct Shown<'t>(&'t Test);

impl Display for Shown<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        show_test(f, self.0)
    }
}

fn show_test(f: &mut Formatter<'_>, test: &Test) -> fmt::Result {
    match test {
        Test::Present => f.write_str(":*"),
        Test::OneOf(values) => {
            f.write_char(':')?;
            if let [only] = values.as_slice() {
                return write!(f, "{only}");
            }
            f.write_char('(')?;
            for (at, value) in values.iter().enumerate() {
                if at > 0 {
                    f.write_str(" OR ")?;
                }
                write!(f, "{value}")?;
            }
            f.write_char(')')
        }
        Test::Number(relation, number) => write!(f, "{}{}", sign(*relation), number.text),
        Test::Text(relation, text) => {
            f.write_str(sign(*relation))?;
            value(f, text)
        }
    }
}

fn sign(relation: Relation) -> &'static str {
    match relation {
        Relation::Equal => ":",
        other => other.sign(),
    }
}

/// An exact value.
pub(super) fn value(f: &mut Formatter<'_>, text: &str) -> fmt::Result {
    let is_bare = |char: char| char.is_alphanumeric() || "._-/@+:".contains(char);
    let is_operator = matches!(text, "OR" | "AND" | "NOT");
    // What begins so could be read as an operator.
    let begins_odd = text.starts_with([':', '/', '-']);
    if !text.is_empty() && text.chars().all(is_bare) && !is_operator && !begins_odd {
        return f.write_str(text);
    }
    quoted(f, text)
}

/// Text to look for: bare where it cannot be taken for anything else.
fn text(f: &mut Formatter<'_>, text: &str) -> fmt::Result {
    let is_bare = |char: char| char.is_alphanumeric() || "._".contains(char);
    if text.chars().all(is_bare) && !matches!(text, "OR" | "AND" | "NOT") {
        return f.write_str(text);
    }
    quoted(f, text)
}

fn quoted(f: &mut Formatter<'_>, text: &str) -> fmt::Result {
    f.write_char('"')?;
    for char in text.chars() {
        if matches!(char, '"' | '\\') {
            f.write_char('\\')?;
        }
        f.write_char(char)?;
    }
    f.write_char('"')
}
