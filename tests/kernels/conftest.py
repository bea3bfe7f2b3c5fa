"""The mode in which every kernel is compiled at its first call."""

import importlib.util

import pytest

from trainkit.kernels.jit import kernel_family


@pytest.fixture
def eager():
    before = kernel_family.mode()
    kernel_family.set_mode("eager")
    yield
    kernel_family.set_mode(before)


@pytest.fixture
def kernels():
    """A function that sets the mode; afterwards it is as before."""
    before = kernel_family.mode()
    yield kernel_family.set_mode
    kernel_family.set_mode(before)


@pytest.fixture
def unusual():
    """Takes what a kernel for unusual sizes gives; where nobody can compile it the test ends."""

    def result(found):
        if found is None and importlib.util.find_spec("numba") is None:
            pytest.skip("this kernel does not come compiled, and Numba is not here")
        return found

    return result
