"""A function, layer or model of trainkit in a program of PyTorch."""

import copy
import threading
import weakref

import numpy as np
import pytest

import trainkit as tk

torch = pytest.importorskip("torch")


def leaf(*values, **options):
    return torch.tensor(values, requires_grad=True, **options)


def test_gradients_are_those_of_pytorch_through_nests_and_keywords():
    def fn(x, scale):
        return {"y": tk.exp(x["a"]) * scale, "none": None, "rest": (tk.argmax(x["a"]), "text", 3)}

    x, scale = leaf(0.1, 0.7, 0.3), leaf(2.0, 3.0, 4.0)
    result = tk.interop.torch_function(fn)({"a": x}, scale=scale)
    assert result["none"] is None
    assert result["rest"][1:] == ("text", 3)
    assert int(result["rest"][0]) == 1
    assert not result["rest"][0].requires_grad
    result["y"].sum().backward()
    grads = [x.grad, scale.grad]
    x.grad = scale.grad = None
    (torch.exp(x) * scale).sum().backward()
    for got, expected in zip(grads, (x.grad, scale.grad), strict=True):
        torch.testing.assert_close(got, expected)


def test_a_training_loop_equals_the_one_in_pytorch_alone():
    torch.manual_seed(0)
    mixed = torch.nn.Linear(5, 4)
    pure = copy.deepcopy(mixed)
    smooth = tk.interop.torch_function(lambda x: tk.tanh(x) ** 2)
    x = torch.randn(16, 5)
    for linear, fn in ((mixed, smooth), (pure, lambda x: torch.tanh(x) ** 2)):
        optimizer = torch.optim.SGD(linear.parameters(), 0.5)
        for _ in range(20):
            optimizer.zero_grad()
            loss = (fn(linear(x)) - 0.3).square().mean()
            loss.backward()
            optimizer.step()
    torch.testing.assert_close(mixed.weight, pure.weight, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64]
)
def test_dtypes_stay(dtype):
    x = torch.tensor([1.0, 2.0], dtype=dtype, requires_grad=True)
    y = tk.interop.torch_function(lambda x: x * x)(x)
    assert y.dtype == dtype
    y.abs().sum().backward()
    got, x.grad = x.grad, None
    (x * x).abs().sum().backward()
    assert got.dtype == dtype
    torch.testing.assert_close(got, x.grad)


@pytest.mark.parametrize("dtype", [torch.bool, torch.int8, torch.uint8, torch.int32, torch.int64])
def test_other_dtypes_go_along_without_gradients(dtype):
    x, k = leaf(1.0, 2.0), torch.tensor([1, 0], dtype=dtype)
    y, same = tk.interop.torch_function(lambda x, k: (x * tk.cast(k, "float32"), k))(x, k)
    assert same.dtype == dtype
    assert not same.requires_grad
    y.sum().backward()
    assert x.grad.tolist() == [1.0, 0.0]


def test_layouts_without_elements_and_axes():
    double = tk.interop.torch_function(lambda x: 2.0 * x)
    base = torch.arange(6.0).reshape(2, 3)
    torch.testing.assert_close(double(base.T), 2 * base.T)
    torch.testing.assert_close(double(base[:, ::2]), 2 * base[:, ::2])
    torch.testing.assert_close(double(torch.ones(1).expand(4)), torch.full((4,), 2.0))
    assert double(torch.zeros(0, 3)).shape == (0, 3)
    x = torch.tensor(3.0, requires_grad=True)
    double(x).backward()
    assert x.grad.shape == ()
    assert float(x.grad) == 2.0


def test_contiguous_arguments_are_lent_and_results_handed_over():
    seen = []

    def fn(x):
        seen.append(np.asarray(x).ctypes.data)
        y = x + 1.0
        seen.append(np.asarray(y).ctypes.data)
        return y

    x = torch.ones(1000)
    y = tk.interop.torch_function(fn)(x)
    assert seen == [x.data_ptr(), y.data_ptr()]


