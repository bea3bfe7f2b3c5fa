"""Names: scopes that users open, and what to say about a name that does not exist."""

from __future__ import annotations

import functools
import itertools
import re
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar, NoReturn, TypeVar, cast

from trainkit.core.errors import UnimplementedError
from trainkit.core.process import forks
from trainkit.core.values import torch_names

Method = TypeVar("Method", bound=Callable[..., Any])

_FITTING = r"^[A-Za-z0-9.][A-Za-z0-9_.\\/>-]*$"


class _Scopes(threading.local):
    def __init__(self) -> None:
        self.open: list[str] = []


_SCOPES = _Scopes()


class name_scope:
    """Context that gives a name to a part of a program.

    Names of scopes that are open inside of one another are joined by "/". Variables that a program
    makes have the names of the scopes before their own, operations keep the names they are given;
    `get_current_name_scope` tells where one is.

    Args:
        name: letters, digits and `_.-/`. One that ends in "/" is whole, and leaves the scopes that
            are open; the empty name leaves them too.

    Raises:
        ValueError: the name has other characters.

    >>> with name_scope("encoder"), name_scope("block") as scope:
    ...     scope
    'encoder/block/'
    """

    def __init__(self, name: str) -> None:
        if not isinstance(name, str) or not (name == "" or re.match(_FITTING, name.rstrip("/"))):
            raise ValueError(
                f"name_scope: {name!r} is no name of a scope; use letters, digits and _ . - /"
            )
        self.name = name

    def __enter__(self) -> str:
        self._around = list(_SCOPES.open)
        if not self.name or self.name.endswith("/"):
            _SCOPES.open.clear()
        if self.name:
            _SCOPES.open.append(self.name.rstrip("/"))
        return scope_prefix()

    def __exit__(self, *exc: object) -> None:
        _SCOPES.open[:] = self._around


def scope_prefix() -> str:
    """What the open scopes put before the name of a variable, such as `"encoder/block/"`."""
    return "/".join(_SCOPES.open) + "/" if _SCOPES.open else ""


def open_scopes() -> list[str]:
    """The names of the scopes that are open in this thread, which a scope may replace."""
    return _SCOPES.open


def current_name_scope() -> str:
    """The names of the open scopes, joined by "/"; empty outside of all.

    Example:
        >>> tk.get_current_name_scope()
        ''
    """
    return "/".join(_SCOPES.open)


def unknown_name(
    module: str, name: str, known: Iterable[str], left_out: Mapping[str, str] | None = None
) -> AttributeError:
    """The error for a name that a module does not have; it shows the nearest ones.

    Args:
        module: where it was looked for.
        name: what was looked for.
        known: the names that the module has.
        left_out: by names that it leaves out on purpose, what to use instead.
    """
    from trainkit.core.values import tf1_names

    advice = (
        (left_out or {}).get(name)
        or torch_names.NAMES.get(name)
        or tf1_names.advice_on(module, name)
    )
    if advice is not None:
        return AttributeError(f"module {module!r} has no attribute {name!r}: {advice}", name=name)

    near = [] if name.startswith("__") else near_names(name, known)  # what programs ask for
    hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
    return AttributeError(f"module {module!r} has no attribute {name!r}{hint}", name=name)


_MOST_COMPARED = 2000  # names, for a hint


def near_names(name: str, names: Iterable[str], count: int = 3, likeness: float = 0.6) -> list[str]:
    """Names that are written much like `name`, for the hint of an error; the nearest first.

    Args:
        name: what there is not.
        names: what there is; of more than some thousands only the first are compared.
        count: how many to give at the most.
        likeness: twice the letters in common, divided by the letters of both, 1 for equal ones.
    """
    import difflib

    compared = list(itertools.islice(names, _MOST_COMPARED))
    return difflib.get_close_matches(name, compared, count, likeness)


# What a module imports to be written, and nobody looks for in it.
_OF_THE_SOURCE = frozenset({"Any", "Callable", "TYPE_CHECKING", "annotations", "np"})


def public_names(namespace: Mapping[str, Any]) -> list[str]:
    """What users look for in a module."""
    return sorted(n for n in namespace if not n.startswith("_") and n not in _OF_THE_SOURCE)


def explain_unknown_names(
    namespace: dict[str, Any], module: str | None = None, left_out: Mapping[str, str] | None = None
) -> None:
    """Let a module list its public names, and say which are near one that it does not have.

    Editors see no `__getattr__`, which would make every name one of the module.

    Args:
        namespace: `globals()` of the module, all of whose names are there.
        module: what errors call it, its `__name__` by default.
        left_out: by names that it leaves out on purpose, what to use instead.
    """
    name_of_file = namespace["__name__"]

    def missing(name: str) -> Any:
        # the import system asks for files of a package in this way before it looks for them
        caller = sys._getframe(1).f_code.co_filename
        if name.startswith("__") or caller.startswith("<frozen importlib"):
            raise AttributeError(f"module {name_of_file!r} has no attribute {name!r}", name=name)
        names = public_names(namespace)
        objects = [n for n in names if not isinstance(namespace[n], ModuleType)]
        raise unknown_name(module or name_of_file, name, objects, left_out)

    namespace["__getattr__"] = missing
    namespace["__dir__"] = lambda: public_names(namespace)


