"""Kernels as object code: found by their text, called without Numba, safe with wrong arguments."""

import os
import subprocess
import sys

import numpy as np
import pytest

numba = pytest.importorskip("numba")
from numba import boolean, float32, float64, int64, uint8, uint64, void  # noqa: E402  after the skip
from numba.core.types import Array, UniTuple  # noqa: E402

from trainkit.core.cpu import cost_model  # noqa: E402
from trainkit.kernels.jit import digests, kernel_code, kernel_family  # noqa: E402
from trainkit.kernels.jit.object_code import can_be_kept, object_code  # noqa: E402
from trainkit.kernels.jit.object_loader import linker  # noqa: E402
from trainkit.kernels.jit.options import compiled  # noqa: E402

_ALL = (
    float32[:, ::1],
    Array(uint8, 1, "C", readonly=True),
    int64,
    uint64,
    float32,
    float64,
    boolean,
    UniTuple(int64, 3),
    boolean[::1],
    float64[::1],
)


def _note(x, given, i, u, f, d, b, three, flags, result):
    result[0] = x[1, 2] + given[0]
    result[1] = i
    result[2] = np.float64(u >> np.uint64(32))
    result[3] = f
    result[4] = d
    result[5] = 1 if b else 0
    result[6] = three[0] + 10 * three[1] + 100 * three[2]
    result[7] = x.shape[0] * 10 + x.shape[1] + (100 if flags[0] else 0)
    room = np.empty(7, np.float64)
    for k in range(7):
        room[k] = result[k]
    result[8] = room.sum()


def _compiled_note():
    run = compiled(parallel=False, exact=True)(_note)
    run.compile(void(*_ALL))
    return run


@pytest.fixture(scope="module")
def note():
    run = _compiled_note()
    if not can_be_kept(run):
        pytest.skip("kernels are Numba's own here")
    return linker().loaded(object_code(run, "note_of_test"), "note_of_test")


def arguments():
    return [
        np.arange(12, dtype="float32").reshape(3, 4),
        np.frombuffer(b"\x05\x06", np.uint8),
        -7,
        np.uint64((3 << 32) + 1),
        np.float32(1.1),
        2.3,
        True,
        (1, np.int64(2), 3),
        np.array([True]),
        np.zeros(9),
    ]


def test_arguments_of_every_kind_arrive(note):
    given = arguments()
    note(*given)
    wanted = [6 + 5, -7, 3, np.float64(np.float32(1.1)), 2.3, 1, 321, 134]
    np.testing.assert_array_equal(given[-1], [*wanted, sum(wanted[:7])])


def _read_only(x):
    x = x.copy()
    x.flags.writeable = False
    return x


@pytest.mark.parametrize(
    ("place", "wrong"),
    [
        (0, np.zeros((3, 4))),
        (0, np.zeros(12, "float32")),
        (0, np.zeros((4, 3), "float32").T),
        (0, np.zeros((3, 4), "int32")),
        (0, np.zeros((3, 4), ">f4")),
        (0, _read_only(np.zeros((3, 4), "float32"))),
        (0, np.ma.zeros((3, 4), "float32")),
        (0, [[1.0]]),
        (0, None),
        (1, np.zeros(2, "int8")),
        (2, 1.5),
        (2, "1"),
        (2, 1 << 70),
        (4, "1"),
        (7, (1, 2)),
        (7, [1, 2, 3]),
        (7, (1, 2, "3")),
        (8, np.zeros(1, "uint8")),
    ],
)
def test_what_does_not_fit_raises_and_nothing_is_written(note, place, wrong):
    given = arguments()
    given[place] = wrong
    with pytest.raises((TypeError, OverflowError, SystemError)):
        note(*given)
    np.testing.assert_array_equal(given[-1], np.zeros(9))


