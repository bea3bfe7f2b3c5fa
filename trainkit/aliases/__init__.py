"""Programs that import TensorFlow or Keras run on trainkit, unmodified."""

from __future__ import annotations

import sys

from trainkit.aliases.facades import Facade, Finder, Served

__all__ = ["install_as"]

_FINDER = Finder()


def install_as(*, tensorflow: bool = True, keras: bool = True) -> Served:
    """Serve `import tensorflow` and `import keras` in this process, whatever is installed.

    Names are looked up in trainkit's public ones. `tensorflow.__version__` and `keras.__version__`
    are those of the libraries whose names are served; `tk.__version__` stays. Processes that this
    one starts anew import what is installed there. `python -m trainkit run script.py` does the same
    for a script, and tells which names it asked for in vain.

    Args:
        tensorflow: serve `tensorflow`, with `tensorflow.keras`.
        keras: serve `keras`, `keras_core` and `tf_keras`.

    Returns:
        A context; leaving it takes these names away again. Without `with` they stay.

    Raises:
        ValueError: neither is to be served.
        RuntimeError: the original was imported before.

    Example:
        >>> with tk.install_as(tensorflow=True, keras=True):
        ...     import tensorflow as tf
        ...     tf.keras.layers.Dense is tk.layers.Dense
        True
    """
    if not (tensorflow or keras):
        raise ValueError("install_as: give it tensorflow=True, keras=True or both")
    roots = ["tensorflow"] * tensorflow + ["keras", "keras_core", "tf_keras"] * keras
    imported = [r for r in roots if not isinstance(sys.modules.get(r, Facade), type | Facade)]
    if imported:
        raise RuntimeError(
            f"install_as: {' and '.join(imported)} was imported before, and is in use; "
            "call install_as first, in a notebook after a restart of the kernel"
        )
    return _FINDER.serve(roots)
