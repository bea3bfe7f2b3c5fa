"""A flat program as machine code that updates many weights, of any shapes, at one call.

    run(pool, parts, scalar, ..., number, ..., weight, gradient, slot, ..., weight, ...)

The code checks all arrays before it writes to any, and gives False where one does not fit: it is
not row-major and aligned, not writeable though it is written to, of another dtype, or not of the
shape of its weight. The work is shared out as if the weights stood behind one another, so a part is
as many elements as any other, wherever weights begin and end.

A gradient may come in pieces, which lie anywhere: an array of `PIECES`. So a table's gradient, zero
but for the rows that a batch looked up, is these rows and one short run of zeros for all the rest.

It refers to nothing but Python's C interface, as kernels do that come compiled
(`kernels/jit/python_entry.py`).
"""

from __future__ import annotations

import numpy as np

from trainkit.compiler.flat import FlatProgram
from trainkit.compiler.ir import Elementwise, Number, View
from trainkit.compiler.llvm.builder import FunctionBuilder
from trainkit.compiler.llvm.llvm_functions import emitted, is_exact, literal, type_of
from trainkit.compiler.llvm.module import ModuleText
from trainkit.core.cpu.cost_model import CACHE_LINE
from trainkit.core.dispatch.formulas import NO_UFUNCS
from trainkit.kernels.embedding.row_gradient import PIECES
from trainkit.kernels.jit.numpy_inner_loops import (
    DATA,
    DESCR,
    FLAGS,
    ITEM_SIZE,
    KIND,
    ORDER,
    RANK,
    SIZES,
    TYPE,
)
from trainkit.kernels.jit.python_entry import ALIGNED, ARRAY_TYPE, IN_ROWS, SWAPPED, WRITEABLE
from trainkit.kernels.threads.thread_pool import FEWEST_COPIED

_UNIT = CACHE_LINE // 4
"""Elements, as a multiple of which parts begin: float32 of a line of cache, which two threads
should not write to."""
_ALSO = {*NO_UFUNCS, "maximum", "minimum"}
"""Steps with an expression that `is_exact` does not know: what is no ufunc, and the larger or the
lesser of two arrays. Of 0.0 and -0.0 the second is taken, as NumPy's wide loops do."""


def has_expressions(program: FlatProgram) -> bool:
    """Whether each step is rounded exactly, so that machine code gives the bits of the steps."""
    steps = (*program.scalar_steps, *program.steps)
    return all(step.name in _ALSO or is_exact(step.name, step.inputs) for step in steps)


def flat_kernel(program: FlatProgram) -> str:
    """The text of a module whose function `@run` does a program with all weights it is given."""
    module = ModuleText(
        f"@{ARRAY_TYPE} = external global ptr",
        "declare noalias ptr @malloc(i64)",
        "declare void @free(ptr)",
    )
    some = ("i64 %first", "i64 %after")
    elements = module.function(_elements(program), len(program.arrays), ("ptr %numbers", *some))
    parts = ("ptr %state", "i64 %part", "i64 %parts")
    part = module.function(_part(program, elements), 0, parts)
    module.entry(_run(program, part))
    return module.text()


# ------------------------------------------------------------------ the elements of one weight


def _elements(program: FlatProgram) -> FunctionBuilder:
    """Elements `%first` up to `%after` of the arrays `%p0`, `%p1`, ..."""
    text, dtype = FunctionBuilder(), program.dtype
    kind = type_of(dtype)

    def load_number(i: int) -> str:
        return text.load(kind, text.at("%numbers", i * dtype.itemsize))

    # before the loop: LLVM takes it to be possible that a store to an array changes them
    values: dict[View, str] = {view: load_number(i) for i, view in enumerate(program.scalars)}
    count = len(program.scalars)
    numbers = iter([load_number(count + i) for i in range(len(program.numbers))])

    def operand(x: View | Number) -> str:
        if isinstance(x, View):
            return values[x]
        return next(numbers) if x.dtype == dtype else literal(x.value, x.dtype)

    def compute(step: Elementwise) -> None:
        operands = [operand(x) for x in step.inputs]
        values[step.out] = emitted(
            text.line, step.name, step.inputs[-1].dtype, operands, step.out.dtype
        )

    def element(i: str) -> None:
        addresses = [text.moved(f"%p{k}", i, dtype.itemsize, dtype) for k in range(count_of_arrays)]
        # all that is read before anything is written: no result needs memory of its own
        values.update(
            (view, text.element(dtype, address))
            for view, address in zip(program.arrays, addresses, strict=True)
        )
        for step in program.steps:
            compute(step)
        for k, result in program.assignments:
            text.put(dtype, values[result], addresses[k])

    count_of_arrays = len(program.arrays)
    for step in program.scalar_steps:
        compute(step)
    text.loop("%after", element, inner=True, first="%first")
    return text


