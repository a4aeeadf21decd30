# SPDX-License-Identifier: Apache-2.0
"""The order of training records: every record once per epoch, the same from any step on."""

import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from albert_tf.records import input_pipeline, record_files, schemas
from tests.records import small_records as small
from tests.records.small_records import SCHEMA, first_ids, flat, train_batches, write

COUNTS = st.lists(st.integers(0, 30), min_size=1, max_size=4).filter(any)
tiny = settings(max_examples=5, deadline=None)


def make_files(folder, counts):
    """Files of so many records; record n of file f holds 1000 f + n."""
    numbers = [range(1000 * f, 1000 * f + count) for f, count in enumerate(counts)]
    return [write(folder / str(f), found) for f, found in enumerate(numbers)]


def epochs_of(numbers, size):
    return [numbers[start : start + size] for start in range(0, len(numbers) - size + 1, size)]


@tiny
@given(
    counts=COUNTS,
    batch_size=st.integers(1, 12),
    window=st.integers(1, 40),
    seed=st.integers(0, 2**32),
)
def test_an_epoch_has_every_record_once(tmp_path_factory, counts, batch_size, window, seed):
    total, files = sum(counts), make_files(tmp_path_factory.mktemp("files"), counts)
    dataset = train_batches(files, batch_size, seed=seed, window=window)
    batches = first_ids(dataset, -(-3 * total // batch_size))
    assert all(len(batch) == batch_size for batch in batches)
    whole = [1000 * f + n for f, count in enumerate(counts) for n in range(count)]
    epochs = epochs_of(flat(batches), total)
    assert len(epochs) >= 3
    for epoch in epochs:
        assert sorted(epoch) == whole
        if window == 1:
            assert epoch == whole


@pytest.mark.long
@tiny
@given(
    counts=COUNTS,
    rows=st.integers(1, 3),
    num_shares=st.integers(1, 4),
    splits=st.integers(1, 3),
    window=st.integers(1, 40),
    first_step=st.integers(0, 30),
)
def test_batches_depend_on_the_step_alone(
    tmp_path_factory, counts, rows, num_shares, splits, window, first_step
):
    files = record_files.read_index(make_files(tmp_path_factory.mktemp("files"), counts))
    batch_size = rows * num_shares * splits

    def batches(count, **options):
        dataset = input_pipeline.train_batches(
            files, SCHEMA, batch_size, seed=5, window=window, **options
        )
        return first_ids(dataset, count)

    expected = batches(first_step + 4)[first_step:]
    assert batches(4, first_step=first_step) == expected
    options = {"first_step": first_step, "num_shares": num_shares, "splits": splits}
    shares = [batches(4 * splits, share=share, **options) for share in range(num_shares)]
    assert [
        flat(flat(share[splits * k : splits * (k + 1)] for share in shares)) for k in range(4)
    ] == expected


@pytest.fixture
def in_blocks(tmp_path, monkeypatch):
    """Records 0 to 49 in blocks of 8, and 100 to 129 in one block, as they are compressed."""
    path = write(tmp_path / "a", range(50))
    zipped = tmp_path / "b.gz"
    with tf.io.TFRecordWriter(str(zipped), "GZIP") as writer:
        for number in range(100, 130):
            writer.write(small.encode(small.example(number), SCHEMA))
    monkeypatch.setattr(record_files, "STEP", 8)
    files = record_files.read_index([path, str(zipped)])
    assert [len(file.offsets) for file in files] == [7, 1]
    return files


def test_blocks_of_all_files_are_permuted(in_blocks):
    dataset = input_pipeline.train_batches(in_blocks, SCHEMA, 10, seed=1, window=2)
    first, second = epochs_of(flat(first_ids(dataset, 16)), 80)
    # Windows of 2 keep the order of the blocks.
    orders = [[*dict.fromkeys(min(n // 8, 12) for n in epoch)] for epoch in (first, second)]
    for epoch, order in zip((first, second), orders, strict=True):
        assert sorted(epoch) == [*range(50), *range(100, 130)]
        assert sorted(order) == [0, 1, 2, 3, 4, 5, 6, 12]
        order.remove(12)
        assert order != sorted(order)
    assert orders[0] != orders[1]


@pytest.mark.long
def test_positions_far_into_a_file(in_blocks):
    """Reading begins at the offset of a block."""

    def batches(first_step, window):
        dataset = input_pipeline.train_batches(
            in_blocks, SCHEMA, 3, seed=1, window=window, first_step=first_step
        )
        return first_ids(dataset, 80 - first_step)

    for window in (1, 5, 9):
        whole = batches(0, window)
        for first_step in range(0, 80, 13):
            assert batches(first_step, window) == whole[first_step:]


def test_seeds_and_epochs_differ(five_files):
    def numbers(seed):
        return flat(first_ids(train_batches(five_files, 8, seed=seed, window=50), 75))

    first, again, other = numbers(1), numbers(1), numbers(2)
    assert first == again
    epochs = [*epochs_of(first, 200), *epochs_of(other, 200)]
    assert len({tuple(epoch) for epoch in epochs}) == 6
    orders_of_files = {
        tuple(dict.fromkeys(n // 1000 for n in flat(epochs_of(epoch, 40)))) for epoch in epochs
    }
    assert len(orders_of_files) > 1


def test_files_are_permuted_and_windows_cross_them(five_files):
    numbers = flat(first_ids(train_batches(five_files, 8, window=80), 25))
    for window in epochs_of(numbers, 80):
        assert len({number // 1000 for number in window}) == 2
        assert window != sorted(window)


def test_the_order_is_the_same_on_every_machine(tmp_path):
    """A change of it, as by a new version of TensorFlow, would break runs that are resumed."""
    files = [write(tmp_path / str(f), range(10 * f, 10 * f + 5)) for f in range(1, 4)]
    assert flat(first_ids(train_batches(files, 5, seed=12345, window=6), 6)) == [
        *(32, 31, 20, 33, 34, 30, 23, 22, 11, 10, 21, 24, 13, 12, 14),
        *(30, 33, 20, 31, 32, 34, 24, 10, 22, 21, 11, 23, 13, 14, 12),
    ]


def test_rows_of_other_shares_are_not_parsed(tmp_path):
    path = str(tmp_path / "a")
    with schemas.record_writer(path) as writer:
        for number in range(8):
            good = small.encode(small.example(number), SCHEMA)
            writer.write(b"no example" if number % 4 >= 2 else good)
    first = train_batches([path], 4, window=1, num_shares=2, share=0)
    assert first_ids(first, 4) == [[0, 1], [4, 5]] * 2
    with pytest.raises(tf.errors.InvalidArgumentError):
        first_ids(train_batches([path], 4, window=1, num_shares=2, share=1), 1)
