"""Where the time of a step goes: its longest kernels, by PyTorch's profiler, or by `ncu`.

python -m tests.gpu_session.longest_kernels [--small] [--on stand-in | --on null-driver]

Without either of the two `tk.profiler` says which operations an eager step takes longest for.
"""

import collections
import shutil
import subprocess
import sys
from pathlib import Path

from tests.gpu_session import session

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
CASES = ("resnet50", "transformer", "lstm", "mlp")
MOST = 20
POLICIES = ("float32", "mixed_bfloat16")


def _work(options, case, policy):
    if str(BENCHMARKS) not in sys.path:
        sys.path.insert(0, str(BENCHMARKS))
    import gpu_cases

    size = gpu_cases.SIZES["small" if options.small else "full"]
    run, wait = gpu_cases.TRAINKIT[case](size, policy)
    for _ in range(5):
        run()
    wait()
    return run, wait


def by_torch(options, case, policy):
    """The kernels of a replay, longest first."""
    run, wait = _work(options, case, policy)
    try:
        import torch
    except ImportError:
        return True, "the step runs; no PyTorch here, whose profiler sees kernels"
    if not torch.cuda.is_available():
        return True, "PyTorch sees no GPU; the step runs"
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        run()
        wait()
    times, counts = collections.Counter(), collections.Counter()
    for event in profile.events():
        times[event.name] += event.device_time
        counts[event.name] += 1
    for name, microseconds in times.most_common(MOST):
        print(f"    {microseconds / 1e3:9.3f} ms {counts[name]:5} x {name[:110]}")
    return bool(times), f"{sum(times.values()) / 1e3:.2f} ms in {sum(counts.values())} activities"


def by_ncu(options):
    """Bytes over time of kernels, in a step without CUDA graphs."""
    if shutil.which("ncu") is None or options.on != "gpu":
        return True, "no ncu here"
    code = "import sys; from tests.gpu_session import longest_kernels as k; k.one_step()"
    command = ["ncu", "--clock-control", "none", "--set", "basic", "--csv", "--page", "raw"]
    command += ["--launch-skip", "400", "--launch-count", "200", sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    print(done.stdout[-20000:])
    return done.returncode == 0, f"ended with status {done.returncode}"


def one_step():
    """Some steps of a network of convolutions, for `ncu`."""
    options = session.parser(__doc__).parse_args([])
    run, wait = _work(options, "cnn", "float32")
    run()
    wait()


def eagerly(options):
    """What `tk.profiler` says of an eager step."""
    import trainkit as tk

    run, wait = _work(options, "eager", "float32")
    with tk.profiler.profile(synchronize=True) as found:
        run()
        wait()
    lines = str(found.table()).splitlines()
    print("\n".join(lines[: MOST + 5]))
    return bool(lines), f"{1e3 * found.seconds:.2f} ms, above"


def checks():
    found = {
        f"{case}, {policy}": lambda o, c=case, p=policy: by_torch(o, c, p)
        for case in CASES
        for policy in POLICIES
    }
    return {**found, "by ncu": by_ncu, "operations of an eager step": eagerly}


if __name__ == "__main__":
    session.main("longest", __doc__, checks())
