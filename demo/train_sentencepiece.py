# SPDX-License-Identifier: Apache-2.0
"""Train a SentencePiece model with the options of the published ALBERT models.

Writes <model_prefix>.model and <model_prefix>.vocab.

    python -m demo.train_sentencepiece --input_file=train.txt --model_prefix=spm --vocab_size=8000
"""

import glob
import io
import pathlib
import sys

import sentencepiece
from absl import app, flags
from sentencepiece import sentencepiece_model_pb2

from albert_tf import files
from albert_tf.text import tokenization

_INPUT_FILE = flags.DEFINE_list("input_file", None, "text files (globs), a sentence a line")
_MODEL_PREFIX = flags.DEFINE_string("model_prefix", None, "path of the model without its ending")
_VOCAB_SIZE = flags.DEFINE_integer(
    "vocab_size", 30000, "pieces, with the special ones", lower_bound=20
)
_DO_LOWER_CASE = flags.DEFINE_bool(
    "do_lower_case", True, "train on lower-cased text, as the uncased models are used"
)
_SEED = flags.DEFINE_integer("seed", 12345, "seed of the shuffled order of the sentences")

# The original's README, section on training SentencePiece. The ids follow: <pad> 0, <unk> 1,
# [CLS] 2, [SEP] 3, [MASK] 4. The comma is not among the symbols: there it parts them.
OPTIONS = {
    "model_type": "unigram",
    "pad_id": 0,
    "unk_id": 1,
    "bos_id": -1,
    "eos_id": -1,
    "control_symbols": ["[CLS]", "[SEP]", "[MASK]"],
    "user_defined_symbols": ["(", ")", '"', "-", ".", "–", "£", "€"],
    "shuffle_input_sentence": True,
    "input_sentence_size": 10_000_000,
    "character_coverage": 0.99995,
}
# The sums of the training depend on how the sentences are shared out: a fixed number of threads
# gives the same model on every machine.
_THREADS = 4


def read_sentences(patterns, do_lower_case):
    """Yields the lines that are not empty, cleaned as create_pretraining_data.py cleans them.

    Raises:
        ValueError: if a pattern matches no file.
    """
    for pattern in patterns:
        paths = sorted(glob.glob(pattern))
        if not paths:
            raise ValueError(f"--input_file: no file matches {pattern!r}.")
        for path in paths:
            with open(path, encoding="utf-8") as lines:
                for line in lines:
                    text = tokenization.preprocess_text(line, lower=do_lower_case)
                    if text:
                        yield text


def train(sentences, model_prefix, vocab_size, seed):
    """Trains a model and writes its two files.

    Args:
        sentences: iterable of str.
        model_prefix: str, path of the model without its ending.
        vocab_size: int, number of pieces with the special ones.
        seed: int, seed of the order of the sentences.

    Raises:
        ValueError: if the text does not give that many pieces.
    """
    sentencepiece.set_random_generator_seed(seed)
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(sentences),
            model_writer=model,
            vocab_size=vocab_size,
            num_threads=_THREADS,
            minloglevel=1,
            **OPTIONS,
        )
    except RuntimeError as error:  # the library's word for all that it cannot do
        raise ValueError(
            f"--vocab_size={vocab_size}: SentencePiece cannot make that many pieces from the text. "
            f"Lower it or give more text. It says: {error}"
        ) from error
    pieces = sentencepiece_model_pb2.ModelProto.FromString(model.getvalue()).pieces
    files.write_text(
        f"{model_prefix}.vocab", "".join(f"{piece.piece}\t{piece.score:g}\n" for piece in pieces)
    )
    with files.replacing(f"{model_prefix}.model") as (name,):  # the last: with it, all is there
        pathlib.Path(name).write_bytes(model.getvalue())


def main(_):
    """Reads the flags and trains."""
    try:
        sentences = read_sentences(_INPUT_FILE.value, _DO_LOWER_CASE.value)
        train(sentences, _MODEL_PREFIX.value, _VOCAB_SIZE.value, _SEED.value)
    except ValueError as error:
        sys.exit(f"train_sentencepiece: {error}")
    print(f"{_MODEL_PREFIX.value}.model: {_VOCAB_SIZE.value} pieces")


if __name__ == "__main__":
    flags.mark_flags_as_required(["input_file", "model_prefix"])
    app.run(main)
