# SPDX-License-Identifier: Apache-2.0
"""Every flag of the original's scripts: name, type, default, and whether it is required."""

import json

import pytest
from absl import flags

from tests import GOLDEN
from tests.script_flags import module_of

ORIGINALS = json.loads((GOLDEN / "flags.json").read_text(encoding="utf-8"))
# Flags that the original requires and ours do not: a hub module, another kind of vocabulary, or the
# directory or name of a checkpoint may stand in for them.
NOT_REQUIRED = {"albert_config_file", "spm_model_file", "vocab_file"}


@pytest.mark.parametrize("name", ORIGINALS)
def test_flags_are_the_originals(run_main, monkeypatch, name):
    found = {}

    def main(_):
        for flag, *_ in ORIGINALS[name]:
            found[flag] = repr(described(flags.FLAGS[flag]))

    script = module_of("run_squad" if name.startswith("run_squad_v") else name)
    monkeypatch.setattr(script, "main", main)
    needed = {flag: "x" for flag, *_, is_required in ORIGINALS[name] if is_required}
    run_main(script, **needed | ({"task_name": "rte"} if "task_name" in needed else {}))
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
