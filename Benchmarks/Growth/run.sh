#!/bin/bash
# How the gateway's work grows with records, streams, readers, devices and strangers that advertise. The arguments choose
# parts: replay, import, streams, readers, devices, strangers; all by default. See measure.py.
set -euo pipefail
cd "$(dirname "$0")/../.."
scratch=.build-bench
mkdir -p "$scratch"
cc -O2 -Wall -Wextra Benchmarks/Growth/listener.c -o "$scratch/growth-listener" $(pkg-config --cflags --libs dbus-1)
gateway=${HEALTHRELAY:-}
if [ -z "$gateway" ]; then
    Packaging/build-release healthrelay
    gateway=.build-deb/swift/release/healthrelay
fi
command -v dbus-daemon >/dev/null || Packaging/install-packages dbus
python3 Benchmarks/Growth/measure.py "$gateway" "$scratch/growth-listener" "$@"
