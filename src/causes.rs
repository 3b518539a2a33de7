//! An error with its causes as one line of text.

use std::error::Error;

/// The error and its causes, outermost first. Many an error tells its cause in its own words too; such
/// a cause is not told again.
pub(crate) fn joined(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let words = inner.to_string();
        if !text.contains(&words) {
            text = format!("{text}: {words}");
        }
        cause = inner.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    enum Outer {
        #[error("reading /x failed: {source}")]
        Repeats { source: std::io::Error },
        #[error("reading /x failed")]
        Keeps { source: std::io::Error },
    }

    #[test]
    fn a_cause_is_told_once() {
        let cause = || std::io::Error::other("the disk is gone");
        let repeats = Outer::Repeats { source: cause() };
        assert_eq!(joined(&repeats), "reading /x failed: the disk is gone");
        let keeps = Outer::Keeps { source: cause() };
        assert_eq!(joined(&keeps), "reading /x failed: the disk is gone");
        let wrapped = anyhow::Error::new(repeats).context("could not start");
        assert_eq!(
            joined(wrapped.as_ref()),
            "could not start: reading /x failed: the disk is gone"
        );
    }
}
