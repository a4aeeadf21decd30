# SPDX-License-Identifier: Apache-2.0
"""What holds for the places of pieces in any text: Hypothesis makes the texts."""

import string

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from albert_tf.tasks.squad import alignment as squad_alignment
from albert_tf.text.tokenization import WORD_START, FullTokenizer
from tests import tiny

TOKENIZER = FullTokenizer(spm_model_file=str(tiny.VOCABULARY))
WORDS = st.text(string.ascii_lowercase, min_size=1, max_size=12)
ODD = st.sampled_from(["", " ", "  ", "é", "ﬁ", "日本", "🙂", "\u200b", "``", "1,990", "İ", "\x07"])


@pytest.mark.long
@settings(derandomize=True, deadline=None, max_examples=200)
@given(st.lists(st.one_of(WORDS, ODD, st.text(max_size=5)), max_size=12).map(" ".join))
def test_places_lie_in_the_text_and_in_order(text):
    found = squad_alignment.align(text, TOKENIZER)
    if found is None:
        return
    starts, ends = found.paragraph.starts, found.paragraph.ends
    assert len(starts) == len(ends) == len(found.paragraph.piece_ids)
    assert np.all((starts >= 0) & (starts < len(text)) & (ends >= 0) & (ends < len(text)))
    assert np.all(np.diff(starts) >= 0) and np.all(np.diff(ends) >= 0)


@settings(derandomize=True, deadline=None, max_examples=200)
@given(st.lists(WORDS, min_size=1, max_size=12).map(" ".join))
def test_plain_words_stand_where_their_pieces_say(text):
    found = squad_alignment.align(text, TOKENIZER).paragraph
    pieces = TOKENIZER.tokenize(text)
    for piece, start, end in zip(pieces, found.starts, found.ends, strict=True):
        if piece != WORD_START:  # which stands for no character at the beginning of a text
            assert text[start : end + 1].strip() == piece.replace(WORD_START, "")
