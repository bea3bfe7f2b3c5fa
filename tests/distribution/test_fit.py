"""`fit`, `evaluate` and `predict`: N processes give the numbers that one gives."""

import json
import pathlib

import numpy as np
import pytest

from tests.distribution import fit_cases
from tests.distribution.processes import needs_mpi, run_program

pytestmark = needs_mpi

PROGRAM = pathlib.Path(fit_cases.__file__)
SOME = [
    "arrays",
    "convolutions",
    "images_mixed_with_each_other",
    "noise_of_a_step",
    "noise_of_layers",
    "recurrent_layers",
    "weights_of_unequal_sums",
    "weights_of_unequal_sums_eagerly",
]
SHARED_OUT = ["arrays", "noise_of_layers", "weights_of_unequal_sums"]
"""Rows, noise and sums: what else a rank computes is the same for four as for three."""
CASES = {2: list(fit_cases.CASES), 3: SOME, 4: SHARED_OUT}


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """What each rank found, by the number of processes; the program is started once for each."""
    found = {}
    for size, names in {1: [], **CASES}.items():
        folder = tmp_path_factory.mktemp(f"of_{size}")
        done = run_program(size, PROGRAM, (folder, *names))
        found[size] = [json.loads((folder / f"{r}.json").read_text()) for r in range(size)]
        assert "Epoch" not in done.stdout
    return found


def numbers(nested):
    """All numbers in a nest, in order."""
    if isinstance(nested, dict):
        nested = [nested[key] for key in sorted(nested)]
    if isinstance(nested, list):
        return [x for item in nested for x in numbers(item)]
    return [nested]


@pytest.mark.parametrize(("size", "name"), [(n, name) for n in CASES for name in CASES[n]])
def test_processes_train_as_one_does(results, name, size):
    ranks = [rank[name] for rank in results[size]]
    for rank in ranks[1:]:
        assert rank == ranks[0]  # to the bit
    one = results[1][0][name]
    np.testing.assert_allclose(numbers(ranks[0]), numbers(one), rtol=2e-4, atol=2e-5)
