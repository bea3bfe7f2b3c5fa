"""Each batching rule gives what one call per value gives."""

import numpy as np
import pytest

import trainkit as tk
from trainkit.core.tensor import PRIMITIVES
from trainkit.ops.core import vmap
from trainkit.ops.core.vmap import BatchedTensor, ItemStack, NeedsValue, new_level, unbatched

COUNT = 3
RNG = np.random.default_rng(0)


def normal(*shape):
    return RNG.normal(size=(COUNT, *shape))


def positive(*shape):
    return RNG.uniform(0.2, 0.8, size=(COUNT, *shape))


def spd(n):
    a = normal(n, n)
    return a @ a.swapaxes(-1, -2) + 2 * np.eye(n)


def cplx(*shape):
    return normal(*shape) + 1j * normal(*shape)


REDUCE = {"axis": (0,), "keepdims": False}
KEEP = {"axis": (-1,), "keepdims": True}
ALL = {"axis": None, "keepdims": False}
CONV = {"strides": (1, 1), "padding": "same", "dilation_rate": (1, 1), "activation": None}
POOL = {"pool_size": (2, 2), "strides": (2, 2), "padding": "valid"}

# primitive, stacks of inputs, settings; "same" marks an input that all values share
CASES = [
    *[("sum", [normal(4, 5)], s) for s in (REDUCE, KEEP, ALL)],
    *[("max", [normal(4, 5)], {**s, "initial": None}) for s in (REDUCE, KEEP, ALL)],
    ("min", [normal(4, 5)], {**REDUCE, "initial": None}),
    ("mean", [normal(4, 5)], ALL),
    ("prod", [normal(4)], ALL),
    ("all", [normal(4) > 0], {**ALL}),
    ("any", [normal(4, 2) > 0], {**REDUCE}),
    ("logsumexp", [normal(4, 5)], KEEP),
    ("argmax", [normal(4, 5)], {"axis": 1, "keepdims": False, "dtype": "int32"}),
    ("argmin", [normal(4, 5)], {"axis": -2, "keepdims": True, "dtype": "int64"}),
    ("argmax", [normal(4, 5)], {"axis": None, "keepdims": False, "dtype": "int32"}),
    ("softmax", [normal(4, 5)], {"axis": (-1,)}),
    ("log_softmax", [normal(4, 5)], {"axis": (0,)}),
    ("flip", [normal(4, 5)], {"axis": (0,)}),
    ("squeeze", [normal(4, 1)], {"axis": (1,)}),
    ("expand_dims", [normal(4)], {"axis": (0,)}),
    ("expand_dims", [normal(4)], {"axis": (-1,)}),
    ("concatenate", [normal(4, 5), normal(2, 5)], {"axis": 0}),
    ("concatenate", [normal(4, 5), ("same", normal(4, 2))], {"axis": -1}),
    ("stack", [normal(4), normal(4)], {"axis": 0}),
    ("stack", [normal(4), ("same", normal(4))], {"axis": -1}),
    ("matmul", [normal(2, 4), normal(4, 5)], {}),
    ("matmul", [normal(2, 4), ("same", normal(4, 5))], {}),
    ("matmul", [("same", normal(2, 4)), normal(4, 5)], {}),
    ("matmul", [normal(6, 2, 4), ("same", normal(4, 5))], {}),
    ("matmul", [normal(6, 2, 4), normal(4, 5)], {}),
    ("matmul", [normal(4), normal(4)], {}),
    ("cholesky", [spd(3)], None),
    ("inv", [spd(3)], None),
    ("det", [spd(3)], None),
    ("reshape", [normal(4, 5)], {"shape": (2, 10)}),
    ("reshape", [normal(4, 5)], {"shape": (2, -1)}),
    ("broadcast_to", [normal(1, 5)], {"shape": (2, 3, 5)}),
    ("reshape_like", [normal(4, 5), ("same", normal(20))], {}),
    ("sum_to_like", [normal(4, 5), ("same", normal(1, 5))], {}),
    ("sum_to_like", [normal(2, 4, 5), normal(5)], {}),
    ("broadcast_like", [normal(5), ("same", normal(4, 5))], {}),
    ("transpose", [normal(2, 3, 4)], {"axes": (2, 0, 1)}),
    ("transpose", [normal(2, 3, 4)], {"axes": None}),
    ("transpose", [normal(2, 3, 4)], {"axes": (-1, 0, 1)}),
    ("get_item", [normal(4, 5)], {"key": (1, (0, None, 2))}),
    ("get_item", [normal(4, 5)], {"key": ("...", None, -1)}),
    ("put_item", [normal(5), ("same", normal(4, 5))], {"key": (1,)}),
    ("pad", [normal(4, 5)], {"pad_width": ((1, 0), (0, 2)), "mode": "constant", "value": 1.0}),
    ("pad", [normal(4, 5)], {"pad_width": ((1, 0), (0, 2)), "mode": "reflect", "value": 0.0}),
    ("tril", [normal(4, 4)], None),
    ("triu", [normal(4, 4)], None),
    ("identity", [normal(4)], {}),
    ("stop_gradient", [normal(4)], {}),
    ("add", [normal(4, 5), normal(5)], {}),
    ("add", [normal(5), ("same", normal(4, 5))], {}),
    ("multiply", [("same", normal(5)), normal(4, 1)], {}),
    ("tanh", [normal(4)], {}),
    ("sigmoid", [normal(4)], {}),
    ("where", [normal(4, 5) > 0, normal(5), ("same", normal(4, 1))], {}),
    ("erf", [normal(4)], {}),
    ("lgamma", [positive(4)], {}),
    ("digamma", [positive(4)], {}),
    ("floor_divide", [normal(4, 5), normal(5)], {}),
    ("mod", [normal(4, 5), ("same", positive(5))], {}),
    ("real", [cplx(4)], {}),
    ("imag", [cplx(4)], {}),
    ("conj", [cplx(4)], {}),
    ("complex", [normal(4), normal(4)], {}),
    ("conv", [normal(2, 6, 6, 3), ("same", normal(3, 3, 3, 4)), None], CONV),
    ("conv", [normal(2, 6, 6, 3), normal(3, 3, 3, 4), None], CONV),
    ("max_pool", [normal(2, 6, 6, 3)], POOL),
    ("average_pool", [normal(2, 6, 6, 3)], POOL),
    ("dense", [normal(2, 3), ("same", normal(3, 4)), ("same", normal(4))], {"activation": None}),
    ("take_along_axis", None, None),
]
CASES = [case for case in CASES if case[1] is not None]


