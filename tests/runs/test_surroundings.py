"""Runs on two installations: what differs is named, whether it gave other bits or not."""

import pytest

import trainkit as tk
from tests.runs.test_diff import AtStep
from tests.runs.test_journal import fitted
from trainkit.core.errors import FailedPreconditionError
from trainkit.journal import lines
from trainkit.journal.journal_writer import JournalWriter
from trainkit.runs.surroundings import surroundings

HERE = {
    "versions": {"trainkit": "0.2.0", "numpy": "2.4.6", "h5py": "3.16.0", "python": "3.11.7"},
    "processor": "AuthenticAMD 25 1",
    "numpy_simd": ["X86_V3"],
    "blas": {
        "config": "OpenBLAS 0.3.31  DYNAMIC_ARCH NO_AFFINITY Haswell MAX_THREADS=64",
        "core": "Haswell",
        "threads": 2,
    },
    "threads": 2,
    "kernels": "hot",
    "device": "/device:CPU:0",
    "variables": {},
    "platform": "Linux-6.1-x86_64",
}
OTHERS = [
    ({"versions": {**HERE["versions"], "numpy": "2.1.3"}}, "another version of NumPy: 2.4.6 in"),
    ({"versions": {"numpy": "2.4.6"}}, "another version of trainkit: 0.2.0 in the first run, none"),
    ({"blas": {**HERE["blas"], "core": "Katmai"}}, "another kernel of the BLAS: Haswell in"),
    ({"blas": {**HERE["blas"], "threads": 1}}, "another number of threads of the BLAS: 2 in"),
    (
        {"blas": {"config": "OpenBLAS 0.3.27  DYNAMIC_ARCH NO_AFFINITY Katmai MAX_THREADS=64"}},
        "another BLAS: OpenBLAS 0.3.31 in the first run, OpenBLAS 0.3.27 in the other",
    ),
    ({"blas": "of a stranger"}, "another BLAS: OpenBLAS 0.3.31 in the first run, none in"),
    ({"threads": 8}, "another number of threads: 2 in the first run, 8 in the other"),
    ({"processor": "GenuineIntel 6 85", "threads": 8}, "another processor: AuthenticAMD 25 1 in"),
    ({"numpy_simd": []}, "NumPy uses other parts of the processor: X86_V3 in"),
    ({"device": "/device:GPU:0"}, "another device: /device:CPU:0 in"),
    ({"variables": {"OMP_NUM_THREADS": "1"}}, "another OMP_NUM_THREADS in the environment: none"),
    ({"platform": "macOS-15"}, "another system: Linux-6.1-x86_64 in the first run, macOS-15 in"),
]


@pytest.mark.parametrize(("change", "text"), OTHERS, ids=lambda value: str(value)[:30])
def test_what_differs_is_named_the_likeliest_first(change, text):
    assert surroundings(HERE, {**HERE, **change})[0].startswith(text)
    assert surroundings({**HERE, **change}, {**HERE, **change}) == []


def rewrite_header(folder, **fields):
    """Give the header of a run other fields, in a journal whose chain is whole."""
    path = folder / lines.FILE
    head = lines.START
    parts = []
    for number, line in enumerate(path.read_bytes().splitlines()):
        record = lines.decode(line)
        body = lines.encode(record | fields if number == 0 else record)
        sealed, head = lines.sealed(body, head)
        parts.append(sealed)
    path.write_bytes(b"".join(parts))


def move(model):
    model.layers[0].kernel.assign(model.layers[0].kernel * (1 + 2e-7))


def move_slot(model):
    """No loss tells that soon, only a checkpoint."""
    slot = model.optimizer.variables[-1]
    slot.assign(slot * (1 + 2e-7))


@pytest.mark.parametrize(
    ("change", "first", "second"),
    [
        (move, {}, {}),
        (move, {"digest_every": 64}, {"digest_every": 64}),
        (move_slot, {"digest_every": 64, "save_every": 3}, {"digest_every": 64, "save_every": 4}),
        (move_slot, {"digest_every": 64, "save_every": 100}, {"digest_every": 64, "save_every": 4}),
    ],
    ids=["digests", "checkpoints", "other checkpoints", "the end"],
)
def test_other_bits_of_another_installation_are_named(tmp_path, change, first, second):
    nothing = AtStep(6, lambda model: None)
    fitted(tmp_path / "a", callbacks=[nothing], **first)
    fitted(tmp_path / "b", callbacks=[AtStep(6, change)], **second)  # as another NumPy might
    versions = tk.runs.open(tmp_path / "b").header["versions"]
    rewrite_header(tmp_path / "a", callbacks=[])
    rewrite_header(tmp_path / "b", callbacks=[], versions={**versions, "numpy": "1.99.0"})
    found = tk.runs.diff(*(tk.runs.open(tmp_path / name) for name in "ab"))
    assert found.kind == "environment"
    assert "another version of NumPy" in found.cause
    assert "1.99.0 in the other" in found.cause
    assert 6 <= found.step <= (6 if not first else 12)


def test_equal_runs_on_two_installations_are_said_to_be(tmp_path):
    for name in "ab":
        fitted(tmp_path / name, epochs=1)
    rewrite_header(tmp_path / "b", threads=99)
    found = tk.runs.diff(*(tk.runs.open(tmp_path / name) for name in "ab"))
    assert (found.step, found.kind) == (None, "none")
    assert any("in spite of another number of threads" in line for line in found.details)


def test_a_journal_that_was_cut_is_said_to_be(tmp_path):
    for name in "ab":
        fitted(tmp_path / name, epochs=1)
    path = tmp_path / "b" / lines.FILE
    raw = path.read_bytes()
    path.write_bytes(raw.replace(b'"n":4,', b'"n":5,'))
    a, b = (tk.runs.open(tmp_path / name) for name in "ab")
    assert "after line" in str(tk.runs.diff(a, b))
    assert "what the journal has lost" in str(b.why(seconds=0))


def test_a_run_without_a_step_can_not_be_compared(tmp_path):
    fitted(tmp_path / "a", epochs=1)
    writer = JournalWriter(tmp_path / "b")
    writer.header({"id": "0"})
    writer.close()
    with pytest.raises(FailedPreconditionError, match="b has 0 steps"):
        tk.runs.diff(*(tk.runs.open(tmp_path / name) for name in "ab"))