def test_writes_to_results_reach_nothing_of_trainkit():
    kept, state = [], tk.Variable([1.0, 2.0], trainable=False)

    def fn(x):
        kept.append(x * 3.0)
        return x, kept[0], state

    x = torch.ones(2)
    for y in tk.interop.torch_function(fn)(x):
        y.zero_()
    assert x.tolist() == [1.0, 1.0]
    assert kept[0].numpy().tolist() == [3.0, 3.0]
    assert state.numpy().tolist() == [1.0, 2.0]
    x = leaf(1.0, 2.0)
    y = tk.interop.torch_function(tk.exp)(x)
    with torch.no_grad():
        y.zero_()
    y.sum().backward()
    torch.testing.assert_close(x.grad, torch.exp(x.detach()))


def test_one_tensor_returned_twice_is_two():
    def fn(x):
        y = x * 2.0
        return y, y

    a, b = tk.interop.torch_function(fn)(torch.ones(2))
    a.zero_()
    assert b.tolist() == [2.0, 2.0]


def test_gradients_of_two_arguments_share_no_memory():
    a, b = leaf(1.0, 2.0), leaf(3.0, 4.0)
    upstream = torch.ones(2)
    tk.interop.torch_function(lambda a, b: a + b)(a, b).backward(upstream)
    a.grad.zero_()
    assert b.grad.tolist() == [1.0, 1.0]
    assert upstream.tolist() == [1.0, 1.0]


def test_an_argument_that_was_written_to_ends_backward():
    x = leaf(1.0, 2.0) * 1.0
    y = tk.interop.torch_function(tk.exp)(x)
    x.add_(1.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_nothing_is_recorded_without_need():
    fn = tk.interop.torch_function(lambda x: x * 2.0)
    assert not fn(torch.ones(2)).requires_grad
    with torch.no_grad():
        assert not fn(leaf(1.0)).requires_grad


def test_arguments_with_and_without_gradient():
    a, b, c = leaf(2.0), torch.tensor([3.0]), leaf(5.0)
    tk.interop.torch_function(lambda a, b, c: (a * b, tk.stop_gradient(c)))(a, b, c)[0].backward()
    assert float(a.grad) == 3.0
    assert b.grad is None
    assert c.grad is None


def test_two_calls_two_backwards_and_a_second_thread():
    square = tk.interop.torch_function(lambda x: x * x)
    x = leaf(3.0)
    first, second = square(x), square(square(x))
    first.backward(retain_graph=True)
    first.backward()
    assert float(x.grad) == 12.0
    x.grad = None
    thread = threading.Thread(target=second.backward)
    thread.start()
    thread.join()
    assert float(x.grad) == 108.0
    with pytest.raises(RuntimeError, match="second time"):
        second.backward()


def test_a_tape_around_it_hears_nothing():
    v = tk.Variable(2.0, trainable=False)
    with tk.GradientTape() as tape:
        tk.interop.torch_function(lambda x: x * v)(leaf(3.0)).backward()
    assert not tape.entries


def test_second_derivatives_are_refused():
    x = leaf(3.0)
    y = tk.interop.torch_function(lambda x: x * x)(x)
    with pytest.raises(RuntimeError, match="create_graph=True asks for a gradient"):
        torch.autograd.grad(y, x, create_graph=True)


def test_variables_that_pytorch_would_not_see_are_refused():
    weight = tk.Variable(2.0, name="weight")
    fn = tk.interop.torch_function(lambda x: x * weight)
    with pytest.raises(ValueError, match=r"trainable variables \['weight:0'\]"):
        fn(leaf(1.0))
    assert fn(torch.ones(1)).tolist() == [2.0]
    weight.trainable = False
    assert fn(leaf(1.0)).tolist() == [2.0]


def test_what_can_not_go_over_is_refused_in_words():
    fn = tk.interop.torch_function(lambda x: x)
    with pytest.raises(tk.errors.DeviceError, match=r"device 'meta'.*x\.cpu\(\)"):
        fn(torch.ones(2, device="meta"))
    with pytest.raises(tk.errors.InvalidArgumentError, match=r"to_dense"):
        fn(torch.eye(2).to_sparse())
    with pytest.raises(
        tk.errors.InvalidArgumentError, match=r"torch\.float8_e4m3fn, which trainkit"
    ):
        fn(torch.ones(2).to(torch.float8_e4m3fn))
    with pytest.raises(tk.errors.InvalidArgumentError, match=r"dtype string, which PyTorch"):
        tk.interop.torch_function(lambda x: tk.constant(["a"]))(torch.ones(1))
    with pytest.raises(TypeError, match="give a function, layer or model, got 3"):
        tk.interop.torch_function(3)


def test_while_a_graph_is_traced():
    square = tk.interop.torch_function(lambda x: x * x)

    @tk.function
    def fn(y):
        return y + float(square(torch.tensor(3.0)))

    assert float(fn(tk.constant(1.0))) == 10.0


def test_gradients_of_rows():
    table = leaf([1.0, 2.0], [3.0, 4.0])
    tk.interop.torch_function(lambda t: tk.gather(t, [1, 1]))(table).sum().backward()
    assert table.grad.tolist() == [[0.0, 0.0], [2.0, 2.0]]


def model():
    tk.random.set_seed(1)
    return tk.Sequential(
        [tk.Input((3,)), tk.layers.Dense(4), tk.layers.BatchNormalization(), tk.layers.Dense(1)]
    )


def test_a_model_is_a_module_and_trains_as_with_a_tape():
    mine, theirs = model(), model()
    module = tk.interop.torch_function(theirs)
    assert len(list(module.parameters())) == len(mine.trainable_variables)
    assert len(list(module.buffers())) == len(mine.non_trainable_variables)
    optimizers = tk.optimizers.SGD(0.1), torch.optim.SGD(module.parameters(), 0.1)
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(8, 3)).astype("float32"), rng.normal(size=(8, 1)).astype("float32")
    for _ in range(5):
        with tk.GradientTape() as tape:
            loss = tk.reduce_mean((mine(x, training=True) - y) ** 2)
        grads = tape.gradient(loss, mine.trainable_variables)
        optimizers[0].apply_gradients(zip(grads, mine.trainable_variables, strict=True))
        optimizers[1].zero_grad()
        (module(torch.tensor(x)) - torch.tensor(y)).square().mean().backward()
        optimizers[1].step()
    module.eval()
    expected = mine(x, training=False).numpy()
    np.testing.assert_allclose(module(torch.tensor(x)).detach().numpy(), expected, atol=1e-5)
    for a, b in zip(mine.weights, theirs.weights, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), atol=1e-5)
    assert any(np.ptp(b.numpy()) > 0 for b in module.buffers())


