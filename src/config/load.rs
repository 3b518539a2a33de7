//! Reading a configuration: the file, the `--set` flags, the environment.
//!
//! serde stops at the first error. So the document is walked against the known keys first, each
//! value is then tried by itself in a configuration of defaults, and only what is good is put
//! together: every fault is found in one run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_yaml::{Mapping, Value};

use super::expand::{self, Env};
use super::schema::{Kind, Schema, join};
use super::tree::{self, Node, Position};
use super::{Config, Fault, Faults, Origin, checks};

/// Largest file that is read; a configuration is a few kilobytes.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Where a package puts the configuration.
const SYSTEM_FILE: &str = "/etc/watchtower/watchtower.yaml";

/// The file to read: the one that is asked for, else that of the package where it exists.
#[must_use]
pub fn find_file(asked: Option<&Path>) -> Option<PathBuf> {
    let system = Path::new(SYSTEM_FILE);
    asked
        .or_else(|| system.exists().then_some(system))
        .map(Path::to_owned)
}

/// Reads the file, if there is one, lays the `key.path=value` settings over it, and checks the
/// whole. It only reads: the file, files that hold secrets, and the environment.
///
/// # Errors
/// Everything that is wrong, at once.
pub fn load(path: Option<&Path>, sets: &[String]) -> Result<Config, Faults> {
    load_with(path, sets, &|name| std::env::var(name).ok())
}

/// As [`load`], with `text` for what the file at `path` holds and `env` for the environment.
///
/// # Errors
/// Everything that is wrong, at once.
pub fn load_text(
    path: &Path,
    text: String,
    sets: &[String],
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<Config, Faults> {
    let mut loader = Loader::new(Some(path), env);
    loader.read_text(text);
    loader.lay_over(sets)
}

pub(super) fn load_with(
    path: Option<&Path>,
    sets: &[String],
    env: Env<'_>,
) -> Result<Config, Faults> {
    let mut loader = Loader::new(path, env);
    loader.read_file();
    loader.lay_over(sets)
}

/// A value and where it stands.
struct Setting {
    value: Value,
    place: Place,
}

#[derive(Clone)]
enum Place {
    File(Position),
    Flag,
}

struct Loader<'a> {
    schema: Schema,
    env: Env<'a>,
    path: Option<&'a Path>,
    text: String,
    settings: BTreeMap<String, Setting>,
    faults: Vec<Fault>,
}

impl<'a> Loader<'a> {
    fn new(path: Option<&'a Path>, env: Env<'a>) -> Self {
        Self {
            schema: Schema::new(),
            env,
            path,
            text: String::new(),
            settings: BTreeMap::new(),
            faults: Vec::new(),
        }
    }

    fn read_file(&mut self) {
        let Some(path) = self.path else { return };
        match read(path) {
            Ok(text) => self.read_text(text),
            Err(problem) => self.fault_in_file(None, problem),
        }
    }

    fn read_text(&mut self, text: String) {
        self.text = text;
        match tree::parse(&self.text) {
            Ok(Node::Null) => {}
            Ok(Node::Map(entries)) => self.walk("", entries, &[]),
            Ok(_) => self.fault_in_file(
                None,
                "expected sections and keys, such as `retention: 30d`".to_owned(),
            ),
            Err(error) => {
                let line = error.line;
                let tab = line.and_then(|line| self.text.lines().nth(line - 1));
                let hint =
                    match tab.is_some_and(|line| line.trim_start_matches(' ').starts_with('\t')) {
                        true => "; indent with blanks, not with tabs",
                        false => "",
                    };
                self.fault_in_file(line, format!("not valid YAML: {}{hint}", error.message));
            }
        }
    }

    fn fault_in_file(&mut self, line: Option<usize>, problem: String) {
        let path = self.path.unwrap_or(Path::new("")).to_owned();
        self.faults.push(Fault {
            origin: Origin::File(path, line),
            key: String::new(),
            problem,
        });
    }

    fn walk(&mut self, section: &str, entries: Vec<(String, Node)>, at: &[usize]) {
        let mut first_seen: BTreeMap<String, Position> = BTreeMap::new();
        for (index, (name, node)) in entries.into_iter().enumerate() {
            let position = [at, &[index]].concat();
            let path = join(section, &name);
            if let Some(first) = first_seen.get(&name) {
                let line = tree::line_of(&self.text, first).unwrap_or_default();
                let problem = format!("is given twice, first on line {line}; remove one");
                self.fault(&path, &Place::File(position), problem);
                continue;
            }
            first_seen.insert(name.clone(), position.clone());
            self.entry(section, &name, node, position);
        }
    }

