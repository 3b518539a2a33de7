//! Text to tree.

use super::fault::{Fault, Hint};
use super::glob::Glob;
use super::lexer::{Lexer, Op, Value};
use super::pattern::Pattern;
use super::tree::{Column, Decimal, Expr, Field, Relation, Scope, Test};
use super::{LevelSet, Needle, number};
use crate::record::Level;

/// Deepest nesting of groups and negations.
const MAX_DEPTH: usize = 32;
/// Most terms, values in brackets among them.
const MAX_TERMS: usize = 200;
/// Most regular expressions.
const MAX_REGEXES: usize = 8;
const LEVELS: &str = "levels are trace, debug, info, warn, error, fatal, unspecified";

/// Reads a query; a fault says why the text is none.
pub(super) fn parse(text: &str) -> Result<(Expr, Vec<Hint>), Fault> {
    let mut parser = Parser {
        lexer: Lexer::new(text),
        depth: 0,
        num_open: 0,
        num_terms: 0,
        num_regexes: 0,
        hints: Vec::new(),
    };
    parser.lexer.skip_space();
    if parser.lexer.peek().is_none() {
        return Ok((Expr::All, Vec::new()));
    }
    let expr = parser.or()?;
    Ok((expr, parser.hints))
}

struct Parser<'a> {
    lexer: Lexer<'a>,
    depth: usize,
    num_open: usize,
    num_terms: usize,
    num_regexes: usize,
    hints: Vec<Hint>,
}

