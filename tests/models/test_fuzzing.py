"""A fast part of the fuzzing of archives; `TRAINKIT_FUZZ` is the number of mutations."""

import os
import pathlib
import subprocess
import sys

import trainkit


def test_mutated_archives_give_the_right_model_or_an_error():
    mutations = os.environ.get("TRAINKIT_FUZZ", "200")
    script = pathlib.Path(__file__).with_name("fuzzing.py")
    root = str(pathlib.Path(trainkit.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, str(script), mutations, "1"],
        env={**os.environ, "PYTHONPATH": root},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    print(done.stdout)
    assert done.stdout.startswith(f"{mutations} mutations")
    assert "refused" in done.stdout
