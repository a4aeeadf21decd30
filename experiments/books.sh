#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Pre-trains the small model of docs/results.md on English books, and measures the baseline of piece frequencies.
#
#   experiments/books.sh DATA OUTPUT
#
# DATA contains corpus/books-0*.txt, corpus/books-heldout.txt and spm/30k-clean.model. Run the script in the root of the
# repository. It does not repeat what is finished. With more STEPS, it continues a finished training.
set -euo pipefail

DATA=${1:?"the directory of the text and the vocabulary"}
OUTPUT=${2:?"a directory to write into"}
PYTHON=${PYTHON:-.venv/bin/python}
CONFIG=${CONFIG:-experiments/books_config.json}
STEPS=${STEPS:-8000}
WARMUP=${WARMUP:-800}
# Single words and short sequences: in an hour, so small a model learns more from them.
MASKS=--max_predictions_per_seq=10
SEQUENCE=--max_seq_length=64

# records NAMES PATTERN PASSES
records() {
  [[ -e ${1##*,} ]] || "$PYTHON" create_pretraining_data.py --input_file="$DATA/corpus/$2" --output_file="$1" \
    --spm_model_file="$DATA/spm/30k-clean.model" $SEQUENCE $MASKS --ngram=1 --dupe_factor="$3"
}
mkdir -p "$OUTPUT"
records "$OUTPUT/train-1.tfrecord,$OUTPUT/train-0.tfrecord" 'books-0*.txt' 6
records "$OUTPUT/heldout.tfrecord" books-heldout.txt 1

if [[ ! -e $OUTPUT/model/.trained-$STEPS ]]; then
  "$PYTHON" run_pretraining.py --do_train --do_eval --albert_config_file="$CONFIG" \
    --input_file="$OUTPUT/train-*.tfrecord" --eval_input_file="$OUTPUT/heldout.tfrecord" \
    --output_dir="$OUTPUT/model" $SEQUENCE $MASKS --train_batch_size=32 --optimizer=adamw \
    --learning_rate=0.001 --num_train_steps="$STEPS" --num_warmup_steps="$WARMUP" --seed=12345 \
    --save_checkpoints_steps=1000 --iterations_per_loop=50
  touch "$OUTPUT/model/.trained-$STEPS"
fi
"$PYTHON" benchmarks/unigram_baseline.py --train="$OUTPUT/train-*.tfrecord" --heldout="$OUTPUT/heldout.tfrecord" $MASKS
tail -n 20 "$OUTPUT/model/eval_results.txt"
