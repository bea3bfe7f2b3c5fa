"""`tk.compat`: texts, sizes, and the second path to all names."""

import importlib

import pytest

import trainkit as tk


def test_texts_become_bytes_and_characters():
    assert tk.compat.as_bytes("é") == b"\xc3\xa9"
    assert tk.compat.as_bytes(bytearray(b"a")) == b"a"
    assert tk.compat.as_text(b"\xc3\xa9") == tk.compat.as_str("é") == "é"
    for convert in (tk.compat.as_bytes, tk.compat.as_text):
        with pytest.raises(TypeError, match="takes bytes or a str, got 3"):
            convert(3)


def test_sizes_are_numbers_or_none():
    assert [tk.compat.dimension_value(n) for n in tk.TensorShape([None, 4])] == [None, 4]


def test_version_2_has_the_names_of_the_package():
    module = importlib.import_module("trainkit.compat.v2")
    assert module.constant is tk.constant
    assert module.keras.layers.Dense is tk.layers.Dense
    assert "function" in dir(module)
    with pytest.raises(AttributeError, match="no_such_name"):
        module.no_such_name  # noqa: B018