# ------------------------------------------------------------------ a part of the work

_STATE = ("ptr", "ptr", "i64", "i64")
"""What a part is given, eight bytes each: the numbers, the table, how many rows that has, and how
many elements there are in all. A row of the table is a weight, or as much of one as a piece of its
gradient covers: the addresses of its arrays, and the number of elements up to its end."""


def _part(program: FlatProgram, elements: str) -> FunctionBuilder:
    """One of some parts, each of which is a range of all elements."""
    text, width = FunctionBuilder(), 8 * (len(program.arrays) + 1)
    state = [text.load(kind, text.at("%state", 8 * i)) for i, kind in enumerate(_STATE)]
    numbers, table, members, total = state
    more = text.line(f"add i64 {total}, {_UNIT - 1}")
    units = text.line(f"udiv i64 {more}, {_UNIT}")
    ends = []
    for part in ("%part", text.line("add i64 %part, 1")):
        share = text.line(f"udiv i64 {text.line(f'mul i64 {units}, {part}')}, %parts")
        ends.append(_minimum(text, text.line(f"mul i64 {share}, {_UNIT}"), total))
    before = text.line("alloca i64")
    text.store("i64", "0", before)

    def member(i: str) -> None:
        row = text.line(f"getelementptr i8, ptr {table}, i64 {text.line(f'mul i64 {i}, {width}')}")
        start, end = text.load("i64", before), text.load("i64", text.at(row, width - 8))
        text.store("i64", end, before)
        first, after = (
            text.line(f"sub i64 {_minimum(text, _greatest(text, x, start), end)}, {start}")
            for x in ends
        )
        some = text.line(f"icmp ult i64 {first}, {after}")
        inside, outside = text.name()[1:], text.name()[1:]
        text.do(f"br i1 {some}, label %{inside}, label %{outside}")
        text.start(inside)
        arrays = [
            f"ptr {text.load('ptr', text.at(row, 8 * k))}" for k in range(len(program.arrays))
        ]
        arguments = [*arrays, f"ptr {numbers}", f"i64 {first}", f"i64 {after}"]
        text.do(f"call void {elements}({', '.join(arguments)})")
        text.do(f"br label %{outside}")
        text.start(outside)

    text.loop(members, member, first="0")
    return text


def _minimum(text: FunctionBuilder, x: str, y: str) -> str:
    return text.line(f"select i1 {text.line(f'icmp ult i64 {x}, {y}')}, i64 {x}, i64 {y}")


def _greatest(text: FunctionBuilder, x: str, y: str) -> str:
    return text.line(f"select i1 {text.line(f'icmp ugt i64 {x}, {y}')}, i64 {x}, i64 {y}")


# ------------------------------------------------------------------ what Python calls


