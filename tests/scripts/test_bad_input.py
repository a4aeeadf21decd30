# SPDX-License-Identifier: Apache-2.0
"""Bad input of the fine-tuning scripts: a plain error before any training.

Ranges are tested once for all options (tests/test_options.py), and what is found before TensorFlow
is imported in tests/cli/test_bad_flags.py.
"""

import shutil

import pytest

import run_classifier
import run_race
import run_squad
from tests.errors import refuses
from tests.tiny import CLASSIFIER, EVALUATE, GLUE_DATA, RACE, SQUAD, write_config

SCRIPTS = {run_classifier: CLASSIFIER, run_race: RACE, run_squad: SQUAD}
NOTHING = {"do_train": False, "do_eval": False, "do_predict": False}
WORKERS = {"distribution_strategy": "multi_worker_mirrored"}
OWN = {"task_name": "tsv", "label_column": "label"}
NER = {"task_name": "ner"}
ONLY_EXPORT = {"do_train": False, "do_predict": False, "export_dir": "x"}
VERSION_1 = {"version_2_with_negative": False, "null_score_diff_threshold": 1.0}


def bad_file(name, text):
    """Copies the data with one file of RTE changed, or removed if text is None."""

    def change(tmp_path):
        path = shutil.copytree(GLUE_DATA / "RTE", tmp_path / "glue" / "RTE") / name
        path.unlink() if text is None else path.write_text(text)
        return {"data_dir": tmp_path / "glue"}

    return change


def without_a_level(tmp_path):
    """Copies the data of RACE but for one folder."""
    shutil.copytree(GLUE_DATA / "RACE", tmp_path / "RACE")
    shutil.rmtree(tmp_path / "RACE" / "test" / "high")
    return {"data_dir": tmp_path}


def below_a_file(flag):
    """Lets a flag name a path below a file."""

    def change(tmp_path):
        (tmp_path / "file").write_text("")
        return {flag: tmp_path / "file" / "name"}

    return change


@pytest.mark.parametrize(
    ("script", "changed", "message"),
    [
        (run_classifier, OWN | {"task_name": "csv"}, "csv ... tsv"),
        (run_classifier, OWN, "--label_column=label ... --text_col"),
        (run_classifier, NOTHING, "--do_train ... --export_dir"),
        (run_classifier, WORKERS, "run_pretraining.py"),
        (run_classifier, {"num_trials": 2, "do_eval": False}, "--num_trials"),
        (run_classifier, {"labels": "a,b", "regression": True}, "--labels=a,b ... --regression"),
        (run_classifier, {"threshold_to_export": 1e39, "export_dir": "x"}, "_to_export ... 1e+39"),
        (run_classifier, {"threshold_to_export": 0.5}, "--threshold_to_export ... --export_dir"),
        (run_classifier, {"task_name": "nes"}, "multi_label"),
        (run_classifier, {"labels": "a,b"}, "--labels ... --task_name=tsv"),
        (run_classifier, NER | {"text_pair_column": "1"}, "--text_pair_column ... --task_name=tsv"),
        (run_classifier, NER | {"glue_submission_dir": "x"}, "=x ... --task_name=ner"),
        (run_classifier, NER | {"threshold_to_export": 1, "export_dir": "x"}, "--threshold_to_e"),
        (run_classifier, EVALUATE, "--output_dir="),
        (run_classifier, bad_file("train.tsv", None), "RTE/train.tsv ... --do_train"),
        (run_classifier, bad_file("test.tsv", None), "RTE/test.tsv ... --do_predict"),
        (run_classifier, below_a_file("output_dir"), "--output_dir="),
        (run_classifier, below_a_file("cached_dir"), "--cached_dir="),
        (run_classifier, below_a_file("glue_submission_dir"), "--glue_submission_dir="),
        (run_classifier, {"best_metric": "f2"}, "--best_metric=f2 ... eval_accuracy"),
        (run_race, {"best_metric": "f2"}, "--best_metric=f2 ... eval_accuracy_middle"),
        (run_squad, {"best_metric": "f2"}, "--best_metric=f2 ... best_exact"),
        (run_race, without_a_level, "RACE/test/high"),
        (run_race, below_a_file("train_file"), "--train_file="),
        (run_squad, {"do_train": False, "do_predict": False}, "--do_train ... --export_dir"),
        (run_classifier, {"task_name": "tsv", "labels": "a,b\tc"}, "--labels"),
        (run_squad, ONLY_EXPORT | {"ensemble_dirs": "a,b"}, "--ensemble_dirs"),
        (run_squad, ONLY_EXPORT | {"card_file": "no.md"}, "--card_file=no.md"),
        (run_squad, {"card_file": __file__}, "--card_file ... --export_dir"),
        (run_race, {"export_text": False}, "--export_text=false"),
        (run_squad, {"ensemble_dirs": "a,b"}, "--ensemble_dirs"),
        (run_squad, VERSION_1, "--null_score_diff_threshold=1.0 ... _negative=false"),
        (run_squad, {"predict_feature_file": "/dev/null/x"}, "--predict_feature_file"),
    ],
)
def test_bad_input_is_a_plain_error_before_training(run_main, tmp_path, script, changed, message):
    changed = changed(tmp_path) if callable(changed) else changed
    flags = SCRIPTS[script] | {"albert_config_file": write_config(tmp_path / "config.json")}
    with refuses(message):
        run_main(script, **flags | {"output_dir": tmp_path / "out"} | changed)
    assert not list((tmp_path / "out").glob("**/*.index"))
