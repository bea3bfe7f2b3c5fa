"""Gradients: tapes, rules of users, forward mode, and the check of rules against differences."""

from typing import TYPE_CHECKING

from trainkit import ops as ops
from trainkit.autodiff.custom_vjp import custom_gradient as custom_gradient
from trainkit.autodiff.forward import ForwardAccumulator as ForwardAccumulator
from trainkit.autodiff.forward import hessian as hessian
from trainkit.autodiff.forward import jvp as jvp
from trainkit.autodiff.tape import GradientTape as GradientTape
from trainkit.autodiff.tape import NoGradientWarning as NoGradientWarning
from trainkit.autodiff.tape import UnconnectedGradients as UnconnectedGradients
from trainkit.core.process.later_imports import later_members as _later_members
from trainkit.ops.arrays.conversion import stop_gradient as stop_gradient

if TYPE_CHECKING:
    from trainkit.autodiff.check import check_gradient as check_gradient
    from trainkit.autodiff.custom_vjp_check import GradientMismatchError as GradientMismatchError
    from trainkit.autodiff.functional import gradients_function as gradients_function
    from trainkit.autodiff.functional import implicit_gradients as implicit_gradients
    from trainkit.autodiff.functional import (
        implicit_value_and_gradients as implicit_value_and_gradients,
    )
    from trainkit.autodiff.functional import (
        value_and_gradients_function as value_and_gradients_function,
    )
    from trainkit.autodiff.recompute import recompute_grad as recompute_grad

# name: the file that holds it, which is loaded when it is asked for
_LATER = {
    "check_gradient": "check",
    "GradientMismatchError": "custom_vjp_check",
    "gradients_function": "functional",
    "implicit_gradients": "functional",
    "implicit_value_and_gradients": "functional",
    "value_and_gradients_function": "functional",
    "recompute_grad": "recompute",
}

# Keras has these two among its operations, which stand below.
ops.custom_gradient = custom_gradient
ops.jvp = ops.linalg.jvp = jvp


if not TYPE_CHECKING:  # names that are not there are errors in editors
    __getattr__ = _later_members(globals(), {n: f"{__name__}.{file}" for n, file in _LATER.items()})


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER} - {"TYPE_CHECKING"})
