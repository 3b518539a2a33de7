//! Queries: any text; how it is understood is itself a query that is understood the same.

#![no_main]

use libfuzzer_sys::fuzz_target;
use watchtower::query::{MAX_BYTES, Query};

fuzz_target!(|text: &str| {
    let Ok(query) = Query::parse(text) else {
        assert!(text.len() > MAX_BYTES);
        return;
    };
    drop(query.to_json());
    let understood = query.to_string();
    // Quotation marks may make it longer than a query can be.
    if let Ok(again) = Query::parse(&understood) {
        assert_eq!(again.to_string(), understood, "out of {text:?}");
        assert!(again.literal().is_none(), "{understood:?} is no query");
    }
    let both = query.clone().and(again_of(&understood));
    drop(both.to_string());
});

fn again_of(text: &str) -> Query {
    Query::parse(text).unwrap_or_default()
}
