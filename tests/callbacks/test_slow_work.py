"""What takes long is told of: in the bar of `fit`, on stderr, in a log."""

import io
import logging
import os
import re
import sys
import threading

import pytest

import trainkit as tk
from trainkit.callbacks import progress
from trainkit.core.dispatch import slow_work
from trainkit.kernels.jit import kernel_code, kernel_family


class Hears:
    def __init__(self):
        self.told, self.spoken, self.changed = [], threading.Event(), threading.Condition()

    @property
    def texts(self):
        return [text for text, _ in self.told]

    def hear(self, text, stage):
        with self.changed:
            self.told.append((text, stage))
            self.changed.notify_all()
        self.spoken.set()

    def wait_for(self, words):
        """Until a text holds these words."""
        with self.changed:
            assert self.changed.wait_for(lambda: any(words in text for text in self.texts), 60)


@pytest.fixture
def hears(monkeypatch):
    monkeypatch.setattr(slow_work, "PATIENCE_SECONDS", 0.0)
    found = Hears()
    slow_work.notify(found.hear)
    yield found
    slow_work.notify(None)


def test_tracing_that_takes_long_says_so(hears):
    @tk.function
    def slowly(x):
        hears.spoken.wait(30)
        return x + 1.0

    slowly(tk.constant(1.0))
    assert hears.texts[0] == "tracing 'slowly' ..."
    assert re.fullmatch(r"tracing 'slowly' took \d+\.\d s", hears.texts[1])


def test_compiling_that_takes_long_says_so(hears, monkeypatch):
    from trainkit.graph.runtime import fusion

    def slowly(graph):
        hears.wait_for("compiling the loops of")
        return graph

    monkeypatch.setattr(fusion, "fuse", slowly)
    f = tk.function(lambda x: tk.exp(x) * 2.0 + x, jit_compile=True)
    f(tk.ones((4,)))
    said = [text for text in hears.texts if text.startswith("compiling the loops of")]
    assert said[0].endswith(" ...")
    assert re.search(r" took \d+\.\d s$", said[1])


def test_quick_work_is_not_spoken_of(hears, monkeypatch):
    monkeypatch.setattr(slow_work, "PATIENCE_SECONDS", 3600.0)
    with slow_work.slow_work("nothing much"):
        pass
    assert not hears.texts


def test_the_outer_of_two_speaks(hears):
    with slow_work.slow_work("outer"):
        hears.spoken.wait(30)
        with slow_work.slow_work("inner"):
            pass
    assert [text.split()[0] for text in hears.texts] == ["outer", "outer"]


def test_a_listener_that_is_gone_is_not_asked(monkeypatch):
    slow_work.notify(Hears().hear)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert slow_work._speaker() is None


KERNELS = "compiling {} kernels"


@pytest.fixture
def together(hears):
    """`together(names)`: work of one kind in threads, ended one by one in order."""

    def run(names):
        ends = {name: threading.Event() for name in names}
        begun = {name: threading.Event() for name in names}

        def work(name):
            with slow_work.slow_work(f"compiling the kernel {name!r}", KERNELS):
                begun[name].set()
                assert ends[name].wait(60)

        threads = {name: threading.Thread(target=work, args=(name,)) for name in names}
        for name, thread in threads.items():
            thread.start()
            assert begun[name].wait(60)
            assert hears.spoken.wait(60)
        for name, thread in threads.items():
            ends[name].set()
            thread.join()
        return hears.told

    return run


def test_one_piece_of_work_is_named(together):
    first, last = together(["a"])
    assert first == ("compiling the kernel 'a' ...", slow_work.BEGINS)
    assert re.fullmatch(r"compiling the kernel 'a' took \d+\.\d s", last[0])
    assert last[1] == slow_work.IS_DONE


def test_work_of_one_kind_in_several_threads_is_one_note(together):
    *told, last = together(["a", "b", "c"])
    assert told == [
        ("compiling the kernel 'a' ...", slow_work.BEGINS),
        ("compiling 2 kernels (0 done) ...", slow_work.GOES_ON),
        ("compiling 3 kernels (0 done) ...", slow_work.GOES_ON),
        ("compiling 3 kernels (1 done) ...", slow_work.GOES_ON),
        ("compiling 3 kernels (2 done) ...", slow_work.GOES_ON),
    ]
    assert re.fullmatch(r"compiling 3 kernels took \d+\.\d s", last[0])
    assert last[1] == slow_work.IS_DONE


def test_a_second_note_begins_anew(together, hears):
    together(["a", "b"])
    hears.told.clear()
    hears.spoken.clear()
    assert [text.split(" took")[0] for text, _ in together(["c"])] == [
        "compiling the kernel 'c' ...",
        "compiling the kernel 'c'",
    ]


def test_work_that_fails_is_done(hears):
    def fails():
        with pytest.raises(ZeroDivisionError):
            with slow_work.slow_work("compiling the kernel 'b'", KERNELS):
                raise ZeroDivisionError

    with slow_work.slow_work("compiling the kernel 'a'", KERNELS):
        assert hears.spoken.wait(60)
        thread = threading.Thread(target=fails)
        thread.start()
        thread.join()
    _, *goes_on, _ = hears.texts
    assert goes_on == ["compiling 2 kernels (0 done) ...", "compiling 2 kernels (1 done) ..."]
    assert not slow_work._GoingOn.works