def test_numba_and_kernels_leave_each_other_s_exceptions_alone(note):
    """Both have LLVM look for names in one table of the process."""
    refuses = numba.njit(_refuses)
    for _ in range(2):
        with pytest.raises(TypeError, match="compiled for"):
            note(*arguments()[:-1])
        with pytest.raises(ValueError, match="negative"):
            refuses(-1)
        with pytest.raises(ZeroDivisionError):
            refuses(0)
    again = linker().loaded(object_code(_compiled_note(), "note_again"), "note_again")
    with pytest.raises(TypeError, match="compiled for"):
        again(1)


def _refuses(x):
    if x < 0:
        raise ValueError("negative")
    return 1 // x


def test_the_number_of_arguments_is_checked(note):
    with pytest.raises(TypeError, match="compiled for"):
        note(*arguments()[:-1])


def test_a_changed_file_or_import_is_other_text(tmp_path, monkeypatch):
    folder = tmp_path / "kernels"
    formulas = "../core/dispatch/formulas.py"
    (folder / "a").mkdir(parents=True)
    (folder / formulas).parent.mkdir(parents=True)
    files = {
        "a/x.py": "from trainkit.kernels.a.y import (\n    f,\n)\n"
        "from trainkit.kernels.a import z\n",
        "a/y.py": "1\nfrom trainkit.core.dispatch.formulas import steps_of\n",
        formulas: "4\n",
        "a/z.py": "2\n",
        "a/w.py": "3\n",
    }
    for name, text in files.items():
        (folder / name).write_text(text)
    monkeypatch.setattr(digests, "_FOLDER", folder)

    def digest():
        digests._source.cache_clear()
        digests.source_digest.cache_clear()
        return digests.source_digest("a.x")

    before = digest()
    for name, text in files.items():
        (folder / name).write_text(text + "# more\n")
        assert (digest() != before) == (name != "a/w.py")
        (folder / name).write_text(text)
    assert digest() == before
    digests._source.cache_clear()
    digests.source_digest.cache_clear()


@pytest.mark.parametrize(("name", "is_another"), [("PAGE", True), ("KEPT_BYTES", False)])
def test_the_digest_follows_numbers_of_the_cost_model(tmp_path, monkeypatch, name, is_another):
    line = "from trainkit.core.cpu.cost_model import (\n    CACHE_LINE,\n    PAGE,\n)\n"
    (tmp_path / "x.py").write_text(line)
    monkeypatch.setattr(digests, "_FOLDER", tmp_path)
    digests.source_digest.cache_clear()
    digests._source.cache_clear()
    before = digests.source_digest("x")
    monkeypatch.setattr(cost_model, name, 2 * getattr(cost_model, name))
    digests.source_digest.cache_clear()
    digests._source.cache_clear()
    assert (digests.source_digest("x") != before) == is_another
    digests.source_digest.cache_clear()
    digests._source.cache_clear()


def test_text_that_can_not_be_read_is_no_failure(monkeypatch, kernels):
    def gone(module):
        raise OSError("in an archive")

    monkeypatch.setattr(kernel_code, "source_digest", gone)
    monkeypatch.setattr(kernel_family._State, "families", kernel_family._State.families)
    kernels("eager")
    family = kernel_family.Family("png_again", "coding.png_rows_compiled", "png_rows", exact=True)
    assert kernel_code.kernel_at_hand("coding.png_rows_compiled", "png_rows", ()) is None
    assert family.find((), 1.0) is not None


PROGRAM = """
import sys
import numpy as np
from trainkit.kernels.softmax import softmax_tuned
x = np.random.default_rng(0).standard_normal((70, 3000)).astype("float32")
assert softmax_tuned.softmax(x, -1) is not None
print("numba" in sys.modules)
"""


def test_a_kernel_on_disk_is_used_at_the_first_call_without_numba(tmp_path):
    facts = {"TRAINKIT_CACHE": str(tmp_path), "TRAINKIT_KERNELS": "0"}
    said = [
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env={**os.environ, **facts, "TRAINKIT_JIT": mode},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for mode in ("eager", "1")
    ]
    assert said == ["True", "False"]
