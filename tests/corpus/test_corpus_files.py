# SPDX-License-Identifier: Apache-2.0
"""Arrays that are files take no memory after they are given back."""

import sys
from pathlib import Path

import numpy as np
import pytest

from albert_tf.corpus import corpus_files

SIZE = 1 << 25


def mapped_bytes():
    """Resident pages of files of this process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssFile:"):
            return 1024 * int(line.split()[1])


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_pages_are_given_back_and_read_again(tmp_path):
    path = tmp_path / "a.bin"
    np.arange(SIZE // 4, dtype=np.int32).tofile(path)
    array = corpus_files.open_array(str(path), np.int32, -1, 2)
    before = mapped_bytes()
    total = int(array.sum(dtype=np.int64))
    assert mapped_bytes() - before > 0.9 * SIZE
    corpus_files.release(array, np.zeros(3))
    assert mapped_bytes() - before < 0.1 * SIZE
    assert int(array.sum(dtype=np.int64)) == total == (SIZE // 4) * (SIZE // 4 - 1) // 2
    assert array.shape == (SIZE // 8, 2)
