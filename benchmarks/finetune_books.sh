#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Fine-tunes the small model of experiments/books.sh, and beside it the same model from random weights: GLUE, RACE, SQuAD.
#
#   benchmarks/finetune_books.sh books|random [task ...]      (all tasks by default)
#
# A line for each task, its best evaluation, goes to the screen; logs and checkpoints lie in
# OUTPUT_DIR/<source>/<task>. What is finished is not done again.
set -euo pipefail

PYTHON=${PYTHON:-.venv/bin/python}
DATA=${DATA:?"the directory with glue/, race/, squad/ and spm/30k-clean.model"}
MODEL=${MODEL:-output/books/model}
OUTPUT_DIR=${OUTPUT_DIR:-output/finetuned} # another one for another SEED (1 by default)
CONFIG=experiments/books_config.json
VOCABULARY=$DATA/spm/30k-clean.model
export TF_CPP_MIN_LOG_LEVEL=${TF_CPP_MIN_LOG_LEVEL:-2}

# task: learning rate, updates (a tenth of them warm-up), batch
declare -A RECIPES=(
  [SST-2]="2e-4 1200 32"
  [STS-B]="1e-4 720 32"
  [MRPC]="1e-4 345 32"
  [RTE]="1e-4 230 32"
  [CoLA]="1e-4 540 32"
  [RACE]="1e-4 250 16"
)
ORDER=(SST-2 STS-B MRPC RTE CoLA RACE SQuAD-1.1 SQuAD-2.0)
# Questions of SQuAD 2.0 to train on and to be measured on, from one file: the first 20 articles, the next 5.
SPLIT=20

source=${1:?"books or random"}
shift
case $source in
  books) start=(--init_checkpoint="$MODEL") ;;
  random) start=(--allow_random_init) ;;
  *) echo "books or random, not $source" >&2 && exit 2 ;;
esac
tasks=("$@")
((${#tasks[@]})) || tasks=("${ORDER[@]}")

# finetune SCRIPT DIRECTORY FLAGS...: runs it unless it has run; shows the last metrics
finetune() {
  local script=$1 directory=$2
  shift 2
  mkdir -p "$directory"
  [[ -e $directory/.done ]] || "$PYTHON" "$script" --do_train --albert_config_file=$CONFIG \
    --spm_model_file="$VOCABULARY" "${start[@]}" --output_dir="$directory" --seed="${SEED:-1}" "$@" \
    > "$directory/log.txt" 2>&1 || { echo "failed: see $directory/log.txt" >&2 && exit 1; }
  touch "$directory/.done"
  echo "$source $(basename "$directory"): $(tr '\r' '\n' < "$directory/log.txt" | grep 'kept as model.ckpt-best' | tail -n 1)"
}

# steps of the recipe, as flags of run_classifier.py and run_race.py
schedule() {
  local rate steps batch
  read -r rate steps batch <<< "${RECIPES[$1]}"
  echo --learning_rate="$rate" --train_step="$steps" --warmup_step=$((steps / 10)) \
    --train_batch_size="$batch" --save_checkpoints_steps=$((steps / 2))
}

squad() {
  finetune run_squad.py "$OUTPUT_DIR/$source/$1" --do_predict --train_file="$2" --predict_file="$3" \
    --max_seq_length=192 --doc_stride=96 --learning_rate=2e-4 --num_train_epochs=1 --train_batch_size=32 \
    --predict_batch_size=64 --save_checkpoints_steps=1000
}

split_squad() {
  "$PYTHON" - "$1" "$OUTPUT_DIR" $SPLIT <<- 'PROGRAM'
	import json, sys
	source, directory, split = sys.argv[1], sys.argv[2], int(sys.argv[3])
	content = json.load(open(source, encoding="utf-8"))
	questions = [q for a in content["data"][:split] for p in a["paragraphs"] for q in p["qas"]]
	for question in questions:  # training takes one answer, and a dev file has several
	    question["answers"] = question["answers"][:1]
	for name, part in (("train", slice(split)), ("dev", slice(split, None))):
	    with open(f"{directory}/squad-v2.0-{name}.json", "w", encoding="utf-8") as file:
	        json.dump({"version": "v2.0", "data": content["data"][part]}, file)
	PROGRAM
}

mkdir -p "$OUTPUT_DIR"
for task in "${tasks[@]}"; do
  case $task in
    RACE)
      # shellcheck disable=SC2046
      finetune run_race.py "$OUTPUT_DIR/$source/RACE" --do_eval --data_dir="$DATA/race" --max_seq_length=192 \
        --max_qa_length=64 --eval_batch_size=16 $(schedule RACE)
      ;;
    SQuAD-1.1) squad "$task" "$DATA/squad/train-v1.1.subset.json" "$DATA/squad/dev-v1.1.json" ;;
    SQuAD-2.0)
      split_squad "$DATA/squad/dev-v2.0.first25.json"
      squad "$task" "$OUTPUT_DIR/squad-v2.0-train.json" "$OUTPUT_DIR/squad-v2.0-dev.json"
      ;;
    *)
      # shellcheck disable=SC2046
      finetune run_classifier.py "$OUTPUT_DIR/$source/$task" --do_eval --task_name="$task" --data_dir="$DATA/glue" \
        --cached_dir="$OUTPUT_DIR/records" --max_seq_length=128 --eval_batch_size=32 $(schedule "$task")
      ;;
  esac
done
