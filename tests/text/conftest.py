# SPDX-License-Identifier: Apache-2.0
"""Tokenizers that the tests of this folder share."""

import pytest

from albert_tf.text.tokenization import FullTokenizer
from tests import GOLDEN

DATA = GOLDEN / "tokenization"


@pytest.fixture(scope="session")
def spm():
    return FullTokenizer(spm_model_file=str(DATA / "spm_uncased.model"))


@pytest.fixture(scope="session")
def wordpiece():
    return FullTokenizer(vocab_file=str(DATA / "vocab.txt"))


@pytest.fixture(scope="session", params=["spm", "wordpiece"])
def tokenizer(request):
    return request.getfixturevalue(request.param)
