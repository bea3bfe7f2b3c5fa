"""What an editor knows: no error in ordinary programs, an error for each mistake, and the names."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

from tests.editors import pages

PYRIGHT = pathlib.Path(sys.executable).with_name("pyright")


def run_pyright(*arguments):
    """pyright's output; it fetches itself at its first call, so it may not be there."""
    environment = {"PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}
    command = [str(PYRIGHT), "--pythonpath", sys.executable, *map(str, arguments)]
    try:
        return subprocess.run(
            command,
            cwd=pages.ROOT,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=300,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None


@pytest.mark.slow
@pytest.mark.skipif(not PYRIGHT.exists(), reason="pyright is not installed")
@pytest.mark.skipif(shutil.which("node") is None, reason="pyright needs Node.js")
def test_pyright_sees_each_mistake_and_no_other():
    done = run_pyright(*pages.PROGRAMS, pages.MISTAKES)
    if done is None or "informations" not in done.stdout:
        pytest.skip("pyright can't be fetched")
    assert pages.differences(done.stdout) == []


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("import trainkit as tk\ntk.Seq", {"Sequential"}),
        ("import trainkit as tk\ntk.constan", {"constant"}),
        ("import trainkit as tk\nm = tk.Sequential([])\nm.f", {"fit"}),
        ("import trainkit as tk\ntk.reduce_m", {"reduce_max", "reduce_mean", "reduce_min"}),
        ("import trainkit as tk\ntk.nn.softm", {"softmax"}),
        ("import trainkit as tk\ntk.keras.layers.Den", {"Dense"}),
        ("from trainkit.keras.layers import Den", {"Dense"}),
        ("import trainkit as tk\ntk.matmul([[1.0]], [[1.0]]).num", {"numpy"}),
        ("import trainkit as tk\ntk.quantizers.GPTQC", {"GPTQConfig"}),
        ("import trainkit as tk\ntk.keras.applications.ResNet50(wei", {"weights="}),
        ("from trainkit.keras.applications import NASNetLarge as N\nN().f", {"fit"}),
    ],
)
def test_jedi_completes_names(code, names):
    jedi = pytest.importorskip("jedi")
    script = jedi.Script(code, path=pages.ROOT / "page.py", project=jedi.Project(pages.ROOT))
    assert names <= {completion.name for completion in script.complete()}


def test_the_checker_of_pages_sees_both_kinds_of_faults():
    first = min(pages.lines_with_mistakes())
    output = f"{pages.MISTAKES}:{first + 1}:1 - error: no\n/a/program.py:7: error: no"
    lines = pages.differences(output)
    assert lines[0] == "program.py:7: no mistake"
    assert f"mistakes.py:{first}: not seen" in lines


def test_the_checker_of_names_sees_those_without_a_type():
    output = 'a.py:2: note: Revealed type is "Any"\na.py:3: note: Revealed type is "def () -> Any"'
    assert pages.without_type(["tk.cos", "tk.sin"], output) == ["tk.cos: its type is Any"]
    names = pages.names_of_doors()
    assert {"tk.cos", "tk.nn.conv2d", "tk.layers.Dense"} <= set(names)
    assert "tk.nn.plain" not in names
