"""cuDNN of the stand-in for tests that look at what it was asked for."""

import pytest

from tests import stand_in
from tests.stand_in import cudnn
from trainkit.kernels.cudnn import deferred


@pytest.fixture
def cudnn_state(tmp_path, monkeypatch):
    """The stand-in is in place, with an empty cache; gives what its cuDNN has seen."""
    monkeypatch.setenv("TRAINKIT_CACHE", str(tmp_path))
    before = deferred.mode()
    with stand_in.in_place():
        yield cudnn.STATE
    deferred.set_mode(before)
