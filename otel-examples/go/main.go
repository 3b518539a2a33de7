// Sends a few logs from log/slog through OpenTelemetry.
//
// Where to, and as whom, is said by the standard variables: OTEL_EXPORTER_OTLP_ENDPOINT,
// OTEL_EXPORTER_OTLP_HEADERS, OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES and so on; by which
// protocol, by OTEL_EXPORTER_OTLP_PROTOCOL: grpc or http/protobuf.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"go.opentelemetry.io/contrib/bridges/otelslog"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploggrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploghttp"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

func newExporter(ctx context.Context, protocol string) (sdklog.Exporter, error) {
	switch protocol {
	case "grpc":
		return otlploggrpc.New(ctx)
	case "http/protobuf":
		return otlploghttp.New(ctx)
	default:
		return nil, fmt.Errorf("unknown protocol %q; use grpc or http/protobuf", protocol)
	}
}

func main() {
	ctx := context.Background()
	exporter, err := newExporter(ctx, cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_PROTOCOL"), "http/protobuf"))
	if err != nil {
		log.Fatal(err)
	}
	provider := sdklog.NewLoggerProvider(sdklog.WithProcessor(sdklog.NewBatchProcessor(exporter)))
	logger := otelslog.NewLogger("shop.checkout", otelslog.WithLoggerProvider(provider))

	logger.Info("order 1001 placed", "order.id", 1001, "customer", "ada")
	logger.Warn("payment took 2.5 s", "order.id", 1001, "duration_ms", 2500)

	// What is logged with a span's context carries its trace.
	ctx, span := sdktrace.NewTracerProvider().Tracer("shop").Start(ctx, "pay")
	err = errors.New("payment gateway did not answer")
	logger.ErrorContext(ctx, "order failed", "order.id", 1002, "exception.message", err.Error())
	span.End()
	fmt.Println("trace", span.SpanContext().TraceID())

	if err := provider.Shutdown(context.Background()); err != nil { // sends what waits
		log.Fatal(err)
	}
}
