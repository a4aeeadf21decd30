#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Fine-tunes on the GLUE tasks with the original's settings for each, evaluates every checkpoint and
# predicts the test set with the best one.
#
#   ALBERT_DIR=albert_base GLUE_DIR=glue OUTPUT_DIR=output/glue ./run_glue.sh
#   ALBERT_HUB=module SIZE=xxlarge TASKS="RTE MRPC" ./run_glue.sh --max_seq_length=128 --seed=1
#
# Arguments are flags of run_classifier.py and win over those below. After a task that fails the
# others go on; it is named at the end, and the exit code is 1.
#
#   ALBERT_DIR     directory with albert_config.json, 30k-clean.model and model.ckpt-best.*; or
#   ALBERT_HUB     local directory of a hub module
#   GLUE_DIR       the data, a folder for each task (default: glue)
#   OUTPUT_DIR     where a folder for each task is made (default: output/glue). What is done there is
#                  not done again, and what was stopped goes on. As in the original, all checkpoints
#                  are kept until they are evaluated. For SST-2 and the base model these are 210 of
#                  140 MB (29 GB). --save_checkpoints_steps=1000 writes a tenth of them.
#   TASKS          some of the table's tasks. By default all; those without data are named and left
#                  out.
#   SIZE           base (default), large, xlarge or xxlarge. The last two take a quarter of the
#                  table's learning rates, with which they tend to collapse into one class.
#   STEPS_DIVISOR  for a try-out: all numbers of steps are divided by this whole number (default: 1)
#   PYTHON         default: the repository's .venv, else python3

set -euo pipefail

# task   warmup_step  learning_rate  train_step  save_checkpoints_steps  train_batch_size
TABLE="\
SST-2    1256         1e-5           20935       100                     32
MNLI     1000         3e-5           10000       100                     128
CoLA     320          1e-5           5336        100                     16
QNLI     1986         1e-5           33112       200                     32
QQP      1000         5e-5           14000       100                     128
RTE      200          3e-5           800         100                     32
STS-B    214          2e-5           3598        100                     16
MRPC     200          2e-5           800         100                     32"

# size   what divides the learning rates
RATES="\
base     1
large    1
xlarge   4
xxlarge  4"

HERE="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
GLUE_DIR="${GLUE_DIR:-glue}"
OUTPUT_DIR="${OUTPUT_DIR:-output/glue}"
STEPS_DIVISOR="${STEPS_DIVISOR:-1}"
SIZE="${SIZE:-base}"
PYTHON="${PYTHON:-$([[ -x "$HERE/.venv/bin/python" ]] && echo "$HERE/.venv/bin/python" || echo python3)}"

fail() {
  echo "run_glue.sh: error: $*" >&2
  exit 1
}

# Prints what follows the first word $2 in table $1, or nothing.
row() {
  awk -v key="$2" '$1 == key { $1 = ""; print }' <<< "$1"
}

# Numbers of steps are at least 1.
divided() {
  echo $(($1 / STEPS_DIVISOR > 0 ? $1 / STEPS_DIVISOR : 1))
}

model_flags() {
  if [[ -n "${ALBERT_HUB:-}" ]]; then
    echo "--albert_hub_module_handle=$ALBERT_HUB"
  elif [[ -n "${ALBERT_DIR:-}" ]]; then
    echo "--albert_config_file=$ALBERT_DIR/albert_config.json"
    echo "--spm_model_file=$ALBERT_DIR/30k-clean.model"
    echo "--init_checkpoint=$ALBERT_DIR/model.ckpt-best"
  fi
}

# Tasks to run: those asked for, or those of the table that have data.
choose_tasks() {
  local task
  for task in ${TASKS:-$(awk '{ print $1 }' <<< "$TABLE")}; do
    if [[ -z "$(row "$TABLE" "$task")" ]]; then
      fail "TASKS: $task is not in the table: $(awk '{ print $1 }' <<< "$TABLE" | xargs)"
    elif [[ "$GLUE_DIR" == *://* || -e "$GLUE_DIR/$task/train.tsv" ]]; then
      echo "$task"
    elif [[ -n "${TASKS:-}" ]]; then
      fail "TASKS: there is no $GLUE_DIR/$task/train.tsv; set GLUE_DIR"
    else
      echo "Left out, as there is no $GLUE_DIR/$task/train.tsv: $task" >&2
    fi
  done
}

run_task() {
  local task="$1" warmup rate steps save batch common
  shift
  read -r warmup rate steps save batch <<< "$(row "$TABLE" "$task")"
  common=(
    --data_dir="$GLUE_DIR" --task_name="$task" --output_dir="$OUTPUT_DIR/$task" "${MODEL[@]}"
    --do_lower_case --max_seq_length=512 --optimizer=adamw
    --warmup_step="$(divided "$warmup")" --train_step="$(divided "$steps")"
    --save_checkpoints_steps="$(divided "$save")" --train_batch_size="$batch"
    --learning_rate="$(awk -v rate="$rate" -v by="$RATE_DIVISOR" 'BEGIN { print rate / by }')"
    "$@"
  )
  echo "=== $task ==="
  "$PYTHON" "$HERE/run_classifier.py" "${common[@]}" --do_train --nodo_eval --nodo_predict || return
  "$PYTHON" "$HERE/run_classifier.py" --glue_submission_dir="$OUTPUT_DIR/submission" \
    "${common[@]}" --nodo_train --do_eval --do_predict
}

[[ "$*" != *--glue_submission_dir* ]] ||
  fail "--glue_submission_dir: test predictions go to OUTPUT_DIR/submission; set OUTPUT_DIR instead"
[[ "$STEPS_DIVISOR" =~ ^[1-9][0-9]*$ ]] || fail "STEPS_DIVISOR=$STEPS_DIVISOR: a whole number"
RATE_DIVISOR="$(row "$RATES" "$SIZE" | xargs)"
[[ -n "$RATE_DIVISOR" ]] || fail "SIZE=$SIZE: must be base, large, xlarge or xxlarge"
MODEL=()
while IFS= read -r line; do [[ -z "$line" ]] || MODEL+=("$line"); done <<< "$(model_flags)"
((${#MODEL[@]})) || fail "set ALBERT_DIR or ALBERT_HUB to the model's directory"
CHOSEN="$(choose_tasks)"
[[ -n "$CHOSEN" ]] || fail "no task has data in GLUE_DIR=$GLUE_DIR"

DONE=() FAILED=()
for task in $CHOSEN; do
  code=0
  run_task "$task" "$@" || code=$?
  [[ $code -ne 130 ]] || exit 130 # stopped by hand
  if [[ $code -eq 0 ]]; then DONE+=("$task"); else FAILED+=("$task"); fi
done

echo "=== Best checkpoints: step, and value of the task's metric ==="
for task in ${DONE[@]+"${DONE[@]}"}; do
  [[ "$OUTPUT_DIR" == *://* ]] || awk -F: -v task="$task" '{ print task, $2, $3 }' \
    "$OUTPUT_DIR/$task/best_trial.txt"
done
[[ ${#FAILED[@]} -eq 0 ]] || fail "these tasks failed, for the reasons above: ${FAILED[*]}"
