"""Nothing, NaN, numbers that a dtype does not hold, objects of other people: values at the edge."""

import numpy as np
import pytest

import trainkit as tk

NAN = float("nan")
ERROR = tk.errors.InvalidArgumentError


def outcome(call):
    """The values of a call, eagerly and in a function, which must be alike."""
    eager, traced = call(), tk.function(call)()
    for a, b in zip(tk.nest.flatten(eager), tk.nest.flatten(traced), strict=True):
        if a.dtype == "bfloat16":  # whose NaN is none for NumPy's comparison
            np.testing.assert_array_equal(tk.cast(a, "float32"), tk.cast(b, "float32"))
        else:
            np.testing.assert_array_equal(a, b)
        assert a.dtype == b.dtype
    return eager


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_the_mean_of_no_integers_is_zero(axis):
    x = tk.zeros((0, 3), tk.int32)
    assert outcome(lambda: tk.reduce_mean(x, axis)).numpy().ravel().tolist() == [0] * (
        3 if axis == 0 else 0 if axis == 1 else 1
    )
    mean = tk.function(
        lambda x: tk.reduce_mean(x, axis), input_signature=[tk.TensorSpec([None, 3], tk.int32)]
    )
    np.testing.assert_array_equal(mean(x), tk.reduce_mean(x, axis))
    some = tk.constant([[-7, 1, 4], [0, 2, 5]])
    np.testing.assert_array_equal(mean(some), tk.reduce_mean(some, axis))


def test_each_nan_is_a_value_of_its_own():
    x = tk.constant([1.0, NAN, 3.0, NAN, 1.0])
    values, places, counts = tk.unique_with_counts(x)
    np.testing.assert_array_equal(values, [1.0, NAN, 3.0, NAN])
    assert [places.numpy().tolist(), counts.numpy().tolist()] == [[0, 1, 2, 3, 0], [2, 1, 1, 1]]
    np.testing.assert_array_equal(tk.unique(x)[0], values)
    assert tk.unique(["b", "a", "b"])[1].numpy().tolist() == [0, 1, 0]


@pytest.mark.parametrize("size", [0, 1, 64, 65])
@pytest.mark.parametrize("dtype", ["int8", "int32", "uint64", "float16", "float32", "float64"])
def test_few_values_are_told_apart_as_many_are(rng, dtype, size):
    x = rng.integers(0, 9, size).astype(dtype)
    if dtype == "float32":
        x[::5], x[1::7] = -0.0, NAN
    values, places = tk.unique(x, out_idx="int64")
    more, more_places = tk.unique(np.concatenate([x, np.arange(100).astype(dtype)]))
    assert values.dtype.name == dtype
    assert places.dtype is tk.int64
    assert values.numpy().tobytes() == more.numpy()[: len(values)].tobytes()
    np.testing.assert_array_equal(places, more_places[:size])


def test_folds_masks_and_stacks_of_nothing():
    nothing = tk.zeros((0, 3))
    for fold in (tk.foldl, tk.foldr):
        last = outcome(
            lambda fold=fold: fold(lambda s, r: s + tk.reduce_sum(r), nothing, tk.constant(5.0))
        )
        assert float(last) == 5.0
        nest = fold(lambda s, r: {"a": s["a"] + r}, tk.zeros((0,)), {"a": 2.0})
        assert [float(nest["a"]), nest["a"].dtype] == [2.0, tk.float32]
        several = outcome(lambda fold=fold: fold(lambda s, x: s * 2.0 + x, tk.constant([1.0, 3.0])))
        assert float(several) == (5.0 if fold is tk.foldl else 7.0)
    assert tk.sequence_mask(tk.zeros((0,), tk.int32)).shape == (0, 0)
    assert tk.sequence_mask([0, 0]).shape == (2, 0)
    assert tk.sequence_mask([1.5], 3).numpy().tolist() == [[True, False, False]]
    assert tk.stack([]).shape == (0,)
    with pytest.raises(ValueError, match="a data set at least"):
        tk.data.Dataset.zip(())


WHOLE = {
    "zeros": lambda: tk.zeros([1.5]),
    "ones": lambda: tk.ones((2, 1.5)),
    "top_k": lambda: tk.math.top_k([1, 2], 1.5),
    "linspace": lambda: tk.linspace(0.0, 1.0, 2.5),
    "repeat": lambda: tk.repeat([1, 2], [1.5, 1.2]),
    "one_hot": lambda: tk.one_hot([1.5], 3),
}


@pytest.mark.parametrize("name", WHOLE)
def test_sizes_and_positions_are_not_rounded(name):
    with pytest.raises(ERROR, match=r"whole numbers, got 1\.5|whole numbers, got 2|are integers"):
        WHOLE[name]()


