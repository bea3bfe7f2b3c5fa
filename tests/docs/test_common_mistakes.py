"""The page of common mistakes quotes what the package says, so that a search finds it."""

import pathlib
import re

import pytest

import trainkit

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "common_mistakes.md"
PACKAGE = pathlib.Path(trainkit.__file__).parent
AREAS = ("core", "graph", "layers", "losses", "metrics", "models", "checkpoints", "ops/neural")

MESSAGES = re.findall(r"^\| `([^`]+)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)


@pytest.fixture(scope="module")
def texts():
    """The sources, their texts joined over lines and with `…` for what stands in braces."""
    joined = []
    for area in AREAS:
        for path in sorted((PACKAGE / area).rglob("*.py")):
            source = path.read_text(encoding="utf-8")
            source = re.sub(r"['\"]\s*\n\s*f?['\"]", "", source)
            joined.append(re.sub(r"\{[^{}\n]*\}", "…", source))
    return "\n".join(joined)


def test_the_page_has_rows():
    assert len(MESSAGES) > 35
    assert len(set(MESSAGES)) == len(MESSAGES)


@pytest.mark.parametrize("message", MESSAGES)
def test_a_message_on_the_page_is_one_of_the_package(message, texts):
    assert message in texts


def test_a_message_of_nobody_would_be_seen(texts):
    assert "the tensor is cross with you" not in texts
