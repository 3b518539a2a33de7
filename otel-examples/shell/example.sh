#!/usr/bin/env bash
# Sends a few logs from a shell script.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/log.sh"

log info 'order 1001 placed' order.id=1001 customer=ada
log warn 'payment took 2.5 s' order.id=1001 duration_ms=2500
log error 'order failed' order.id=1002 'exception.message=payment gateway said "no = no"'

printf '%s\n' 'first line of a program' 'a "quoted" one, with a \ in it' | log_lines debug
