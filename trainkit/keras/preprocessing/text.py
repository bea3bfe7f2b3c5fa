"""`keras.preprocessing.text`: texts as numbers, the older tools."""

from trainkit.datasets.texts.tokenizer import Tokenizer as Tokenizer
from trainkit.datasets.texts.tokenizer import tokenizer_from_json as tokenizer_from_json
from trainkit.datasets.texts.words import hashing_trick as hashing_trick
from trainkit.datasets.texts.words import one_hot as one_hot
from trainkit.datasets.texts.words import text_to_word_sequence as text_to_word_sequence
