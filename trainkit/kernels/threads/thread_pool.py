"""A thread pool for machine code: whoever is free helps, and nobody is waited for to begin.

The threads of BLAS and of compiled kernels keep a core for a while after each call. A pool that
waits until all of its members are there, as OpenMP's do, then waits for the busy core too: 0.1 ms
and more. Here the caller begins at once, parts of the work are taken one by one by whoever comes,
and the caller only waits for parts that others have begun. A call that nobody comes to help costs
a few microseconds more than doing the work alone; so does one in a process that was forked off,
where the helpers are missing.

Helpers are threads of Python that never come back from machine code and don't hold its lock.
"""

from __future__ import annotations

import ctypes
import os
import platform
import sys
import threading
from functools import lru_cache
from typing import Any

from trainkit.kernels.jit.numpy_inner_loops import built_in, python_function
from trainkit.kernels.threads import pools

_SPINS = 2000
"""How often a helper that is done looks for more work before it sleeps: some ten microseconds."""

_FIELDS = ("function", "data", "parts", "next", "open", "inside", "busy", "size")
_LINE_BYTES = 64
"""Each field has a cache line of its own, so that who reads one is not slowed by who writes."""
_SEMAPHORE_BYTES = 64
_PAUSES = {
    "x86_64": ("declare void @llvm.x86.sse2.pause()", "call void @llvm.x86.sse2.pause()"),
    "aarch64": ("declare void @llvm.aarch64.hint(i32)", "call void @llvm.aarch64.hint(i32 1)"),
}
"""What lets a processor know that it only waits, by its name: a declaration and a call."""

_TEXT = """
{outside}
@semaphore = external global i8
declare i32 @sem_post(ptr)
declare i32 @sem_wait(ptr)
declare i32 @sched_yield()

define internal void @take_part() {{
entry:
  %function = load ptr, ptr @function
  %data = load ptr, ptr @data
  %parts = load i64, ptr @parts
  br label %more
more:
  %part = atomicrmw add ptr @next, i64 1 seq_cst
  %left = icmp ult i64 %part, %parts
  br i1 %left, label %do, label %done
do:
  call void %function(ptr %data, i64 %part, i64 %parts)
  br label %more
done:
  ret void
}}

define void @pool_run(ptr %function, ptr %data, i64 %parts) {{
entry:
  %size = load atomic i64, ptr @size monotonic, align 8
  %several = icmp sgt i64 %size, 1
  %split = icmp ugt i64 %parts, 1
  %shared = and i1 %several, %split
  br i1 %shared, label %claim, label %alone
claim:
  %claimed = cmpxchg ptr @busy, i64 0, i64 1 seq_cst seq_cst
  %mine = extractvalue {{ i64, i1 }} %claimed, 1
  br i1 %mine, label %begin, label %alone
begin:
  store ptr %function, ptr @function
  store ptr %data, ptr @data
  store i64 %parts, ptr @parts
  store atomic i64 0, ptr @next seq_cst, align 8
  store atomic i64 1, ptr @open seq_cst, align 8
  br label %call
call:
  %called = phi i64 [1, %begin], [%calls, %call]
  %ignored = call i32 @sem_post(ptr @semaphore)
  %calls = add i64 %called, 1
  %enough = icmp sge i64 %calls, %size
  br i1 %enough, label %work, label %call
work:
  call void @take_part()
  store atomic i64 0, ptr @open seq_cst, align 8
  br label %wait
wait:
  %turn = phi i64 [0, %work], [%turns, %next_turn]
  %inside = load atomic i64, ptr @inside seq_cst, align 8
  %empty = icmp eq i64 %inside, 0
  br i1 %empty, label %end, label %pause
pause:
  {pause}
  %turns = add i64 %turn, 1
  %long = icmp ugt i64 %turns, {spins}
  br i1 %long, label %let, label %next_turn
let:
  %ignored2 = call i32 @sched_yield()
  br label %next_turn
next_turn:
  br label %wait
end:
  store atomic i64 0, ptr @busy seq_cst, align 8
  ret void
alone:
  %none = icmp eq i64 %parts, 0
  br i1 %none, label %out, label %each
each:
  %i = phi i64 [0, %alone], [%following, %each]
  call void %function(ptr %data, i64 %i, i64 %parts)
  %following = add i64 %i, 1
  %further = icmp ult i64 %following, %parts
  br i1 %further, label %each, label %out
out:
  ret void
}}

define void @pool_serve() {{
entry:
  br label %sleep
sleep:
  %ignored = call i32 @sem_wait(ptr @semaphore)
  br label %enter
enter:
  %before = atomicrmw add ptr @inside, i64 1 seq_cst
  %open = load atomic i64, ptr @open seq_cst, align 8
  %work = icmp ne i64 %open, 0
  br i1 %work, label %help, label %leave
help:
  call void @take_part()
  br label %leave
leave:
  %after = atomicrmw sub ptr @inside, i64 1 seq_cst
  br label %look
look:
  %turn = phi i64 [0, %leave], [%turns, %again]
  %opened = load atomic i64, ptr @open seq_cst, align 8
  %again_open = icmp ne i64 %opened, 0
  br i1 %again_open, label %unfinished, label %again
unfinished:
  %next = load atomic i64, ptr @next seq_cst, align 8
  %parts = load i64, ptr @parts
  %some = icmp ult i64 %next, %parts
  br i1 %some, label %enter, label %again
again:
  {pause}
  %turns = add i64 %turn, 1
  %long = icmp ugt i64 %turns, {spins}
  br i1 %long, label %sleep, label %look
}}
"""