def settings_of(name, settings):
    """The given settings, or those with which the public function calls the primitive."""
    if settings is not None:
        return settings
    return {"tril": {"k": 0}, "triu": {"k": 0}, "cholesky": {}, "inv": {}, "det": {}}[name]


def tensors(inputs):
    """Stacks as batched tensors, shared inputs as tensors."""
    level = new_level()
    for x in inputs:
        if x is None:
            yield None
        elif isinstance(x, tuple):
            yield tk.constant(x[1][0])
        else:
            yield BatchedTensor(tk.constant(x), level)


def case_id(case):
    dims = "-".join(
        "none" if x is None else str(np.shape(x[1] if isinstance(x, tuple) else x)[1:])
        for x in case[1]
    )
    return f"{case[0]}-{dims}"


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_a_rule_gives_what_one_call_per_value_gives(case):
    name, inputs, settings = case
    op, given = PRIMITIVES[name].op, list(tensors(inputs))
    settings = settings_of(name, settings)
    result = op(*given, **settings)
    stacks = [ItemStack(x) if isinstance(x, BatchedTensor) else x for x in given]
    wanted = vmap.one_after_the_other(PRIMITIVES[name], stacks, settings, COUNT)
    assert isinstance(result, BatchedTensor)
    assert tuple(result.shape) == tuple(wanted.shape)[1:]
    assert result.dtype == wanted.dtype
    np.testing.assert_allclose(result.stacked.numpy(), wanted.numpy(), rtol=1e-9, atol=1e-11)


def test_operations_without_a_rule_are_called_per_value():
    stack = tk.constant([[1, 1, 2], [0, 2, 2]])
    assert not PRIMITIVES["bincount"].facets.batch
    result = tk.ops.bincount(BatchedTensor(stack))
    np.testing.assert_array_equal(result.stacked.numpy(), [[0, 2, 1], [1, 0, 2]])


def test_several_outputs():
    values = tk.ops.top_k(BatchedTensor(tk.constant(normal(5))), 2)[0]
    assert values.stacked.shape == (COUNT, 2)


def test_what_is_the_same_for_all_is_repeated():
    assert unbatched(tk.constant([1.0, 2.0]), new_level(), 2).tolist() == [[1, 2], [1, 2]]


@pytest.mark.parametrize("look", [float, bool, lambda x: x.numpy(), lambda x: x.tolist()])
def test_a_batched_tensor_has_no_single_value(look):
    x = BatchedTensor(tk.constant(normal()))
    assert repr(x) == "BatchedTensor(shape=(), dtype=float64)"
    with pytest.raises(NeedsValue, match="stands for many"):
        look(x)
    assert not hasattr(x, "numpy")
