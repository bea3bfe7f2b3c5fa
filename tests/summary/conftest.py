"""Event folders as TensorBoard reads them."""

import pytest


class Events:
    """What TensorBoard's own reader finds in a folder of event files."""

    def __init__(self, logdir):
        from tensorboard.backend.event_processing import event_file_loader
        from tensorboard.backend.event_processing.plugin_event_accumulator import EventAccumulator
        from tensorboard.util.tensor_util import make_ndarray

        self.make_ndarray = make_ndarray
        self.accumulator = EventAccumulator(
            str(logdir),
            tensor_size_guidance=dict.fromkeys(("scalars", "images", "histograms", "audio"), 0),
        )
        self.accumulator.Reload()
        self.raw = []
        for path in sorted(logdir.glob("*tfevents*")):
            self.raw += event_file_loader.EventFileLoader(str(path)).Load()

    @property
    def tags(self):
        return sorted(self.accumulator.Tags()["tensors"])

    def tensors(self, tag):
        return [(e.step, self.make_ndarray(e.tensor_proto)) for e in self.accumulator.Tensors(tag)]

    def scalars(self, tag):
        assert self.plugin(tag) == "scalars"
        return [(step, float(array)) for step, array in self.tensors(tag)]

    def metadata(self, tag):
        return self.accumulator.SummaryMetadata(tag)

    def plugin(self, tag):
        return self.metadata(tag).plugin_data.plugin_name


@pytest.fixture
def events(tmp_path):
    """`events()` reads the test's folder as it is on the disk now."""
    return lambda logdir=tmp_path: Events(logdir)


@pytest.fixture(autouse=True)
def _own_defaults():
    """Each test begins and ends without a default writer, step or condition."""
    from trainkit.summary.defaults import DEFAULTS

    yield
    DEFAULTS.__dict__.clear()


@pytest.fixture
def writer(tmp_path):
    """A writer to the test's folder, which is the default."""
    from trainkit import summary

    with summary.create_file_writer(tmp_path).as_default() as made:
        yield made
        made.close()
