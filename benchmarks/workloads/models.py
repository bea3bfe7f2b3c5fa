"""The models in Keras's layers, for any namespace that has them: trainkit, Keras, TensorFlow."""

from collections.abc import Callable
from typing import Any

from workloads import inputs


def unet_features(
    K: Any, size: int = 128, most_filters: int = 256, convolutions_up: int = 2
) -> tuple[Any, Any]:
    """A U-Net's images, and what 32 and more filters make of them, down and up again."""
    L = K.layers
    images = x = K.Input((size, size, 3))
    skips, widths = [], [n for n in (32, 64, 128, 256) if n <= most_filters]
    for filters in widths:
        for _ in range(2):
            x = L.Conv2D(filters, 3, padding="same", activation="relu")(x)
        skips.append(x)
        x = L.MaxPooling2D()(x) if filters < most_filters else x
    for filters, skip in zip(widths[-2::-1], skips[-2::-1], strict=True):
        x = L.Concatenate()([L.Conv2DTranspose(filters, 2, strides=2)(x), skip])
        for _ in range(convolutions_up):
            x = L.Conv2D(filters, 3, padding="same", activation="relu")(x)
    return images, x


def mlp(K: Any) -> Any:
    """784-128-10."""
    L = K.layers
    model = K.Sequential([K.Input((784,)), L.Dense(128, activation="relu"), L.Dense(10)])
    model.set_weights(inputs.mlp())
    return model


def cnn(K: Any) -> Any:
    """Two convolutions and a mean over the image."""
    L = K.layers
    model = K.Sequential(
        [
            K.Input((28, 28, 1)),
            L.Conv2D(16, 3, activation="relu"),
            L.Conv2D(16, 3, activation="relu"),
            L.GlobalAveragePooling2D(),
            L.Dense(10),
        ]
    )
    model.set_weights(inputs.cnn())
    return model


def convnet_features(K: Any) -> list[Any]:
    """The layers of `convnet` before its classes."""
    L = K.layers
    return [
        L.Conv2D(32, 3, activation="relu"),
        L.Conv2D(64, 3, activation="relu"),
        L.MaxPooling2D(2),
        L.Dropout(0.25),
        L.Flatten(),
        L.Dense(128, activation="relu"),
        L.Dropout(0.5),
    ]


def convnet(K: Any) -> Any:
    """The small network of many introductions, with dropout."""
    model = K.Sequential([K.Input((28, 28, 1)), *convnet_features(K), K.layers.Dense(10)])
    values = iter(inputs.convnet())
    for layer in model.layers:
        if layer.trainable_weights:
            layer.set_weights([next(values), next(values)])
    return model


def lstm(K: Any) -> Any:
    """Words to one number by an LSTM."""
    L = K.layers
    model = K.Sequential(
        [
            K.Input((inputs.TIMES,), dtype="int32"),
            L.Embedding(inputs.WORDS, inputs.UNITS),
            L.LSTM(inputs.UNITS),
            L.Dense(1),
        ]
    )
    model.set_weights(inputs.lstm())
    return model


def transformer(K: Any) -> Any:
    """A decoder of two blocks."""
    L, values = K.layers, inputs.transformer()

    class Places(L.Layer):  # type: ignore[misc, name-defined]
        def build(self, input_shape: Any) -> None:
            shape = (inputs.LENGTH, inputs.WIDTH)
            self.table = self.add_weight(shape=shape, name="table", initializer="zeros")

        def call(self, x: Any) -> Any:
            return x + self.table

    letters = K.Input((inputs.LENGTH,), dtype="int32")
    made: list[tuple[Any, Any]] = []

    def layer(new: Any, arrays: Any) -> Any:
        made.append((new, arrays))
        return new

    x = layer(L.Embedding(inputs.VOCABULARY, inputs.WIDTH), [values["letters"]])(letters)
    x = layer(Places(), [values["places"]])(x)
    for part in values["blocks"]:
        a = layer(L.LayerNormalization(epsilon=1e-5), part["norm1"])(x)
        heads = L.MultiHeadAttention(inputs.HEADS, inputs.WIDTH // inputs.HEADS)
        x = L.Add()([x, layer(heads, part["attention"])(a, a, use_causal_mask=True)])
        a = layer(L.LayerNormalization(epsilon=1e-5), part["norm2"])(x)
        a = layer(L.Dense(inputs.HIDDEN, activation="gelu"), part["up"])(a)
        x = L.Add()([x, layer(L.Dense(inputs.WIDTH), part["down"])(a)])
    x = layer(L.LayerNormalization(epsilon=1e-5), values["norm"])(x)
    model = K.Model(letters, layer(L.Dense(inputs.VOCABULARY), values["out"])(x))
    for new, arrays in made:
        new.set_weights(arrays)
    return model


def resnet(K: Any) -> Any:
    """ResNet-18 for images of 32 x 32."""
    L, (kernels, last) = K.layers, inputs.resnet()
    parts = {part[0]: part for part in inputs.resnet_parts()}
    made: list[tuple[Any, Any]] = []

    def unit(x: Any, name: str, relu: bool = True) -> Any:
        _, _, filters, stride, size = parts[name]
        conv = L.Conv2D(filters, size, strides=stride, padding="same", use_bias=False)
        x = conv(x)
        made.append((conv, [kernels[name]]))
        x = L.BatchNormalization(momentum=0.9, epsilon=1e-5)(x)
        return L.ReLU()(x) if relu else x

    image = K.Input((32, 32, 3))
    x = unit(image, "first")
    for name in [f"{stage}{half}" for stage in range(4) for half in range(2)]:
        y = unit(unit(x, f"{name}a"), f"{name}b", relu=False)
        if f"{name}c" in parts:
            x = unit(x, f"{name}c", relu=False)
        x = L.ReLU()(L.Add()([x, y]))
    head = L.Dense(10)
    model = K.Model(image, head(L.GlobalAveragePooling2D()(x)))
    made.append((head, last))
    for new, arrays in made:
        new.set_weights(arrays)
    return model


def classes(K: Any) -> Any:
    """The loss of a classifier."""
    return K.losses.SparseCategoricalCrossentropy(from_logits=True)


def one_or_zero(K: Any) -> Any:
    """The loss of a yes or no."""
    return K.losses.BinaryCrossentropy(from_logits=True)


def adam(K: Any) -> Any:
    """Adam, hardly moving."""
    return K.optimizers.Adam(inputs.RATE)


def momentum(K: Any) -> Any:
    """SGD with momentum, hardly moving."""
    return K.optimizers.SGD(inputs.RATE, momentum=0.9)


Maker = Callable[[Any], Any]
STEPS: dict[str, tuple[Maker, Maker, Maker, Callable[[], Any]]] = {
    "mlp_step_b32": (mlp, classes, adam, lambda: inputs.flat_batch(32)),
    "mlp_step_b128": (mlp, classes, adam, lambda: inputs.flat_batch(128)),
    "cnn_step": (cnn, classes, adam, lambda: inputs.image_batch(32)),
    "convnet_step": (convnet, classes, adam, lambda: inputs.image_batch(64)),
    "lstm_step": (lstm, one_or_zero, adam, inputs.sentences),
    "transformer_step": (transformer, classes, adam, inputs.texts),
    "resnet_step": (resnet, classes, momentum, inputs.color_batch),
}
"""Model, loss, optimizer and batch of each training step."""
