"""What layers draw for the rows of a batch, in the ways that users write it."""

import trainkit as tk
from trainkit import keras


class Sampling(keras.layers.Layer):
    """The noise of a VAE, by `draw` of the moments' tensors."""

    def __init__(self, draw):
        super().__init__()
        self.draw, self.seeds = draw, keras.random.SeedGenerator(5)

    def call(self, mean, training=False):
        known = mean.shape[0] is not None  # not so while the model is put together
        return mean + self.draw(mean, self.seeds) if known else mean


def _of_stack(mean, seeds):
    """Noise for two batches that were joined, as for real and made images."""
    both = tk.concat([mean, mean * 2.0], axis=0)
    noise = both + tk.random.uniform(tk.shape(both))
    own = tk.shape(mean)[0]
    return noise[:own] - noise[own:]


def _of_classes(mean, seeds):
    picked = tk.random.categorical(mean, 3) + keras.random.categorical(mean, 3, "int64", seeds)
    return tk.cast(picked, "float32")


def _of_steps(mean, seeds):
    steps = keras.random.randint((keras.ops.shape(mean)[0],), 0, 100, seed=seeds)
    later = tk.random.uniform((tk.shape(mean)[0], 1), 0, tk.constant(7), "int32")
    return tk.cast(steps, "float32")[:, None] / 100.0 + tk.cast(later, "float32")


WEIGHT = tk.Variable(tk.ones((9, 3)), trainable=False)  # as many as a replica has rows


def _of_weights(mean, seeds):
    """Noise that is for no batch, as that of weights is: one process draws as much."""
    noise = tk.random.normal(WEIGHT.shape) * tk.random.normal(keras.ops.shape(WEIGHT))
    noise += keras.random.normal((9, 3), seed=seeds)
    return tk.random.uniform((3,)) + tk.reduce_sum(noise) + tk.random.normal(())


DRAWS = {
    "keras normal": lambda mean, seeds: keras.random.normal(keras.ops.shape(mean), seed=seeds),
    "sizes": lambda mean, seeds: keras.random.normal(
        (keras.ops.shape(mean)[0], keras.ops.shape(mean)[1]), seed=seeds
    ),
    "tensor": lambda mean, seeds: tk.random.normal(tk.shape(mean)),
    "tensor sizes": lambda mean, seeds: tk.random.truncated_normal((tk.shape(mean)[0], 3)),
    "attribute": lambda mean, seeds: tk.random.uniform((mean.shape[0], 1, 3))[:, 0],
    "several": lambda mean, seeds: tk.reduce_mean(
        tk.reshape(keras.random.normal((mean.shape[0] * 4, 3), seed=seeds), (4, -1, 3)), axis=0
    ),
    "fixed": lambda mean, seeds: (
        keras.random.normal(mean.shape, seed=7) + tk.random.stateless_normal(tk.shape(mean), (1, 2))
    ),
    "numbered": lambda mean, seeds: tk.random.normal(mean.shape, seed=7),
    "generator": lambda mean, seeds: seeds.normal(mean.shape),
    "global generator": lambda mean, seeds: tk.random.get_global_generator().normal(mean.shape),
    "steps": _of_steps,
    "joined": _of_stack,
    "weights": _of_weights,
    "like": lambda mean, seeds: (
        keras.random.beta(mean.shape, 2.0, 3.0, seed=seeds)
        + keras.random.gamma(mean.shape, 0.7, seed=seeds)
    ),
}
MEETING_DRAWS = {
    "many counts": lambda mean, seeds: (
        tk.reduce_sum(tk.random.poisson((2, 3), tk.exp(tk.tanh(mean))), (0, 1))
        + tk.random.gamma([2], tk.exp(tk.tanh(mean)), 2.0)[1]
    ),
    "counts": lambda mean, seeds: (
        tk.random.poisson((), tk.exp(tk.tanh(mean)))
        + keras.random.binomial(mean.shape, 9.0, keras.ops.sigmoid(mean), seed=seeds)
    ),
    "classes": _of_classes,
}
