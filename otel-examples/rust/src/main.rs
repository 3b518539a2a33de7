//! Sends a few logs from `tracing` through OpenTelemetry.
//!
//! Where to, and as whom, is said by the standard variables: `OTEL_EXPORTER_OTLP_ENDPOINT`,
//! `OTEL_EXPORTER_OTLP_HEADERS`, `OTEL_SERVICE_NAME`, `OTEL_RESOURCE_ATTRIBUTES` and so on; by which
//! protocol, by `OTEL_EXPORTER_OTLP_PROTOCOL`: grpc, http/protobuf or http/json.

use std::error::Error;

use opentelemetry::trace::{TraceContextExt, TracerProvider};
use opentelemetry_appender_tracing::layer::OpenTelemetryTracingBridge;
use opentelemetry_otlp::{LogExporter, Protocol, WithExportConfig};
use opentelemetry_sdk::logs::SdkLoggerProvider;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing::{error, info, info_span, warn};
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::prelude::*;

fn exporter(protocol: &str) -> Result<LogExporter, Box<dyn Error>> {
    let http = |protocol| {
        LogExporter::builder()
            .with_http()
            .with_protocol(protocol)
            .build()
    };
    Ok(match protocol {
        "grpc" => LogExporter::builder().with_tonic().build()?,
        "http/protobuf" => http(Protocol::HttpBinary)?,
        "http/json" => http(Protocol::HttpJson)?,
        other => {
            return Err(format!(
                "unknown protocol {other:?}; use grpc, http/protobuf or http/json"
            )
            .into());
        }
    })
}

// The exporter for gRPC needs a Tokio runtime; those for HTTP do not.
#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let protocol =
        std::env::var("OTEL_EXPORTER_OTLP_PROTOCOL").unwrap_or_else(|_| "http/protobuf".into());
    let provider = SdkLoggerProvider::builder()
        .with_batch_exporter(exporter(&protocol)?)
        .build();
    // What is logged within a span carries its trace; without this layer there are just no trace ids.
    let traces = SdkTracerProvider::builder().build();
    tracing_subscriber::registry()
        .with(LevelFilter::INFO)
        .with(tracing_opentelemetry::layer().with_tracer(traces.tracer("shop")))
        .with(OpenTelemetryTracingBridge::new(&provider))
        .init();

    info!(target: "shop.checkout", { order.id = 1001, customer = "ada" }, "order 1001 placed");
    warn!(target: "shop.checkout", { order.id = 1001, duration_ms = 2500 }, "payment took 2.5 s");
    let span = info_span!("pay");
    span.in_scope(|| {
        let failure = "payment gateway did not answer";
        error!(target: "shop.checkout", { order.id = 1002, exception.message = failure }, "order failed");
    });
    println!("trace {}", span.context().span().span_context().trace_id());

    provider.shutdown()?; // sends what waits
    Ok(())
}