def value(module):
    return float(module(torch.ones(1, 2)).detach())


def test_both_sides_may_change_the_values_but_not_at_once():
    layer = tk.layers.Dense(1, kernel_initializer="ones")
    layer.build((None, 2))
    module = tk.interop.torch_function(layer)
    kernel = next(module.parameters())
    state = {name: 2 * value for name, value in module.state_dict().items()}
    module.load_state_dict(state)
    assert value(module) == 4.0
    layer.set_weights([3 * np.ones((2, 1)), np.ones(1)])
    assert value(module) == 7.0
    assert kernel.tolist() == [[3.0], [3.0]]
    kernel.data.fill_(5.0)
    assert value(module) == 11.0
    layer.set_weights([np.ones((2, 1)), np.ones(1)])
    with torch.no_grad():
        kernel.add_(1.0)
    with pytest.raises(RuntimeError, match="changed both in PyTorch and in trainkit"):
        module(torch.ones(1, 2))


def test_a_layer_that_keeps_its_argument_has_a_copy():
    class Last(tk.layers.Layer):
        def build(self, input_shape):
            self.last = self.add_weight((2,), trainable=False, initializer="zeros")

        def call(self, x):
            self.last.assign(x)
            return x + 1.0

    layer = Last()
    layer.build((2,))
    held = layer.last.value()  # the variable is not alone, so it takes the array as it is
    x = torch.ones(2)
    tk.interop.torch_function(layer)(x)
    x.zero_()
    assert layer.last.numpy().tolist() == [1.0, 1.0]
    assert held.numpy().tolist() == [0.0, 0.0]


