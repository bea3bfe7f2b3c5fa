"""Object code that is cut off, of another machine or inconsistent never reaches LLVM's loader."""

import struct
import sys

import pytest

from trainkit.compiler.llvm import jit
from trainkit.kernels.jit.object_format import names_outside

pytest.importorskip("llvmlite")
pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="of Linux's form")

TEXT = """
@table = internal global [2 x ptr] [ptr @outside, ptr @table]
declare i32 @outside(ptr)
define i32 @run(ptr %self) {
  %r = call i32 @outside(ptr @table)
  ret i32 %r
}
"""


@pytest.fixture(scope="module")
def code():
    return jit.machine()._compiled(TEXT, "run_1")


def test_what_is_needed_from_outside(code):
    assert names_outside(code) == {"outside"}


def test_each_part_of_a_file_is_none(code):
    for length in range(len(code)):
        with pytest.raises(ValueError, match="object code is"):
            names_outside(code[:length])


def changed(code, form, position, value):
    data = bytearray(code)
    struct.pack_into(form, data, position, value)
    return bytes(data)


def sections(code):
    """Positions of the headers of sections, by their kinds."""
    (start,), (count,) = struct.unpack_from("<Q", code, 40), struct.unpack_from("<H", code, 60)
    headers = [start + i * 64 for i in range(count)]
    return {struct.unpack_from("<I", code, at + 4)[0]: at for at in headers}


SYMBOLS, STRINGS, RELOCATIONS = 2, 3, 4


@pytest.mark.parametrize(
    ("kind", "form", "field", "value"),
    [
        (SYMBOLS, "<I", 40, 999),  # no such table of names
        (SYMBOLS, "<Q", 56, 0),  # entries without a size
        (STRINGS, "<Q", 24, 2**62),  # outside of the file
        (STRINGS, "<Q", 48, 3),  # alignments are powers of two
        (RELOCATIONS, "<I", 40, 0),  # the symbols of none
        (RELOCATIONS, "<I", 44, 0),  # a target without room
        (RELOCATIONS, "<I", 4, 9),  # another form of them
    ],
)
def test_a_header_of_a_section_that_lies(code, kind, form, field, value):
    with pytest.raises(ValueError, match="object code is"):
        names_outside(changed(code, form, sections(code)[kind] + field, value))


@pytest.mark.parametrize(
    ("form", "position", "value"), [("<H", 18, 0xBEEF), ("<H", 16, 2), ("<H", 60, 0), ("<B", 4, 1)]
)
def test_a_file_of_another_kind(code, form, position, value):
    with pytest.raises(ValueError, match="object code is"):
        names_outside(changed(code, form, position, value))


@pytest.mark.parametrize(
    ("kind", "form", "field"),
    [(SYMBOLS, "<I", 0), (SYMBOLS, "<H", 6), (RELOCATIONS, "<Q", 0), (RELOCATIONS, "<I", 12)],
)
def test_an_entry_that_points_out_of_its_table(code, kind, form, field):
    start, size = struct.unpack_from("<QQ", code, sections(code)[kind] + 24)
    with pytest.raises(ValueError, match="object code is"):
        names_outside(changed(code, form, start + size - 24 + field, 0x7FFF))
