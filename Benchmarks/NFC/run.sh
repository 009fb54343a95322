#!/bin/bash
# Times a scan of an emulated sensor through libnfc beside a bare C program over libnfc in the same run. Bar: 1.3 x.
set -euo pipefail
cd "$(dirname "$0")/../.."
scratch=.build-bench
for product in nfc-floor scan-benchmark; do
    swift build -q -c release --package-path Benchmarks --scratch-path "$scratch" --product "$product" >&2
done
bin=$(swift build -c release --package-path Benchmarks --scratch-path "$scratch" --show-bin-path)
swift build -q -c release --product healthrelay-nfc --scratch-path "$scratch-cli" >&2
helper=$(swift build -c release --scratch-path "$scratch-cli" --show-bin-path)/healthrelay-nfc
"$bin/scan-benchmark" "$bin/nfc-floor" "$helper" "${1:-40}"
