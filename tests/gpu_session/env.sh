# Sourced by run.sh: where things lie, and the wheels that were taken along.
export OUT=${OUT:-$PWD/gpu-session} SCRATCH=${SCRATCH:-/tmp/trainkit-gpu-session}
export ON=${ON:-gpu} SMALL=${SMALL:-} PYTHON=${PYTHON:-python3}
mkdir -p "$OUT" "$SCRATCH"
wheels=$(ls wheels/*.whl 2>/dev/null || true)
if [ -n "$wheels" ] && [ ! -e "$SCRATCH/site" ]; then
  for wheel in $wheels; do  # one that does not fit keeps none of the others away
    "$PYTHON" -m pip install -q --no-index --no-deps --no-compile --no-cache-dir --upgrade \
      --target "$SCRATCH/site" "$wheel" || echo "$wheel was not installed"
  done
fi
export PYTHONPATH=$PWD:$SCRATCH/site${PYTHONPATH:+:$PYTHONPATH} PYTHONUNBUFFERED=1
export CUPY_CACHE_DIR=${CUPY_CACHE_DIR:-$SCRATCH/cupy} NUMBA_CACHE_DIR=$SCRATCH/numba
export TRAINKIT_CACHE=${TRAINKIT_CACHE:-$SCRATCH/trainkit}
for cache in cupy-cache.tar.gz "$OUT/cupy-cache.tar.gz"; do  # of the command before
  [ -e "$cache" ] && [ ! -e "$SCRATCH/cupy" ] && tar -xzf "$cache" -C "$SCRATCH"
done
suffix=$("$PYTHON" -c "import sysconfig; print(sysconfig.get_config_var('EXT_SUFFIX'))")
if [ ! -e "trainkit/core/dispatch/_native$suffix" ]; then  # git ignores it, so it stayed behind
  timeout 120 "$PYTHON" setup.py -q build_ext --inplace > "$SCRATCH/build.txt" 2>&1
  [ -e "trainkit/core/dispatch/_native$suffix" ] || export TRAINKIT_NATIVE=0
fi
