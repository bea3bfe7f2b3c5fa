"""cuDNN's frontend of the stand-in: graphs that NumPy executes at the addresses they are given.

What a description says of sizes, strides, dtypes and nodes is what is computed, so the wiring of
each kernel is put to the test by values. Which plans a real cuDNN has, and how fast they are, is
not.
"""

import ctypes
import enum
import functools
import json
import types

import ml_dtypes
import numpy as np

from tests.stand_in import cudnn_formulas as formulas
from tests.stand_in import memory, streams

__version__ = "1.28.0 (stand-in)"
data_type = enum.Enum("data_type", "NOT_SET FLOAT HALF BFLOAT16")
heur_mode = enum.Enum("heur_mode", "A B FALLBACK")
numerical_note = enum.Enum(
    "numerical_note", "TENSOR_CORE DOWN_CONVERT_INPUTS REDUCED_PRECISION_REDUCTION NONDETERMINISTIC"
)
diagonal_alignment = enum.Enum("diagonal_alignment", "TOP_LEFT BOTTOM_RIGHT")
norm_forward_phase = enum.Enum("norm_forward_phase", "INFERENCE TRAINING NOT_SET")
_DTYPES = {
    data_type.FLOAT: np.dtype("f4"),
    data_type.HALF: np.dtype("f2"),
    data_type.BFLOAT16: np.dtype(ml_dtypes.bfloat16),
}
_WINDOWS = ("pre_padding", "post_padding", "stride", "dilation")


class cudnnGraphNotSupportedError(RuntimeError):
    """What the frontend raises where there is no plan."""


class State:
    """What tests look at and change.

    Attributes:
        refused: names of nodes that there is no plan for, and "uneven padding".
        plans: how many plans there are for each graph.
        keeps: whether graphs can be put into bytes.
        stored: these graphs.
        built: each graph that was built, as the names of its nodes.
        executed: the same of each execution, with the place of the plan.
        unwanted: notes that were deselected for the last graph.
        handles: how many there are.
    """

    def __init__(self):
        self.reset()

    def reset(self):
        self.refused, self.plans, self.keeps = set(), 1, False

        self.stored, self.built, self.executed, self.unwanted = [], [], [], []
        self.handles = 0


STATE = State()


class _Handle:
    def __init__(self):
        self.stream = 0


def backend_version():
    return 92800


def create_handle():
    if streams.capturing() is not None:
        raise AssertionError("a handle was made during a capture")
    STATE.handles += 1
    return _Handle()


def destroy_handle(handle):
    STATE.handles -= 1


def set_stream(handle, stream):
    handle.stream = stream


class Tensor:
    """A tensor of a graph; setters give it back, as the frontend's do."""

    def __init__(self, dim=(), stride=(), data_type=None, uid=0, name="", by_value=False):
        self.dim, self.stride, self.data_type = tuple(dim), tuple(stride), data_type
        self.uid, self.name, self.by_value, self.is_output = uid, name, by_value, False

    def set_output(self, value):
        self.is_output = value
        return self

    def set_data_type(self, value):
        self.data_type = value
        return self

    def set_dim(self, value):
        self.dim = tuple(value)
        return self

    def set_stride(self, value):
        self.stride = tuple(value)
        return self

    def set_uid(self, value):
        self.uid = value
        return self

    def set_name(self, value):
        self.name = value
        return self


class Node(types.SimpleNamespace):
    """`name`, `inputs` by name, `settings` and `outputs`."""


