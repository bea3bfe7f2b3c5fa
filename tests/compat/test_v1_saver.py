"""Checkpoints of sessions of version 1."""

import pytest

import trainkit as tk

v1 = tk.compat.v1


def test_values_are_saved_and_restored_by_name(tmp_path):
    prefix = tmp_path / "run" / "model"
    with v1.Graph().as_default():
        with v1.variable_scope("net"):
            w = v1.get_variable("w", initializer=tk.constant([1.0, 2.0]))
        step = v1.train.get_or_create_global_step()
        train = v1.train.MomentumOptimizer(0.1, 0.9).minimize(tk.reduce_sum(w * w), step)
        saver = v1.train.Saver(max_to_keep=2)
        paths = []
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            for _ in range(3):
                session.run(train)
                paths.append(saver.save(session, prefix, global_step=step))
            values = session.run([w, step])
            session.run(train)
            saver.restore(session, paths[-1])
            assert session.run(step) == 3
            assert session.run(w).tolist() == values[0].tolist()
            session.run(train)
            further = session.run(w).tolist()
    assert paths == [f"{prefix}-{n}" for n in (1, 2, 3)]
    assert saver.last_checkpoints == paths[1:]
    assert not (tmp_path / "run" / "model-1").exists()
    assert tk.train.latest_checkpoint(str(tmp_path / "run")) == paths[-1]
    with v1.Graph().as_default():  # the same in another program
        with v1.variable_scope("net"):
            w = v1.get_variable("w", [2])
        step = v1.train.get_or_create_global_step()
        train = v1.train.MomentumOptimizer(0.1, 0.9).minimize(tk.reduce_sum(w * w), step)
        with v1.Session() as session:
            v1.train.Saver().restore(session, paths[-1])
            session.run(train)
            assert session.run(w).tolist() == further
            assert session.run(step) == 4


def test_some_variables_under_other_names(tmp_path):
    path = str(tmp_path / "model")
    with v1.Graph().as_default():
        a, b = v1.Variable(1.0, name="a"), v1.Variable(2.0, name="b")
        saver = v1.train.Saver({"other/name": a})
        session = v1.Session()
        assert saver.save(session, path) == path
        session.run(v1.assign(a, 5.0))
        session.run(v1.assign(b, 6.0))
        saver.restore(session, path)
        assert session.run([a, b]) == [1.0, 6.0]
        with pytest.raises(AssertionError):
            v1.train.Saver([a, b]).restore(session, path)
        with pytest.raises(tk.errors.NotFoundError):
            saver.restore(session, path + "-9")


def test_variables_that_can_not_be_saved_by_name():
    with v1.Graph().as_default():
        with pytest.raises(ValueError, match="no variables to save"):
            v1.train.Saver()
        v1.Variable(1.0, name="a")
        v1.Variable(2.0, name="a")
        with pytest.raises(ValueError, match="two variables are called 'a'"):
            v1.train.Saver()
