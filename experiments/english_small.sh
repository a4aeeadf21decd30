#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes the small English model from text: vocabulary, records, training, packaged model.
#
#   experiments/english_small.sh TEXT OUTPUT
#
# TEXT holds wikipedia/train*.jsonl.gz and books/train*.jsonl.gz, JSON lines with the key text, a document each, and
# heldout*.jsonl.gz next to them. Run it in the root of the repository. What is finished is not done again.
# The model is OUTPUT/english-small.
set -euo pipefail

TEXT=${1:?"the directory of the text"}
OUTPUT=${2:?"a directory to write into"}
PYTHON=${PYTHON:-.venv/bin/python}
STUDY=${STUDY:-experiments/english_small_training.toml} # rows short, long and grouped
VOCAB_SIZE=${VOCAB_SIZE:-8000}
LENGTHS=${LENGTHS:-64 128} # of the records of the row short, and of the others
UNITS=${UNITS:-1280} # of the feed-forward blocks of the row grouped

mkdir -p "$OUTPUT/records"
VOCABULARY=$OUTPUT/spm.model
[[ -e $VOCABULARY ]] || "$PYTHON" train_sentencepiece.py --input_format=jsonl --input_sentence_size=1000000 \
  --input_file="$TEXT/wikipedia/train*.jsonl.gz,$TEXT/books/train*.jsonl.gz" \
  --model_prefix="$OUTPUT/spm" --vocab_size="$VOCAB_SIZE" --strip_accents

# records SOURCE PART LENGTH FLAGS...
records() {
  local output=$OUTPUT/records/$1-$2-$3.tfrecord
  compgen -G "$OUTPUT/records/summary-$1-$2-$3*" > /dev/null ||
    "$PYTHON" create_pretraining_data.py --input_format=jsonl --spm_model_file="$VOCABULARY" \
      --input_file="$TEXT/$1/$2*.jsonl.gz" --output_file="$output" --max_seq_length="$3" --random_seed=1 "${@:4}"
}

for length in $LENGTHS; do
  for source in wikipedia books; do
    records $source train "$length" --dupe_factor=2 --masked_lm_prob=0 \
      --drop_near_duplicates=0.8 --work_directory="$OUTPUT/work-$source"
    records $source heldout "$length" --dupe_factor=1 --ngram=1 --max_predictions_per_seq=$(((length + 4) / 5))
  done
done

train() {
  "$PYTHON" experiments/run.py "$STUDY" --output_dir="$OUTPUT/runs" --set output="$OUTPUT" --rows="$1"
}
train short
[[ -e $OUTPUT/longer ]] || "$PYTHON" experiments/grow.py positions "$OUTPUT/runs/short/seed-1" "$OUTPUT/longer"
train long
[[ -e $OUTPUT/grouped ]] || "$PYTHON" experiments/grow.py groups "$OUTPUT/runs/long/seed-1" "$OUTPUT/grouped" \
  --units="$UNITS"
train grouped
[[ -e $OUTPUT/english-small ]] || "$PYTHON" experiments/package_model.py "$OUTPUT/runs/grouped/seed-1" "$OUTPUT/english-small" \
  --card=experiments/english_small_card.md