RESULTS = [  # of a Python function, the dtype that is announced, whether the numbers are kept
    (lambda: np.array([1.5, 2.0]), tk.float32, True),
    (lambda: 1, tk.float64, True),
    (lambda: 7, tk.int32, True),
    (lambda: np.array([True]), tk.int32, True),
    (lambda: np.array([1.5]), tk.complex64, True),
    (lambda: np.array([1.7, 2.0]), tk.int32, False),
    (lambda: 1.7, tk.int64, False),
    (lambda: 2**40, tk.int32, False),
    (lambda: np.array([-1]), tk.uint8, False),
    (lambda: np.array([1, 2]), tk.bool, False),
    (lambda: np.array([1j]), tk.float32, False),
]


@pytest.mark.parametrize("call", [tk.numpy_function, tk.py_function])
def test_results_of_python_functions_are_never_other_numbers(call):
    for function, dtype, kept in RESULTS:
        for run in (lambda f: f(), lambda f: tk.function(f)()):

            def result(function=function, dtype=dtype):
                return call(function, [], dtype)

            if kept:
                value = run(result)
                assert value.dtype == dtype
                np.testing.assert_array_equal(value, function())
            else:
                with pytest.raises(ERROR, match=f"Tout says {dtype.name}"):
                    run(result)


def test_tensors_of_python_functions_have_the_announced_dtype():
    @tk.function
    def halved(x):
        return tk.py_function(lambda x: x / 2.0, [x], tk.int32)

    with pytest.raises(ERROR, match="the function gave float32, Tout says int32"):
        halved(tk.constant([3.0]))


def test_lists_of_numbers_beside_those_of_numpy():
    for leaf, dtype in [(np.float32(1), "float32"), (np.float16(1), "float16")]:
        for value in ([leaf, 2.5], [[leaf], [2.5]], (leaf, 1)):
            assert tk.constant(value).dtype == dtype, value
    assert tk.constant([2.5, np.float32(1)]).dtype == tk.float32
    assert tk.constant([np.int32(1), 2]).dtype == tk.int32
    assert tk.constant([np.int16(1), 2**40]).dtype == tk.int64
    assert tk.constant([np.float64(1), 2.5]).dtype == tk.float64
    assert tk.constant([np.zeros(2), [1.0, 2.0]]).dtype == tk.float64
    assert tk.constant([np.zeros(2, "float32"), [1.0, 2.0]]).dtype == tk.float32


def test_bools_and_integers_meet_in_no_logic():
    flags = tk.constant([True])
    for other in (2, [2], tk.constant([2]), tk.Variable([2])):
        for operate in (lambda a, b: a & b, lambda a, b: a | b, lambda a, b: a ^ b):
            with pytest.raises(ERROR, match="bools meet int32"):
                operate(flags, other)
    assert (flags & [False]).numpy().tolist() == [False]
    assert (flags | np.array([False])).numpy().tolist() == [True]
    assert (True ^ flags).numpy().tolist() == [False]
    assert (tk.constant([6]) & 3).numpy().tolist() == [2]
    assert (6 | tk.constant([1])).numpy().tolist() == [7]


class Answers:
    def __eq__(self, other):
        return "equal"

    def __ne__(self, other):
        return "different"

    __hash__ = object.__hash__


def test_objects_that_compare_in_a_way_of_their_own_are_asked():
    for x in (tk.constant([1.0]), tk.Variable([1.0])):
        assert [x == Answers(), x != Answers()] == ["equal", "different"]
        assert [x == object(), x != object()] == [False, True]
        assert [x is not None, x == None] == [True, False]  # noqa: E711


def test_names_with_digits_are_no_numbers():
    for text in ("1_0", "\uff11\uff12"):
        for dtype in (tk.float32, tk.int32):
            with pytest.raises(ERROR, match="to_number"):
                tk.strings.to_number([text], dtype)
        with pytest.raises(ERROR, match="csv"):
            tk.io.decode_csv([text], [[0]])
    with pytest.raises(ERROR, match="give record_defaults, one for each column"):
        tk.io.decode_csv(["1"], [], select_cols=[])


