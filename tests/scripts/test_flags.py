# SPDX-License-Identifier: Apache-2.0
"""Every flag of the original's scripts: name, type, default, and whether it is required."""

import json

import pytest
from absl import flags

import create_pretraining_data
import export_checkpoints
import export_to_tfhub
import run_classifier
import run_pretraining
import run_race
import run_squad
from tests import GOLDEN

ORIGINALS = json.loads((GOLDEN / "flags.json").read_text(encoding="utf-8"))
SCRIPTS = {
    "create_pretraining_data": create_pretraining_data,
    "run_pretraining": run_pretraining,
    "run_classifier": run_classifier,
    "run_squad_v1": run_squad,
    "run_squad_v2": run_squad,
    "run_race": run_race,
    "export_to_tfhub": export_to_tfhub,
    "export_checkpoints": export_checkpoints,
}
# Flags that the original requires and ours do not: a hub module, another kind of vocabulary, or the
# directory or name of a checkpoint may stand in for them.
NOT_REQUIRED = {"albert_config_file", "spm_model_file", "vocab_file"}


@pytest.mark.parametrize("name", ORIGINALS)
def test_flags_are_the_originals(run_main, monkeypatch, name):
    found = {}

    def main(_):
        for flag, *_ in ORIGINALS[name]:
            found[flag] = repr(described(flags.FLAGS[flag]))

    monkeypatch.setattr(SCRIPTS[name], "main", main)
    run_main(
        SCRIPTS[name],
        **{
            flag: "rte" if flag == "task_name" else "x"
            for flag, *_, required in ORIGINALS[name]
            if required
        },
    )
    for flag, kind, default, is_required in ORIGINALS[name]:
        needed = is_required and not (flag in NOT_REQUIRED and found[flag].endswith("False)"))
        kind = "string" if kind == "enum" else kind
        assert found.pop(flag) == repr((kind, default, needed)), flag


def described(flag):
    """Type, default and whether it is required, as in golden/flags.json; an enum is a string."""
    default = "nan" if flag.default != flag.default else flag.default
    required = flag.option.metadata["required"]
    is_needed = bool(required) and required not in ("do_train", "do_predict")  # of SQuAD
    return flag.flag_type().removesuffix(" enum"), default, is_needed
