"""The Python that has Keras: `KERAS_PYTHON` names it, if it is not the one that runs the tests."""

import importlib.util
import os
import sys

import pytest

PYTHON = os.environ.get("KERAS_PYTHON") or (
    sys.executable if importlib.util.find_spec("keras") else None
)
needs_keras = pytest.mark.skipif(
    PYTHON is None, reason="Keras is not installed; KERAS_PYTHON names an interpreter that has it"
)
