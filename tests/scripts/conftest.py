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
