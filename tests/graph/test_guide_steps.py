"""The steps of the guide to eager execution, decorated: the numbers that they give as Python."""

import numpy as np
import pytest

import trainkit as tk


def images_and_labels(count=32, size=12):
    rng = np.random.default_rng(5)
    images = rng.random((count, size, size, 1), dtype="float32")
    return tk.constant(images), tk.constant((np.arange(count) % 10).astype("int32"))


def digit_model(size=12):
    layers = tk.keras.layers
    model = tk.keras.Sequential(
        [
            layers.Input(shape=(None, None, 1)),
            layers.Conv2D(8, (3, 3), activation="relu"),
            layers.Conv2D(8, (3, 3), activation="relu"),
            layers.GlobalAveragePooling2D(),
            layers.Dense(10),
        ]
    )
    rng = np.random.default_rng(11)
    weights = [rng.normal(size=w.shape).astype("float32") * 0.2 for w in model.get_weights()]
    model.set_weights(weights)
    return model


def training(optimizer, decorate):
    """Losses and weights of some steps of the guide's digits model."""
    model = digit_model()
    optimizer.build(model.trainable_variables)
    loss_object = tk.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    images, labels = images_and_labels()

    @decorate
    def train_step(images, labels):
        with tk.GradientTape() as tape:
            logits = model(images, training=True)
            tk.debugging.assert_equal(tk.shape(logits)[1], 10)
            loss_value = loss_object(labels, logits)
        grads = tape.gradient(loss_value, model.trainable_variables)
        optimizer.apply_gradients(zip(grads, model.trainable_variables, strict=True))
        return loss_value, grads

    found = []
    for _ in range(4):
        loss, grads = train_step(images, labels)
        found += [loss.numpy(), *[g.numpy() for g in grads]]
    return found + model.get_weights() + [np.asarray(optimizer.iterations)]


def with_adam(decorate):
    return training(tk.keras.optimizers.Adam(learning_rate=0.02), decorate)


def with_sgd(decorate):
    return training(tk.keras.optimizers.SGD(learning_rate=0.1, momentum=0.9), decorate)


def loop_over_a_dataset(decorate):
    """Both functions decorated: epochs, batches and steps are in the graph."""
    model = digit_model()
    optimizer = tk.keras.optimizers.Adam(learning_rate=0.01)
    optimizer.build(model.trainable_variables)
    loss_object = tk.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    dataset = tk.data.Dataset.from_tensor_slices(images_and_labels(24)).batch(8)

    @decorate
    def train_step(images, labels):
        with tk.GradientTape() as tape:
            loss_value = loss_object(labels, model(images, training=True))
        grads = tape.gradient(loss_value, model.trainable_variables)
        optimizer.apply_gradients(zip(grads, model.trainable_variables, strict=True))
        return loss_value

    @decorate
    def train():
        total = tk.constant(0.0)
        for _ in tk.range(2):
            for images, labels in dataset:
                total += train_step(images, labels)
        return total

    return [train().numpy(), train().numpy(), *model.get_weights()]


def linear_model(decorate):
    class Linear(tk.keras.Model):
        def __init__(self):
            super().__init__()
            self.w = tk.Variable(5.0, name="weight")
            self.b = tk.Variable(10.0, name="bias")

        def call(self, inputs):
            return inputs * self.w + self.b

    rng = np.random.default_rng(1)
    inputs = tk.constant(rng.normal(size=200).astype("float32"))
    targets = inputs * 3 + 2 + tk.constant(rng.normal(size=200).astype("float32"))
    model, optimizer = Linear(), tk.keras.optimizers.SGD(learning_rate=0.01)
    optimizer.build([model.w, model.b])

    @decorate
    def step():
        with tk.GradientTape() as tape:
            loss = tk.reduce_mean(tk.square(model(inputs) - targets))
        grads = tape.gradient(loss, [model.w, model.b])
        optimizer.apply_gradients(zip(grads, [model.w, model.b], strict=True))
        return loss

    return [step().numpy() for _ in range(20)] + [model.w.numpy(), model.b.numpy()]


def fizzbuzz(decorate):
    @decorate
    def run(most):
        kinds = tk.TensorArray(tk.int32, size=most)
        counter = tk.constant(0)
        for num in tk.range(most) + 1:
            if num % 3 == 0 and num % 5 == 0:
                kind = -15
            elif num % 3 == 0:
                kind = -3
            elif num % 5 == 0:
                kind = -5
            else:
                kind = num
            kinds = kinds.write(num - 1, kind)
            counter = counter + 1
        return kinds.stack(), counter

    return [y.numpy() for most in (15, 4) for y in run(tk.constant(most))]


