//! Keys are counted as a whole reading of the block counts them, by day.

use std::collections::BTreeMap;

use super::damage::reframe;
use super::*;

const DAY: i64 = 86_400_000_000_000;

/// Counts by day, column and key as the decoded block has them.
fn read_whole(frame: &Frame) -> BTreeMap<(i64, &'static str, String), u64> {
    let block = Block::decode(frame).unwrap();
    let mut counts = BTreeMap::new();
    for row in block.rows() {
        let day = row.timestamp().div_euclid(DAY);
        let mut add = |column, key: &str| {
            *counts.entry((day, column, key.to_owned())).or_default() += 1;
        };
        row.attributes().for_each(|(key, _)| add("attributes", key));
        row.resource().for_each(|(key, _)| add("resource", key));
    }
    counts
}

fn counted(frame: &Frame) -> BTreeMap<(i64, &'static str, String), u64> {
    let counts = keys(frame).unwrap().into_iter();
    counts
        .map(|count| {
            (
                (count.day, count.column, count.key.to_owned()),
                count.records,
            )
        })
        .collect()
}

/// Records, each so many hours after the epoch and with these keys.
fn frame(records: &[(i64, &[&'static str])]) -> Frame {
    let of = |(hours, keys): &(i64, &[&'static str])| Record {
        timestamp: hours * DAY / 24,
        attributes: keys.iter().map(|key| ((*key).into(), "v".into())).collect(),
        ..record("x")
    };
    encode(&[(group("web"), records.iter().map(of).collect())], 1)
}

#[test]
fn keys_of_one_day_and_of_many_are_counted_as_the_whole_block_has_them() {
    let names: Vec<&'static str> = (0..700).map(|i| &*format!("key.{i}").leak()).collect();
    for frame in [
        frame(&[(30, &["a", "b"]), (31, &["b"]), (40, &[])]),
        frame(&[(30, &["a", "b"]), (0, &["b", "c"]), (80, &[]), (31, &["a"])]),
        // More keys than one byte tells apart.
        frame(&[(30, &names), (31, &names[300..])]),
        frame(&[(30, &names), (300, &names[300..])]),
        frame(&[(30, &[])]),
    ] {
        assert_eq!(counted(&frame), read_whole(&frame));
    }
}

#[test]
fn a_block_cut_anywhere_is_an_error_and_no_panic() {
    let frame = frame(&[(30, &["a", "b"]), (0, &["b", "c"])]);
    let payload = frame.payload();
    for end in 0..payload.len() {
        let cut = reframe(&frame, &payload[..end]);
        assert!(keys(&cut).is_err(), "{end}");
    }
    for at in 0..payload.len() {
        let mut changed = payload.to_vec();
        changed[at] ^= 0x81;
        // Whatever it finds.
        keys(&reframe(&frame, &changed)).ok();
    }
}
