"""Hashes of texts: many at once have the numbers of each by itself."""

import numpy as np
import pytest

from trainkit.core.fingerprints import fingerprint64
from trainkit.ops.indexing.fingerprint_arrays import fingerprints, text_buckets

# By tf.strings.to_hash_bucket_fast(text, 1 << 62) of TensorFlow 2.21.
FARM = {
    b"": 1936946117179621455,
    b"a": 3694432073954588131,
    b"cat": 1283407398697799384,
    b"four": 762099090467041736,
    b"sevenxx": 3894103318192219610,
    b"eightxxx": 3953639200109730513,
    b"sixteen bytes xx": 3530977263673238262,
    b"seventeen bytes x": 2878883820069024623,
    b"x" * 32: 3678204687145032709,
    b"y" * 33: 3999049019338133246,
    b"z" * 64: 294799756062990872,
    b"w" * 65: 3272011567211491968,
    b"v" * 128: 532160357238205671,
}


@pytest.mark.parametrize("text", FARM)
def test_numbers_are_those_of_farmhash(text):
    assert fingerprint64(text) % (1 << 62) == FARM[text]


def test_many_texts_at_once_have_the_numbers_of_each(rng):
    texts = [rng.bytes(size) for size in range(150) for _ in range(3)]
    np.testing.assert_array_equal(fingerprints(texts), [fingerprint64(text) for text in texts])
    assert fingerprints([]).shape == (0,)


@pytest.mark.parametrize("buckets", [1, 7, 1 << 62])
def test_few_and_many_texts_fall_into_the_same_buckets(buckets, rng):
    texts = np.array([rng.bytes(size) for size in range(96)], object).reshape(8, 12)
    many = text_buckets(texts, buckets, fingerprint64)
    few = [text_buckets(row, buckets, fingerprint64) for row in texts]
    assert many.dtype == np.int64
    np.testing.assert_array_equal(many, few)