def gradient_of_a_square(decorate):
    w = tk.Variable(3.0)

    @decorate
    def slopes():
        with tk.GradientTape(persistent=True) as tape:
            square = w * w
            cube = square * w
        return tape.gradient(square, w), tape.gradient(cube, w)

    return [g.numpy() for g in slopes()]


def gradient_of_the_branch_that_ran(decorate):
    @decorate
    def slope(x, times):
        with tk.GradientTape() as tape:
            tape.watch(x)
            y = x
            for _ in tk.range(times):
                y = y * y if y < 10.0 else y + 1.0
        return tape.gradient(y, x)

    return [slope(tk.constant(at), tk.constant(n)).numpy() for at in (2.0, 20.0) for n in range(4)]


def line_search(decorate):
    def fn(x):
        return tk.reduce_sum(x**4 + x**2)

    def search(init_x, rate=1.0):
        with tk.GradientTape() as tape:
            tape.watch(init_x)
            value = fn(init_x)
        grad = tape.gradient(value, init_x)
        grad_norm = tk.reduce_sum(grad * grad)
        init_value = value
        x = init_x
        while value > init_value - rate * grad_norm:
            x = init_x - rate * grad
            value = fn(x)
            rate /= 2.0
        return x, value

    @decorate
    def both(start):
        with tk.GradientTape() as tape:
            tape.watch(start)
            x, value = search(start)
        return x, value, tape.gradient(value, start)

    return [y.numpy() for y in both(tk.constant(np.array([1.5, -0.5])))]


def clipped_gradient(decorate):
    @tk.custom_gradient
    def clip_gradient_by_norm(x, norm):
        def grad_fn(dresult):
            return [tk.clip_by_norm(dresult, norm), None]

        return tk.identity(x), grad_fn

    @decorate
    def slope(x, scale):
        with tk.GradientTape() as tape:
            tape.watch(x)
            loss = tk.reduce_sum(scale * tk.square(clip_gradient_by_norm(x, 2.0))) / 2
        return tape.gradient(loss, x)

    x = tk.constant([3.0, 4.0])
    return [slope(x, tk.constant(scale)).numpy() for scale in (10.0, 0.1)]


def stable_logarithm(decorate):
    @tk.custom_gradient
    def log1pexp(x):
        e = tk.exp(x)
        return tk.math.log(1 + e), lambda dy: dy * (1 - 1 / (1 + e))

    @decorate
    def slope(x):
        with tk.GradientTape() as tape:
            tape.watch(x)
            value = log1pexp(x)
        return tape.gradient(value, x)

    return [slope(tk.constant(x)).numpy() for x in (0.0, 1.0, 100.0)]


def metric(decorate):
    mean = tk.keras.metrics.Mean("loss")

    @decorate
    def seen(x):
        mean.update_state(x)
        return mean.result()

    found = [seen(tk.constant(x)).numpy() for x in (0.0, 5.0)]
    return [*found, seen(tk.constant([8.0, 9.0])).numpy()]


def restored_from_a_checkpoint(decorate, folder):
    x, optimizer = tk.Variable(10.0), tk.keras.optimizers.Adam(0.1)
    optimizer.build([x])
    checkpoint = tk.train.Checkpoint(x=x, optimizer=optimizer)

    @decorate
    def step():
        with tk.GradientTape() as tape:
            loss = x * x
        optimizer.apply_gradients([(tape.gradient(loss, x), x)])
        return loss

    step()
    path = checkpoint.save(str(folder / "ckpt"))
    first = [step().numpy() for _ in range(3)]
    checkpoint.restore(path)
    again = [step().numpy() for _ in range(3)]
    assert first == again
    return [*first, x.numpy()]


EXAMPLES = [
    with_adam,
    with_sgd,
    loop_over_a_dataset,
    linear_model,
    fizzbuzz,
    gradient_of_a_square,
    gradient_of_the_branch_that_ran,
    line_search,
    clipped_gradient,
    stable_logarithm,
    metric,
    restored_from_a_checkpoint,
]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda f: f.__name__)
def test_a_decorated_example_gives_the_eager_numbers(example, tmp_path):
    given = (tmp_path,) if example is restored_from_a_checkpoint else ()
    expected = example(lambda f: f, *given)
    got = example(tk.function, *given)
    for a, b in zip(expected, got, strict=True):
        np.testing.assert_array_equal(b, a)
