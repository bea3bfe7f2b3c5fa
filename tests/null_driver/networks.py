"""Five small networks, a batch for each, and the training step whose launches are counted."""

import numpy as np

import trainkit as tk

LAYERS = tk.layers
BATCH = 16


def mlp():
    return tk.Sequential(
        [
            LAYERS.Dense(64, activation="relu"),
            LAYERS.Dropout(0.5),
            LAYERS.Dense(10, dtype="float32"),
        ]
    )


def cnn():
    return tk.Sequential(
        [
            LAYERS.Conv2D(8, 3, activation="relu"),
            LAYERS.MaxPooling2D(2),
            LAYERS.Conv2D(16, 3, activation="relu"),
            LAYERS.MaxPooling2D(2),
            LAYERS.Flatten(),
            LAYERS.Dense(10, dtype="float32"),
        ]
    )


def transformer():
    x = inputs = tk.Input((12,), dtype="int32")
    x = LAYERS.Embedding(50, 32)(x)
    y = LAYERS.MultiHeadAttention(4, 8)(x, x)
    x = LAYERS.LayerNormalization()(x + y)
    y = LAYERS.Dense(32)(LAYERS.Dense(64, activation="gelu")(x))
    x = LAYERS.LayerNormalization()(x + y)
    x = LAYERS.GlobalAveragePooling1D()(x)
    return tk.Model(inputs, LAYERS.Dense(10, dtype="float32")(x))


def recurrent():
    return tk.Sequential(
        [LAYERS.LSTM(24, return_sequences=True), LAYERS.GRU(16), LAYERS.Dense(10, dtype="float32")]
    )


def resnet():
    """ResNet-18 as it is for images of 32 by 32."""

    def convolved(x, filters, size, strides=1):
        x = LAYERS.Conv2D(filters, size, strides, padding="same", use_bias=False)(x)
        return LAYERS.BatchNormalization()(x)

    x = inputs = tk.Input((32, 32, 3))
    x = LAYERS.ReLU()(convolved(x, 8, 3))
    for filters, strides in ((8, 1), (8, 1), (16, 2), (16, 1), (32, 2), (32, 1), (64, 2), (64, 1)):
        y = LAYERS.ReLU()(convolved(x, filters, 3, strides))
        y = convolved(y, filters, 3)
        if strides > 1:
            x = convolved(x, filters, 1, strides)
        x = LAYERS.ReLU()(x + y)
    x = LAYERS.GlobalAveragePooling2D()(x)
    return tk.Model(inputs, LAYERS.Dense(10, dtype="float32")(x))


NETWORKS = {made.__name__: made for made in (mlp, cnn, transformer, recurrent, resnet)}
SHAPES = {
    "mlp": (20,),
    "cnn": (16, 16, 1),
    "transformer": (12,),
    "recurrent": (12, 8),
    "resnet": (32, 32, 3),
}


def batch(name):
    """Inputs and labels for a network, on the GPU."""
    rng = np.random.default_rng(0)
    shape = (BATCH, *SHAPES[name])
    if name == "transformer":
        x = rng.integers(50, size=shape).astype("int32")
    else:
        x = rng.normal(size=shape).astype("float32")
    return tk.constant(x), tk.constant(np.arange(BATCH, dtype="int32") % 10)


class Finite(tk.optimizers.LossScaleOptimizer):
    """Looks whether gradients are finite, and finds that they are, which no kernel says here."""

    def __init__(self, *given):
        super().__init__(*given)
        self._yes = tk.constant([True, True])[0]

    def check_finite(self, grads):
        super().check_finite(grads)
        return self._yes


def training_step(name, policy, captured):
    """A step of training with Adam, eager or compiled, as a function of a batch.

    Args:
        name: of the network.
        policy: the dtype policy of its layers.
        captured: whether it is compiled, so that a CUDA graph is captured of it.
    """
    before = tk.keras.mixed_precision.global_policy()
    tk.keras.mixed_precision.set_global_policy(policy)
    try:
        model = NETWORKS[name]()
    finally:
        tk.keras.mixed_precision.set_global_policy(before)
    rule = tk.optimizers.Adam(1e-3)
    if policy == "mixed_float16":
        rule = tk.optimizers.LossScaleOptimizer(rule) if captured else Finite(rule)
    loss_of = tk.losses.SparseCategoricalCrossentropy(from_logits=True)

    def step(x, y):
        with tk.GradientTape() as tape:
            loss = loss_of(y, model(x, training=True))
            scaled = rule.scale_loss(loss) if policy == "mixed_float16" else loss
        weights = model.trainable_variables
        rule.apply_gradients(zip(tape.gradient(scaled, weights), weights, strict=True))
        return loss

    return tk.function(step) if captured else step