def _run(program: FlatProgram, part: str) -> FunctionBuilder:
    """Takes numbers and arrays out of Python's objects, and has the parts done."""
    text, dtype, width = FunctionBuilder(), program.dtype, len(program.arrays)
    count = len(program.scalars) + len(program.numbers)
    numbers = text.line(f"alloca [{max(count, 1)} x {type_of(dtype)}]")
    state, total, size = (text.line(f"alloca {x}") for x in ("[4 x i64]", "i64", "i64"))
    one, n_rows, piece_start = (text.line("alloca i64") for _ in range(3))
    single_piece, position = text.line("alloca [2 x i64]"), text.line("alloca ptr")
    arrays = text.line(f"sub i64 %count, {2 + count}")
    _require(text, text.line(f"icmp sge i64 {arrays}, 0"), "unfit")
    members = text.line(f"udiv i64 {arrays}, {width}")
    complete = text.line(f"mul i64 {members}, {width}")
    _require(text, text.line(f"icmp eq i64 {complete}, {arrays}"), "unfit")
    pool, parts = (
        text.line(f"call i64 @PyLong_AsLongLong(ptr {_argument(text, i)})") for i in (0, 1)
    )
    for i in range(count):
        real = text.line(f"call double @PyFloat_AsDouble(ptr {_argument(text, 2 + i)})")
        real = text.line(f"fptrunc double {real} to float") if dtype.itemsize == 4 else real
        text.store(type_of(dtype), real, text.at(numbers, i * dtype.itemsize))
    # once for all: what could not be read is -1 until here, and nothing has been done with it
    raised = text.line("call ptr @PyErr_Occurred()")
    _require(text, text.line(f"icmp eq ptr {raised}, null"), "error")
    array_type = text.load("ptr", f"@{ARRAY_TYPE}")
    text.store("i64", "1", one)
    text.store("i64", "0", n_rows)

    def member_objects(i: str) -> list[str]:
        objects = text.line(f"getelementptr i8, ptr %args, i64 {_times(text, i, 8 * width)}")
        objects = text.at(objects, 8 * (2 + count))
        return [text.load("ptr", text.at(objects, 8 * k)) for k in range(width)]

    def count_rows(i: str) -> None:
        grad = member_objects(i)[1]
        is_pieces = _is_pieces(text, grad, array_type)
        counts = text.load("ptr", text.at(grad, SIZES))
        counts = text.line(f"select i1 {is_pieces}, ptr {counts}, ptr {one}")
        more = text.load("i64", counts)
        text.store("i64", text.line(f"add i64 {text.load('i64', n_rows)}, {more}"), n_rows)

    text.loop(members, count_rows, first="0")
    room = _times(text, text.load("i64", n_rows), 8 * width + 8)
    table = text.line(f"call ptr @malloc(i64 {room})")
    text.store("ptr", table, position)
    text.store("i64", "0", total)
    written = {k for k, _ in program.assignments}

    def member(i: str) -> None:
        things = member_objects(i)
        is_pieces = _is_pieces(text, things[1], array_type)
        for k, thing in enumerate(things):
            _check_array(
                text, thing, dtype, array_type, k in written, is_pieces if k == 1 else None
            )
        rank = text.load("i32", text.at(things[0], RANK))
        shapes = [text.load("ptr", text.at(thing, SIZES)) for thing in things]
        for k, thing in enumerate(things[1:], 1):
            other = text.load("i32", text.at(thing, RANK))
            if k == 1:  # pieces have no shape: they are counted instead
                other = text.line(f"select i1 {is_pieces}, i32 {rank}, i32 {other}")
                shapes[1] = text.line(f"select i1 {is_pieces}, ptr {shapes[0]}, ptr {shapes[1]}")
            _require(text, text.line(f"icmp eq i32 {other}, {rank}"), "misfit")
        text.store("i64", "1", size)

        def axis(j: str) -> None:
            sizes = [
                text.load("i64", text.line(f"getelementptr i64, ptr {shape}, i64 {j}"))
                for shape in shapes
            ]
            for other in sizes[1:]:
                _require(text, text.line(f"icmp eq i64 {other}, {sizes[0]}"), "misfit")
            text.store("i64", _times(text, text.load("i64", size), sizes[0]), size)

        text.loop(text.line(f"zext i32 {rank} to i64"), axis, first="0")
        bases = [text.load("ptr", text.at(thing, DATA)) for thing in things]
        # a gradient in one array is one piece
        n_elements, before = text.load("i64", size), text.load("i64", total)
        text.store("i64", n_elements, single_piece)
        text.store("ptr", bases[1], text.at(single_piece, 8))
        pieces = text.line(f"select i1 {is_pieces}, ptr {bases[1]}, ptr {single_piece}")
        counts = text.load("ptr", text.at(things[1], SIZES))
        n_pieces = text.load("i64", text.line(f"select i1 {is_pieces}, ptr {counts}, ptr {one}"))
        text.store("i64", "0", piece_start)

        def piece(j: str) -> None:
            at = text.line(
                f"getelementptr i8, ptr {pieces}, i64 {_times(text, j, PIECES.itemsize)}"
            )
            first, after = text.load("i64", piece_start), text.load("i64", at)
            _require(text, text.line(f"icmp ule i64 {first}, {after}"), "misfit")
            _require(text, text.line(f"icmp ule i64 {after}, {n_elements}"), "misfit")
            text.store("i64", after, piece_start)
            row = text.load("ptr", position)
            for k, base in enumerate(bases):
                address = text.moved(base, first, dtype.itemsize, dtype)
                address = text.load("ptr", text.at(at, 8)) if k == 1 else address
                text.store("ptr", address, text.at(row, 8 * k))
            end = text.line(f"add i64 {before}, {after}")
            text.store("i64", end, text.at(row, 8 * width))
            text.store("ptr", text.at(row, 8 * width + 8), position)

        text.loop(n_pieces, piece, first="0")
        all_covered = text.line(f"icmp eq i64 {text.load('i64', piece_start)}, {n_elements}")
        _require(text, all_covered, "misfit")
        text.store("i64", text.line(f"add i64 {before}, {n_elements}"), total)

    text.loop(members, member, first="0")
    elements = text.load("i64", total)
    for i, (kind, value) in enumerate(
        zip(_STATE, (numbers, table, text.load("i64", n_rows), elements), strict=True)
    ):
        text.store(kind, value, text.at(state, 8 * i))
    _share_out(text, part, pool, parts, state, elements)
    text.do(f"call void @free(ptr {table})")
    _leave(text, 1)
    text.start("misfit")
    text.do(f"call void @free(ptr {table})")
    text.do("br label %unfit")
    text.start("unfit")
    _leave(text, 0)
    text.start("error")
    text.do("ret ptr null")
    return text


