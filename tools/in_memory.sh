#!/bin/sh
# in_memory.sh COMMAND...: runs it with a directory in memory for temporary files, where there is one with room; else
# with the usual one. Tests start hundreds of servers whose files are gone at the end: they need no disk to sync them to.
# (That what was synced outlives a power cut is tried on images of disks, wherever those lie.)
set -eu
gigabytes=8
in_memory=/dev/shm
free_of() { df -Pk "$in_memory" 2>/dev/null | awk 'NR == 2 { print $4 }'; }
available() { awk '/^MemAvailable:/ { print $2 }' /proc/meminfo 2>/dev/null; }
enough() { [ "${1:-0}" -ge $((gigabytes << 20)) ]; }
if [ -n "${TMPDIR:-}" ] || ! enough "$(free_of)" || ! enough "$(available)"; then
    exec "$@"
fi
TMPDIR=$(mktemp -d "$in_memory/shoal-tests-XXXXXX")
export TMPDIR
chmod 755 "$TMPDIR" # PostgreSQL runs as somebody else
trap 'rm -rf "$TMPDIR"' EXIT
trap 'exit 130' INT TERM
"$@"
