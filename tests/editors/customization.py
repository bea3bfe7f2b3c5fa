"""Programs with parts of users' own, and in TensorFlow's spellings; an editor shows no error."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import Any

import numpy as np

import trainkit as tk
from trainkit import keras
from trainkit.keras import layers

# ------------------------------------------------------------------ blocks of functional models


def conv_block(
    x: tk.Tensor, filters: int, size: int = 3, padding: str = "same", activation: str = "relu"
) -> Any:
    x = layers.Conv2D(filters, size, padding=padding, use_bias=False)(x)
    x = layers.BatchNormalization()(x)
    return layers.Activation(activation)(x)


def untyped_block(x, filters, strides=1, padding="same", data_format="channels_last"):
    x = layers.Conv2D(filters, (3, 3), strides, padding, data_format=data_format)(x)
    return layers.MaxPooling2D((2, 2), strides=strides, padding=padding)(x)


def residual_network() -> keras.Model:
    inputs = keras.Input((32, 32, 3))
    x = conv_block(inputs, 8)
    for filters in (8, 16):
        skip = layers.Conv2D(filters, 1, kernel_initializer=keras.initializers.HeNormal(seed=1))(x)
        x = layers.Add()([conv_block(conv_block(x, filters), filters), skip])
    x = layers.GlobalAveragePooling2D()(untyped_block(x, 8))
    outputs = layers.Dense(10, "softmax", kernel_constraint=keras.constraints.MaxNorm(2.0))(x)
    return keras.Model(inputs, outputs, name="residual")


def two_inputs() -> keras.Model:
    text = keras.Input((None,), dtype="int32", name="text")
    image = keras.Input(shape=(8, 8, 1), name="image")
    a = layers.LSTM(8, recurrent_dropout=0.1)(layers.Embedding(100, 8)(text))
    b = layers.Flatten()(image)
    c = layers.concatenate([a, b])
    model = keras.Model({"text": text, "image": image}, [layers.Dense(1)(c), layers.Dense(3)(c)])
    model.compile(
        optimizer=keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(1e-3, 100)),
        loss=["mse", keras.losses.CategoricalCrossentropy(from_logits=True)],
        metrics=[["mae"], ["accuracy"]],
        loss_weights=[1.0, 0.5],
    )
    return model


# ------------------------------------------------------------------ losses, metrics, regularizers


class Contrastive(keras.losses.Loss):
    def __init__(self, margin: float = 1.0, name: str = "contrastive") -> None:
        super().__init__(name=name)
        self.margin = margin

    def call(self, y_true: tk.Tensor, y_pred: tk.Tensor) -> tk.Tensor:
        far = tk.maximum(self.margin - y_pred, 0.0)
        return tk.reduce_mean(y_true * tk.square(y_pred) + (1.0 - y_true) * tk.square(far), axis=-1)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "margin": self.margin}


def smooth_l1(y_true: tk.Tensor, y_pred: tk.Tensor) -> tk.Tensor:
    error = tk.abs(y_true - y_pred)
    return tk.where(error < 1.0, 0.5 * error**2, error - 0.5)


class Mean(keras.metrics.Mean):
    def update_state(self, values: Any, sample_weight: Any = None) -> None:
        super().update_state(values, sample_weight=sample_weight)


class Orthogonal(keras.regularizers.Regularizer):
    def __call__(self, w: tk.Tensor) -> tk.Tensor:
        gram = tk.matmul(w, w, transpose_a=True)
        return tk.reduce_sum(tk.square(gram - tk.eye(w.shape[-1])))


class Positive(keras.constraints.Constraint):
    def __call__(self, w: tk.Tensor) -> tk.Tensor:
        return tk.nn.relu(w)


class Scaled(keras.initializers.Initializer):
    def __call__(self, shape: Any, dtype: Any = None) -> tk.Tensor:
        return tk.random.uniform(shape, -0.1, 0.1, dtype=dtype or tk.float32)


class Sign(keras.optimizers.Optimizer):
    slots = ("momentum",)

    def __init__(self, learning_rate: float = 0.01, momentum: float = 0.9) -> None:
        super().__init__(learning_rate=learning_rate, name="sign")
        self.momentum = momentum

    def update(self, xp: Any, weight: Any, grad: Any, lr: Any, momentum: Any) -> Any:
        momentum = self.momentum * momentum + grad
        return weight - lr * xp.sign(momentum), momentum


class Warmup(keras.optimizers.schedules.LearningRateSchedule):
    def __call__(self, step: Any) -> tk.Tensor:
        return tk.minimum(tk.cast(step, "float32") / 100.0, 1.0) * 1e-3


class Attention(layers.Layer):
    def __init__(self, heads: int, width: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.attention = layers.MultiHeadAttention(heads, width, dropout=0.1)
        self.norm = layers.LayerNormalization(epsilon=1e-6)
        self.table = [layers.Dense(4 * width, activation=tk.nn.gelu), layers.Dense(width)]

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        self.scale = self.add_weight(
            name="scale", shape=(input_shape[-1],), initializer=Scaled(), constraint=Positive()
        )
        super().build(input_shape)

    def call(
        self, x: tk.Tensor, mask: tk.Tensor | None = None, training: bool = False
    ) -> tk.Tensor:
        y = self.attention(x, x, attention_mask=mask, training=training)
        x = self.norm(x + y) * self.scale
        for layer in self.table:
            x = layer(x)
        return x


# ------------------------------------------------------------------ data and loops


def generator(count: int) -> Iterator[tuple[np.ndarray, int]]:
    for number in range(count):
        yield np.full((4,), number, dtype=np.float32), number % 2


def datasets(folder: pathlib.Path) -> tk.data.Dataset:
    signature = (tk.TensorSpec((4,), tk.float32), tk.TensorSpec((), tk.int32))
    dataset = tk.data.Dataset.from_generator(lambda: generator(20), output_signature=signature)
    numbers = tk.data.Dataset.range(10).filter(lambda n: n % 2 == 0).repeat().take(20)
    both = tk.data.Dataset.zip((dataset, numbers)).map(lambda xy, n: xy, num_parallel_calls=2)
    both = both.cache().shuffle(8, seed=1).batch(4, drop_remainder=True).prefetch(tk.data.AUTOTUNE)
    print(both.element_spec, len(list(both.as_numpy_iterator())), folder)
    return both


def train(folder: str) -> dict[str, float]:
    strategy = tk.distribute.MirroredStrategy()
    with strategy.scope():
        model = keras.Sequential(
            [layers.Dense(8, kernel_regularizer=Orthogonal()), layers.Dense(1)]
        )
        optimizer = keras.optimizers.AdamW(Warmup(), weight_decay=1e-4, clipnorm=1.0)
    mean = Mean(name="loss")
    loss_of = Contrastive(2.0)
    writer = tk.summary.create_file_writer(folder)
    checkpoint = tk.train.Checkpoint(model=model, optimizer=optimizer)
    manager = tk.train.CheckpointManager(checkpoint, folder, max_to_keep=2)

    @tk.function(reduce_retracing=True)
    def step(x: tk.Tensor, y: tk.Tensor) -> tk.Tensor:
        with tk.GradientTape() as tape:
            prediction = model(x, training=True)
            loss = loss_of(y, prediction) + tk.add_n(model.losses)
        gradients = tape.gradient(loss, model.trainable_variables)
        gradients, norm = tk.clip_by_global_norm(gradients, 1.0)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        mean.update_state(loss)
        return norm

    with writer.as_default():
        for number, (x, y) in enumerate(datasets(pathlib.Path(folder))):
            norm = step(x, tk.reshape(tk.cast(y, tk.float32), (-1, 1)))
            tk.summary.scalar("loss", mean.result(), step=number)
            tk.summary.scalar("norm", norm, step=optimizer.iterations)
            if number % 10 == 0:
                manager.save(checkpoint_number=number)
    mean.reset_state()
    model.save_weights(str(pathlib.Path(folder) / "model.weights.h5"))
    model.compile("sgd", loss=smooth_l1, metrics=["mae", keras.metrics.AUC(name="auc")])
    return model.evaluate(np.ones((4, 4)), np.ones((4, 1)), return_dict=True, verbose=0)


def fitted(folder: str) -> keras.callbacks.History:
    model = residual_network()
    model.compile(Sign(0.01), "sparse_categorical_crossentropy", metrics=["accuracy"])
    stop = keras.callbacks.EarlyStopping(monitor="val_loss", patience=3, restore_best_weights=True)
    schedule = keras.callbacks.LearningRateScheduler(lambda epoch: 0.1 / (epoch + 1))
    board = keras.callbacks.TensorBoard(log_dir=folder, histogram_freq=1)
    history = model.fit(
        np.zeros((8, 32, 32, 3)),
        np.zeros((8,)),
        validation_data=(np.zeros((4, 32, 32, 3)), np.zeros((4,))),
        class_weight={0: 1.0, 1: 2.0},
        callbacks=[stop, schedule, board],
    )
    losses: list[float] = history.history["loss"]
    print(min(losses), model.get_layer("dense").name, model.layers[0].name)
    model.export(folder)
    return history


# ------------------------------------------------------------------ TensorFlow's spellings


def spellings() -> None:
    a = tk.random.normal((2, 8, 8, 3), mean=0.0, stddev=1.0, dtype=tk.float32, seed=1)
    kernel = tk.Variable(tk.zeros([3, 3, 3, 4], tk.float32), trainable=True, name="kernel")
    b = tk.nn.conv2d(a, kernel, strides=[1, 1, 1, 1], padding="SAME", data_format="NHWC")
    c = tk.nn.max_pool2d(b, ksize=2, strides=2, padding="VALID")
    d = tk.nn.bias_add(c, [0.0, 0.0, 0.0, 0.0])
    mean, variance = tk.nn.moments(d, axes=[0, 1, 2])
    e = tk.nn.batch_normalization(d, mean, variance, None, None, 1e-3)
    f = tk.nn.dropout(tk.nn.leaky_relu(e), rate=0.5)
    print(tk.reduce_sum(f, axis=-1), tk.reduce_max(f, axis=(1, 2), keepdims=True), tk.size(f))
    print(tk.concat([mean, variance], axis=0), tk.stack([mean, 1.0 * variance]), tk.tile(mean, [2]))
    print(tk.pad(mean, [[1, 1]]), tk.gather(mean, [0, 1]), tk.boolean_mask(mean, mean > 0.0))
    print(tk.clip_by_value(mean, 0.0, 1.0), tk.one_hot(tk.argmax(mean), depth=4), tk.rank(mean))
    print(tk.image.resize(a, [4, 4], method="nearest"), tk.image.flip_left_right(a))
    print(tk.strings.join(["a", "b"]), tk.io.gfile.exists("a"), tk.math.segment_sum([1.0], [0]))
    print(tk.linalg.matmul(a[0, 0], a[0, 0], transpose_b=True), tk.signal.stft(np.ones(100), 10, 5))
    print(tk.nn.sparse_softmax_cross_entropy_with_logits(labels=[0], logits=[[1.0, 2.0]]))
    tk.debugging.assert_shapes([(a, ("N", 8, 8, "C"))])
    print(tk.config.list_physical_devices("GPU"))
    print(tk.zeros(3), tk.ones(tk.shape(mean)), tk.fill((2, 2), 1), tk.range(0, 10, 2), tk.eye(2))
    kernel.assign_sub(0.1 * tk.ones_like(kernel))
    tk.debugging.assert_equal(tk.shape(a)[0], 2, message="two images")
    tk.print("mean", mean, summarize=3)
    array = tk.TensorArray(tk.float32, size=2).write(0, 1.0).write(1, 2.0)
    print(array.stack(), tk.transpose(a, perm=[0, 3, 1, 2]), tk.squeeze(mean), tk.sort(mean))
    with tk.device("/cpu:0"), tk.name_scope("here"):
        print(tk.tensordot(mean, mean, axes=1), tk.norm(mean), tk.cumsum(mean), tk.unique([1, 1]))
