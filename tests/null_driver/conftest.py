"""Installs the driver where nothing but these tests runs; elsewhere they are skipped."""

from pathlib import Path

import pytest

from tests.null_driver import ceilings
from tests.null_driver.installing import install, missing
from tests.null_driver.kernels import RECORDED
from trainkit.kernels.cudnn import deferred
from trainkit.kernels.jit import kernel_family

HERE = Path(__file__).parent
ALONE = "the driver takes a process of its own: make test-null-driver"


def _run_alone(config):
    paths = [Path(config.invocation_params.dir, arg.partition("::")[0]) for arg in config.args]
    return all(path.resolve().is_relative_to(HERE) for path in paths)


def pytest_configure(config):
    if _run_alone(config) and not missing():
        install()
        deferred.set_mode("off")  # cuDNN asks a CUDA runtime of its own for the GPU
        kernel_family.set_mode("hot")  # as users have it, optimizers' kernels for CUDA too


def pytest_collection_modifyitems(config, items):
    reason = missing() if _run_alone(config) else ALONE
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.null_driver)
            if reason:
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(autouse=True)
def _lean_kernels():
    """What trainkit writes for a GPU compiles, and its threads work in registers alone.

    Without this a kernel that does not compile would be a warning, and slower.
    """
    before = len(RECORDED)
    yield
    found = RECORDED[before:]
    assert [k.error for k in found if k.error] == []
    assert [k for k in found if k.stack > ceilings.most_stack(k)] == []
    # tests/null_driver/test_kernels.py has an eye on those that a graph makes
    own = [k for k in found if not k.name.startswith("fused_")]
    assert [k for k in own if k.registers > ceilings.most_registers(k.name)] == []


@pytest.fixture
def cupy():
    """CuPy over the driver."""
    return pytest.importorskip("cupy")