class ThreadPool:
    """The threads, and the machine code by which they work together."""

    def __init__(self) -> None:
        import llvmlite.binding as llvm

        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        size = (len(_FIELDS) + 1) * _LINE_BYTES + _SEMAPHORE_BYTES
        self._memory = ctypes.create_string_buffer(size)
        start = -(-ctypes.addressof(self._memory) // _LINE_BYTES) * _LINE_BYTES
        self._places = {name: start + i * _LINE_BYTES for i, name in enumerate(_FIELDS)}
        semaphore = start + len(_FIELDS) * _LINE_BYTES
        if ctypes.CDLL(None).sem_init(ctypes.c_void_p(semaphore), 0, 0) != 0:
            raise OSError("no semaphores")
        for name, address in {**self._places, "semaphore": semaphore}.items():
            llvm.add_symbol(name, address)
        target = llvm.Target.from_default_triple().create_target_machine(opt=2)
        declared, pause = _PAUSES[platform.machine()]
        fields = [f"@{name} = external global i64" for name in _FIELDS]
        text = _TEXT.format(outside="\n".join([*fields, declared]), pause=pause, spins=_SPINS)
        module = llvm.parse_assembly(text)
        self._engine = llvm.create_mcjit_compiler(module, target)
        self._engine.finalize_object()
        self.run_address: int = self._engine.get_function_address("pool_run")
        serve = ctypes.CFUNCTYPE(None)(self._engine.get_function_address("pool_serve"))
        for _ in range(pools.compute_threads() - 1):
            threading.Thread(target=serve, daemon=True, name="trainkit-pool").start()
        self.most = pools.compute_threads()
        self.resize()

    def python_function(self, text: str, name: str) -> Any:
        """A built-in function of a module in LLVM's language, which takes an array of pointers.

        Args:
            text: the module; it may call `pool_run`, and functions of Python's C interface.
            name: the function in it.
        """
        import llvmlite.binding as llvm

        llvm.add_symbol("pool_run", self.run_address)
        for called in ("PyBool_FromLong", "PyEval_SaveThread", "PyEval_RestoreThread"):
            llvm.add_symbol(called, python_function(called))
        self._engine.add_module(llvm.parse_assembly(text))
        self._engine.finalize_object()
        return built_in(self._engine.get_function_address(name))

    def _field(self, name: str) -> Any:
        return ctypes.c_int64.from_address(self._places[name])

    @property
    def size(self) -> int:
        """How many threads may work at a time, that of the caller included."""
        return int(self._field("size").value)

    def resize(self) -> None:
        """Use as many threads as `tk.config.threading` says, of those that were made."""
        self._field("size").value = min(self.most, pools.compute_threads())

    def be_alone(self) -> None:
        """Do without helpers from now on, as in a process that was forked off."""
        self.most = 1
        for name, value in (("size", 1), ("open", 0), ("inside", 0), ("busy", 0)):
            self._field(name).value = value


@lru_cache(maxsize=1)
def thread_pool() -> ThreadPool | None:
    """The one of this process, made when it is first asked for; `None` where there can be none."""
    if not sys.platform.startswith("linux") or platform.machine() not in _PAUSES:
        return None
    if pools.compute_threads() < 2:
        return None
    try:
        made = ThreadPool()
    except (ImportError, OSError, AttributeError):
        return None
    pools.when_resized(made.resize)
    os.register_at_fork(after_in_child=made.be_alone)
    return made


_MOST_PARTS = 64
_PART_NANOSECONDS = 20_000
"""Work that is worth the wait for a helper, which takes about as long to wake."""


def shared(nanoseconds: float) -> tuple[int, int]:
    """What a kernel that takes so long on one core is to be called with first: `pool`, `parts`.

    The number of parts depends on the work alone, so that any machine divides it in the same way.
    """
    parts = int(nanoseconds / _PART_NANOSECONDS)
    if parts < 2:
        return 0, 1
    found = thread_pool()
    return (found.run_address if found else 0), min(parts, _MOST_PARTS)
