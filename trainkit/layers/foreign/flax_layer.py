"""The name of Keras's layer around a module of Flax."""

from typing import ClassVar

from trainkit.core.names import BoundElsewhere


class FlaxLayer(BoundElsewhere):
    """Keras's layer around a module of Flax.

    Raises:
        UnimplementedError: always; the text says what to use instead.
    """

    instead: ClassVar[str] = (
        "is not here, and tk.layers.JaxLayer takes the functions of a module of Flax: "
        "call_fn=lambda params, inputs: module.apply(params, inputs) and init_fn=module.init."
    )
