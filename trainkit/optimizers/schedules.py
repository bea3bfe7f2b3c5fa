"""Learning rates that depend on the step.

Each is called with a step, a Python number or an integer tensor, and gives a float32 scalar; inside
a traced graph it becomes part of the graph.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from trainkit import ops
from trainkit.core.registry import Registry
from trainkit.core.tensor import Tensor, is_tensor
from trainkit.core.values.configurable import Configurable
from trainkit.core.values.html_text import curves
from trainkit.core.variable import Variable
from trainkit.optimizers.base.options import is_number

SCHEDULES = Registry("schedules", "learning rate schedule")


class LearningRateSchedule(Configurable, family=SCHEDULES):
    """Base of schedules: a subclass gives `__call__(step)` and `get_config()`.

    `settings` names the constructor arguments that are attributes; `get_config` gives these.
    """

    settings: ClassVar[tuple[str, ...]] = ()

    def _repr_html_(self) -> str | None:
        """What notebooks show: the curve over the steps that the settings speak of."""
        last = _steps_named_by(self)
        try:
            steps = [last * i // _POINTS for i in range(_POINTS + 1)]
            rates = [float(self(step)) for step in steps]
        except Exception:  # one of the user's that needs more than a step: its text is shown
            return None
        return curves(repr(self), {"learning rate": (steps, rates)})

    def __call__(self, step: Any) -> Any:
        """The learning rate at `step`, counted from 0."""
        raise NotImplementedError(f"{type(self).__name__} has no __call__(step)")

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments as plain data."""
        if not self.settings:
            raise NotImplementedError(f"{type(self).__name__} has no get_config()")
        return {name: getattr(self, name) for name in self.settings}


_POINTS = 60
_USUAL_STEPS = 1000


def _steps_named_by(schedule: LearningRateSchedule) -> int:
    """So many steps that the end of a schedule is seen, by the settings that count steps."""
    named = [
        value[-1] if isinstance(value, list | tuple) and value else value
        for name, value in vars(schedule).items()
        if name.endswith("_steps") or name == "boundaries"
    ]
    counts = [value for value in named if is_number(value) and value > 0]
    return max(int(1.5 * sum(counts)), 1) if counts else _USUAL_STEPS


def _check_steps(owner: str, name: str, value: Any) -> None:
    if not (is_number(value) and value > 0):
        raise ValueError(f"{owner}: {name} must be above 0, got {value!r}")


def _check_rate(owner: str, value: Any) -> None:
    if not is_number(value) and not hasattr(value, "shape"):
        raise ValueError(f"{owner}: initial_learning_rate must be a number, got {value!r}")


def _as_float(step: Any) -> Tensor:
    return ops.cast(step, "float32")


class _Decay(LearningRateSchedule):
    """What schedules have in common that go by the share `step / decay_steps`."""

    def __init__(self, initial_learning_rate: float, decay_steps: float, name: str) -> None:
        _check_steps(type(self).__name__, "decay_steps", decay_steps)
        _check_rate(type(self).__name__, initial_learning_rate)
        self.initial_learning_rate = initial_learning_rate
        self.decay_steps = decay_steps
        self.name = name


class ExponentialDecay(_Decay):
    """rate = initial * decay_rate ** (step / decay_steps).

    Args:
        initial_learning_rate: the rate at step 0.
        decay_steps: after this many steps the rate is `decay_rate` times what it was, above 0.
        decay_rate: factor.
        staircase: round `step / decay_steps` down, so that the rate falls in steps.
        name: what it is called.

    Raises:
        ValueError: `decay_steps` is 0 or less.
    """

    settings = ("initial_learning_rate", "decay_steps", "decay_rate", "staircase", "name")

    def __init__(
        self,
        initial_learning_rate: float,
        decay_steps: float,
        decay_rate: float,
        staircase: bool = False,
        name: str = "ExponentialDecay",
    ) -> None:
        super().__init__(initial_learning_rate, decay_steps, name)
        self.decay_rate = decay_rate
        self.staircase = staircase

    def __call__(self, step: Any) -> Tensor:
        share = _as_float(step) / self.decay_steps
        if self.staircase:
            share = ops.floor(share)
        return self.initial_learning_rate * ops.power(self.decay_rate, share)


