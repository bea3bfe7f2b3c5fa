"""Builds what is compiled: the eager path's half in C, and kernels. Without a compiler all works.

Kernels are built for the instruction set of the machine that builds; `TRAINKIT_BUILD_KERNELS` names
others, as for a wheel that serves many machines, or `0` for none:

    TRAINKIT_BUILD_KERNELS=x86-64-v3,x86-64-v4 python -m build
"""

import os
import pathlib
import subprocess
import sys
from typing import ClassVar

import numpy
from Cython.Build import cythonize
from setuptools import Command, Extension, setup
from setuptools.command.build import build
from setuptools.command.build_ext import build_ext

ROOT = pathlib.Path(__file__).parent
LEVELS = os.environ.get("TRAINKIT_BUILD_KERNELS", "native")


class BuildWhereItCanBe(build_ext):
    """Leaves out what can't be compiled, with a word about it."""

    def build_extensions(self) -> None:
        if self.compiler.compiler_type == "unix":
            # Nobody asks which operations of floats raised flags, and whoever minds them gets no
            # vector code of a loop that chooses between two results. Values stay what they are; so
            # that a product and a sum are each rounded, no processor's own step for both is taken.
            flags = ["-fno-trapping-math", "-fno-math-errno", "-ffp-contract=off"]
            for ext in self.extensions:
                ext.extra_compile_args = flags
        super().build_extensions()

    def build_extension(self, ext: Extension) -> None:
        try:
            super().build_extension(ext)
        except Exception as error:  # no compiler, no headers of Python, or one that fails
            cause = str(error).partition("\n")[0]
            print(
                f"trainkit: {ext.name} can't be compiled ({cause}), so Python does its work and "
                "eager steps of small models take up to twice as long",
                file=sys.stderr,
            )


class BuildKernels(Command):
    """Compiles the kernels that every user needs; where that fails they are compiled when used."""

    user_options: ClassVar[list] = []

    def initialize_options(self) -> None:
        self.build_lib = None
        self.editable_mode = False

    def finalize_options(self) -> None:
        self.set_undefined_options("build_py", ("build_lib", "build_lib"))

    def run(self) -> None:
        if LEVELS == "0":
            return
        base = ROOT if self.editable_mode else pathlib.Path(self.build_lib)
        folder = base.absolute() / "trainkit" / "kernels"
        command = [sys.executable, "-m", "trainkit", "kernels", "--levels", LEVELS]
        paths = [str(ROOT.absolute()), *sys.path]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
        done = subprocess.run([*command, "--output", str(folder)], env=environment)
        if done.returncode:
            print(
                "trainkit: no kernels come compiled; with the extra numba they are when they are "
                "used",
                file=sys.stderr,
            )

    def get_source_files(self) -> list[str]:
        return []

    def get_outputs(self) -> list[str]:
        return []

    def get_output_mapping(self) -> dict[str, str]:
        return {}


class BuildAll(build):
    """Builds kernels last."""

    sub_commands: ClassVar[list] = [*build.sub_commands, ("build_kernels", None)]


native = Extension(
    "trainkit.core.dispatch._native",
    ["trainkit/core/dispatch/_native.pyx"],
    include_dirs=[numpy.get_include()],
    define_macros=[
        ("NPY_NO_DEPRECATED_API", "NPY_2_0_API_VERSION"),
        ("NPY_TARGET_VERSION", "NPY_1_25_API_VERSION"),  # which has allocators
    ],
)
extensions = cythonize([native])
for extension in extensions:  # setuptools then does not miss it in an editable installation
    extension.optional = True
setup(
    ext_modules=extensions,
    cmdclass={"build_ext": BuildWhereItCanBe, "build_kernels": BuildKernels, "build": BuildAll},
)
