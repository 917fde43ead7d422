#!/usr/bin/env bash
# Makes the goldens in this folder with a real aiperf 0.13.0: AIPERF_BIN is its bin folder, WORK an empty folder for the raw runs.
# TIKTOKEN_CACHE_DIR must hold o200k_base, since --tokenizer builtin would else want the network.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
run() { # case, mock's mode, flags
  local name=$1 mode=$2 port=$3; shift 3
  "$AIPERF_BIN/python" "$here/mock.py" "$mode" "$port" & local mock=$!
  sleep 2
  mkdir -p "$WORK/$name"
  (cd "$WORK/$name" && "$AIPERF_BIN/aiperf" profile -m mock -u "http://127.0.0.1:$port" --endpoint-type chat --tokenizer builtin --ui none \
    --isl 32 --osl 8 --random-seed 7 --artifact-dir art --no-gpu-telemetry --no-server-metrics "$@" >stdout 2>stderr)
  kill $mock
}
run streaming ok      18641 --streaming --concurrency 4 --request-count 24
run plain     ok      18642 --concurrency 4 --request-count 12
run errors    errors  18643 --streaming --concurrency 4 --request-count 30
run warmup    ok      18645 --streaming --concurrency 4 --request-count 16 --warmup-request-count 4
run osl       nocache 18647 --streaming --concurrency 2 --request-count 6
run prefix    ok      18646 --streaming --concurrency 2 --request-count 6 --profile-export-prefix foo --show-trace-timing --use-server-token-count
"$AIPERF_BIN/python" "$here/make.py" "$WORK" "$here"
