"""Tracebacks that Python prints may leave out the frames of the package."""

import sys
import traceback

import pytest

import trainkit as tk
from trainkit.core.process import traceback_filter

K = tk.keras


@pytest.fixture
def printed(monkeypatch):
    """What Python is asked to print."""
    seen = []
    monkeypatch.setattr(sys, "excepthook", lambda *given: seen.append(given))
    yield seen
    K.config.disable_traceback_filtering()


def failure():
    def call(x):
        raise ValueError("inside")

    try:
        tk.layers.Lambda(call)(tk.ones((2,)))
    except ValueError as error:
        return error


def files(tb):
    return [frame.filename for frame in traceback.extract_tb(tb)]


def test_frames_of_the_package_are_left_out_while_it_is_on(printed):
    package = traceback_filter._PACKAGE
    assert not K.config.is_traceback_filtering_enabled()
    K.config.enable_traceback_filtering()
    K.config.enable_traceback_filtering()
    assert K.config.is_traceback_filtering_enabled()
    error = failure()
    before = error.__traceback__
    assert any(name.startswith(package) for name in files(before))
    sys.excepthook(type(error), error, before)
    ((kind, shown, tb),) = printed
    assert (kind, shown) == (ValueError, error)
    assert files(tb) == [__file__, __file__]
    K.config.disable_traceback_filtering()
    assert not K.config.is_traceback_filtering_enabled()
    sys.excepthook(type(error), error, before)
    assert printed[1][2] is before


def test_an_error_with_no_other_frame_keeps_its_last(printed):
    try:
        tk.ones((2, 3)) @ tk.ones((2, 3))
    except ValueError as error:
        inner = error.__traceback__.tb_next
    last = files(inner)[-1]
    assert files(traceback_filter.filtered(inner)) == [last]
    assert traceback_filter.filtered(None) is None


def test_a_hook_that_came_later_stays(printed):
    K.config.enable_traceback_filtering()
    later = lambda *given: None  # noqa: E731
    sys.excepthook = later
    K.config.disable_traceback_filtering()
    assert sys.excepthook is later
