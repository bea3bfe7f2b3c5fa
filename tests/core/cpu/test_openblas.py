"""What a loaded OpenBLAS says of itself and can be told."""

import subprocess
import sys
import threading
import time
import types

import pytest

from trainkit.core.cpu import openblas


def test_waiting_threads_are_seen_to_wait():
    end = threading.Event()
    thread = threading.Thread(target=end.wait)
    thread.start()
    try:
        while not openblas._waits(sys._current_frames()[thread.ident]):
            time.sleep(0)  # it is about to wait
    finally:
        end.set()
        thread.join()


def test_working_threads_are_seen_to_work():
    end = []

    def work():
        while not end:
            pass

    thread = threading.Thread(target=work)
    thread.start()
    try:
        assert not openblas.others_wait()
    finally:
        end.append(True)
        thread.join()


def test_threads_around_a_notebook_wait():
    def frame(module, function):
        code = types.SimpleNamespace(co_name=function)
        return types.SimpleNamespace(f_globals={"__name__": module}, f_code=code)

    assert openblas._waits(frame("ipykernel.heartbeat", "run"))
    assert openblas._waits(frame("selectors", "select"))
    assert not openblas._waits(frame("selectors", "register"))
    assert not openblas._waits(frame("__main__", "wait"))


def test_nothing_is_read_again_while_others_work(monkeypatch):
    monkeypatch.setattr(openblas, "others_wait", lambda: False)
    assert not openblas.read_again()


def test_another_blas_reads_nothing(monkeypatch):
    monkeypatch.setattr(openblas, "blas_library", lambda: None)
    assert not openblas.read_again()


@pytest.mark.skipif(not openblas.can_read_again(), reason="NumPy's BLAS can't be told anything")
def test_products_go_on_after_all_is_read_again():
    code = """
import numpy as np
from trainkit.core.cpu import openblas
a = np.random.default_rng(0).standard_normal((300, 300), dtype=np.float32)
before, threads = a @ a, openblas.blas_threads()
assert openblas.read_again()
np.testing.assert_array_equal(a @ a, before)
assert openblas.blas_threads() == threads
"""
    subprocess.run([sys.executable, "-c", code], check=True)  # nothing else is at work there
