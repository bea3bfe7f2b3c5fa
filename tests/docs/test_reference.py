"""The reference has every public name, once, with its arguments."""

import importlib.util
import inspect
import pathlib
import re
import types

import pytest

import trainkit as tk
from trainkit.core.names import BoundElsewhere

pytest.importorskip("griffe", reason="griffelib writes the reference")

ROOT = pathlib.Path(__file__).parents[2]


def load(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


reference = load("reference")

WITH_EXAMPLES = [
    "tk.activations",
    "tk.bitwise",
    "tk.callbacks",
    "tk.constraints",
    "tk.debugging",
    "tk.image",
    "tk.initializers",
    "tk.layers",
    "tk.linalg",
    "tk.nest",
    "tk.random",
    "tk.regularizers",
    "tk.signal",
    "tk.strings",
    "tk.summary",
    "tk.losses",
    "tk.metrics",
    "tk.models",
    "tk.optimizers",
]


# They need Pillow, or raise whatever they are given.
WITHOUT = {
    "adjust_jpeg_quality",
    "decode_and_crop_jpeg",
    "decode_bmp",
    "decode_gif",
    "decode_jpeg",
    "decode_webp",
    "encode_jpeg",
    "extract_jpeg_shape",
    "unicode_script",
}


@pytest.fixture(scope="module")
def pages():
    return reference.pages()


def test_every_door_has_a_page():
    doors = {f"tk.{n}" for n in dir(tk) if isinstance(getattr(tk, n), types.ModuleType)}
    # `compat` holds nothing but `v1`, and `trainkit.eager` is another door's name for the same
    assert doors - {"tk.compat"} <= set(reference.DOORS)


def test_every_name_is_described_once_or_leads_to_where_it_is(pages):
    text = "\n".join(pages.values())
    described = re.findall(r"^## `\w+` \{ #([\w.]+) \}$", text, re.MULTILINE)
    assert len(described) == len(set(described)) > 1400
    known = set(described)
    known |= {
        n for line in re.findall(r"^Also (.*)\.$", text, re.M) for n in line[1:-1].split("`, `")
    }
    known |= set(re.findall(r"^- `([\w.]+)`: \[`[\w.]+`\]\(", text, re.MULTILINE))
    asked = {f"{door}.{name}" for door in reference.DOORS for name in reference.public_names(door)}
    assert asked - known == set()


def _bound_elsewhere(value):
    """Names of other frameworks, which raise and say what to use."""
    return isinstance(value, type) and issubclass(value, BoundElsewhere)


@pytest.mark.parametrize("door", WITH_EXAMPLES)
def test_every_name_has_an_example(door):
    place = reference.holder(door)
    named = {name: getattr(place, name) for name in reference.public_names(door)}
    missing = [
        name
        for name, value in named.items()
        if callable(value) and not _bound_elsewhere(value) and ">>>" not in inspect.getdoc(value)
    ]
    assert [name for name in missing if name not in WITHOUT] == []


def test_what_a_module_imports_for_itself_is_not_public():
    assert "relu" in reference.public_names("tk.activations")
    assert "InvalidArgumentError" not in reference.public_names("tk.activations")


def test_every_link_leads_to_a_heading(pages):
    for name, text in pages.items():
        for file, anchor in re.findall(r"\]\((\w+\.md)#([\w.]+)\)", text):
            assert f"{{ #{anchor} }}" in pages[file], f"{name} -> {file}#{anchor}"


def test_a_class_shows_arguments_sections_and_methods():
    text = "\n".join(reference.entry("tk.losses.Huber", tk.losses.Huber, ["`tk.losses.H`"]))
    assert text.startswith("## `Huber` { #tk.losses.Huber }\n\nAlso `tk.losses.H`.\n")
    assert 'Huber(delta=1.0, reduction="sum_over_batch_size"' in text.replace("'", '"')
    assert "**Args**\n\n- `delta`: " in text


def test_an_operation_shows_the_arguments_of_its_body():
    assert reference.signature(tk.math.betainc) == "(a, b, x)"


def test_long_signatures_take_a_line_for_each_argument():
    def long(
        first_argument, *, second_argument=(1, 2), third="a, b", fourth_argument=None, fifth=5
    ):
        """Text."""

    assert reference.signature(long).splitlines() == [
        "(",
        "    first_argument,",
        "    *,",
        "    second_argument=(1, 2),",
        "    third='a, b',",
        "    fourth_argument=None,",
        "    fifth=5,",
        ")",
    ]


def test_every_prompt_stands_in_a_fence(pages):
    for name, text in pages.items():
        outside = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
        assert ">>>" not in outside, name


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Text.", "Text."),
        (">>> 1\n1", "```pycon\n>>> 1\n1\n```"),
        ("A.\n\n>>> 1\n1\n\nB.", "A.\n\n```pycon\n>>> 1\n1\n```\n\nB."),
        ("A.\n>>> 1\n1", "A.\n\n```pycon\n>>> 1\n1\n```"),
        (">>> x = 1\n\n>>> x\n1", "```pycon\n>>> x = 1\n\n>>> x\n1\n```"),
        ("```pycon\n>>> 1\n1\n```", "```pycon\n>>> 1\n1\n```"),
    ],
)
def test_sessions_are_fenced(text, expected):
    assert reference.fence_sessions(text) == expected


@pytest.mark.parametrize(
    ("html", "fault"),
    [
        ("<pre><code>&gt;&gt;&gt; 1</code></pre><img src='a.png'>", None),
        ("<p>&gt;&gt;&gt; 1</p>", "a prompt outside of code"),
        ("<blockquote><blockquote><blockquote>1", "taken for nested quotations"),
        ("<link rel='stylesheet' href='https://elsewhere.example/a.css'>", "fetches https://else"),
        ("<link rel='canonical' href='https://elsewhere.example/a.html'>", None),
        ("<script src='//elsewhere.example/a.js'></script>", "fetches //elsewhere"),
    ],
)
def test_faults_of_a_built_page_are_seen(tmp_path, html, fault):
    (tmp_path / "a.html").write_text(html, encoding="utf-8")
    faults = list(load("check_site").faults(tmp_path))
    assert len(faults) == (fault is not None)
    assert all(fault in line for line in faults)


def test_a_source_file_in_the_site_is_a_fault(tmp_path):
    (tmp_path / "a.py").write_text("", encoding="utf-8")
    assert list(load("check_site").faults(tmp_path)) == ["a.py: a source file in the site"]


def test_a_section_that_has_no_form_is_an_error():
    class Section:
        kind = reference.DocstringSectionKind.modules
        value = ()

    with pytest.raises(ValueError, match="modules"):
        list(reference._section(Section()))
