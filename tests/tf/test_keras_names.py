"""Keras names that are aliases: initializers in lower case, correlations as functions."""

import numpy as np
import pytest

import trainkit as tk


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("constant", "Constant"),
        ("glorot_uniform", "GlorotUniform"),
        ("he_normal", "HeNormal"),
        ("identity", "Identity"),
        ("lecun_uniform", "LecunUniform"),
        ("ones", "Ones"),
        ("orthogonal", "Orthogonal"),
        ("random_normal", "RandomNormal"),
        ("stft", "STFT"),
        ("truncated_normal", "TruncatedNormal"),
        ("variance_scaling", "VarianceScaling"),
        ("zeros", "Zeros"),
    ],
)
def test_initializers_have_names_in_lower_case(alias, name):
    assert getattr(tk.initializers, alias) is getattr(tk.initializers, name)


def test_correlations_are_functions_too():
    x = np.array([[0.0, 1.0, 2.0]], "float32")
    np.testing.assert_allclose(tk.metrics.pearson_correlation(x, 2 * x + 1), [1.0], rtol=1e-6)
    assert float(tk.metrics.concordance_correlation(x, 2 * x + 1)[0]) < 0.7
