#!/bin/bash
# Measures the live path, `healthrelay replay`, against a bare C walk over the same file in the same run.
# Bars: --count within 100 x the walk, --dry-run --json within 1000 x; both under 64 MB resident.
set -euo pipefail
cd "$(dirname "$0")/../.."
scratch=.build-bench
for product in capture-generator capture-walk; do
    swift build -q -c release --package-path Benchmarks --scratch-path "$scratch" --product "$product" >&2
done
bin=$(swift build -c release --package-path Benchmarks --scratch-path "$scratch" --show-bin-path)
swift build -q -c release --product healthrelay --scratch-path "$scratch-cli" >&2
tool=$(swift build -c release --scratch-path "$scratch-cli" --show-bin-path)/healthrelay
file=$(mktemp "${TMPDIR:-/tmp}/capture.XXXXXX")
trap 'rm -f "$file"' EXIT
"$bin/capture-generator" "$file" "${1:-4600000}"
python3 - "$bin/capture-walk" "$tool" "$file" <<'P'
import os, subprocess, sys, time

def run(*command):
    """Seconds of processor, resident megabytes, and what was printed last."""
    begun = time.monotonic()
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    last = b""
    for line in child.stdout:
        last = line
    _, status, usage = os.wait4(child.pid, 0)
    if status:
        sys.exit(f"{command}: status {status}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, time.monotonic() - begun, last.decode().strip()[:120]

walk, tool, file = sys.argv[1:]
for _ in range(3):
    floor = run(walk, file)
    count = run(tool, "replay", file, "--count")
    print(f"walk {floor[0]:.2f} s; replay --count {count[0]:.2f} s of processor, {count[2]:.2f} s of time, "
          f"{count[1]:.0f} MB, {count[0] / floor[0]:.0f} x the walk: {count[3]}")
dry = run(tool, "replay", file, "--dry-run", "--json", "--time-zone", "Europe/Berlin")
print(f"replay --dry-run --json {dry[0]:.1f} s of processor, {dry[1]:.0f} MB, {dry[0] / floor[0]:.0f} x the walk")
if max(count[1], dry[1]) > 64 or count[0] / floor[0] > 100 or dry[0] / floor[0] > 1000:
    sys.exit("a bar is missed")
P
