"""Where summaries go, when they get there, at which step, and under which condition."""

import errno
import os
import pathlib
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest

from trainkit import summary


def sizes(folder):
    return [path.stat().st_size for path in sorted(folder.glob("*tfevents*"))]


def test_a_curve_is_read_back(writer, events):
    for step in range(1, 1001):
        if step % 100 == 0:
            assert summary.scalar("loss", 1 - 0.001 * step, step=step)
    writer.flush()
    found = events().scalars("loss")
    assert [step for step, _ in found] == list(range(100, 1001, 100))
    np.testing.assert_allclose([v for _, v in found], 1 - np.arange(1, 11) / 10, atol=1e-6)


def test_wall_times_rise_and_the_file_states_its_version(writer, events):
    for step in range(3):
        summary.scalar("loss", 0.0, step=step)
    writer.flush()
    raw = events().raw
    assert raw[0].file_version == "brain.Event:2"
    times = [event.wall_time for event in raw]
    assert times == sorted(times)
    assert times[0] > 1.7e9


def test_without_a_default_writer_nothing_happens(tmp_path):
    assert summary.scalar("loss", object()) is False  # not even looked at
    assert summary.histogram("w", object()) is False
    assert summary.image("i", object()) is False
    assert summary.audio("a", object(), 8000) is False
    assert summary.text("t", object()) is False
    assert summary.write("x", object()) is False
    assert summary.graph(object()) is False
    assert summary.hparams({"lr": object()}) is False
    assert not summary.should_record_summaries()


def test_blocks_nest_and_give_back_what_was_before(tmp_path, events):
    outer = summary.create_file_writer(tmp_path / "outer")
    inner = summary.create_file_writer(tmp_path / "inner")
    with outer.as_default(step=1):
        summary.scalar("a", 1.0)
        with inner.as_default(step=2):
            summary.scalar("a", 2.0)
        summary.scalar("a", 3.0)
        with inner.as_default():
            summary.scalar("a", 4.0)
    assert not summary.scalar("a", 5.0)
    assert summary.experimental.get_step() is None
    assert events(tmp_path / "outer").scalars("a") == [(1, 1.0), (1, 3.0)]
    assert events(tmp_path / "inner").scalars("a") == [(2, 2.0), (1, 4.0)]


def test_leaving_a_block_by_an_error_gives_back_what_was_before(tmp_path):
    writer = summary.create_file_writer(tmp_path)
    with pytest.raises(KeyError), writer.as_default(step=3):
        raise KeyError
    assert not summary.should_record_summaries()
    assert summary.experimental.get_step() is None


def test_leaving_a_block_flushes(tmp_path, events):
    with summary.create_file_writer(tmp_path).as_default():
        summary.scalar("a", 1.0, step=0)
        assert events().tags == []
    assert events().tags == ["a"]


def test_set_as_default_stays(tmp_path, events):
    writer = summary.create_file_writer(tmp_path)
    writer.set_as_default(step=4)
    assert summary.scalar("a", 1.0)
    summary.flush()
    assert events().scalars("a") == [(4, 1.0)]


def test_a_default_writer_belongs_to_its_thread(writer):
    found = []
    thread = threading.Thread(target=lambda: found.append(summary.should_record_summaries()))
    thread.start()
    thread.join()
    assert found == [False]
    assert summary.should_record_summaries()