impl Parser<'_> {
    fn fault(&self, text: impl Into<String>) -> Fault {
        Fault::new(self.lexer.position(), text)
    }

    fn or(&mut self) -> Result<Expr, Fault> {
        let mut parts = vec![self.and()?];
        while self.lexer.take_operator("OR") {
            parts.push(self.and()?);
        }
        Ok(Expr::any(parts))
    }

    /// One term or more, with or without AND between them.
    fn and(&mut self) -> Result<Expr, Fault> {
        let mut parts = Vec::new();
        loop {
            self.lexer.skip_space();
            let mut ahead = self.lexer.clone();
            let ends = match ahead.peek() {
                None => true,
                Some(')') => self.num_open > 0,
                Some(_) => ahead.take_operator("OR"),
            };
            if ends {
                if parts.is_empty() {
                    return Err(self.fault("a term is missing here"));
                }
                return Ok(Expr::all(parts));
            }
            if self.lexer.take_operator("AND") {
                self.lexer.skip_space();
                if parts.is_empty() {
                    return Err(self.fault("AND has nothing before it"));
                }
                if matches!(self.lexer.peek(), None | Some(')')) {
                    return Err(self.fault("AND has nothing after it"));
                }
            }
            parts.push(self.not()?);
        }
    }

    fn not(&mut self) -> Result<Expr, Fault> {
        let rest = self.lexer.rest();
        let mut following = rest.chars().skip(1);
        let is_minus = rest.starts_with('-')
            && following
                .next()
                .is_some_and(|char| !char.is_whitespace() && char != '-' && char != ')');
        if is_minus {
            self.lexer.take("-");
        } else if !self.lexer.take_operator("NOT") {
            return self.atom();
        }
        self.lexer.skip_space();
        if matches!(self.lexer.peek(), None | Some(')')) {
            return Err(self.fault("a negation has nothing after it"));
        }
        self.deeper()?;
        let part = self.not()?;
        self.depth -= 1;
        Ok(Expr::not(part))
    }

    fn deeper(&mut self) -> Result<(), Fault> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.fault(format!("nested more than {MAX_DEPTH} deep")));
        }
        Ok(())
    }

    fn count(&mut self) -> Result<(), Fault> {
        self.num_terms += 1;
        if self.num_terms > MAX_TERMS {
            return Err(self.fault(format!("more than {MAX_TERMS} terms")));
        }
        Ok(())
    }

    fn atom(&mut self) -> Result<Expr, Fault> {
        self.count()?;
        let start = self.lexer.position();
        match self.lexer.peek() {
            Some('(') => return self.group(),
            Some('/') => {
                if let Some(source) = self.lexer.regex() {
                    return self.regex(&source, start);
                }
            }
            Some('*') if self.lexer.rest().starts_with("*:") => {
                if let Some(expr) = self.anywhere()? {
                    return Ok(expr);
                }
            }
            _ => {}
        }
        if let Some((key, op)) = self.lexer.key() {
            return self.field(&key, op, start);
        }
        if self.lexer.peek() == Some('"') {
            return Ok(Expr::message(&self.lexer.phrase()?));
        }
        let word = self.lexer.word(self.num_open > 0);
        if matches!(word, "OR" | "AND" | "NOT") {
            return Err(Fault::new(start, format!("{word} has nothing to join")));
        }
        self.hint_at_equals(word, start);
        Ok(Expr::message(word))
    }

    fn group(&mut self) -> Result<Expr, Fault> {
        let start = self.lexer.position();
        self.deeper()?;
        self.num_open += 1;
        self.lexer.take("(");
        let inner = self.or()?;
        if !self.lexer.take(")") {
            return Err(Fault::new(start, "a bracket is not closed")
                .hint("put text with brackets between quotation marks"));
        }
        self.depth -= 1;
        self.num_open -= 1;
        Ok(inner)
    }

    fn regex(&mut self, source: &str, start: usize) -> Result<Expr, Fault> {
        self.num_regexes += 1;
        if self.num_regexes > MAX_REGEXES {
            return Err(Fault::new(
                start,
                format!("more than {MAX_REGEXES} regular expressions"),
            ));
        }
        let pattern = Pattern::parse(source).map_err(|error| {
            Fault::new(start, format!("not a regular expression: {error}"))
                .hint("put text with slashes between quotation marks")
        })?;
        Ok(Expr::Matches(pattern))
    }

    /// `*:text`, which looks everywhere.
    fn anywhere(&mut self) -> Result<Option<Expr>, Fault> {
        let mut ahead = self.lexer.clone();
        ahead.take("*:");
        if ahead
            .peek()
            .is_none_or(|char| char.is_whitespace() || char == ')')
        {
            return Ok(None);
        }
        let text = if ahead.peek() == Some('"') {
            ahead.phrase()?
        } else {
            ahead.word(self.num_open > 0).to_owned()
        };
        self.lexer = ahead;
        if text.is_empty() {
            return Ok(Some(Expr::All));
        }
        Ok(Some(Expr::Anywhere(Needle::new(&text))))
    }

    fn field(&mut self, key: &str, op: Op, start: usize) -> Result<Expr, Fault> {
        let values_at = self.lexer.position();
        let values = if op == Op::Is && self.lexer.peek() == Some('(') {
            self.values()?
        } else {
            vec![self.lexer.value(self.num_open > 0)?]
        };
        match key {
            "level" => self.level(op, &values, values_at),
            "id" => id(op, &values, values_at),
            _ => {
                let field = field(key);
                if let (Field::Attribute(Scope::Any, _), Op::Is) = (&field, op) {
                    self.hint_at_port(key, &values, start);
                }
                Ok(Expr::Field(field.clone(), test(&field, op, values)))
            }
        }
    }

    /// Values in brackets.
    fn values(&mut self) -> Result<Vec<Value>, Fault> {
        let start = self.lexer.position();
        self.lexer.take("(");
        let mut values: Vec<Value> = Vec::new();
        loop {
            self.lexer.skip_space();
            if self.lexer.take(")") {
                break;
            }
            if self.lexer.peek().is_none() {
                return Err(Fault::new(start, "a bracket is not closed"));
            }
            if self.lexer.take_operator("AND") || self.lexer.take_operator("NOT") {
                return Err(self.fault("values in brackets are joined with OR"));
            }
            if self.lexer.take_operator("OR") {
                continue;
            }
            self.count()?;
            values.push(self.lexer.value(true)?);
        }
        if values.is_empty() {
            return Err(Fault::new(start, "there is no value between the brackets"));
        }
        Ok(values)
    }

    fn level(&mut self, op: Op, values: &[Value], at: usize) -> Result<Expr, Fault> {
        let mut levels = LevelSet::NONE;
        for value in values {
            let set = match op {
                Op::Is => named(value),
                _ => value
                    .pieces
                    .first()
                    .filter(|_| value.pieces.len() == 1)
                    .and_then(|name| {
                        let than = level(name)?;
                        let relation = relation(op);
                        Some(LevelSet::of(|level| relation.holds(&level, &than)))
                    }),
            };
            let Some(set) = set else {
                let name = value.pieces.join("*");
                return Err(Fault::new(at, format!("there is no level `{name}`")).hint(LEVELS));
            };
            levels = LevelSet::of(|level| levels.contains(level) || set.contains(level));
        }
        Ok(Expr::levels(levels))
    }

    /// `level=error` is text to look for, and hardly ever meant so.
    fn hint_at_equals(&mut self, word: &str, start: usize) {
        let Some((key, value)) = word.split_once('=') else {
            return;
        };
        if (Column::from_name(key).is_some() || matches!(key, "level" | "id")) && !value.is_empty()
        {
            self.hints.push(Hint {
                position: start,
                instead: format!("{key}:{value}"),
                field: None,
            });
        }
    }

    /// `localhost:8080` asks for an attribute `localhost`.
    fn hint_at_port(&mut self, key: &str, values: &[Value], start: usize) {
        if let [value] = values
            && !value.quoted
            && let [text] = value.pieces.as_slice()
            && text
                .split('/')
                .next()
                .is_some_and(|port| port.parse::<u16>().is_ok())
        {
            self.hints.push(Hint {
                position: start,
                instead: format!("\"{key}:{text}\""),
                field: Some(key.to_owned()),
            });
        }
    }
}

