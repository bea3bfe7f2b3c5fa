"""The machine code of the thread pool, in LLVM's language.

`pool_run(function, data, parts)` has `function(data, part, parts)` called for each part, here and
by helpers, and comes back when all are done; `pool_serve()` is what a helper does, and never comes
back. Who has nothing to do looks for work for some ten microseconds and then sleeps: a helper until
a caller wakes it, a caller that waits for parts which others have begun until the last one leaves.
A caller wakes as many as sleep and have a part to do.
"""

from __future__ import annotations

import platform

from trainkit.core.cpu.cost_model import SPINS
from trainkit.kernels.jit.digests import digest_of

FIELDS = (
    "function",
    "data",
    "parts",
    "next",  # the part that is taken next
    "open",  # whether there is work
    "inside",  # how many helpers have a part, or look for one
    "busy",  # whether a caller has the pool
    "size",  # how many threads may work, that of the caller included
    "asleep",  # how many helpers nobody has woken yet
    "waiting",  # whether the caller sleeps until nobody is inside
)
SEMAPHORES = ("work", "done")
"""What helpers sleep at, and what a caller sleeps at."""


PAUSES = {
    "x86_64": ("declare void @llvm.x86.sse2.pause()", "call void @llvm.x86.sse2.pause()"),
    "aarch64": ("declare void @llvm.aarch64.hint(i32)", "call void @llvm.aarch64.hint(i32 1)"),
}
"""What lets a processor know that it only waits, by its name: a declaration and a call."""

# Each field has a cache line of its own, so that who reads one is not slowed by who writes.
_FIELD = "@pool_{name} = global [8 x i64] zeroinitializer, align 64"

