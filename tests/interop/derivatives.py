"""Derivatives of layers that hold functions of other libraries."""

import trainkit as tk


def second_derivative(layer, in_graph):
    """The second derivative of what a layer gives for ones, eagerly or in a graph."""

    def fn(x):
        with tk.GradientTape() as outer:
            outer.watch(x)
            with tk.GradientTape() as inner:
                inner.watch(x)
                y = layer(x)
            g = inner.gradient(y, x)
        return outer.gradient(g, x)

    return (tk.function(fn) if in_graph else fn)(tk.ones(2))
