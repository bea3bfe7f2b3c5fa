"""Damaged files: a few new ones of each format, and all that readers have once failed on."""

import os
import pathlib
import subprocess
import sys

import pytest

from tests.attacks import fuzz

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def attacked():
    """What is said of each format: its line by its name, and what failed."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.attacks.fuzz", "--mutations", "25"],
        cwd=ROOT,
        env={**os.environ, "TRAINKIT_JIT": "0"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    lines = {line.partition(",")[0]: line for line in done.stdout.splitlines()}
    return lines, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("name", fuzz.FORMATS)
def test_damaged_files_are_refused_by_the_readers_own_errors(name, attacked):
    lines, failures = attacked
    assert name in lines, failures[-3000:]
    assert "seed 1" in lines[name]
    assert "'failed'" not in lines[name], failures[-3000:]


def kept():
    return sorted(fuzz.FOUND.glob("*-????????")) if fuzz.FOUND.is_dir() else []


@pytest.mark.parametrize("path", kept(), ids=lambda path: path.name)
def test_what_was_found_stays_mended(path, tmp_path):
    format_ = fuzz.FORMATS[path.name[:-9]]()
    damaged = tmp_path / f"x{format_.ending}"
    damaged.write_bytes(path.read_bytes())
    fuzz.attempt(format_, damaged)


class Careless(fuzz.Format):
    """A reader with the mistakes that the tool is there for."""

    def __init__(self, mistake):
        self.mistake = mistake

    def make(self, path):
        path.write_bytes(bytes(100))

    def read(self, path):
        if path.read_bytes() != bytes(100):
            self.mistake()


@pytest.mark.parametrize(
    ("mistake", "text"),
    [(lambda: {}["x"], "KeyError"), (lambda: len(bytearray(b"x") * (1 << 28)), "256 MiB")],
)
def test_mistakes_are_found(mistake, text, tmp_path, monkeypatch):
    if "MiB" in text:  # whatever this process has taken before
        sizes = iter((0, 1 << 28, 1 << 28))
        monkeypatch.setattr(fuzz, "peak", lambda: next(sizes))
    path = tmp_path / "x"
    path.write_bytes(b"x")
    with pytest.raises(fuzz.Failed, match=text):
        fuzz.attempt(Careless(mistake), path)
