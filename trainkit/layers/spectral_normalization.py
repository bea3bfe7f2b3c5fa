"""`SpectralNormalization`: a layer whose kernel has largest singular value 1."""

from __future__ import annotations

from typing import Any

from trainkit import initializers, ops
from trainkit.core.dispatch import trace_state
from trainkit.core.errors import InvalidArgumentError
from trainkit.layers.base.arguments import whole
from trainkit.layers.rnn.time_distributed import Wrapper


class SpectralNormalization(Wrapper):
    """Divides the kernel of a layer by an estimate of its largest singular value, while training.

    v = W u / |W u|, u = W' v / |W' v|, repeated; sigma = v' W u, W being the kernel as a matrix
    whose rows are the outputs.
    Source: Miyato et al. 2018, arXiv:1802.05957.

    Args:
        layer: with a `kernel` or `embeddings`.
        power_iterations: how often the estimate is improved at each training call.

    Raises:
        InvalidArgumentError: the layer has no such weight, or power_iterations is below 1.

    Example:
        >>> layer = tk.layers.SpectralNormalization(tk.layers.Dense(4))
        >>> layer(tk.ones((2, 3)), training=True).shape
        TensorShape([2, 4])
    """

    def __init__(self, layer: Any, power_iterations: int = 1, **kwargs: Any) -> None:
        super().__init__(layer, **kwargs)
        self.power_iterations = whole(self, "power_iterations", power_iterations)

    def build(self, input_shape: Any = None) -> None:
        super().build(input_shape)
        self.kernel = weight = self._weight()  # first among the weights, as Keras has it
        self.vector_u = self.add_weight(
            "vector_u",
            (1, weight.shape[-1]),
            initializer=initializers.TruncatedNormal(stddev=0.02),
            trainable=False,
        )

    def _weight(self) -> Any:
        for name in ("kernel", "embeddings"):
            if hasattr(self.layer, name):
                return getattr(self.layer, name)
        raise InvalidArgumentError(
            f"SpectralNormalization: {type(self.layer).__name__} has neither a kernel nor "
            "embeddings"
        )

    def call(self, inputs: Any, training: Any = False) -> Any:
        if training:
            with trace_state.silence():
                self._normalize()
        return self.layer(inputs)

    def _normalize(self) -> None:
        """One improvement of the estimate, then the division."""
        weight = self._weight()
        matrix = ops.reshape(weight.value(), (-1, weight.shape[-1]))
        u = self.vector_u.value()
        for _ in range(self.power_iterations):
            v = _unit(ops.matmul(u, ops.transpose(matrix)))
            u = _unit(ops.matmul(v, matrix))
        sigma = ops.matmul(ops.matmul(v, matrix), ops.transpose(u))
        self.vector_u.assign(ops.cast(u, self.vector_u.dtype))
        weight.assign(ops.cast(ops.divide(weight.value(), ops.reshape(sigma, ())), weight.dtype))


def _unit(x: Any) -> Any:
    squared = ops.sum(ops.square(x))
    return ops.multiply(x, ops.rsqrt(ops.maximum(squared, 1e-12)))
