#!/bin/bash
# Measures reading a meter through a real bluetoothd, in the lab, beside a bare Python client and bleak in the same run.
set -euo pipefail
cd "$(dirname "$0")/../.."
scratch=.build-bench
# As it is shipped: with Swift's libraries inside.
static=.build-bench-static
build() { swift build -c release --static-swift-stdlib --package-path Benchmarks --scratch-path "$static" "$@"; }
for product in read-benchmark read-in-memory empty; do build -q --product "$product" >&2; done
bin=$PWD/$(realpath --relative-to=. "$(build --show-bin-path)")
[ -x "$scratch/python/bin/python" ] || python3 -m venv "$scratch/python"
"$scratch/python/bin/pip" -q install bleak==3.1.0 dbus-fast==5.2.0 bumble==0.0.236
PYTHONPATH=Tests/Lab Tests/Lab/run-lab --suite "$scratch/python/bin/python" Benchmarks/Radio/measure.py "$bin" "${1:-3}"