_TEXT = """
{outside}
declare i32 @sem_post(ptr)
declare i32 @sem_wait(ptr)

define internal void @take_parts() {{
entry:
  %function = load ptr, ptr @pool_function
  %data = load ptr, ptr @pool_data
  %parts = load i64, ptr @pool_parts
  br label %more
more:
  %part = atomicrmw add ptr @pool_next, i64 1 seq_cst
  %left = icmp ult i64 %part, %parts
  br i1 %left, label %do, label %done
do:
  call void %function(ptr %data, i64 %part, i64 %parts)
  br label %more
done:
  ret void
}}

; One of those that sleep is awake from now on; false where none sleeps.
define internal i1 @take_sleeper() {{
entry:
  br label %look
look:
  %asleep = load atomic i64, ptr @pool_asleep seq_cst, align 8
  %some = icmp sgt i64 %asleep, 0
  br i1 %some, label %try, label %out
try:
  %fewer = sub i64 %asleep, 1
  %swapped = cmpxchg ptr @pool_asleep, i64 %asleep, i64 %fewer seq_cst seq_cst
  %mine = extractvalue {{ i64, i1 }} %swapped, 1
  br i1 %mine, label %out, label %look
out:
  %found = phi i1 [false, %look], [true, %try]
  ret i1 %found
}}

define void @pool_run(ptr %function, ptr %data, i64 %parts) {{
entry:
  %size = load atomic i64, ptr @pool_size monotonic, align 8
  %several = icmp sgt i64 %size, 1
  %split = icmp ugt i64 %parts, 1
  %shared = and i1 %several, %split
  br i1 %shared, label %claim, label %alone
claim:
  %claimed = cmpxchg ptr @pool_busy, i64 0, i64 1 seq_cst seq_cst
  %mine = extractvalue {{ i64, i1 }} %claimed, 1
  br i1 %mine, label %begin, label %alone
begin:
  store ptr %function, ptr @pool_function
  store ptr %data, ptr @pool_data
  store i64 %parts, ptr @pool_parts
  store atomic i64 0, ptr @pool_next seq_cst, align 8
  store atomic i64 1, ptr @pool_open seq_cst, align 8
  %fewer = icmp ult i64 %parts, %size
  %most = select i1 %fewer, i64 %parts, i64 %size
  br label %wake
wake:
  %woken = phi i64 [1, %begin], [%wakes, %post]
  %enough = icmp uge i64 %woken, %most
  br i1 %enough, label %work, label %next_sleeper
next_sleeper:
  %sleeper = call i1 @take_sleeper()
  br i1 %sleeper, label %post, label %work
post:
  %ignored = call i32 @sem_post(ptr @pool_work)
  %wakes = add i64 %woken, 1
  br label %wake
work:
  call void @take_parts()
  store atomic i64 0, ptr @pool_open seq_cst, align 8
  br label %wait
wait:
  %turn = phi i64 [0, %work], [%turns, %pause], [0, %slept]
  %inside = load atomic i64, ptr @pool_inside seq_cst, align 8
  %empty = icmp eq i64 %inside, 0
  br i1 %empty, label %end, label %pause_or_sleep
pause_or_sleep:
  %long = icmp ugt i64 %turn, {spins}
  br i1 %long, label %sleep, label %pause
pause:
  {pause}
  %turns = add i64 %turn, 1
  br label %wait
sleep:
  store atomic i64 1, ptr @pool_waiting seq_cst, align 8
  %still = load atomic i64, ptr @pool_inside seq_cst, align 8
  %left_now = icmp eq i64 %still, 0
  br i1 %left_now, label %take_back, label %doze
take_back:
  %was = atomicrmw xchg ptr @pool_waiting, i64 0 seq_cst
  %own = icmp eq i64 %was, 1
  br i1 %own, label %end, label %doze
doze:
  %ignored2 = call i32 @sem_wait(ptr @pool_done)
  br label %slept
slept:
  br label %wait
end:
  store atomic i64 0, ptr @pool_busy seq_cst, align 8
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
  %sleepers = atomicrmw add ptr @pool_asleep, i64 1 seq_cst
  %begun = load atomic i64, ptr @pool_open seq_cst, align 8
  %late = icmp ne i64 %begun, 0
  br i1 %late, label %late_or_done, label %doze
late_or_done:
  %taken = load atomic i64, ptr @pool_next seq_cst, align 8
  %all = load i64, ptr @pool_parts
  %left = icmp ult i64 %taken, %all
  br i1 %left, label %wake_up, label %doze
wake_up:
  %own = call i1 @take_sleeper()
  br i1 %own, label %enter, label %doze
doze:
  %failed = call i32 @sem_wait(ptr @pool_work)
  %interrupted = icmp ne i32 %failed, 0
  br i1 %interrupted, label %doze, label %enter
enter:
  %before = atomicrmw add ptr @pool_inside, i64 1 seq_cst
  %open = load atomic i64, ptr @pool_open seq_cst, align 8
  %work = icmp ne i64 %open, 0
  br i1 %work, label %help, label %leave
help:
  call void @take_parts()
  br label %leave
leave:
  %after = atomicrmw sub ptr @pool_inside, i64 1 seq_cst
  %last = icmp eq i64 %after, 1
  br i1 %last, label %see_caller, label %look
see_caller:
  %waits = atomicrmw xchg ptr @pool_waiting, i64 0 seq_cst
  %asked = icmp eq i64 %waits, 1
  br i1 %asked, label %wake_caller, label %look
wake_caller:
  %ignored = call i32 @sem_post(ptr @pool_done)
  br label %look
look:
  %turn = phi i64 [0, %leave], [0, %see_caller], [0, %wake_caller], [%turns, %again]
  %opened = load atomic i64, ptr @pool_open seq_cst, align 8
  %is_open = icmp ne i64 %opened, 0
  br i1 %is_open, label %unfinished, label %again
unfinished:
  %next = load atomic i64, ptr @pool_next seq_cst, align 8
  %parts = load i64, ptr @pool_parts
  %some = icmp ult i64 %next, %parts
  br i1 %some, label %enter, label %again
again:
  {pause}
  %turns = add i64 %turn, 1
  %long = icmp ugt i64 %turns, {spins}
  br i1 %long, label %sleep, label %look
}}
"""


def pool_text(machine: str = "") -> str:
    """The module: functions, and the memory that threads share.

    Args:
        machine: the processor that it is for, of `PAUSES`; by default it is this one.
    """
    declared, pause = PAUSES[machine or platform.machine()]
    memory = [_FIELD.format(name=name) for name in (*FIELDS, *SEMAPHORES)]
    return _TEXT.format(outside="\n".join([*memory, declared]), pause=pause, spins=SPINS)


def library_prefix(text: str) -> str:
    """What names that begin with `pool_` begin with in a library: they belong to one text."""
    return f"p{digest_of(text)[:24]}_"


def library_text(machine: str = "") -> str:
    """`pool_text` as a part of a library, by other names."""
    text = pool_text(machine)
    return text.replace("@pool_", f"@{library_prefix(text)}")
