#!/usr/bin/env bash
# usage: bash tests/gpu_session/run.sh starts|needs-gpu|whole-suite|endurance|speed|longest
# Each command writes to $OUT as it goes, ends within $LIMIT seconds, and with status 0, so that its
# files come back; $OUT/summary.txt says in a line each what ran to its end, and how.
cd "$(dirname "$0")/../.."
SECONDS=0 LIMIT=${LIMIT:-570}
name=${1:?which command}
shift
case "$name" in
  starts | needs-gpu | whole-suite | endurance | speed | longest) ;;
  *) echo "there is no command $name"; exit 2 ;;
esac
. tests/gpu_session/env.sh
more=(--on "$ON")
[ -n "$SMALL" ] && more+=(--small)
tell() { "$PYTHON" -m tests.gpu_session.summary "$@"; }
left() { echo $((LIMIT - SECONDS - 15)); }
# kept SECONDS NAME COMMAND: what is left of $LIMIT may be less. An interrupt comes first, after
# which pytest still writes what it knows.
kept() {
  local most=$1 what=$2 start=$SECONDS status
  [ "$most" -gt "$(left)" ] && most=$(left)
  if [ "$most" -lt 5 ]; then tell "$what ended" "not begun, no time was left"; return; fi
  timeout -s INT -k 10 "$most" "${@:3}" 2>&1 | tee "$OUT/$what.txt"
  status=${PIPESTATUS[0]}
  case $status in
    124 | 137) tell "$what ended" "OUT OF TIME after $((SECONDS - start)) s" ;;
    *) tell "$what ended" "status $status after $((SECONDS - start)) s" ;;
  esac
}
case "$name" in
  starts)
    { nvidia-smi; "$PYTHON" -m pip list; } > "$OUT/machine.txt" 2>&1
    kept 150 doctor "$PYTHON" -m trainkit doctor
    kept 300 starts "$PYTHON" -m tests.gpu_session.starts "${more[@]}" "$@" ;;
  needs-gpu)
    kept "$(left)" needs-gpu "$PYTHON" -m tests.gpu_session.suite needs-gpu "${more[@]}" "$@" ;;
  whole-suite)
    kept "$(left)" whole-suite "$PYTHON" -m tests.gpu_session.suite whole "${more[@]}" "$@" ;;
  endurance)
    kept 400 endurance "$PYTHON" -m tests.gpu_session.endurance "${more[@]}" "$@"
    if command -v compute-sanitizer > /dev/null && [ "$ON" = gpu ]; then
      export TRAINKIT_CUDA_GRAPHS=0
      kept 120 memcheck compute-sanitizer --tool memcheck "$PYTHON" -m tests.gpu_session.endurance \
        --only "losses of eager steps" --small --name memcheck
    fi ;;
  speed)
    kept "$(left)" speed "$PYTHON" -m tests.gpu_session.speed "${more[@]}" \
      --seconds-in-all "$(($(left) - 10))" "$@" ;;
  longest)
    kept "$(left)" longest "$PYTHON" -m tests.gpu_session.longest_kernels "${more[@]}" "$@" ;;
esac
[ -e "$SCRATCH/cupy" ] && tar -czf "$OUT/cupy-cache.tar.gz" -C "$SCRATCH" cupy
cat "$OUT/summary.txt" 2> /dev/null
exit 0
