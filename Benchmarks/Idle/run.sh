#!/bin/bash
# What makes the executable large, and a gateway that has nothing to do, whose page is open in a browser: memory, the processor and
# wake-ups after MINUTES (60).
set -euo pipefail
cd "$(dirname "$0")/../.."
scratch=.build-bench
folder=${DECADE:-$scratch/decade}
swift build -q -c release --package-path Benchmarks --scratch-path "$scratch" --product decade-fill
bin=$(swift build -c release --package-path Benchmarks --scratch-path "$scratch" --show-bin-path)
gateway=${HEALTHRELAY:-}
if [ -z "$gateway" ]; then
    Packaging/build-release healthrelay
    gateway=.build-deb/swift/release/healthrelay
fi
command -v chromium >/dev/null || Packaging/install-packages chromium
python3 Benchmarks/Idle/executable.py "$gateway"
python3 Benchmarks/Idle/measure.py "$gateway" "$bin/decade-fill" "$folder" "${1:-60}"
