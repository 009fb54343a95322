#!/bin/bash
# Measures reading a meter through a real bluetoothd, in the lab, beside a bare Python client and bleak in the same run.
set -euo pipefail
cd "$(dirname "$0")/../.."
scratch=.build-bench
for product in read-benchmark empty; do
    swift build -q -c release --package-path Benchmarks --scratch-path "$scratch" --product "$product" >&2
done
bin=$PWD/$(realpath --relative-to=. "$(swift build -c release --package-path Benchmarks --scratch-path "$scratch" --show-bin-path)")
[ -x "$scratch/python/bin/python" ] || python3 -m venv "$scratch/python"
"$scratch/python/bin/pip" -q install bleak==3.1.0 dbus-fast==5.2.0 bumble==0.0.236
PYTHONPATH=Tests/Lab Tests/Lab/run-lab --suite "$scratch/python/bin/python" Benchmarks/Radio/measure.py \
    "$bin/read-benchmark" "$bin/empty" "${1:-3}"
