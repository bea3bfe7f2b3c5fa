"""`tk.Module`, scopes, `tk.config`, `tk.test` and lists of tensors."""

import numpy as np
import pytest

import trainkit as tk


class Layered(tk.Module):
    def __init__(self):
        super().__init__()
        self.w = tk.Variable([1.0, 2.0], name="w")
        self.parts = [tk.Module("inner"), {"still": tk.Variable(0.0, trainable=False)}]
        self.parts[0].b = tk.Variable(3.0, name="b")
        self.again = self.parts[0]

    @tk.Module.with_name_scope
    def __call__(self, x):
        return self.w * x + self.again.b, tk.get_current_name_scope()


def test_a_module_finds_its_variables():
    module = Layered()
    assert module.name == "layered"
    assert [v.name for v in module.variables] == ["Variable:0", "w:0", "b:0"]
    assert len(module.trainable_variables) == 2
    assert [v.name for v in module.non_trainable_variables] == ["Variable:0"]
    assert module.submodules == (module.again,)
    y, scope = module(2.0)
    assert (y.tolist(), scope) == ([5.0, 7.0], "layered")
    with module.name_scope as inside:
        assert inside == "layered/"


class Dense(tk.Module):
    def __init__(self, name=None):
        super().__init__(name)
        self.w = None

    @tk.Module.with_name_scope
    def __call__(self, x):
        if self.w is None:
            self.w = tk.Variable([[1.0], [2.0]], name="w")
        return x @ self.w


class Block(tk.Module):
    def __init__(self, name=None):
        super().__init__(name)
        with self.name_scope:
            self.inner = Dense()
            self.gain = tk.Variable(1.0, name="gain", trainable=False)

    @tk.Module.with_name_scope
    def __call__(self, x):
        return self.gain * self.inner(x)


def test_a_module_gives_variables_its_scope():
    dense, block = Dense("last"), Block()
    dense(tk.ones((1, 2)))
    assert [v.name for v in dense.variables] == ["last/w:0"]
    block(tk.ones((1, 2)))
    assert [v.name for v in block.variables] == ["block/gain:0", "block/dense/w:0"]
    assert (block.inner.name, block.inner.name_scope.name) == ("dense", "block/dense/")


def test_a_variable_keeps_its_scope_in_a_saved_graph(tmp_path):
    module = Block("saved")
    module(tk.ones((1, 2)))
    tk.saved_model.save(module, str(tmp_path / "model"))
    loaded = tk.saved_model.load(str(tmp_path / "model"))
    assert (loaded.gain.name, loaded.inner.w.name) == ("saved/gain:0", "saved/dense/w:0")


def test_a_module_is_checkpointed(tmp_path):
    module = Layered()
    path = tk.train.Checkpoint(model=module).save(str(tmp_path / "ckpt"))
    module.w.assign([0.0, 0.0])
    tk.train.Checkpoint(model=module).restore(path).assert_consumed()
    assert module.w.numpy().tolist() == [1.0, 2.0]


def test_a_module_name_is_an_identifier():
    with pytest.raises(ValueError, match="'a b' is no Python identifier"):
        tk.Module("a b")


def test_control_dependencies_change_nothing():
    with tk.control_dependencies([tk.constant(1.0)]):
        assert float(tk.constant(2.0)) == 2.0
    with tk.control_dependencies(None):
        pass
    with pytest.raises(TypeError, match="give a list of tensors"):
        tk.control_dependencies(tk.constant(1.0))


def test_static_values():
    assert tk.get_static_value(tk.constant([1, 2])).tolist() == [1, 2]
    assert tk.get_static_value(tk.Variable(3.0)) == 3.0
    seen = []

    @tk.function
    def f(x):
        seen.append(tk.get_static_value(x))
        return x

    f(tk.constant(1.0))
    assert seen == [None]
    with pytest.raises(ValueError, match="only partial=False"):
        tk.get_static_value(tk.constant(1), partial=True)
    with pytest.raises(TypeError, match="is no tensor"):
        tk.is_symbolic_tensor(3)
    assert not tk.inside_function()


# ------------------------------------------------------------------ tk.config and tk.test


