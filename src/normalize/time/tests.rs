use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::normalize::Limits;
use crate::record::Receiver;

const NOW: i64 = 1_790_000_000_000_000_000;
const DAY: i64 = 86_400_000_000_000;

fn context() -> Context {
    Context {
        receiver: Receiver::OtlpHttp,
        received_at: NOW,
        retention: Duration::from_secs(30 * 86_400),
        future: Duration::from_secs(365 * 86_400),
        digits: Default::default(),
        limits: Limits {
            message: 64,
            value: 64,
            attributes: 8,
            expanded: 1 << 20,
        },
    }
}

fn resolve(event: u64, observed: u64) -> (i64, Option<&'static str>, Option<String>) {
    let time = row_time(
        Stamp::from_otlp(event),
        Stamp::from_otlp(observed),
        &context(),
    );
    (
        time.timestamp,
        time.source,
        time.original.map(Cow::into_owned),
    )
}

#[test]
fn m_14_event_then_observed_then_received() {
    let (event, observed) = (NOW - 5, NOW - 3);
    assert_eq!(resolve(event as u64, observed as u64), (event, None, None));
    assert_eq!(
        resolve(0, observed as u64),
        (observed, Some("observed"), None)
    );
    assert_eq!(resolve(0, 0), (NOW, Some("received"), None));
}

#[test]
fn m_15_m_16_times_beyond_2262_never_wrap() {
    for beyond in [1 << 63, u64::MAX] {
        let text = Some(beyond.to_string());
        assert_eq!(resolve(beyond, 0), (NOW, Some("received"), text.clone()));
        assert_eq!(
            resolve(beyond, (NOW - 3) as u64),
            (NOW - 3, Some("observed"), text)
        );
    }
    let last = i64::MAX as u64;
    assert_eq!(
        resolve(last, 0),
        (NOW, Some("received"), Some(last.to_string()))
    );
    assert_eq!(resolve(1, 0), (NOW, Some("received"), Some("1".to_owned())));
}

#[test]
fn m_18_r_021_only_what_the_store_keeps_is_a_row_time() {
    let oldest = NOW - 30 * DAY;
    assert_eq!(resolve(oldest as u64, 0), (oldest, None, None));
    let older = (oldest - 1) as u64;
    assert_eq!(
        resolve(older, NOW as u64),
        (NOW, Some("received"), Some(older.to_string()))
    );
    // Ahead it is stored as sent, up to `limits.future`.
    for days in [1, 2, 31, 365] {
        let ahead = NOW + days * DAY;
        assert_eq!(resolve(ahead as u64, 0), (ahead, None, None), "{days}");
    }
    let later = (NOW + 365 * DAY + 1) as u64;
    assert_eq!(
        resolve(later, 0),
        (NOW, Some("received"), Some(later.to_string()))
    );
    assert_eq!(
        resolve(0, later),
        (NOW, Some("received"), Some(later.to_string()))
    );
}

#[test]
fn epoch_numbers_by_magnitude() {
    let nanos = 1_700_344_572_441_000_936;
    for (text, expected) in [
        ("1700344572", 1_700_344_572_000_000_000),
        ("1700344572.441000936", nanos),
        ("1700344572.4410009369", nanos),
        ("1700344572441", 1_700_344_572_441_000_000),
        ("1700344572441.000936", nanos),
        ("1700344572441000", 1_700_344_572_441_000_000),
        ("1700344572441000.936", nanos),
        ("1700344572441000936", nanos),
        ("1.700344572441e9", 1_700_344_572_441_000_000),
        ("1.7e+9", 1_700_000_000_000_000_000),
        ("0", 0),
        ("-1.5", -1_500_000_000),
    ] {
        assert_eq!(parse_epoch(text), Some(expected), "{text}");
    }
    for text in [
        "",
        "x",
        "1700344572441000936000000",
        "1e400",
        "NaN",
        "1-2",
        "3.2ms",
    ] {
        assert_eq!(parse_epoch(text), None, "{text}");
    }
}

#[test]
fn dates_as_people_write_them() {
    let nanos = 1_700_344_572_441_000_936;
    for (text, expected) in [
        ("2023-11-18T21:56:12.441000936Z", nanos),
        ("2023-11-18t21:56:12.441000936z", nanos),
        ("2023-11-18 21:56:12.441000936", nanos),
        ("2023-11-18 21:56:12,441000936 UTC", nanos),
        ("2023-11-18T23:56:12.441000936+02:00", nanos),
        ("2023-11-18T23:56:12.441000936+0200", nanos),
        ("2023-11-18T16:26:12.441000936-05:30", nanos),
        ("2023-11-18T21:56:12Z", 1_700_344_572_000_000_000),
        ("2023-11-18 21:56", 1_700_344_560_000_000_000),
        ("2016-12-31T23:59:60Z", 1_483_228_800_000_000_000),
        ("1969-12-31T23:59:59.5Z", -500_000_000),
        ("2024-02-29T00:00:00Z", 1_709_164_800_000_000_000),
    ] {
        assert_eq!(parse_rfc3339(text), Some(expected), "{text}");
    }
    for text in [
        "",
        "2023-11-18",
        "2023-02-29T00:00:00Z",
        "2023-13-01T00:00:00Z",
        "2023-00-01T00:00:00Z",
        "2023-11-18T24:00:00Z",
        "2023-11-18T21:56:12.Z",
        "2023-11-18T21:56:12Zjunk",
        "2023-11-18T21:56:12+24:00",
        "9999-12-31T23:59:59Z",
        "tomorrow at noon",
    ] {
        assert_eq!(parse_rfc3339(text), None, "{text}");
    }
}

proptest! {
    #[test]
    fn dates_agree_with_jiff(nanos: i64) {
        let time = jiff::Timestamp::from_nanosecond(nanos.into()).unwrap();
        prop_assert_eq!(parse_rfc3339(&time.to_string()), Some(nanos));
    }

    #[test]
    fn any_text_is_a_time_or_none(text: String) {
        parse_rfc3339(&text);
        parse_epoch(&text);
    }
}

/// A row's life ends at its time and the retention, in 32 bits of seconds; beyond them it would begin
/// again in 1970, and the row be gone at once.
#[test]
fn m_18_a_row_whose_end_the_tables_cannot_hold_has_the_time_of_receipt() {
    let last = i64::from(u32::MAX) * 1_000_000_000;
    let at = |received_at| Context {
        received_at,
        future: Duration::from_secs(18_250 * 86_400),
        ..context()
    };
    let received = last - 60 * DAY;
    for (nanos, admitted) in [
        (received + 30 * DAY, true),
        (received + 30 * DAY + 1, false),
        (received, true),
    ] {
        assert_eq!(at(received).admits(nanos), admitted, "{nanos}");
    }
    // Even then what is dated now is.
    assert!(at(last).admits(last));
    assert!(!at(last).admits(last + 1));
}
