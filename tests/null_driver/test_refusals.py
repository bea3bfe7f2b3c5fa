"""CuPy refuses, copies and waits as the stand-in does: the tables of tests/stand_in/refusals.py."""

import contextlib

import pytest

from tests.null_driver.counting import counted
from tests.stand_in import refusals


@pytest.mark.parametrize("name", refusals.REFUSED)
def test_it_refuses(cupy, name):
    call, (error, text) = refusals.REFUSED[name]
    with pytest.raises(error, match=text):
        call(cupy)


@pytest.mark.parametrize("name", refusals.COUNTED)
def test_it_copies_and_waits(cupy, name):
    call = refusals.call(cupy, name)
    with counted() as counts:
        call()
    assert (counts.to_device, bool(counts.waits)) == refusals.COUNTED[name][2:]


@pytest.mark.parametrize("name", refusals.COUNTED)
def test_a_capture_takes_what_neither_copies_nor_waits(cupy, name):
    call, stream = refusals.call(cupy, name), cupy.cuda.Stream(non_blocking=True)
    with stream:
        stream.begin_capture()
        if refusals.is_captured(name):
            call()
            stream.end_capture()
            return
        with pytest.raises(RuntimeError, match=r"captur|Captur"):
            call()
        with contextlib.suppress(cupy.cuda.runtime.CUDARuntimeError):  # broken, where it waited
            stream.end_capture()
