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
use super::{Config, Conflict, Fault, Faults, Origin, checks};

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
    load_with(path, sets, &variable)
}

/// As [`load`], and has `inspect` look at what the settings name, such as files: what it finds is told
/// with the rest, by the line of the key.
///
/// # Errors
/// Everything that is wrong, at once.
pub fn load_inspected(
    path: Option<&Path>,
    sets: &[String],
    inspect: &dyn Fn(&Config) -> Vec<Conflict>,
) -> Result<Config, Faults> {
    let mut loader = Loader::new(path, &variable);
    loader.read_file();
    loader.read_flags(sets);
    loader.finish(inspect)
}

/// As [`load`], for somebody who needs a few sections only: what is wrong in the others, such as a
/// secret that only the daemon may read, does not matter, and they may be at their defaults.
///
/// # Errors
/// What is wrong in those sections, and a file that cannot be read.
pub fn load_sections(
    path: Option<&Path>,
    sets: &[String],
    sections: &[&str],
) -> Result<Config, Faults> {
    let mut loader = Loader::new(path, &variable);
    loader.read_file();
    loader.read_flags(sets);
    let matters = |fault: &Fault| {
        let section = fault.key.split('.').next().unwrap_or_default();
        section.is_empty() || sections.contains(&section)
    };
    loader.faults.retain(matters);
    let config = loader.lay_together();
    Faults::check(loader.faults)?;
    config
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
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
    loader.read_flags(sets);
    loader.finish(&|_| Vec::new())
}

pub(super) fn load_with(
    path: Option<&Path>,
    sets: &[String],
    env: Env<'_>,
) -> Result<Config, Faults> {
    let mut loader = Loader::new(path, env);
    loader.read_file();
    loader.read_flags(sets);
    loader.finish(&|_| Vec::new())
}

/// A value and where it stands.
pub(super) struct Setting {
    value: Value,
    place: Place,
}

#[derive(Clone)]
pub(super) enum Place {
    File(Position),
    Flag,
}

pub(super) struct Loader<'a> {
    pub(super) schema: Schema,
    env: Env<'a>,
    path: Option<&'a Path>,
    text: String,
    pub(super) settings: BTreeMap<String, Setting>,
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

    pub(super) fn names(&self, section: &str) -> String {
        let keys = self
            .schema
            .keys()
            .filter_map(|key| key.strip_prefix(section)?.strip_prefix('.'));
        keys.collect::<Vec<_>>().join(", ")
    }

    /// Tries a value by itself and keeps it if it is good. A later one takes an earlier one's place.
    pub(super) fn set(&mut self, key: String, value: Value, place: Place) {
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

    pub(super) fn fault(&mut self, key: &str, place: &Place, problem: String) {
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

    fn lay_together(&self) -> Result<Config, Faults> {
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
        Ok(config)
    }

    fn finish(mut self, inspect: &dyn Fn(&Config) -> Vec<Conflict>) -> Result<Config, Faults> {
        let mut config = self.lay_together()?;
        let mut conflicts = checks::take_url_password(&mut config);
        conflicts.extend(checks::conflicts(&config));
        conflicts.extend(inspect(&config));
        // A conflict with a key that is itself at fault would only be noise.
        let at_fault = |key: &str| self.faults.iter().any(|fault| fault.key == key);
        conflicts.retain(|conflict| !conflict.keys.iter().any(|(key, _)| at_fault(key)));
        for Conflict { mut keys } in conflicts {
            let set = keys
                .iter()
                .position(|(key, _)| self.settings.contains_key(*key));
            let (key, problem) = keys.swap_remove(set.unwrap_or_default());
            let setting = self.settings.get(key);
            let origin = setting.map_or(Origin::Default, |setting| self.origin(&setting.place));
            self.faults.push(Fault {
                origin,
                key: key.to_owned(),
                problem,
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
pub(super) fn value_of(
    kind: &Kind,
    node: &Node,
    expand: &dyn Fn(&str) -> Result<String, expand::Error>,
) -> Result<Option<Value>, String> {
    let value = to_value(node, expand)?;
    match (kind, &value) {
        (Kind::Optional, Value::String(text)) if text.is_empty() => Ok(None),
        (Kind::Optional, Value::Null) => Ok(None),
        // Left empty by mistake, as by a comment before each element, a list of tokens would open the
        // door to everybody.
        (Kind::List, Value::Null) => {
            Err("has no elements; write [] if there are to be none, or remove the line".to_owned())
        }
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
