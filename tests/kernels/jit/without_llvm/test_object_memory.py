"""Object code in memory without LLVM: it says what LLVM's loader makes it say."""

import ctypes

import pytest

pytest.importorskip("llvmlite")

import llvmlite.binding as llvm

from trainkit.kernels.jit.llvm_target import target_machine
from trainkit.kernels.jit.object_format import names_outside
from trainkit.kernels.jit.object_loader import LlvmLinker, linker
from trainkit.kernels.jit.without_llvm import object_memory

pytestmark = pytest.mark.skipif(not object_memory.is_supported(), reason="LLVM loads code here")

TEXT = """
@factors = private constant [3 x i64] [i64 2, i64 3, i64 5], align 64
@table = internal global [2 x ptr] [ptr @factors, ptr @twice]
@count = internal global i64 0
declare i64 @labs(i64)
define internal i64 @twice(i64 %x) noinline { %y = mul i64 %x, 2  ret i64 %y }
define i64 @NAME(i64 %x) {
  %first = load ptr, ptr @table
  %at = getelementptr i64, ptr %first, i64 2
  %factor = load i64, ptr %at
  %slot = getelementptr ptr, ptr @table, i64 1
  %function = load ptr, ptr %slot
  %product = mul i64 %x, %factor
  %size = call i64 @labs(i64 %product)
  %doubled = call i64 %function(i64 %size)
  %before = load i64, ptr @count
  %now = add i64 %before, 1
  store i64 %now, ptr @count
  %result = add i64 %doubled, %now
  ret i64 %result
}
"""


def object_code(text, **options):
    if not options:
        return target_machine().emit_object(llvm.parse_assembly(text))
    target_machine()
    target = llvm.Target.from_default_triple().create_target_machine(**options)
    return target.emit_object(llvm.parse_assembly(text))


def in_process(name):
    labs = ctypes.cast(ctypes.CDLL(None).labs, ctypes.c_void_p).value
    return {"labs": labs, "labs_far_away": 16}.get(name, 0)


def called(address, *numbers):
    kind = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * len(numbers))
    return [kind(address)(*numbers) for _ in range(2)]


def test_constants_memory_and_calls_are_as_llvm_has_them():
    code = object_code(TEXT.replace("NAME", "own_loaded"))
    assert names_outside(code) == {"labs"}
    defined = object_memory.load_object(code, in_process)
    assert set(defined) == {"own_loaded"}
    of_llvm = LlvmLinker()
    of_llvm.add(object_code(TEXT.replace("NAME", "llvm_loaded")), {})
    results = called(defined["own_loaded"], -7)
    assert results == [71, 72]
    assert results == called(of_llvm.address("llvm_loaded"), -7)


def test_what_may_be_missing_is_at_address_0():
    text = """
    @missing = extern_weak global i64
    define i64 @weak(i64 %x) {
      %y = ptrtoint ptr @missing to i64
      ret i64 %y
    }
    """
    code = object_code(text)
    assert names_outside(code) == set()
    assert called(object_memory.load_object(code, in_process)["weak"], 3) == [0, 0]


def test_code_can_not_be_written_to_nor_constants():
    code = object_code(TEXT.replace("NAME", "guarded"))
    address = object_memory.load_object(code, in_process)["guarded"]
    with open("/proc/self/maps") as maps:
        spans = [line.split()[:2] for line in maps]
    rights = [
        rights
        for span, rights in spans
        if int(span.split("-")[0], 16) <= address < int(span.split("-")[1], 16)
    ]
    assert rights == ["r-xp"]


def test_frames_are_known_to_what_unwinds_the_stack():
    code = object_code(TEXT.replace("NAME", "framed"))
    address = object_memory.load_object(code, in_process)["framed"]
    find = ctypes.CDLL("libgcc_s.so.1")._Unwind_Find_FDE
    find.restype, find.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_void_p]
    bases = (ctypes.c_void_p * 3)()
    assert find(address + 4, bases)
    assert bases[2] == address


FAR = """
declare i64 @labs_far_away(i64)
define ptr @run(ptr %self, ptr %args, i64 %count) {
  %size = call i64 @labs_far_away(i64 %count)
  %all = inttoptr i64 %size to ptr
  ret ptr %all
}
@tls = thread_local global i64 0
"""


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (FAR.replace("thread_local ", ""), {"codemodel": "small", "reloc": "static"}),
        (FAR, {}),
        (FAR.replace("thread_local ", "common "), {}),
    ],
    ids=["a call over a long way", "memory of threads", "common memory"],
)
def test_what_is_left_to_llvm(text, options):
    code = object_code(text.replace("@run", "@left_to_llvm"), **options)
    names_outside(code)
    with pytest.raises(object_memory.UnknownObject):
        object_memory.load_object(code, in_process)


def test_the_linker_goes_to_llvm_with_what_is_left():
    text = FAR.replace("labs_far_away", "labs")
    text = text.replace("thread_local ", "common ").replace("ret ptr %all", "ret ptr @tls")
    code = object_code(text.replace("@run", "@by_llvm").replace("@tls", "@shared_zero"))
    assert callable(linker().loaded(code, "by_llvm"))
