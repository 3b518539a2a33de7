//! Requests that came to the wrong door, or in a form that is a little off.

use crate::support::grpc::{call, framed};
use crate::support::http;
use crate::support::otlp::{Door, JSON, ONE_RECORD_JSON, PROTOBUF, one_record};

#[test]
fn h_08_h_13_an_empty_object_is_answered_with_one() {
    let door = Door::shared();
    let answer = http::post(door.http, "/v1/logs", JSON, b"{}").unwrap();
    assert_eq!((answer.status, answer.text().as_str()), (200, "{}"));
}

#[test]
fn plain_json_is_taken_with_a_slash_at_the_end_too() {
    let door = Door::shared();
    let answer = http::post(door.web, "/api/logs/", JSON, br#"{"message":"m"}"#).unwrap();
    assert_eq!(
        (answer.status, answer.json()["accepted"].as_i64()),
        (202, Some(1))
    );
}

#[test]
fn a_request_of_otlp_among_plain_json_is_told_where_it_belongs() {
    let door = Door::shared();
    let answer = http::post(door.web, "/api/logs", JSON, ONE_RECORD_JSON).unwrap();
    let error = answer.json();
    let message = error["message"].as_str().unwrap();
    assert_eq!((answer.status, error["code"].as_i64()), (400, Some(3)));
    assert!(message.contains("POST /v1/logs"), "{message}");
}

#[test]
fn h_04_only_methods_that_there_are_are_listed() {
    let door = Door::shared();
    for path in ["/api/logs", "/api/logs/", "/v1/logs"] {
        for method in ["PUT", "OPTIONS"] {
            let answer = http::request(door.web, method, path, &[], b"").unwrap();
            let allow = answer.header("allow").unwrap();
            assert_eq!(answer.status, 405, "{method} {path}");
            assert!(
                allow.contains("POST") && !allow.contains("OPTIONS"),
                "{path}: {allow}"
            );
        }
    }
    let door = Door::open("cors:\n  origins: [\"http://app.lan\"]\n");
    let answer = http::request(door.web, "PUT", "/api/logs", &[], b"").unwrap();
    assert!(answer.header("allow").unwrap().contains("OPTIONS"));
}

#[test]
fn h_03_protobuf_at_the_root_of_the_web_port_is_told_the_path_in_protobuf() {
    let door = Door::shared();
    let answer = http::post(door.web, "/", PROTOBUF, &one_record()).unwrap();
    assert_eq!(
        (answer.status, answer.header("content-type")),
        (404, Some(PROTOBUF))
    );
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    assert!(text.contains("write /v1/logs at its end"), "{text}");
}

#[test]
fn h_03_b_07_hints_name_the_configured_path() {
    let door = Door::open("otlp:\n  path: /in/logs\n");
    for (path, part) in [
        ("/", "write /in/logs at its end"),
        ("/v1/logs", "POST /in/logs"),
        ("//in/logs", "a slash too many"),
    ] {
        let answer = http::post(door.http, path, JSON, ONE_RECORD_JSON).unwrap();
        let error = answer.json();
        assert_eq!(answer.status, 404);
        assert!(
            error["message"].as_str().unwrap().contains(part),
            "{path}: {error}"
        );
    }
}

#[test]
fn g_15_g_26_a_request_for_the_health_that_cannot_be_decoded_is_the_senders_fault() {
    let door = Door::shared();
    let method = "/grpc.health.v1.Health/Check";
    let called = call(door.grpc, method, &[], framed(0, b"\xff\xff\xff"));
    assert_eq!(called.code(), 3, "{called:?}");
    let called = call(door.grpc, method, &[], framed(0, b""));
    assert_eq!(called.code(), 0, "{called:?}");
}
