# SPDX-License-Identifier: Apache-2.0
"""Descriptions of clusters."""

import json


def cluster(worker, kind="worker", index=0, **jobs):
    """A TF_CONFIG."""
    return json.dumps(
        {"cluster": {"worker": worker, **jobs}, "task": {"type": kind, "index": index}}
    )
