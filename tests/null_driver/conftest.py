"""Installs the driver where nothing but these tests runs; elsewhere they are skipped."""

from pathlib import Path

import pytest

from tests.null_driver.installing import install, missing
from trainkit.kernels.jit import kernel_family

HERE = Path(__file__).parent
ALONE = "the driver takes a process of its own: make test-null-driver"


def _run_alone(config):
    paths = [Path(config.invocation_params.dir, arg.partition("::")[0]) for arg in config.args]
    return all(path.resolve().is_relative_to(HERE) for path in paths)


def pytest_configure(config):
    if _run_alone(config) and not missing():
        install()
        kernel_family.set_mode("hot")  # as users have it, optimizers' kernels for CUDA too


def pytest_collection_modifyitems(config, items):
    reason = missing() if _run_alone(config) else ALONE
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.null_driver)
            if reason:
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture
def cupy():
    """CuPy over the driver."""
    return pytest.importorskip("cupy")
