# SPDX-License-Identifier: Apache-2.0
"""A tokenizer that is called: padded arrays, pairs, cutting."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.text import sequences
from albert_tf.text.tokenization import SpecialIds
from tests.errors import refuses


def ids_of(tokenizer, *texts):
    parts = [[*tokenizer.tokenize(text), "[SEP]"] for text in texts]
    return tokenizer.convert_tokens_to_ids(sum(parts, ["[CLS]"]))


def test_texts_are_padded_to_the_longest(tokenizer):
    texts = ["The man", "the train to the station of Holmes"]
    found = tokenizer(texts)
    assert list(found) == ["input_ids", "input_mask", "token_type_ids"]
    first, second = (ids_of(tokenizer, text) for text in texts)
    length = len(second)
    assert {(v.shape, v.dtype.name) for v in found.values()} == {((2, length), "int32")}
    assert found["input_ids"].tolist() == [first + [0] * (length - len(first)), second]
    assert found["input_mask"].sum(axis=1).tolist() == [len(first), length]
    assert not found["token_type_ids"].any()


def test_a_text_alone_is_a_batch_of_one(tokenizer):
    tensors = tokenizer("The man", return_tensors="tf")
    assert all(tf.is_tensor(v) and v.dtype == tf.int32 for v in tensors.values())
    assert tensors["input_ids"].numpy().tolist() == [ids_of(tokenizer, "The man")]


def test_pairs(tokenizer):
    found = tokenizer(["the man", "the man"], ["a train", " "])
    pair, single = ids_of(tokenizer, "the man", "a train"), ids_of(tokenizer, "the man")
    padding = [0] * (len(pair) - len(single))
    assert found["input_ids"].tolist() == [pair, single + padding]
    types = [0] * len(single) + [1] * len(padding)
    assert found["token_type_ids"].tolist() == [types, [0] * len(pair)]


def test_the_longer_text_is_cut(tokenizer):
    man, train = "man " * 9, "train " * 4
    found = tokenizer(man, train, max_length=11)
    one, other = (tokenizer.encode_ids(text) for text in (man, train))
    cls, sep = tokenizer.convert_tokens_to_ids(["[CLS]", "[SEP]"])
    assert found["input_ids"].tolist() == [[cls, *one[:4], sep, *other[:4], sep]]
    assert tokenizer(man, max_length=6)["input_ids"].tolist() == [[cls, *one[:4], sep]]


def test_no_texts(tokenizer):
    assert tokenizer([])["input_ids"].shape == (0, 0)
    assert tokenizer(np.array(["the man"]))["input_ids"].shape[0] == 1
    assert tokenizer(np.array("the man"))["input_ids"].shape[0] == 1


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"texts": 5}, "5"),
        ({"texts": ["a", None]}, "texts[1] ... NoneType ... fillna"),
        ({"texts": ["a"], "pairs": [float("nan")]}, "pairs[0] ... float nan ... fillna"),
        ({"texts": [("a", "b")]}, "texts[0] ... ('a', 'b') ... second"),
        ({"texts": ["a", np.array(["b", "c"])]}, "texts[1] ... ndarray"),
        ({"texts": ["a"], "pairs": ["b", "c"]}, "1 ... 2"),
        ({"texts": "a", "pairs": [b"b"]}, "pairs ... bytes ... decode"),
        ({"texts": [{"text": "a"}]}, "texts[0] ... dict ... answers"),
        ({"texts": "a", "max_length": 4}, "max_length ... 5 ... 4"),
        ({"texts": "a", "return_tensors": "pt"}, "tf ... 'pt'"),
    ],
)
def test_wrong_arguments(tokenizer, arguments, message):
    with refuses(message):
        tokenizer(**arguments)


def test_strings_that_are_no_lists_or_booleans(tokenizer):
    with refuses("tokens ... 'abc'"):
        tokenizer.convert_tokens_to_ids("abc")
    for name in ("do_lower_case", "strip_accents"):
        with refuses(f"{name} ... 'false'"):
            type(tokenizer)(**tokenizer.arguments | {name: "false"})
    found = tokenizer("a", return_tensors="np")
    assert all(isinstance(values, np.ndarray) for values in found.values())


def cut_token_by_token(first, second, room):
    first, second = list(first), list(second)
    while len(first) + len(second) > room:
        (first if len(first) > len(second) else second).pop()
    return first, second


def test_texts_are_cut_as_token_by_token():
    for length in (5, 6, 12, 13):
        for a, b in itertools.product(range(16), range(1, 16)):
            expected = cut_token_by_token(range(a), range(b), length - 3)
            assert sequences.cut(list(range(a)), list(range(b)), length) == expected, (a, b, length)
    assert sequences.cut(list(range(9)), [], 8) == (list(range(6)), [])


def test_pack_segments():
    arrays = sequences.pack_segments([[7, 8], [9], []], [[5], None, []], SpecialIds(0, 2, 3, 4), 6)
    expected = {
        "input_ids": [[2, 7, 8, 3, 5, 3], [2, 9, 3, 0, 0, 0], [2, 3, 3, 0, 0, 0]],
        "input_mask": [[1] * 6, [1, 1, 1, 0, 0, 0], [1, 1, 1, 0, 0, 0]],
        "segment_ids": [[0, 0, 0, 0, 1, 1], [0] * 6, [0, 0, 1, 0, 0, 0]],
    }
    assert {name: values.tolist() for name, values in arrays.items()} == expected
