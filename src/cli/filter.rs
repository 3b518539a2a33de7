//! The filters that `tail` and `search` share.

use clap::Args;

/// Which records to show; all that are given must match.
#[derive(Debug, Args)]
pub(super) struct FilterArgs {
    /// Level: trace, debug, info, warn, error or fatal
    #[arg(long, short, value_name = "LEVEL")]
    level: Option<String>,
    /// Service
    #[arg(long, short, value_name = "NAME")]
    service: Option<String>,
    /// Environment
    #[arg(long, short, value_name = "NAME")]
    environment: Option<String>,
    /// Text in the message
    #[arg(long, short, value_name = "TEXT")]
    text: Option<String>,
}

impl FilterArgs {
    /// As parameters of a request.
    pub(super) fn query(&self) -> Vec<(&'static str, String)> {
        let all = [
            ("level", &self.level),
            ("service", &self.service),
            ("environment", &self.environment),
            ("text", &self.text),
        ];
        let given = all
            .into_iter()
            .filter_map(|(name, value)| Some((name, value.clone()?)));
        given.collect()
    }
}
