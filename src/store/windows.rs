//! Windows of time that a search goes through, growing, so that it has something to answer when it runs
//! into a limit, and what was wanted most is read first.

use crate::api::{Order, SearchQuery};

const HOUR: i64 = 3_600_000_000_000;
const DAY: i64 = 24 * HOUR;
/// By how much a window is longer than the one before.
const GROWTH: i64 = 6;
/// Most windows; the last one takes all that is left.
const MOST: usize = 6;

/// The parts of a search in the order in which they are to be read. They do not overlap, and together
/// they are the whole.
pub(super) fn windows(query: &SearchQuery, now: i64) -> Vec<SearchQuery> {
    let mut windows = Vec::new();
    let mut rest = query.clone();
    let mut length = HOUR;
    while windows.len() + 1 < MOST {
        let mut window = rest.clone();
        match query.order {
            Order::Newest => {
                let before = rest.before.map(|place| place.timestamp.saturating_add(1));
                let end = [rest.to, before].into_iter().flatten().min().unwrap_or(now);
                let cut = end.saturating_sub(length);
                if rest.from.is_some_and(|from| from >= cut) {
                    break;
                }
                (window.from, rest.to) = (Some(cut), Some(cut));
            }
            Order::Oldest => {
                let after = rest.after.map(|place| place.timestamp);
                let Some(start) = [rest.from, after].into_iter().flatten().max() else {
                    break;
                };
                let cut = start.saturating_add(length);
                // Hardly anything is later than a day from now.
                if cut >= rest.to.unwrap_or(now.saturating_add(DAY)) {
                    break;
                }
                (window.to, rest.from) = (Some(cut), Some(cut));
            }
        }
        windows.push(window);
        length *= GROWTH;
    }
    windows.push(rest);
    windows
}

/// Now, in nanoseconds since the epoch.
pub(super) fn now_ns() -> i64 {
    i64::try_from(jiff::Timestamp::now().as_nanosecond()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::Query;

    #[test]
    fn windows_cover_a_search_without_hole_or_overlap() {
        let now = 100 * DAY;
        let cases = [
            (None, None),
            (Some(now - 30 * DAY), None),
            (Some(now - 30 * DAY), Some(now - DAY)),
            (Some(now - HOUR / 2), Some(now)),
        ];
        for order in [Order::Newest, Order::Oldest] {
            for (from, to) in cases {
                let query = SearchQuery {
                    query: Query::default(),
                    from,
                    to,
                    before: None,
                    after: None,
                    order,
                    limit: 5,
                };
                let mut all = windows(&query, now);
                if order == Order::Newest {
                    all.reverse();
                }
                assert_eq!(all.first().unwrap().from, from);
                assert_eq!(all.last().unwrap().to, to);
                for pair in all.windows(2) {
                    assert_eq!(pair[0].to, pair[1].from);
                    assert!(pair[0].to.is_some());
                }
                assert!(all.len() <= MOST);
            }
        }
    }
}
