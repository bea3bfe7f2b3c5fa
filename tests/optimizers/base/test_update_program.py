import ctypes

import numpy as np
import pytest

from trainkit.kernels.jit import kernel_code, kernel_family
from trainkit.kernels.jit.array_addresses import data_offset
from trainkit.optimizers.base.fused_update import (
    JOINT_UPDATES,
    UPDATES,
    WIDE,
    FusedUpdate,
    is_exact,
    joint_source,
    loop_source,
)
from trainkit.optimizers.base.update_program import PIECE, NotElementwise, UpdateProgram


def adam(xp, w, g, scalars, m, v):
    lr, raw = scalars
    w = w - w * (0.01 * raw)
    m = m + 0.1 * (g - m)
    v = v + 0.001 * (g * g - v)
    return w - lr * m / (xp.sqrt(v) + 1e-7), m, v


def lion(xp, w, g, scalars, m):
    step = xp.sign(0.9 * m + 0.1 * g)  # reads m before it changes
    return w - scalars[0] * step, 0.99 * m + 0.01 * g


def keeps_a_slot(xp, w, g, scalars, m, unchanged):
    return w - scalars[0] * unchanged, m + g, unchanged


def shares_a_result(xp, w, g, scalars, m, n):
    step = xp.abs(g) * scalars[0]
    return w - step, step, step


def keeps_the_greatest(xp, w, g, scalars, m, v, v_max):
    w, m, v = adam(xp, w, g, scalars, m, v)
    return w - xp.maximum(v, v_max), m, v, xp.maximum(v, v_max)


RULES = [(adam, 2), (lion, 1), (keeps_a_slot, 2), (shares_a_result, 2), (keeps_the_greatest, 3)]
SCALARS = (np.float32(0.01), np.float32(0.02))


def buffers_for(rng, n_slots, size):
    return [rng.random(size, dtype=np.float32) for _ in range(2 + n_slots)]


@pytest.fixture
def compiling():
    """Compile each loop at its first call."""
    before = kernel_family.mode()
    kernel_family.set_mode("eager")
    yield
    kernel_family.set_mode(before)


@pytest.mark.parametrize(("rule", "n_slots"), RULES)
@pytest.mark.parametrize("size", [1, 7, PIECE + 3, WIDE + 1])
@pytest.mark.parametrize("how", ["steps", "loop"])
def test_a_program_gives_the_bits_of_the_rule(rule, n_slots, size, how, rng, compiling):
    buffers = buffers_for(rng, n_slots, size)
    wanted = rule(np, buffers[0], buffers[1], SCALARS, *buffers[2:])
    grad = buffers[1].copy()
    program = UpdateProgram(rule, n_slots, 2, np.float32)
    work = [x.copy() for x in buffers]
    if how == "loop":
        FusedUpdate(program).run(work, SCALARS)
        assert size == 1 or any((*UPDATES._ready.values(), *JOINT_UPDATES._ready.values()))
    else:
        program.run(work, SCALARS)
    for got, want in zip([work[0], *work[2:]], wanted, strict=True):
        np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(work[1], grad)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(), (1,), (1, 1, 1), (5,), (3, 7), (0, 2)], ids=str)
@pytest.mark.parametrize(("rule", "n_slots"), RULES)
def test_calls_for_small_weights_give_the_bits_of_the_rule(rule, n_slots, shape, dtype, rng):
    members = [[np.asarray(rng.random(shape), dtype) for _ in range(2 + n_slots)] for _ in range(2)]
    scalars = tuple(map(dtype, SCALARS))
    wanted = [rule(np, b[0], b[1], scalars, *b[2:]) for b in members]
    grads = [b[1].copy() for b in members]
    FusedUpdate(UpdateProgram(rule, n_slots, 2, dtype)).run_all(members, scalars)
    for buffers, results, grad in zip(members, wanted, grads, strict=True):
        np.testing.assert_array_equal(buffers[1], grad)
        for got, want in zip([buffers[0], *buffers[2:]], results, strict=True):
            assert got.dtype == dtype
            assert got.tobytes() == np.asarray(want).tobytes()


@pytest.mark.parametrize("ufunc", ["sqrt", "exp", "square", "sign", "negative"])
def test_calls_for_one_number_know_all_ufuncs(ufunc, rng):
    def rule(xp, w, g, scalars):
        return (w - getattr(xp, ufunc)(g) * 0.3,)

    w, g = np.float32([[2.0]]), np.float32([[0.7]])
    (wanted,) = rule(np, w, g, None)
    FusedUpdate(UpdateProgram(rule, 0, 1, np.float32)).run([w, g], (np.float32(1),))
    assert w.tobytes() == wanted.tobytes()