def test_kernels_that_compile_at_a_time_are_one_note(monkeypatch, hears):
    begun, go_on = threading.Semaphore(0), threading.Event()

    def compiled(*facts):
        begun.release()
        assert go_on.wait(60)
        return io.StringIO().write  # a built-in function, as kernels are

    monkeypatch.setattr(kernel_code, "compiled_kernel", compiled)
    monkeypatch.setattr(kernel_code, "kernel_at_hand", lambda *facts: None)
    monkeypatch.setattr(kernel_family._State, "families", ())
    monkeypatch.setattr(kernel_family._State, "mode", "hot")
    monkeypatch.setattr(slow_work, "PATIENCE_SECONDS", 3600.0)
    family = kernel_family.Family("test", "none", "none")
    for key in ((1,), (2,)):
        family.find(key, 0.02)
        assert begun.acquire(timeout=60)
    (work,) = slow_work._GoingOn.works.values()
    work._announce()
    go_on.set()
    family.forget()
    assert hears.texts[0] == "compiling 2 kernels ..."
    assert re.fullmatch(r"compiling 2 kernels took \d+\.\d s", hears.texts[-1])


def lines_of(stream, monkeypatch):
    """What work of two threads says on stderr, where nobody listens."""
    monkeypatch.setattr(slow_work, "PATIENCE_SECONDS", 3600.0)
    monkeypatch.setattr(sys, "stderr", stream)
    slow_work.notify(None)

    def another():
        with slow_work.slow_work("compiling the kernel 'b'", KERNELS):
            pass

    with slow_work.slow_work("compiling the kernel 'a'", KERNELS):
        for work in slow_work._GoingOn.works.values():
            work._announce()
        thread = threading.Thread(target=another)
        thread.start()
        thread.join()
    return re.sub(r"\d+\.\d s", "T", stream.getvalue()).splitlines()


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Notebook(io.StringIO):
    """Looks like the stream of a notebook's kernel, which is no terminal and has no number."""

    def fileno(self):
        raise io.UnsupportedOperation("fileno")


Notebook.__module__ = "ipykernel.iostream"


@pytest.mark.parametrize("stream", [Terminal, Notebook])
def test_without_a_bar_a_person_has_two_lines(monkeypatch, stream):
    assert lines_of(stream(), monkeypatch) == [
        "compiling the kernel 'a' ...",
        "compiling 2 kernels took T",
    ]


def test_without_a_bar_a_file_has_none(monkeypatch):
    assert lines_of(io.StringIO(), monkeypatch) == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no processes are forked here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_does_not_wait_for_the_work_of_its_parent(hears):
    held, done = threading.Event(), threading.Event()

    def holds():
        with slow_work._GoingOn.lock:
            held.set()
            assert done.wait(60)

    with slow_work.slow_work("compiling the kernel 'a'", KERNELS):
        thread = threading.Thread(target=holds)
        thread.start()
        assert held.wait(60)
        child = os.fork()
        if child == 0:
            free = slow_work._GoingOn.lock.acquire(timeout=1)
            os._exit(0 if free and not slow_work._GoingOn.works else 1)
        done.set()
        thread.join()
        assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize("verbose", [1, 2])
def test_in_a_file_slow_work_is_told_beside_the_lines_of_epochs(monkeypatch, capsys, verbose):
    monkeypatch.setattr(slow_work, "PATIENCE_SECONDS", 0.0)
    spoken = threading.Event()
    hear = progress._Bar._hear

    def hears(bar, text, stage):
        hear(bar, text, stage)
        if text == "something ...":
            spoken.set()

    monkeypatch.setattr(progress._Bar, "_hear", hears)

    class Slow(tk.callbacks.Callback):
        def on_train_batch_begin(self, batch, logs=None):
            with slow_work.slow_work("something", "{} things"):
                assert spoken.wait(60)
                thread = threading.Thread(target=self.more)
                thread.start()
                thread.join()

        def more(self):
            with slow_work.slow_work("something else", "{} things"):
                pass

    model = tk.Sequential([tk.Input((2,)), tk.layers.Dense(1)])
    model.compile("sgd", "mse")
    model.fit(tk.ones((4, 2)), tk.ones((4, 1)), verbose=verbose, callbacks=[Slow()])
    said = capsys.readouterr()
    first, last = [line for line in said.err.splitlines() if "thing" in line]
    assert first == "something ..."
    assert re.fullmatch(r"2 things took \d+\.\d s", last)
    assert said.out.startswith("Epoch 1/1")


def test_slow_work_goes_to_the_log_where_lines_do(caplog, capsys):
    tk.utils.disable_interactive_logging()
    try:
        with caplog.at_level(logging.INFO, "trainkit"):
            bar = tk.callbacks.ProgressBar(verbose=2)
            bar._hear("tracing ...", slow_work.BEGINS)
            bar._hear("tracing (1 done) ...", slow_work.GOES_ON)
            bar._hear("tracing took 3.0 s", slow_work.IS_DONE)
    finally:
        tk.utils.enable_interactive_logging()
    assert caplog.messages == ["tracing ...", "tracing took 3.0 s"]
    assert capsys.readouterr() == ("", "")