def test_columns_of_names_with_digits_are_texts(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("run,size\n2024_01,1\n2024_02,2\n")
    rows = tk.data.experimental.make_csv_dataset(
        str(path), batch_size=2, num_epochs=1, shuffle=False
    )
    (row,) = list(rows)
    assert row["run"].numpy().tolist() == [b"2024_01", b"2024_02"]
    assert row["size"].dtype == tk.int32


def test_values_that_are_assigned_to_elements_broadcast():
    v = tk.Variable([[1.0, 2.0], [3.0, 4.0]])
    v[1:].assign(7.0)
    v[:, 0].assign_add([1.0])
    np.testing.assert_array_equal(v, [[2.0, 2.0], [8.0, 7.0]])
    tk.function(lambda: v[0].assign([[5.0]][0]))()
    np.testing.assert_array_equal(v, [[5.0, 5.0], [8.0, 7.0]])
    for value in ([1.0, 2.0, 3.0], [[1.0, 2.0]]):
        with pytest.raises(ERROR, match="the elements to assign have shape"):
            v[0].assign(value)


def test_gray_of_bytes_is_rounded_as_other_colors_are():
    pixels = tk.constant([[[100, 150, 200], [255, 255, 255], [0, 0, 0]]], tk.uint8)
    gray = outcome(lambda: tk.image.rgb_to_grayscale(pixels))
    assert [gray.dtype, gray.numpy().ravel().tolist()] == [tk.uint8, [141, 255, 0]]


def test_a_slice_lies_inside_and_its_sizes_are_known():
    x = tk.constant([[1, 2, 3], [4, 5, 6]])

    @tk.function
    def moving(x, n):
        for i in tk.range(n):
            x = tk.slice(tk.pad(x, [[1, 1], [0, 0]]), [i, 0], [2, 3])
        return x

    np.testing.assert_array_equal(moving(x, tk.constant(2)), [[0, 0, 0], [1, 2, 3]])
    part = tk.function(lambda x, b: tk.slice(x, [b, 1], [1, -1]))
    assert part.get_concrete_function(x, tk.constant(1)).outputs[0].shape == (1, 2)
    np.testing.assert_array_equal(part(x, tk.constant(1)), [[5, 6]])
    known = tk.function(
        lambda x: tk.slice(x, [0, 1], [2, 2]), input_signature=[tk.TensorSpec([None, 3], tk.int32)]
    )
    np.testing.assert_array_equal(known(x), [[2, 3], [5, 6]])
    assert known.get_concrete_function().outputs[0].shape == (2, 2)
    with pytest.raises(ERROR):
        known(x[:1])
    for begin, size in [([0, 0], [3, 1]), ([0, 2], [1, 2]), ([-1, 0], [1, 1]), ([3, 0], [-1, 1])]:
        with pytest.raises(ERROR, match="slice: along axis"):
            tk.slice(x, begin, size)
        with pytest.raises(ERROR, match="slice: along axis"):
            tk.function(tk.slice)(x, tk.constant(begin), tk.constant(size))
    with pytest.raises(ERROR, match="each of the 2 axes"):
        tk.slice(x, [0], [1])


SPACED = {
    "int": (0, 10, "float64"),
    "int16": (np.int16(0), np.int16(10), "float32"),
    "uint8": (np.uint8(0), np.uint8(10), "float32"),
    "int64": (np.int64(0), np.int64(10), "float64"),
    "float": (0.0, 10.0, "float32"),
    "float64": (np.float64(0), np.float64(10), "float64"),
}


@pytest.mark.parametrize("kind", SPACED)
def test_whole_numbers_are_spaced_as_tensorflow_divides_them(kind):
    start, stop, dtype = SPACED[kind]
    spaced = tk.linspace(start, stop, 5)
    assert spaced.dtype.name == dtype
    np.testing.assert_array_equal(spaced, [0.0, 2.5, 5.0, 7.5, 10.0])


SHARDS = [np.arange(6.0).reshape(3, 2), 10 + np.arange(4.0).reshape(2, 2)]


def test_a_list_of_tables_is_looked_up_one_after_the_other():
    rows = np.concatenate(SHARDS)
    ids = [[0, 2], [3, 4]]
    np.testing.assert_array_equal(tk.nn.embedding_lookup(SHARDS, ids), rows[ids])
    np.testing.assert_array_equal(tk.nn.embedding_lookup(SHARDS[:1], [0, 2]), rows[[0, 2]])
    np.testing.assert_array_equal(tk.nn.embedding_lookup([[1.0, 1.0], [2.0, 3.0]], [1, 3]), [1, 3])
    with pytest.raises(ValueError, match="give a table or more"):
        tk.nn.embedding_lookup([], [0])


def test_version_1_deals_rows_out_to_tables():
    lookup = tk.compat.v1.nn.embedding_lookup
    dealt = [[0, 1], [10, 11], [2, 3], [12, 13], [4, 5]]
    np.testing.assert_array_equal(lookup(SHARDS, range(5)), dealt)
    np.testing.assert_array_equal(lookup(SHARDS, range(5), "div"), np.concatenate(SHARDS))
    np.testing.assert_array_equal(lookup(SHARDS[0], [2]), [[4, 5]])
    with pytest.raises(ValueError, match="'mod' or 'div'"):
        lookup(SHARDS, [0], "rest")


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_nan_comes_last_in_either_direction_of_sort_and_argsort(dtype):
    x = tk.cast([3.0, NAN, 1.0, -np.inf, NAN, np.inf, 0.0, -0.0], dtype)
    for direction in ("ASCENDING", "DESCENDING"):
        ordered = outcome(lambda way=direction: tk.sort(x, direction=way))
        order = outcome(lambda way=direction: tk.argsort(x, direction=way))
        expected = tk.gather(x, order)
        np.testing.assert_array_equal(tk.cast(ordered, "float64"), tk.cast(expected, "float64"))
        assert np.isnan(np.asarray(ordered, "float32")).tolist() == [False] * 6 + [True] * 2


def test_the_gradient_of_a_descending_sort_goes_where_the_values_came_from():
    x = tk.constant([[2.0, 1.0, 3.0]])

    def gradient():
        with tk.GradientTape() as tape:
            tape.watch(x)
            y = tk.sort(x, direction="DESCENDING") * [[1.0, 10.0, 100.0]]
        return tape.gradient(y, x)

    assert outcome(gradient).numpy().tolist() == [[10, 100, 1]]


NUMBERS = ([0, 1], 1, [0.0, 1.0], [[1], [0]], [True, 0], range(2), [1j])


@pytest.mark.parametrize("numbers", NUMBERS, ids=repr)
def test_numbers_of_python_are_no_bools(numbers):
    """As in TensorFlow; a cast asks which are not 0, and Keras's operations cast."""
    for make in (tk.constant, tk.convert_to_tensor, tk.Variable):
        with pytest.raises(TypeError, match="can't be had as bool; use True and False"):
            make(numbers, dtype=tk.bool)
    with pytest.raises(TypeError, match="can't be had as bool"):
        tk.Variable([False, True]).assign(numbers)
    want = np.real(numbers) != 0  # imaginary parts are dropped by casts
    for cast in (tk.cast, tk.keras.ops.convert_to_tensor, tk.keras.ops.cast, tk.keras.ops.array):
        np.testing.assert_array_equal(cast(numbers, "bool"), want)
    np.testing.assert_array_equal(tk.keras.Variable(numbers, dtype="bool"), want)


@pytest.mark.parametrize("values", [[True, False], [], np.array([0, 2]), np.bool_(True)], ids=repr)
def test_bools_and_arrays_of_numpy_are_bools(values):
    for make in (tk.constant, tk.Variable):
        result = make(values, dtype="bool")
        assert result.dtype == tk.bool
        np.testing.assert_array_equal(result, np.asarray(values).astype(bool))


def test_numbers_are_not_cast_to_text():
    for call in (tk.cast, tk.keras.ops.convert_to_tensor):
        for numbers in ([1, 2], np.array([1.5]), tk.constant([True])):
            with pytest.raises(ERROR, match="can't be cast to string"):
                call(numbers, tk.string)
    traced = tk.function(lambda x: tk.cast(x, tk.string))
    with pytest.raises(ERROR, match="int32 can't be cast to string"):
        traced(tk.constant([1]))
    with pytest.raises(ERROR, match="can't be cast to string"):
        tk.Variable(np.array([1, 2]), dtype="string")
    assert tk.cast(["a"], tk.string).numpy().tolist() == [b"a"]
    assert tk.strings.as_string([1]).numpy().tolist() == [b"1"]


def test_a_list_is_no_condition():
    """Python asks of a list whether it is empty, and not what is in it."""
    for cond in (tk.cond, tk.keras.ops.cond):
        for several in ([0, 1], [False, False], np.array([True, False]), []):
            with pytest.raises(ERROR, match="pred must be a scalar"):
                cond(several, lambda: 1, lambda: 2)
        assert cond([False], lambda: 1, lambda: 2) == 2
        assert cond(np.array(True), lambda: 1, lambda: 2) == 1


def test_a_mask_has_axes():
    for mask in (1, True, tk.constant(False)):
        with pytest.raises(ERROR, match="the mask is a scalar"):
            tk.boolean_mask([1, 2], mask)


@pytest.mark.parametrize(
    "reduce",
    [tk.reduce_sum, tk.reduce_prod, tk.math.reduce_euclidean_norm, tk.cumsum, tk.math.cumprod],
)
def test_bools_are_not_added_up_in_their_own_dtype(reduce):
    flags = tk.constant([True, True, False])
    for run in (reduce, tk.function(reduce)):
        with pytest.raises(ERROR, match=r"tk\.cast\(x, tk\.int32\)"):
            run(flags)
    assert tk.keras.ops.sum(flags).dtype == "int32"
    assert int(tk.math.count_nonzero(flags)) == 2
    assert int(tk.reduce_sum(tk.cast(flags, tk.int32))) == 2
