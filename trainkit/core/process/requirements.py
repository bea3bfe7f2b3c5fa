"""What else can be installed, and how: of use in texts that name a package which is missing.

The name `trainkit` on the public index of packages belongs to another project, so nobody is asked
to install that. The packages themselves can be installed beside any copy of this library, whether
it was installed from a copy of the repository, from the file of a wheel, or not at all.
"""

from __future__ import annotations

DISTRIBUTION = "trainkit-ml"
"""What an installation of this library is called; the module that it brings is `trainkit`."""

REINSTALL = "pip install --force-reinstall --no-deps ."
"""Installs this library again, in a copy of the repository."""

_CUDNN_FRONTEND = "nvidia-cudnn-frontend>=1.18,<1.29"
EXTRAS = {
    "cuda12": ("cupy-cuda12x[ctk]>=14,<15", _CUDNN_FRONTEND, "nvidia-cudnn-cu12>=9"),
    "cuda13": ("cupy-cuda13x[ctk]>=14,<15", _CUDNN_FRONTEND, "nvidia-cudnn-cu13>=9"),
    "distributed": ("mpi4py>=4.1", "mpich>=4.3"),
    "examples": ("scikit-learn>=1.5",),
    "export": ("onnx>=1.16", "onnxruntime>=1.17"),
    "flax": ("flax>=0.10",),
    "images": ("pillow>=10.1",),
    "jax": ("jax>=0.4.34",),
    "numba": ("numba>=0.61",),
    "plots": ("matplotlib>=3.8",),
    "sklearn": ("scikit-learn>=1.6",),
    "tensorboard": ("tensorboard>=2.18",),
    "torch": ("torch>=2.3",),
}
"""The packages of the extras that messages name, as `pyproject.toml` has them."""


def install_command(extra: str) -> str:
    """The command that installs what an extra brings.

    >>> install_command("numba")
    "pip install 'numba>=0.61'"
    """
    return "pip install " + " ".join(f"'{package}'" for package in EXTRAS[extra])
