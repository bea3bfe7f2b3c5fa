"""Builds the compiled half of the eager path where there is a C compiler; without one all works."""

import sys

import numpy
from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext


class BuildWhereItCanBe(build_ext):
    """Leaves out what can't be compiled, with a word about it."""

    def build_extension(self, ext: Extension) -> None:
        try:
            super().build_extension(ext)
        except Exception as error:  # no compiler, no headers of Python, or one that fails
            print(
                f"trainkit: {ext.name} is left out, Python does its work: {error}", file=sys.stderr
            )


native = Extension(
    "trainkit.core.dispatch._native",
    ["trainkit/core/dispatch/_native.pyx"],
    include_dirs=[numpy.get_include()],
    define_macros=[("NPY_NO_DEPRECATED_API", "NPY_2_0_API_VERSION")],
)
extensions = cythonize([native])
for extension in extensions:  # setuptools then does not miss it in an editable installation
    extension.optional = True
setup(ext_modules=extensions, cmdclass={"build_ext": BuildWhereItCanBe})
