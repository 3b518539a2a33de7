//! A viewer's filter as a condition in SQL.
//!
//! What a viewer wrote only ever becomes a bound parameter; the SQL around it is made here.

use super::Param;
use crate::live::{Filter, LevelSet};
use crate::record::Level;

/// Conditions that must all hold, and the parameters that stand in them.
#[derive(Debug, Clone, Default)]
pub(super) struct Where {
    conditions: Vec<String>,
    params: Vec<Param>,
}

impl Where {
    /// Adds a condition that has no parameter.
    pub(super) fn condition(&mut self, sql: impl Into<String>) {
        self.conditions.push(sql.into());
    }

    /// Adds a condition with one parameter: `{}` in the SQL becomes its place.
    pub(super) fn with(&mut self, sql: &str, kind: &str, param: impl FnOnce(String) -> Param) {
        let name = format!("p{}", self.params.len());
        self.conditions
            .push(sql.replace("{}", &format!("{{{name}:{kind}}}")));
        self.params.push(param(name));
    }

    /// Adds what the filter asks for.
    pub(super) fn filter(&mut self, filter: &Filter) {
        if filter.levels() != LevelSet::ALL {
            let names: Vec<&str> = filter.levels().iter().map(Level::as_str).collect();
            self.with("has({}, level)", "Array(String)", |name| {
                Param::texts(name, names)
            });
        }
        for (column, values) in [
            ("service", filter.services()),
            ("environment", filter.environments()),
        ] {
            if !values.is_empty() {
                let values = values.iter().map(String::as_str);
                self.with(&format!("has({{}}, {column})"), "Array(String)", |name| {
                    Param::texts(name, values)
                });
            }
        }
        if !filter.text().is_empty() {
            self.with(
                "positionCaseInsensitiveUTF8(message, {}) > 0",
                "String",
                |name| Param::text(name, filter.text()),
            );
        }
    }

    /// The condition, and the parameters in it.
    pub(super) fn finish(self) -> (String, Vec<Param>) {
        if self.conditions.is_empty() {
            return ("1".to_owned(), self.params);
        }
        (self.conditions.join("\n  AND "), self.params)
    }
}
