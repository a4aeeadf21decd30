# SPDX-License-Identifier: Apache-2.0
"""Documents that nearly repeat an earlier one are found, whatever the blocks and the processes."""

import collections
import itertools

import numpy as np
import pytest

from albert_tf.corpus import corpus_files, document_selection, line_encoder, stages
from albert_tf.corpus.instances import Settings
from albert_tf.options import Selection
from tests.corpus.small_corpora import summary_of
from tests.errors import assert_says


def write(directory, documents):
    """A corpus of documents (lists of ids) with sentences of at most seven tokens."""
    lengths = []
    for document in documents:
        lengths += [7] * (len(document) // 7) + [len(document) % 7] * (len(document) % 7 > 0)
        lengths.append(line_encoder.BLANK)
    ids = np.array(list(itertools.chain.from_iterable(documents)), np.int32)
    counts = collections.Counter(text_bytes=len(ids), tokens_read=len(ids))
    unknown, opens_word = np.zeros(0, np.int64), np.ones(len(ids), bool)
    directory.mkdir()
    with corpus_files.Writer(str(directory)) as writer:
        lines = ids, opens_word, np.array(lengths), unknown, [], {}, counts
        writer.add(line_encoder.EncodedLines(*lines))
        writer.finish()
    return corpus_files.documents_file(str(directory))


def repeats(directory, documents, similarity=0.8, used=None):
    corpus = write(directory, documents)
    used = np.ones(len(documents), bool) if used is None else used
    signatures = signatures_of(corpus, f"{corpus}-signatures")
    return document_selection.repeats(signatures, used, similarity).tolist()


def signatures_of(corpus, path):
    hasher = stages.Hasher(corpus, document_selection.signatures)
    count = len(corpus_files.open_corpus(corpus).documents)
    with stages.LocalRunner(1, None) as runner:
        runner.run("comparing", hasher, range(0, count, stages.DOCUMENTS_TOGETHER), 1, path=path)
    return corpus_files.open_array(path, np.uint32, -1, document_selection.HASHES)


def shingles(document):
    return {tuple(document[i : i + 5]) for i in range(max(1, len(document) - 4))}


def jaccard(one, other):
    one, other = shingles(one), shingles(other)
    return len(one & other) / len(one | other)


def some_documents(count, length=300):
    return np.random.default_rng(0).integers(5, 30000, (count, length)).tolist()


def test_similar_documents_are_found_and_the_first_stays(tmp_path):
    documents = some_documents(40)
    changed = [*documents[3][:200], 7, *documents[3][200:]]
    longer = documents[5] + documents[6][:20]
    half = documents[8][:150] + documents[9][:150]
    assert jaccard(changed, documents[3]) > 0.95
    assert 0.9 < jaccard(longer, documents[5]) < 0.95
    assert jaccard(half, documents[8]) < 0.4
    found = repeats(tmp_path / "corpus", [*documents, changed, longer, half, [9], [8, 9], [9]])
    assert found == [False] * 40 + [True, True, False, False, False, True]


def test_documents_are_compared_with_those_that_stay(tmp_path):
    (first,) = some_documents(1, 1000)
    second = [*first[60:], *range(60)]
    third = [*second[60:], *range(100, 160)]
    fourth = [*third[60:], *range(200, 260)]
    documents = [first, second, third, fourth]
    assert all(jaccard(one, other) > 0.85 for one, other in itertools.pairwise(documents))
    assert jaccard(first, third) < 0.8 > jaccard(second, fourth)
    # The third is similar to the second only, which is left out; the fourth to the third.
    assert repeats(tmp_path / "a", documents) == [False, True, False, True]
    assert repeats(tmp_path / "c", [first, first], similarity=1.0) == [False, True]
    used = np.array([True, False, True, False])
    assert repeats(tmp_path / "b", documents, used=used) == [False] * 4


def test_signatures_agree_as_often_as_the_documents_are_similar(tmp_path):
    (first,) = some_documents(1, 2000)
    documents = [first, *([*first[:n], *range(2000 - n)] for n in (1900, 1600, 1200))]
    corpus = write(tmp_path / "corpus", documents)
    signatures = signatures_of(corpus, f"{corpus}-signatures")
    for document, signature in zip(documents, signatures, strict=True):
        estimate = np.mean(signature == signatures[0])
        assert estimate == pytest.approx(jaccard(document, first), abs=0.13)  # 3 deviations


@pytest.mark.parametrize("size", [3, 64])
def test_the_blocks_do_not_matter(tmp_path, monkeypatch, size):
    documents = [d[:n] for d, n in zip(some_documents(30), range(1, 61, 2), strict=True)]
    documents += documents[:4]
    corpus = write(tmp_path / "corpus", documents)
    whole = np.array(signatures_of(corpus, f"{corpus}-signatures"))
    found = repeats(tmp_path / "whole", documents)
    for name in ("_TOGETHER", "_TOKENS_TOGETHER"):
        monkeypatch.setattr(document_selection, name, size)
    monkeypatch.setattr(stages, "DOCUMENTS_TOGETHER", size)
    np.testing.assert_array_equal(signatures_of(corpus, f"{corpus}-blocks"), whole)
    assert repeats(tmp_path / "blocks", documents) == found == [False] * 30 + [True] * 4


@pytest.mark.parametrize(("similarity", "rows"), [(0.5, 3), (0.8, 7), (0.95, 18), (1, 128)])
def test_similar_documents_meet_in_a_band(similarity, rows):
    assert document_selection._rows_of_a_band(similarity) == rows


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.long)])
def test_near_duplicates_are_counted_apart(tmp_path, tokenizer, workers):
    rng = np.random.default_rng(0)
    text = "holmes said that 1990 was a very bad year for the trade and he was there"
    words = text.split()
    documents = [" ".join(rng.choice(words, 120)) + "\nhe was old ." for _ in range(30)]
    documents += [documents[2] + " indeed", documents[4], "he " + documents[2]]
    settings = Settings(max_seq_length=24, max_predictions_per_seq=4, dupe_factor=1)
    options = {"settings": settings, "num_workers": workers, "names": "out"}
    options["selection"] = Selection(drop_near_duplicates=0.8)
    summary = summary_of("\n\n".join(documents), tmp_path, tokenizer, **options)
    names = ("documents", "documents_dropped", "near_duplicates_dropped")
    assert [summary.counts[name] for name in names] == [30, 1, 2]
    assert summary.as_json()["near_duplicates_dropped"] == 2
    assert_says(str(summary), "dropped ... 2")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.txt", "out", "summary-out.json"]
