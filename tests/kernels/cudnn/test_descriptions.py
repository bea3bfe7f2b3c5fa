"""What cuDNN is told, by cuDNN itself where it is installed, and by the stand-in everywhere.

No GPU is needed: cuDNN checks a description, and works out sizes, before it looks for plans.
"""

import pytest

from tests.stand_in import cudnn as stand_in_cudnn
from trainkit.kernels.convolution.sliding_windows import placed
from trainkit.kernels.cudnn import attention_cudnn, conv_cudnn, norm_cudnn
from trainkit.kernels.cudnn.description import Description, channels_last, packed

HOPPER = 90


@pytest.fixture(params=["stand-in", "cudnn"])
def library(request):
    if request.param == "stand-in":
        return stand_in_cudnn
    return pytest.importorskip("cudnn", exc_type=ImportError)


class Inferring(Description):
    """Leaves sizes of results to the library."""

    def __init__(self, cudnn):
        super().__init__(cudnn, sm_version=HOPPER)
        self.results = {}

    def output(self, tensor, name, dims, strides, dtype):
        tensor.set_output(True).set_data_type(self.kind(dtype))
        tensor.set_uid(self._new_uid(name))
        self.results[name] = tensor, tuple(dims)


def described(library, describe, facts):
    made = Description(library, sm_version=HOPPER)
    describe(made, *facts)
    validated(made)
    return made


def validated(made):
    """Let the library look at it; frontends before 1.28 ask the GPU for some."""
    try:
        made.graph.validate()
    except RuntimeError as error:
        if "cuda_get_device" not in str(error):
            raise
        pytest.skip("this frontend asks the GPU")


def dims_of(tensor):
    return tuple(tensor.dim if hasattr(tensor, "dim") else tensor.get_dim())


WINDOWS = {
    "same": ((8, 6), (3, 3), (2, 2), "same", (1, 1)),
    "valid": ((9, 7), (2, 3), (1, 2), "valid", (1, 1)),
    "dilated": ((9, 9), (3, 3), (1, 1), "same", (2, 3)),
    "pairs": ((5, 6), (3, 2), (1, 1), ((2, 0), (0, 1)), (1, 1)),
    "one axis": ((11,), (4,), (3,), "same", (1,)),
    "three axes": ((5, 4, 6), (2, 3, 2), (1, 2, 1), "same", (1, 1, 1)),
}


