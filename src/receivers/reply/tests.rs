use super::*;

/// One of each.
fn every_reject() -> Vec<Reject> {
    vec![
        Reject::bad_data("why".into()),
        Reject::Framing("why".into()),
        Reject::Unauthenticated(Denied::Missing),
        Reject::Origin("http://evil.example".into()),
        Reject::TooLarge {
            limit: 67_108_864,
            what: "the request body is",
            setting: "limits.body",
        },
        Reject::MediaType("text/html".into()),
        Reject::Coding("br".into()),
        Reject::Method("POST"),
        Reject::Path("nothing here".into()),
        Reject::OtherSignal("traces"),
        Reject::BodyTimeout(Duration::from_secs(30)),
        Reject::Unavailable("queue full".into()),
        Reject::Bug,
        Reject::Headers {
            bytes: 20_000,
            limit: 16_384,
        },
        Reject::Deadline,
        Reject::Forbidden(Denied::Other),
        Reject::Rate(10),
    ]
}

/// The table of the checklist, row by row: gRPC code, HTTP status, and whether clients come back.
#[test]
fn g_17_h_25_b_09_every_error_is_of_the_class_it_is_meant_to_be() {
    let expected = [
        ("bad_data", 3, 400),
        ("framing", 13, 400),
        ("unauthenticated", 16, 401),
        ("origin", 7, 403),
        ("too_large", 8, 413),
        ("media_type", 12, 415),
        ("coding", 12, 415),
        ("method", 12, 405),
        ("path", 12, 404),
        ("other_signal", 12, 404),
        ("body_timeout", 14, 503),
        ("unavailable", 14, 503),
        ("bug", 13, 500),
        ("headers", 8, 431),
        ("deadline", 4, 504),
        ("forbidden", 7, 403),
        ("rate", 8, 429),
    ];
    assert_eq!(every_reject().len(), Reject::REASONS.len());
    assert_eq!(expected.len(), Reject::REASONS.len());
    let retried_over_grpc = [1, 4, 10, 11, 14, 15];
    let retried_over_http = [429, 502, 503, 504];
    for (reject, (reason, grpc, http)) in every_reject().into_iter().zip(expected) {
        assert_eq!(Reject::REASONS[reject.reason()], reason);
        let (code, status) = reject.codes();
        assert_eq!((code as i32, status.as_u16()), (grpc, http), "{reason}");
        let may_come_back = matches!(
            reject,
            Reject::Unavailable(_) | Reject::BodyTimeout(_) | Reject::Deadline | Reject::Rate(_)
        );
        assert_eq!(retried_over_http.contains(&http), may_come_back, "{reason}");
        // RESOURCE_EXHAUSTED is retried where it says when (OTLP gRPC, "Throttling").
        let says_when = grpc == 8 && matches!(reject.detail(""), Some(Detail::Retry(_)));
        let retried = says_when || retried_over_grpc.contains(&grpc);
        assert_eq!(retried, may_come_back, "{reason}");
    }
}

#[test]
fn g_16_g_18_g_19_come_back_later_is_said_in_every_place_where_clients_look() {
    let response = Reject::Unavailable("queue full".into()).into_grpc();
    let headers = response.headers();
    assert_eq!(headers["grpc-status"], "14");
    let status = Status::from_header_map(headers).unwrap();
    let trailer = status
        .metadata()
        .get_bin("google.rpc.retryinfo-bin")
        .unwrap()
        .to_bytes()
        .unwrap();
    // RetryInfo { retry_delay: { seconds: 1 } }
    assert_eq!(&trailer[..], [0x0a, 2, 8, 1]);
    let details = status.details();
    assert!(
        details
            .windows(trailer.len())
            .any(|part| part == &trailer[..]),
        "{details:?}"
    );
}

#[test]
fn h_23_b_10_retry_after_is_a_whole_number_from_1_to_3() {
    let slow = Reject::BodyTimeout(Duration::from_secs(30));
    for reject in [Reject::Unavailable("queue full".into()), slow] {
        let response = reject.into_http(Encoding::Protobuf);
        let value = response.headers()[RETRY_AFTER].to_str().unwrap();
        let seconds: u32 = value.parse().unwrap();
        assert!((1..=3).contains(&seconds));
    }
}

/// There is no limit per client, to which alone it would be the answer: some clients never come back
/// after it.
#[test]
fn h_24_only_a_limit_of_the_client_is_answered_with_429() {
    let rejects = every_reject().into_iter();
    let limits = rejects.filter(|reject| reject.codes().1 == 429);
    assert_eq!(limits.collect::<Vec<_>>(), [Reject::Rate(10)]);
}

#[test]
fn g_07_too_large_never_asks_to_come_back() {
    let too_large = || Reject::TooLarge {
        limit: 67_108_864,
        what: "the message is",
        setting: "limits.body",
    };
    let response = too_large().into_grpc();
    assert_eq!(response.headers()["grpc-status"], "8");
    assert!(!response.headers().contains_key("grpc-status-details-bin"));
    assert!(!response.headers().contains_key("google.rpc.retryinfo-bin"));
    let response = too_large().into_http(Encoding::Json);
    assert!(!response.headers().contains_key(RETRY_AFTER));
    assert!(too_large().message().contains("67108864"));
}

#[test]
fn g_20_errors_are_trailers_only() {
    for reject in every_reject() {
        let (code, _) = reject.codes();
        let response = reject.into_grpc();
        assert_eq!(response.status(), 200);
        assert_eq!(
            response.headers()["grpc-status"],
            (code as i32).to_string().as_str()
        );
        assert_eq!(response.headers()[CONTENT_TYPE], "application/grpc");
    }
}

#[test]
fn g_32_answers_are_bounded_whatever_they_repeat() {
    let long = "é".repeat(3_000_000);
    for reject in [
        Reject::bad_data(long.clone()),
        Reject::MediaType(long.clone()),
        Reject::Unavailable(long),
    ] {
        assert!(reject.message().len() <= 1024);
    }
}

#[test]
fn h_11_statuses_have_the_content_type_of_their_request() {
    for reject in every_reject() {
        for encoding in [Encoding::Protobuf, Encoding::Json] {
            let response = reject.clone().into_http(encoding);
            assert_eq!(response.headers()[CONTENT_TYPE], encoding.content_type());
            assert!(!reject.message().is_empty());
        }
    }
}
