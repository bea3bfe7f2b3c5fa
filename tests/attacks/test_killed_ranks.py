"""A killed rank ends the job soon, and the job goes on from its checkpoint to the same bits."""

import pytest

from tests.attacks.killed_ranks import attack
from tests.distribution.processes import needs_mpi


@needs_mpi
@pytest.mark.slow
def test_a_job_with_a_killed_rank_goes_on_to_the_same_bits():
    assert attack(kills=1, processes=2, steps=100, seed=2, say=str) < 20
