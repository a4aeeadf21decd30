# SPDX-License-Identifier: Apache-2.0
"""Flags for masking records while they are read, and for batches of similar lengths."""

import itertools

from absl import flags

from albert_tf import options
from albert_tf.errors import UserError

FLAGS = flags.FLAGS
_BATCHES_PER_BUCKET = 10  # in a shuffle window, so that few batches mix lengths


def check():
    """Raises UserError for invalid combinations of the masking flags."""
    budget = FLAGS.masked_lm_budget
    if budget and not (FLAGS.spm_model_file or FLAGS.vocab_file):
        raise UserError(
            f"--masked_lm_budget={budget} needs the vocabulary of the records: give "
            "--spm_model_file or --vocab_file"
        )
    for name in ("ngram", "favor_shorter_ngram", "do_whole_word_mask"):
        if FLAGS[name].present and not budget:
            raise UserError(
                f"--{name} is about masking while records are read: give --masked_lm_budget too"
            )


def read_length_buckets():
    """Lengths to which batches are cut: tuple of int that ends in --max_seq_length; or None.

    Raises:
        UserError: --length_buckets is invalid.
    """
    if not FLAGS.length_buckets:
        return None
    given = ",".join(FLAGS.length_buckets)
    if not all(part.isdecimal() for part in FLAGS.length_buckets):
        raise UserError(f"--length_buckets={given} must be whole numbers with commas between")
    bounds = (*map(int, FLAGS.length_buckets), FLAGS.max_seq_length)
    if bounds[-2] == bounds[-1]:
        bounds = bounds[:-1]
    if bounds[0] < 1 or any(low >= high for low, high in itertools.pairwise(bounds)):
        raise UserError(
            f"--length_buckets={given} must be ascending, above 0 and at most --max_seq_length="
            f"{FLAGS.max_seq_length}"
        )
    wanted = _BATCHES_PER_BUCKET * len(bounds) * FLAGS.train_batch_size
    if FLAGS.shuffle_buffer_size == 1:
        raise UserError(
            "--length_buckets groups the records that are shuffled together: give a larger "
            f"--shuffle_buffer_size than 1, such as {wanted}"
        )
    if FLAGS.shuffle_buffer_size < wanted:
        print(
            f"Warning: --shuffle_buffer_size={FLAGS.shuffle_buffer_size} holds few batches of each "
            f"length, so that many batches are of several: at least {wanted} is better."
        )
    return bounds


def read_masking(config):
    """Makes a graph_masking.Masking from the flags; None without --masked_lm_budget.

    Args:
        config: AlbertConfig, whose vocabulary must be large enough for the records.
    """
    from albert_tf.records import graph_masking
    from albert_tf.text import tokenization

    if not FLAGS.masked_lm_budget:
        return None
    settings = options.Instances(
        max_seq_length=FLAGS.max_seq_length,
        max_predictions_per_seq=FLAGS.max_predictions_per_seq,
        masked_lm_prob=FLAGS.masked_lm_budget,
        ngram=FLAGS.ngram,
        favor_shorter_ngram=FLAGS.favor_shorter_ngram,
        do_whole_word_mask=FLAGS.do_whole_word_mask,
    )
    tokenizer = tokenization.FullTokenizer(
        vocab_file=FLAGS.vocab_file, spm_model_file=FLAGS.spm_model_file
    )
    config.check_vocabulary(tokenizer)
    special_ids = tokenizer.special_ids(with_mask=True)
    wanted = round(FLAGS.masked_lm_budget * FLAGS.max_seq_length)
    if wanted > FLAGS.max_predictions_per_seq:
        print(
            f"Of a whole sequence, {FLAGS.max_predictions_per_seq} pieces are masked, and not "
            f"--masked_lm_budget={FLAGS.masked_lm_budget} of them: --max_predictions_per_seq="
            f"{wanted} would do."
        )
    return graph_masking.Masking(settings, special_ids, tokenizer.vocab_size)
