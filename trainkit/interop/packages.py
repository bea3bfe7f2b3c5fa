"""torch, jax and flax, which are imported when something asks for them."""

from __future__ import annotations

import importlib
from typing import Any

from trainkit.core.process.requirements import install_command


def torch_for(name: str) -> Any:
    """The module `torch`.

    Raises:
        ImportError: PyTorch is not installed; the text has the command.
    """
    return _package("torch", "PyTorch", name)


def jax_for(name: str) -> Any:
    """The module `jax`.

    Raises:
        ImportError: JAX is not installed; the text has the command.
    """
    return _package("jax", "JAX", name)


def flax_for(name: str) -> Any:
    """The module `flax.linen`.

    Raises:
        ImportError: Flax is not installed; the text has the command.
    """
    _package("flax", "Flax", name)
    return importlib.import_module("flax.linen")


def _package(module: str, title: str, name: str) -> Any:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in (module, "jaxlib"):
            raise
        raise ImportError(
            f"{name} needs {title}: {install_command(module)}", name=module
        ) from error
