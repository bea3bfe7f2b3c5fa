"""`torch_function`: a function of trainkit as one of PyTorch, with gradients."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from trainkit.autodiff.tape import GradientTape
from trainkit.core import nest
from trainkit.core.dispatch import trace_state
from trainkit.core.dispatch.eval_shape import eagerly
from trainkit.core.tensor import Tensor, convert_to_tensor, is_tensor
from trainkit.core.variable import Variable
from trainkit.interop.packages import torch_for
from trainkit.interop.torch_arrays import Holder, tensor_from_torch, torch_from_tensor
from trainkit.interop.torch_modules import module_class


def torch_function(fn: Callable[..., Any]) -> Any:
    """A function, layer or model of trainkit as one that PyTorch calls and differentiates.

    Tensors of PyTorch in the arguments, which may be nested, come to `fn` as tensors of trainkit,
    and what it returns goes back; `None` and Python values pass as they are. Inside, a tape records
    what `fn` does, and `backward()` of PyTorch asks it for the gradients, from any thread.

    Contiguous arguments are lent without a copy. PyTorch counts what is written to them and refuses
    `backward()` if one has changed since, as for operations of its own; what `fn` itself keeps of
    an argument beyond the call, in a list or by `Variable.assign`, has to be a copy, `tk.constant(
    x.numpy())`. Results are PyTorch's to write to: an array is handed over where nothing of
    trainkit holds it, and copied otherwise, as always where a gradient is recorded.

    A layer or model, which must be built, becomes a `torch.nn.Module`. Its parameters are the
    trainable variables and its buffers the others, under their paths, so optimizers, `state_dict()`
    and `load_state_dict()` of PyTorch work with them. The module calls the layer with
    `training=module.training`. Before each call the variables take the values of the parameters and
    buffers; variables that trainkit has changed since the last call, as by `set_weights`, are
    copied to the module instead. Losses of regularizers and `add_loss` stay in
    `module.layer.losses`.

    A second derivative is refused: `create_graph=True` raises, and so do the transforms of
    `torch.func`. `torch.compile` leaves the call out of its graph and, with `fullgraph=True`,
    refuses it.

    Args:
        fn: function of tensors, or a layer or model that is built.

    Returns:
        A function of tensors of PyTorch on the CPU, or a `torch.nn.Module`.

    Raises:
        ImportError: PyTorch is not installed.
        TypeError: `fn` is not callable.
        ValueError: a layer is not built; in a call that records gradients, `fn` reads trainable
            variables, which PyTorch would not see.
        DeviceError: in a call, a tensor is not on the CPU.
        InvalidArgumentError: in a call, a dtype has no counterpart.
        RuntimeError: in `backward()`, with `create_graph=True`; or an argument was written to.

    Example:
        >>> import torch
        >>> square = tk.interop.torch_function(lambda x: x * x)
        >>> x = torch.tensor(3.0, requires_grad=True)
        >>> square(x).backward()
        >>> x.grad
        tensor(6.)
    """
    torch = torch_for("tk.interop.torch_function")
    if not callable(fn):
        raise TypeError(f"torch_function: give a function, layer or model, got {fn!r}")
    if hasattr(fn, "trainable_variables") and hasattr(fn, "built"):
        return module_class(torch, call_recorded)(fn)
    name = f"torch_function of {getattr(fn, '__name__', type(fn).__name__)!r}"

    def call(*args: Any, **kwargs: Any) -> Any:
        return call_recorded(torch, fn, name, (args, kwargs))

    functools.update_wrapper(call, fn)
    return torch.compiler.disable(call)


class _RecordedCall:
    """One call of a function: what PyTorch does not need to see.

    Attributes:
        fn: the function.
        name: for errors.
        arguments: nest of the arguments.
        positions: which of its leaves are tensors of PyTorch.
        variables: those whose values are the parameters that stand behind the tensors.
        records: whether gradients may be asked for.
        result: after the call, a nest like its result, with `None` for tensors.
    """

    def __init__(
        self, fn: Any, name: str, arguments: Any, positions: list[int], variables: list[Variable]
    ) -> None:
        self.fn, self.name = fn, name
        self.leaves = nest.flatten(arguments)
        self.arguments = arguments
        self.positions = positions
        self.variables = variables
        self.records = False
        self.result: Any = None
        self.slots: list[int] = []

    def run(self, tensors: list[Tensor]) -> Any:
        """The function's result for these tensors in the place of PyTorch's."""
        leaves = list(self.leaves)
        for i, x in zip(self.positions, tensors, strict=True):
            leaves[i] = x
        args, kwargs = nest.pack(self.arguments, leaves)
        return self.fn(*args, **kwargs)

    def outputs_of(self, result: Any) -> list[Tensor]:
        """The tensors in a result; the rest is remembered."""
        leaves = nest.flatten(result)
        self.slots = [i for i, y in enumerate(leaves) if is_tensor(y) or _is_array(y)]
        outputs = [_value_of(leaves[i]) for i in self.slots]
        for i in self.slots:
            leaves[i] = None
        self.result = (nest.map_structure(lambda _: None, result), leaves)
        return outputs

    def pack_result(self, outputs: tuple[Any, ...]) -> Any:
        """The result with tensors of PyTorch in their positions."""
        structure, leaves = self.result
        for i, y in zip(self.slots, outputs, strict=True):
            leaves[i] = y
        return nest.pack(structure, leaves)


def _is_array(y: Any) -> bool:
    return isinstance(y, np.ndarray | np.generic)


def _value_of(y: Any) -> Tensor:
    return y if type(y) is Tensor else convert_to_tensor(y)


def call_recorded(
    torch: Any, fn: Any, name: str, arguments: Any, variables: Any = (), parameters: Any = ()
) -> Any:
    """The result of `fn`, as a step of PyTorch's record.

    Args:
        torch: the module.
        fn: function of tensors of trainkit.
        name: for errors.
        arguments: the pair of positional and keyword arguments.
        variables: of trainkit, that gradients go to.
        parameters: of PyTorch, with the same values, in the same order.
    """
    leaves = nest.flatten(arguments)
    positions = [i for i, x in enumerate(leaves) if isinstance(x, torch.Tensor)]
    call = _RecordedCall(fn, name, arguments, positions, list(variables))
    tensors = [leaves[i] for i in positions]
    call.records = torch.is_grad_enabled() and any(x.requires_grad for x in (*tensors, *parameters))
    outputs = _function_class(torch).apply(call, *tensors, *parameters)
    return call.pack_result(outputs)


@functools.cache
def _function_class(torch: Any) -> Any:
    """The `autograd.Function` of all functions of trainkit."""

    class TrainkitFunction(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, call: _RecordedCall, *tensors: Any) -> tuple[Any, ...]:
            count = len(call.positions)
            inputs = [tensor_from_torch(torch, x, call.name) for x in tensors[:count]]
            sources: list[Any] = [*inputs, *call.variables]
            needs = ctx.needs_input_grad[1:] if call.records else (False,) * len(tensors)
            with eagerly(), trace_state.silence():
                if call.records:
                    ctx.tape = GradientTape(persistent=True)
                    with ctx.tape:
                        ctx.tape.watch([x for x, need in zip(inputs, needs, strict=False) if need])
                        result = call.run(inputs)
                    _check_variables(ctx.tape, call)
                else:
                    result = call.run(inputs)
                outputs = call.outputs_of(result)
            if call.records:
                ctx.call_name = call.name
                ctx.targets = list(outputs)
                ctx.sources = [x if need else None for x, need in zip(sources, needs, strict=True)]
                ctx.save_for_backward(*tensors[:count])
                ctx.set_materialize_grads(False)
            inputs = sources = result = None  # type: ignore[assignment]
            results = []
            while outputs:
                results.append(torch_from_tensor(torch, Holder(outputs.pop(0)), call.name))
            ctx.mark_non_differentiable(
                *[y for y in results if not (y.is_floating_point() or y.is_complex())]
            )
            return tuple(results)

        @staticmethod
        def backward(ctx: Any, *upstream: Any) -> tuple[Any, ...]:
            if torch.is_grad_enabled():
                raise RuntimeError(
                    f"{ctx.call_name}: create_graph=True asks for a gradient that can be "
                    "differentiated again, which PyTorch can't have of a function of trainkit; "
                    "leave it out, or take the first gradient inside of the function, with a "
                    "tk.GradientTape"
                )
            _ = ctx.saved_tensors  # raises if one was written to, or the record was freed
            pairs = [
                (y, tensor_from_torch(torch, g, ctx.call_name))
                for y, g in zip(ctx.targets, upstream, strict=True)
                if g is not None and y.dtype.is_differentiable
            ]
            needed = [i for i, source in enumerate(ctx.sources) if source is not None]
            results: list[Any] = [None] * len(ctx.sources)
            if pairs and needed:
                with eagerly(), trace_state.silence():
                    gradients = ctx.tape.gradient(
                        [y for y, _ in pairs],
                        [ctx.sources[i] for i in needed],
                        [g for _, g in pairs],
                    )
                    while needed:
                        i, gradient = needed.pop(), gradients.pop()
                        if gradient is not None:
                            holder = Holder(_value_of(gradient))
                            gradient = None
                            results[i] = torch_from_tensor(torch, holder, ctx.call_name)
            return (None, *results)

    return TrainkitFunction


def _check_variables(tape: GradientTape, call: _RecordedCall) -> None:
    """Refuse to drop the gradients of variables that PyTorch does not know."""
    own = {id(v) for v in call.variables}
    unknown = [v.name for v in tape.watched_variables() if id(v) not in own]
    if unknown:
        raise ValueError(
            f"{call.name} reads the trainable variables {unknown}, whose gradients PyTorch would "
            "not see; give torch_function the layer or model itself, whose variables become "
            "parameters, or set trainable=False for them"
        )
