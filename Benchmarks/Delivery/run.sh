#!/bin/bash
# Measures what each destination takes of the processor to deliver a backlog from the sealed store to a null sink, beside a
# Python client of the same protocol: run.sh [READINGS [ROUNDS [KIND...]]]. By default 100,000 readings three times, and
# every kind. Bars: 3 x paho, requests and fhir.resources, 0.5 x aiohttp, 100 MB and flat in the backlog.
set -euo pipefail
cd "$(dirname "$0")/../.."
scratch=.build-bench
Packaging/install-packages nginx-light mosquitto python3-venv >&2
swift build -q -c release --package-path Benchmarks --scratch-path "$scratch" --product delivery-benchmark >&2
bin=$(swift build -c release --package-path Benchmarks --scratch-path "$scratch" --show-bin-path)
[ -x "$scratch/python/bin/python" ] || python3 -m venv "$scratch/python"
"$scratch/python/bin/pip" -q install aiohttp==3.13.2 paho-mqtt==2.2.0 requests==2.34.2 fhir.resources==8.3.0
"$scratch/python/bin/python" Benchmarks/Delivery/measure.py "$bin/delivery-benchmark" "$@"
