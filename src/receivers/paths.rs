//! Paths that no receiver has: other signals, and addresses that are a little wrong. It never
//! redirects, because clients do not repeat a POST then.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, Version};
use axum::response::Response;

use super::Door;
use super::body;
use super::caller::{self, Caller, Form};
use super::encoding::{Encoding, is_grpc};
use super::guard::At;
use super::reply::Reject;
use super::response;
use crate::config::OtherSignals;
use crate::record::Receiver;

/// Most of a path that is repeated to its sender.
const PATH_CHARS: usize = 200;

/// Answers a request whose path no receiver of the OTLP ports has.
pub(super) async fn unknown(State(door): State<Arc<Door>>, request: Request) -> Response {
    let own = door.config.otlp.path.clone();
    refuse(&door, request, |path, grpc| {
        hint(At::Otlp, path, grpc, &own)
    })
    .await
}

/// The same on the web port, which has no gRPC.
pub(super) async fn unknown_on_web(door: &Door, request: Request) -> Response {
    let port = door.config.listen.otlp_grpc.port();
    let hint = |path: &str, grpc: bool| match (grpc, port) {
        (false, _) => hint(At::Web, path, grpc, WEB_PATH),
        (true, 0) => format!("{GRPC_ON_WEB}, `listen.otlp_grpc`"),
        (true, port) => format!("{GRPC_ON_WEB}, {port} (`listen.otlp_grpc`)"),
    };
    refuse(door, request, hint).await
}

/// The path of OTLP on the web port.
const WEB_PATH: &str = "/v1/logs";

const GRPC_ON_WEB: &str = "a gRPC call arrived at the web port (`listen.web`), which takes none; send it to the port for gRPC";

async fn refuse(door: &Door, request: Request, hint: impl Fn(&str, bool) -> String) -> Response {
    let (parts, mut body) = request.into_parts();
    let grpc = is_grpc(&parts.headers) && parts.version >= Version::HTTP_2;
    let receiver = if grpc {
        Receiver::OtlpGrpc
    } else {
        Receiver::OtlpHttp
    };
    let encoding = Encoding::of_answer(&parts.headers);
    let form = if grpc {
        Form::Grpc
    } else {
        Form::Http(encoding)
    };
    let caller = Caller::new(
        receiver,
        form,
        &parts.headers,
        caller::peer(&parts.extensions),
    );
    let reject = match signal(parts.uri.path(), grpc) {
        _ if parts.method == Method::OPTIONS => Reject::Method("POST"),
        Some(_) if parts.method != Method::POST => Reject::Method("POST"),
        Some(signal) => match other_signal(door, &parts.headers, signal) {
            Ok(()) => {
                body::drain(&parts.headers, &mut body).await;
                return if grpc {
                    response::grpc(&[])
                } else {
                    response::http(encoding, &Default::default())
                };
            }
            Err(reject) => reject,
        },
        None => Reject::Path(hint(parts.uri.path(), grpc)),
    };
    door.refuse(&caller, reject, &parts.headers, &mut body)
        .await
}

/// Whether a request of another signal is discarded, which is counted, rather than refused.
fn other_signal(door: &Door, headers: &HeaderMap, signal: &'static str) -> Result<(), Reject> {
    let discard = door.config.otlp.other_signals == OtherSignals::Discard;
    if discard {
        door.check_token(headers)?;
    }
    door.metrics.other_signal(signal, discard);
    if discard {
        Ok(())
    } else {
        Err(Reject::OtherSignal(signal))
    }
}

/// The signals beside logs, by the ends of their HTTP paths and their gRPC methods.
const SIGNALS: [(&str, &str, &str); 3] = [
    (
        "traces",
        "/v1/traces",
        "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
    ),
    (
        "metrics",
        "/v1/metrics",
        "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
    ),
    (
        "profiles",
        "/v1development/profiles",
        "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export",
    ),
];

/// The signal that is sent to this path, if it is another than logs.
fn signal(path: &str, grpc: bool) -> Option<&'static str> {
    let path = path.trim_end_matches('/');
    let found = SIGNALS.iter().find(|(_, http, method)| {
        if grpc {
            path == *method
        } else {
            path.ends_with(http)
        }
    });
    found.map(|(signal, ..)| *signal)
}

