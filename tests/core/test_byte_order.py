"""Arrays of the other byte order, as IDX, FITS and network formats have them."""

import numpy as np
import pytest

import trainkit as tk
from trainkit import ops
from trainkit.checkpoints.interop.safetensors import SafetensorsFile, write_safetensors

SWAPPED = {
    kind: np.arange(6).reshape(2, 3).astype(np.dtype(kind).newbyteorder())
    for kind in ("float16", "float32", "float64", "int16", "int32", "int64", "uint32", "complex64")
}


@pytest.mark.parametrize("kind", SWAPPED)
@pytest.mark.parametrize(
    "take",
    [
        tk.constant,
        ops.convert_to_tensor,
        tk.Variable,
        lambda x: tk.Variable(np.zeros(x.shape, x.dtype.newbyteorder("="))).assign(x),
        lambda x: tk.function(lambda y: y + 0)(x),
        lambda x: next(iter(tk.data.Dataset.from_tensor_slices(x[None]))),
        lambda x: tk.add(tk.zeros_like(tk.constant(x)), x),
        lambda x: tk.constant(x.astype(x.dtype.newbyteorder("=")) * 0) + x,
        lambda x: tk.stack([x[0], x[1]]),
    ],
)
def test_a_tensor_has_the_values_in_the_order_of_this_machine(take, kind):
    x = SWAPPED[kind]
    y = take(x)
    assert y.dtype == kind
    assert y.numpy().dtype.isnative
    np.testing.assert_array_equal(y.numpy(), x)


def test_dtypes_are_known_by_their_swapped_twins():
    assert tk.as_dtype(np.dtype(">f4")) == tk.float32
    assert tk.zeros([2], np.dtype(">i8")).dtype == tk.int64
    assert tk.TensorSpec([2], np.dtype(">f2")).dtype == tk.float16


@pytest.mark.parametrize("kind", ["longdouble", "clongdouble", "datetime64[s]"])
def test_what_no_tensor_has_is_named(kind):
    with pytest.raises(TypeError, match="is not an element type"):
        tk.constant(np.zeros(2, kind))


def test_models_train_and_predict_on_them():
    x, y = SWAPPED["float32"], SWAPPED["float64"][:, :1]
    results = []
    for data in ((x, y), (x.astype("float32"), y.astype("float64"))):
        tk.random.set_seed(1)
        model = tk.Sequential([tk.Input((3,)), tk.layers.Dense(1)])
        model.compile("sgd", "mse")
        model.fit(*data, epochs=2, verbose=0)
        model.fit(iter([data] * 3), steps_per_epoch=2, verbose=0)
        model.set_weights([w.astype(w.dtype.newbyteorder()) for w in model.get_weights()])
        results.append(model.predict(data[0], verbose=0))
    np.testing.assert_array_equal(*results)


def test_safetensors_are_little_endian_whatever_is_given(tmp_path):
    write_safetensors(tmp_path / "a.safetensors", SWAPPED | {"complex64": SWAPPED["int16"]})
    with SafetensorsFile(tmp_path / "a.safetensors") as file:
        np.testing.assert_array_equal(file.read("float32"), SWAPPED["float32"])
