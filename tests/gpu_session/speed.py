"""Runs `benchmarks/gpu.py` for each dtype policy, and sets the times beside what is wanted.

python -m tests.gpu_session.speed [--small] [--on stand-in] [--seconds-in-all 560] [CASE ...]
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from tests.gpu_session import session, summary

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "gpu.py"
SHARES = {"float32": 0.55, "mixed_bfloat16": 0.65, "mixed_float16": 1.0}
"""Of the time that is left, what each policy may take."""
ORDER = "adam mlp resnet50 transformer lstm matmul batch_norm layer_norm cnn eager update".split()
"""The cases, those first that say most."""
LONGEST = "resnet50"
"""What a stand-in takes most of its time for."""
FULL = 1000
"""Rows of the matrices, from which sizes are those that goals are for."""
MOST_SECONDS = {"mlp": 150e-6, "resnet50": 60e-3}
"""Times of a float32 step that are wanted."""
LEAST_FLOPS = 45e12
"""Of float32 products."""
LEAST_COPY = 3.0e12
"""Bytes a second that a copy reads and writes on an H100; an H200 has 4.3e12."""
LEAST_OF_COPY = 0.8
"""Of a copy's bandwidth, what the update of Adam is to reach."""


def ratios(policy, case, found, size):
    """A measured case in words: its time, how it stands to what is wanted, and to PyTorch.

    Args:
        policy: of dtypes.
        case: a case of the benchmark.
        found: what is measured, by "CASE NAME".
        size: the sizes of the cases.

    Returns:
        The text, or `None` where trainkit's own time is not there.
    """
    ours = found.get(f"{case} trainkit")
    if ours is None:
        return None
    if "failure" in ours:
        return f"FAILED: {ours['failure']}"
    taken = ours["seconds"]
    parts = [f"{1e3 * taken:.3f} ms"]
    if size["n"] < FULL:  # sizes of a try, of which nothing is wanted
        return parts[0]
    if policy == "float32" and case in MOST_SECONDS:
        parts.append(_against(MOST_SECONDS[case] / taken, f"{1e3 * MOST_SECONDS[case]:g} ms"))
    if policy == "float32" and case == "matmul":
        rate = 200 * 2 * size["n"] ** 3 / taken
        parts.append(_against(rate / LEAST_FLOPS, f"{LEAST_FLOPS / 1e12:g} TFLOP/s"))
    if case == "adam":
        parts += _beside_copy(taken, found.get("adam copy", {}), size)
    for name in ("own", "cudnn", "torch", "jax"):
        other = found.get(f"{case} {name}", {}).get("seconds")
        if other:
            parts.append(f"{taken / other:.2f} of {name}'s time")
    return "; ".join(parts)


def _against(ratio, goal):
    return f"{ratio:.2f} of the goal {goal}" + ("" if ratio >= 1 else " MISSED")


def _beside_copy(taken, copy, size):
    if "seconds" not in copy:
        return []
    ours, plain = (n * 4 * size["weights"] / s for n, s in ((7, taken), (2, copy["seconds"])))
    return [
        _against(ours / plain / LEAST_OF_COPY, f"{LEAST_OF_COPY} of a copy"),
        f"the copy {_against(plain / LEAST_COPY, f'{LEAST_COPY / 1e12:g} TB/s')}",
    ]


def tell(policy, path):
    """Lines of the summary for what the benchmark has written."""
    if not path.exists():
        return
    kept = json.loads(path.read_text())
    for case in dict.fromkeys(name.split(" ")[0] for name in kept["found"]):
        text = ratios(policy, case, kept["found"], kept["size"])
        if text:
            summary.set_line(f"speed {policy} {case}", text)


def _cases(options):
    if options.cases:
        return options.cases
    if options.on == "gpu":
        return ORDER
    return [*(case for case in ORDER if case != LONGEST), LONGEST]


def _lengths(options):
    """How long to measure; a try takes one process for all, whose starts would take longest."""
    if not options.small:
        return ["--rounds=3"]
    found = ["--small", "--rounds=1", "--seconds=0.01"]
    return [*found, "--limit=0"] if options.on == "stand-in" else found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", metavar="CASE")
    parser.add_argument("--small", action="store_true", help="sizes for any machine")
    parser.add_argument("--on", default="gpu", choices=session.DEVICES)
    parser.add_argument("--seconds-in-all", type=float, default=560)
    options = parser.parse_args()
    out = summary.folder() or Path(".")
    end = time.monotonic() + options.seconds_in_all
    failed = 0
    for policy, share in SHARES.items():
        path = out / f"speed-{policy}.json"
        path.unlink(missing_ok=True)
        words = [*_cases(options), f"--policy={policy}", f"--on={options.on}"]
        words += [f"--json={path}", f"--in-all={share * (end - time.monotonic()):.0f}"]
        words += _lengths(options)
        command = [sys.executable, str(BENCHMARK), *words]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ) as run:
            for line in run.stdout:
                print(line, end="", flush=True)
                tell(policy, path)
        tell(policy, path)
        failed += run.returncode != 0
    raise SystemExit(failed)


if __name__ == "__main__":
    main()
