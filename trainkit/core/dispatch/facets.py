"""The record of an operation: every fact about it besides its kernel, as `op.primitive.facets`.

A fact is declared where the operation is, as an argument of `@primitive` or by a method of the
operation. What nobody declared follows from the operation's `semantics`. A rule that is code of a
higher floor is attached there, to the operation itself (`@dropped.lower_by`). Calls of operations
never read the record; whoever batches, traces, fuses, places or saves them does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeVar

from trainkit.core.dtypes import bfloat16, float16

Value = TypeVar("Value")
Rule = Callable[..., Any]


class Absent:
    """In place of a facet that an operation does without; false in conditions.

    Attributes:
        reason: why it needs none, or can't have it, as a part of a sentence.
    """

    __slots__ = ("reason",)

    def __init__(self, reason: str) -> None:
        self.reason = reason

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return f"none ({self.reason})"


UNDECLARED = Absent("nobody has declared it")
"""A facet that neither the operation nor its semantics gives; a test finds it."""

one_by_one = Absent
"""A `batch` facet: the values go through one after the other, for the reason that is given."""


class Batch:
    """A way to run an operation on a stack of values at once that needs no rule of its own.

    Attributes:
        kind: "elementwise": inputs are lined up by axes of size 1 behind the first; "axis": the
            axes that a setting names move up by one; "leading axes": all axes in front of those
            that the operation works on are a batch already.
        setting: which setting names axes.
        all_axes: whether `None` in that setting stands for all axes, as it does in sums.
    """

    __slots__ = ("all_axes", "kind", "setting")

    def __init__(self, kind: str, setting: str = "", all_axes: bool = False) -> None:
        self.kind = kind
        self.setting = setting
        self.all_axes = all_axes

    def __repr__(self) -> str:
        return f"axis setting {self.setting!r}" if self.kind == "axis" else self.kind


BY_ELEMENT = Batch("elementwise")
LEADING_AXES = Batch("leading axes")
ALONG_AXIS = Batch("axis", "axis")
OVER_AXES = Batch("axis", "axis", all_axes=True)

INTEGERS = Absent("its results are whole numbers or truth values")
FLAT = Absent("its derivative is 0 wherever it has one")
"""Reasons why an operation has no gradient rules."""

TRACE = "trace the body"
"""A `lowering` facet: the body, run on arrays that take notes, is what gets compiled."""

COMMON: Final = "common"
FLOATS: Final = "floats"
"""To what inputs are promoted: the `promotion` facet."""

SHAPE, NUMBER = "shape", "number"
"""What is read of an input other than its values: its shape alone, or a number on the CPU."""

RESULT = "result"
"""Stands for the result of an operation among its `residuals`."""


class Unit:
    """A `simplify` facet: the number `value` at one of `places` changes nothing.

    Attributes:
        value: the number.
        places: of the inputs that it may be.
        integers: whether that holds of integers alone: -0.0 + 0.0 is 0.0.
    """

    __slots__ = ("integers", "places", "value")

    def __init__(self, value: float, places: tuple[int, ...], integers: bool = False) -> None:
        self.value = value
        self.places = places
        self.integers = integers

    def __repr__(self) -> str:
        return f"{self.value} changes nothing" + " (integers)" * self.integers


YES_OR_NO, CLASSES = "yes or no", "classes"
"""Of what the inputs of an activation are the logits: the `logits_of` facet."""

UNCHANGED = "gives its input"
IF_ALIKE = "gives its input where that has shape and dtype of the result"
INVOLUTION = "undoes itself"
ON_ONE_DEVICE = "gives its input where that lies beside the next one"


class Tuned:
    """Kernels that run in place of the reference body where that pays.

    Whoever runs the operation asks them; the body decides nothing.

    Attributes:
        run: function of the NumPy arrays and settings of a call, in the form of the body without
            `xp`. It gives `None` where the body is to do it. `None` where the CPU has the body
            alone.
        on_gpu: functions in the form of the body, asked for arrays of a GPU one after the other:
            the first whose result is not `None` serves, and the body where none does.
        exact: whether it gives the bits of the body.
        fewest: how many elements an input has to have for it to be asked.
        of: the place of that input.
        fewest_beside: how many the input behind it has to have instead, `None` where its size
            decides nothing.
        unless: function of arrays and settings: calls that it surely leaves to the body, though
            they are large enough.
        halves: by dtype the rules that `on_bfloat16` and `on_float16` give: the same as `run` for
            NumPy arrays of 16-bit floats, asked for those of any size: a body has to make them
            float32 first. Where there is none, `run` is asked.
        bind: function of settings that gives `run` for calls of these settings, of arrays alone:
            a program has one for each of its operations, which may remember what sizes decide.
            `None` where nothing is remembered.
    """

    __slots__ = (
        "bind", "exact", "fewest", "fewest_beside", "halves", "of", "on_gpu", "run", "unless",
    )  # fmt: skip

    def __init__(
        self,
        run: Rule | None = None,
        *,
        on_gpu: Sequence[Rule] = (),
        exact: bool = False,
        fewest: int = 0,
        of: int = 0,
        fewest_beside: int | None = None,
        unless: Rule | None = None,
        on_bfloat16: Rule | None = None,
        on_float16: Rule | None = None,
        bind: Callable[[dict[str, Any]], Rule] | None = None,
    ) -> None:
        self.run = run
        self.bind = bind
        self.on_gpu = tuple(on_gpu)
        self.exact = exact
        self.fewest = fewest
        self.of = of
        self.fewest_beside = fewest_beside
        self.unless = unless
        rules = {bfloat16.dtype: on_bfloat16, float16.dtype: on_float16}
        self.halves = {dtype: rule for dtype, rule in rules.items() if rule is not None}

    def may_round_otherwise(self, arrays: Sequence[Any], settings: dict[str, Any]) -> bool:
        """Whether the bits of such a call may be others than those of the body."""
        if self.on_halves(getattr(arrays[self.of], "dtype", None)) is not None:
            return True
        if self.run is None or self.exact:
            return False
        if not self.is_asked([getattr(x, "size", 0) for x in arrays]):
            return False
        return self.unless is None or not self.unless(arrays, settings)

    def on_halves(self, dtype: Any) -> Rule | None:
        """The rule for NumPy arrays of a type of 16-bit floats, `None` for others."""
        return self.halves.get(dtype)

    def run_on_gpu(self, xp: Any, arrays: Sequence[Any], settings: dict[str, Any]) -> Any:
        """The result of the first kernel of `on_gpu` that takes the arrays, `None` without one."""
        for run in self.on_gpu:
            result = run(xp, *arrays, **settings)
            if result is not None:
                return result
        return None

    def is_asked(self, sizes: Sequence[int]) -> bool:
        """Whether `run` is asked for inputs of so many elements."""
        beside, min_size = self.of + 1, self.fewest_beside
        is_large = min_size is not None and beside < len(sizes) and sizes[beside] >= min_size
        return self.of < len(sizes) and (sizes[self.of] >= self.fewest or is_large)

    def __repr__(self) -> str:
        texts = [] if self.run is None else ["same bits" if self.exact else "other roundings"]
        return ", ".join(["tuned", *texts, *["also on a GPU"] * bool(self.on_gpu)])


class Direct(NamedTuple):
    """How the compiled half serves small arrays by NumPy's loops, with the bits of the body.

    Element-wise bodies need none: what ufuncs they call is noted, see `formulas`.

    Attributes:
        name: a form that `native_code/direct.pxi` lists.
        facts: what it is made of: the ufuncs that the body calls, and the like.
    """

    name: str
    facts: tuple[Any, ...] = ()


class Effect:
    """What a call does besides its result; graphs never drop or move it.

    Attributes:
        what: in a few words.
        saved: whether a saved graph may hold the call.
        runs_python: whether it runs code of the user's, which may read and assign variables.
    """

    __slots__ = ("runs_python", "saved", "what")

    def __init__(self, what: str, saved: bool = False, runs_python: bool = False) -> None:
        self.what = what
        self.saved = saved
        self.runs_python = runs_python

    def __repr__(self) -> str:
        return self.what


MOVED, PICKED, COMPUTED, ASKED = "moved", "picked", "computed", "asked"
"""What a result has of sizes among the inputs of an operation, see `known_sizes`."""


class Semantics:
    """A kind of operation, from which facets follow that nobody declared.

    Attributes:
        name: in a word or two.
        defaults: facets by name.
    """

    __slots__ = ("defaults", "name")

    def __init__(self, name: str, **defaults: Any) -> None:
        self.name = name
        self.defaults = {**_DEFAULTS, **defaults}

    def __repr__(self) -> str:
        return self.name


_DEFAULTS: dict[str, Any] = {
    "batch": UNDECLARED,
    "stackable": UNDECLARED,
    # The careful answer: what may be a view is never written in place.
    "memory": "view",
    "reads": {},
    # Likewise: what is costly is kept for the backward pass, so silence costs memory, not time.
    "recompute": "costly",
    "residuals": None,
    "simplify": Absent("no call of it is known to change nothing"),
    "lowering": UNDECLARED,
    "tuned": None,
    "direct": None,
    "logits_of": "",
    "export": True,
    "onnx": Absent("trainkit has no form of it in ONNX"),
    "effect": None,
    "no_gradient": UNDECLARED,
    "promotion": "none",
    "text": Absent("it computes with numbers"),
    "bodies": (),
    "parts": Absent("it runs no graphs"),
    "rows": Absent("it reads or writes more than a row"),
    "sizes": Absent("it neither moves nor computes sizes"),
}

ELEMENTWISE = Semantics(
    "elementwise", batch=BY_ELEMENT, stackable=True, lowering=TRACE, memory="fresh", sizes=COMPUTED
)
LONG_FORMULA = Absent("a long formula, not measured as one kernel")
WHOLE_KERNEL = Absent("a tuned kernel computes it as a whole")
ITERATED = Absent("it goes on until values have settled")
NO_COMPLEX = Absent("compiled kernels have no complex numbers")
NO_REDUCTION = Absent("kernels have no such reduction")
SIZE_AT_RUN = Absent("its shape is known when it runs")
"""Why operations have no lowering."""

SPECIAL_FUNCTION: dict[str, Any] = {"semantics": ELEMENTWISE, "lowering": LONG_FORMULA}
"""The facets of functions of one element that series and quotients of polynomials compute."""

REDUCTION = Semantics(
    "reduction",
    batch=OVER_AXES,
    lowering=TRACE,
    stackable=Absent("numbers of a stack may be added up in another order"),
)
AXIS = Semantics(
    "along an axis",
    batch=ALONG_AXIS,
    lowering=Absent("it goes along an axis in order"),
    stackable=Absent("numbers of a stack may be added up in another order"),
)
VIEW = Semantics("view", recompute="free", lowering=TRACE, stackable=True)
ARRANGEMENT = Semantics(
    "arrangement", lowering=Absent("no view tells where its elements go"), stackable=True
)
INDEXING = Semantics(
    "indexing",
    lowering=Absent("positions are values, which a trace can't see"),
    stackable=Absent("what is added at one place may come in another order"),
)
CREATION = Semantics("creation", lowering=TRACE, stackable=True)
QUERY = Semantics(
    "shape query",
    no_gradient=INTEGERS,
    reads={0: SHAPE},
    lowering=Absent("shapes are known when a kernel is made"),
    stackable=True,
    sizes=ASKED,
)
CONTRACTION = Semantics(
    "contraction", memory="fresh", lowering=TRACE, stackable=Absent("BLAS goes by sizes")
)
PRODUCT = Semantics(
    "matrix product", memory="fresh", lowering=TRACE, stackable=Absent("BLAS goes by sizes")
)
WINDOW = Semantics(
    "windows",
    lowering=Absent("a product or tuned kernel computes its windows"),
    stackable=Absent("kernels go by sizes"),
)
MATRIX = Semantics(
    "matrices",
    batch=LEADING_AXES,
    lowering=Absent("LAPACK computes it"),
    stackable=Absent("LAPACK goes by sizes"),
)
LAST_AXES = Semantics(
    "last axes",
    batch=LEADING_AXES,
    lowering=Absent("a library goes along whole lines"),
    stackable=Absent("a library may go by sizes"),
)
RANDOM = Semantics(
    "random numbers",
    no_gradient=Absent("it follows from a state of whole numbers"),
    batch=one_by_one("each item draws from a stream of its own"),
    lowering=Absent("Philox has kernels of its own"),
    stackable=Absent("draws follow one another"),
    onnx=Absent("a file predicts, it draws no random numbers; call layers with training=False"),
)
CONTROL = Semantics(
    "control flow",
    lowering=Absent("it runs graphs or Python functions"),
    stackable=Absent("functions are given one element"),
    export=Absent("a saved graph holds no Python"),
    onnx=Absent("it runs Python, which no file holds"),
)
MESSAGE = Semantics(
    "message",
    no_gradient=Absent("it has no result to differentiate"),
    lowering=Absent("it does something besides its result"),
    stackable=Absent("it is made for one element"),
    export=Absent("what it does is not data alone"),
    onnx=Absent("it does something besides its result, which ONNX can't"),
)
COMPOSITE = Semantics("composite", stackable=Absent("kernels go by sizes"))


class Facets:
    """The record of one operation; `op.primitive.facets`.

    Attributes:
        primitive: the operation's declaration.
        semantics: its kind, one of the `Semantics` above. Facets that follow from it:
        batch: how n stacked values go through at once: a `Batch`, or a rule `(primitive, inputs,
            settings, count)` that gives the stacked result or `NotImplemented`, or
            `one_by_one(reason)`.
        stackable: whether elements of a dataset, stacked, give the same bits as one by one: `True`,
            or a rule `(rank, settings)` that says so of sums, or `Absent(reason)`.
        memory: "fresh" where results always have memory of their own, "view" where it may be that
            of an input.
        reads: for places of inputs what is read of them, where that isn't values: `SHAPE` for the
            shape alone, `NUMBER` for a number that is wanted on the CPU.
        residuals: what gradient rules read the values of, a set of places of inputs and `RESULT`;
            `None` for all. Of the others rules see shape and dtype alone, as tapes free the values.
        recompute: "free", "cheap" or "costly": what it takes to compute a result again rather than
            keep it for a gradient.
        simplify: which calls change nothing: `UNCHANGED`, `IF_ALIKE`, `INVOLUTION`,
            `ON_ONE_DEVICE` or a `Unit`.
        lowering: how fused kernels are made: `TRACE`, or a rule `(trace, *arrays, **settings)`, or
            `Absent(reason)`.
        tuned: `Tuned` kernels, or `None` where the body serves all arrays. It is
            given with the declaration, as it becomes a part of what calls run.
        direct: the `Direct` form of its body for small arrays, or `None`. It is given with the
            declaration, too.
        graph_name: what a graph calls its nodes: TensorFlow's name where people look for that.
        export: `True` where the NumPy-only reader of saved graphs computes it too, or
            `Absent(reason)`.
        onnx: a rule `(to, *inputs, **settings)` that writes it in ONNX, given in
            `saved_graph/onnx/rules`, or `Absent(reason)`.
        effect: an `Effect`, or `None` where the result is all that there is.
        promotion: what inputs are cast to before the kernel runs: "none" leaves them, "common" is
            the dtype that they promote to, "floats" the same of floats. Shape rules that broadcast
            or give floats imply it.
        text: how it takes string tensors: "beside numbers", or "alone" where all inputs are text.
        no_gradient: why it has no gradient rules, where it has none.
        bodies: settings with graphs that it runs, which others may stand for that keep more.
        parts: a rule `(inputs, settings)` that gives pairs of such a graph and what it is fed, or
            `None` where their results don't fit.
        rows: a rule `(settings)` that says whether a call has the row of its first input, at the
            position that the second is, "read" or "written", else `None`.
        logits_of: of what its inputs are the logits, `YES_OR_NO` or `CLASSES`, "" for other inputs.
            A result refers to them by `Tensor._activation`, for losses that compute with logits. It
            is given with the declaration.
        sizes: what a result has of sizes among its inputs: `MOVED`, `PICKED` by the second input,
            `COMPUTED` element by element, or `ASKED` of the shape of an input.
    """

    __slots__ = (
        "batch",
        "bodies",
        "direct",
        "effect",
        "export",
        "graph_name",
        "logits_of",
        "lowering",
        "memory",
        "no_gradient",
        "onnx",
        "parts",
        "primitive",
        "promotion",
        "reads",
        "recompute",
        "residuals",
        "rows",
        "semantics",
        "simplify",
        "sizes",
        "stackable",
        "text",
        "tuned",
    )
    primitive: Any
    semantics: Semantics
    batch: Batch | Rule | Absent
    stackable: Literal[True] | Rule | Absent
    memory: Literal["fresh", "view"]
    reads: dict[int, str]
    recompute: Literal["free", "cheap", "costly"]
    residuals: frozenset[int | str] | None
    simplify: str | Unit | Absent
    lowering: str | Rule | Absent
    tuned: Tuned | None
    direct: Direct | None
    graph_name: str
    logits_of: str
    export: Literal[True] | Absent
    onnx: Rule | Absent
    effect: Effect | None
    promotion: Literal["none", "common", "floats"]
    text: str | Absent
    bodies: tuple[str, ...]
    no_gradient: Absent
    parts: Rule | Absent
    rows: Rule | Absent
    sizes: str | Absent

    def __init__(self, primitive: Any, semantics: Semantics) -> None:
        self.primitive = primitive
        self.semantics = semantics

    def __getattr__(self, name: str) -> Any:
        """A facet that was not declared, by what the semantics say."""
        # Kept in its slot, since graphs ask for it at each node.
        if name == "graph_name":
            self.graph_name = "".join(map(str.capitalize, self.primitive.name.split("_")))
            return self.graph_name
        # Python comes here for empty slots alone, so a declared facet costs no call.
        defaults = self.semantics.defaults
        if name in defaults:
            return defaults[name]
        raise AttributeError(f"an operation has no facet {name!r}")

    @property
    def fusible(self) -> bool:
        """Whether a result depends on one element of each input, by a body that is compiled."""
        return self.semantics is ELEMENTWISE and bool(self.lowering)

    @property
    def shape(self) -> Rule:
        """The rule from `Spec`s of inputs to those of results."""
        rule: Rule = self.primitive.shape_rule
        return rule

    @property
    def vjp(self) -> Any:
        """The gradient rules: one for all inputs, or a tuple with one per input, or `Absent`."""
        return self.primitive.joint or self.primitive.rules or self.no_gradient

    # ------------------------------------------------------------------ methods of operations

    def declare(self, **facets: Any) -> None:
        """Give facets by name.

        Raises:
            TypeError: there is no such facet, or it is too late for it.
        """
        # Not `is`, as each look at a bound method makes a new object.
        if not _OF_CALLS.isdisjoint(facets) and self.primitive.op != self.primitive.slow:
            raise TypeError(
                f"{self.primitive.name}: {', '.join(sorted(_OF_CALLS))} are given with "
                "`@primitive`, they become a part of what calls run"
            )
        for name, value in facets.items():
            if name not in _DECLARABLE:
                raise TypeError(
                    f"{self.primitive.name}: there is no facet {name!r}; "
                    f"there are {', '.join(_DECLARABLE)}"
                )
            setattr(self, name, value)

    def batch_by(self, way: Value) -> Value:
        """Give the `batch` facet; decorates a rule."""
        self.batch = way  # type: ignore[assignment]
        return way

    def stack_by(self, rule: Value) -> Value:
        """Give the `stackable` facet; decorates a rule."""
        self.stackable = rule  # type: ignore[assignment]
        return rule

    def lower_by(self, rule: Value) -> Value:
        """Give the `lowering` facet; decorates a rule."""
        self.lowering = rule  # type: ignore[assignment]
        return rule

    def parts_by(self, rule: Value) -> Value:
        """Give the `parts` facet; decorates a rule."""
        self.parts = rule  # type: ignore[assignment]
        return rule


_OF_CALLS = {"direct", "logits_of", "tuned"}
"""Facets that are given with the declaration."""

_DECLARABLE = tuple(name for name in Facets.__slots__ if name != "primitive")
METHODS = ("declare", "batch_by", "stack_by", "lower_by", "parts_by")
"""The methods above that operations have."""
