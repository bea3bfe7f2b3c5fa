"""The mode in which every kernel is compiled at its first call."""

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
