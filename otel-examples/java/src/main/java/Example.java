import io.opentelemetry.api.trace.Span;
import io.opentelemetry.context.Scope;
import io.opentelemetry.instrumentation.logback.appender.v1_0.OpenTelemetryAppender;
import io.opentelemetry.sdk.OpenTelemetrySdk;
import io.opentelemetry.sdk.autoconfigure.AutoConfiguredOpenTelemetrySdk;
import java.util.Map;
import java.util.concurrent.TimeoutException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Sends a few logs from SLF4J and Logback through OpenTelemetry, without the Java agent.
 *
 * <p>Where to, by which protocol, and as whom, is said by the standard variables:
 * OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_PROTOCOL, OTEL_EXPORTER_OTLP_HEADERS,
 * OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES and so on.
 */
public final class Example {
  private static final Logger log = LoggerFactory.getLogger("shop.checkout");

  public static void main(String[] args) {
    // Watchtower takes logs; by default the SDK would send traces and metrics there as well.
    var logsOnly = Map.of("otel.traces.exporter", "none", "otel.metrics.exporter", "none");
    OpenTelemetrySdk sdk =
        AutoConfiguredOpenTelemetrySdk.builder()
            .addPropertiesSupplier(() -> logsOnly)
            .disableShutdownHook() // close() below does its work
            .build()
            .getOpenTelemetrySdk();
    OpenTelemetryAppender.install(sdk);

    log.atInfo()
        .addKeyValue("order.id", 1001)
        .addKeyValue("customer", "ada")
        .log("order {} placed", 1001);
    log.atWarn()
        .addKeyValue("order.id", 1001)
        .addKeyValue("duration_ms", 2500)
        .log("payment took 2.5 s");

    // What is logged while a span is current carries its trace.
    Span span = sdk.getTracer("shop").spanBuilder("pay").startSpan();
    try (Scope current = span.makeCurrent()) {
      var failure = new TimeoutException("payment gateway did not answer");
      log.atError().setCause(failure).addKeyValue("order.id", 1002).log("order failed");
    } finally {
      span.end();
    }
    System.out.println("trace " + span.getSpanContext().getTraceId());

    sdk.close(); // sends what waits
  }
}
