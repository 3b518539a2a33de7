//! Section J of the conformance list: the JSON mapping.

use super::*;
use crate::record::Level;

#[test]
fn control_characters_of_a_map_are_written_in_their_shortest_form() {
    // As every JSON library writes them; the longer form would not be found by a search for it.
    let text: String = (0..=0x7f).map(char::from).collect();
    let body = format!(
        r#"{{"kvlistValue":{{"values":[{{"key":{0},"value":{{"stringValue":{0}}}}}]}}}}"#,
        serde_json::to_string(&text).unwrap()
    );
    let expected = serde_json::json!({ (text.as_str()): text }).to_string();
    assert_eq!(message_of(&body), expected);
}

#[test]
fn j_01_keys_in_camel_case_and_in_snake_case() {
    let camel = one(&format!(
        r#"{{"timeUnixNano":"{NOW}","observedTimeUnixNano":"1","severityNumber":13,"severityText":"W","traceId":"5b8efff798038103d269b633813fc60c","spanId":"eee19b7ec3c1b174","droppedAttributesCount":2,"eventName":"e","flags":1,"body":{{"arrayValue":{{"values":[{{"stringValue":"s"}},{{"intValue":1}},{{"doubleValue":1.5}},{{"boolValue":true}},{{"bytesValue":"AA=="}}]}}}}}}"#
    ));
    let snake = [
        "resourceLogs",
        "scopeLogs",
        "logRecords",
        "timeUnixNano",
        "observedTimeUnixNano",
        "severityNumber",
        "severityText",
        "traceId",
        "spanId",
        "droppedAttributesCount",
        "eventName",
        "arrayValue",
        "stringValue",
        "intValue",
        "doubleValue",
        "boolValue",
        "bytesValue",
    ]
    .into_iter()
    .fold(camel.clone(), |text, key| {
        let snake: String = key
            .chars()
            .map(|c| {
                if c.is_uppercase() {
                    format!("_{}", c.to_lowercase())
                } else {
                    c.to_string()
                }
            })
            .collect();
        text.replace(&format!("\"{key}\""), &format!("\"{snake}\""))
    });
    let rows = accepted(JSON, &camel);
    assert_eq!(rows, accepted(JSON, snake));
    assert_eq!(rows[0].message(), r#"["s",1,1.5,true,"AA=="]"#);
    assert_eq!(rows[0].record.level, Level::Warn);
    assert_eq!(
        rows[0].attribute("otel.dropped_attributes_count"),
        Some("2")
    );
    assert_eq!(rows[0].record.trace_flags, 1);
    assert!(rows[0].record.trace_id.is_some() && rows[0].record.span_id.is_some());
}

#[test]
fn j_02_unknown_keys_are_ignored_at_every_level() {
    let junk = r#""x":{"y":[1,{"z":"}"},null,"\"",[[]]]},"#;
    let plain = one(&format!(
        r#"{{"timeUnixNano":"{NOW}","body":{{"stringValue":"b"}},"attributes":[{{"key":"k","value":{{"intValue":1}}}}]}}"#
    ));
    let rows = accepted(
        JSON,
        plain.replace('{', &format!("{{{junk}")).replace(",}", "}"),
    );
    assert_eq!(rows, accepted(JSON, plain));
    assert_eq!(message_of(r#"{"futureValue":{"a":[1]}}"#), "");
}

#[test]
fn j_03_m_24_ids_are_hex_or_none() {
    let id = |trace: &str, span: &str| {
        let rows = beside_control(&format!(r#"{{"traceId":{trace},"spanId":{span}}}"#));
        (
            rows[0].record.trace_id.is_some(),
            rows[0].record.span_id.is_some(),
        )
    };
    let (trace, span) = (
        r#""5B8EFFF798038103D269B633813FC60C""#,
        r#""EEE19B7EC3C1B174""#,
    );
    assert_eq!(id(trace, span), (true, true));
    for none in [
        r#""""#,
        r#""5b8""#,
        r#""zz""#,
        "null",
        "5",
        "{}",
        r#""00000000000000000000000000000000""#,
    ] {
        assert_eq!(id(none, span), (false, true), "{none}");
        assert_eq!(id(trace, none), (true, false), "{none}");
    }
}

#[test]
fn j_04_severity_number_in_digits_or_by_name() {
    for (sent, number) in [
        ("9", 9),
        (r#""9""#, 9),
        ("9.0", 9),
        (r#""SEVERITY_NUMBER_INFO""#, 9),
        (r#""SEVERITY_NUMBER_FATAL4""#, 24),
        (r#""WARN2""#, 14),
        (r#""SEVERITY_NUMBER_UNSPECIFIED""#, 0),
        (r#""loud""#, 0),
        ("null", 0),
        ("{}", 0),
        ("9.5", 0),
    ] {
        let rows = beside_control(&format!(r#"{{"severityNumber":{sent}}}"#));
        assert_eq!(rows[0].record.severity_number, number, "{sent}");
    }
}

#[test]
fn j_05_int64_as_string_or_number() {
    for digits in [
        "9007199254740993",
        "-9223372036854775808",
        "9223372036854775807",
    ] {
        assert_eq!(message_of(&format!(r#"{{"intValue":{digits}}}"#)), digits);
        assert_eq!(message_of(&format!(r#"{{"intValue":"{digits}"}}"#)), digits);
    }
    let time = NOW - 1;
    for sent in [format!("{time}"), format!(r#""{time}""#)] {
        let rows = beside_control(&format!(
            r#"{{"timeUnixNano":{sent}}}, {{"observedTimeUnixNano":{sent}}}"#
        ));
        assert_eq!(rows[0].record.timestamp, time);
        assert_eq!(rows[1].record.timestamp, time);
    }
}

#[test]
fn j_06_whole_numbers_with_fraction_or_exponent() {
    assert_eq!(message_of(r#"{"intValue":42.0}"#), "42");
    assert_eq!(message_of(r#"{"intValue":"1e3"}"#), "1000");
    assert_eq!(message_of(r#"{"intValue":1.5e18}"#), "1500000000000000000");
    let rows = beside_control(r#"{"timeUnixNano":1.789999999e18}"#);
    assert_eq!(rows[0].record.timestamp, 1_789_999_999_000_000_000);
}

#[test]
fn j_07_integers_beyond_64_bits_are_doubles() {
    assert_eq!(message_of(r#"{"intValue":1e+21}"#), "1e21");
    assert_eq!(
        message_of(r#"{"intValue":9223372036854776000}"#),
        "9.223372036854776e18"
    );
    assert_eq!(message_of(r#"{"intValue":42.5}"#), "42.5");
    assert_eq!(message_of(r#"{"intValue":"many"}"#), "many");
}

#[test]
fn j_08_doubles_in_every_form() {
    for (sent, text) in [
        ("1.5", "1.5"),
        ("3", "3.0"),
        (r#""2.25""#, "2.25"),
        (r#""NaN""#, "NaN"),
        (r#""Infinity""#, "Infinity"),
        (r#""-Infinity""#, "-Infinity"),
        ("1e400", "Infinity"),
        ("-1e400", "-Infinity"),
        (r#""inf""#, "inf"),
    ] {
        assert_eq!(
            message_of(&format!(r#"{{"doubleValue":{sent}}}"#)),
            text,
            "{sent}"
        );
    }
}

#[test]
fn j_09_null_double_is_empty() {
    assert_eq!(message_of(r#"{"doubleValue":null}"#), "");
    assert_eq!(
        message_of(r#"{"arrayValue":{"values":[{"doubleValue":null}]}}"#),
        "[null]"
    );
}

#[test]
fn j_10_null_is_absent_everywhere() {
    let rows = beside_control(
        r#"{"timeUnixNano":null,"observedTimeUnixNano":null,"severityNumber":null,"severityText":null,"body":null,"attributes":null,"droppedAttributesCount":null,"flags":null,"traceId":null,"spanId":null,"eventName":null}"#,
    );
    assert_eq!(
        rows[0].record.attributes,
        [("watchtower.timestamp_source".into(), "received".into())]
    );
    for body in [
        r#"{"resourceLogs":null}"#,
        r#"{"resourceLogs":[null]}"#,
        r#"{"resourceLogs":[{"resource":null,"scopeLogs":null,"schemaUrl":null}]}"#,
        r#"{"resourceLogs":[{"resource":{"attributes":null},"scopeLogs":[null]}]}"#,
        r#"{"resourceLogs":[{"scopeLogs":[{"scope":null,"logRecords":null}]}]}"#,
    ] {
        assert_eq!(accepted(JSON, body), [], "{body}");
    }
    let rows = accepted(
        JSON,
        r#"{"resourceLogs":[{"resource":null,"scopeLogs":[{"scope":null,"logRecords":[{}]}]}]}"#,
    );
    assert_eq!(rows[0].group.service, "unknown_service");
    assert_eq!(
        message_of(r#"{"arrayValue":{"values":[null,{"stringValue":null}]}}"#),
        "[null,null]"
    );
}

#[test]
fn j_11_empty_values_and_missing_halves() {
    let (outcome, rows) = run(
        JSON,
        one(r#"{"attributes":[{"key":"e","value":{}},{"key":"n"},{"value":{"stringValue":"lost"}},{}]}"#),
    )
    .unwrap();
    assert_eq!(outcome.repairs.empty_keys, 2);
    assert_eq!(
        (rows[0].attribute("e"), rows[0].attribute("n")),
        (Some(""), Some(""))
    );
    assert_eq!(
        message_of(
            r#"{"kvlistValue":{"values":[{"key":"k1"},{"value":{}},{"key":"","value":{"intValue":"3"}}]}}"#
        ),
        r#"{"k1":null}"#
    );
}

#[test]
fn j_12_lists_without_values_and_bare_lists() {
    assert_eq!(message_of(r#"{"arrayValue":{}}"#), "[]");
    assert_eq!(message_of(r#"{"kvlistValue":{}}"#), "{}");
    assert_eq!(message_of(r#"{"arrayValue":{"values":null}}"#), "[]");
    let bare = r#"{"kvlistValue":[{"key":"a","value":{"intValue":"1"}}]}"#;
    assert_eq!(message_of(bare), r#"{"a":1}"#);
    assert_eq!(
        message_of(r#"{"arrayValue":[{"stringValue":"x"}]}"#),
        r#"["x"]"#
    );
}

#[test]
fn j_13_bytes_in_either_alphabet() {
    for sent in ["+/8=", "-_8=", "+/8", "-_8"] {
        assert_eq!(
            message_of(&format!(r#"{{"bytesValue":"{sent}"}}"#)),
            "+/8=",
            "{sent}"
        );
    }
    let (outcome, rows) = run(JSON, one(r#"{"body":{"bytesValue":"no base64!"}}"#)).unwrap();
    assert_eq!(
        (rows[0].message(), outcome.repairs.odd_values),
        ("no base64!", 1)
    );
}

#[test]
fn j_14_32_bit_numbers_as_number_or_string() {
    for (sent, flags) in [
        ("257", 1),
        (r#""1""#, 1),
        (r#""x""#, 0),
        ("-1", 0),
        ("4294967295", 255),
    ] {
        let rows = beside_control(&format!(
            r#"{{"flags":{sent},"droppedAttributesCount":{sent}}}"#
        ));
        assert_eq!(rows[0].record.trace_flags, flags, "{sent}");
    }
}

#[test]
fn j_15_bools_also_in_quotes() {
    for (sent, text) in [
        ("true", "true"),
        (r#""true""#, "true"),
        (r#""false""#, "false"),
        ("1", "1"),
    ] {
        assert_eq!(message_of(&format!(r#"{{"boolValue":{sent}}}"#)), text);
    }
    assert_eq!(
        message_of(r#"{"arrayValue":{"values":[{"boolValue":"true"}]}}"#),
        "[true]"
    );
}

#[test]
fn j_16_the_last_of_several_members_stands() {
    assert_eq!(message_of(r#"{"stringValue":"a","intValue":7}"#), "7");
    assert_eq!(message_of(r#"{"stringValue":"a","stringValue":"b"}"#), "b");
    assert_eq!(
        message_of(r#"{"arrayValue":{"values":[{"stringValue":"a","intValue":7}]}}"#),
        "[7]"
    );
    let rows = beside_control(
        r#"{"body":{"stringValue":"a"},"body":{"stringValue":"b"},"severityText":"x","severityText":"warn"}"#,
    );
    assert_eq!(
        (rows[0].message(), rows[0].record.level),
        ("b", Level::Warn)
    );
}

#[test]
fn j_17_nul_surrogates_stray_bytes_and_byte_order_mark() {
    assert_eq!(message_of(r#"{"stringValue":"a\u0000b"}"#), "a\0b");
    assert_eq!(message_of(r#"{"stringValue":"\ud83d\ude00"}"#), "😀");
    for (sent, text) in [
        (r"\ud800", "\u{fffd}"),
        (r"\udc00x", "\u{fffd}x"),
        (r"\ud800\u0041", "\u{fffd}A"),
        (r"\ud800\ud83d\ude00", "\u{fffd}😀"),
    ] {
        assert_eq!(
            message_of(&format!(r#"{{"stringValue":"{sent}"}}"#)),
            text,
            "{sent}"
        );
    }
    let mut body = b"\xef\xbb\xbf".to_vec();
    body.extend(one(r#"{"body":{"stringValue":"before-??-after"}}"#).bytes());
    for byte in body.iter_mut().filter(|byte| **byte == b'?') {
        *byte = 0xff;
    }
    let (outcome, rows) = run(JSON, &body).unwrap();
    assert_eq!(rows[0].message(), "before-\u{fffd}\u{fffd}-after");
    assert_eq!(outcome.repairs.invalid_utf8, 1);
}

#[test]
fn j_18_one_object_and_nothing_else() {
    let text = one(&control());
    let pretty: String = text
        .split_inclusive([',', '{', '[', ':'])
        .flat_map(|piece| [piece, "\r\n\t "])
        .collect();
    assert_eq!(accepted(JSON, pretty), accepted(JSON, &text));
    for body in [
        format!("{text}\n{text}"),
        format!("{text} x"),
        format!("[{text}]"),
        "[]".to_owned(),
        "hello".to_owned(),
        String::new(),
        "\"x\"".to_owned(),
        "7".to_owned(),
        "null".to_owned(),
    ] {
        assert!(run(JSON, &body).is_err(), "{body}");
    }
}

#[test]
fn j_19_m_33_values_nested_64_deep_are_kept() {
    let nested = |depth: usize| {
        let open = r#"{"arrayValue":{"values":["#.repeat(depth);
        format!(r#"{open}{{"stringValue":"x"}}{}"#, "]}}".repeat(depth))
    };
    let json =
        |depth: usize, inside: &str| format!("{}{inside}{}", "[".repeat(depth), "]".repeat(depth));
    assert_eq!(message_of(&nested(64)), json(64, r#""x""#));
    assert_eq!(message_of(&nested(65)), json(64, "null"));
    assert_eq!(message_of(&nested(20_000)), json(64, "null"));
    let map = |depth: usize| {
        let open = r#"{"kvlistValue":{"values":[{"key":"k","value":"#.repeat(depth);
        format!(r#"{open}{{"stringValue":"x"}}{}"#, "}]}}".repeat(depth))
    };
    assert_eq!(
        message_of(&map(64)),
        format!(r#"{}"x"{}"#, r#"{"k":"#.repeat(64), "}".repeat(64))
    );
}

#[test]
fn j_03_m_24_what_is_no_id_is_kept_as_text() {
    let rows = accepted(
        JSON,
        r#"{"resourceLogs":[{"scopeLogs":[{"logRecords":[
            {"traceId":"not-an-id","spanId":"EEE19B7EC3C1B174"},
            {"traceId":"5b8efff798038103d269b633813fc60c","spanId":["x",1]},
            {"traceId":"","spanId":null}]}]}]}"#,
    );
    let kept: Vec<_> = rows
        .iter()
        .map(|row| {
            (
                row.attribute("watchtower.original_trace_id"),
                row.attribute("watchtower.original_span_id"),
            )
        })
        .collect();
    assert_eq!(
        kept,
        [
            (Some("not-an-id"), None),
            (None, Some(r#"["x",1]"#)),
            (None, None)
        ]
    );
}

#[test]
fn m_33_j_19_what_was_too_deep_is_marked_where_it_was() {
    let deep = |depth: usize| {
        let open = r#"{"arrayValue":{"values":["#.repeat(depth);
        format!(r#"{open}{{"stringValue":"x"}}{}"#, "]}}".repeat(depth))
    };
    let (fine, deep) = (deep(64), deep(65));
    let rows = accepted(
        JSON,
        format!(
            r#"{{"resourceLogs":[{{"scopeLogs":[{{"logRecords":[
            {{"body":{fine}}},{{"body":{deep}}},{{"attributes":[{{"key":"k","value":{deep}}}]}},{{}}]}}]}},
            {{"resource":{{"attributes":[{{"key":"r","value":{deep}}}]}},"scopeLogs":[{{"logRecords":[{{}}]}}]}}]}}"#
        ),
    );
    let marks: Vec<_> = rows
        .iter()
        .map(|row| row.attribute("watchtower.truncated"))
        .collect();
    let mark = Some("values nested over 64 deep");
    assert_eq!(marks, [None, mark, mark, None, None]);
}

#[test]
fn j_22_official_examples() {
    let rows = accepted(
        JSON,
        r#"{"resourceLogs":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"my.service"}}]},"scopeLogs":[{"scope":{"name":"my.library","version":"1.0.0","attributes":[{"key":"my.scope.attribute","value":{"stringValue":"some scope attribute"}}]},"logRecords":[{"timeUnixNano":"1544712660300000000","observedTimeUnixNano":"1544712660300000000","severityNumber":10,"severityText":"Information","traceId":"5B8EFFF798038103D269B633813FC60C","spanId":"EEE19B7EC3C1B174","body":{"stringValue":"Example log record"},"attributes":[{"key":"string.attribute","value":{"stringValue":"some string"}},{"key":"boolean.attribute","value":{"boolValue":true}},{"key":"int.attribute","value":{"intValue":"10"}},{"key":"double.attribute","value":{"doubleValue":637.704}},{"key":"array.attribute","value":{"arrayValue":{"values":[{"stringValue":"many"},{"stringValue":"values"}]}}},{"key":"map.attribute","value":{"kvlistValue":{"values":[{"key":"some.map.key","value":{"stringValue":"some value"}}]}}}]}]}]}]}"#,
    );
    let row = &rows[0];
    assert_eq!(row.group.service, "my.service");
    assert_eq!(
        (
            row.group.scope_name.as_ref(),
            row.group.scope_version.as_ref()
        ),
        ("my.library", "1.0.0")
    );
    assert_eq!(row.record.severity_text, "Information");
    assert_eq!(
        (row.record.level, row.record.severity_number),
        (Level::Info, 10)
    );
    let expected = [
        ("string.attribute", "some string"),
        ("boolean.attribute", "true"),
        ("int.attribute", "10"),
        ("double.attribute", "637.704"),
        ("array.attribute", r#"["many","values"]"#),
        ("map.attribute", r#"{"some.map.key":"some value"}"#),
        ("otel.scope.my.scope.attribute", "some scope attribute"),
        // The example is from 2018, long out of the 30 days of these tests.
        ("watchtower.timestamp_source", "received"),
        ("watchtower.original_timestamp", "1544712660300000000"),
    ];
    let expected: Vec<_> = expected
        .iter()
        .map(|&(k, v)| (k.into(), v.into()))
        .collect();
    assert_eq!(row.record.attributes, expected);
}

#[test]
fn j_22_collector_omits_zeroes_and_sends_empty_ids() {
    let rows = beside_control(r#"{"body":{"stringValue":"x"},"traceId":"","spanId":""}"#);
    assert_eq!(
        (rows[0].record.trace_id, rows[0].record.span_id),
        (None, None)
    );
    assert_eq!(rows[0].record.level, Level::Unspecified);
}

#[test]
fn keys_may_come_in_any_order() {
    let usual = format!(
        r#"{{"resourceLogs":[{{"resource":{{"attributes":[{{"key":"service.name","value":{{"stringValue":"demo"}}}}]}},"schemaUrl":"r","scopeLogs":[{{"scope":{{"name":"t","version":"2"}},"schemaUrl":"s","logRecords":[{{"timeUnixNano":"{NOW}","attributes":[{{"key":"m","value":{{"kvlistValue":{{"values":[{{"key":"a","value":{{"intValue":1}}}},{{"key":"b","value":{{"intValue":2}}}}]}}}}}}]}}]}}]}}]}}"#
    );
    let backwards = format!(
        r#"{{"resourceLogs":[{{"scopeLogs":[{{"logRecords":[{{"attributes":[{{"value":{{"kvlistValue":{{"values":[{{"value":{{"intValue":1}},"key":"a"}},{{"value":{{"intValue":2}},"key":"b"}}]}}}},"key":"m"}}],"timeUnixNano":"{NOW}"}}],"schemaUrl":"s","scope":{{"version":"2","name":"t"}}}}],"schemaUrl":"r","resource":{{"attributes":[{{"value":{{"stringValue":"demo"}},"key":"service.name"}}]}}}}]}}"#
    );
    let rows = accepted(JSON, usual);
    assert_eq!(rows, accepted(JSON, backwards));
    assert_eq!(rows[0].attribute("m"), Some(r#"{"a":1,"b":2}"#));
    assert_eq!(rows[0].attribute("otel.scope.schema_url"), Some("s"));
    assert_eq!(rows[0].resource("otel.resource.schema_url"), Some("r"));
}

#[test]
fn values_without_their_wrapper_are_taken_as_what_they_are() {
    assert_eq!(message_of(r#""plain""#), "plain");
    assert_eq!(message_of("9007199254740993"), "9007199254740993");
    assert_eq!(message_of("true"), "true");
    assert_eq!(message_of(r#"["a",1,null]"#), r#"["a",1,null]"#);
    let rows =
        beside_control(r#"{"attributes":[{"key":"k","value":"v"},"junk",7],"severityText":30}"#);
    assert_eq!(rows[0].attribute("k"), Some("v"));
    assert_eq!(rows[0].record.level, Level::Info);
}

#[test]
fn a_record_that_is_no_object_costs_itself() {
    let (outcome, rows) = run(JSON, one(&format!("{},7,{}", control(), control()))).unwrap();
    assert_eq!((rows.len(), outcome.rejected), (2, 1));
    assert_eq!(outcome.rejections[0].index, 1);
    assert_eq!(
        outcome.message.as_deref(),
        Some("1 of 3 records rejected; record 1: a log record must be a JSON object")
    );
}

#[test]
fn a_list_of_the_wrong_shape_is_named() {
    let (bare, map) = (r#"{"resourceLogs":{}}"#, one(r#"{"attributes":{"a":"b"}}"#));
    let resource = r#"{"resourceLogs":[{"resource":7}]}"#;
    for (body, wrong, path, what) in [
        (bare, "{}", "resourceLogs", "an array"),
        (
            &map,
            r#"{"a":"b"}"#,
            "resourceLogs[0].scopeLogs[0].logRecords[0].attributes",
            "an array",
        ),
        (resource, "7", "resourceLogs[0].resource", "a JSON object"),
    ] {
        let at = body.find(wrong).unwrap();
        let text = format!("cannot read {path} at byte {at}: it must be {what}");
        assert_eq!(run(JSON, body).unwrap_err().to_string(), text);
    }
}
