#!/bin/bash
# Ten years of a home: what a reading costs a disk, and what the gateway's work costs with stores of every size. Sizes are
# the arguments; a store that is filled stays in DECADE (.build-bench/decade) for the next run.
set -euo pipefail
cd "$(dirname "$0")/../.."
scratch=.build-bench
folder=${DECADE:-$scratch/decade}
for product in decade-fill decade-calls decade-bytes decade-floor; do
    swift build -q -c release --package-path Benchmarks --scratch-path "$scratch" --product $product
done
bin=$(swift build -c release --package-path Benchmarks --scratch-path "$scratch" --show-bin-path)
gateway=${HEALTHRELAY:-}
if [ -z "$gateway" ]; then
    Packaging/build-release healthrelay
    gateway=.build-deb/swift/release/healthrelay
fi
command -v influxd >/dev/null || Packaging/install-packages influxdb

echo "== bytes (bar: written, 1.3 x a bare loop that commits at the same instants)"
python3 Benchmarks/Decade/bytes/measure.py "$bin/decade-fill" "$bin/decade-bytes" "$bin/decade-floor"
echo "== work at each size (bars: 1.5 x the smallest store, 3 x a bare query)"
python3 Benchmarks/Decade/measure.py "$gateway" "$bin/decade-fill" "$bin/decade-calls" "$folder" "$@"
echo "== work on the whole store (bars: 2 x VACUUM INTO of the same file, 64 MB of memory)"
python3 Benchmarks/Decade/whole.py "$gateway" "$folder" "$@"
