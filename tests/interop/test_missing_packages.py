"""Without PyTorch or JAX each name says how to install it, when it is used and not before."""

import importlib

import pytest

import trainkit as tk

USES = [
    ("torch", lambda: tk.interop.torch_function(tk.exp)),
    ("jax", lambda: tk.interop.jax_function(tk.exp)),
    ("torch", lambda: tk.layers.TorchModuleWrapper(None)),
    ("jax", lambda: tk.layers.JaxLayer(lambda params, inputs: inputs, params={})),
    ("flax", lambda: tk.layers.FlaxLayer(None)),
]


@pytest.mark.parametrize(("package", "use"), USES)
def test_a_missing_package_is_named_with_the_command(package, use, monkeypatch):
    real = importlib.import_module

    def absent(name, *args):
        if name == package:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return real(name, *args)

    monkeypatch.setattr(importlib, "import_module", absent)
    with pytest.raises(ImportError, match=f"pip install '{package}>=") as raised:
        use()
    assert raised.value.name == package


def test_an_error_inside_of_the_package_is_its_own(monkeypatch):
    def broken(name, *args):
        raise ModuleNotFoundError("No module named 'sympy'", name="sympy")

    monkeypatch.setattr(importlib, "import_module", broken)
    with pytest.raises(ModuleNotFoundError, match="sympy"):
        tk.interop.torch_function(tk.exp)
