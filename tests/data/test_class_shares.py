"""`rejection_resample`: classes in the shares that are asked for."""

import numpy as np
import pytest

import trainkit as tk

DATA = np.random.RandomState(0).choice(2, size=1000, p=[0.6, 0.4]).astype("int64")


def _resampled(*args, **kwargs):
    return tk.data.Dataset.from_tensor_slices(DATA).rejection_resample(*args, **kwargs)


def test_classes_have_the_shares_that_are_wanted():
    # TensorFlow 2.21 gives 1191 elements, of which 48.8% are of class 1
    pairs = list(_resampled(lambda x: x, [0.5, 0.5], [0.6, 0.4], seed=1).as_numpy_iterator())
    assert 1100 < len(pairs) < 1300
    assert all(label == element for label, element in pairs)
    assert abs(np.mean([label for label, _ in pairs]) - 0.5) < 0.05


def test_shares_are_estimated_where_they_are_not_given():
    pairs = list(_resampled(lambda x: x, [0.5, 0.5], seed=1))
    assert len(pairs) == 1024  # TensorFlow's number: whole batches of estimates
    assert abs(np.mean([int(label) for label, _ in pairs]) - 0.5) < 0.05


def test_elements_of_several_parts_and_a_seldom_class():
    rare = (np.random.RandomState(1).rand(8000) < 0.02).astype("int32")
    data = tk.data.Dataset.from_tensor_slices({"y": rare, "x": rare * 2.0})
    even = tk.data.experimental.rejection_resample(
        lambda element: element["y"], [0.5, 0.5], [0.98, 0.02], seed=2
    )(data)
    assert even.element_spec[1]["x"] == tk.TensorSpec((), "float64")
    labels = [int(label) for label, element in even]
    assert len(labels) > 200
    assert abs(np.mean(labels) - 0.5) < 0.08
    pairs = tk.data.Dataset.from_tensor_slices((DATA, DATA * 2.0))
    most = pairs.rejection_resample(lambda a, b: a, [0.9, 0.1], [0.6, 0.4], seed=3)
    assert abs(np.mean([int(label) for label, (a, b) in most]) - 0.1) < 0.05


def test_data_that_has_the_wanted_shares_stays_as_it_is():
    same = _resampled(lambda x: x, [0.6, 0.4], [0.6, 0.4])
    np.testing.assert_array_equal([int(x) for _, x in same], DATA)


def test_a_seed_fixes_the_draws():
    one, other, third = (
        [int(x) for _, x in _resampled(lambda x: x, [0.5, 0.5], [0.6, 0.4], seed=s)]
        for s in (5, 5, 6)
    )
    assert one == other
    assert one != third


def test_a_stored_pass_goes_on(tmp_path):
    iterator = iter(_resampled(lambda x: x, [0.5, 0.5], seed=1))
    for _ in range(40):
        next(iterator)
    path = tk.train.Checkpoint(iterator=iterator).write(str(tmp_path / "c"))
    wanted = [int(next(iterator)[1]) for _ in range(50)]
    tk.train.Checkpoint(iterator=iterator).read(path)
    assert [int(next(iterator)[1]) for _ in range(50)] == wanted


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((lambda x: x, [0.5, 0.2, 0.3], [0.6, 0.4]), "3 classes, initial_dist 2"),
        ((lambda x: x, [[0.5, 0.5]]), "target_dist is .* a share of 0 or more for each class"),
        ((lambda x: tk.cast(x, "float32"), [0.5, 0.5]), "gave float32"),
        ((lambda x: [x], [0.5, 0.5]), r"of shape \(1,\)"),
    ],
)
def test_what_does_not_fit_is_refused(arguments, words):
    with pytest.raises(tk.errors.InvalidArgumentError, match=words):
        list(_resampled(*arguments))
