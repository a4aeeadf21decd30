# SPDX-License-Identifier: Apache-2.0
"""Tokenizers of the golden vocabularies, which several tests of this folder use."""

import pytest

from albert_tf.text.tokenization import FullTokenizer
from tests import GOLDEN


@pytest.fixture(scope="session")
def tokenizers():
    folder = GOLDEN / "tokenization"
    cased = str(folder / "spm_cased.model")
    return {
        "spm_uncased": FullTokenizer(spm_model_file=str(folder / "spm_uncased.model")),
        "spm_cased": FullTokenizer(spm_model_file=cased, do_lower_case=False),
        "wordpiece": FullTokenizer(vocab_file=str(folder / "vocab.txt")),
    }


@pytest.fixture(scope="session")
def tokenizer(tokenizers):
    return tokenizers["spm_uncased"]
