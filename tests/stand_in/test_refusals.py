"""The stand-in refuses, copies and waits as CuPy does: the tables of refusals.py.

tests/null_driver/test_refusals.py runs them with CuPy itself.
"""

import pytest

from tests import stand_in
from tests.stand_in import refusals


@pytest.fixture
def ledger():
    with stand_in.in_place() as ledger:
        yield ledger


@pytest.fixture
def cupy(ledger):
    import cupy

    return cupy


@pytest.mark.parametrize("name", refusals.REFUSED)
def test_it_refuses(cupy, name):
    call, (error, text) = refusals.REFUSED[name]
    with pytest.raises(error, match=text):
        call(cupy)


@pytest.mark.parametrize("name", refusals.COUNTED)
def test_it_copies_and_waits(cupy, ledger, name):
    call = refusals.call(cupy, name)
    ledger.to_device.clear()
    call()
    assert (len(ledger.to_device), bool(ledger.waits)) == refusals.COUNTED[name][2:]


@pytest.mark.parametrize("name", refusals.COUNTED)
def test_a_capture_takes_what_neither_copies_nor_waits(cupy, name):
    call, stream = refusals.call(cupy, name), cupy.cuda.Stream(non_blocking=True)
    with stream, cupy.cuda.using_allocator(cupy.cuda.MemoryPool().malloc):
        stream.begin_capture()
        if refusals.is_captured(name):
            call()
            stream.end_capture()
        else:
            with pytest.raises(RuntimeError, match=r"captur"):
                call()
