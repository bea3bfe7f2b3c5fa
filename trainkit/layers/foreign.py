"""Layers of Keras that wrap a function or module of another framework."""

from typing import ClassVar

from trainkit.core.names import BoundElsewhere


class JaxLayer(BoundElsewhere):
    """Keras's layer around a function of JAX.

    Raises:
        UnimplementedError: always; the text says what to use instead.
    """

    instead: ClassVar[str] = (
        "needs JAX, which trainkit does not compute with: write the function with trainkit.ops, in "
        "the call of a Layer."
    )


class FlaxLayer(BoundElsewhere):
    """Keras's layer around a module of Flax.

    Raises:
        UnimplementedError: always; the text says what to use instead.
    """

    instead: ClassVar[str] = (
        "needs Flax, which computes with JAX: build the module of trainkit.layers, and give it the "
        "weights with set_weights."
    )


class TorchModuleWrapper(BoundElsewhere):
    """Keras's layer around a module of PyTorch.

    Raises:
        UnimplementedError: always; the text says what to use instead.
    """

    instead: ClassVar[str] = (
        "needs PyTorch, which trainkit does not compute with: build the module of trainkit.layers, "
        "and give it the weights of its state_dict, transposed where PyTorch keeps them so, with "
        "set_weights."
    )
