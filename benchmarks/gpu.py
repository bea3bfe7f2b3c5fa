"""What a GPU makes of trainkit, beside PyTorch and JAX where they are: `python benchmarks/gpu.py`.

matmul       200 products of two matrices
mlp, cnn     a compiled training step
eager        the step of `mlp`, operation by operation
lstm         a compiled training step of two layers of LSTM over 100 steps
transformer  a compiled training step of an encoder over 512 words
resnet50     a compiled training step on images of 224 x 224
adam         the update of 100 million float32 weights, beside the bandwidth of a copy
update       the eager update of 160 weights with 25 million elements together, as in a ResNet-50
batch_norm   batch normalization of images with its gradients, as trainkit chooses, by its own
             kernels, and by cuDNN
layer_norm   the same for layer normalization of sequences

float32 is measured with and without TF32, ours and PyTorch's alike; `--policy mixed_bfloat16` and
`mixed_float16` take tensor cores anyway. PyTorch's images are channels_last. TRAINKIT_CUDA_GRAPHS=0
measures compiled steps launched operation by operation, TRAINKIT_JIT=0 without kernels of their
own, TRAINKIT_CUDNN=0 without cuDNN.

Each time is the median of the rounds; a round waits for the GPU at its end. "host" is what a call
takes until it comes back, for few calls at a time, so that no queue is full; "MB" what the device
has less afterwards than before the case. Each measurement runs in a process of its own, which is
ended after `--limit` seconds, so that a slow one costs no other, and none begins after `--in-all`.
`--small` takes sizes that any
machine runs in seconds, and `--on stand-in` or `--on null-driver` do without a GPU, to see that all
of it works. `--json FILE` keeps the numbers.
"""

import argparse
import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

sys.path[:0] = [str(pathlib.Path(__file__).parent.parent), str(pathlib.Path(__file__).parent)]
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # leave memory to the others

import gpu_torch  # noqa: E402  found through the lines before
from gpu_cases import (  # noqa: E402
    CANDIDATES,
    NO_POLICY,
    NO_TF32,
    PRODUCTS,
    SIZES,
    TRAINKIT,
    Work,
    by_jax,
    copied,
)

POLICIES = ("float32", "mixed_bfloat16", "mixed_float16")
DEVICES = ("gpu", "stand-in", "null-driver")
LEAST_LEFT = 5
"""Seconds without which no measurement begins."""
_START = time.monotonic()
FEW = 10
"""Calls whose launches fit into the queue of any GPU."""

CASES: dict[str, dict[str, Any]] = {case: {"trainkit": make} for case, make in TRAINKIT.items()}
for _case, _candidates in CANDIDATES.items():
    CASES[_case].update(_candidates)
for _case, _made in gpu_torch.TORCH.items():
    CASES[_case]["torch"] = _made
CASES["matmul"]["jax"] = by_jax
CASES["adam"]["copy"] = copied


# ---------------------------------------------------------------------- one measurement


@contextlib.contextmanager
def device(name: str) -> Iterator[None]:
    """The GPU, or what takes its place."""
    if name == "stand-in":
        from tests import stand_in

        gpu_torch.Where.name = "cpu"
        with stand_in.in_place():
            yield
        return
    if name == "null-driver":
        from tests.null_driver.installing import install

        gpu_torch.Where.name = "cpu"
        install()
    yield


def seconds(work: Work, rounds: int, least: float) -> tuple[float, float]:
    """The median times of one call, in rounds that take `least` seconds or more each.

    The first is until the GPU has done it, the second until the call has come back.
    """
    run, wait = work
    for _ in range(5):  # a function is captured at its fourth call
        run()
        wait()
    taken = _round(run, wait, 1)[0]
    calls = max(1, int(least / max(taken, 1e-6)))
    whole = statistics.median(_round(run, wait, calls)[0] / calls for _ in range(rounds))
    few = min(FEW, calls)
    host = statistics.median(_round(run, wait, few)[1] / few for _ in range(rounds))
    return whole, host


def _round(run: Any, wait: Any, calls: int) -> tuple[float, float]:
    start = time.perf_counter()
    for _ in range(calls):
        run()
    back = time.perf_counter()
    wait()
    return time.perf_counter() - start, back - start


def free_bytes() -> int | None:
    """What the device has left, or `None` where that can't be asked."""
    try:
        import cupy

        return int(cupy.cuda.runtime.memGetInfo()[0])
    except (ImportError, AttributeError):
        return None


def measured(case: str, name: str, options: Any) -> dict[str, Any]:
    """One measurement in this process; empty where the library is not here."""
    size = SIZES["small" if options.small else "full"]
    with device(options.on):
        from trainkit.core import devices

        if not devices.gpu_count():
            raise SystemExit(devices.missing_message("/gpu:0"))
        from trainkit.kernels.cudnn import deferred

        _choose_tf32(name.partition(" ")[0], name.endswith(" tf32"))
        before, mode = free_bytes(), deferred.mode()
        try:
            work = CASES[case][name.partition(" ")[0]](size, options.policy)
            taken, host = seconds(work, options.rounds, options.seconds)
        except ImportError as error:
            return {"missing": str(error)}
        finally:
            deferred.set_mode(mode)
        after = free_bytes()
    found = {"seconds": taken, "host_seconds": host}
    if before is not None and after is not None:
        found["bytes"] = before - after
    return found