/// What was probably meant; `own` is the path that takes OTLP here.
fn hint(at: At, path: &str, grpc: bool, own: &str) -> String {
    if grpc {
        return no_method(path);
    }
    let known: String = path.chars().take(PATH_CHARS).collect();
    let path = path.trim_end_matches('/');
    if path.is_empty() {
        return format!(
            "nothing is taken at /: OTEL_EXPORTER_OTLP_LOGS_ENDPOINT is used as it is, so write {own} at \
             its end"
        );
    }
    let parts = || path.split('/').filter(|part| !part.is_empty());
    if parts().eq(own.split('/').filter(|part| !part.is_empty())) {
        return format!(
            "nothing at {known}: it has a slash too many; OTLP logs are taken by POST {own}"
        );
    }
    let mut ends = parts().rev();
    if (ends.next(), ends.next()) == (Some("logs"), Some("v1")) {
        if ends.any(|part| part == "v1") {
            return format!(
                "nothing at {known}: the path is there twice. OTEL_EXPORTER_OTLP_ENDPOINT is the address alone, \
                 to which SDKs add /v1/logs; only OTEL_EXPORTER_OTLP_LOGS_ENDPOINT is a whole path"
            );
        }
        let or_here = match at {
            At::Otlp => ", or the other one into `otlp.path`",
            At::Web => "",
        };
        return format!(
            "nothing at {known}: OTLP logs are taken by POST {own}; write that path into \
             OTEL_EXPORTER_OTLP_LOGS_ENDPOINT{or_here}"
        );
    }
    if path.starts_with("/api") {
        return format!("nothing at {known}: plain JSON is taken by the web port, `listen.web`");
    }
    format!("nothing at {known}; OTLP logs are taken by POST {own}")
}

/// What a gRPC call to a path is told that is none of its methods.
pub(super) fn no_method(path: &str) -> String {
    let known: String = path.chars().take(PATH_CHARS).collect();
    format!(
        "no gRPC method {known}; logs are taken by {}",
        super::grpc::EXPORT_PATH
    )
}

/// Whether a request that the web port has no path for is one of an OTLP sender.
pub(super) fn is_otlp(request: &Request) -> bool {
    let path = request.uri().path().trim_end_matches('/');
    is_grpc(request.headers())
        || path.ends_with("/logs") && path.contains("/v1/")
        || path.is_empty() && is_otlp_post(request)
        || path.starts_with("/opentelemetry.proto.")
        || signal(path, false).is_some()
}

/// Whether this is a POST that only OTLP senders make. The root of the web port is the page.
fn is_otlp_post(request: &Request) -> bool {
    let is_protobuf = || matches!(Encoding::of(request.headers()), Ok(Encoding::Protobuf));
    request.method() == Method::POST && is_protobuf()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b_04_other_signals_are_known_by_path_and_by_method() {
        for (path, grpc, found) in [
            ("/v1/traces", false, Some("traces")),
            ("/v1/metrics/", false, Some("metrics")),
            ("/v1/logs/v1/traces", false, Some("traces")),
            ("/v1development/profiles", false, Some("profiles")),
            ("/v1/logs", false, None),
            ("/v1/traces", true, None),
            (SIGNALS[0].2, true, Some("traces")),
            (SIGNALS[0].2, false, None),
        ] {
            assert_eq!(signal(path, grpc), found, "{path}");
        }
    }

    #[test]
    fn h_03_b_07_a_wrong_address_is_told_what_is_wrong_with_it() {
        for (path, part) in [
            ("/", "write /v1/logs at its end"),
            ("/v1/logs/v1/logs", "there twice"),
            ("/v1/v1/logs/", "there twice"),
            ("/v1/traces/v1/logs", "there twice"),
            ("/api/logs", "the web port"),
            ("/v1/log", "POST /v1/logs"),
        ] {
            let hint = hint(At::Otlp, path, false, "/v1/logs");
            assert!(hint.contains(part), "{path}: {hint}");
        }
        assert!(hint(At::Otlp, &"/é".repeat(5000), false, "/v1/logs").len() < 1024);
    }

    #[test]
    fn h_03_b_07_hints_know_the_path_that_is_configured() {
        for (path, own, part) in [
            ("//v1/logs", "/v1/logs", "a slash too many"),
            ("/v1/logs//", "/v1/logs", "a slash too many"),
            ("/v1//logs", "/v1/logs", "a slash too many"),
            ("/otlp/v1/logs", "/v1/logs", "POST /v1/logs; write"),
            ("/otlp/v1/logs/v1/logs", "/v1/logs", "there twice"),
            ("/v1/logs", "/otlp/v1/logs", "POST /otlp/v1/logs; write"),
            ("/otlp//v1/logs", "/otlp/v1/logs", "a slash too many"),
            ("/", "/otlp/v1/logs", "write /otlp/v1/logs at its end"),
            ("/v1/log", "/in", "POST /in"),
        ] {
            let hint = hint(At::Otlp, path, false, own);
            assert!(hint.contains(part), "{path}: {hint}");
            assert_eq!(
                hint.contains("twice"),
                part.contains("twice"),
                "{path}: {hint}"
            );
        }
        let said = |at| hint(at, "/otlp/v1/logs", false, "/v1/logs").contains("`otlp.path`");
        assert_eq!((said(At::Otlp), said(At::Web)), (true, false));
    }
}
