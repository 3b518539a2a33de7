//! The JSON reader against serde_json.

use serde_json::{Deserializer, Value};
use watchtower::receivers::decode::fuzzing::first_json_value;

/// What serde_json reads so do we, up to the same byte, and as the same value.
pub fn check_serde(body: &[u8]) {
    let mut values = Deserializer::from_slice(body).into_iter::<Value>();
    let Some(Ok(theirs)) = values.next() else {
        return;
    };
    let (end, text) = first_json_value(body).expect("serde_json can read it");
    assert_eq!(end, values.byte_offset());
    if let (Some(text), true) = (text, theirs.is_object() || theirs.is_array()) {
        // Compact JSON of ours reads as the same value; of equal keys the last counts in both.
        let ours: Value = serde_json::from_str(&text).expect("it is JSON");
        assert_eq!(ours, theirs);
    }
}

/// How many objects and how many other values a body holds that serde_json can read whole, as the
/// native door counts them: the members of an array are records of their own.
pub fn count_records(body: &[u8]) -> Option<(usize, usize)> {
    let values: Result<Vec<Value>, _> = Deserializer::from_slice(body).into_iter().collect();
    let mut counts = (0, 0);
    for value in values.ok()? {
        match value {
            Value::Array(members) => members.iter().for_each(|member| count(member, &mut counts)),
            value => count(&value, &mut counts),
        }
    }
    Some(counts)
}

fn count(value: &Value, (objects, others): &mut (usize, usize)) {
    match value {
        Value::Object(_) => *objects += 1,
        _ => *others += 1,
    }
}