class pygraph:
    """`cudnn.pygraph`."""

    def __init__(
        self,
        name="graph",
        io_data_type=None,
        intermediate_data_type=None,
        compute_data_type=None,
        handle=None,
        sm_version=None,
    ):
        self.nodes, self._tensors, self._stage, self._plan = [], [], "new", None
        self._wide = compute_data_type

    def tensor(self, *, name, dim, stride, data_type, uid, is_pass_by_value=False):
        if len(dim) != len(stride):
            raise ValueError(f"{name}: {dim} and {stride} are of different rank")
        made = Tensor(dim, stride, data_type, uid, name, is_pass_by_value)
        self._tensors.append(made)
        return made

    def _node(self, name, inputs, settings, count=1):
        outputs = [Tensor() for _ in range(count)]
        inputs = {k: x for k, x in inputs.items() if x is not None}
        assert all(isinstance(x, Tensor) for x in inputs.values()), inputs
        self.nodes.append(Node(name=name, inputs=inputs, settings=settings, outputs=outputs))
        return outputs[0] if count == 1 else outputs

    def conv_fprop(self, *, image, weight, pre_padding, post_padding, stride, dilation):
        given = dict(zip(_WINDOWS, (pre_padding, post_padding, stride, dilation), strict=True))
        return self._node("conv_fprop", {"image": image, "weight": weight}, given)

    def conv_dgrad(self, *, loss, filter, pre_padding, post_padding, stride, dilation):
        given = dict(zip(_WINDOWS, (pre_padding, post_padding, stride, dilation), strict=True))
        return self._node("conv_dgrad", {"loss": loss, "filter": filter}, given)

    def conv_wgrad(self, *, image, loss, pre_padding, post_padding, stride, dilation):
        given = dict(zip(_WINDOWS, (pre_padding, post_padding, stride, dilation), strict=True))
        return self._node("conv_wgrad", {"image": image, "loss": loss}, given)

    def bias(self, *, input, bias):
        return self._node("bias", {"input": input, "bias": bias}, {})

    def relu(self, *, input):
        return self._node("relu", {"input": input}, {})

    def sdpa(
        self, *, q, k, v, attn_scale, generate_stats, bias=None,
        diagonal_alignment=None, diagonal_band_right_bound=None,
    ):  # fmt: skip
        settings = _attention(attn_scale, diagonal_alignment, diagonal_band_right_bound)
        made = self._node("sdpa", {"q": q, "k": k, "v": v, "bias": bias}, settings, 2)
        return made if generate_stats else [made[0], None]

    def sdpa_backward(
        self, *, q, k, v, o, dO, stats, attn_scale, use_deterministic_algorithm, bias=None,
        diagonal_alignment=None, diagonal_band_right_bound=None,
    ):  # fmt: skip
        settings = _attention(attn_scale, diagonal_alignment, diagonal_band_right_bound)
        given = {"q": q, "k": k, "v": v, "o": o, "dO": dO, "stats": stats, "bias": bias}
        return self._node("sdpa_backward", given, settings, 3)

    def batchnorm(
        self, *, input, scale, bias, in_running_mean, in_running_var, epsilon, momentum
    ):  # fmt: skip
        given = {"input": input, "scale": scale, "bias": bias, "epsilon": epsilon}
        given |= {"in_running_mean": in_running_mean, "in_running_var": in_running_var}
        return self._node("batchnorm", given | {"momentum": momentum}, {}, 5)

    def batchnorm_backward(self, *, grad, input, scale, mean, inv_variance):
        given = {"grad": grad, "input": input, "scale": scale}
        given |= {"mean": mean, "inv_variance": inv_variance}
        return self._node("batchnorm_backward", given, {}, 3)

    def layernorm(self, *, norm_forward_phase, input, scale, bias, epsilon):
        given = {"input": input, "scale": scale, "bias": bias, "epsilon": epsilon}
        return _of_phase(norm_forward_phase, self._node("layernorm", given, {}, 3))

    def layernorm_backward(self, *, grad, input, scale, mean, inv_variance):
        given = {"grad": grad, "input": input, "scale": scale}
        given |= {"mean": mean, "inv_variance": inv_variance}
        return self._node("layernorm_backward", given, {}, 3)

    def rmsnorm(self, *, norm_forward_phase, input, scale, epsilon):
        given = {"input": input, "scale": scale, "epsilon": epsilon}
        return _of_phase(norm_forward_phase, self._node("rmsnorm", given, {}, 2))

    def rmsnorm_backward(self, *, grad, input, scale, inv_variance, has_dbias):
        assert not has_dbias
        given = {"grad": grad, "input": input, "scale": scale, "inv_variance": inv_variance}
        return [*self._node("rmsnorm_backward", given, {}, 2), None]

    # ------------------------------------------------------------------ plans

    def _goes_on(self, before, now):
        if self._stage != before:
            raise RuntimeError(f"{now} after {self._stage}, and not after {before}")
        self._stage = now

    def validate(self):
        self._goes_on("new", "validated")
        outputs = [y for node in self.nodes for y in node.outputs if y.is_output]
        places = [x.uid for x in (*self._tensors, *outputs)]
        if len(set(places)) < len(places) or 0 in places:
            raise ValueError(f"numbers of tensors are missing, or there twice: {places}")
        for x in (*self._tensors, *outputs):
            if not x.dim or len(x.dim) != len(x.stride) or x.data_type is None:
                raise ValueError(f"{x.name}: {x.dim} {x.stride} {x.data_type}")
        for node in self.nodes:
            _check(node)

    def build_operation_graph(self):
        self._goes_on("validated", "lowered")

    def create_execution_plans(self, modes):
        assert modes
        assert all(isinstance(mode, heur_mode) for mode in modes)
        self._goes_on("lowered", "planned")
        uneven = any(
            node.settings.get("pre_padding") != node.settings.get("post_padding")
            for node in self.nodes
        )
        names = [node.name for node in self.nodes] + ["uneven padding"] * uneven
        if STATE.refused & set(names):
            raise cudnnGraphNotSupportedError("no engine has\nsuch a graph")

    def deselect_workspace_greater_than(self, limit):
        assert limit > 0

    def deselect_numeric_notes(self, notes):
        assert all(isinstance(note, numerical_note) for note in notes)
        STATE.unwanted = list(notes)

    def check_support(self):
        self._goes_on("planned", "supported")

    def get_execution_plan_count(self):
        return STATE.plans

    def build_plan_at_index(self, place):
        if ("plan", place) in STATE.refused:
            raise cudnnGraphNotSupportedError("not this one")
        self._built(place)

    def build_plans(self):
        self._built(0)

    def _built(self, place):
        if streams.capturing() is not None:
            raise AssertionError("a plan was built during a capture")
        self._stage, self._plan = "built", place
        STATE.built.append([node.name for node in self.nodes])

    def get_workspace_size(self):
        assert self._stage == "built"
        return 64

    def get_workspace_size_plan_at_index(self, place):
        return 64

    def serialize(self):
        if not STATE.keeps:
            raise RuntimeError("no plan of the stand-in can be stored")
        STATE.stored.append(self)
        return list(json.dumps(len(STATE.stored) - 1).encode())

    def deserialize(self, handle, data):
        found = STATE.stored[json.loads(bytes(data))]
        self.nodes, self._tensors = found.nodes, found._tensors
        self._stage, self._plan = "built", found._plan

    # ------------------------------------------------------------------ running

    def execute(self, addresses, workspace=None, handle=None):
        self.execute_plan_at_index(addresses, workspace, self._plan, handle)

    def execute_plan_at_index(self, addresses, workspace, place, handle):
        assert self._stage == "built", self._stage
        if handle.stream != streams.current_stream().ptr:
            raise RuntimeError("the handle is set to another stream")
        _checked_memory(workspace, 64)
        STATE.executed.append(([node.name for node in self.nodes], place))
        outputs = [y for node in self.nodes for y in node.outputs if y.is_output]
        known, kept = {}, []
        for x in (*self._tensors, *outputs):
            if x.by_value:  # read when the call is made
                known[x] = ctypes.c_float.from_address(addresses[x.uid]).value
            else:
                known[x], owner = _view(x, addresses[x.uid])
                kept.append(owner)
        step = functools.partial(_run, self.nodes, known)
        tape = streams.capturing()
        if tape is None:
            step()
            return
        for owner in kept:
            tape.note_memory(owner)
        hosts = [host for owner in kept for host in owner.hosts]
        tape.steps.append((lambda hosts: step(), (hosts,), {}, []))


