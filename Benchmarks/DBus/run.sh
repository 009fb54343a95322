#!/bin/bash
# Measures the processor's time a notification takes, beside a C libdbus reader and bleak: run.sh [ROUNDS [COUNT [BURST
# MICROSECONDS]]]. By default 100,000 notifications in bursts of five a millisecond. Bars: 1.5 x C, 0.6 x bleak, none lost.
set -euo pipefail
cd "$(dirname "$0")/../.."
scratch=.build-bench
for product in bus-c-reader notifications; do
    swift build -q -c release --package-path Benchmarks --scratch-path "$scratch" --product "$product" >&2
done
bin=$(swift build -c release --package-path Benchmarks --scratch-path "$scratch" --show-bin-path)
[ -x "$scratch/python/bin/python" ] || python3 -m venv "$scratch/python"
"$scratch/python/bin/pip" -q install bleak==3.1.0 dbus-fast==5.2.0
"$scratch/python/bin/python" Benchmarks/DBus/measure.py "$bin/bus-c-reader" "$bin/notifications" "${@:-3}"
