#!/bin/bash
# Measures what notifications take of the processor while the same process delivers a backlog to five destinations, beside
# the same without: busy.sh [ROUNDS [COUNT [MILLISECONDS [READINGS]]]]. By default 50,000 notifications, destinations that
# answer after 50 ms, and 150,000 readings that wait. Bar: 1.05 x.
set -euo pipefail
cd "$(dirname "$0")/../.."
scratch=.build-bench
for product in delivery-benchmark notifications; do
    swift build -q -c release --package-path Benchmarks --scratch-path "$scratch" --product "$product" >&2
done
bin=$(swift build -c release --package-path Benchmarks --scratch-path "$scratch" --show-bin-path)
python3 Benchmarks/DBus/busy.py "$bin/notifications" "$bin/delivery-benchmark" "${@:-3}"
