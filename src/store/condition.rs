//! Conditions of a select, and the parameters in them.

use super::Param;
use crate::query::Query;

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

    /// Adds what the query asks for.
    pub(super) fn query(&mut self, query: &Query) {
        if !query.is_everything() {
            let condition = query.sql(&mut self.params);
            self.conditions.push(condition);
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