def _attention(scale, alignment, right_bound):
    if (alignment, right_bound) not in ((None, None), (diagonal_alignment.TOP_LEFT, 0)):
        raise cudnnGraphNotSupportedError(f"a band of {alignment} and {right_bound}")
    return {"attn_scale": scale, "causal": right_bound == 0}


def _of_phase(phase, made):
    """What a normalization gives: its moments for training alone."""
    if phase not in (norm_forward_phase.INFERENCE, norm_forward_phase.TRAINING):
        raise ValueError(f"a phase of {phase}")
    return made if phase is norm_forward_phase.TRAINING else [made[0], *[None] * len(made[1:])]


def _check_norm(node):
    """That vectors lie along the channels, and moments along what they are taken of."""
    dims = node.inputs["input"].dim
    along = (1, dims[1], *(1,) * (len(dims) - 2))
    moments = along if node.name.startswith("batch") else (dims[0], *(1,) * (len(dims) - 1))
    wanted = {"input": dims, "grad": dims, "mean": moments, "inv_variance": moments}
    for name, x in node.inputs.items():
        if x.by_value != (name in ("epsilon", "momentum")):
            raise ValueError(f"{node.name}: {name} is by value: {x.by_value}")
        if not x.by_value and x.dim != wanted.get(name, along):
            raise ValueError(f"{node.name}: {name} is {x.dim} for an input of {dims}")


