//! What the daemon says about a query: that it was taken for plain text, or what may have been meant.

use serde::Deserialize;

use super::say;

/// The part of an answer that tells how the query was understood.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Understood {
    searched_as_text: Option<Fault>,
    hints: Vec<Hint>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Fault {
    position: usize,
    text: String,
    hint: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Hint {
    instead: String,
}

impl Understood {
    /// Tells the person at the terminal.
    pub(super) fn tell(&self) {
        for remark in self.remarks() {
            say(&remark);
        }
    }

    fn remarks(&self) -> Vec<String> {
        let fault = self.searched_as_text.iter().map(|fault| {
            let hint = fault.hint.as_deref();
            let hint = hint.map_or(String::new(), |hint| format!(" ({hint})"));
            let (text, at) = (&fault.text, fault.position + 1);
            format!("the query was searched as plain text: {text}, at position {at}{hint}")
        });
        let hints = self
            .hints
            .iter()
            .map(|hint| format!("did you mean {}?", hint.instead));
        fault.chain(hints).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::Query;

    #[test]
    fn what_the_daemon_says_of_a_query_is_told() {
        let remarks = |q: &str| {
            let answer = Query::parse(q).unwrap().to_json();
            serde_json::from_value::<Understood>(answer)
                .unwrap()
                .remarks()
        };
        assert_eq!(remarks("service:api timeout"), [] as [&str; 0]);
        let told = remarks("(a OR");
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(
            told[0].starts_with("the query was searched as plain text: "),
            "{told:?}"
        );
    }
}
