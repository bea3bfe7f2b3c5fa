"""The package speaks the field's language: what a reader of JAX or PyTorch would search for."""

import io
import itertools
import pathlib
import re
import tokenize
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.structure.imports import PACKAGE, own_text

FSTRING_START = getattr(tokenize, "FSTRING_START", None)
FSTRING_END = getattr(tokenize, "FSTRING_END", None)

# A word of our own, and what the field says. Two words are one name, as in `way_back`, `WayBack`
# and "way back".
FIELD = {
    "arranging": "pad, tile, roll",
    "attending": "fused attention",
    "array rules": "vjps on arrays",
    "biased activations": "bias_activation",
    "body plans": "loop_vjp",
    "branch plans": "cond_vjp",
    "call facts": "call spec",
    "calm": "configure_threads",
    "callables": "eager dispatch",
    "crew": "executor, thread pool",
    "custom rule": "custom_gradient",
    "deliver": "accumulate (a gradient)",
    "dropping": "dropout",
    "extremes": "max, min, argmax",
    "flat files": "safetensors",
    "gradient pairs": "grads_and_vars",
    "guard": "validation",
    "hot program": "tiered program, JIT kernel",
    "image sizes": "resizing",
    "joining": "concat, split",
    "known weights": "slots",
    "line tiles": "microkernels",
    "listing": "graph printing",
    "look in": "instrumentation",
    "loop rows": "loop to scan",
    "loud": "with effects",
    "odd": "unusual, the remainder, incomplete (odd numbers stay odd)",
    "placing": "placement",
    "recorder": "trace state",
    "rule loop": "fused update",
    "rule program": "update program",
    "seal": "header",
    "seams": "instrumentation",
    "slopes": "gradients, derivatives",
    "source lines": "user frames",
    "splitting": "partition, residuals",
    "spreading": "parallel_for",
    "step facts": "step cache",
    "step writers": "lowering",
    "stretch": "chunk, range",
    "takes notes": "traces",
    "taps": "kernel offsets",
    "team": "thread pool",
    "teams": "thread pools, parallel loops",
    "told": "informed, notified, compiled; said to",
    "unfolding": "im2col",
    "walk": "backward pass; traversal",
    "walked": "traversed",
    "walks": "traverses",
    "way back": "vjp",
    "weight state": "slot state",
}

ODD_NUMBERS = "odd numbers, beside even ones"
OF_LOOPS = "`tk.runs.Recorder`, which writes the journal of a loop"
LIBRARY = "a function of Python's own library"

# Where such a word is the field's own, how often, and why.
KEPT = {
    ("compat/v1_gfile.py", "walk"): (2, LIBRARY),
    ("datasets/folders.py", "walk"): (1, LIBRARY),
    ("graph/autograph/convert.py", "walk"): (1, LIBRARY),
    ("graph/autograph/lambda_source.py", "walk"): (1, LIBRARY),
    ("graph/autograph/prepare.py", "walk"): (2, LIBRARY),
    ("graph/autograph/source_map.py", "walk"): (3, LIBRARY),
    ("graph/control_flow/effects.py", "walk"): (1, LIBRARY),
    ("graph/tracing/verify.py", "walk"): (1, LIBRARY),
    ("records/gfile.py", "walk"): (3, "TensorFlow's name, and that of `os.walk`"),
    ("journal/recorder.py", "recorder"): (9, OF_LOOPS),
    ("journal/replays.py", "recorder"): (3, OF_LOOPS),
    ("runs/__init__.py", "recorder"): (4, OF_LOOPS),
    ("runs/journaled_run.py", "recorder"): (2, OF_LOOPS),
    ("kernels/convolution/depthwise_microkernels.py", "odd"): (2, ODD_NUMBERS),
    ("kernels/convolution/winograd_sizes.py", "odd"): (1, ODD_NUMBERS),
    ("kernels/convolution/winograd_transforms.py", "odd"): (4, ODD_NUMBERS),
    ("ops/core/control_flow.py", "odd"): (8, ODD_NUMBERS),
    ("ops/images/image_filters.py", "odd"): (2, ODD_NUMBERS),
    ("ops/images/image_quality.py", "odd"): (1, ODD_NUMBERS),
    ("ops/images/resizing.py", "odd"): (1, ODD_NUMBERS),
    ("ops/linear_algebra/linear_solve.py", "odd"): (7, ODD_NUMBERS),
    ("ops/math/incomplete_gamma.py", "odd"): (1, ODD_NUMBERS),
    ("ops/neural/softmax.py", "odd"): (1, ODD_NUMBERS),
    ("ops/signal/frames.py", "odd"): (2, ODD_NUMBERS),
}

IDENTIFIER_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def words(text: str) -> list[str]:
    """The words of a text in small letters; identifiers are split at `_` and at capitals."""
    return [part.lower() for part in IDENTIFIER_PARTS.findall(text)]


def spoken(source: str) -> Iterator[str]:
    """What a Python file says to its reader: names, comments, docstrings; no other strings."""
    statement_begins, inside = True, 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        # from Python 3.12 on, what stands in an f-string comes as tokens of its own
        inside += (token.type == FSTRING_START) - (token.type == FSTRING_END)
        if not inside and (
            token.type in (tokenize.NAME, tokenize.COMMENT)
            or (token.type == tokenize.STRING and statement_begins)
        ):
            yield token.string
        if token.type not in (tokenize.COMMENT, tokenize.NL):
            statement_begins = token.type in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)


def counted(texts: list[list[str]]) -> Counter:
    """How often each private word stands in these lists of words."""
    found: Counter = Counter()
    for text in texts:
        found.update(word for word in text if word in FIELD)
        pairs = (f"{one} {two}" for one, two in itertools.pairwise(text))
        found.update(pair for pair in pairs if pair in FIELD)
    return found


def texts_of(path: pathlib.Path) -> list[list[str]]:
    source = own_text(path)
    if not counted([words(source)]):  # then no part of it says one, and to tokenize takes long
        return [words(path.stem)]
    if path.suffix == ".py":
        return [words(path.stem), *map(words, spoken(source))]
    return [words(path.stem), words(source)]


def written(folder: pathlib.Path = PACKAGE) -> list[pathlib.Path]:
    return sorted(path for end in ("py", "pyx", "pxi") for path in folder.rglob(f"*.{end}"))


def test_words_are_those_of_the_field():
    found = {
        (path.relative_to(PACKAGE).as_posix(), word): count
        for path in written()
        for word, count in counted(texts_of(path)).items()
    }
    faults = [
        f"{path} says {word!r} {count} times: the field says {FIELD[word]}"
        for (path, word), count in sorted(found.items())
        if count > KEPT.get((path, word), (0, ""))[0]
    ]
    assert not faults, "\n".join(faults)
    stale = [key for key, (count, _) in KEPT.items() if found.get(key) != count]
    assert not stale, f"these are used less often by now; take them out of KEPT: {stale}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("_way_back", ["way", "back"]),
        ("HotProgram", ["hot", "program"]),
        ("SEAL_SIZE", ["seal", "size"]),
        ("a team's HDF5File", ["a", "team", "s", "hdf", "file"]),
    ],
)
def test_a_text_is_split_into_words(text, expected):
    assert words(text) == expected


def test_names_comments_and_docstrings_count_and_other_strings_do_not():
    source = '''
"""The way back."""
class WayBack:  # one team
    """A crew."""
    def told(self):
        # odd, and oddly
        return "walk the walk"
'''
    found = counted([words(text) for text in spoken(source)])
    assert found == {"way back": 2, "team": 1, "crew": 1, "told": 1, "odd": 1}
