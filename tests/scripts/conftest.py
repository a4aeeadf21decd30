# SPDX-License-Identifier: Apache-2.0
"""What tests of scripts share."""

import pytest


@pytest.fixture
def pretrain(run_main, flags):
    """Runs run_pretraining.py: pretrain(flag=value, ...), with `flags` of the test and others."""
    import run_pretraining

    def run(**others):
        run_main(run_pretraining, **flags | others)

    return run
