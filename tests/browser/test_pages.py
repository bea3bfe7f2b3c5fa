"""The pages of TensorBoard in a real browser, which loads nothing but what this machine serves."""

import pytest

from tests.browser import board, logs, screenshots

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(board.missing()), reason=board.missing() or "all is here"),
]


@pytest.fixture(scope="module")
def look(tmp_path_factory):
    """`look(page, **where)` opens a page of TensorBoard; `look.page` is Playwright's."""
    folder = tmp_path_factory.mktemp("logs")
    logs.write_logs(folder, epochs=2)
    with board.tensorboard(folder) as address, board.browser_page() as page:
        yield board.Look(address, page)


def test_scalars_have_charts_with_titles(look):
    page = look("scalars", tagFilter="^epoch_")
    look.finds("epoch_accuracy", "epoch_loss", "epoch_learning_rate", "epoch_steps_per_second")
    look.finds("fast/train", "fast/validation", "slow/train")
    page.locator("tf-scalar-card").nth(3).wait_for(state="attached")


def test_gradients_have_charts(look):
    look("scalars", tagFilter="gradient_norm|update_ratio")
    look.finds("gradient_norm/scores/kernel", "update_ratio/scores/kernel")


def test_time_series_has_the_same_curves(look):
    page = look("timeseries")
    page.locator("card-view").first.wait_for()
    look.finds("batch_accuracy")


def test_the_graph_of_operations_has_its_nodes(look):
    look.graph("fast/train")
    look.nodes("flat", "hidden", "scores")  # a scope for each layer


def test_the_pictures_of_graphs_have_what_layers_hold(look):
    assert list(screenshots.graph_pages(look)) == ["graph_of_operations", "graph_of_layers"]


def test_the_graph_of_a_function_is_under_its_trace(look):
    look.graph("extras", "pythagoras")
    look.nodes("Mul_1", "AddV2", "Sqrt")


def test_hparams_have_a_row_for_each_trial(look):
    page = look("hparams")
    look.finds("PARALLEL COORDINATES VIEW", "learning_rate", "optimizer", "epoch_accuracy")
    look.finds("0.0050000", "0.0010000")
    assert page.get_by_text("adam", exact=True).count() >= 2


def test_precision_recall_curves(look):
    page = look("pr_curves")
    look.finds("pr/digit_3", "pr/digit_8")
    assert page.locator("tf-pr-curve-card").count() == 2


def test_the_projector_shows_points_with_labels_and_pictures(look):
    page = look("projector")
    page.wait_for_event("frameattached")
    deep = page.frame_locator("iframe").frame_locator("iframe")
    deep.get_by_text("Points: 200").first.wait_for(state="attached")
    deep.get_by_text("Dimension: 32").first.wait_for(state="attached")
    files = {url.split("?")[0].rpartition("/")[2] for url in look.asked}
    assert {"tensor", "metadata", "sprite_image"} <= files


@pytest.mark.parametrize(
    ("name", "tag", "words", "element"),
    [
        ("images", "wrong", "wrong_answers/confusion", "tf-image-loader"),
        ("text", "notes", "notes", "tf-markdown-view"),
        ("histograms", "scores", "scores/kernel", "tf-histogram-loader"),
        ("distributions", "scores", "scores/kernel", "tf-distribution-loader"),
        ("audio", "tone", "tone", "tf-audio-loader"),
        ("custom_scalars", "", "loss of both", "tf-custom-scalar-multi-line-chart-card"),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_pages_of_media(look, name, tag, words, element):
    page = look(name, **({"tagFilter": tag} if tag else {}))
    page.locator(element).first.wait_for(state="attached")
    look.finds(words)


def test_text_is_markdown(look):
    page = look("text")
    page.locator("tf-markdown-view strong", has_text="0").first.wait_for(state="attached")


def test_meshes_are_drawn(look):
    look("mesh").locator("tf-mesh-loader canvas").first.wait_for(state="attached")


def test_images_are_pictures_that_the_browser_can_read(look):
    page = look("images", tagFilter="confusion")
    picture = page.locator("tf-image-loader img").first
    picture.wait_for()
    assert picture.evaluate("picture => picture.decode().then(() => picture.naturalWidth)") == 334


def test_nothing_went_wrong_in_the_browser(look):
    assert look.errors == []
