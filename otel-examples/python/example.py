"""Sends a few logs from Python's own logging module through OpenTelemetry.

Where to, and as whom, is said by the standard variables: OTEL_EXPORTER_OTLP_ENDPOINT,
OTEL_EXPORTER_OTLP_HEADERS, OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES and so on; by which protocol,
by OTEL_EXPORTER_OTLP_PROTOCOL: grpc, http/protobuf or http/json.
"""

import logging
import os
import sys

from opentelemetry.instrumentation.logging.handler import LoggingHandler
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider


def exporter(protocol):
    if protocol == "grpc":
        from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter
    elif protocol == "http/protobuf":
        from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
    elif protocol == "http/json":
        from opentelemetry.exporter.otlp.json.http._log_exporter import OTLPLogExporter
    else:
        sys.exit(f"unknown protocol {protocol!r}; use grpc, http/protobuf or http/json")
    return OTLPLogExporter()


def main():
    protocol = os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
    provider = LoggerProvider(resource=Resource.create())
    provider.add_log_record_processor(BatchLogRecordProcessor(exporter(protocol)))
    logging.getLogger().addHandler(LoggingHandler(logger_provider=provider))
    logging.getLogger().setLevel(logging.INFO)

    log = logging.getLogger("shop.checkout")
    log.info("order %d placed", 1001, extra={"order.id": 1001, "customer": "ada"})
    log.warning("payment took %.1f s", 2.5, extra={"order.id": 1001, "duration_ms": 2500})

    # What is logged within a span carries its trace.
    with TracerProvider().get_tracer("shop").start_as_current_span("pay") as span:
        try:
            raise TimeoutError("payment gateway did not answer")
        except TimeoutError:
            log.exception("order failed", extra={"order.id": 1002})
    print(f"trace {span.get_span_context().trace_id:032x}")

    provider.shutdown()  # sends what waits


if __name__ == "__main__":
    main()
