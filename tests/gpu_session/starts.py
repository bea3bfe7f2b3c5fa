"""Does it start? One line for each thing that a training step needs, in three dtypes.

python -m tests.gpu_session.starts [--on stand-in | --on null-driver]
"""

import numpy as np

from tests.gpu_session import session

DTYPES = ("float32", "float16", "bfloat16")


def _random(*shape, dtype="float32"):
    import trainkit as tk

    values = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    return tk.cast(tk.constant(values), dtype)


def _apart(y, wanted):
    """The largest difference, as a share of the largest value."""
    import trainkit as tk

    found = tk.cast(y, "float64").numpy()
    return float(np.abs(found - wanted).max() / max(np.abs(wanted).max(), 1e-30))


BOUND = {"float32": 1e-5, "float16": 1e-2, "bfloat16": 5e-2}


def products(options, dtype, axes):
    import trainkit as tk

    a, b = _random(*(3,) * (axes - 2), 64, 48, dtype=dtype), _random(48, 32, dtype=dtype)
    b = b if axes == 2 else tk.stack([b] * 3)
    wide = [tk.cast(x, "float64").numpy() for x in (a, b)]
    off = _apart(tk.matmul(a, b), wide[0] @ wide[1])
    return off < BOUND[dtype], f"off by {off:.1e}"


def _on_cpu(function, *tensors):
    """The values of `function` on the CPU, in float64."""
    import trainkit as tk

    with tk.device("/cpu:0"):
        wide = [tk.cast(x.cpu(), "float64") for x in tensors]
        return [tk.cast(y, "float64").numpy() for y in function(*wide)]


def convolution(options, dtype):
    import trainkit as tk

    def run(x, kernel):
        with tk.GradientTape() as tape:
            tape.watch([x, kernel])
            y = tk.ops.conv(x, kernel, strides=2, padding="same")
            loss = tk.reduce_sum(y * y)
        return [y, *tape.gradient(loss, [x, kernel])]

    x, kernel = _random(4, 16, 16, 8, dtype=dtype), _random(3, 3, 8, 16, dtype=dtype)
    found = run(x, kernel)
    off = max(_apart(y, z) for y, z in zip(found, _on_cpu(run, x, kernel), strict=True))
    return off < BOUND[dtype], f"off by {off:.1e}"


def attention(options, dtype):
    import trainkit as tk

    def run(q, k):
        with tk.GradientTape() as tape:
            tape.watch([q, k])
            y = tk.ops.dot_product_attention(q, k, k, is_causal=True)
            loss = tk.reduce_sum(y * y)
        return [y, *tape.gradient(loss, [q, k])]

    q, k = _random(2, 32, 4, 64, dtype=dtype), _random(2, 32, 4, 64, dtype=dtype) * 0.5
    off = max(_apart(y, z) for y, z in zip(run(q, k), _on_cpu(run, q, k), strict=True))
    return off < BOUND[dtype], f"off by {off:.1e}"


def normalization(options, dtype, mode):
    """Of batches, layers and by root mean squares, by own kernels or by those of cuDNN."""
    import trainkit as tk
    from trainkit.kernels.cudnn import deferred
    from trainkit.ops.neural.standardization import standardized

    def run(x, scale):
        with tk.GradientTape() as tape:
            tape.watch([x, scale])
            one, mean, variance = tk.ops.fused_batch_normalization(x, scale, scale)
            parts = [
                one,
                tk.ops.layer_normalization(x, tk.cast(scale, x.dtype), tk.cast(scale, x.dtype)),
                standardized(x, axis=(3,), epsilon=1e-3, centred=False),
            ]
            loss = sum(tk.reduce_sum(tk.cast(y, "float32") ** 3) for y in parts)
        return [*parts, mean, variance, *tape.gradient(loss, [x, scale])]

    x, scale = _random(4, 16, 16, 64, dtype=dtype) + 1, _random(64)
    before = deferred.mode()
    deferred.set_mode(mode)
    try:
        found = run(x, scale)
    finally:
        deferred.set_mode(before)
    off = max(_apart(y, z) for y, z in zip(found, _on_cpu(run, x, scale), strict=True))
    return off < 2 * BOUND[dtype], f"off by {off:.1e}"


def cross_entropy(options, dtype):
    import trainkit as tk

    def run(x):
        labels = tk.constant(np.arange(8) % 5)
        with tk.GradientTape() as tape:
            tape.watch(x)
            y = tk.losses.SparseCategoricalCrossentropy(from_logits=True)(labels, x)
        return [y, tape.gradient(y, x)]

    x = _random(8, 5, dtype=dtype)
    off = max(_apart(y, z) for y, z in zip(run(x), _on_cpu(run, x), strict=True))
    return off < BOUND[dtype], f"off by {off:.1e}"


