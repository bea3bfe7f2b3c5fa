"""`tk.switch_case` takes functions as a list, as a dict, and as pairs of numbers and functions."""

import pytest

import trainkit as tk


def branch(number):
    return lambda: tk.constant(float(number))


FORMS = {
    "list": [branch(0), branch(1), branch(2)],
    "dict": {0: branch(0), 2: branch(2), 1: branch(1)},
    "pairs": [(2, branch(2)), (0, branch(0)), (1, branch(1))],
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("number", "chosen"), [(0, 0.0), (1, 1.0), (2, 2.0), (3, 2.0), (-1, 2.0)])
@pytest.mark.parametrize("compiled", [False, True])
def test_each_form_chooses_the_same(form, number, chosen, compiled):
    choose = lambda index: tk.switch_case(index, FORMS[form])  # noqa: E731
    run = tk.function(choose) if compiled else choose
    assert float(run(tk.constant(number))) == chosen


def test_numbers_with_gaps_and_a_default():
    pairs = [(1, branch(1)), (7, branch(7))]
    assert float(tk.switch_case(tk.constant(7), pairs, default=branch(9))) == 7.0
    assert float(tk.switch_case(tk.constant(2), pairs, default=branch(9))) == 9.0
    assert float(tk.switch_case(tk.constant(2), pairs)) == 7.0
