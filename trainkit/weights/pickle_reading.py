"""The plain values that a pickle describes, without running it.

A pickle is a program: Python's own reader calls whatever it names. Here its instructions are gone
through one by one, on a stack of our own, and only numbers, texts and containers come of them. A
name in the file is looked up in a table that the caller gives; there is no import, no attribute
and no call of anything else. Source: the module `pickletools` of Python, which documents all
instructions.
"""

from __future__ import annotations

import pickle
import pickletools
import struct
from collections.abc import Callable, Mapping
from typing import Any

MOST_INSTRUCTIONS = 2_000_000  # each leaves an object of about a hundred bytes at most
LARGEST_PICKLE = 1 << 26  # bytes
LONGEST_KEY = 1000  # characters
_LONGEST_INTEGER = 16  # bytes
_MOST_KEY_PARTS = 16

_INSTRUCTION_NAMES = {ord(op.code): op.name for op in pickletools.opcodes}
_KEY_TYPES = (str, int, float, bool, type(None))


class PickleError(Exception):
    """A pickle is damaged, or asks for more than plain values."""


class UnknownNameError(PickleError):
    """A pickle asks for a function or class that the table does not have."""


class PlainObject:
    """A thing that the file describes and that is of no use here: a device, a NumPy number."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def __repr__(self) -> str:
        return f"<{self.kind}>"


class PickleReader:
    """The value that a pickle describes.

    Args:
        data: the pickle.
        names: what stands for the functions and classes that a file may name, by module and name.
        persistent: from a persistent id to what it stands for.
    """

    def __init__(
        self, data: bytes, names: Mapping[tuple[str, str], Any], persistent: Callable[[Any], Any]
    ) -> None:
        self._data, self._at = data, 0
        self._names, self._persistent = names, persistent
        self._stack: list[Any] = []
        self._marks: list[int] = []  # lengths of the stack
        self._memo: dict[int, Any] = {}

    def read(self) -> Any:
        """The value.

        Raises:
            PickleError: the pickle is damaged, names something that `names` does not have, or has
                more than `MOST_INSTRUCTIONS`.
        """
        if len(self._data) > LARGEST_PICKLE:
            raise PickleError(f"its pickle has more than {LARGEST_PICKLE} bytes")
        handlers = {ord(code): getattr(self, name) for code, name in _HANDLERS.items()}
        stop = ord(pickle.STOP)
        for _ in range(MOST_INSTRUCTIONS):
            code = self._take(1)[0]
            if code == stop:
                return self._pop()
            handler = handlers.get(code)
            if handler is None:
                name = _INSTRUCTION_NAMES.get(code, f"number {code}")
                raise PickleError(f"its pickle has the instruction {name} at byte {self._at - 1}")
            handler()
        raise PickleError(f"its pickle has more than {MOST_INSTRUCTIONS:,} instructions")

    # ------------------------------------------------------------------ bytes and the stack

    def _take(self, size: int) -> bytes:
        part = self._data[self._at : self._at + size]
        if len(part) != size:
            raise PickleError(f"its pickle is cut short at byte {len(self._data)}")
        self._at += size
        return part

    def _number(self, size: int) -> int:
        return int.from_bytes(self._take(size), "little")

    def _line(self) -> str:
        end = self._data.find(b"\n", self._at)
        if end < 0:
            raise PickleError("its pickle is cut short in a name")
        line, self._at = self._data[self._at : end], end + 1
        return self._decode(line)

    @staticmethod
    def _decode(data: bytes) -> str:
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise PickleError(f"the name {data[:40]!r} in its pickle is no text") from None

    def _push(self, value: Any) -> None:
        self._stack.append(value)

    def _pop(self) -> Any:
        if len(self._stack) <= (self._marks[-1] if self._marks else 0):
            raise PickleError(f"its pickle takes more than it has at byte {self._at - 1}")
        return self._stack.pop()

    def _peek(self) -> Any:
        value = self._pop()
        self._stack.append(value)
        return value

    def _since_mark(self) -> list[Any]:
        if not self._marks:
            raise PickleError(f"its pickle has no mark before byte {self._at - 1}")
        start = self._marks.pop()
        values = self._stack[start:]
        del self._stack[start:]
        return values

    # ------------------------------------------------------------------ instructions

    def _protocol(self) -> None:
        if self._take(1)[0] > pickle.HIGHEST_PROTOCOL:
            raise PickleError("its pickle is of a later protocol")

    def _frame(self) -> None:
        self._take(8)  # a length that is of use to those who read from a stream

    def _mark(self) -> None:
        self._marks.append(len(self._stack))

    def _drop(self) -> None:
        # POP takes a mark, too, where nothing stands above it
        if self._marks and self._marks[-1] == len(self._stack):
            self._marks.pop()
        else:
            self._pop()

    def _none(self) -> None:
        self._push(None)

    def _true(self) -> None:
        self._push(True)

    def _false(self) -> None:
        self._push(False)

    def _int_1(self) -> None:
        self._push(self._number(1))

    def _int_2(self) -> None:
        self._push(self._number(2))

    def _int_4(self) -> None:
        self._push(int.from_bytes(self._take(4), "little", signed=True))

    def _long(self) -> None:
        size = self._number(1)
        if size > _LONGEST_INTEGER:
            raise PickleError(f"its pickle has a number of {size} bytes")
        self._push(int.from_bytes(self._take(size), "little", signed=True))

    def _float(self) -> None:
        self._push(struct.unpack(">d", self._take(8))[0])

    def _text_1(self) -> None:
        self._push(self._decode(self._take(self._number(1))))

    def _text_4(self) -> None:
        self._push(self._decode(self._take(self._number(4))))

    def _bytes_1(self) -> None:
        self._push(self._take(self._number(1)))

    def _bytes_4(self) -> None:
        self._push(self._take(self._number(4)))

    def _empty_list(self) -> None:
        self._push([])

    def _append(self) -> None:
        value = self._pop()
        self._container(list).append(value)

    def _appends(self) -> None:
        values = self._since_mark()
        self._container(list).extend(values)

    def _container(self, kind: type) -> Any:
        value = self._peek()
        if type(value) is not kind:
            raise PickleError(f"its pickle fills a {type(value).__name__} as a {kind.__name__}")
        return value

    def _list(self) -> None:
        self._push(self._since_mark())

    def _empty_tuple(self) -> None:
        self._push(())

    def _tuple(self) -> None:
        self._push(tuple(self._since_mark()))

    def _tuple_1(self) -> None:
        self._push((self._pop(),))

    def _tuple_2(self) -> None:
        second = self._pop()
        self._push((self._pop(), second))

    def _tuple_3(self) -> None:
        third, second = self._pop(), self._pop()
        self._push((self._pop(), second, third))

    def _empty_dict(self) -> None:
        self._push({})

    def _dict(self) -> None:
        values = self._since_mark()
        self._push({})
        self._set_all(values)

    def _set_item(self) -> None:
        value, key = self._pop(), self._pop()
        self._set_all([key, value])

    def _set_items(self) -> None:
        self._set_all(self._since_mark())

    def _set_all(self, values: list[Any]) -> None:
        target = self._container(dict)
        if len(values) % 2:
            raise PickleError("its pickle has a key without a value")
        for key, value in zip(values[::2], values[1::2], strict=True):
            # to hash nested tuples that share their parts takes exponential time
            parts = key if type(key) is tuple else (key,)
            if len(parts) > _MOST_KEY_PARTS or not all(type(x) in _KEY_TYPES for x in parts):
                raise PickleError(f"its pickle has a {type(key).__name__} as a key")
            if any(type(x) is str and len(x) > LONGEST_KEY for x in parts):
                raise PickleError(f"its pickle has a key of more than {LONGEST_KEY} characters")
            target[key] = value

    def _empty_set(self) -> None:
        self._push(PlainObject("set"))

    def _add_items(self) -> None:
        self._since_mark()
        if not isinstance(self._peek(), PlainObject):
            raise PickleError("its pickle fills something as a set")

    def _frozen_set(self) -> None:
        self._since_mark()
        self._push(PlainObject("frozenset"))

    def _global(self) -> None:
        module = self._line()
        self._push(self._named(module, self._line()))

    def _stack_global(self) -> None:
        name, module = self._pop(), self._pop()
        if type(name) is not str or type(module) is not str:
            raise PickleError("its pickle has a name that is no text")
        self._push(self._named(module, name))

    def _named(self, module: str, name: str) -> Any:
        try:
            return self._names[module, name]
        except KeyError:
            raise UnknownNameError(f"its pickle asks for {module[:60]}.{name[:60]}") from None

    def _reduce(self) -> None:
        arguments, function = self._pop(), self._pop()
        self._push(self._built(function, arguments))

    def _new_object(self) -> None:
        self._reduce()

    def _built(self, function: Any, arguments: Any) -> Any:
        if type(arguments) is not tuple or not isinstance(function, BuilderName):
            raise PickleError("its pickle calls what is no function")
        return function.build(arguments)

    def _build(self) -> None:
        state, target = self._pop(), self._peek()
        # an ordered dict has its `_metadata` there, the versions of modules; nobody needs it
        if type(target) is not dict and not isinstance(target, PlainObject):
            raise PickleError(f"its pickle sets the state of a {type(target).__name__}")
        del state

    def _persistent_id(self) -> None:
        self._push(self._persistent(self._pop()))

    def _get_1(self) -> None:
        self._get(self._number(1))

    def _get_4(self) -> None:
        self._get(self._number(4))

    def _get(self, index: int) -> None:
        if index not in self._memo:
            raise PickleError(f"its pickle has nothing at number {index} of its memory")
        self._push(self._memo[index])

    def _put_1(self) -> None:
        self._memo[self._number(1)] = self._peek()

    def _put_4(self) -> None:
        self._memo[self._number(4)] = self._peek()

    def _memoize(self) -> None:
        self._memo[len(self._memo)] = self._peek()


class BuilderName:
    """What stands for a function or class of the file.

    Args:
        name: its own, for errors.
        build: takes the tuple of its arguments, which may be anything, and gives a plain value; it
            raises `PickleError` for arguments that make no sense.
    """

    def __init__(self, name: str, build: Callable[[tuple[Any, ...]], Any]) -> None:
        self.name = name
        self.build = build

    def __repr__(self) -> str:
        return self.name


_HANDLERS = {
    "\x80": "_protocol", "\x95": "_frame", "(": "_mark", "0": "_drop", "1": "_since_mark",
    "N": "_none", "\x88": "_true", "\x89": "_false",
    "K": "_int_1", "M": "_int_2", "J": "_int_4", "\x8a": "_long", "G": "_float",
    "\x8c": "_text_1", "X": "_text_4", "C": "_bytes_1", "B": "_bytes_4",
    "]": "_empty_list", "a": "_append", "e": "_appends", "l": "_list",
    ")": "_empty_tuple", "t": "_tuple", "\x85": "_tuple_1", "\x86": "_tuple_2", "\x87": "_tuple_3",
    "}": "_empty_dict", "d": "_dict", "s": "_set_item", "u": "_set_items",
    "\x8f": "_empty_set", "\x90": "_add_items", "\x91": "_frozen_set",
    "c": "_global", "\x93": "_stack_global", "R": "_reduce", "\x81": "_new_object", "b": "_build",
    "Q": "_persistent_id", "h": "_get_1", "j": "_get_4", "q": "_put_1", "r": "_put_4",
    "\x94": "_memoize",
}  # fmt: skip