class NamesBelow(SimpleNamespace):
    """Names below a module that have no file of their own; it explains unknown names as that does.

    Args:
        module: what errors call it.
        left_out: by names that it leaves out on purpose, what to use instead.
        **members: what it has.
    """

    __slots__ = ("_left_out", "_module")  # not among its members

    def __init__(
        self, module: str = "", left_out: Mapping[str, str] | None = None, /, **members: Any
    ) -> None:
        super().__init__(**members)
        self._module = module
        self._left_out = left_out

    def __getattr__(self, name: str) -> Any:
        raise unknown_name(self._module, name, vars(self), self._left_out)


def explain_attribute(
    owner: Any, name: str, spellings: Mapping[str, str], *, is_named: bool = False
) -> Any:
    """What `__getattr__` does for a class whose users may know another library's names.

    The attribute is asked for again, so that the error of a property is its own.

    Args:
        owner: the object.
        name: what it does not have.
        spellings: by such names, what to use.
        is_named: whether the `__init__` of the class gives each object a name, without which a
            subclass has not called it.

    Raises:
        AttributeError: with what to use or to do, if that is known.
    """
    look_up: Any = type(owner).__getattribute__  # which classes of users may have of their own
    hint = spellings.get(name)
    if is_named and "name" not in vars(owner) and not name.startswith("__"):
        hint = f"call super().__init__() first in the __init__ of {type(owner).__name__}"
    if hint is None:
        return look_up(owner, name)
    try:
        return look_up(owner, name)
    except AttributeError as error:
        if error.name != name or error.obj is not owner or hint in str(error):
            raise
        raise AttributeError(f"{error}: {hint}", name=name, obj=owner) from None


def with_known_arguments(method: Method) -> Method:
    """Let a method say which of its arguments is near one by keyword that it does not have."""
    code: Any = getattr(method, "__code__", None)
    names = code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount]

    @functools.wraps(method)
    def checked(self: Any, *args: Any, **kwargs: Any) -> Any:
        for name in kwargs:
            if name not in names:
                near = near_names(name, names, 1)
                hint = f"did you mean {near[0]!r}?" if near else f"they are {', '.join(names)}"
                raise TypeError(
                    f"{type(self).__name__}.{method.__name__} has no argument {name!r}; {hint}"
                )
        return method(self, *args, **kwargs)

    return cast(Method, checked)


# ------------------------------------------------------------------ names of what was given none

_LOCK = forks.make_lock()
_COUNTS: dict[
    str, int
] = {}  # one number per class name, so it never grows with the number of layers


def unique_name(prefix: str) -> str:
    """`prefix` the first time, then `prefix_1`, `prefix_2` and so on, in this process.

    >>> reset_names()
    >>> unique_name("dense"), unique_name("dense")
    ('dense', 'dense_1')
    """
    with _LOCK:
        count = _COUNTS.get(prefix, 0)
        _COUNTS[prefix] = count + 1
    return f"{prefix}_{count}" if count else prefix


def next_number(prefix: str = "") -> int:
    """How often a name with this prefix was given, or this was asked for: 1, 2, 3 and so on.

    >>> reset_names()
    >>> unique_name("dense"), next_number("dense")
    ('dense', 2)
    """
    with _LOCK:
        _COUNTS[prefix] = _COUNTS.get(prefix, 0) + 1
        return _COUNTS[prefix]


def name_for(kind: type) -> str:
    """A name for a new object of class `kind`."""
    return unique_name(snake_case(kind.__name__))


def reset_names() -> None:
    """Count from the start again."""
    with _LOCK:
        _COUNTS.clear()


def snake_case(name: str) -> str:
    """A class name as Keras writes it in lower case.

    >>> snake_case("Conv2DTranspose"), snake_case("ReLU")
    ('conv2d_transpose', 're_lu')
    """
    plain = re.sub(r"\W+", "", name)
    return re.sub(r"(?<=[^_])(?=[A-Z][a-z])|(?<=[a-z])(?=[A-Z])", "_", plain).lower()


class control_dependencies:
    """Context of operations that run after others.

    Operations with an effect always run in the order in which they are called, so there is nothing
    to add; in a graph of version 1 a session runs the operations before what is made here.

    Args:
        control_inputs: tensors or operations, or `None`.

    Raises:
        TypeError: it is no list, tuple or `None`.

    Example:
        >>> with tk.control_dependencies([tk.debugging.assert_positive([1])]):
        ...     x = tk.constant(1.0)
        >>> float(x)
        1.0
    """

    def __init__(self, control_inputs: Any) -> None:
        if control_inputs is not None and not isinstance(control_inputs, list | tuple):
            raise TypeError(f"control_dependencies: give a list of tensors, got {control_inputs!r}")
        self._inputs = [x for x in control_inputs or () if _is_built_by_hand(x)]
        self._mark: Any = None

    def __enter__(self) -> None:
        if self._inputs:
            self._mark = self._inputs[0].graph.begin_dependents(self._inputs)

    def __exit__(self, *exc: object) -> None:
        if self._inputs:
            self._inputs[0].graph.end_dependents(self._mark)


def _is_built_by_hand(x: Any) -> bool:
    """Whether it is a tensor or an operation of a graph of version 1."""
    return getattr(getattr(x, "graph", None), "is_built_by_hand", False)


# ------------------------------------------------------------------ names of other frameworks


class BoundElsewhere:
    """Base of classes that are bound to another framework: they exist, and can't be made here.

    A subclass says in `instead`, in one sentence, what it needs and what does its work.

    Raises:
        UnimplementedError: always; the text is that sentence.
    """

    instead: ClassVar[str]

    def __new__(cls, *args: Any, **kwargs: Any) -> NoReturn:
        raise UnimplementedError(f"{cls.__name__} {cls.instead}")