class InverseTimeDecay(_Decay):
    """rate = initial / (1 + decay_rate * step / decay_steps).

    Args:
        initial_learning_rate: the rate at step 0.
        decay_steps: unit in which steps are counted, above 0.
        decay_rate: how fast the rate falls.
        staircase: round `step / decay_steps` down, so that the rate falls in steps.
        name: what it is called.

    Raises:
        ValueError: `decay_steps` is 0 or less.
    """

    settings = ("initial_learning_rate", "decay_steps", "decay_rate", "staircase", "name")

    def __init__(
        self,
        initial_learning_rate: float,
        decay_steps: float,
        decay_rate: float,
        staircase: bool = False,
        name: str = "InverseTimeDecay",
    ) -> None:
        super().__init__(initial_learning_rate, decay_steps, name)
        self.decay_rate = decay_rate
        self.staircase = staircase

    def __call__(self, step: Any) -> Tensor:
        share = _as_float(step) / self.decay_steps
        if self.staircase:
            share = ops.floor(share)
        return self.initial_learning_rate / (1 + self.decay_rate * share)


class PiecewiseConstantDecay(LearningRateSchedule):
    """`values[i]` from just after `boundaries[i - 1]` up to and including `boundaries[i]`.

    Args:
        boundaries: steps, increasing.
        values: rates, one more than boundaries.
        name: what it is called.

    Raises:
        ValueError: the lengths do not fit, or the boundaries do not increase.
    """

    settings = ("boundaries", "values", "name")

    def __init__(
        self, boundaries: Sequence[float], values: Sequence[float], name: str = "PiecewiseConstant"
    ) -> None:
        self.boundaries = [float(b) if isinstance(b, float) else int(b) for b in boundaries]
        self.values = [float(v) for v in values]
        self.name = name
        if len(self.values) != len(self.boundaries) + 1:
            raise ValueError(
                f"PiecewiseConstantDecay: {len(self.boundaries)} boundaries need "
                f"{len(self.boundaries) + 1} "
                f"values, got {len(self.values)}"
            )
        if any(b >= c for b, c in zip(self.boundaries, self.boundaries[1:], strict=False)):
            raise ValueError(
                f"PiecewiseConstantDecay: boundaries must increase, got {self.boundaries}"
            )

    def __call__(self, step: Any) -> Tensor:
        at = _as_float(step)
        rate = ops.zeros_like(at) + self.values[0]
        for boundary, value in zip(self.boundaries, self.values[1:], strict=True):
            rate = ops.where(ops.greater(at, float(boundary)), value, rate)
        return rate


class PolynomialDecay(_Decay):
    """rate = (initial - end) * (1 - step / decay_steps) ** power + end, then constant.

    Args:
        initial_learning_rate: the rate at step 0.
        decay_steps: steps until the end, above 0.
        end_learning_rate: the rate at the end.
        power: 1 for a straight line.
        cycle: begin again, stretched to the next multiple of `decay_steps`, in place of staying at
            the end.
        name: what it is called.

    Raises:
        ValueError: `decay_steps` is 0 or less.
    """

    settings = (
        "initial_learning_rate",
        "decay_steps",
        "end_learning_rate",
        "power",
        "cycle",
        "name",
    )

    def __init__(
        self,
        initial_learning_rate: float,
        decay_steps: float,
        end_learning_rate: float = 0.0001,
        power: float = 1.0,
        cycle: bool = False,
        name: str = "PolynomialDecay",
    ) -> None:
        super().__init__(initial_learning_rate, decay_steps, name)
        self.end_learning_rate = end_learning_rate
        self.power = power
        self.cycle = cycle

    def __call__(self, step: Any) -> Tensor:
        at = _as_float(step)
        if self.cycle:
            share = at / (self.decay_steps * ops.maximum(ops.ceil(at / self.decay_steps), 1.0))
        else:
            share = ops.minimum(at, float(self.decay_steps)) / self.decay_steps
        height = self.initial_learning_rate - self.end_learning_rate
        return height * ops.power(1 - share, self.power) + self.end_learning_rate


