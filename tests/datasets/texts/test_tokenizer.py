"""`Tokenizer` and the functions beside it: numbers are those of Keras."""

import json
import warnings

import numpy as np
import pytest

from trainkit.keras.preprocessing.text import (
    Tokenizer,
    hashing_trick,
    one_hot,
    text_to_word_sequence,
    tokenizer_from_json,
)

TEXTS = ["The cat sat, on the mat!", "the dog-ate my homework\tnow", "A cat; a dog. A bird", ""]


def fitted(**settings):
    tokenizer = Tokenizer(**settings)
    tokenizer.fit_on_texts(TEXTS)
    return tokenizer


def test_frequent_words_come_first_and_ties_as_they_were_met():
    tokenizer = fitted()
    words = "the a cat dog sat on mat ate my homework now bird".split()
    assert tokenizer.word_index == {word: i for i, word in enumerate(words, 1)}
    assert tokenizer.index_word[3] == "cat"
    assert tokenizer.word_counts["the"] == 3
    assert tokenizer.word_docs["the"] == 2
    assert tokenizer.index_docs[1] == 2
    assert tokenizer.document_count == 4


@pytest.mark.parametrize(
    ("settings", "sequences"),
    [
        ({}, [[3, 5, 6, 1, 7], [2]]),
        ({"num_words": 4}, [[3, 1], [2]]),
        ({"num_words": 4, "oov_token": "?"}, [[1, 1, 1, 2, 1], [1, 3]]),
        ({"oov_token": "cat"}, [[4, 6, 7, 2, 8], [4, 3]]),
    ],
)
def test_texts_become_numbers(settings, sequences):
    assert fitted(**settings).texts_to_sequences(["cat sat on THE mat", "zebra a"]) == sequences


def test_numbers_become_texts():
    assert fitted().sequences_to_texts([[1, 3], [99, 2], []]) == ["the cat", "a", ""]
    assert fitted(num_words=3, oov_token="?").sequences_to_texts([[2, 3, 99]]) == ["the ? ?"]


def test_letters_are_words_with_char_level():
    tokenizer = Tokenizer(char_level=True)
    tokenizer.fit_on_texts("hello")
    assert tokenizer.word_index == {"l": 1, "h": 2, "e": 3, "o": 4}
    assert tokenizer.document_count == 5
    assert tokenizer.texts_to_sequences(["hole"]) == [[2, 4, 1, 3]]


def test_lists_of_words_and_generators_are_texts():
    tokenizer = Tokenizer()
    tokenizer.fit_on_texts(words for words in [["The", "cat"], ["the"]])
    assert tokenizer.texts_to_sequences([["CAT", "the"], "the cat"]) == [[2, 1], [1, 2]]
    assert tokenizer.texts_to_sequences(np.array(["the cat"])) == [[1, 2]]


def test_an_analyzer_cuts_the_texts():
    tokenizer = Tokenizer(analyzer=lambda text: text.split("/"))
    tokenizer.fit_on_texts(["a b/c", "c"])
    assert tokenizer.word_index == {"c": 1, "a b": 2}


@pytest.mark.parametrize(
    ("mode", "row"),
    [
        ("binary", [0, 1, 1]),
        ("count", [0, 2, 1]),
        ("freq", [0, 2 / 4, 1 / 4]),
        ("tfidf", [0, (1 + np.log(2)) * np.log(1 + 4 / 3), np.log(1 + 4 / 2)]),
    ],
)
def test_texts_become_vectors(mode, row):
    matrix = fitted(num_words=3).sequences_to_matrix([[1, 2, 1, 7], []], mode)
    np.testing.assert_allclose(matrix, [row, [0, 0, 0]], rtol=1e-12)
    assert fitted().texts_to_matrix(TEXTS, mode).shape == (4, 13)


def test_counts_of_numbers_serve_tfidf():
    tokenizer = Tokenizer(num_words=3)
    tokenizer.fit_on_sequences([[1, 1, 2], [1]])
    matrix = tokenizer.sequences_to_matrix([[1]], "tfidf")
    np.testing.assert_allclose(matrix, [[0, np.log(1 + 2 / 3), 0]], rtol=1e-12)


def test_json_brings_the_tokenizer_back():
    tokenizer = fitted(num_words=6, oov_token="?")
    config = json.loads(tokenizer.to_json(indent=1))["config"]
    assert json.loads(config["word_index"]) == tokenizer.word_index
    again = tokenizer_from_json(tokenizer.to_json())
    assert again.texts_to_sequences(TEXTS) == tokenizer.texts_to_sequences(TEXTS)
    assert again.to_json() == tokenizer.to_json()
    again.fit_on_texts(["bird bird bird bird"])
    assert again.word_index["bird"] == 2
    with pytest.raises(ValueError, match="not the text that"):
        tokenizer_from_json('{"config": {}}')


def test_a_text_that_is_none_is_named_and_nothing_is_counted():
    tokenizer = fitted()
    before = tokenizer.to_json()
    with pytest.raises(TypeError, match=r"text 1 is nan, a float.*fill missing values"):
        tokenizer.fit_on_texts(["new words", float("nan")])
    assert tokenizer.to_json() == before
    with pytest.raises(TypeError, match="text 0 is b'bytes'"):
        tokenizer.texts_to_sequences([b"bytes"])


def test_mistakes_are_named():
    with pytest.raises(ValueError, match="mode='tf' must be one of 'binary'"):
        fitted().texts_to_matrix(TEXTS, "tf")
    with pytest.raises(ValueError, match="give num_words, or call fit_on_texts"):
        Tokenizer().sequences_to_matrix([[1]])
    with pytest.raises(ValueError, match="needs counts"):
        Tokenizer(num_words=3).sequences_to_matrix([[1]], "tfidf")
    with pytest.raises(TypeError, match="unknown arguments size"):
        Tokenizer(size=3)
    with pytest.warns(UserWarning, match=r"write \['one text'\]"):
        Tokenizer().fit_on_texts("one text")
    with pytest.warns(FutureWarning, match="num_words"):
        assert Tokenizer(nb_words=7).num_words == 7


def test_words_of_a_text():
    assert text_to_word_sequence("A b, C-d\n e") == ["a", "b", "c", "d", "e"]
    assert text_to_word_sequence("A,B", lower=False, split=",", filters="") == ["A", "B"]
    with pytest.raises(TypeError, match="must be a str, got NoneType"):
        text_to_word_sequence(None)


def test_words_become_numbers_by_a_hash():
    assert hashing_trick("a b c A", 50, "md5") == [15, 33, 1, 15]
    assert hashing_trick("bb a", 5, len) == [3, 2]
    assert hashing_trick("b/a", 5, len, analyzer=lambda text: text.split("/")) == [2, 2]
    numbers = one_hot("the cat the", 9)
    assert numbers[0] == numbers[2]
    assert all(1 <= number < 9 for number in numbers)
    with pytest.raises(ValueError, match="n must be at least 2"):
        one_hot("a", 1)
    with pytest.raises(ValueError, match="hash_function='sha'"):
        hashing_trick("a", 9, "sha")


def test_no_warning_for_a_string_of_letters():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Tokenizer(char_level=True).fit_on_texts("letters")
