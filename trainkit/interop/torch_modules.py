"""A layer or model of trainkit as a `torch.nn.Module`."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import Any

from trainkit.core.errors import InvalidArgumentError
from trainkit.core.variable import Variable
from trainkit.interop.torch_arrays import Holder, tensor_from_torch, torch_from_tensor


class VariableLink:
    """A variable and the parameter or buffer that stands for it.

    Attributes:
        variable: of trainkit.
        name: of the parameter or buffer.
        tensor: that of PyTorch, when both were last equal.
        version: PyTorch's count of writes to it then.
        value: the variable's tensor then, held so that an assignment gives another one.
    """

    def __init__(self, variable: Variable, name: str) -> None:
        self.variable, self.name = variable, name
        self.tensor: Any = None
        self.version = -1
        self.value: Any = None

    def agree(self, tensor: Any) -> None:
        """Note that both have the same values now."""
        self.tensor, self.version = tensor, tensor._version
        self.value = self.variable._value

    def __deepcopy__(self, memo: dict[int, Any]) -> VariableLink:
        twin = VariableLink(copy.deepcopy(self.variable, memo), self.name)
        twin.tensor = copy.deepcopy(self.tensor, memo)
        if self.version == self.tensor._version:
            twin.version = twin.tensor._version
        if self.value is self.variable._value:
            twin.value = twin.variable._value
        return twin


def _agree(torch: Any, link: VariableLink, tensor: Any, label: str) -> None:
    """Give both sides of a link the values of the one that has changed; PyTorch's by default.

    Writes through `.data` are not counted by PyTorch, so its values are taken without a question.
    """
    written = tensor is not link.tensor or tensor._version != link.version
    if link.variable._value is link.value:
        value = tensor_from_torch(torch, tensor, label, copy=True)
        if value.dtype != link.variable.dtype or value.shape != link.variable.shape:
            raise InvalidArgumentError(
                f"{label}: {link.name!r} is {value.dtype.name} {tuple(value.shape)} in PyTorch, "
                f"the variable {link.variable.dtype.name} {tuple(link.variable.shape)}; make the "
                "layer with that dtype"
            )
        link.variable.assign(value)
    elif written:
        raise RuntimeError(
            f"{label}: {link.name!r} was changed both in PyTorch and in trainkit since the last "
            "call; change it on one side between two calls"
        )
    else:
        to_torch(torch, link, tensor, label)
    link.agree(tensor)


def _own_memory(variable: Variable) -> None:
    """Copy a value that may be an argument of the call, whose memory is PyTorch's."""
    if variable._value._array.base is not None:
        variable.assign(variable.numpy())


def to_torch(torch: Any, link: VariableLink, tensor: Any, label: str) -> None:
    """Write the value of a variable to the tensor of PyTorch."""
    with torch.no_grad():
        tensor.copy_(torch_from_tensor(torch, Holder(link.variable._value), label))


@functools.cache
def module_class(torch: Any, call_recorded: Callable[..., Any]) -> Any:
    """The class of modules around layers.

    Args:
        torch: the module.
        call_recorded: runs a function as a step of PyTorch's record.
    """

    class TrainkitModule(torch.nn.Module):
        """A layer of trainkit whose variables are parameters and buffers of PyTorch."""

        def __init__(self, layer: Any) -> None:
            super().__init__()
            if not layer.built:
                raise ValueError(
                    f"torch_function of {layer.name!r}: the layer is not built, so it has no "
                    "variables yet; call it once or layer.build(input_shape) first"
                )
            self.layer = layer
            self._parameter_links = self._links_to(layer.trainable_variables, True)
            self._buffer_links = self._links_to(layer.non_trainable_variables, False)

        def _links_to(self, variables: Any, trainable: bool) -> list[VariableLink]:
            links = []
            for variable in variables:
                name = self._free_name(variable.path.replace(".", "_"))
                tensor = torch_from_tensor(torch, Holder(variable._value), self._label())
                if trainable:
                    tensor = torch.nn.Parameter(tensor)
                    self.register_parameter(name, tensor)
                else:
                    self.register_buffer(name, tensor)
                link = VariableLink(variable, name)
                link.agree(tensor)
                links.append(link)
            return links

        def _free_name(self, name: str) -> str:
            free, number = name, 0
            while hasattr(self, free):
                number += 1
                free = f"{name}_{number}"
            return free

        def _label(self) -> str:
            return f"torch_function of {self.layer.name!r}"

        def extra_repr(self) -> str:
            return repr(self.layer.name)

        def forward(self, *args: Any, **kwargs: Any) -> Any:
            return _outside_graphs(torch, self, args, kwargs)

        def run(self, args: Any, kwargs: dict[str, Any]) -> Any:
            """Call the layer, with equal values on both sides before and after."""
            label = self._label()
            # A layer without this argument passes it on to those inside.
            kwargs = {"training": self.training, **kwargs}
            for link in (*self._parameter_links, *self._buffer_links):
                _agree(torch, link, getattr(self, link.name), label)
            parameters = [getattr(self, link.name) for link in self._parameter_links]
            variables = [link.variable for link in self._parameter_links]
            result = call_recorded(torch, self.layer, label, (args, kwargs), variables, parameters)
            for link in self._buffer_links:
                if link.variable._value is not link.value:
                    _own_memory(link.variable)
                    buffer = getattr(self, link.name)
                    to_torch(torch, link, buffer, label)
                    link.agree(buffer)
            return result

    return TrainkitModule


def _outside_graphs(torch: Any, module: Any, args: Any, kwargs: Any) -> Any:
    """The call of a module, which `torch.compile` leaves alone."""
    return _run_outside(torch)(module, args, kwargs)


@functools.cache
def _run_outside(torch: Any) -> Any:
    def run(module: Any, args: Any, kwargs: Any) -> Any:
        return module.run(args, kwargs)

    return torch.compiler.disable(run)
