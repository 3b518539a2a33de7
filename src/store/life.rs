//! How long records are kept, as the tables say it.

use crate::config::{Config, Kept, Period};

/// Longer than any retention.
const NEVER: u32 = u32::MAX;
const DAY: u64 = 86_400;

/// How long rows live, in ClickHouse's words as it prints them back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Life {
    pub(super) ttl: String,
    /// Whether rows of a part may end at different times, so that it must be rewritten.
    pub(super) is_mixed: bool,
    /// Days after which none of a day's rows is left.
    pub(super) days: u64,
}

impl Life {
    pub(super) fn of(config: &Config) -> Life {
        let seconds = |period: &Period| period.duration().as_secs();
        let all = seconds(&config.retention);
        let cases = |pick: &dyn Fn(&Kept) -> Option<(&'static str, String)>| {
            let found = config.retention_except.iter().filter_map(|other| {
                let (column, value) = pick(&other.kept)?;
                Some(format!("{column} = {value}, {}, ", seconds(&other.period)))
            });
            found.collect::<String>()
        };
        let levels = cases(&|kept| match kept {
            Kept::Level(level) => Some(("level", text(level.as_str()))),
            Kept::Service(_) => None,
        });
        let services = cases(&|kept| match kept {
            Kept::Service(name) => Some(("service", text(name))),
            Kept::Level(_) => None,
        });
        let one = |cases: &str| format!("multiIf({cases}{all})");
        // Where both are named the shorter holds; where one is, it does, even if it is longer.
        let life = match (levels.is_empty(), services.is_empty()) {
            (true, true) => all.to_string(),
            (false, true) => one(&levels),
            (true, false) => one(&services),
            (false, false) => {
                let [levels, services] =
                    [levels, services].map(|cases| format!("multiIf({cases}{NEVER})"));
                let shorter = format!("least({levels}, {services})");
                format!("if({shorter} = {NEVER}, {all}, {shorter})")
            }
        };
        let periods = config.retention_except.iter().map(|other| &other.period);
        let longest = periods.map(seconds).fold(all, u64::max);
        Life {
            ttl: format!("toDateTime(timestamp) + toIntervalSecond({life})"),
            is_mixed: !config.retention_except.is_empty(),
            days: longest.div_ceil(DAY) + 1,
        }
    }
}

/// A text in SQL, as ClickHouse prints it back.
fn text(value: &str) -> String {
    format!("'{}'", value.replace('\\', "\\\\").replace('\'', "\\'"))
}
