# SPDX-License-Identifier: Apache-2.0
"""What tests of scripts share."""

import functools

import pytest


@pytest.fixture(scope="session", autouse=True)
def characters_are_searched_once():
    """Each export for transformers looks through all characters, which takes seconds."""
    from albert_tf.publish import transformers_tokenizer as module

    with pytest.MonkeyPatch.context() as patch:
        for name in ("_before_marks_that_stay", "_character_class"):
            patch.setattr(module, name, functools.cache(getattr(module, name)))
        yield


@pytest.fixture
def pretrain(run_main, flags):
    """Runs run_pretraining.py: pretrain(flag=value, ...), with `flags` of the test and others."""
    import run_pretraining

    def run(**others):
        run_main(run_pretraining, **flags | others)

    return run


@pytest.fixture
def asked(run_main, monkeypatch):
    """What flags ask `fine_tune` for: asked(script, flag=value, ...) -> options.FineTuning."""
    from albert_tf.training import finetuning

    def run(script, **flags):
        found = []
        with monkeypatch.context() as patched:
            patched.setattr(finetuning, "fine_tune", lambda *values: found.append(values[2]))
            run_main(script, **flags)
        return found[0]

    return run
