"""Sends a few logs from Python's own logging module through OpenTelemetry.

Where to, and as whom, is said by the standard variables: OTEL_EXPORTER_OTLP_ENDPOINT,
OTEL_EXPORTER_OTLP_HEADERS, OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES and so on.
"""

import argparse
import logging
import os

from opentelemetry.instrumentation.logging.handler import LoggingHandler
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.resources import Resource


def exporter(protocol):
    if protocol == "grpc":
        from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter
    else:
        from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
    return OTLPLogExporter()


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    default = os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc").partition("/")[0]
    arguments.add_argument("--protocol", choices=["grpc", "http"], default=default)
    protocol = arguments.parse_args().protocol

    provider = LoggerProvider(resource=Resource.create())
    provider.add_log_record_processor(BatchLogRecordProcessor(exporter(protocol)))
    logging.getLogger().addHandler(LoggingHandler(logger_provider=provider))
    logging.getLogger().setLevel(logging.INFO)

    log = logging.getLogger("shop.checkout")
    log.info("order %d placed", 1001, extra={"order.id": 1001, "customer": "ada"})
    log.warning("payment took %.1f s", 2.5, extra={"order.id": 1001, "duration_ms": 2500})
    try:
        raise TimeoutError("payment gateway did not answer")
    except TimeoutError:
        log.exception("order failed", extra={"order.id": 1002})

    provider.shutdown()  # sends what waits


if __name__ == "__main__":
    main()
