//! The query that `tail` and `search` share, and its shorthands.

use clap::Args;

/// Which records to show. They must match all of these, and of one that is given several times, any.
#[derive(Debug, Args)]
pub(super) struct FilterArgs {
    /// What to look for, as in the page's query box: `timeout`, `service:api* level>=warn`,
    /// `http.status_code>=500`, `-healthz` (after `--`), `/regex/`
    #[arg(value_name = "QUERY")]
    query: Vec<String>,
    /// Level: trace, debug, info, warn, error, fatal or unspecified; may be given several times
    #[arg(long, short, value_name = "LEVEL", value_delimiter = ',')]
    level: Vec<String>,
    /// This level and those that are worse
    #[arg(long, short, value_name = "LEVEL")]
    min_level: Option<String>,
    /// Service; may be given several times
    #[arg(long, short, value_name = "NAME")]
    service: Vec<String>,
    /// Environment; may be given several times
    #[arg(long, short, value_name = "NAME")]
    environment: Vec<String>,
    /// Text in the message
    #[arg(long, short, value_name = "TEXT")]
    text: Option<String>,
}

impl FilterArgs {
    /// As parameters of a request.
    pub(super) fn query(&self) -> Vec<(&'static str, String)> {
        let mut query = Vec::new();
        let mut add = |name, values: &[String]| {
            query.extend(values.iter().map(|value| (name, value.clone())))
        };
        let words = Some(self.query.join(" ")).filter(|words| !words.is_empty());
        add("q", words.as_slice());
        add("level", &self.level);
        add("min_level", self.min_level.as_slice());
        add("service", &self.service);
        add("environment", &self.environment);
        add("text", self.text.as_slice());
        query
    }
}
