"""LLVM in a process of its own: this one never loads it, and goes on where there is no other."""

import contextlib
import os
import select
import signal
import subprocess
import sys
import threading

import pytest

pytest.importorskip("llvmlite")

from trainkit.compiler.llvm import jit
from trainkit.kernels.jit.without_llvm import compiler_process, object_memory
from trainkit.kernels.jit.without_llvm.compiler_process import CompilerProcess

pytestmark = pytest.mark.skipif(not object_memory.is_supported(), reason="LLVM loads code here")

TEXT = "define i64 @f(i64 %x) { %y = add i64 %x, NUMBER  ret i64 %y }"


@pytest.fixture
def compiler():
    compiler = CompilerProcess()
    yield compiler
    compiler.end()


def test_code_is_that_of_this_process(compiler):
    for number in ("1", "2"):
        text = TEXT.replace("NUMBER", number)
        assert compiler.object_code(text) == jit._compile_here(text)


def test_what_llvm_refuses_is_said_and_the_next_text_compiled(compiler):
    with pytest.raises(RuntimeError, match="expected"):
        compiler.object_code("define nothing")
    assert compiler.object_code(TEXT.replace("NUMBER", "3"))


def test_a_child_that_died_is_no_error(compiler):
    assert compiler.object_code(TEXT.replace("NUMBER", "1"))
    os.kill(compiler._child.pid, signal.SIGKILL)
    assert compiler.object_code(TEXT.replace("NUMBER", "1")) is None
    assert compiler._child is None
    assert compiler.object_code(TEXT.replace("NUMBER", "1")) is None


@pytest.mark.parametrize("executable", ["", "/bin/true", sys.executable + "-of-nobody"])
def test_where_python_can_not_be_started(executable, monkeypatch):
    monkeypatch.setattr(sys, "executable", executable)
    compiler = CompilerProcess()
    assert compiler.object_code(TEXT.replace("NUMBER", "1")) is None


def test_a_program_that_python_is_frozen_into_is_not_started_again(monkeypatch):
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    monkeypatch.setattr(subprocess, "Popen", lambda *given, **how: pytest.fail("started"))
    assert CompilerProcess().object_code(TEXT.replace("NUMBER", "1")) is None


def test_without_a_child_the_code_is_compile_here(monkeypatch, tmp_path):
    monkeypatch.setenv("TRAINKIT_CACHE", str(tmp_path))
    monkeypatch.setattr(CompilerProcess, "object_code", lambda self, text: None)
    text = "define ptr @run(ptr %self, ptr %args, i64 %count) { ret ptr null }"
    assert callable(jit.Machine().function(text, {}))


def test_a_child_that_nobody_asks_ends(compiler, monkeypatch):
    assert compiler.object_code(TEXT.replace("NUMBER", "1"))
    child = compiler._child
    monkeypatch.setattr(compiler_process, "COMPILER_SECONDS", 0.0)
    compiler._end_when_idle()
    assert compiler._child is None
    assert child.returncode == -signal.SIGKILL
    assert compiler.object_code(TEXT.replace("NUMBER", "2"))  # by another


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no processes are forked off here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_process_that_is_forked_off_has_a_child_of_its_own(compiler):
    assert compiler.object_code(TEXT.replace("NUMBER", "1"))
    forked = os.fork()
    if not forked:
        status = 1
        try:
            compiler.begin_fork()
            assert compiler._child is None
            assert compiler.object_code(TEXT.replace("NUMBER", "2"))
            compiler.end()
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(forked, 0)[1] == 0
    assert compiler.object_code(TEXT.replace("NUMBER", "3"))


PROGRAM = """
import os, signal, sys
import numpy as np
import trainkit as tk
from trainkit.kernels.jit.without_llvm.compiler_process import compiler_process
f = tk.function(lambda x: tk.exp(x * 2.0) + tk.sqrt(x) - 1.0, jit_compile=True)
x = tk.ones((300, 70))
y = f(x).numpy()
with open("/proc/self/maps") as maps:
    print("libllvmlite" in maps.read(), "llvmlite.binding" in sys.modules)
child = compiler_process()._child
print(child.pid if child else 0, float(y[0, 0]), flush=True)
if sys.argv[1] == "killed":
    sys.stdin.readline()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def run(how, folder, more=""):
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM + more, how],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TRAINKIT_CACHE": str(folder), "TRAINKIT_JIT": ""},
    )


def test_neither_a_first_run_nor_a_second_loads_llvm(tmp_path):
    for run_number in range(2):
        program = run("ends", tmp_path)
        output = program.communicate()[0].splitlines()
        assert program.returncode == 0
        assert output[0] == "False False"
        pid, value = output[1].split()
        assert (int(pid) == 0) == (run_number == 1)  # the code was on the disk
        assert float(value) == pytest.approx(7.389056)


def test_the_child_of_a_program_that_is_killed_ends(tmp_path):
    program = run("killed", tmp_path)
    assert program.stdout.readline() == "False False\n"
    child = os.pidfd_open(int(program.stdout.readline().split()[0]))
    try:
        program.communicate("\n")
        assert program.returncode == -signal.SIGKILL
        assert select.select([child], [], [], 60)[0], "it is still there"
    finally:
        os.close(child)


def test_a_program_ends_while_its_child_compiles(tmp_path):
    """A thread that waits for the code neither holds up the end nor compiles it again."""
    more = """
import threading
from trainkit.kernels.jit.without_llvm import compiler_process as module
asked, send = threading.Event(), module.send
def send_and_say(*given):
    asked.set()
    module.receive = lambda file: file.read(1 << 30)  # for longer than any text takes
    send(*given)
module.send = send_and_say
text = "define i64 @g(i64 %x) { ret i64 %x }"
threading.Thread(target=compiler_process().object_code, args=(text,), daemon=True).start()
asked.wait()
"""
    program = run("ends", tmp_path, more)
    program.communicate(timeout=60)
    assert program.returncode == 0


def test_a_thread_that_compiles_while_the_process_ends_gives_up_its_locks():
    compiler = CompilerProcess()
    lock, results, asked = threading.Lock(), [], threading.Event()

    def ask(text):
        asked.set()
        released.wait()
        return None

    def compiles():
        with contextlib.suppress(SystemExit), lock:  # pytest would tell of it, Python does not
            results.append(compiler.object_code("text"))

    released = threading.Event()
    compiler._is_possible, compiler._ask = True, ask
    thread = threading.Thread(target=compiles, daemon=True)
    thread.start()
    asked.wait()
    compiler.end()
    released.set()
    thread.join(20.0)
    assert not thread.is_alive()
    assert not lock.locked()
    assert results == []


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="sessions share cores on Linux")
def test_steps_go_before_the_child(compiler):
    """In a session of its own its priority would not count against that of the program."""
    assert compiler.object_code(TEXT.replace("NUMBER", "1"))
    child = compiler._child.pid
    assert os.getsid(child) == os.getsid(0)
    assert os.getpgid(child) != os.getpgid(0)
    own = os.getpriority(os.PRIO_PROCESS, os.getpid())
    assert os.getpriority(os.PRIO_PROCESS, child) == min(own + compiler_process.NICENESS, 19)
