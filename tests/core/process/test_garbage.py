"""Collections are off inside a block, and afterwards as they were."""

import gc

import pytest

import trainkit as tk
from trainkit.core.process.garbage import no_collections


def test_collections_are_off_inside_and_as_before_behind():
    assert gc.isenabled()
    with no_collections():
        assert not gc.isenabled()
        with no_collections():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()
    with pytest.raises(KeyError), no_collections():
        raise KeyError
    assert gc.isenabled()
    gc.disable()
    try:
        with no_collections():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_a_trace_that_fails_leaves_collections_on():
    seen = []

    @tk.function
    def f(x):
        seen.append(gc.isenabled())
        raise LookupError("nothing")

    with pytest.raises(LookupError):
        f(tk.constant(1.0))
    assert seen == [False]
    assert gc.isenabled()
