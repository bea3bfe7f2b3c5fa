#!/usr/bin/env bash
# usage: bash tests/gpu_session/run.sh starts|needs-gpu|whole-suite|endurance|speed|longest
# Each command writes to $OUT, has a time limit, and ends with status 0, so that its files come back.
cd "$(dirname "$0")/../.."
. tests/gpu_session/env.sh
name=${1:?which command}
shift
more=(--on "$ON")
[ -n "$SMALL" ] && more+=(--small)
kept() { timeout "$1" "${@:3}" 2>&1 | tee "$OUT/$2.txt"; }
case "$name" in
  starts)
    { nvidia-smi; "$PYTHON" -m pip list; } > "$OUT/machine.txt" 2>&1
    kept 60 doctor "$PYTHON" -m trainkit doctor
    kept 240 starts "$PYTHON" -m tests.gpu_session.starts "${more[@]}" "$@" ;;
  needs-gpu) kept 560 needs-gpu "$PYTHON" -m tests.gpu_session.suite needs-gpu --on "$ON" "$@" ;;
  whole-suite) kept 580 whole-suite "$PYTHON" -m tests.gpu_session.suite whole --on "$ON" "$@" ;;
  endurance)
    kept 300 endurance "$PYTHON" -m tests.gpu_session.endurance "${more[@]}" "$@"
    if command -v compute-sanitizer > /dev/null && [ "$ON" = gpu ]; then
      TRAINKIT_CUDA_GRAPHS=0 kept 120 memcheck compute-sanitizer --tool memcheck \
        "$PYTHON" -m tests.gpu_session.endurance --only "losses of eager steps" --small
    fi ;;
  speed)
    policies="float32 mixed_bfloat16 mixed_float16"
    for policy in $policies; do
      kept 570 "speed-$policy" "$PYTHON" benchmarks/gpu.py --policy "$policy" "${more[@]}" \
        --json "$OUT/speed-$policy.json" "$@"
    done ;;
  longest)
    kept 300 longest "$PYTHON" -m tests.gpu_session.longest_kernels "${more[@]}" "$@" ;;
  *) echo "there is no command $name"; exit 2 ;;
esac
[ -e "$SCRATCH/cupy" ] && tar -cf "$OUT/cupy-cache.tar" -C "$SCRATCH" cupy
exit 0
