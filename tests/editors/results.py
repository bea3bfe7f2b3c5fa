"""What type checkers know of results: each `assert_type` names the type that they see."""

from __future__ import annotations

from typing import Any, assert_type

import numpy as np

import trainkit as tk
from trainkit import keras

x = tk.constant([1.0, 2.0])
v = tk.Variable(1.0)
model = keras.Sequential([keras.layers.Dense(2)])


def double(a: tk.Tensor) -> tk.Tensor:
    return a * 2.0


# ------------------------------------------------------------------ branches, loops and maps

assert_type(tk.cond(tk.constant(True), lambda: x, lambda: x * 2.0), tk.Tensor)
assert_type(tk.cond(x[0] > 1.0, lambda: x, lambda: 0.0), tk.Tensor)
assert_type(tk.cond(x[0] > 1.0, lambda: (x, v), lambda: (x, v)), tuple[tk.Tensor, tk.Variable])
assert_type(tk.case([(x[0] > 1.0, lambda: x)], default=lambda: x), tk.Tensor)
assert_type(tk.switch_case(tk.constant(1), [lambda: x, lambda: x]), tk.Tensor)
assert_type(tk.switch_case(1, {1: lambda: x, 2: lambda: x}, default=lambda: x), tk.Tensor)
count, total = tk.while_loop(
    lambda i, y: i < 3, lambda i, y: (i + 1, y * 2.0), (tk.constant(0), x), maximum_iterations=5
)
assert_type(count, tk.Tensor)
assert_type(total.numpy(), Any)
assert_type(tk.while_loop(lambda i: i < 3, lambda i: i + 1, [0]), list[tk.Tensor])
assert_type(tk.map_fn(double, x), tk.Tensor)
assert_type(tk.vectorized_map(double, x), tk.Tensor)
assert_type(tk.ops.map(double, x), tk.Tensor)
assert_type(tk.ops.cond(x[0] > 1.0, lambda: x, lambda: x), tk.Tensor)
assert_type(tk.ops.switch(tk.constant(0), [double, double], x), tk.Tensor)
assert_type(tk.ops.fori_loop(0, 3, lambda i, y: y + i, x), tk.Tensor)
assert_type(tk.nest.map_structure(double, [x, x]), list[tk.Tensor])
assert_type(tk.nest.map_structure(double, {"a": x}), dict[str, tk.Tensor])
assert_type(tk.nest.map_structure(double, (x, x)), tuple[tk.Tensor, ...])
assert_type(tk.nest.map_structure(double, x), tk.Tensor)
assert_type(keras.tree.map_structure(double, {"a": x}), dict[str, tk.Tensor])

# ------------------------------------------------------------------ gradients

with tk.GradientTape(persistent=True) as tape:
    y = v * 2.0
assert_type(tape.gradient(y, v), tk.Tensor)
assert_type(tape.gradient(y, x, unconnected_gradients="zero"), tk.Tensor)
assert_type(tape.gradient(y, [v]), list[tk.Tensor])
assert_type(tape.gradient(y, (v, v)), tuple[tk.Tensor, ...])
assert_type(tape.gradient(y, {"weight": v}), dict[str, tk.Tensor])
assert_type(tape.jacobian(y, v), tk.Tensor)
assert_type(tape.batch_jacobian(y, x), tk.Tensor)
gradients = tape.gradient(y, model.trainable_variables)
assert_type(gradients, list[tk.Tensor])
clipped, norm = tk.clip_by_global_norm(gradients, 1.0)
assert_type(norm, tk.Tensor)

# ------------------------------------------------------------------ traced functions


@tk.function
def step(a: tk.Tensor, training: bool = False) -> tuple[tk.Tensor, tk.Tensor]:
    return a, a


@tk.function(input_signature=[tk.TensorSpec([None])], jit_compile=True)
def with_signature(a: tk.Tensor) -> dict[str, tk.Tensor]:
    return {"a": a}


class Stepper(tk.Model):
    @tk.function
    def plain(self, a: tk.Tensor) -> tk.Tensor:
        return a

    @tk.function(reduce_retracing=True)
    def reduced(self, a: tk.Tensor, times: int = 1) -> tk.Tensor:
        return a * times


@tk.custom_gradient
def clip_gradient(a: tk.Tensor) -> Any:
    return a, lambda upstream: tk.clip_by_value(upstream, -1.0, 1.0)


assert_type(step(x, training=True), tuple[tk.Tensor, tk.Tensor])
assert_type(with_signature(x), dict[str, tk.Tensor])
assert_type(Stepper().plain(x), tk.Tensor)
assert_type(Stepper().reduced(x, times=2), tk.Tensor)
print(step.get_concrete_function(x).structured_outputs, step.experimental_get_tracing_count())
print(clip_gradient(x), tk.function(double)(x).numpy())

# ------------------------------------------------------------------ operations

values, indices = tk.math.top_k(x, k=1)
assert_type(values, tk.Tensor)
assert_type(tk.linalg.svd(tk.eye(2)), tuple[tk.Tensor, tk.Tensor, tk.Tensor])
assert_type(tk.linalg.svd(tk.eye(2), compute_uv=False), tk.Tensor)
assert_type(tk.ops.svd(tk.eye(2), compute_uv=False), tk.Tensor)
assert_type(tk.linalg.slogdet(tk.eye(2)), tuple[tk.Tensor, tk.Tensor])
assert_type(tk.ops.linspace(0.0, 1.0, 3), tk.Tensor)
assert_type(tk.ops.unique(x), tk.Tensor)
assert_type(tk.exp(x), tk.Tensor)
assert_type(tk.add(x, 1), tk.Tensor)
assert_type(tk.nn.relu(x), tk.Tensor)
assert_type(keras.activations.gelu(x), tk.Tensor)
assert_type(keras.layers.add([x, x]), tk.Tensor)
assert_type(tk.reduce_mean(x, axis=[0], keepdims=True), tk.Tensor)

# ------------------------------------------------------------------ objects by name

assert_type(keras.optimizers.get("adam"), keras.optimizers.Optimizer)
assert_type(keras.initializers.get("zeros"), keras.initializers.Initializer)
assert_type(keras.initializers.get(None), None)
assert_type(keras.regularizers.get("l2"), keras.regularizers.Regularizer)
assert_type(keras.metrics.get("accuracy"), keras.metrics.Metric)
assert_type(keras.layers.deserialize({"class_name": "Dense", "config": {}}), keras.layers.Layer)
assert_type(keras.optimizers.get(keras.optimizers.SGD()), keras.optimizers.SGD)
assert_type(keras.losses.get("mse")(x, x), tk.Tensor)

# ------------------------------------------------------------------ models

assert_type(model.fit(x, x), keras.callbacks.History)
assert_type(model.evaluate(x, x, return_dict=True), dict[str, float])
assert_type(model.predict(x), np.ndarray[Any, Any])
assert_type(keras.models.load_model("model.keras"), keras.Model)
assert_type(keras.models.clone_model(model), keras.Sequential)
assert_type(keras.models.model_from_json(model.to_json()), keras.Model)