def test_devices_are_listed():
    physical = tk.config.list_physical_devices("cpu")
    assert physical == [tk.config.PhysicalDevice("/physical_device:CPU:0", "CPU")]
    logical = tk.config.list_logical_devices("CPU")
    assert logical == [tk.config.LogicalDevice("/device:CPU:0", "CPU")]
    assert tk.config.get_visible_devices("CPU") == physical
    assert tk.config.experimental.list_physical_devices("CPU") == physical


def test_memory_grows_as_it_is_needed():
    cpu = tk.config.list_physical_devices("CPU")[0]
    tk.config.experimental.set_memory_growth(cpu, True)
    assert tk.config.experimental.get_memory_growth(cpu)
    with pytest.raises(ValueError, match="only True is supported"):
        tk.config.experimental.set_memory_growth(cpu, False)


def test_gpus():
    there = bool(tk.config.list_physical_devices("GPU"))
    assert tk.test.is_gpu_available() == tk.test.is_built_with_cuda() == there
    assert tk.test.gpu_device_name() == ("/device:GPU:0" if there else "")
    assert tk.test.is_gpu_available(min_cuda_compute_capability=(3, 0)) == there


# ------------------------------------------------------------------ lists and entries


def test_lists_of_tensors():
    assert [x.tolist() for x in tk.identity_n([[1, 2][0], tk.constant([3])])] == [1, [3]]
    first, none = tk.tuple([1.0, None])
    assert (float(first), none) == (1.0, None)


def test_entries_raised_and_lowered():
    x = tk.constant([1.0, 5.0, 3.0])
    assert tk.tensor_scatter_nd_max(x, [[0], [1]], [4.0, 4.0]).tolist() == [4.0, 5.0, 3.0]
    assert tk.tensor_scatter_nd_min(x, [[0], [1]], [4.0, 4.0]).tolist() == [1.0, 4.0, 3.0]


def test_bits():
    x, y = tk.constant([5]), tk.constant([3])
    found = [
        tk.bitwise.bitwise_and(x, y),
        tk.bitwise.bitwise_or(x, y),
        tk.bitwise.bitwise_xor(x, y),
        tk.bitwise.invert(x),
        tk.bitwise.left_shift(x, y),
        tk.bitwise.right_shift(x, [1]),
    ]
    assert np.ravel(found).tolist() == [1, 7, 6, -6, 40, 2]


class Pair(tk.Module):
    def __init__(self, name):
        super().__init__()
        self.w, self.b = tk.Variable(1.0, name=name + "w"), tk.Variable(1.0, name=name + "b")


class Nested(tk.Module):
    def __init__(self):
        super().__init__()
        self.z = tk.Variable(1.0, name="z")
        self.sub = Pair("s")
        self.a = tk.Variable(1.0, name="a")
        items = {10: tk.Variable(1.0, name="10"), 9: tk.Variable(1.0, name="9"), 11: Pair("i")}
        self.items = [Pair("l"), items, tk.Variable(1.0, name="last")]
        self.tuple = (tk.Variable(1.0, name="t"), Pair("u"))
        self.mixed = {"x": tk.Variable(1.0, name="x"), 1: tk.Variable(1.0, name="1")}
        self.again, self.itself = self.sub, self
        self.deep = Pair("d")
        self.deep.more = Pair("e")
        self.layer = tk.layers.Dense(1)
        self.layer.build((None, 1))


def test_variables_and_modules_come_in_tensorflows_order():
    module = Nested()
    names = [v.name.removesuffix(":0") for v in module.variables]
    layer = [v.name.removesuffix(":0") for v in module.layer.variables]
    own = ["a", "9", "10", "last", "x", "1", "t", "z"]
    assert names == [*own, *"sb sw db dw eb ew lb lw ib iw".split(), *layer, "ub", "uw"]
    assert [getattr(part, "b", None) is None for part in module.submodules].count(True) == 1
    pairs = [part.w.name[0] for part in module.submodules if isinstance(part, Pair)]
    assert pairs == ["s", "d", "l", "i", "u", "e"]
    assert module.trainable_variables == module.variables
