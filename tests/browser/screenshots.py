"""Pictures of the pages of TensorBoard: `python -m tests.browser.screenshots docs/images`."""

import argparse
import io
import pathlib
import sys
import tempfile

from PIL import Image

from tests.browser import board, logs

COLORS = 64
WIDTH = 900


def _pages(look):
    """The name of each picture, and the page once it is drawn."""
    plain = [
        ("scalars", {"tagFilter": "^epoch_(loss|accuracy)"}, "epoch_accuracy"),
        ("time_series", {}, "batch_accuracy"),
        ("gradients", {"tagFilter": "gradient_norm|update_ratio"}, "update_ratio/edges/bias"),
        ("images", {"tagFilter": "wrong_answers"}, "wrong_answers/confusion"),
        ("histograms", {"tagFilter": "kernel"}, "scores/kernel"),
        ("distributions", {"tagFilter": "kernel"}, "scores/kernel"),
        ("text", {}, "notes"),
        ("pr_curves", {}, "pr/digit_3"),
        ("hparams", {}, "0.0050000"),
        ("mesh", {}, None),
        ("custom_scalars", {}, "loss of both"),
        ("audio", {}, "tone"),
    ]
    pages = {"time_series": "timeseries", "gradients": "scalars"}
    for name, where, words in plain:
        look(pages.get(name, name), **where)
        if words:
            look.finds(words)
        yield name
    yield from graph_pages(look)
    look("projector")
    deep = look.page.frame_locator("iframe").frame_locator("iframe")
    deep.get_by_text("Points: 200").first.wait_for(state="attached")
    yield "projector"


def graph_pages(look):
    """The names of the pictures of graphs, each once its nodes are drawn."""
    look.graph("fast/train")
    look.opens("edges", "Conv2D")
    yield "graph_of_operations"
    look.graph("fast/train", "keras")
    look.page.get_by_text("Conceptual graph").first.click()
    look.opens("digits", "edges")
    look.nodes("flat", "hidden", "scores")
    yield "graph_of_layers"


def _small(png):
    """A picture as a small PNG of few colors."""
    picture = Image.open(io.BytesIO(png)).convert("RGB")
    height = round(picture.height * WIDTH / picture.width)
    return picture.resize((WIDTH, height), Image.Resampling.LANCZOS).quantize(COLORS)


def main():
    """Write the pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path)
    folder = parser.parse_args().folder
    if board.missing():
        sys.exit(board.missing())
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as runs:
        logs.write_logs(runs)
        with board.tensorboard(runs) as address, board.browser_page() as page:
            look = board.Look(address, page)
            for name in _pages(look):
                page.wait_for_timeout(3000)  # curves and points move into their places
                path = folder / f"tensorboard_{name}.png"
                _small(page.screenshot()).save(path, optimize=True)
                print(path, path.stat().st_size)


if __name__ == "__main__":
    main()
