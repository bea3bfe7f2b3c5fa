"""Time of `import trainkit` beside that of NumPy, and of NumPy and h5py, on which it stands.

    python benchmarks/import_time.py [ROUNDS]

Each import has a fresh interpreter, with the files in the page cache. The interpreters take turns.
"""

import os
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).parent.parent
IMPORTS = {
    "trainkit": "import trainkit",
    "numpy": "import numpy",
    "numpy + h5py": "import numpy, h5py",
}
PEERS = {"torch": "import torch", "tensorflow": "import tensorflow", "jax": "import jax"}
PROGRAM = """
import time
start = time.perf_counter()
{code}
print(time.perf_counter() - start)
"""


def seconds_to_import(code: str) -> float:
    """Seconds that the import took in a fresh interpreter.

    Raises:
        ImportError: it failed there.
    """
    command = [sys.executable, "-c", PROGRAM.format(code=code)]
    # Compiling the sources anew is no part of an import: installed packages have it done.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment)
    if done.returncode:
        raise ImportError(done.stderr.strip().splitlines()[-1])
    return float(done.stdout.split()[-1])


def measure(imports: dict[str, str], rounds: int) -> dict[str, list[float]]:
    """Seconds of each import, round by round, after one that is not counted."""
    for code in imports.values():
        seconds_to_import(code)
    samples: dict[str, list[float]] = {name: [] for name in imports}
    for number in range(rounds):
        for name in list(imports) if number % 2 == 0 else reversed(imports):
            samples[name].append(seconds_to_import(imports[name]))
    return samples


def main(rounds: int = 15) -> int:
    """Print medians and the ratio of trainkit to what it stands on."""
    present = {name: code for name, code in PEERS.items() if _importable(name)}
    samples = measure(IMPORTS | present, rounds)
    print(f"import, seconds, median of {rounds}")
    for name, own in samples.items():
        print(f"  {name:<14}{statistics.median(own):8.3f}  best {min(own):8.3f}")
    for other in ("numpy", "numpy + h5py"):
        pairs = zip(samples["trainkit"], samples[other], strict=True)
        ratio = statistics.median(ours / theirs for ours, theirs in pairs)
        print(f"trainkit takes {ratio:.2f} x the time of {other}")
    return 0


def _importable(name: str) -> bool:
    from importlib.util import find_spec

    return find_spec(name) is not None


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:2])))