def dropout(options, dtype):
    import trainkit as tk

    x = tk.cast(tk.ones((64, 64)), dtype)
    here = tk.cast(tk.random.dropout(x, 0.5, seed=7), "float32").numpy()
    with tk.device("/cpu:0"):
        there = tk.cast(tk.random.dropout(x.cpu(), 0.5, seed=7), "float32").numpy()
    kept, same = float((here != 0).mean()), bool((here == there).all())
    return same, f"kept {kept:.2f}, {'' if same else 'NOT '}the bits of the CPU"


def _step(dtype, compiled):
    import trainkit as tk

    policy = dtype if dtype == "float32" else f"mixed_{dtype}"
    tk.random.set_seed(1)
    layers = tk.layers
    model = tk.Sequential(
        [
            layers.Conv2D(8, 3, activation="relu", dtype=policy),
            layers.BatchNormalization(dtype=policy),
            layers.Reshape((36, 8), dtype=policy),
            layers.LSTM(8, dtype=policy),
            layers.Dropout(0.2, dtype=policy),
            layers.Dense(3),
        ]
    )
    rule = tk.optimizers.Adam(1e-3)
    loss_of = tk.losses.SparseCategoricalCrossentropy(from_logits=True)

    def step(x, y):
        with tk.GradientTape() as tape:
            loss = loss_of(y, model(x, training=True))
        weights = model.trainable_variables
        rule.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        return loss

    return tk.function(step) if compiled else step


def adam(options, dtype, compiled):
    import trainkit as tk

    step, x, y = _step(dtype, compiled), _random(6, 8, 8, 2), tk.constant(np.arange(6) % 3)
    losses = [float(step(x, y)) for _ in range(8)]
    text = f"loss {losses[0]:.4f} to {losses[-1]:.4f}"
    if not compiled:
        return bool(np.isfinite(losses).all()), text
    how = next(line.strip() for line in step.explain().splitlines() if "GPU" in line)
    return "replays of 1 CUDA graph" in how, f"{text}; {how}"


def full_precision(options):

    n = 64 if options.small else 1024
    a = _random(n, n)
    wide = a.numpy().astype(np.float64)
    off = float(np.abs((a @ a).numpy() - wide @ wide).max() / np.sqrt(n))
    return off < 1e-4, f"a product of float32 is off by {off:.1e} of its spread: " + (
        "no TF32" if off < 1e-4 else "TF32 is on"
    )


def subnormal(options):
    import trainkit as tk

    y = float((tk.constant(np.float32(1e-40)) * tk.constant(np.float32(1.0))).numpy())
    return f"1e-40 * 1 is {y:g}"


def cudnn(options):
    from trainkit.kernels.cudnn import deferred

    if not deferred.is_there():
        return options.on == "null-driver", "not here: convolutions go by plain products"
    from trainkit.kernels.cudnn import frontend, plans

    refused = [f"{what.split(' ')[0]}: {why}" for what, why in plans.refused().items()]
    library = frontend.frontend()
    text = f"{library.backend_version()} by {library.__version__}, {plans.count()} plans"
    return plans.count() > 0, "; ".join([text, *refused])


def checks():
    found = {"full float32": full_precision, "subnormal numbers": subnormal}
    for dtype in DTYPES:
        for axes in (2, 3):
            found[f"product of {axes} axes, {dtype}"] = lambda o, d=dtype, a=axes: products(o, d, a)
        found[f"convolution and gradients, {dtype}"] = lambda o, d=dtype: convolution(o, d)
        found[f"attention and gradients, {dtype}"] = lambda o, d=dtype: attention(o, d)
        for kind, mode in (("own", "off"), ("cuDNN's", "force")):
            found[f"normalization and gradients, {kind}, {dtype}"] = lambda o, d=dtype, m=mode: (
                normalization(o, d, m)
            )
        found[f"softmax cross-entropy, {dtype}"] = lambda o, d=dtype: cross_entropy(o, d)
        found[f"dropout, {dtype}"] = lambda o, d=dtype: dropout(o, d)
        found[f"eager steps, {dtype}"] = lambda o, d=dtype: adam(o, d, False)
        found[f"compiled steps, {dtype}"] = lambda o, d=dtype: adam(o, d, True)
    found["cuDNN"] = cudnn
    return found


if __name__ == "__main__":
    session.main("starts", __doc__, checks())
