"""`SourceModule`: the arrays of a file by the modules of PyTorch that they belong to."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

Shape = tuple[int, ...]

IGNORED = ("num_batches_tracked",)
"""Last parts of names that no layer has a weight for: counts of steps."""

_RECURRENT = re.compile(r"(weight_ih|weight_hh|bias_ih|bias_hh)(?:_l(\d+))?(_reverse)?")
_CELLS = (
    {"ii", "if", "ig", "io", "hi", "hf", "hg", "ho"},
    {"iz", "ir", "in", "hz", "hr", "hn"},
    {"i", "h"},
)
_ATTENTION = ("in_proj_weight", "q_proj_weight")
_OUTPUT = "out_proj"

_ROLES = {
    **dict.fromkeys(("q", "wq", "q_proj", "q_lin", "query", "to_q", "query_dense"), "query"),
    **dict.fromkeys(("k", "wk", "k_proj", "k_lin", "key", "to_k", "key_dense"), "key"),
    **dict.fromkeys(("v", "wv", "v_proj", "v_lin", "value", "to_v", "value_dense"), "value"),
    **dict.fromkeys(("wo", "o_proj", "out_proj", "out_lin", "to_out", "output_dense"), "output"),
}


@dataclass(eq=False)
class SourceModule:
    """Arrays that one layer takes.

    Attributes:
        name: what their names have in common.
        names: of the arrays in the file, by parameter.
        shapes: of these, by parameter.
        is_reverse: whether they are a recurrent layer's that runs from the last step.
        is_output: whether it is the `out` beside a `query`, a `key` and a `value`.
    """

    name: str
    names: dict[str, str] = field(default_factory=dict)
    shapes: dict[str, Shape] = field(default_factory=dict)
    is_reverse: bool = False
    is_output: bool = False

    @property
    def signature(self) -> tuple[bool, frozenset[tuple[str, Shape]]]:
        """Names and shapes of its parameters, to be compared with those of layers."""
        return self.is_reverse, frozenset(self.shapes.items())

    @property
    def role(self) -> str | None:
        """What projection of an attention it is, by its name; None for anything else."""
        return "output" if self.is_output else role_of(self.name)

    def add(self, param: str, name: str, shape: Shape) -> None:
        """Take an array."""
        self.names[param] = name
        self.shapes[param] = shape


def role_of(name: str) -> str | None:
    """What projection of an attention a module or layer is, by the last part of its name."""
    return _ROLES.get(last_part(name))


def modules_of(shapes: Mapping[str, Shape]) -> dict[str, SourceModule]:
    """The modules in the order of their first arrays, by name.

    What a multi-head attention has in its part `out_proj` belongs to it, and a recurrent module of
    several layers and directions is as many: `lstm.weight_ih_l0` and `lstm.weight_ih_l1`. The gates
    of a recurrent cell of Flax are one: `LSTMCell_0` has the parameter `ii/kernel`.
    """
    attentions = {
        name.rpartition(".")[0] for name in shapes if name.rpartition(".")[2] in _ATTENTION
    }
    modules: dict[str, SourceModule] = {}
    for full, shape in shapes.items():
        base, param = _split(full)
        above, _, last = base.rpartition(".")
        if last == _OUTPUT and above in attentions:
            base, param = above, f"{_OUTPUT}.{param}"
        match = _RECURRENT.fullmatch(param)
        is_reverse = False
        if match is not None:
            param, number, direction = match[1], match[2], match[3]
            is_reverse = direction is not None
            if number is not None:
                base = f"{base}.l{number}{direction or ''}".lstrip(".")
        module = modules.setdefault(base, SourceModule(base, is_reverse=is_reverse))
        module.add(param, full, shape)
    return _with_cells(modules)


def _with_cells(modules: dict[str, SourceModule]) -> dict[str, SourceModule]:
    """Modules, with those of Flax's recurrent cells joined that have one for each gate."""
    children: dict[str, dict[str, SourceModule]] = {}
    for name, module in modules.items():
        above, last = _split(name)
        children.setdefault(above, {})[last] = module
    for siblings in children.values():
        if "out" in siblings and {"query", "key", "value"} <= siblings.keys():
            siblings["out"].is_output = True
    cells = {above for above, siblings in children.items() if siblings.keys() in _CELLS}
    joined: dict[str, SourceModule] = {}
    for name, module in modules.items():
        above, last = _split(name)
        if above in cells and "kernel" in module.names:
            cell = joined.setdefault(above, SourceModule(above))
            for param, full in module.names.items():
                cell.add(f"{last}/{param}", full, module.shapes[param])
        else:
            joined[name] = module
    return joined


def _split(name: str) -> tuple[str, str]:
    """The module and the parameter in a name with dots, or with slashes as Keras and Flax write."""
    at = max(name.rfind("."), name.rfind("/"))
    return (name[:at], name[at + 1 :]) if at >= 0 else ("", name)


def last_part(name: str) -> str:
    """The last part of a name with dots or slashes that is no number."""
    parts = [part for part in re.split(r"[./]", name) if part and not part.isdigit()]
    return parts[-1] if parts else ""


def template(name: str) -> str:
    """A name with its numbers left out: those of one list have the same."""
    return re.sub(r"\d+", "#", name)


def natural_key(name: str) -> list[tuple[int, int, str]]:
    """What puts `layers.10` after `layers.9`."""
    parts = re.split(r"(\d+)", name)
    return [(0, int(p), "") if p.isdecimal() and p.isascii() and len(p) < 20 else (1, 0, p)
            for p in parts]  # fmt: skip
