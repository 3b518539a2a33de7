//! Tests of the parser: what is understood, what is text, and that a tree reads back as itself.

use proptest::prelude::*;

use super::*;

fn understood(text: &str) -> String {
    let query = Query::parse(text).unwrap();
    assert_eq!(query.literal(), None, "{text}");
    let again = Query::parse(&query.to_string()).unwrap();
    assert_eq!(again.0.expr, query.0.expr, "{text} became {query}");
    query.to_string()
}

#[test]
fn queries_are_understood() {
    for (text, expected) in [
        ("", ""),
        ("  ", ""),
        ("timeout", "timeout"),
        ("disk full", "disk full"),
        ("\"disk full\"", "\"disk full\""),
        ("a AND b OR c", "(a b) OR c"),
        ("a (b OR c)", "a (b OR c)"),
        ("-healthz NOT x", "-healthz -x"),
        ("-(a b)", "-(a b)"),
        ("NOT NOT a", "a"),
        ("service:api*", "service:api*"),
        ("env:(prod OR stage)", "environment:(prod OR stage)"),
        (
            "env:(prod, \"a b\" c)",
            "environment:(\"prod,\" OR \"a b\" OR c)",
        ),
        ("http.status_code>=500", "http.status_code>=500"),
        (
            "attributes.level:x resource.host.name:y",
            "attributes.level:x resource.host.name:y",
        ),
        ("\"odd key\":v", "\"odd key\":v"),
        ("user.id:*", "user.id:*"),
        ("level:warn", "level:warn"),
        ("level>=WARNING", "level>=warn"),
        ("level:(err OR fatal)", "level>=error"),
        (
            "-level:info",
            "level:(fatal OR error OR warn OR debug OR trace OR unspecified)",
        ),
        ("level<unspecified", "level<unspecified"),
        ("trace_id:AB12", "trace_id:ab12"),
        ("id>5", "id>5"),
        ("id:(5 OR 6)", "id:5 OR id:6"),
        ("*:needle", "*:\"needle\""),
        ("/a\\/b [0-9]+/", "/a\\/b [0-9]+/"),
        ("k:\"a*b\" k:a\\*b*", "k:\"a*b\" k:a\\*b*"),
        ("f:\"\"", "f:\"\""),
        ("(a)(b)", "a b"),
        ("k:x(1)", "k:\"x(1)\""),
        ("\"ody\"::r*o", "\"ody\"::r*o"),
        ("ody::r*o", "\"ody::r*o\""),
    ] {
        assert_eq!(understood(text), expected, "{text}");
    }
}

#[test]
fn punctuation_is_text() {
    for text in [
        "[GET]",
        "a=b",
        "https://x/y",
        "192.168.1.7:443",
        "12:30:45",
        "std::string",
        "main()",
        "a)",
        "<html>",
        "foo->bar",
        "x=>y",
        "--verbose",
        "-",
        "/var/log",
        "C:\\temp",
        "100%",
        "*",
        "{\"a\":1}",
        "TypeError:",
        "k:",
        "f(a:b)",
        "...",
        "@user",
        "#5",
        "'x'",
        "ä:b",
    ] {
        let query = Query::parse(text).unwrap();
        assert_eq!(query.literal(), None, "{text}");
        match text {
            // A key and its value.
            "C:\\temp" => assert_eq!(query.to_string(), "C:\"\\\\temp\""),
            _ => assert_eq!(query, Query::message(text), "{text}"),
        }
    }
    assert_eq!(understood("TypeError: x"), "\"TypeError:\" x");
    assert_eq!(understood("(main() [x])"), "\"main()\" \"[x]\"");
}

#[test]
fn text_that_is_no_query_is_looked_for_and_says_why() {
    let deep = format!("{}a{}", "(".repeat(100), ")".repeat(100));
    let many = "a ".repeat(300);
    for (text, position) in [
        ("\"open", 0),
        ("a OR", 4),
        ("OR b", 0),
        ("(a", 0),
        ("a AND", 5),
        ("x level:loud", 8),
        ("id:abc", 3),
        ("/(/", 0),
        ("a:(b AND c)", 8),
        ("a -(", 4),
        ("()", 1),
        (&deep, 32),
        (&many, 400),
    ] {
        let query = Query::parse(text).unwrap();
        let fault = query
            .literal()
            .unwrap_or_else(|| panic!("{text} is {query}"));
        assert_eq!(fault.position, position, "{text}: {fault}");
        assert_eq!(query, Query::message(text.trim()));
        assert!(query.to_json()["searched_as_text"]["text"].is_string());
    }
    assert_eq!(
        Query::parse(&"x".repeat(5000)).unwrap_err().position,
        MAX_BYTES
    );
}

#[test]
fn what_was_hardly_meant_is_hinted_at() {
    let hint = |text: &str| Query::parse(text).unwrap().hints().first().cloned();
    let equals = hint("x level=error").unwrap();
    assert_eq!(
        (equals.position, equals.instead.as_str()),
        (2, "level:error")
    );
    let port = hint("localhost:8080").unwrap();
    assert_eq!(port.instead, "\"localhost:8080\"");
    assert_eq!(port.field.as_deref(), Some("localhost"));
    assert_eq!(hint("user:bob a=b level:error"), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// Any text is a query or is looked for as it stands, and what was understood reads back the same.
    #[test]
    fn any_text_is_read_and_read_back(text in "[ -~äß\\n]{0,40}") {
        let query = Query::parse(&text).unwrap();
        let again = Query::parse(&query.to_string()).unwrap();
        prop_assert_eq!(again.literal(), None);
        prop_assert_eq!(&again.0.expr, &query.0.expr, "{} became {}", text, query);
    }

    #[test]
    fn text_of_operators_is_read_and_read_back(
        text in "(a|b|level|service|id|x y|:|>=|<|\\(|\\)|\"|/|\\*|-| OR | AND | NOT |5|\\\\|warn| ){0,16}",
    ) {
        let query = Query::parse(&text).unwrap();
        let again = Query::parse(&query.to_string()).unwrap();
        prop_assert_eq!(again.literal(), None);
        prop_assert_eq!(&again.0.expr, &query.0.expr, "{} became {}", text, query);
    }
}
