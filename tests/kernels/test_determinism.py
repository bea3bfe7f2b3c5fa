"""The same bits whatever the number of threads, where that was asked for."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

from trainkit.kernels.threads import pools as threads

ROOT = pathlib.Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.skipif(
    threads.most_blas_threads() < 2, reason="NumPy's BLAS has one thread, or can't be told"
)


def checksums(count, how, *kinds):
    """Those of `determined.py` in a process whose BLAS and kernels begin with `count` threads."""
    pools = {"OPENBLAS_NUM_THREADS": str(count), "NUMBA_NUM_THREADS": str(count)}
    done = subprocess.run(
        [sys.executable, "-m", "tests.kernels.determined", str(count), how, *kinds],
        cwd=ROOT,
        env={**os.environ, **pools},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_a_training_run_of_products_gives_the_same_bits_on_one_and_on_two_threads():
    assert checksums(1, "determined", "mlp") == checksums(2, "determined", "mlp")


def test_convolutions_pooling_and_norms_of_bfloat16_give_the_same_bits_on_any_number_of_threads():
    one = checksums(1, "determined", "mixed_cnn")
    assert checksums(2, "determined", "mixed_cnn") == one
    assert checksums(4, "determined", "mixed_cnn") == one


@pytest.mark.slow
def test_models_of_all_kinds_give_the_same_bits_on_any_number_of_threads():
    one = checksums(1, "determined")
    assert len(one) == 8
    assert checksums(2, "determined") == one
    assert checksums(4, "determined") == one


@pytest.mark.slow
def test_without_being_asked_products_differ():
    """Else the tests above would show nothing; other processors may give the same bits."""
    for kind in ("mlp", "lstm"):
        if checksums(1, "free", kind) != checksums(2, "free", kind):
            break
    else:
        pytest.skip("the products of this processor's BLAS don't depend on its threads")


def test_only_blas_is_told_to_use_one_thread():
    before, compute = threads.blas_threads(), threads.compute_threads()
    threads.determine()
    try:
        assert threads.determined()
        assert threads.blas_threads() == 1
        assert threads.compute_threads() == compute
        planned = threads.planned_threads()
        threads.set_compute_threads(1)
        assert threads.blas_threads() == 1
        assert threads.planned_threads() == planned
        threads.set_compute_threads(0)
    finally:
        threads.determine(False)
    assert not threads.determined()
    assert threads.blas_threads() == before


def test_a_blas_that_cannot_be_told_is_named(monkeypatch):
    monkeypatch.setattr(threads, "blas_threads", lambda: 0)
    with pytest.raises(NotImplementedError, match="is not OpenBLAS"):
        threads.determine()
    assert not threads.determined()
