"""Runs the tests on a GPU with the plugins that are there: the marked ones, or all others.

python -m tests.gpu_session.suite needs-gpu   # what is marked `gpu`
python -m tests.gpu_session.suite whole       # all else, where tensors are made: on the GPU
python -m tests.gpu_session.suite whole --on null-driver   # the tests of CuPy over that driver

Tests run in processes where pytest-xdist is installed, as compiling takes most of the time, and end
after a minute each where pytest-timeout is. What follows `--` goes to pytest.
"""

import argparse
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

PARTS = {
    "needs-gpu": (
        "gpu",
        "conformance graph/gpu optimizers core kernels profiler array_api ops stand_in",
    ),
    "whole": (
        "not gpu and not slow and not null_driver",
        "ops layers losses metrics optimizers autodiff graph keras models tf compat data "
        "checkpoints core kernels callbacks conformance saved_graph array_api distribution summary "
        "profiler applications quantizers distillation visualization datasets records "
        "collectives compiler test_random.py test_initializers.py",
    ),
}
SMALL = {"needs-gpu": "optimizers", "whole": "losses test_random.py"}
"""A part of each, to see that it runs."""
NULL_DRIVER = ("null_driver", "null_driver")
"""Stands for each part where values mean nothing."""
SMALL_NULL_DRIVER = "null_driver/test_driver.py null_driver/test_refusals.py"
NOT_COMPILED = ("the GPU kernel", "fused kernels can't be compiled", "cuDNN is there but builds no")
"""How warnings begin that make a test fail: it would see what serves in place of GPU code."""
SECONDS = 60
"""What a test may take: a first one compiles kernels."""
MOST_PROCESSES = 14


def words(part, on="gpu", cores=None, has=None, out=None, more=(), small=False):
    """The arguments of pytest.

    Args:
        part: a key of `PARTS`.
        on: "gpu", "stand-in" or "null-driver".
        cores: how many there are.
        has: whether a module is installed.
        out: folder of the report.
        more: what is added.
        small: only some tests.
    """
    has = has or (lambda name: importlib.util.find_spec(name) is not None)
    mark, names = _tests(part, on, small)
    made = ["-q", "-m", mark, "-W", "default", "-p", "no:benchmark", "-p", "no:jaxtyping"]
    made += [word for start in NOT_COMPILED for word in ("-W", f"error:{start}")]
    made += ["-p", "no:cacheprovider", "--maxfail", "400"]
    if has("xdist") and on != "null-driver":  # a process has to begin with the driver
        count = max(2, min(MOST_PROCESSES, (cores or os.cpu_count() or 2) - 2))
        made += ["-n", str(count), "--dist", "worksteal"]
    if has("pytest_timeout"):
        made += ["--timeout", str(SECONDS)]
    if out:
        made += [f"--junitxml={out}/{part}.xml", "-p", "tests.gpu_session.recording"]
    if on == "stand-in":
        made += ["--gpu-stand-in"]
    paths = [word for word in more if not word.startswith("-") and "tests" in word]
    return [*made, *([] if paths else [f"tests/{name}" for name in names.split()]), *more]


def _tests(part, on, small):
    """What is marked how, and where it is."""
    if on == "null-driver":
        mark, names = NULL_DRIVER
        return mark, SMALL_NULL_DRIVER if small else names
    mark, names = PARTS[part]
    return mark, SMALL[part] if small else names


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--on", default="gpu", choices=("gpu", "stand-in", "null-driver"))
    parser.add_argument("--small", action="store_true", help="some tests only")
    options, more = parser.parse_known_args()
    more = [word for word in more if word != "--"]
    out = os.environ.get("OUT")
    given = words(options.part, options.on, out=out, more=more, small=options.small)
    print("pytest", *given, flush=True)
    root = Path(__file__).parents[2]
    named = {**os.environ, "TRAINKIT_SESSION_PART": options.part}
    with subprocess.Popen([sys.executable, "-m", "pytest", *given], cwd=root, env=named) as run:
        while True:
            try:
                raise SystemExit(run.wait())
            except KeyboardInterrupt:  # pytest got it too, and writes what it knows
                continue


if __name__ == "__main__":
    main()