def conv_facts(name, dtype, groups=1):
    w = placed(*WINDOWS[name])
    f = conv_cudnn._facts(w)
    x, kernel = (2, 8, *f.sizes), (16, 8 // groups, *f.window)
    return dtype, x, kernel, (2, 16, *f.out), f.given()


@pytest.mark.parametrize("groups", [1, 2, 8])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("name", WINDOWS)
def test_convolutions_and_their_gradients_are_valid(name, dtype, groups, library):
    facts = conv_facts(name, dtype, groups)
    for has_bias in (False, True):
        for rectify in (False, True):
            described(library, conv_cudnn.describe_forward, (*facts, has_bias, rectify))
    described(library, conv_cudnn.describe_input_gradient, facts)
    described(library, conv_cudnn.describe_kernel_gradient, facts)


@pytest.mark.parametrize("name", WINDOWS)
def test_cudnn_works_out_the_sizes_that_are_expected(name):
    library = pytest.importorskip("cudnn", exc_type=ImportError)
    made = Inferring(library)
    conv_cudnn.describe_forward(made, *conv_facts(name, "float16"), True, True)
    validated(made)
    tensor, dims = made.results["y"]
    assert dims_of(tensor) == dims


@pytest.mark.parametrize("name", WINDOWS)
def test_wrong_sizes_are_refused_by_the_stand_in(name):
    dtype, x, kernel, y, places = conv_facts(name, "float32")
    wrong = (*y[:-1], y[-1] + 1)
    for describe in (conv_cudnn.describe_input_gradient, conv_cudnn.describe_kernel_gradient):
        with pytest.raises(ValueError, match="by"):
            described(stand_in_cudnn, describe, (dtype, x, kernel, wrong, places))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("bias", [None, (1, 1, 16, 24), (2, 4, 16, 24), (2, 1, 16, 24)])
@pytest.mark.parametrize("key_heads", [4, 2, 1])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_attention_and_its_gradient_are_valid(dtype, key_heads, bias, causal, library):
    shapes = ((2, 16, 4, 64), (2, 24, key_heads, 64), (2, 24, key_heads, 64))
    facts = (dtype, shapes, bias, 0.125, causal)
    for last in (False, True):
        described(library, attention_cudnn.describe_forward, (*facts, last))
        described(library, attention_cudnn.describe_gradient, (*facts, last))


def test_cudnn_works_out_the_sizes_of_attention():
    library = pytest.importorskip("cudnn", exc_type=ImportError)
    shapes = ((2, 16, 4, 64), (2, 24, 2, 64), (2, 24, 2, 32))
    made = Inferring(library)
    attention_cudnn.describe_forward(made, "bfloat16", shapes, None, 0.125, True, True)
    validated(made)
    assert {name: dims_of(y) for name, (y, _) in made.results.items()} == {
        name: dims for name, (_, dims) in made.results.items()
    }


IMAGES = {"image": (2, 5, 6, 8), "odd": (3, 7, 7), "vectors": (9, 64), "volumes": (2, 3, 4, 5, 6)}


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("name", IMAGES)
def test_normalizations_and_their_gradients_are_valid(name, dtype, library):
    shape = IMAGES[name]
    dims = norm_cudnn._in_order(shape)
    described(library, norm_cudnn.describe_batch, (dtype, dims))
    described(library, norm_cudnn.describe_batch_gradient, (dtype, dims))
    size = (shape[0] * dims[2] * dims[3], shape[-1])
    for centred in (False, True):
        for vectors in ((), ("float32",)):
            described(library, norm_cudnn.describe_rows, (dtype, size, centred, *vectors))
            described(library, norm_cudnn.describe_rows_gradient, (dtype, size, centred, *vectors))


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_cudnn_works_out_the_sizes_of_normalizations(dtype):
    library = pytest.importorskip("cudnn", exc_type=ImportError)
    dims, size = (2, 7, 5, 6), (10, 7)
    for describe, facts in (
        (norm_cudnn.describe_batch, (dtype, dims)),
        (norm_cudnn.describe_batch_gradient, (dtype, dims)),
        (norm_cudnn.describe_rows, (dtype, size, True)),
        (norm_cudnn.describe_rows, (dtype, size, False)),
        (norm_cudnn.describe_rows_gradient, (dtype, size, True)),
        (norm_cudnn.describe_rows_gradient, (dtype, size, False)),
    ):
        made = Inferring(library)
        describe(made, *facts)
        validated(made)
        for name, (tensor, wanted) in made.results.items():
            assert dims_of(tensor) == wanted, (describe.__name__, name)


@pytest.mark.parametrize("name", ["scale", "mean", "factor", "g"])
def test_wrong_sizes_of_vectors_are_refused_by_the_stand_in(name):
    class Wrong(Description):
        def input(self, called, dims, strides, dtype):
            dims = (*dims[:-1], dims[-1] + 1) if called == name else dims
            return super().input(called, dims, strides, dtype)

    for describe, facts in (
        (norm_cudnn.describe_batch_gradient, ("float32", (2, 7, 5, 6))),
        (norm_cudnn.describe_rows_gradient, ("float32", (10, 7), True)),
    ):
        made = Wrong(stand_in_cudnn)
        describe(made, *facts)
        with pytest.raises(ValueError, match="for an input of"):
            made.graph.validate()


def test_strides():
    assert packed((2, 3, 4)) == (12, 4, 1)
    assert channels_last((2, 3, 4, 5)) == (60, 1, 15, 3)
    assert channels_last((2, 3, 4, 5, 6)) == (360, 1, 90, 18, 3)
