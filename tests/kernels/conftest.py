"""The mode in which every kernel is compiled at its first call."""

import pytest

from trainkit.kernels import registry


@pytest.fixture
def eager():
    before = registry.mode()
    registry.set_mode("eager")
    yield
    registry.set_mode(before)


@pytest.fixture
def kernels():
    """A function that sets the mode; afterwards it is as before."""
    before = registry.mode()
    yield registry.set_mode
    registry.set_mode(before)
