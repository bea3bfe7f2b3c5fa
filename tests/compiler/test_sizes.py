"""Numbers that depend on unknown sizes: their arithmetic, and what is no such number."""

import pytest

from trainkit.compiler.ir import Unsupported
from trainkit.compiler.sizes import UnknownSize, interpolated, polynomial, python_text, value_at

AT = {"n0": 5, "n1": 7}
N, M = (UnknownSize({(name,): 1}, AT) for name in AT)


def test_arithmetic_is_that_of_the_numbers_at_any_sizes():
    for size in (N * 4 + 3, 3 - N, N * M * 4 - M, (N * 8 + 16) // 8, -N + N * 2, sum([N, M, 1])):
        text = python_text(size)
        for at in ({"n0": 2, "n1": 2}, {"n0": 31, "n1": 1000}):
            assert value_at(size, at) == eval(text, dict(at))
        assert int(size) == value_at(size, AT)


def test_equality_holds_for_all_sizes_and_what_is_constant_is_an_int():
    assert N + 2 == 2 + N
    assert N != 5
    assert N + 2 != M
    assert type(N - N + 4) is int
    assert {N * 2: "twice"}[N + N] == "twice"


def test_memory_is_rounded_up_for_every_size():
    rounded = (N * 4 + 8).rounded_up(64)
    for n in (1, 15, 16, 17, 64, 65):
        bytes_ = value_at(rounded, {"n0": n})
        assert bytes_ >= 4 * n + 8
        assert bytes_ % 64 == 0
    with pytest.raises(Unsupported, match="memory"):
        (4 - N).rounded_up(64)


def test_a_polynomial_is_found_from_the_ends_of_ranges():
    ends = ((2, 9), (3, 11))
    values = [4 * n * m + 2 * n - m + 7 for n in ends[0] for m in ends[1]]
    size = polynomial(interpolated(("n0", "n1"), ends, values), {"n0": 4, "n1": 5})
    assert size == N * M * 4 + N * 2 - M + 7
    assert int(size) == 4 * 4 * 5 + 2 * 4 - 5 + 7


def test_what_does_not_grow_evenly_is_refused():
    with pytest.raises(Unsupported, match="evenly"):
        interpolated(("n0",), ((2, 9),), [1, 5])
    with pytest.raises(Unsupported):
        N % 2
    with pytest.raises(Unsupported):
        (N * 3) // 2
