# SPDX-License-Identifier: Apache-2.0
"""Similarity of texts by their embeddings, against the scores of people."""

import numpy as np
import pytest
import scipy.stats

import albert_tf
from albert_tf import similarity
from tests.errors import assert_names

HEADER = "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore"
PAIRS = [("a man", "the man", 4.0), ("It rains.", "a landscape", 0.5), ("of", "of the", 3.0)]


def write_pairs(path, pairs):
    """Writes a file of STS-B of (text, text, score); returns the path."""
    rows = ["x\t" * 7 + f"{a}\t{b}\t{score}" for a, b, score in pairs]
    path.write_text("\n".join([HEADER, *rows]) + "\n")
    return path


@pytest.fixture
def file(tmp_path):
    return write_pairs(tmp_path / "dev.tsv", PAIRS)


def test_correlations_are_those_of_the_embeddings(release, file, capsys):
    assert similarity.main([str(release), str(file)]) == 0
    printed = capsys.readouterr().out
    loaded = albert_tf.load(release)
    (firsts, seconds, scores), expected = zip(*PAIRS, strict=True), {}
    for name, place in (("layer 1", 0), ("layer 2", 1), ("pooled", None)):
        cosines = []
        for texts in zip(firsts, seconds, strict=True):
            pooling = "pooled" if place is None else "layers"
            a, b = (loaded.embed(text, pooling=pooling) for text in texts)
            a, b = (a, b) if place is None else (a[place], b[place])
            cosines.append(a @ b / np.sqrt((a @ a) * (b @ b)))
        expected[name] = scipy.stats.spearmanr(cosines, scores).statistic
    found = similarity.correlations(loaded, list(firsts), list(seconds), list(scores))
    assert found == pytest.approx(expected) and [*found] == [*expected]
    assert "Spearman, 3 pairs\n" in printed
    best = max(("layer 1", "layer 2"), key=found.get)
    assert printed.endswith(f"best: the mean of {best}\n")


def test_the_last_layer_is_the_mean(release):
    loaded, texts = albert_tf.load(release), ["a man", "It rains on the landscape."]
    layers, mean = (loaded.embed(texts, pooling=name) for name in ("layers", "mean"))
    assert layers.shape == (2, 2, loaded.config.hidden_size)
    np.testing.assert_allclose(layers[:, -1], mean, rtol=1e-5, atol=1e-6)
    assert not np.allclose(layers[:, 0], mean)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (HEADER + "\n" + "x\t" * 9 + "high\n", "line 2 ... 'high'"),
        (HEADER + "\n" + "x\t" * 8 + "x\n", "line 2 ... 9 ... 10"),
        (HEADER + ("\n" + "x\t" * 9 + "4.0") * 2, "dev.tsv ... 4.0"),
        ("", "dev.tsv"),
        (HEADER + "".join("\n" + "x\t" * 7 + f"a\ta\t{n}.0" for n in range(4)), "dev.tsv"),
    ],
)
def test_bad_files(content, message, release, file, capsys):
    file.write_text(content)
    assert similarity.main([str(release), str(file)]) == 1
    assert_names(capsys.readouterr().err, message)
