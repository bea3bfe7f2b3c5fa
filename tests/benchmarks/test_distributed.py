"""The benchmark of several processes runs through; its times mean nothing here."""

import pytest

from tests.distribution.processes import needs_mpi


@pytest.fixture
def distributed(bench_modules):
    return bench_modules("distributed")


@needs_mpi
def test_steps_of_processes_are_timed(distributed):
    seconds, count = distributed.run("trainkit", "mlp", 2, 1)
    assert len(seconds) == 1
    assert count == 4 * (784 * 1024 + 2 * 1024 * 1024 + 3 * 1024 + 1024 * 10 + 10)


def test_unknown_networks_are_refused(distributed, capsys):
    with pytest.raises(SystemExit):
        distributed.main(["resnet"])
    assert "networks are mlp, cnn, lstm, got resnet" in capsys.readouterr().err
