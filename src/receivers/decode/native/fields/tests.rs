//! The table of names: in the code, beside it, and in the documentation.

use super::*;

const CODE: &str = include_str!("../fields.rs");
const DOCUMENT: &str = include_str!("../../../../../docs/json.md");

/// The rows of a table as the field and its names, the best first.
fn rows<'t>(text: &'t str, before: &str) -> Vec<(&'t str, Vec<&'t str>)> {
    let rows = text.lines().filter_map(|line| line.strip_prefix(before));
    rows.skip_while(|row| !row.contains("---"))
        .skip(1)
        .map(|row| {
            let (field, names) = row.split_once('|').unwrap();
            // What is behind a semicolon has a condition.
            let names = names.split(';').next().unwrap();
            (field.trim(), names.split('`').skip(1).step_by(2).collect())
        })
        .collect()
}

/// The names that the code takes for fields, in lower case, in the order of their rank.
fn names_in_code(field: Field) -> Vec<String> {
    let arms = CODE
        .lines()
        .filter_map(|line| line.trim().strip_prefix("b\""));
    let mut names: Vec<_> = arms
        .filter_map(|arm| arm.split_once('"'))
        .filter_map(|(name, _)| {
            let (found, rank) = Field::named(name).unwrap();
            (found == field).then(|| (rank, name.to_owned()))
        })
        .collect();
    names.sort();
    names.into_iter().map(|(_, name)| name).collect()
}

#[test]
fn the_tables_have_every_name_that_the_code_takes() {
    let table = rows(DOCUMENT, "|");
    assert_eq!(rows(CODE, "//! |"), table);
    let fields = [
        ("timestamp", Field::Timestamp),
        ("level", Field::Level),
        ("severity_number", Field::SeverityNumber),
        ("severity_text", Field::SeverityText),
        ("service", Field::Service),
        ("environment", Field::Environment),
        ("message", Field::Message),
        ("trace_id", Field::TraceId),
        ("span_id", Field::SpanId),
        ("trace_flags", Field::TraceFlags),
        ("event_name", Field::EventName),
        ("scope_name", Field::ScopeName),
        ("scope_version", Field::ScopeVersion),
    ];
    assert_eq!(table.len(), fields.len());
    for ((name, field), (documented, names)) in fields.into_iter().zip(table) {
        assert_eq!(name, documented);
        let names: Vec<_> = names.iter().map(|name| name.to_ascii_lowercase()).collect();
        assert_eq!(names, names_in_code(field), "{name}");
        for (rank, name) in names.iter().enumerate() {
            assert_eq!(Field::named(name), Some((field, rank as u8)), "{name}");
        }
    }
}

#[test]
fn the_depth_to_which_objects_are_flattened_is_documented() {
    let depth = super::super::record::MAX_FLATTENED;
    assert!(DOCUMENT.contains(&format!("up to\n{depth} below the record")));
}