    fn entry(&mut self, section: &str, name: &str, node: Node, position: Position) {
        let path = join(section, name);
        if let Some(kind) = self
            .schema
            .kind(&path)
            .cloned()
            .filter(|_| !name.contains('.'))
        {
            let place = Place::File(position);
            match value_of(&kind, &node, &|text| expand::expand(text, self.env)) {
                Ok(Some(value)) => self.set(path, value, place),
                Ok(None) => {}
                Err(problem) => self.fault(&path, &place, problem),
            }
        } else if self.schema.is_section(&path) && !name.contains('.') {
            match node {
                Node::Map(entries) => self.walk(&path, entries, &position),
                // A section whose keys are all commented out.
                Node::Null => {}
                Node::Scalar(_) | Node::Seq(_) => {
                    let problem = format!(
                        "is a section; write its keys below it, indented: {}",
                        self.names(&path)
                    );
                    self.fault(&path, &Place::File(position), problem);
                }
            }
        } else {
            let problem = format!("unknown key; {}", self.schema.hint(section, name));
            self.fault(&path, &Place::File(position), problem);
        }
    }

    fn names(&self, section: &str) -> String {
        let keys = self
            .schema
            .keys()
            .filter_map(|key| key.strip_prefix(section)?.strip_prefix('.'));
        keys.collect::<Vec<_>>().join(", ")
    }

    /// Takes `key.path=value`. What follows the `=` is the value as it stands: the shell has already
    /// had its way with it.
    fn read_flag(&mut self, set: &str) {
        let Some((key, text)) = set.split_once('=') else {
            let problem = "expected key.path=value, such as `retention=7d`".to_owned();
            return self.fault(set, &Place::Flag, problem);
        };
        let key = key.trim();
        let Some(kind) = self.schema.kind(key).cloned() else {
            let near = self.schema.nearest_key(key);
            let problem = match near {
                _ if self.schema.is_section(key) => {
                    format!("is a section; set one of its keys: {}", self.names(key))
                }
                Some(near) => format!("unknown key; did you mean `{near}`?"),
                None => {
                    let (section, name) = key.rsplit_once('.').unwrap_or(("", key));
                    let section = if self.schema.is_section(section) {
                        section
                    } else {
                        ""
                    };
                    format!("unknown key; {}", self.schema.hint(section, name))
                }
            };
            return self.fault(key, &Place::Flag, problem);
        };
        let node = match kind {
            Kind::List if text.is_empty() => Node::Seq(Vec::new()),
            Kind::List => Node::Seq(
                text.split(',')
                    .map(|item| Node::Scalar(item.to_owned()))
                    .collect(),
            ),
            Kind::Number(_) | Kind::Switch | Kind::Optional | Kind::Text => {
                Node::Scalar(text.to_owned())
            }
        };
        match value_of(&kind, &node, &|text| Ok(text.to_owned())) {
            Ok(Some(value)) => self.set(key.to_owned(), value, Place::Flag),
            Ok(None) => drop(self.settings.remove(key)),
            Err(problem) => self.fault(key, &Place::Flag, problem),
        }
    }

    /// Tries a value by itself and keeps it if it is good. A later one takes an earlier one's place.
    fn set(&mut self, key: String, value: Value, place: Place) {
        let mut alone = Mapping::new();
        put(&mut alone, &key, value.clone());
        match serde_yaml::from_value::<Config>(Value::Mapping(alone)) {
            Ok(_) => drop(self.settings.insert(key, Setting { value, place })),
            Err(error) => {
                let mut problem = error
                    .to_string()
                    .replace("unknown variant", "unknown value");
                if matches!(value, Value::Mapping(_)) && problem.starts_with("invalid type") {
                    problem.push_str("; put the value in quotes if it begins with {");
                }
                self.fault(&key, &place, problem);
            }
        }
    }

    fn fault(&mut self, key: &str, place: &Place, problem: String) {
        let origin = self.origin(place);
        self.faults.push(Fault {
            origin,
            key: key.to_owned(),
            problem,
        });
    }

    fn origin(&self, place: &Place) -> Origin {
        match place {
            Place::File(position) => {
                let path = self.path.unwrap_or(Path::new("")).to_owned();
                Origin::File(path, tree::line_of(&self.text, position))
            }
            Place::Flag => Origin::Flag,
        }
    }

    fn lay_over(mut self, sets: &[String]) -> Result<Config, Faults> {
        for set in sets {
            self.read_flag(set);
        }
        self.finish()
    }