def _check(node):
    """That sizes of a node's tensors fit each other."""
    if "norm" in node.name:
        _check_norm(node)
    if not node.name.startswith("conv_"):
        return
    made = node.outputs[0]
    image = node.inputs.get("image", made)
    weight = node.inputs.get("weight", node.inputs.get("filter", made))
    loss = node.inputs.get("loss", made)
    out = formulas.windows(
        image.dim[2:], weight.dim[2:], *(node.settings[name] for name in _WINDOWS)
    )
    if loss.dim and (image.dim[0], weight.dim[0], *out) != loss.dim:
        raise ValueError(f"{image.dim} by {weight.dim} is {out}, not {loss.dim}")


def _checked_memory(place, size):
    owner = memory.around(place)
    if owner is None or place + size > owner.ptr + owner.size:
        raise AssertionError("a tensor goes beyond its memory, which may have been given back")
    return owner


def _view(x, place):
    dtype = _DTYPES[x.data_type]
    size = 1 + sum((n - 1) * s for n, s in zip(x.dim, x.stride, strict=True))
    if place % 16:
        raise AssertionError(f"{x.name} does not begin at a multiple of 16 bytes")
    owner = _checked_memory(place, size * dtype.itemsize)
    flat = np.ndarray(size, dtype, (ctypes.c_char * (size * dtype.itemsize)).from_address(place))
    steps = tuple(dtype.itemsize * s for s in x.stride)
    return np.lib.stride_tricks.as_strided(flat, x.dim, steps), owner


def _run(nodes, known):
    values = {
        x: a.astype(np.float64) if isinstance(a, np.ndarray) and not x.is_output else a
        for x, a in known.items()
    }
    for node in nodes:
        given = {name: values[x] for name, x in node.inputs.items()}
        settings = dict(node.settings)
        if node.name in ("conv_dgrad", "conv_wgrad"):
            settings["result"] = node.outputs[0].dim
        made = getattr(formulas, node.name)(**given, **settings)
        for y, value in zip(
            node.outputs, made if isinstance(made, tuple) else (made,), strict=True
        ):
            values[y] = value
            if y.is_output:
                known[y][...] = value
