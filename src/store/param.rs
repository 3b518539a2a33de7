//! Values for the places in a query, so that nothing from outside becomes SQL.

/// A bound parameter: what stands in the SQL as `{name:Type}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Param {
    /// Its name in the SQL.
    pub name: String,
    /// Its value, in ClickHouse's escaped text form.
    pub value: String,
}

impl Param {
    /// A text.
    #[must_use]
    pub fn text(name: impl Into<String>, text: &str) -> Param {
        Param {
            name: name.into(),
            value: escaped(text),
        }
    }

    /// A list of texts, for `Array(String)`. Its elements are escaped and quoted, the list is not
    /// escaped once more.
    #[must_use]
    pub fn texts<'a>(name: impl Into<String>, texts: impl IntoIterator<Item = &'a str>) -> Param {
        let quoted: Vec<String> = texts
            .into_iter()
            .map(|text| format!("'{}'", escaped(text).replace('\'', "\\'")))
            .collect();
        Param {
            name: name.into(),
            value: format!("[{}]", quoted.join(",")),
        }
    }

    /// A number.
    #[must_use]
    pub fn number(name: impl Into<String>, number: impl std::fmt::Display) -> Param {
        Param {
            name: name.into(),
            value: number.to_string(),
        }
    }
}

/// Text as ClickHouse's tab-separated form has it.
fn escaped(text: &str) -> String {
    let mut value = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '\\' => value.push_str("\\\\"),
            '\t' => value.push_str("\\t"),
            '\n' => value.push_str("\\n"),
            '\r' => value.push_str("\\r"),
            '\0' => value.push_str("\\0"),
            other => value.push(other),
        }
    }
    value
}
