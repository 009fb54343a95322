#!/bin/bash
# Measures HCICapture against a bare C walk over the same file, in one run. Bars: counting within 10 x the walk and under
# 64 MB resident. Needs 230 MB in TMPDIR.
set -euo pipefail
cd "$(dirname "$0")/../.."
scratch=.build-bench
for product in capture-generator capture-walk capture-count; do
    swift build -c release --package-path Benchmarks --scratch-path "$scratch" --product "$product" >&2
done
bin=$(swift build -c release --package-path Benchmarks --scratch-path "$scratch" --show-bin-path)
file=$(mktemp "${TMPDIR:-/tmp}/capture.XXXXXX")
trap 'rm -f "$file"' EXIT
"$bin/capture-generator" "$file" "${1:-4600000}"
for _ in 1 2 3; do
    walk=$("$bin/capture-walk" "$file")
    count=$("$bin/capture-count" "$file")
    replay=$("$bin/capture-count" --replay "$file")
    printf 'walk:   %s\ncount:  %s\nreplay: %s\n' "$walk" "$count" "$replay"
    awk -v walk="$walk" -v count="$count" -v replay="$replay" 'BEGIN {
        split(walk, w, " "); split(count, c, " "); split(replay, r, " ")
        printf "ratio:  count %.1f x, replay %.1f x the walk\n", c[3] / w[3], r[3] / w[3]
        if (c[1] != w[1] || r[1] != w[1]) { print "the counts differ"; exit 1 }
    }'
done
