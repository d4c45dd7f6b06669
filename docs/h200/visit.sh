#!/usr/bin/env bash
# Runs the examples and the benchmark on a machine with a card: visit.sh FOLDER-WITH-PROGRAMS FOLDER-FOR-RESULTS
# The programs are built elsewhere: cargo build --release --examples; cargo bench --no-run.
set -u
programs=$1
results=$2
mkdir -p "$results"
nvidia-smi --query-gpu=name,memory.total,driver_version --format=csv,noheader
"$programs/detective" >"$results/detective.txt" 2>&1
OOMGUARD_REPORT="$results/detective.json" "$programs/detective"
"$programs/leak" >"$results/leak.txt" 2>&1
OOMGUARD_TABLE=paths "$programs/two_devices" >"$results/two_devices.txt" 2>&1
"$programs/async_server" >"$results/async_server.txt" 2>&1
for run in 1 2; do
    CRITERION_HOME=$(mktemp -d) "$programs/scope_cost" --bench 2>&1 | sed -n '/best of one run/,$p'
done | tee "$results/scope_cost.txt"
