"""`tk.gradients` and `tk.hessians`: the derivatives of graphs, and what to use instead."""

from __future__ import annotations

from typing import Any, NoReturn


def gradients(ys: Any, xs: Any, *args: Any, **kwargs: Any) -> NoReturn:
    """Not there outside of graphs of the first API, in TensorFlow 2 neither.

    Raises:
        RuntimeError: always; it names what to use.
    """
    raise RuntimeError(
        "tk.gradients works on graphs of the first API only. Record with `with tk.GradientTape() "
        "as tape:` and ask for `tape.gradient(ys, xs)`; for functions, see tk.eager."
    )


def hessians(ys: Any, xs: Any, *args: Any, **kwargs: Any) -> NoReturn:
    """Not there outside of graphs of the first API, in TensorFlow 2 neither.

    Raises:
        RuntimeError: always; it names what to use.
    """
    raise RuntimeError(
        "tk.hessians works on graphs of the first API only. Use `tk.autodiff.hessian(f, x)`, or "
        "`tape.jacobian` of a gradient."
    )
