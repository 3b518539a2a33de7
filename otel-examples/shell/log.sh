# Logs from shell scripts; source it. It needs curl and jq.
#
#   log LEVEL MESSAGE [KEY=VALUE]...    one log
#   PROGRAM 2>&1 | log_lines LEVEL      one for each line that a program prints
#
# WATCHTOWER_URL and WATCHTOWER_TOKEN say where to; OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES, as whom.

log() {
    local level=$1 message=$2
    shift 2
    # jq and not string pasting: a quote in a message must stay a quote.
    jq -cn --arg level "$level" --arg message "$message" '
        ($ARGS.positional | map(index("=") as $at | {(.[:$at]): .[$at + 1:]}) | add // {})
        + {level: $level, message: $message}' --args -- "$@" | log_json
}

log_lines() {
    jq -cR --unbuffered --arg level "${1:-info}" '{level: $level, message: ., timestamp: (now | tostring)}' | log_json
}

# Posts JSON objects, one a line, under this service and environment.
log_json() {
    local service=${OTEL_SERVICE_NAME:-${0##*/}} environment
    environment=$(printf '%s' "${OTEL_RESOURCE_ATTRIBUTES:-}" | tr , '\n' | sed -n 's/^deployment\.environment\.name=//p')
    jq -c --arg service "$service" --arg environment "$environment" '. + {service: $service, environment: $environment}' |
        curl -sS --fail-with-body --retry 5 -o /dev/null \
            -H 'Content-Type: application/x-ndjson' ${WATCHTOWER_TOKEN:+-H "Authorization: Bearer $WATCHTOWER_TOKEN"} \
            --data-binary @- "${WATCHTOWER_URL:-http://127.0.0.1:4319}/api/logs"
}
