// Sends a few logs from winston through OpenTelemetry.
//
// Where to, and as whom, is said by the standard variables: OTEL_EXPORTER_OTLP_ENDPOINT,
// OTEL_EXPORTER_OTLP_HEADERS, OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES and so on; by which
// protocol, by OTEL_EXPORTER_OTLP_PROTOCOL: grpc, http/protobuf or http/json.
'use strict';

const { logs } = require('@opentelemetry/api-logs');
const { detectResources, envDetector } = require('@opentelemetry/resources');
const { BatchLogRecordProcessor, LoggerProvider } = require('@opentelemetry/sdk-logs');
const { NodeTracerProvider } = require('@opentelemetry/sdk-trace-node');
const { OpenTelemetryTransportV3 } = require('@opentelemetry/winston-transport');
const winston = require('winston');

const exporters = {
  'grpc': '@opentelemetry/exporter-logs-otlp-grpc',
  'http/protobuf': '@opentelemetry/exporter-logs-otlp-proto',
  'http/json': '@opentelemetry/exporter-logs-otlp-http',
};
const protocol = process.env.OTEL_EXPORTER_OTLP_PROTOCOL || 'http/protobuf';
if (!exporters[protocol]) {
  console.error(`unknown protocol "${protocol}"; use one of ${Object.keys(exporters).join(', ')}`);
  process.exit(2);
}
const { OTLPLogExporter } = require(exporters[protocol]);

const provider = new LoggerProvider({
  resource: detectResources({ detectors: [envDetector] }),
  processors: [new BatchLogRecordProcessor({ exporter: new OTLPLogExporter() })],
});
logs.setGlobalLoggerProvider(provider);
// What is logged within a span carries its trace; without this line there are just no trace ids.
const traces = new NodeTracerProvider();
traces.register();

const log = winston.createLogger({ transports: [new OpenTelemetryTransportV3()] });

log.info('order 1001 placed', { 'order.id': 1001, customer: 'ada' });
log.warn('payment took 2.5 s', { 'order.id': 1001, duration_ms: 2500 });
traces.getTracer('shop').startActiveSpan('pay', (span) => {
  log.error('order failed', {
    'order.id': 1002,
    'exception.message': 'payment gateway did not answer',
    attempts: [100, 200],
  });
  span.end();
  console.log('trace', span.spanContext().traceId);
});

provider.shutdown(); // sends what waits
