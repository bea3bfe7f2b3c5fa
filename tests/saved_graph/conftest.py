"""Fixtures of tests that compare bits with the NumPy-only reader."""

import pytest

from trainkit.kernels.jit import kernel_family


@pytest.fixture
def plain_kernels():
    """No compiled kernels: the reader has the bits of bodies in NumPy."""
    kernel_family.set_mode("off")
