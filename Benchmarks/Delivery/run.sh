#!/bin/bash
# A backlog draining to a null sink (nginx answering 200), acknowledgements recorded, beside aiohttp posting gzipped
# batches of 1000 from memory to the same sink: run.sh [READINGS [ROUNDS]]. Bars: a quarter of aiohttp's rate, 100 MB.
set -euo pipefail
cd "$(dirname "$0")/../.."
count=${1:-100000} rounds=${2:-3} scratch=.build-bench
Packaging/install-packages nginx-light python3-venv
swift build -q -c release --package-path Benchmarks --scratch-path "$scratch" --product delivery-benchmark
bin=$(swift build -c release --package-path Benchmarks --scratch-path "$scratch" --show-bin-path)
[ -x "$scratch/python/bin/python" ] || python3 -m venv "$scratch/python"
"$scratch/python/bin/pip" -q install aiohttp==3.13.2

folder=$(mktemp -d -t healthrelay-delivery.XXXXXX)
port=$((20000 + RANDOM % 20000))
sed -e "s|FOLDER|$folder|g" -e "s|LISTEN|$port|g" Benchmarks/Delivery/nginx.conf >"$folder/nginx.conf"
"$(command -v nginx || echo /usr/sbin/nginx)" -p "$folder" -c "$folder/nginx.conf" 2>"$folder/nginx.log" &
nginx=$!
trap 'kill $nginx; wait $nginx || true; rm -rf "$folder"' EXIT
url=http://127.0.0.1:$port
for _ in $(seq 100); do curl -s -o /dev/null "$url" && break; sleep 0.1; done

for round in $(seq "$rounds"); do
    "$bin/delivery-benchmark" "$url" "$count" "$folder/store" >/dev/null
    ours=$("$bin/delivery-benchmark" "$url" "$count" "$folder/store")
    theirs=$("$scratch/python/bin/python" Benchmarks/Delivery/floor.py "$url" "$count")
    echo "$ours"
    echo "$theirs"
    awk -v a="$(sed -n 's/^rate //p' <<<"$ours")" -v b="$(sed -n 's/^rate //p' <<<"$theirs")" -v r="$round" \
        'BEGIN { printf "round %d: %d/s beside aiohttp %d/s, ratio %.2f (bar 0.25)\n", r, a, b, a / b }'
done
