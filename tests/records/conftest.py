# SPDX-License-Identifier: Apache-2.0
"""Record files that several tests read."""

import pytest

from tests.records.small_records import write


@pytest.fixture(scope="module")
def five_files(tmp_path_factory):
    """Five files of 40 records; record n of file f holds 1000 f + n."""
    directory = tmp_path_factory.mktemp("five")
    return [write(directory / f"{f}.tfrecord", range(1000 * f, 1000 * f + 40)) for f in range(1, 6)]
