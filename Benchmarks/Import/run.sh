#!/bin/bash
# Imports an export.xml of Apple Health into a sealed store beside a Python importer that stores the same rows, and prints
# what both take of the processor and of memory: run.sh [MEGABYTES [ROUNDS]], by default 200 MB three times.
# Bars: no more of the processor than Python, 64 MB, and flat in the file's size.
set -euo pipefail
cd "$(dirname "$0")/../.."
scratch=.build-bench
swift build -q -c release --package-path Benchmarks --scratch-path "$scratch" --product import-benchmark >&2
bin=$(swift build -c release --package-path Benchmarks --scratch-path "$scratch" --show-bin-path)
python3 Benchmarks/Import/measure.py "$bin/import-benchmark" "$@"
