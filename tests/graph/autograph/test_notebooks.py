"""Errors, interruptions, bars and results in a kernel of Jupyter, whose cells are in no file."""

import re

import pytest

pytest.importorskip("ipykernel")
manager = pytest.importorskip("jupyter_client.manager")

SECONDS = 60
"""Long enough for any cell; one that hangs takes all of them."""

BEGIN = """
import numpy as np, trainkit as tk
def product(x):
    return x @ tk.ones([5, 5])  # the product
def branch(x):
    if tk.reduce_sum(x) > 0:
        x = product(x)  # the branch
    return x
rows = tk.ones([2, 3])
"""
CELLS = {
    "nested": (
        """
@tk.function
def outer(x):
    for _ in tk.range(2):
        while tk.reduce_sum(x) > 0:
            x = tk.function(branch)(x)  # the loop
    return x
outer(rows)
""",
        "ShapeError",
        ["the loop", "the branch", "the product"],
    ),
    "run": (
        """
@tk.function
def f(x):
    for i in tk.range(3):
        if i > 1:
            raise KeyError("mine")
    return x
f(rows)
""",
        "KeyError",
        [],
    ),
    "fit": (
        """
class Steps(tk.Model):
    def train_step(self, data):
        return branch(data)
model = Steps()
model.compile("sgd", "mse")
model.fit(np.ones([4, 3], "float32"), verbose=0)
""",
        "ShapeError",
        ["the branch", "the product"],
    ),
    "map": (
        "list(tk.data.Dataset.from_tensors(rows).map(tk.function(branch)))",
        "ShapeError",
        ["the branch", "the product"],
    ),
}
ENDLESS = """
import signal
@tk.function
def endless(x):
    while True:
        x = x + 1
        signal.raise_signal(signal.SIGINT)  # as the button of a notebook does
    return x
endless(rows)
"""
AFTERWARDS = """
import inspect
assert tk.executing_eagerly() and "# the product" in inspect.getsource(product)
assert float(tk.reduce_sum(tk.function(branch)(tk.zeros([2, 5])))) == 0.0
"""

LIVE = """
model = tk.Sequential([tk.Input((3,)), tk.layers.Dense(1)])
model.compile("sgd", "mse")
history = model.fit(np.ones([64, 3], "float32"), np.ones(64), batch_size=4, epochs=2)
model.optimizer
"""
SHOWN = ("rows", "model", "history", "tk.data.Dataset.range(3)", "tk.train.Checkpoint(model=model)",
         "tk.function(branch)", "tk.optimizers.schedules.CosineDecay(0.1, 10)")  # fmt: skip
"""What a cell may end with, and is shown as HTML."""


class Kernel:
    """Runs cells in a kernel."""

    def __init__(self):
        self.manager, self.client = manager.start_new_kernel(kernel_name="python3")

    def run(self, cell):
        """How a cell ended, the name of its error, and its traceback."""
        reply = self.client.execute_interactive(cell, timeout=SECONDS)["content"]
        text = re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(reply.get("traceback", [])))
        return reply["status"], reply.get("ename"), text

    def outputs(self, cell):
        """The text that a cell prints, and what it shows by type."""
        texts, displayed = [], {}

        def take(message):
            content = message["content"]
            texts.append(content.get("text", ""))
            displayed.update(content.get("data", {}))

        reply = self.client.execute_interactive(cell, timeout=SECONDS, output_hook=take)
        assert reply["content"]["status"] == "ok", reply
        return "".join(texts), displayed

    def close(self):
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_cells_of_a_notebook(tmp_path, monkeypatch):
    for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR"):
        monkeypatch.setenv(name, str(tmp_path))
    kernel = Kernel()
    try:
        assert kernel.run(BEGIN)[0] == "ok"
        for name, (cell, kind, lines) in CELLS.items():
            status, error, shown = kernel.run(cell)
            assert (name, status, error) == (name, "error", kind)
            arrows = [line for line in shown.split("\n") if re.match(r"-+> ", line)]
            at = [i for words in lines for i, line in enumerate(arrows) if line.endswith(words)]
            assert sorted(set(at)) == at, (name, arrows)
            assert len(at) >= len(lines), (name, arrows)
        assert kernel.run(ENDLESS)[1] == "KeyboardInterrupt"
        assert kernel.run(AFTERWARDS) == ("ok", None, "")
        printed, displayed = kernel.outputs(LIVE)
        assert "momentum" in displayed["text/html"]
        lines = [line for line in printed.split("\n") if line]  # each drawn again and again
        for epoch, line in enumerate(lines, 1):
            assert line.startswith(f"\rEpoch {epoch}/2   0/16\r"), printed
            assert line.split("\r")[-1].startswith(f"Epoch {epoch}/2  16/16"), printed
        assert len(lines) == 2, printed
        for thing in SHOWN:
            shown = kernel.outputs(thing)[1]
            assert shown["text/html"].startswith(("<div", "<figure")), (thing, shown)
    finally:
        kernel.close()
