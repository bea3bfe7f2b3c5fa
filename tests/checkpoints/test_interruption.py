"""Handlers of signals that raise, at the worst moments: while HDF5 calls back into Python."""

import faulthandler
import os
import signal
import sys

import h5py
import numpy as np
import pytest

import trainkit as tk
from trainkit.checkpoints.format.positioned_io import H5Stream
from trainkit.checkpoints.interruption import Interruption, SignalsHeld


class Alarm(Exception):
    pass


def signalling(monkeypatch, method, call, number):
    """Have `number` come within the `call`th call of a method that HDF5 calls."""
    original, calls = getattr(H5Stream, method), [0]

    def wrapped(self, *args):
        calls[0] += 1
        if calls[0] == call:
            signal.raise_signal(number)
        return original(self, *args)

    monkeypatch.setattr(H5Stream, method, wrapped)
    return calls


def checkpoint(value):
    values = [tk.Variable(np.full(n, value, np.float32)) for n in (3, 70_000, 5)]
    return tk.train.Checkpoint(values=values), values


@pytest.mark.parametrize("call", [1, 2, 3, 4])
@pytest.mark.parametrize("method", ["write", "seek", "truncate"])
def test_ctrl_c_within_hdf5_leaves_the_older_file(tmp_path, monkeypatch, method, call):
    path = tmp_path / "run"
    checkpoint(1)[0].write(path)
    before = path.read_bytes()
    calls = signalling(monkeypatch, method, call, signal.SIGINT)
    saver = checkpoint(2)[0]
    try:
        saver.write(path)
    except KeyboardInterrupt:
        assert path.read_bytes() == before
    else:
        assert calls[0] < call
    monkeypatch.undo()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert os.listdir(tmp_path) == ["run"]
    saver.write(path)
    after, values = checkpoint(0)
    after.read(path).assert_consumed()
    np.testing.assert_array_equal(values[1].numpy()[:3], 2)


@pytest.mark.parametrize("call", [1, 2, 5, 9])
def test_a_handler_that_raises_while_weights_are_read(tmp_path, monkeypatch, call):
    def ring(number, frame):
        raise Alarm

    model = tk.Sequential([tk.Input((4,)), tk.layers.Dense(3), tk.layers.Dense(2)])
    path = tmp_path / "m.weights.h5"
    model.save_weights(path)
    with h5py.File(path) as file, h5py.File(tmp_path / "plain.weights.h5", "w") as plain:
        for name in file:  # without the table of contents, so that HDF5 reads it
            file.copy(name, plain)
    before = model.get_weights()
    signalling(monkeypatch, "readinto", call, signal.SIGALRM)
    handler = signal.signal(signal.SIGALRM, ring)
    try:
        with pytest.raises(Alarm):
            model.load_weights(tmp_path / "plain.weights.h5")
        monkeypatch.undo()
        assert signal.getsignal(signal.SIGALRM) is ring
    finally:
        signal.signal(signal.SIGALRM, handler)
    model.load_weights(tmp_path / "plain.weights.h5")
    np.testing.assert_array_equal(model.get_weights()[0], before[0])


@pytest.mark.skipif(not hasattr(faulthandler, "register"), reason="Windows has no such signals")
def test_handlers_of_others_stay(tmp_path):
    with (tmp_path / "told").open("w") as file:
        faulthandler.register(signal.SIGUSR1, file)
        before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
        try:
            with tk.checkpoints.Interruption() as interruption:
                signal.raise_signal(signal.SIGHUP)
                if sys.platform.startswith("linux"):
                    signal.raise_signal(signal.SIGUSR1)
                assert not interruption.asked
                signal.raise_signal(signal.SIGUSR2)
                assert (interruption.asked, interruption.number) == (True, signal.SIGUSR2)
        finally:
            signal.signal(signal.SIGHUP, before)
            assert faulthandler.unregister(signal.SIGUSR1)


def test_the_second_signal_of_an_interruption_waits_for_hdf5_too(tmp_path, monkeypatch):
    signalling(monkeypatch, "write", 2, signal.SIGINT)
    saver = checkpoint(2)[0]
    with Interruption() as interruption:
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            saver.write(tmp_path / "run")
    assert interruption.asked
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert os.listdir(tmp_path) == []


def test_a_handler_that_changes_handlers_keeps_its_change():
    def change(number, frame):
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)

    before = signal.signal(signal.SIGUSR1, change)
    try:
        with SignalsHeld() as held:
            signal.raise_signal(signal.SIGUSR1)
            held.look()
            signal.raise_signal(signal.SIGUSR1)
        assert signal.getsignal(signal.SIGUSR1) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGUSR1, before)
