"""Prints what a training step launches, copies and waits for, by the kernels' names.

python -m tests.null_driver.steps --net mlp --policy float32
python -m tests.null_driver.steps --net resnet --policy mixed_bfloat16 --captured
"""

import argparse
import time
from functools import cache

from tests.null_driver import counting, installing

NAMES = ("mlp", "cnn", "transformer", "recurrent", "resnet")
POLICIES = ("float32", "mixed_float16", "mixed_bfloat16")
SOME_STEPS = 6  # a function is captured after a few calls


@cache
def measured(name, policy, captured):
    """The counts of a step, of the step in which the graph was captured, and what `explain` says.

    Args:
        name: of the network.
        policy: the dtype policy of its layers.
        captured: whether the step is compiled.
    """
    installing.install()
    from tests.null_driver import networks  # which imports trainkit, and trainkit CuPy

    x, y = networks.batch(name)
    step = networks.training_step(name, policy, captured)
    first = counting.Counts()
    for _ in range(SOME_STEPS):
        with counting.counted() as counts:
            step(x, y)
        if counts.captured:
            first = counts
    with counting.counted() as counts:
        step(x, y)
    return counts, first, step.explain() if captured else ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--net", default="mlp", choices=NAMES)
    parser.add_argument("--policy", default="float32", choices=POLICIES)
    parser.add_argument("--captured", action="store_true", help="compiled, as a CUDA graph")
    parser.add_argument("--names", type=int, default=40, help="how many names are printed")
    given = parser.parse_args()
    start = time.perf_counter()
    counts, first, explained = measured(given.net, given.policy, given.captured)
    print(f"a step of {given.net}, {given.policy}, after {time.perf_counter() - start:.0f} s:")
    _print(counts, counts.names, given.names)
    if given.captured:
        print(explained)
        print("the step in which it was captured:")
        _print(first, first.captured_names, given.names)


def _print(counts, names, most):
    for key, value in vars(counts).items():
        if isinstance(value, int):
            print(f"  {key:12} {value}")
    for name, often in names.most_common(most):
        print(f"    {often:5} {name}")


if __name__ == "__main__":
    main()
