"""One lock for each key: equal ones wait for one another, others do not."""

import concurrent.futures
import os
import threading

import pytest

from trainkit.core.process.key_locks import KeyLocks


def test_another_key_does_not_wait_and_nothing_is_left():
    locks = KeyLocks()
    with locks.hold("a"), locks.hold("b"):
        assert set(locks._locks) == {"a", "b"}
    assert locks._locks == {}


def test_an_equal_key_waits():
    locks, events, inside = KeyLocks(), [], threading.Event()
    arrived = threading.Event()
    enter = locks._enter

    def note_arrival(key):
        lock = enter(key)
        if inside.is_set():
            arrived.set()
        return lock

    locks._enter = note_arrival

    def work(number):
        with locks.hold("key"):
            events.append(("begin", number))
            inside.set()
            # the other one has come by then, and cannot begin
            assert arrived.wait(60)
            events.append(("end", number))

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        first = pool.submit(work, 1)
        assert inside.wait(60)
        second = pool.submit(work, 2)
        first.result()
        second.result()
    assert events == [("begin", 1), ("end", 1), ("begin", 2), ("end", 2)]
    assert locks._locks == {}


def test_an_error_frees_the_key():
    locks = KeyLocks()
    with pytest.raises(KeyError), locks.hold("a"):
        raise KeyError("a")
    assert locks._locks == {}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no processes are forked off here")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_key_that_another_thread_holds_is_free_in_a_forked_process():
    locks, inside, may_end = KeyLocks(), threading.Event(), threading.Event()

    def work():
        with locks.hold("a"):
            inside.set()
            may_end.wait(60)

    thread = threading.Thread(target=work)
    thread.start()
    assert inside.wait(60)
    child = os.fork()
    if child == 0:
        with locks.hold("a"):
            os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    may_end.set()
    thread.join()
