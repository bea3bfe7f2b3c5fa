"""Downloads what a GPU machine without a network lacks: `python -m tests.gpu_session.wheels`.

Each wheel comes without what it needs, into the folder `wheels`, which git ignores; `run.sh`
installs them beside the machine's own packages, so that no second NumPy comes along.
"""

import argparse
import subprocess
import sys

TAKEN = {
    "nvidia-cudnn-frontend": "==1.28.0",
    "tensorboardX": ">=2.6.4",
    "diastatic-malt": ">=2.15.2,<3",
    "termcolor": "",
    "pooch": ">=1.8",
    "platformdirs": "",
    "requests": "",
    "charset-normalizer": "",
    "array-api-strict": ">=2.2",
}
"""What such a machine has not, with the versions that fit."""
THERE = (
    "numpy h5py tqdm ml_dtypes numba llvmlite cupy protobuf packaging urllib3 idna certifi "
    "pytest hypothesis scikit-learn matplotlib"
)
"""What it has: all of an image that is made for such work."""
PLATFORM = "manylinux_2_28_x86_64"
OLDER = ("manylinux_2_27_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64")
"""Platforms whose wheels run there too; pip takes none that is not named."""


def commands(folder, python):
    """The calls of pip, one for each wheel."""
    fixed = ["--no-deps", "--only-binary=:all:", "--dest", folder]
    fixed += ["--python-version", python, "--platform", PLATFORM, "--platform", "any"]
    fixed += [word for name in OLDER for word in ("--platform", name)]
    head = [sys.executable, "-m", "pip", "download", "-q", *fixed]
    return [[*head, f"{name}{versions}"] for name, versions in TAKEN.items()]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", default="wheels")
    parser.add_argument("--python", default="3.12", help="that of the machine")
    parser.add_argument("--print", action="store_true", help="only say what would be done")
    options = parser.parse_args()
    failed = []
    for command in commands(options.folder, options.python):
        print(" ".join(command[3:]), flush=True)
        if not options.print and subprocess.call(command):
            failed.append(command[-1])
    if failed:
        raise SystemExit(f"not downloaded: {', '.join(failed)}")


if __name__ == "__main__":
    main()
