"""The mode of compiled kernels, and which kernels of a GPU the stand-in runs."""

import importlib.util

import pytest

from tests.stand_in.kernels import RawKernel


@pytest.fixture
def unusual():
    """Takes what a kernel for unusual sizes gives; where nobody can compile it the test ends."""

    def result(found):
        if found is None and importlib.util.find_spec("numba") is None:
            pytest.skip("this kernel does not come compiled, and Numba is not here")
        return found

    return result


@pytest.fixture
def kernel_names(monkeypatch):
    """The names of the stand-in's kernels that run, in order."""
    names, call = [], RawKernel.__call__

    def noted(self, *args, **kwargs):
        names.append(self.name)
        return call(self, *args, **kwargs)

    monkeypatch.setattr(RawKernel, "__call__", noted)
    return names
