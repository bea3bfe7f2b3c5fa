"""The names of the first eager API: `import trainkit.eager as tfe`."""

from trainkit.autodiff.custom_vjp import custom_gradient as custom_gradient
from trainkit.autodiff.functional import gradients_function as gradients_function
from trainkit.autodiff.functional import implicit_gradients as implicit_gradients
from trainkit.autodiff.functional import (
    implicit_value_and_gradients as implicit_value_and_gradients,
)
from trainkit.autodiff.functional import (
    value_and_gradients_function as value_and_gradients_function,
)
from trainkit.autodiff.tape import GradientTape as GradientTape
from trainkit.core.dispatch.trace_state import enable_eager_execution as enable_eager_execution
from trainkit.core.dispatch.trace_state import executing_eagerly as executing_eagerly
from trainkit.core.variable import Variable as Variable
from trainkit.data import Iterator as Iterator
from trainkit.models.network import Network as Network
