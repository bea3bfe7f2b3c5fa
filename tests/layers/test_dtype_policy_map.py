"""Policies by path, and what a policy takes."""

import json

import pytest

import trainkit as tk
from trainkit.keras import dtype_policies

L = tk.layers


def test_the_key_that_fits_counts():
    policies = dtype_policies.DTypePolicyMap("float32", {"encoder/layer/dense": "bfloat16"})
    policies["decoder/.*"] = "float16"
    assert policies["encoder/layer/dense"].name == "bfloat16"
    assert policies["decoder/attention"].name == "float16"
    assert policies["decoder"].name == "float32"
    assert "decoder/.*" in policies
    assert "decoder/x" not in policies
    assert len(policies) == 2
    policies["decoder/attention.*"] = "float64"
    with pytest.raises(ValueError, match="fits several keys"):
        policies["decoder/attention"]
    del policies["decoder/attention.*"]
    assert list(policies) == ["encoder/layer/dense", "decoder/.*"]


def test_a_map_survives_a_config():
    policies = dtype_policies.DTypePolicyMap("mixed_bfloat16", {"a": "float16"})
    config = json.loads(json.dumps(dtype_policies.serialize(policies)))
    again = dtype_policies.deserialize(config)
    assert again == policies
    assert again["a"].name == "float16"
    assert (again.compute_dtype, again.variable_dtype) == ("bfloat16", "float32")
    layer = L.Dense(2, dtype=policies)
    assert layer.compute_dtype == "bfloat16"
    assert L.Dense.from_config(layer.get_config()).dtype_policy == policies


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: dtype_policies.DTypePolicyMap(dtype_policies.DTypePolicyMap()), ValueError),
        (lambda: dtype_policies.DTypePolicyMap(policy_map=3), TypeError),
        (lambda: dtype_policies.DTypePolicyMap(policy_map={"a": "float3"}), ValueError),
        (lambda: dtype_policies.DTypePolicyMap(policy_map={"a": object()}), ValueError),
        (lambda: dtype_policies.DTypePolicy(3), TypeError),
        (lambda: dtype_policies.DTypePolicy("float3"), ValueError),
        (lambda: dtype_policies.get(object()), ValueError),
        (lambda: tk.keras.config.set_dtype_policy(12), ValueError),
    ],
)
def test_mistakes(make, error):
    with pytest.raises(error):
        make()


def test_policies_are_what_keras_has():
    policy = dtype_policies.DTypePolicy("mixed_float16")
    assert policy.quantization_mode is None
    x = tk.ones((2,))
    assert policy.convert_input(x, True, "float16").dtype == "float16"
    assert policy.convert_input(x, False, "float16") is x
    assert policy.convert_input("text", True, "float16") == "text"
    tk.keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        assert dtype_policies.DTypePolicy().name == "mixed_bfloat16"
    finally:
        tk.keras.config.set_dtype_policy(None)
