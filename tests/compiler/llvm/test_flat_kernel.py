"""Machine code that updates weights of any shapes at one call, and checks what it is given."""

import numpy as np
import pytest

from tests.compiler.test_flat import RULES, SCALARS, adam, lion, results_of
from trainkit.compiler.flat import FlatProgram
from trainkit.compiler.llvm.flat_kernel import flat_kernel, has_expressions
from trainkit.kernels.embedding.row_gradient import PIECES
from trainkit.kernels.jit import kernel_code, llvm_target
from trainkit.kernels.jit.llvm_text import LlvmText, text_kernel
from trainkit.kernels.threads.thread_pool import thread_pool

WIDE = 70_000
"""Elements that other threads of Python run beside."""
SHAPES = [(), (1,), (5,), (3, 7), (0, 2), (2, 3, 4, 5), (64,), (WIDE,)]


def compiled(program):
    return kernel_code.compiled_kernel(
        "jit.llvm_text", text_kernel.__name__, (flat_kernel(program),)
    )


@pytest.fixture(scope="module")
def calls():
    """The compiled form of each rule, made once."""
    made = {}

    def call_of(rule, n_slots, dtype):
        key = rule, np.dtype(dtype)
        if key not in made:
            program = FlatProgram(rule, n_slots, 2, dtype)
            assert has_expressions(program)
            call, numbers = compiled(program), [float(x.value) for x in program.numbers]
            made[key] = lambda pool, parts, scalars, arrays: call(
                pool, parts, *scalars, *numbers, *arrays
            )
        return made[key]

    return call_of


def members_of(rng, shapes, n_slots, dtype):
    return [[np.asarray(rng.random(s), dtype) for _ in range(2 + n_slots)] for s in shapes]


def assert_updated(members, expected, grads):
    for buffers, results, grad in zip(members, expected, grads, strict=True):
        assert buffers[1].tobytes() == grad.tobytes()
        for array, result in zip([buffers[0], *buffers[2:]], results, strict=True):
            assert array.tobytes() == result.tobytes()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("rule", "n_slots"), RULES)
@pytest.mark.parametrize("parts", [1, 2, 7])
def test_weights_of_all_shapes_get_the_bits_of_the_rule(rule, n_slots, dtype, parts, rng, calls):
    members = members_of(rng, SHAPES, n_slots, dtype)
    scalars = tuple(map(dtype, SCALARS))
    expected = [results_of(rule, buffers, scalars) for buffers in members]
    grads = [buffers[1].copy() for buffers in members]
    pool = thread_pool().run_address if parts > 1 and thread_pool() else 0
    arrays = [x for buffers in members for x in buffers]
    assert calls(rule, n_slots, dtype)(pool, parts, scalars, arrays) is True
    assert_updated(members, expected, grads)


def test_one_text_serves_all_numbers_of_a_rule():
    def rule_of(decay):
        def rule(xp, w, g, scalars, m):
            m = decay * m + (1.0 - decay) * g
            return w - scalars[0] * m / (xp.abs(m) + 1e-7), m

        return rule

    texts = {flat_kernel(FlatProgram(rule_of(x), 1, 1, np.float32)) for x in (0.9, 0.25, 0.0, 1.0)}
    assert len(texts) == 1


def test_extremes_of_zeros_and_of_nan_are_those_of_numpy(calls):
    def rule(xp, w, g, scalars, m):
        return xp.maximum(w, g), xp.minimum(m, g)

    values = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 1.0], np.float32)
    w, g = (np.ascontiguousarray(x.ravel()) for x in np.meshgrid(values, values))
    m = w.copy()
    with np.errstate(invalid="ignore"):
        expected = results_of(rule, [w, g, m], SCALARS)
    assert calls(rule, 1, np.float32)(0, 1, SCALARS, [w, g, m])
    # bits of zeros and of what is no number differ between processors, and between NumPy's loops
    np.testing.assert_array_equal(w, expected[0])
    np.testing.assert_array_equal(m, expected[1])


