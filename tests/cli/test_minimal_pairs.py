# SPDX-License-Identifier: Apache-2.0
"""minimal_pairs.py through its main."""

import json

import pytest

import albert_tf
from albert_tf.cli import minimal_pairs
from albert_tf.model import encoder, heads
from tests import tiny
from tests.errors import refuses

pytestmark = pytest.mark.usefixtures("eagerly")


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    return tiny.write_release(tmp_path_factory.mktemp("release"))


def test_a_table_and_json(release, run_main, tmp_path, capsys):
    good = ["The cats annoy Tim.", "of the painter", "It was a landscape."]
    bad = ["The cats annoys Tim.", "the of painter", "It were a landscape."]
    for number, pair in enumerate(zip(good, bad, strict=True)):
        (tmp_path / f"{number}.tsv").write_text("\t".join(pair) + "\n")
    flags = {"model": release, "input_file": tmp_path / "*.tsv"}
    run_main(minimal_pairs, **flags, output_file=tmp_path / "out.json")
    table = capsys.readouterr().out
    metrics = json.loads((tmp_path / "out.json").read_text())
    loaded = albert_tf.load(release)
    scores = ([loaded.score(text)["log_prob"] for text in texts] for texts in (good, bad))
    right = [one > other for one, other in zip(*scores, strict=True)]
    assert [metrics["paradigms"][name]["correct"] for name in "012"] == right
    assert metrics["overall"]["accuracy"] == pytest.approx(sum(right) / 3)
    assert f"all pairs  {100 * sum(right) / 3:8.1f}" in table and "Loaded" not in table
    capsys.readouterr()
    run_main(minimal_pairs, **flags)
    assert capsys.readouterr().out == table


@pytest.mark.parametrize(
    ("kind", "options"),
    [(heads.ClassificationModel, {"num_outputs": 2}), (encoder.AlbertModel, {})],
)
def test_a_model_without_masked_lm_head(kind, options, run_main, tmp_path):
    tiny.write_release(tmp_path, kind, **options)
    (tmp_path / "pairs.tsv").write_text("a\tb\n")
    with refuses("minimal_pairs"):
        run_main(minimal_pairs, model=tmp_path, input_file=tmp_path / "pairs.tsv")


def test_a_sentence_that_is_too_long(release, run_main, tmp_path):
    path = tmp_path / "pairs.txt"
    path.write_text("of\nthe\nof " + "of " * 20 + "\nthe\n")
    with refuses("pairs.txt, line 3 ... 21 ... max_seq_length=16"):
        run_main(minimal_pairs, model=release, input_file=path, max_seq_length=16)
