"""What is done around cuDNN's calls with real CuPy: copies, masks, workspaces, captures.

cuDNN itself would ask for a GPU; in its place is the stand-in's frontend, which executes nothing
here.
"""

import numpy as np
import pytest

from tests.null_driver.counting import counted
from tests.stand_in import cudnn

DTYPES = ("float32", "float16", "bfloat16")


@pytest.fixture
def executed(monkeypatch, tmp_path):
    """cuDNN is there; gives the names of the nodes that each call executes."""
    from trainkit.kernels.cudnn import deferred, frontend, plans

    found = []

    def execute(self, addresses, workspace, handle):
        import cupy

        assert handle.stream == cupy.cuda.get_current_stream().ptr
        assert workspace
        assert all(addresses.values())
        found.append([node.name for node in self.nodes])

    monkeypatch.setenv("TRAINKIT_CACHE", str(tmp_path))
    monkeypatch.setattr(frontend, "_import_frontend", lambda: (cudnn, ""))
    monkeypatch.setattr(cudnn.pygraph, "execute", execute)
    before = deferred.mode()
    deferred.set_mode("heuristic")
    cudnn.STATE.reset()
    yield found
    deferred.set_mode(before)
    plans.clear()
    frontend._THREAD.by_device.clear()


def conv_step(dtype):
    import trainkit as tk

    x = tk.cast(tk.ones((2, 8, 8, 4)), dtype)
    kernel = tk.Variable(tk.cast(tk.ones((3, 3, 4, 6)), dtype))
    bias = tk.Variable(tk.cast(tk.zeros((6,)), dtype))

    def step(x):
        with tk.GradientTape() as tape:
            tape.watch(x)
            y = tk.ops.conv_with_bias(x, kernel, bias, 2, "same", activation="relu")
        return tape.gradient(y, [x, kernel, bias])

    return step, x


def attention_step(dtype):
    import trainkit as tk

    x = tk.cast(tk.ones((2, 8, 4, 16)), dtype)
    mask = tk.constant(np.ones((2, 1, 1, 8), bool))

    def step(x):
        with tk.GradientTape() as tape:
            tape.watch(x)
            y = tk.ops.dot_product_attention(x, x * 2, x * 3, mask=mask)
        return tape.gradient(y, x)

    return step, x


def norm_step(over_batch):
    """A step with kernels of cuDNN wherever it can, and with moments that are made again."""
    from trainkit.kernels.cudnn import deferred
    from trainkit.ops.neural.fused_normalization import fused_normalization

    def made(dtype):
        import trainkit as tk

        deferred.set_mode("force")
        x = tk.cast(tk.ones((2, 8, 8, 6)), dtype)
        scale = tk.Variable(tk.cast(tk.ones((6,)), "float32" if over_batch else dtype))

        def step(x):
            with tk.GradientTape() as tape:
                tape.watch(x)
                y = fused_normalization(
                    x, scale, scale, axis=(3,), epsilon=1e-3, over_batch=over_batch
                )
            return tape.gradient(y[0] if over_batch else y, [x, scale])

        return step, x

    return made


def rms_step(dtype):
    import trainkit as tk
    from trainkit.kernels.cudnn import deferred
    from trainkit.ops.neural.standardization import standardized

    deferred.set_mode("force")
    x = tk.cast(tk.ones((2, 8, 6)), dtype)

    def step(x):
        with tk.GradientTape() as tape:
            tape.watch(x)
            y = standardized(x, axis=(2,), epsilon=1e-3, centred=False)
        return tape.gradient(y, x)

    return step, x


STEPS = {
    "batches": (norm_step(True), DTYPES, ["batchnorm", "batchnorm_backward"]),
    "layers": (norm_step(False), DTYPES, ["layernorm", "layernorm_backward"]),
    "root mean squares": (rms_step, DTYPES, ["rmsnorm", "rmsnorm_backward"]),
    "convolution": (conv_step, DTYPES, ["conv_fprop", "conv_dgrad", "conv_wgrad"]),
    "attention": (attention_step, DTYPES[1:], ["sdpa", "sdpa", "sdpa_backward"]),
}
ROWS = [(name, dtype) for name, (_, dtypes, _) in STEPS.items() for dtype in dtypes]


@pytest.mark.parametrize(("name", "dtype"), ROWS)
def test_nothing_is_copied_or_waited_for_around_a_call(name, dtype, executed):
    from trainkit.kernels.cudnn import plans

    make, _, wanted = STEPS[name]
    step, x = make(dtype)
    step(x)
    assert [nodes[0] for nodes in executed] == wanted
    assert {request.facts[0] for request in plans._PLANS} == {dtype}
    with counted() as counts:
        step(x)
    assert (counts.to_device, counts.to_host, counts.waits) == (0, 0, 0)
    assert counts.library == 0  # no product of cuBLAS


@pytest.mark.parametrize("refused", [set(), {"uneven padding"}, {"relu"}])
def test_the_parts_of_a_convolution_that_cudnn_lacks(refused, executed):
    cudnn.STATE.refused = refused
    step, x = conv_step("bfloat16")
    for _ in range(2):
        step(x)
    assert {nodes[0] for nodes in executed} == {"conv_fprop", "conv_dgrad", "conv_wgrad"}


@pytest.mark.parametrize(("name", "dtype"), ROWS)
def test_a_step_becomes_a_graph(name, dtype, executed):
    import trainkit as tk

    make, _, wanted = STEPS[name]
    step, x = make(dtype)
    run = tk.function(step)
    for _ in range(5):
        run(x)
    assert "replays of 1 CUDA graph" in run.explain()
    assert len(executed) % len(wanted) == 0
    before = len(executed)
    run(x)
    assert len(executed) == before


def test_a_plan_in_a_capture_is_refused(executed):
    import cupy

    import trainkit as tk
    from trainkit.core.errors import UnimplementedError

    x, kernel = tk.ones((2, 9, 9, 4)), tk.ones((3, 3, 4, 3))
    tk.ops.conv(tk.ones((2, 8, 8, 4)), kernel)
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        stream.begin_capture()
        with pytest.raises(UnimplementedError, match="plan of cuDNN for describe_forward"):
            tk.ops.conv(x, kernel)
        stream.end_capture()


def test_a_choice_between_short_floats_stays_short():
    """CuPy's own `where` of bfloat16 is float32."""
    import trainkit as tk

    mask = tk.constant(np.ones((2, 1), bool))
    for dtype in DTYPES:
        x = tk.cast(tk.ones((2, 3)), dtype)
        with tk.GradientTape() as tape:
            tape.watch(x)
            y = tk.where(mask, x * 2, x)
        assert (y.dtype.name, tape.gradient(y, x).dtype.name) == (dtype, dtype)
