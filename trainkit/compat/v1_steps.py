"""Version 1's count of steps, and rates that decay with it."""

from __future__ import annotations

from typing import Any

from trainkit.compat.v1_graphs import get_default_graph, graph_state
from trainkit.core.variable import Variable
from trainkit.ops.math.elementwise import cast
from trainkit.optimizers import schedules


def get_global_step(graph: Any = None) -> Variable | None:
    """The count of steps of a graph, `None` if there is none yet.

    Args:
        graph: by default the one being built.
    """
    return graph_state(graph or get_default_graph()).by_name.get("global_step")


def create_global_step(graph: Any = None) -> Variable:
    """Make the count of steps of a graph, an int64 of 0.

    Args:
        graph: must be the one being built, as by default.

    Raises:
        ValueError: there is one already, or `graph` is another.
    """
    current = get_default_graph()
    if graph is not None and graph is not current:
        raise ValueError("create_global_step: call it inside `with graph.as_default():`")
    if get_global_step() is not None:
        raise ValueError("create_global_step: the graph has one; see get_global_step")
    step = Variable(0, trainable=False, name="global_step", dtype="int64")
    graph_state(current).by_name["global_step"] = step
    return step


def get_or_create_global_step(graph: Any = None) -> Variable:
    """The count of steps of a graph, which is made if there is none.

    Args:
        graph: must be the one being built, as by default.
    """
    step = get_global_step(graph)
    return create_global_step(graph) if step is None else step


def _at(schedule: Any, step: Any) -> Any:
    return schedule(cast(step, "float32") if not isinstance(step, int | float) else step)


def exponential_decay(
    learning_rate: float,
    global_step: Any,
    decay_steps: int,
    decay_rate: float,
    staircase: bool = False,
    name: str | None = None,
) -> Any:
    """learning_rate * decay_rate ** (global_step / decay_steps).

    Args:
        learning_rate: at step 0.
        global_step: the count of steps.
        decay_steps: in how many it falls to `decay_rate` of it.
        decay_rate: see above.
        staircase: whether the quotient is rounded down.
        name: not kept.
    """
    schedule = schedules.ExponentialDecay(learning_rate, decay_steps, decay_rate, staircase)
    return _at(schedule, global_step)


def inverse_time_decay(
    learning_rate: float,
    global_step: Any,
    decay_steps: int,
    decay_rate: float,
    staircase: bool = False,
    name: str | None = None,
) -> Any:
    """learning_rate / (1 + decay_rate * global_step / decay_steps).

    Args:
        learning_rate: at step 0.
        global_step: the count of steps.
        decay_steps: see above.
        decay_rate: see above.
        staircase: whether the quotient of the steps is rounded down.
        name: not kept.
    """
    schedule = schedules.InverseTimeDecay(learning_rate, decay_steps, decay_rate, staircase)
    return _at(schedule, global_step)


def polynomial_decay(
    learning_rate: float,
    global_step: Any,
    decay_steps: int,
    end_learning_rate: float = 0.0001,
    power: float = 1.0,
    cycle: bool = False,
    name: str | None = None,
) -> Any:
    """From `learning_rate` to `end_learning_rate` by a power of the steps that are left.

    Args:
        learning_rate: at step 0.
        global_step: the count of steps.
        decay_steps: in how many it gets to the end.
        end_learning_rate: at the end.
        power: 1 for a line.
        cycle: whether it goes up again behind the end.
        name: not kept.
    """
    schedule = schedules.PolynomialDecay(
        learning_rate, decay_steps, end_learning_rate, power, cycle
    )
    return _at(schedule, global_step)


def piecewise_constant(x: Any, boundaries: Any, values: Any, name: str | None = None) -> Any:
    """One of `values` after the other, as the count of steps passes the boundaries.

    Args:
        x: the count of steps.
        boundaries: the last steps of all values but the last.
        values: one more than there are boundaries.
        name: not kept.
    """
    return _at(schedules.PiecewiseConstantDecay(boundaries, values), x)