class CosineDecay(_Decay):
    """A straight warm-up, if wanted, then half a cosine down to `alpha` times its top.

    rate = top * ((1 - alpha) * (1 + cos(pi * step / decay_steps)) / 2 + alpha)
    Source: Loshchilov and Hutter 2016, arXiv:1608.03983.

    Args:
        initial_learning_rate: the rate at step 0.
        decay_steps: length of the cosine in steps, above 0.
        alpha: the rate at the end as a share of the top.
        name: what it is called.
        warmup_target: the top, which the warm-up reaches; `None` for no warm-up, the top is the
            initial rate.
        warmup_steps: length of the warm-up in steps; with 0 the rate starts at `warmup_target`.

    Raises:
        ValueError: `decay_steps` is 0 or less, `warmup_steps` is below 0 or has no `warmup_target`.
    """

    settings = (
        "initial_learning_rate",
        "decay_steps",
        "alpha",
        "name",
        "warmup_target",
        "warmup_steps",
    )

    def __init__(
        self,
        initial_learning_rate: float,
        decay_steps: float,
        alpha: float = 0.0,
        name: str = "CosineDecay",
        warmup_target: float | None = None,
        warmup_steps: float = 0,
    ) -> None:
        super().__init__(initial_learning_rate, decay_steps, name)
        if warmup_target is not None:
            if not (is_number(warmup_steps) and warmup_steps >= 0):
                raise ValueError(
                    f"CosineDecay: warmup_steps must be 0 or more, got {warmup_steps!r}"
                )
        elif warmup_steps:
            raise ValueError("CosineDecay: warmup_steps needs a warmup_target")
        self.alpha = alpha
        self.warmup_target = warmup_target
        self.warmup_steps = warmup_steps

    def _decay_from(self, at: Tensor, top: float) -> Tensor:
        share = ops.minimum(at, float(self.decay_steps)) / self.decay_steps
        cosine = 0.5 * (1 + ops.cos(math.pi * share))
        return top * ((1 - self.alpha) * cosine + self.alpha)

    def __call__(self, step: Any) -> Tensor:
        at = _as_float(step)
        if self.warmup_target is None:
            return self._decay_from(at, self.initial_learning_rate)
        if not self.warmup_steps:
            return self._decay_from(at, self.warmup_target)
        climb = (self.warmup_target - self.initial_learning_rate) * (at / self.warmup_steps)
        warm = climb + self.initial_learning_rate
        decayed = self._decay_from(at - self.warmup_steps, self.warmup_target)
        return ops.where(ops.less(at, float(self.warmup_steps)), warm, decayed)


class CosineDecayRestarts(LearningRateSchedule):
    """Half a cosine again and again, each longer by `t_mul` and higher by `m_mul`.

    Source: Loshchilov and Hutter 2016, arXiv:1608.03983.

    Args:
        initial_learning_rate: the rate at step 0.
        first_decay_steps: length of the first cosine in steps, above 0.
        t_mul: each cosine is this many times as long as the one before, at least 1.
        m_mul: and this many times as high.
        alpha: lowest rate as a share of the initial one.
        name: what it is called.

    Raises:
        ValueError: `first_decay_steps` is 0 or less, or `t_mul` below 1.
    """

    settings = ("initial_learning_rate", "first_decay_steps", "t_mul", "m_mul", "alpha", "name")

    def __init__(
        self,
        initial_learning_rate: float,
        first_decay_steps: float,
        t_mul: float = 2.0,
        m_mul: float = 1.0,
        alpha: float = 0.0,
        name: str = "SGDRDecay",
    ) -> None:
        _check_steps("CosineDecayRestarts", "first_decay_steps", first_decay_steps)
        _check_rate("CosineDecayRestarts", initial_learning_rate)
        if t_mul < 1:
            raise ValueError(f"CosineDecayRestarts: t_mul must be at least 1, got {t_mul}")
        self.initial_learning_rate = initial_learning_rate
        self.first_decay_steps = first_decay_steps
        self.t_mul = t_mul
        self.m_mul = m_mul
        self.alpha = alpha
        self.name = name

    def __call__(self, step: Any) -> Tensor:
        passed = _as_float(step) / self.first_decay_steps
        if self.t_mul == 1:
            restarts = ops.floor(passed)
            share = passed - restarts
        else:
            ratio = ops.log(1 - passed * (1 - self.t_mul)) / math.log(self.t_mul)
            restarts = ops.floor(ratio)
            length = ops.power(self.t_mul, restarts)
            share = (passed - (1 - length) / (1 - self.t_mul)) / length
        cosine = 0.5 * ops.power(self.m_mul, restarts) * (1 + ops.cos(math.pi * share))
        return self.initial_learning_rate * ((1 - self.alpha) * cosine + self.alpha)


def serialize(learning_rate_schedule: LearningRateSchedule) -> Any:
    """A schedule as plain data: `class_name` and `config`."""
    return SCHEDULES.serialize(learning_rate_schedule)


def deserialize(config: dict[str, Any], custom_objects: dict[str, Any] | None = None) -> Any:
    """The schedule that `serialize` gave as plain data.

    Args:
        config: with `class_name` and `config`.
        custom_objects: further classes by name.

    Raises:
        ValueError: there is no schedule of that name.
    """
    return SCHEDULES.deserialize(config, custom_objects)


def serialize_rate(rate: Any) -> Any:
    """A learning rate as plain data: a float, or a schedule's `class_name` and `config`.

    Raises:
        ValueError: the rate is a function.
    """
    if isinstance(rate, LearningRateSchedule):
        return serialize(rate)
    if isinstance(rate, Variable) or is_tensor(rate):
        return float(rate.numpy())
    raise ValueError(
        "a learning rate given as a function can't be written to a config; use a schedule"
    )


def deserialize_rate(rate: Any) -> Any:
    """What `serialize_rate` gave, as a float or schedule again."""
    return deserialize(rate) if isinstance(rate, dict) else rate