def test_functions_that_are_rounded_in_ways_of_their_own_have_no_machine_code():
    for name in ("exp", "power", "tanh", "cbrt"):

        def rule(xp, w, g, s, name=name):
            return (w - getattr(xp, name)(*[g, g][: 1 + (name == "power")]),)

        assert not has_expressions(FlatProgram(rule, 0, 1, np.float32))


# ------------------------------------------------------------------ gradients in pieces


def pieces_of(ends, arrays):
    """A gradient whose elements up to each end begin at an array."""
    rows = [(end, array.ctypes.data) for end, array in zip(ends, arrays, strict=True)]
    return np.array(rows, np.int64).reshape(-1).view(PIECES)


@pytest.mark.parametrize("parts", [1, 2, 7])
@pytest.mark.parametrize(("rule", "n_slots"), RULES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_gradient_may_come_in_pieces(rule, n_slots, dtype, parts, rng, calls):
    members = members_of(rng, [(7,), (WIDE, 2), (5,)], n_slots, dtype)
    grad, row, zeros = members[1][1], rng.random(40).astype(dtype), np.zeros(WIDE, dtype)
    grad[...] = 0
    grad.reshape(-1)[60:100] = grad.reshape(-1)[-40:] = row
    scalars = tuple(map(dtype, SCALARS))
    expected = [results_of(rule, buffers, scalars) for buffers in members]
    grads = [members[0][1].copy(), None, members[2][1].copy()]
    # two in one place, and one of nothing
    ends = [60, 60, 100, WIDE, 2 * WIDE - 40, 2 * WIDE]
    grads[1] = members[1][1] = pieces_of(ends, [zeros, row, row, zeros, zeros, row])
    pool = thread_pool().run_address if parts > 1 and thread_pool() else 0
    arrays = [x for buffers in members for x in buffers]
    assert calls(rule, n_slots, dtype)(pool, parts, scalars, arrays) is True
    assert_updated(members, expected, grads)


PIECES_AMISS = {
    "too few": lambda x: x[:1].copy(),
    "beyond the end": lambda x: np.vstack([x, np.add(x, [1, 0])]),
    "out of order": lambda x: x[::-1].copy(),
    "below nothing": lambda x: x - [30, 0],
    "none": lambda x: x[:0],
}


@pytest.mark.parametrize("amiss", PIECES_AMISS)
def test_pieces_that_do_not_cover_a_weight_leave_all_as_they_were(amiss, rng, calls):
    members = members_of(rng, [(5,), (3, 7)], 1, np.float32)
    ends = pieces_of([14, 21], [members[1][1]] * 2).view(np.int64).reshape(-1, 2)
    members[1][1] = PIECES_AMISS[amiss](ends).reshape(-1).view(PIECES)
    before = [[x.copy() for x in buffers] for buffers in members]
    arrays = [x for buffers in members for x in buffers]
    assert calls(lion, 1, np.float32)(0, 1, SCALARS, arrays) is False
    for buffers, copies in zip(members, before, strict=True):
        assert all(x.tobytes() == y.tobytes() for x, y in zip(buffers, copies, strict=True))


@pytest.mark.parametrize("place", [0, 2])
def test_only_a_gradient_comes_in_pieces(place, rng, calls):
    (member,) = members_of(rng, [(3, 7)], 1, np.float32)
    member[place] = pieces_of([21], [member[1]])
    assert calls(lion, 1, np.float32)(0, 1, SCALARS, member) is False


@pytest.mark.parametrize("shape", [(), (2, 1)])
def test_pieces_are_a_vector(shape, rng, calls):
    (member,) = members_of(rng, [(3, 7)], 1, np.float32)
    member[1] = np.zeros(shape, PIECES)
    assert calls(lion, 1, np.float32)(0, 1, SCALARS, member) is False


# ------------------------------------------------------------------ what does not fit

SWAPPED = np.dtype(np.float32).newbyteorder()
UNFIT = {
    "a list": lambda x: x.tolist(),
    "a scalar": lambda x: x[0, 0],
    "another dtype": lambda x: x.astype(np.float64),
    "integers": lambda x: x.astype(np.int32),
    "swapped bytes": lambda x: x.astype(SWAPPED),
    "another shape": lambda x: x.reshape(-1).copy(),
    "another size": lambda x: np.vstack([x, x]),
    "columns": np.asfortranarray,
    "a masked array": np.ma.masked_array,
    "within a word": lambda x: (
        np.frombuffer(b"." + x.tobytes(), np.uint8)[1:].view(np.float32).reshape(x.shape)
    ),
}


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("unfit", UNFIT)
def test_an_array_that_does_not_fit_leaves_all_as_they_were(unfit, place, rng, calls):
    members = members_of(rng, [(5,), (3, 7)], 1, np.float32)
    before = [[x.copy() for x in buffers] for buffers in members]
    arrays = [x for buffers in members for x in buffers]
    arrays[3 + place] = UNFIT[unfit](arrays[3 + place])
    assert calls(lion, 1, np.float32)(0, 1, SCALARS, arrays) is False
    for buffers, copies in zip(members, before, strict=True):
        for array, copy in zip(buffers, copies, strict=True):
            np.testing.assert_array_equal(array, copy)


def test_what_is_only_read_may_be_read_only(rng, calls):
    ((w, g, m),) = members_of(rng, [(3, 4)], 1, np.float32)
    g.flags.writeable = False
    assert calls(lion, 1, np.float32)(0, 1, SCALARS, [w, g, m]) is True
    m.flags.writeable = False
    assert calls(lion, 1, np.float32)(0, 1, SCALARS, [w, g, m]) is False


def test_a_wrong_number_of_arguments_is_refused(rng, calls):
    ((w, g, m),) = members_of(rng, [(3, 4)], 1, np.float32)
    before = w.copy()
    assert calls(lion, 1, np.float32)(0, 1, SCALARS, [w, g]) is False
    assert calls(lion, 1, np.float32)(0, 1, SCALARS, [w, g, m, w]) is False
    assert compiled(FlatProgram(lion, 1, 2, np.float32))(0) is False
    np.testing.assert_array_equal(w, before)


def test_no_weights_at_all_are_updated_at_once(calls):
    assert calls(lion, 1, np.float32)(0, 1, SCALARS, []) is True


def test_what_is_no_number_is_an_error_and_changes_nothing(rng, calls):
    ((w, g, m),) = members_of(rng, [(3, 4)], 1, np.float32)
    before = w.copy()
    with pytest.raises(TypeError, match="real number"):
        calls(lion, 1, np.float32)(0, 1, ("much", 1.0), [w, g, m])
    np.testing.assert_array_equal(w, before)


# ------------------------------------------------------------------ other processors


@pytest.mark.parametrize("triple", ["", "aarch64-linux-gnu"])
@pytest.mark.parametrize("for_library", [False, True])
def test_code_is_made_for_libraries_and_for_other_machines(triple, for_library, monkeypatch):
    if triple:
        monkeypatch.setenv("NUMBA_CPU_NAME", "generic")
        monkeypatch.setenv("NUMBA_CPU_FEATURES", "")
    llvm_target.target_machine.cache_clear()
    try:
        text = LlvmText(flat_kernel(FlatProgram(adam, 2, 2, np.float32)))
        code = text.object_code("a_name_of_its_own", for_library, triple)
    finally:
        llvm_target.target_machine.cache_clear()
    machine = int.from_bytes(code[18:20], "little")
    assert code[:4] == b"\x7fELF"
    assert b"a_name_of_its_own" in code
    assert not triple or machine == 183