def test_threads_share_a_writer(tmp_path, events):
    writer = summary.create_file_writer(tmp_path)

    def work(name):
        with writer.as_default():
            for step in range(200):
                summary.scalar(name, step, step=step)

    threads = [threading.Thread(target=work, args=(f"t{i}",)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    writer.close()
    found = events()
    for i in range(4):
        assert found.scalars(f"t{i}") == [(step, float(step)) for step in range(200)]


class Counter:
    """Stands for a variable: something whose value changes."""

    def __init__(self, value):
        self.value = value

    def numpy(self):
        return np.int64(self.value)


def test_the_default_step_may_be_a_variable_that_counts(writer, events):
    counter = Counter(7)
    summary.experimental.set_step(counter)
    assert summary.experimental.get_step() is counter
    summary.scalar("a", 1.0)
    counter.value = 9
    summary.scalar("a", 2.0)
    summary.scalar("a", 3.0, step=np.int32(10))
    writer.flush()
    assert events().scalars("a") == [(7, 1.0), (9, 2.0), (10, 3.0)]


def test_no_step_anywhere_is_an_error_that_says_what_to_do(writer):
    with pytest.raises(ValueError, match=r"'loss' has no step.*set_step"):
        summary.scalar("loss", 1.0)


@pytest.mark.parametrize("step", [1.5, "3", [1, 2], True])
def test_a_step_is_one_whole_number(writer, step):
    with pytest.raises(ValueError, match=r"'loss': step is .* expected one whole number"):
        summary.scalar("loss", 1.0, step=step)


@pytest.mark.parametrize("name", ["", None, 3])
def test_a_summary_needs_a_name(writer, name):
    with pytest.raises(ValueError, match="a summary's name is"):
        summary.scalar(name, 1.0, step=0)


def test_record_if_takes_flags_arrays_and_functions(writer, events):
    with summary.record_if(False):
        assert not summary.should_record_summaries()
        assert not summary.scalar("a", 0.0, step=0)
        with summary.record_if(np.array(True)):
            assert summary.scalar("a", 1.0, step=1)
    for step in range(2, 8):
        with summary.record_if(lambda: step % 3 == 0):  # noqa: B023  called within the round
            assert summary.scalar("a", step, step=step) is (step % 3 == 0)
    writer.flush()
    assert [step for step, _ in events().scalars("a")] == [1, 3, 6]


def test_a_condition_ends_with_its_block(writer):
    with pytest.raises(KeyError), summary.record_if(False):
        raise KeyError
    assert summary.should_record_summaries()


def test_a_full_queue_is_written(tmp_path, events):
    writer = summary.create_file_writer(tmp_path, max_queue=3)
    writer.set_as_default()
    for step in range(3):
        summary.scalar("a", step, step=step)
    assert events().tags == []
    summary.scalar("a", 3, step=3)
    assert [step for step, _ in events().scalars("a")] == [0, 1, 2, 3]


def test_a_late_summary_is_written_at_once(tmp_path, events, monkeypatch):
    clock = [1.8e9]
    monkeypatch.setattr("time.time", lambda: clock[0])
    writer = summary.create_file_writer(tmp_path, flush_millis=5000)
    writer.set_as_default()
    clock[0] += 4
    summary.scalar("a", 0, step=0)
    assert events().tags == []
    clock[0] += 2
    summary.scalar("a", 1, step=1)
    assert events().scalars("a") == [(0, 0.0), (1, 1.0)]
    summary.scalar("a", 2, step=2)
    assert len(events().scalars("a")) == 2


def test_closing_writes_and_ends_the_writer(tmp_path, events):
    writer = summary.create_file_writer(tmp_path)
    with writer.as_default():
        summary.scalar("a", 1.0, step=0)
        writer.close()
        assert events().scalars("a") == [(0, 1.0)]
        with pytest.raises(RuntimeError, match=r"closed.*create a new writer"):
            summary.scalar("a", 2.0, step=1)
    writer.close()
    for use in (writer.init, writer.set_as_default, writer.as_default().__enter__):
        with pytest.raises(RuntimeError, match="closed"):
            use()


def test_a_program_that_closes_nothing_loses_nothing(tmp_path, events):
    program = """
        import sys
        from trainkit import summary
        summary.create_file_writer(sys.argv[1]).set_as_default()
        for step in range(5):
            summary.scalar("a", step, step=step)
    """
    root = pathlib.Path(summary.__file__).parents[2]
    command = [sys.executable, "-c", textwrap.dedent(program), str(tmp_path)]
    subprocess.run(command, check=True, cwd=root)
    assert [step for step, _ in events().scalars("a")] == [0, 1, 2, 3, 4]


def test_a_forgotten_writer_writes_what_waits(tmp_path, events):
    writer = summary.create_file_writer(tmp_path)
    writer.set_as_default()
    summary.scalar("a", 1.0, step=0)
    summary.create_noop_writer().set_as_default()
    del writer
    assert events().scalars("a") == [(0, 1.0)]


def test_files_made_in_the_same_second_are_read_in_order(tmp_path, events, monkeypatch):
    monkeypatch.setattr("time.time", lambda: 1.8e9)
    monkeypatch.setattr("socket.gethostname", iter("cba").__next__)
    for step in range(3):
        with summary.create_file_writer(tmp_path).as_default():
            summary.scalar("a", step, step=step)
    assert len(sizes(tmp_path)) == 3
    assert [step for step, _ in events().scalars("a")] == [0, 1, 2]


def test_a_resumed_run_purges_later_steps(tmp_path, events):
    first = summary.create_file_writer(tmp_path)
    with first.as_default():
        for step in range(10):
            summary.scalar("a", 1.0, step=step)
    second = summary.create_file_writer(tmp_path, purge_step=6)
    with second.as_default():
        for step in range(6, 8):
            summary.scalar("a", 2.0, step=step)
    assert events().scalars("a") == [(s, 1.0) for s in range(6)] + [(6, 2.0), (7, 2.0)]


def test_the_file_is_named_as_asked(tmp_path):
    writer = summary.create_file_writer(str(tmp_path / "a" / "b"), filename_suffix=".train")
    (path,) = (tmp_path / "a" / "b").iterdir()
    assert path.name.startswith("events.out.tfevents.")
    assert path.name.endswith(".train")
    writer.close()
    assert list(tmp_path.rglob("*.v2")) == []
    summary.create_file_writer(tmp_path).init()
    assert len(list(tmp_path.glob("*.v2"))) == 1


def test_the_writer_shows_its_name_and_file(tmp_path):
    writer = summary.create_file_writer(tmp_path, name="training")
    assert repr(writer).startswith(f"<SummaryWriter 'training' of '{tmp_path}")
    writer.close()
    assert repr(writer).endswith("(closed)>")


@pytest.mark.parametrize("argument", ["max_queue", "flush_millis", "purge_step"])
def test_negative_settings_are_refused(tmp_path, argument):
    with pytest.raises(ValueError, match=f"{argument} is -1, expected 0 or more"):
        summary.create_file_writer(tmp_path, **{argument: -1})
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        summary.create_file_writer(tmp_path / "file" / "logs")


def test_the_noop_writer_records_nothing(writer, events):
    noop = summary.create_noop_writer()
    noop.init()
    with noop.as_default(step=3):
        assert not summary.scalar("a", 1.0)
        assert summary.experimental.get_step() == 3
        noop.flush()
    noop.close()
    assert summary.scalar("a", 2.0, step=0)
    writer.flush()
    assert events().scalars("a") == [(0, 2.0)]


def test_a_failed_summary_leaves_the_next_as_it_is(writer, events):
    with pytest.raises(ValueError, match="one real number"):
        summary.scalar("bad", [1.0, 2.0], step=5, description="gone")
    summary.scalar("good", 1.0, step=6)
    writer.flush()
    assert events().tags == ["good"]
    assert events().metadata("good").summary_description == ""


def test_importing_the_package_imports_no_tensorboardx():
    program = "import sys, trainkit.summary; sys.exit('tensorboardX' in sys.modules)"
    root = pathlib.Path(summary.__file__).parents[2]
    subprocess.run([sys.executable, "-c", program], check=True, cwd=root)


def test_a_disk_that_fails_at_the_end_leaves_no_open_file(tmp_path, events, monkeypatch):
    writer = summary.create_file_writer(tmp_path)
    with writer.as_default():
        summary.scalar("loss", 0.5, step=0)
    descriptors = []

    def broken(fd):
        descriptors.append(fd)
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", broken)
        with pytest.raises(OSError, match="Input/output error"):
            writer.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(*descriptors)
    writer.close()
    assert events().scalars("loss") == [(0, 0.5)]