@pytest.mark.parametrize("sizes", [[1], [7, 1, 0, 30], [WIDE // 2, 3, WIDE, PIECE + 1]])
@pytest.mark.parametrize(("rule", "n_slots"), RULES)
def test_weights_updated_together_get_the_bits_of_the_rule(sizes, rule, n_slots, rng, compiling):
    members = [buffers_for(rng, n_slots, size) for size in sizes]
    wanted = [rule(np, b[0], b[1], SCALARS, *b[2:]) for b in members]
    FusedUpdate(UpdateProgram(rule, n_slots, 2, np.float32)).run_all(members, SCALARS)
    for buffers, results in zip(members, wanted, strict=True):
        for got, want in zip([buffers[0], *buffers[2:]], results, strict=True):
            np.testing.assert_array_equal(got, want)


def test_the_address_of_an_array_is_found_in_its_object():
    array = np.arange(9.0)[3:]
    place = ctypes.c_int64.from_address(id(array) + data_offset()).value
    assert place == array.ctypes.data


@pytest.mark.parametrize(("family", "size"), [(UPDATES, PIECE), (JOINT_UPDATES, WIDE)])
def test_a_loop_takes_over_when_a_thread_has_compiled_it(family, size, rng, monkeypatch):
    monkeypatch.setattr(kernel_family, "START_SECONDS", 0.0)
    monkeypatch.setattr(kernel_family, "SMALLEST_SECONDS", 0.0)
    monkeypatch.setattr(kernel_code, "kernel_at_hand", lambda *facts: None)
    kernel_family.set_mode("hot")
    program = FusedUpdate(UpdateProgram(lion, 1, 2, np.float32))
    buffers = buffers_for(rng, 1, size)
    program.run(buffers, SCALARS)
    (thread,) = family._threads.values()
    thread.join()
    program.run(buffers, SCALARS)
    (loop,) = family._ready.values()
    assert loop
    family.forget()


@pytest.mark.parametrize(
    "sizes", [[7], [7, 30, 1000, 5], [WIDE], [WIDE, 7, WIDE + 3, 40], [1, 7, 1]], ids=str
)
def test_a_call_counts_as_the_work_that_it_is(sizes, rng, monkeypatch):
    """However many weights share it, of one kind or of two; numbers need no loop."""
    monkeypatch.setattr(kernel_code, "kernel_at_hand", lambda *facts: None)
    kernel_family.set_mode("hot")
    program = UpdateProgram(keeps_the_greatest, 3, 2, np.float32)  # too many buffers to be joint
    members = [buffers_for(rng, 3, size) for size in sizes]
    FusedUpdate(program).run_all(members, SCALARS)
    loops = [size for size in sizes if size > 1]
    seconds = len(program.steps) * (4e-7 * len(loops) + 8e-11 * sum(loops))
    assert sum(UPDATES._spent.values()) == pytest.approx(seconds)
    UPDATES.forget()


def test_scalar_work_is_done_once_a_step():
    program = UpdateProgram(adam, 2, 2, np.float32)
    assert len(program.scalar_steps) == 1  # 0.01 * raw
    assert "s1, h0, c0, c1, c2):" in loop_source(program)
    assert "s1, h0, c0, c1, c2):" in joint_source(program)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [7, WIDE])
def test_one_loop_serves_all_numbers_of_a_rule(size, dtype, rng, compiling):
    def rule_of(decay):
        def rule(xp, w, g, scalars, m):
            m = decay * m + (1.0 - decay) * g
            return w - scalars[0] * m / (xp.abs(m) + 1e-7), m

        return rule

    UPDATES.forget()
    JOINT_UPDATES.forget()
    for decay in (0.9, 0.25, 0.1, 1.0):
        buffers = [rng.random(size).astype(dtype) for _ in range(3)]
        wanted = rule_of(decay)(np, buffers[0], buffers[1], (dtype(0.01),), buffers[2])
        program = UpdateProgram(rule_of(decay), 1, 1, dtype)
        FusedUpdate(program).run(buffers, (dtype(0.01),))
        for got, want in zip([buffers[0], buffers[2]], wanted, strict=True):
            np.testing.assert_array_equal(got, want)
    assert len({**UPDATES._ready, **JOINT_UPDATES._ready}) == 1


def test_a_rule_that_rounds_in_its_own_way_is_never_compiled(compiling):
    program = UpdateProgram(lambda xp, w, g, s: (w - xp.power(g, 0.3),), 0, 1, np.float32)
    assert not is_exact(program)
    w, g = np.ones(3, np.float32), np.ones(3, np.float32)
    FusedUpdate(program).run([w, g], (np.float32(1.0),))
    np.testing.assert_array_equal(w, 0.0)
    assert not UPDATES._ready
    assert not JOINT_UPDATES._ready


@pytest.mark.parametrize(
    "rule",
    [
        lambda xp, w, g, s, m: (w - xp.sum(g), m),
        lambda xp, w, g, s, m: (w - xp.where(g, g, w), m),
        lambda xp, w, g, s, m: (w - g.mean(), m),
        lambda xp, w, g, s, m: (m, w),
        lambda xp, w, g, s, m: (w if g == 0 else g, m),
        lambda xp, w, g, s, m: (w - g if g else w, m),
        lambda xp, w, g, s, m: (w - g * np.ones(3), m),
        lambda xp, w, g, s, m: (s[0], m),
    ],
    ids=["sum", "where", "method", "swap", "compare", "decide", "array", "scalar result"],
)
def test_a_rule_that_is_not_elementwise_is_refused(rule):
    with pytest.raises(NotElementwise):
        UpdateProgram(rule, 1, 1, np.float32)


def test_a_rule_with_a_result_too_few_is_an_error():
    with pytest.raises(ValueError, match="gave 1 values for a weight and 1 slots"):
        UpdateProgram(lambda xp, w, g, s, m: (w,), 1, 1, np.float32)
