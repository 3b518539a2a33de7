//! `${VAR}` and `${VAR:-default}` in the texts of the configuration.
//!
//! It happens after the YAML is parsed, on one scalar at a time: whatever a variable holds becomes
//! text of that scalar and can neither add keys nor change a type.

/// Looks up an environment variable.
pub(super) type Env<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Why a text cannot be expanded.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Error {
    /// The variable is not set and no default is given.
    #[error("environment variable {0} is not set; set it, or write ${{{0}:-DEFAULT}}")]
    Unset(String),
    /// A `${` without its `}`.
    #[error("\"${{\" without a closing \"}}\"; write $${{ for a plain \"${{\"")]
    Unclosed,
    /// What stands in the braces is not a name. It is not repeated, for it may be part of a secret.
    #[error(
        "\"${{\" without a variable's name; write ${{NAME}}, ${{NAME:-DEFAULT}}, or $$ for a plain \"$\""
    )]
    Name,
}

/// Replaces every `${VAR}` and `${VAR:-default}` (used where the variable is unset or empty), and
/// every `$$` by `$`. Any other `$` stays.
pub(super) fn expand(text: &str, env: Env<'_>) -> Result<String, Error> {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        expanded.push_str(before);
        if let Some(after) = after.strip_prefix('$') {
            expanded.push('$');
            rest = after;
        } else if let Some(after) = after.strip_prefix('{') {
            let (inside, after) = after.split_once('}').ok_or(Error::Unclosed)?;
            expanded.push_str(&value_of(inside, env)?);
            rest = after;
        } else {
            expanded.push('$');
            rest = after;
        }
    }
    expanded.push_str(rest);
    Ok(expanded)
}

fn value_of(inside: &str, env: Env<'_>) -> Result<String, Error> {
    let (name, default) = match inside.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (inside, None),
    };
    let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if !is_name {
        return Err(Error::Name);
    }
    match (env(name), default) {
        (Some(value), None) => Ok(value),
        (Some(value), Some(_)) if !value.is_empty() => Ok(value),
        (_, Some(default)) => Ok(default.to_owned()),
        (None, None) => Err(Error::Unset(name.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &str = "\"${\" without a variable's name; write ${NAME}, ${NAME:-DEFAULT}, or $$ \
                        for a plain \"$\"";

    fn env(name: &str) -> Option<String> {
        match name {
            "HOST" => Some("ch.lan".to_owned()),
            "EMPTY" => Some(String::new()),
            "ODD" => Some("a: b\n- ${HOST} $$".to_owned()),
            _ => None,
        }
    }

    #[test]
    fn variables_defaults_and_escapes_are_replaced() {
        for (text, expected) in [
            ("http://${HOST}:8123", "http://ch.lan:8123"),
            ("${NONE:-http://x:8123/a}", "http://x:8123/a"),
            ("${EMPTY:-d}", "d"),
            ("${EMPTY}", ""),
            ("${NONE:-}", ""),
            ("pa$$word", "pa$word"),
            ("$${HOST}", "${HOST}"),
            ("pa$word $", "pa$word $"),
            // What a variable holds is not looked at again.
            ("${ODD}", "a: b\n- ${HOST} $$"),
            ("${HOST}${HOST}", "ch.lanch.lan"),
        ] {
            assert_eq!(expand(text, &env), Ok(expected.to_owned()), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_replaced_says_what_to_write() {
        for (text, says) in [
            (
                "x${NONE}",
                "environment variable NONE is not set; set it, or write ${NONE:-DEFAULT}",
            ),
            (
                "${HOST",
                "\"${\" without a closing \"}\"; write $${ for a plain \"${\"",
            ),
            ("${HO ST}", NAME),
            ("${}", NAME),
            ("${1X:-a}", NAME),
        ] {
            assert_eq!(expand(text, &env).unwrap_err().to_string(), says, "{text}");
        }
    }
}
