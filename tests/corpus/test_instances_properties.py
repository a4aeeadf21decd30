# SPDX-License-Identifier: Apache-2.0
"""Properties of the records of any text: Hypothesis makes the documents."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from albert_tf.corpus import build, line_encoder, text_files
from albert_tf.corpus.instances import Settings
from albert_tf.records import graph_masking, input_pipeline
from albert_tf.text.tokenization import FullTokenizer
from tests import tiny
from tests.errors import refuses

TOKENIZERS = {
    "sentencepiece": FullTokenizer(spm_model_file=str(tiny.VOCABULARY)),
    "wordpiece": FullTokenizer(str(tiny.WORDPIECE)),
}
SPECIAL_LINES = [
    *("", " ", "\t", "a", "holmes", "in 1990,000 or 7, he", "Σίσυφος ΟΔΟΣ", "!?... --", "{{ }} £5"),
    *("😀 👩‍👩‍👧", "猫は好き。中文", "שלום עולם", "مرحبا بالعالم"),
    *("\x00\x02\x1c\x85", "\u202dx", "a\u0301 \u0301"),
    *("\ufeffmark", "[CLS] [SEP] [MASK]", "<unk> <pad>", "said holmes " * 60, "x" * 300),
]
LINES = st.one_of(
    st.sampled_from(SPECIAL_LINES),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\r"), max_size=40),
    st.lists(st.sampled_from(["holmes", "said", "the", "1990,", "naïve", "."]), max_size=30).map(
        " ".join
    ),
)
QUICK = settings(derandomize=True, deadline=None, max_examples=25)


def slow_documents(tokenizer, lines):
    """Documents as lists of ids, line by line and piece by piece."""
    found = [[]]
    for line in lines:
        text = tokenizer.normalize(line.strip())
        if not text:
            found.append([])
        else:
            found[-1].extend(tokenizer.encode_ids(text, is_normalized=True))
    return [document for document in found if document]


@pytest.mark.parametrize("kind", TOKENIZERS)
@QUICK
@given(lines=st.lists(LINES, min_size=1, max_size=12))
def test_batches_are_encoded_as_single_lines_are(kind, lines):
    tokenizer = TOKENIZERS[kind]
    encoder = line_encoder.LineEncoder(tokenizer)
    chunk = text_files.Chunk("".join(f"{line}\n" for line in lines).encode(), "a", 1)
    found = encoder(chunk, lambda _: None)
    texts = [tokenizer.normalize(line.strip()) for line in lines]
    pieces = [tokenizer.tokenize(text, is_normalized=True) for text in texts]
    wanted = [len(some) if text else -1 for text, some in zip(texts, pieces, strict=True)]
    assert found.lengths.tolist() == wanted
    flat = list(itertools.chain.from_iterable(pieces))
    assert found.ids.tolist() == tokenizer.convert_tokens_to_ids(flat)
    assert found.opens_word.tolist() == list(map(tokenizer.is_start_piece, flat))


def contains(document, part):
    return any(document[i : i + len(part)] == part for i in range(len(document) - len(part) + 1))


@pytest.mark.parametrize("kind", TOKENIZERS)
@QUICK
@given(
    lines=st.lists(LINES, max_size=15),
    options=st.builds(
        Settings,
        max_seq_length=st.integers(5, 40),
        max_predictions_per_seq=st.integers(1, 8),
        masked_lm_prob=st.floats(0.01, 1),
        ngram=st.integers(1, 4),
        favor_shorter_ngram=st.booleans(),
        do_whole_word_mask=st.booleans(),
        do_permutation=st.booleans(),
        random_next_sentence=st.booleans(),
        short_seq_prob=st.sampled_from([0.0, 0.5, 1.0]),
        dupe_factor=st.just(2),
    ),
    end=st.sampled_from(["\n", "\r\n"]),
)
def test_records(tmp_path_factory, kind, lines, options, end):
    tokenizer = TOKENIZERS[kind]
    directory = tmp_path_factory.mktemp("records")
    source, out = directory / "in.txt", str(directory / "out")
    source.write_bytes(b"\xef\xbb\xbf" + end.join(lines).encode())
    documents = slow_documents(tokenizer, lines)
    if not documents:
        with refuses(source):
            build.create([str(source)], [out], tokenizer, options)
        return
    summary = build.create([str(source)], [out], tokenizer, options)
    assert (summary.counts["documents"], summary.counts["tokens"]) == (
        len(documents),
        sum(map(len, documents)),
    )
    found = input_pipeline.load_arrays(out, options.schema)
    assert len(found["input_ids"]) == summary.counts["instances"] > 0
    special = tokenizer.special_ids()
    for row in range(summary.counts["instances"]):
        record = {name: values[row] for name, values in found.items()}
        length = check_record(record, options, special)
        ids = record["input_ids"].copy()
        count = int(record["masked_lm_weights"].sum())
        ids[record["masked_lm_positions"][:count]] = record["masked_lm_ids"][:count]
        middle = int(np.argmax(record["segment_ids"])) - 1
        a, b = ids[1:middle].tolist(), ids[middle + 1 : length - 1].tolist()
        assert ids[0] == special.cls and ids[middle] == ids[length - 1] == special.sep
        holders = [d for d in documents if contains(d, a)]
        assert holders and any(contains(d, b) for d in documents)
        if not record["next_sentence_labels"][0]:
            assert any(contains(document, b) for document in holders)


def check_record(record, options, special):
    """Checks what holds without the text; returns the length."""
    length = int(record["input_mask"].sum())
    assert 5 <= length <= options.max_seq_length
    assert not any(record[name][length:].any() for name in ("input_ids", "segment_ids"))
    assert record["input_mask"][:length].all()
    count = int(record["masked_lm_weights"].sum())
    positions = record["masked_lm_positions"]
    assert np.all(np.diff(positions[:count]) > 0)
    assert not positions[count:].any() and not record["masked_lm_ids"][count:].any()
    assert not np.isin(record["masked_lm_ids"][:count], [special.cls, special.sep]).any()
    assert count <= (1 + options.do_permutation) * graph_masking.num_to_predict(length, options)
    return length