def _choose_tf32(name: str, allowed: bool) -> None:
    if name == "trainkit":
        import trainkit as tk

        tk.config.experimental.enable_tensor_float_32_execution(allowed)
    elif name == "torch":
        with contextlib.suppress(ImportError):
            gpu_torch.allow_tf32(allowed)


def left(options: Any) -> float:
    """Seconds that the next measurement may take, 0 for no end."""
    if not options.in_all:
        return float(options.limit)
    rest = max(0.0, _START + options.in_all - time.monotonic())
    return min(rest, options.limit) if options.limit else rest


def in_a_process(case: str, name: str, options: Any) -> dict[str, Any]:
    """The same in a process of its own, ended after `options.limit` seconds."""
    words = [case, f"--only={name}", f"--policy={options.policy}", f"--on={options.on}"]
    words += [f"--rounds={options.rounds}", f"--seconds={options.seconds}"]
    command = [sys.executable, __file__, *words, *["--small"] * options.small]
    most = left(options)
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=most or None)
    except subprocess.TimeoutExpired:
        return {"failure": f"no end within {most:.3g} s"}
    try:
        found: dict[str, Any] = json.loads(done.stdout.strip().rpartition("\n")[2])
    except ValueError:
        lines = done.stderr.strip().splitlines() or [f"ended with status {done.returncode}"]
        return {"failure": lines[-1]}
    return found


# ---------------------------------------------------------------------- the table


def contestants(case: str, policy: str) -> list[str]:
    """What is measured in a case, float32 of both with and without TF32 where it multiplies."""
    found = []
    for name in CASES[case]:
        if policy != "float32" and (case in NO_POLICY or name == "jax"):
            continue
        found.append(name)
        if policy == "float32" and case not in NO_TF32 and name in ("trainkit", "torch"):
            found.append(f"{name} tf32")
    return found


def rate(case: str, name: str, size: Any, taken: float) -> str:
    """What the time means: arithmetic, or bytes read and written."""
    if case == "matmul":
        return f"{PRODUCTS * 2 * size['n'] ** 3 / taken / 1e12:9.2f} TFLOP/s"
    if case == "update":
        return f"{7 * 4 * size['updated'] / taken / 1e9:9.1f} GB/s"
    if case == "adam":  # four arrays are read and three written; a copy reads one and writes one
        moved = (2 if name == "copy" else 7) * 4 * size["weights"]
        return f"{moved / taken / 1e9:9.1f} GB/s"
    counts = {
        "resnet50": "images",
        "transformer": "sequences",
        "batch_norm": "images",
        "layer_norm": "sequences",
    }
    return f"{size[counts.get(case, 'batch')] / taken:9.0f} examples/s"


def row(case: str, name: str, size: Any, found: dict[str, Any]) -> str:
    """A line of the table."""
    if "failure" in found:
        return f"{case:11} {name:13} {found['failure']}"
    taken, host = found["seconds"], found["host_seconds"]
    memory = f"{found['bytes'] / 1e6:8.0f} MB" if "bytes" in found else f"{'':11}"
    return (
        f"{case:11} {name:13} {1e3 * taken:11.3f} ms  host {1e3 * host:9.3f} ms {memory} "
        f"{rate(case, name.partition(' ')[0], size, taken)}"
    )


def _parsed() -> Any:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", metavar="CASE", help=", ".join(CASES))
    parser.add_argument("--small", action="store_true", help="sizes for any machine")
    parser.add_argument("--policy", default="float32", choices=POLICIES)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.5, help="of a round, at least")
    parser.add_argument("--in-all", type=float, help="seconds, after which none is begun")
    parser.add_argument("--limit", type=float, default=100, help="seconds each; 0 for no end")
    parser.add_argument("--on", default="gpu", choices=DEVICES, help="what stands for the GPU")
    parser.add_argument("--only", metavar="NAME", help="one measurement, printed as JSON")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE")
    options = parser.parse_args()
    unknown = set(options.cases) - set(CASES)
    if unknown:
        parser.error(f"there is no case {sorted(unknown)}; there are {', '.join(CASES)}")
    return options


def _write_whole(path: pathlib.Path, text: str) -> None:
    """Write a file that others may read meanwhile."""
    partly = path.with_suffix(".part")
    partly.write_text(text)
    partly.replace(path)


def main() -> None:
    """Run what the command line asks for."""
    options = _parsed()
    if options.only:
        print("\n" + json.dumps(measured(options.cases[0], options.only, options)), flush=True)
        return
    size, kept = SIZES["small" if options.small else "full"], {}
    print(f"{options.policy}; PyTorch's images are channels_last; tf32 only where it is said")
    for case in options.cases or CASES:
        for name in contestants(case, options.policy):
            if options.in_all and left(options) < LEAST_LEFT:
                print(f"{case:11} {name:13} not measured, no time was left", flush=True)
                continue
            run = in_a_process if options.limit else measured
            found = run(case, name, options)
            if "missing" in found:
                continue
            kept[f"{case} {name}"] = found
            print(row(case, name, size, found), flush=True)
            if options.json:  # after each, so that what was measured outlives what was ended
                facts = {"size": size, "policy": options.policy, "found": kept}
                _write_whole(options.json, json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    main()