def _share_out(
    text: FunctionBuilder, part: str, pool: str, parts: str, state: str, elements: str
) -> None:
    """Have all parts done: by the pool, with other threads of Python running meanwhile, or here.

    Callers name a pool from `FEWEST_COPIED` elements on.
    """
    large, small, alone, together, back, finish = (text.name()[1:] for _ in range(6))
    is_large = text.line(f"icmp uge i64 {elements}, {FEWEST_COPIED}")
    text.do(f"br i1 {is_large}, label %{large}, label %{small}")
    text.start(small)
    text.do(f"call void {part}(ptr {state}, i64 0, i64 1)")
    text.do(f"br label %{finish}")
    text.start(large)
    thread = text.line("call ptr @PyEval_SaveThread()")
    is_there = text.line(f"icmp ne i64 {pool}, 0")
    text.do(f"br i1 {is_there}, label %{together}, label %{alone}")
    text.start(together)
    function = text.line(f"inttoptr i64 {pool} to ptr")
    text.do(f"call void {function}(ptr {part}, ptr {state}, i64 {parts})")
    text.do(f"br label %{back}")
    text.start(alone)
    text.do(f"call void {part}(ptr {state}, i64 0, i64 1)")
    text.do(f"br label %{back}")
    text.start(back)
    text.do(f"call void @PyEval_RestoreThread(ptr {thread})")
    text.do(f"br label %{finish}")
    text.start(finish)


def _argument(text: FunctionBuilder, index: int) -> str:
    return text.load("ptr", text.at("%args", 8 * index))


def _times(text: FunctionBuilder, x: str, y: int | str) -> str:
    return text.line(f"mul i64 {x}, {y}")


def _require(text: FunctionBuilder, condition: str, otherwise: str) -> None:
    label = text.name()[1:]
    text.do(f"br i1 {condition}, label %{label}, label %{otherwise}")
    text.start(label)


def _leave(text: FunctionBuilder, completed: int) -> None:
    text.do(f"ret ptr {text.line(f'call ptr @PyBool_FromLong(i64 {completed})')}")


def _is_pieces(text: FunctionBuilder, grad: str, array_type: str) -> str:
    """Whether a gradient comes in pieces; required is that it is an array, and pieces a vector."""
    is_array = text.line(f"icmp eq ptr {text.load('ptr', text.at(grad, TYPE))}, {array_type}")
    _require(text, is_array, "unfit")
    kind = text.load("i8", text.at(text.load("ptr", text.at(grad, DESCR)), KIND))
    is_pieces = text.line(f"icmp eq i8 {kind}, {ord(PIECES.kind)}")
    is_vector = text.line(f"icmp eq i32 {text.load('i32', text.at(grad, RANK))}, 1")
    _require(text, text.line(f"select i1 {is_pieces}, i1 {is_vector}, i1 true"), "unfit")
    return is_pieces


def _check_array(
    text: FunctionBuilder,
    thing: str,
    dtype: np.dtype,
    array_type: str,
    is_written: bool,
    is_pieces: str | None,
) -> None:
    """Require an array of a dtype whose elements follow one another, or one of pieces."""

    def require(kind: str, x: str, expected: object, of_pieces: object = None) -> None:
        if is_pieces is not None and of_pieces is not None:
            selection = f"select i1 {is_pieces}, {kind} {of_pieces}, {kind} {expected}"
            expected = text.line(selection)
        _require(text, text.line(f"icmp eq {kind} {x}, {expected}"), "misfit")

    # the very type: what a masked array holds is no number where it is masked
    require("ptr", text.load("ptr", text.at(thing, TYPE)), array_type)
    flags = IN_ROWS | ALIGNED | (WRITEABLE if is_written else 0)
    actual = text.load("i32", text.at(thing, FLAGS))
    require("i32", text.line(f"and i32 {actual}, {flags}"), flags)
    # equal dtypes can be different objects, so that their fields are compared and not addresses
    descr = text.load("ptr", text.at(thing, DESCR))
    require("i8", text.load("i8", text.at(descr, KIND)), ord(dtype.kind), ord(PIECES.kind))
    item_size = text.load("i64", text.at(descr, ITEM_SIZE))
    require("i64", item_size, dtype.itemsize, PIECES.itemsize)
    order = text.load("i8", text.at(descr, ORDER))
    _require(text, text.line(f"icmp ne i8 {order}, {SWAPPED}"), "misfit")
