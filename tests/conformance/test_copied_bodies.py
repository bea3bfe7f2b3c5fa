"""The reader of saved graphs has trainkit's bodies as they are."""

from tests.saved_graph.write_reader import READER, reader


def test_the_reader_has_the_bodies_as_they_are():
    text, now = reader(), READER.read_text(encoding="utf-8")
    lines = zip(text.splitlines(), now.splitlines(), strict=False)
    differing = next((f"{new!r}\nnot\n{old!r}" for new, old in lines if new != old), "")
    assert text == now, (
        "run `python -m tests.saved_graph.write_reader`: a body that saved_graph/standalone.py has "
        f"a copy of is another now. The first line that differs is\n{differing}"
    )
