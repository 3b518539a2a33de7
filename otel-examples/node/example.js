// Sends a few logs through OpenTelemetry.
//
// Where to, and as whom, is said by the standard variables: OTEL_EXPORTER_OTLP_ENDPOINT,
// OTEL_EXPORTER_OTLP_HEADERS, OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES and so on; by which
// protocol, by OTEL_EXPORTER_OTLP_PROTOCOL or `--protocol grpc | http/protobuf | http/json`.
'use strict';

const { parseArgs } = require('node:util');
const { SeverityNumber } = require('@opentelemetry/api-logs');
const { detectResources, envDetector } = require('@opentelemetry/resources');
const { BatchLogRecordProcessor, LoggerProvider } = require('@opentelemetry/sdk-logs');

const exporters = {
  'grpc': '@opentelemetry/exporter-logs-otlp-grpc',
  'http/protobuf': '@opentelemetry/exporter-logs-otlp-proto',
  'http/json': '@opentelemetry/exporter-logs-otlp-http',
};

const { values } = parseArgs({ options: { protocol: { type: 'string' } } });
const protocol = values.protocol ?? process.env.OTEL_EXPORTER_OTLP_PROTOCOL ?? 'http/protobuf';
if (!exporters[protocol]) {
  console.error(`unknown protocol "${protocol}"; use one of ${Object.keys(exporters).join(', ')}`);
  process.exit(2);
}
const { OTLPLogExporter } = require(exporters[protocol]);

const provider = new LoggerProvider({
  resource: detectResources({ detectors: [envDetector] }),
  processors: [new BatchLogRecordProcessor({ exporter: new OTLPLogExporter() })],
});
const log = provider.getLogger('shop.checkout', '1.0.0');

log.emit({
  severityNumber: SeverityNumber.INFO,
  severityText: 'INFO',
  body: 'order 1001 placed',
  attributes: { 'order.id': 1001, customer: 'ada' },
});
log.emit({
  severityNumber: SeverityNumber.WARN,
  severityText: 'WARN',
  body: 'payment took 2.5 s',
  attributes: { 'order.id': 1001, duration_ms: 2500, retries: [100, 200] },
});
log.emit({
  severityNumber: SeverityNumber.ERROR,
  severityText: 'ERROR',
  body: 'order failed',
  attributes: { 'order.id': 1002, 'exception.message': 'payment gateway did not answer' },
});

provider.shutdown(); // sends what waits