fn level(name: &str) -> Option<Level> {
    let name = name.to_ascii_lowercase();
    let alias = match name.as_str() {
        "warning" => "warn",
        "err" => "error",
        "critical" => "fatal",
        other => other,
    };
    Level::from_name(alias)
}

/// The levels that a value names; `None` where it names none.
fn named(value: &Value) -> Option<LevelSet> {
    if value.pieces.len() == 1 {
        return level(value.pieces.first()?).map(|level| LevelSet::NONE.with(level));
    }
    let glob = Glob::new(value.pieces.clone()).to_ascii_lowercase();
    if glob.is_anything() {
        return Some(LevelSet::of(|level| level != Level::Unspecified));
    }
    let set = LevelSet::of(|level| glob.matches(level.as_str()));
    (set != LevelSet::NONE).then_some(set)
}

fn id(op: Op, values: &[Value], at: usize) -> Result<Expr, Fault> {
    let mut any = Vec::new();
    for value in values {
        let text = value.pieces.join("*");
        let Ok(id) = text.parse() else {
            return Err(Fault::new(at, format!("not the id of a record: `{text}`")));
        };
        any.push(Expr::Id(relation(op), id));
    }
    Ok(Expr::any(any))
}

fn field(key: &str) -> Field {
    if let Some(column) = Column::from_name(key) {
        return Field::Column(column);
    }
    for (prefix, scope) in [
        ("attributes.", Scope::Attributes),
        ("resource.", Scope::Resource),
    ] {
        if let Some(key) = key.strip_prefix(prefix).filter(|key| !key.is_empty()) {
            return Field::Attribute(scope, key.to_owned());
        }
    }
    Field::Attribute(Scope::Any, key.to_owned())
}

fn relation(op: Op) -> Relation {
    match op {
        Op::Is => Relation::Equal,
        Op::Above => Relation::Above,
        Op::AtLeast => Relation::AtLeast,
        Op::Below => Relation::Below,
        Op::AtMost => Relation::AtMost,
    }
}

fn test(field: &Field, op: Op, values: Vec<Value>) -> Test {
    if op == Op::Is {
        let lower = matches!(field, Field::Column(column) if column.is_lower());
        let globs = values.into_iter().map(|value| Glob::new(value.pieces));
        let globs: Vec<Glob> = match lower {
            true => globs.map(|glob| glob.to_ascii_lowercase()).collect(),
            false => globs.collect(),
        };
        if globs.iter().any(Glob::is_anything) {
            return Test::Present;
        }
        return Test::OneOf(globs);
    }
    let text = values.first().map(|value| value.pieces.join("*"));
    let text = text.unwrap_or_default();
    match number::parse(&text) {
        Some(value) => Test::Number(relation(op), Decimal { value, text }),
        None => Test::Text(relation(op), text),
    }
}
