#!/bin/bash
# Measures reading a full Omron memory through a real bluetoothd, in the lab, beside a bare Python client in the same run.
# run.sh [ROUNDS [HEALTHRELAY]]
set -euo pipefail
cd "$(dirname "$0")/../.."
scratch=.build-bench
program=${2:-}
if [ -z "$program" ]; then
    Packaging/build-release healthrelay >&2
    program=.build-deb/swift/release/healthrelay
fi
[ -x "$scratch/python/bin/python" ] || python3 -m venv "$scratch/python"
"$scratch/python/bin/pip" -q install dbus-fast==5.2.0 bumble==0.0.236
PYTHONPATH=Tests/Lab Tests/Lab/run-lab --suite "$scratch/python/bin/python" Benchmarks/Omron/measure.py "$program" "${1:-3}"
