"""Seeds for every test, and the devices that tests run on."""

import os
import random

# Hot kernels compile in threads, and Numba sets warning filters meanwhile, which all threads share:
# a test of a warning would depend on chance. Tests of kernels choose a mode themselves.
os.environ.setdefault("TRAINKIT_JIT", "0")

import numpy as np
import pytest

import trainkit as tk
from trainkit.kernels import registry

SEED = 20


def gpu_works() -> bool:
    return bool(tk.config.list_physical_devices("GPU"))


@pytest.fixture(autouse=True)
def _seeded():
    """The same random numbers for each test, whatever ran before it."""
    random.seed(SEED)
    np.random.seed(SEED)
    tk.random.set_seed(SEED)


@pytest.fixture(autouse=True)
def _kernels():
    """What a test says of compiled kernels holds for it alone."""
    before = registry.mode()
    yield
    if registry.mode() != before:
        registry.set_mode(before)


@pytest.fixture(params=["/cpu:0", pytest.param("/gpu:0", marks=pytest.mark.gpu)])
def device(request):
    """Name of each device in turn; the GPU's tests are skipped where none works."""
    if request.param.startswith("/gpu") and not gpu_works():
        pytest.skip("no working GPU")
    return request.param


@pytest.fixture
def rng():
    return np.random.default_rng(SEED)
