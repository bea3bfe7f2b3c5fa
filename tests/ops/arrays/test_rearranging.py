import numpy as np
import pytest

import trainkit as tk
from tests.ops.numpy_compare import assert_same
from trainkit import ops
from trainkit.core.dispatch.eval_shape import result_specs
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.shapes import Spec

X = np.arange(2 * 4 * 6 * 3.0).reshape(2, 4, 6, 3)


def test_axes_are_moved_joined_and_split():
    assert_same(ops.rearrange(X, "b h w c -> b c h w"), X.transpose(0, 3, 1, 2))
    assert_same(ops.rearrange(X, "b h w c -> (b h) w c"), X.reshape(8, 6, 3))
    assert_same(ops.rearrange(X, "b h w c -> h (b w) c"), X.transpose(1, 0, 2, 3).reshape(4, 12, 3))
    split = X.reshape(2, 2, 2, 3, 2, 3)
    assert_same(
        ops.rearrange(X, "b (h h1) (w w1) c -> b h w (c h1 w1)", h1=2, w1=2),
        split.transpose(0, 1, 3, 5, 2, 4).reshape(2, 2, 3, 12),
    )


def test_dots_and_ones():
    assert_same(ops.rearrange(X, "b ... -> ... b"), np.moveaxis(X, 0, -1))
    assert_same(ops.rearrange(X, "b ... -> b (...)"), X.reshape(2, -1))
    assert_same(ops.rearrange(X, "b h w c -> b 1 (h w c)"), X.reshape(2, 1, -1))


def test_what_is_remembered_of_a_call_is_for_its_sizes_alone():
    pattern = "(a b) c -> b (c a)"
    for shape, b in (((6, 2), 2), ((6, 2), 3), ((12, 2), 3), ((6, 2), 2), ((6, 2), np.int64(3))):
        x = np.arange(np.prod(shape)).reshape(shape)
        expected = x.reshape(-1, b, shape[1]).transpose(1, 2, 0).reshape(b, -1)
        for _ in range(2):
            assert_same(ops.rearrange(x, pattern, b=b), expected)
            compiled = tk.function(lambda x, b=int(b): ops.rearrange(x, pattern, b=b))
            assert_same(compiled(x), expected)
    for _ in range(2):
        with pytest.raises(ShapeError, match=r"axis 0 of shape \(6, 2\) does not divide"):
            ops.rearrange(np.ones((6, 2)), pattern, b=4)
    assert_same(ops.rearrange(np.ones((0, 2)), pattern, b=4), np.ones((4, 0)))


def test_one_size_may_be_unknown():
    spec = result_specs(
        lambda x: ops.rearrange(x, "b (h i) -> (b h) i", i=2), Spec((None, 6), "int8")
    )
    assert spec.shape == (None, 2)


def test_space_and_depth_are_inverse():
    deep = ops.space_to_depth(X, 2)
    assert tuple(deep.shape) == (2, 2, 3, 12)
    assert_same(ops.depth_to_space(deep, 2), X)
    first = X.transpose(0, 3, 1, 2)
    deep = ops.space_to_depth(first, 2, data_format="channels_first")
    assert tuple(deep.shape) == (2, 12, 2, 3)
    assert_same(ops.depth_to_space(deep, 2, data_format="channels_first"), first)


ERRORS = [
    (lambda: ops.rearrange(X, "a b -> b a"), "names 2 axes, the tensor has 4"),
    (lambda: ops.rearrange(X, "a b c d -> a b c"), "d is on one side of"),
    (lambda: ops.rearrange(X, "a a b c -> a b c"), "stands twice on one side"),
    (lambda: ops.rearrange(X, "a b c d"), "has no '->'"),
    (lambda: ops.rearrange(X, "a b c d -> a b (c d"), "brackets in .* do not match"),
    (lambda: ops.rearrange(X, "a b c + -> a b c"), r"'\+' in .* is no axis"),
    (
        lambda: ops.rearrange(X, "a (b z) c d -> a b z c d", z=3),
        "axis 1 of shape .* does not divide",
    ),
    (lambda: ops.rearrange(X, "a (b z) c d -> a b z c d"), "give all sizes but one"),
    (lambda: ops.rearrange(X, "a b c d -> d c b a", z=1), "z is not in"),
    (lambda: ops.space_to_depth(X, 5), "does not divide"),
    (lambda: ops.space_to_depth(X[0], 2), "needs a batch of images"),
]


@pytest.mark.parametrize(("call", "message"), ERRORS)
def test_errors_show_the_pattern(call, message):
    with pytest.raises(InvalidArgumentError, match=message):
        call()


@pytest.mark.parametrize("first", [False, True])
def test_space_and_depth_in_models_of_images_of_any_size(first, rng, tmp_path):
    format_ = "channels_first" if first else "channels_last"
    shape = (8, None, None) if first else (None, None, 8)
    i = tk.keras.Input(shape)
    y = tk.ops.depth_to_space(i, 2, data_format=format_)
    model = tk.keras.Model(i, [y, tk.ops.space_to_depth(y, 2, data_format=format_)])
    assert y.shape == ((None, 2, None, None) if first else (None, None, None, 2))
    model.save(tmp_path / "model.keras")
    model = tk.keras.models.load_model(tmp_path / "model.keras")
    for height, width in ((2, 3), (5, 1)):
        sizes = (2, 8, height, width) if first else (2, height, width, 8)
        x = rng.normal(size=sizes).astype("float32")
        large, back = model.predict(x, verbose=0)
        np.testing.assert_array_equal(large, tk.ops.depth_to_space(x, 2, data_format=format_))
        np.testing.assert_array_equal(back, x)


def test_rearrange_of_symbols_that_lack_more_than_one_size(rng):
    i = tk.keras.Input((None, None, 6))
    y = tk.ops.rearrange(i, "b h w (c d) -> b (h w) d c", d=3)
    assert y.shape == (None, None, 3, 2)
    x = rng.normal(size=(2, 3, 4, 6)).astype("float32")
    expected = x.reshape(2, 12, 2, 3).swapaxes(2, 3)
    np.testing.assert_array_equal(tk.keras.Model(i, y)(x), expected)