    fn finish(mut self) -> Result<Config, Faults> {
        let mut whole = Mapping::new();
        for (key, setting) in &self.settings {
            put(&mut whole, key, setting.value.clone());
        }
        let mut config: Config = serde_yaml::from_value(Value::Mapping(whole))
            .map_err(|error| Faults::one(Origin::Default, "", error.to_string()))?;
        if !self.settings.contains_key("state_dir")
            && let Some(dir) = (self.env)("STATE_DIRECTORY")
        {
            // systemd's StateDirectory=; several are separated by colons.
            config.state_dir = PathBuf::from(dir.split(':').next().unwrap_or(&dir));
        }
        let mut conflicts = checks::take_url_password(&mut config);
        conflicts.extend(checks::conflicts(&config));
        // A conflict with a key that is itself at fault would only be noise.
        let at_fault = |key: &str| self.faults.iter().any(|fault| fault.key == key);
        conflicts.retain(|conflict| !conflict.keys.iter().any(|key| at_fault(key)));
        for conflict in conflicts {
            let place = conflict
                .keys
                .iter()
                .find_map(|key| Some((*key, self.settings.get(*key)?)));
            let origin = place.map_or(Origin::Default, |(_, setting)| self.origin(&setting.place));
            let key = place.map_or(
                conflict.keys.first().copied().unwrap_or_default(),
                |(key, _)| key,
            );
            self.faults.push(Fault {
                origin,
                key: key.to_owned(),
                problem: conflict.problem,
            });
        }
        Faults::check(self.faults)?;
        Ok(config)
    }
}

fn read(path: &Path) -> Result<String, String> {
    let cannot = |error: std::io::Error| format!("cannot read it: {error}");
    let size = std::fs::metadata(path).map_err(cannot)?.len();
    if size > MAX_FILE_BYTES {
        return Err(format!(
            "is {size} bytes long; a configuration has at most {MAX_FILE_BYTES}"
        ));
    }
    let bytes = std::fs::read(path).map_err(cannot)?;
    String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        let before = error.as_bytes().iter().take(valid);
        let line = before.filter(|byte| **byte == b'\n').count() + 1;
        format!("line {line} is not UTF-8 text; save the file as UTF-8")
    })
}

/// A node as the value of a key of this kind; `None` where it is as good as left out.
fn value_of(
    kind: &Kind,
    node: &Node,
    expand: &dyn Fn(&str) -> Result<String, expand::Error>,
) -> Result<Option<Value>, String> {
    let value = to_value(node, expand)?;
    match (kind, &value) {
        (Kind::Optional, Value::String(text)) if text.is_empty() => Ok(None),
        (Kind::Optional | Kind::List, Value::Null) => Ok(None),
        (_, Value::Null) => Err("has no value; write one, or remove the line".to_owned()),
        (Kind::List, Value::Sequence(_)) => Ok(Some(value)),
        (Kind::List, _) => {
            Err("is a list; write each element below it as \"- ELEMENT\"".to_owned())
        }
        (_, Value::Sequence(_)) => {
            Err("takes one value, not a list; put it in quotes if it begins with [".to_owned())
        }
        (Kind::Number(example), Value::String(text)) => match text.trim().parse::<u64>() {
            Ok(number) => Ok(Some(Value::Number(number.into()))),
            Err(_) => Err(format!(
                "\"{text}\" is not a whole number; write it like {example}"
            )),
        },
        (Kind::Switch, Value::String(text)) => match text.trim() {
            "true" => Ok(Some(Value::Bool(true))),
            "false" => Ok(Some(Value::Bool(false))),
            _ => Err(format!("\"{text}\" is not a switch; write true or false")),
        },
        _ => Ok(Some(value)),
    }
}

fn to_value(
    node: &Node,
    expand: &dyn Fn(&str) -> Result<String, expand::Error>,
) -> Result<Value, String> {
    match node {
        Node::Null => Ok(Value::Null),
        Node::Scalar(text) => match expand(text) {
            Ok(text) => Ok(Value::String(text)),
            Err(error) => Err(error.to_string()),
        },
        Node::Seq(elements) => {
            let elements = elements.iter().map(|element| to_value(element, expand));
            Ok(Value::Sequence(elements.collect::<Result<_, _>>()?))
        }
        Node::Map(entries) => {
            let mut mapping = Mapping::new();
            for (key, node) in entries {
                mapping.insert(Value::String(key.clone()), to_value(node, expand)?);
            }
            Ok(Value::Mapping(mapping))
        }
    }
}

/// Puts a value at a dotted path, making the sections on the way.
fn put(mapping: &mut Mapping, path: &str, value: Value) {
    match path.split_once('.') {
        None => drop(mapping.insert(path.into(), value)),
        Some((section, rest)) => {
            let inner = mapping
                .entry(section.into())
                .or_insert_with(|| Mapping::new().into());
            if let Value::Mapping(inner) = inner {
                put(inner, rest, value);
            }
        }
    }
}