def test_modules_are_copied_and_refuse_what_does_not_fit():
    layer = tk.layers.Dense(1)
    with pytest.raises(ValueError, match="not built"):
        tk.interop.torch_function(layer)
    layer.build((None, 2))
    module = tk.interop.torch_function(layer)
    twin = copy.deepcopy(module)
    with torch.no_grad():
        next(twin.parameters()).zero_()
    assert value(twin) == 0.0
    assert value(module) != 0.0
    module.double()
    with pytest.raises(tk.errors.InvalidArgumentError, match=r"float64 \(2, 1\) in PyTorch"):
        module(torch.ones(1, 2))


def test_the_mode_of_the_module_is_training():
    module = tk.interop.torch_function(built_dropout())
    assert (module(torch.ones(100)) == 0).any()
    assert (module(torch.ones(100), training=False) == 1).all()
    assert (module.eval()(torch.ones(100)) == 1).all()


def built_dropout():
    layer = tk.layers.Dropout(0.5)
    layer.build((100,))
    return layer


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")  # of PyTorch's own access
def test_compiled_programs_leave_the_call_out():
    fn = tk.interop.torch_function(lambda x: x * 3.0)
    x = leaf(1.0, 2.0)
    y = torch.compile(lambda x: fn(x + 1.0) * 2.0, backend="eager")(x)
    assert y.tolist() == [12.0, 18.0]
    y.sum().backward()
    assert x.grad.tolist() == [6.0, 6.0]
    with pytest.raises(torch._dynamo.exc.Unsupported, match="disable"):
        torch.compile(lambda x: fn(x) * 2.0, backend="eager", fullgraph=True)(x)


def test_large_arguments_fit_compiled_kernels():
    x = torch.ones(1_000_000, requires_grad=True)
    y = tk.interop.torch_function(lambda x: tk.reduce_sum(tk.cumsum(x)[-1:]) + tk.reduce_sum(x))(x)
    y.backward()
    assert float(y.detach()) == 2e6
    assert (x.grad == 2.0).all()


def test_transforms_of_functions_are_refused_by_pytorch():
    fn = tk.interop.torch_function(tk.exp)
    with pytest.raises(RuntimeError, match="functorch transforms"):
        torch.func.grad(lambda x: fn(x).sum())(torch.ones(3))


def test_pytorch_checks_the_gradients():
    def fn(x, y):
        return tk.sin(x) * y, tk.reduce_sum(y**2)

    inputs = (leaf(0.1, 0.2, dtype=torch.float64), leaf(1.0, 2.0, dtype=torch.float64))
    assert torch.autograd.gradcheck(tk.interop.torch_function(fn), inputs)


def test_the_record_ends_with_the_result():
    x = leaf(1.0)
    y = tk.interop.torch_function(tk.exp)(x)
    tape = weakref.ref(y.grad_fn.tape)
    del y
    assert tape() is None


def test_results_without_tensors():
    assert tk.interop.torch_function(lambda x: None)(leaf(1.0)) is None
    assert tk.interop.torch_function(lambda x: 3)(leaf(1.0)) == 3
    assert tk.interop.torch_function(lambda: tk.ones(2))().tolist() == [1.0, 1.0]


def test_a_traced_function_of_trainkit():
    x = leaf(0.0, 1.0)
    tk.interop.torch_function(tk.function(lambda x: 2.0 * tk.exp(x)))(x).sum().backward()
    torch.testing.assert_close(x.grad, 2 * torch.exp(x.detach()))


def test_results_of_graphs_are_pytorchs_own_in_each_run():
    @tk.function
    def fn(x):
        return tk.exp(x) * 2.0, tk.ones(5), tk.constant([1.0, 2.0]), tk.reshape(x * 2.0, (-1,))

    run, before = tk.interop.torch_function(fn), []
    for i in range(20):
        x = torch.full((1000,), float(i % 3))
        results = run(x)
        torch.testing.assert_close(results[0], 2 * torch.exp(x))
        assert (results[1] == 1).all()
        assert results[2].tolist() == [1.0, 2.0]
        assert (results[3] == 2 * x).all()
        assert all((y == -7).all() for y in before)
        for y in results:
            y.fill_(-7)
        before = results
