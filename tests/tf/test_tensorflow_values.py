"""Every row of `cases.py` gives what TensorFlow gives: values, dtypes and gradients."""

import json
from pathlib import Path

import numpy as np
import pytest

import trainkit as tk
from tests.tf.cases import CASES, result_arrays, run_case

VALUES = json.loads((Path(__file__).parent / "values.json").read_text())


def expected(stored):
    if "complex" in stored:
        real, imaginary = stored["complex"]
        return np.asarray(real) + 1j * np.asarray(imaginary)
    return np.asarray(stored["value"]).reshape(stored["shape"])


@pytest.mark.parametrize("row", CASES, ids=[row.id for row in CASES])
def test_call_gives_what_tensorflow_gives(row):
    found, wanted = result_arrays(run_case(tk, row)), VALUES[row.id]
    assert len(found) == len(wanted)
    for array, stored in zip(found, wanted, strict=True):
        assert array.dtype.name == stored["dtype"]
        np.testing.assert_allclose(array, expected(stored), rtol=row.rtol, atol=row.atol)


def test_rows_have_names_of_their_own():
    names = [row.id for row in CASES]
    assert len(set(names)) == len(names)
    assert set(names) == set(VALUES)
