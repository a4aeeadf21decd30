# SPDX-License-Identifier: Apache-2.0
"""Fixtures that several tests of this folder use."""

import pytest

from albert_tf.text.tokenization import FullTokenizer
from tests.corpus.small_corpora import MODEL


@pytest.fixture(scope="session")
def tokenizer():
    return FullTokenizer(spm_model_file=MODEL)
