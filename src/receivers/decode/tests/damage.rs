//! Bodies that nobody meant to send: whatever the bytes, a walker answers.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::normalize::Repairs;
use crate::receivers::decode::json::Reader;
use crate::receivers::decode::native::value;

const DOORS: [Decode; 3] = [PROTOBUF, JSON, NATIVE];

fn seeds() -> impl Strategy<Value = Vec<u8>> {
    let json = one(&format!(
        r#"{},{{"severityNumber":"9","traceId":"5b8efff798038103d269b633813fc60c","body":{{"kvlistValue":{{"values":[{{"value":{{"doubleValue":1.5e3}},"key":"a\u00e9\ud83d\ude00"}}]}}}},"attributes":[{{"key":"k","value":{{"arrayValue":{{"values":[null,{{"boolValue":true}}]}}}}}}]}}"#,
        control()
    ));
    let native = "{\"ts\":1789999999.5,\"level\":30,\"msg\":\"m\\n\",\"a\":{\"b\":[1,{\"c\":null}]}}\n[{\"message\":\"x\"},7]\n{\"message\":\"y\"}\n";
    prop::sample::select(vec![json.into_bytes(), native.as_bytes().to_vec()])
}

/// Overwrites, cuts out and doubles parts.
fn mutate(mut body: Vec<u8>, changes: &[(prop::sample::Index, u8, u8)]) -> Vec<u8> {
    const LIKELY: &[u8] = b"{}[]\",:\\\n0e-nt\xff";
    for (place, kind, byte) in changes {
        if body.is_empty() {
            return body;
        }
        let place = place.index(body.len());
        match kind % 4 {
            0 => body[place] = *byte,
            1 => body[place] = LIKELY[usize::from(*byte) % LIKELY.len()],
            2 => drop(body.drain(place..(place + usize::from(*byte)).min(body.len()))),
            _ => body.insert(place, LIKELY[usize::from(*byte) % LIKELY.len()]),
        }
    }
    body
}

fn changes() -> impl Strategy<Value = Vec<(prop::sample::Index, u8, u8)>> {
    vec(any::<(prop::sample::Index, u8, u8)>(), 0..8)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn any_bytes_are_answered(body in vec(any::<u8>(), 0..200)) {
        for door in DOORS {
            drop(run(door, &body));
        }
    }

    #[test]
    fn mutated_json_is_answered(seed in seeds(), changes in changes()) {
        let body = mutate(seed, &changes);
        for door in DOORS {
            drop(run(door, &body));
        }
    }

    #[test]
    fn what_serde_json_reads_so_do_we(seed in seeds(), changes in changes()) {
        let body = mutate(seed, &changes);
        let mut values = serde_json::Deserializer::from_slice(&body).into_iter::<serde_json::Value>();
        let Some(Ok(theirs)) = values.next() else { return Ok(()) };
        let mut reader = Reader::new(&body);
        let range = reader.skip().unwrap();
        prop_assert_eq!(range.end, values.byte_offset());
        let mut repairs = Repairs::default();
        let text = value::text(&mut reader.within(range), usize::MAX - 1, &mut repairs);
        // Compact JSON of ours reads as the same value; of equal keys the last counts in both.
        if let (Some(text), true) = (text.unwrap(), theirs.is_object() || theirs.is_array()) {
            let ours: serde_json::Value = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(ours, theirs);
        }
    }

    #[test]
    fn every_member_of_an_array_is_accepted_or_rejected(kinds in vec(0..4u8, 1..40)) {
        let members = kinds.iter().map(|kind| match kind {
            0 => r#"{"message":"a","n":{"x":[1]}}"#,
            1 => "7",
            2 => r#"[{"message":"nested"}]"#,
            _ => "null",
        });
        let members: Vec<_> = members.collect();
        let good = kinds.iter().filter(|kind| **kind == 0).count();
        let array = format!("[{}]", members.join(","));
        let (outcome, rows) = run(NATIVE, array).unwrap();
        prop_assert_eq!((rows.len(), outcome.rejected as usize), (good, kinds.len() - good));
        let (outcome, rows) = run(JSON, one(&members.join(","))).unwrap();
        // In OTLP null is absence.
        let absent = kinds.iter().filter(|kind| **kind == 3).count();
        prop_assert_eq!((rows.len(), outcome.rejected as usize), (good, kinds.len() - good - absent));
    }

    #[test]
    fn every_line_is_accepted_or_rejected(kinds in vec(0..4u8, 1..40)) {
        let lines = kinds.iter().map(|kind| match kind {
            0 => r#"{"message":"a"}"#,
            1 => r#"{"message":"#,
            2 => r#"{"mess"#,
            _ => "plain text",
        });
        let lines: Vec<_> = lines.collect();
        let good = kinds.iter().filter(|kind| **kind == 0).count();
        let body = format!("{}\n{{\"message\":\"last\"}}", lines.join("\n"));
        let (outcome, rows) = run(NATIVE, body).unwrap();
        prop_assert_eq!((rows.len(), outcome.rejected as usize), (good + 1, kinds.len() - good));
    }
}

#[test]
fn a_good_line_after_many_that_open_an_object_is_kept() {
    let body = format!("{}{{\"message\":\"last\"}}", "{\"message\":\n".repeat(30));
    let (outcome, rows) = run(NATIVE, body).unwrap();
    assert_eq!((rows.len(), outcome.rejected), (1, 30));
    assert_eq!(rows[0].record.message, "last");
}
