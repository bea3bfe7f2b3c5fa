"""`TorchModuleWrapper`: a module of PyTorch as a layer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from trainkit.core import nest
from trainkit.core.dispatch import trace_state
from trainkit.core.errors import ConfigError, InvalidArgumentError
from trainkit.core.shapes import Spec
from trainkit.core.tensor import Tensor, is_tensor, wrap
from trainkit.core.trackable import set_silently
from trainkit.core.variable import Variable
from trainkit.interop.packages import torch_for
from trainkit.interop.torch_arrays import Holder, tensor_from_torch, torch_from_tensor
from trainkit.layers.base.layer import Layer
from trainkit.layers.foreign.outside_call import call_outside, probe_specs, results_before

_SEED = Spec((), "int64")


class TorchModuleWrapper(Layer):
    """A module of PyTorch as a layer, which trains with others in `fit` and in loops of one's own.

    Its parameters become trainable variables (non-trainable where `requires_grad` is off) and its
    buffers non-trainable ones, under their names in the module; from then on the variables hold the
    values. What the module writes to its buffers in a call, such as running means, is assigned to
    the variables. Arguments of a call, which may be nested, go to the module as tensors of the CPU;
    it runs in training mode unless `training` is false.

    The gradient runs the module a second time, with the same random numbers, which come of
    `torch.manual_seed`. In graphs, as `fit` makes them, the module is a call of Python; where sizes
    are not known, the shapes of its results come from runs on PyTorch's device "meta".

    Args:
        module: the module, on the CPU. Calls do not write to it; the attribute `module` does.
        name: of the layer.
        output_shape: of the result, with `None` for the batch size, where the module can't run on
            the device "meta"; such a module gives one tensor of the layer's dtype.
        **kwargs: `trainable` and the other arguments of layers; `dtype`, to which floating inputs
            are cast, is `"float32"` by default, and has to be that of the parameters.

    Raises:
        ImportError: PyTorch is not installed. TypeError: `module` is no `torch.nn.Module`.
        InvalidArgumentError: it has lazy parameters that have no shape yet; in a call, a value has
        a
            dtype that the other side has not.
        DeviceError: it is not on the CPU. ConfigError: a config is asked for, as by saving a whole
        model: Python code has none. Weights
            are saved by `save_weights`, checkpoints, and `state_dict()` of `module`.
        UnimplementedError: a second derivative is asked for.

    Example:
        >>> import torch
        >>> layer = tk.layers.TorchModuleWrapper(torch.nn.Linear(3, 2))
        >>> layer(tk.ones((4, 3))).shape
        TensorShape([4, 2])
        >>> [v.name for v in layer.trainable_variables]
        ['weight', 'bias']
    """

    _module: Any

    def __init__(
        self, module: Any, name: str | None = None, output_shape: Any = None, **kwargs: Any
    ) -> None:
        torch = torch_for("TorchModuleWrapper")
        if not isinstance(module, torch.nn.Module):
            raise TypeError(f"TorchModuleWrapper: module must be a torch.nn.Module, got {module!r}")
        # Modules have the dtypes of their parameters, whatever the global policy is.
        super().__init__(name=name, **{"dtype": "float32", **kwargs})
        for label, x in (*module.named_parameters(), *module.named_buffers()):
            if isinstance(x, torch.nn.parameter.UninitializedTensorMixin):
                raise InvalidArgumentError(
                    f"TorchModuleWrapper: {label!r} of the module has no shape yet; call the "
                    "module once on a tensor of PyTorch first"
                )
        self.output_shape_argument = None if output_shape is None else tuple(output_shape)
        set_silently(self, _module=module)
        self.torch_parameters = {
            label: self._variable(torch, label, x, x.requires_grad)
            for label, x in module.named_parameters()
        }
        self.torch_buffers = {
            label: self._variable(torch, label, x, False) for label, x in module.named_buffers()
        }
        self.built = True

    def _variable(self, torch: Any, label: str, x: Any, trainable: bool) -> Variable:
        value = tensor_from_torch(torch, x, "TorchModuleWrapper", copy=True)
        return self.add_weight(
            label,
            shape=tuple(value.shape),
            dtype=value.dtype,
            initializer=lambda shape, dtype=None: value,
            trainable=trainable,
            autocast=False,
        )

    @property
    def module(self) -> Any:
        """The module, with the values that the variables have now."""
        torch = torch_for("TorchModuleWrapper")
        tensors = {**dict(self._module.named_parameters()), **dict(self._module.named_buffers())}
        with torch.no_grad():
            for label, variable in {**self.torch_parameters, **self.torch_buffers}.items():
                tensors[label].copy_(torch_from_tensor(torch, Holder(variable._value), self.name))
        return self._module

    def call(self, *args: Any, training: Any = None, **kwargs: Any) -> Any:
        """The result of the module.

        Args:
            *args: of the module's `forward`, nests of tensors and Python values.
            training: false for its evaluation mode; `None` for training.
            **kwargs: of the module's `forward`.
        """
        run = _ModuleRun(self, (args, kwargs), training is None or bool(training))
        state = [*self.torch_parameters.values(), *self.torch_buffers.values()]
        inputs = [*run.inputs, *[variable._read() for variable in state]]
        specs = None
        if trace_state.current_graph() is not None:
            specs = probe_specs([Spec(x.shape, x.dtype) for x in inputs], run.specs)
        else:
            ahead = run.forward(*inputs)
            specs = [Spec(y.shape, y.dtype) for y in ahead]
            run.ahead = ahead
        results = call_outside(self.name, run.forward, run.backward, inputs, specs)
        buffers = results[1 : 1 + len(self.torch_buffers)]
        for variable, value in zip(self.torch_buffers.values(), buffers, strict=True):
            variable.assign(value)
        return nest.pack(run.structure, run.fill_result(results[1 + len(buffers) :]))

    def compute_output_shape(self, input_shape: Any) -> Any:
        """The shape of the result, `output_shape` where that was said."""
        if self.output_shape_argument is not None:
            return self.output_shape_argument
        return super().compute_output_shape(input_shape)

    def get_config(self) -> dict[str, Any]:
        """Raise: the code of a module has no config.

        Raises:
            ConfigError: always.
        """
        raise ConfigError(
            f"TorchModuleWrapper {self.name!r}: a module of PyTorch is Python code and has no "
            "config; save weights, by model.save_weights, tk.train.Checkpoint or "
            "torch.save(layer.module.state_dict()), and make the model again by its code"
        )


class _ModuleRun:
    """One call of a module: what of its arguments and result is no tensor, and how it runs.

    Attributes:
        inputs: the tensors in the arguments.
        structure: a nest like the result, after a run.
        ahead: results that are there already, for the next `forward`.
    """

    def __init__(self, layer: TorchModuleWrapper, arguments: Any, training: bool) -> None:
        self.torch = torch_for("TorchModuleWrapper")
        self.layer, self.training, self.arguments = layer, training, arguments
        self.leaves = nest.flatten(arguments)
        self.positions = [i for i, x in enumerate(self.leaves) if is_tensor(x)]
        self.inputs = [_read(self.leaves[i]) for i in self.positions]
        self.names = [*layer.torch_parameters, *layer.torch_buffers]
        self.structure: Any = None
        self.rest: list[Any] = []
        self.slots: list[int] = []
        self.ahead: list[Tensor] | None = None

    def forward(self, *tensors: Tensor) -> list[Tensor]:
        """The seed of random numbers, the buffers after the call, and the tensors of the result."""
        if self.ahead is not None:
            results, self.ahead = self.ahead, None
            return results
        torch = self.torch
        seed = int(torch.randint(0, 2**62, ()))
        with torch.no_grad():
            outputs, buffers = self._run_module(self._torch_values(tensors), seed)
        return [wrap(np.array(seed)), *[self._tensor(y) for y in (*buffers, *outputs)]]

    def backward(self, *tensors: Tensor) -> list[Tensor]:
        """Gradients of the smooth inputs: the module runs once more, recorded by PyTorch."""
        torch = self.torch
        count = len(tensors) - len(self.inputs) - len(self.names)
        results = results_before(tensors, count)
        operands = tensors[len(results) :]
        used = [y.dtype.is_differentiable for y in results]
        upstream = iter(operands[: sum(used)])
        values = self._torch_values(operands[sum(used) :])
        # Buffers are written to by the module, and nothing in a record of PyTorch may be.
        smooth = [x for x in values if x.is_floating_point() or x.is_complex()]
        buffers = {id(x) for x in values[len(values) - len(self.layer.torch_buffers) :]}
        leaves = [x.requires_grad_() for x in smooth if id(x) not in buffers]
        # Modules may write to what they get, which PyTorch allows for no leaf of a record.
        copies = [x.clone() if x.requires_grad else x for x in values[: len(self.inputs)]]
        with torch.enable_grad():
            outputs, after = self._run_module([*copies, *values[len(copies) :]], int(results[0]))
        targets, gradients = [], []
        for y, is_used in zip((*after, *outputs), used[1:], strict=True):
            if is_used:
                g = next(upstream)
                if y.requires_grad:
                    targets.append(y)
                    gradients.append(torch_from_tensor(torch, Holder(g), self.layer.name))
        by_id: dict[int, Any] = {}
        if targets:
            by_leaf = torch.autograd.grad(targets, leaves, gradients, allow_unused=True)
            by_id = {id(x): g for x, g in zip(leaves, by_leaf, strict=True) if g is not None}
        zeros = torch.zeros_like
        return [self._tensor(by_id[id(x)] if id(x) in by_id else zeros(x)) for x in smooth]

    def specs(self, specs: list[Spec]) -> list[Spec]:
        """What `forward` would give for inputs like these, by a run without values."""
        torch = self.torch
        layer = self.layer
        values = [
            torch.empty(tuple(s.shape), dtype=_torch_dtype(torch, s, layer.name), device="meta")
            for s in specs
        ]
        state = [Spec(v.shape, v.dtype) for v in layer.torch_buffers.values()]
        if layer.output_shape_argument is not None:
            self.structure, self.rest, self.slots = None, [None], [0]
            return [_SEED, *state, Spec(layer.output_shape_argument, layer.compute_dtype)]
        try:
            with torch.no_grad():
                outputs, _ = self._run_module(values, 0)
        except Exception as error:
            error.add_note(
                f"layer {layer.name!r}: the module was run without values, on the device 'meta', "
                "for the shape of its result; say it by "
                "TorchModuleWrapper(module, output_shape=...)"
            )
            raise
        return [
            _SEED,
            *state,
            *[Spec(tuple(y.shape), str(y.dtype).removeprefix("torch.")) for y in outputs],
        ]

    def _run_module(self, values: list[Any], seed: int) -> tuple[list[Any], list[Any]]:
        """The tensors in the result, and the buffers afterwards."""
        torch, module = self.torch, self.layer._module
        count = len(self.inputs)
        leaves = list(self.leaves)
        for i, x in zip(self.positions, values[:count], strict=True):
            leaves[i] = x
        args, kwargs = nest.pack(self.arguments, leaves)
        state = dict(zip(self.names, values[count:], strict=True))
        with _mode(module, self.training), torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            result = torch.func.functional_call(module, state, args, kwargs)
        flat = nest.flatten(result)
        self.slots = [i for i, y in enumerate(flat) if isinstance(y, torch.Tensor)]
        self.structure = nest.map_structure(lambda _: None, result)
        self.rest = [None if isinstance(y, torch.Tensor) else y for y in flat]
        return [flat[i] for i in self.slots], [state[name] for name in self.layer.torch_buffers]

    def fill_result(self, outputs: list[Any]) -> list[Any]:
        """The leaves of the result, with tensors of trainkit."""
        leaves = list(self.rest)
        for i, y in zip(self.slots, outputs, strict=True):
            leaves[i] = y
        return leaves

    def _torch_values(self, tensors: Any) -> list[Any]:
        # Copies, unless nobody else has them: the module may write to what it gets.
        return [torch_from_tensor(self.torch, Holder(x), self.layer.name) for x in tensors]

    def _tensor(self, y: Any) -> Tensor:
        # A copy where the memory is somebody else's: a module may return what it holds.
        return tensor_from_torch(self.torch, y, self.layer.name, copy=True)


def _read(x: Any) -> Tensor:
    tensor: Tensor = x._read() if isinstance(x, Variable) else x
    return tensor


def _torch_dtype(torch: Any, spec: Spec, name: str) -> Any:
    dtype = getattr(torch, spec.dtype.name, None)
    if not isinstance(dtype, torch.dtype):
        raise InvalidArgumentError(
            f"layer {name!r}: an input has dtype {spec.dtype.name}, which PyTorch has not"
        )
    return dtype


@contextmanager
def _mode(module: Any, training: bool) -> Iterator[None]:
    """Run the module in training or evaluation mode, each part of it as it was afterwards."""
    modes = [(part, part.training) for part in module.modules()]
    module.train(training)
    try:
        yield
    finally:
        for part, mode in modes:
            part.training = mode
