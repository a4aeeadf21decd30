#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tests/install.sh PYTHON: builds the wheel and the source distribution, installs one after the other
# in an empty environment, and uses them from outside the checkout: every command's --help, the way
# from text to a filled mask, the models of the package, and a feature whose extra is absent.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export PIP_NO_INPUT=1 PIP_DISABLE_PIP_VERSION_CHECK=1
unset PYTHONPATH

# Of a copy of the files under version control, which leaves no build in the checkout.
mkdir "$scratch/source" "$scratch/work"
(cd "$root" && git ls-files -z | tar -c --null -T - -f -) | tar -x -f - -C "$scratch/source"
"$1" -m venv "$scratch/venv"
PATH=$scratch/venv/bin:$PATH
hash -r
pip install --quiet build
python -m build --outdir "$scratch/dist" "$scratch/source" > "$scratch/log" 2>&1 || {
  cat "$scratch/log"
  exit 1
}
rm -r "$scratch/source"

cd "$scratch/work"
cat "$root/README.md" "$root"/docs/*.md > text
for file in "$scratch"/dist/*.whl "$scratch"/dist/*.tar.gz; do
  echo "--- $(basename "$file"), $(du -k "$file" | cut -f1) KB"
  # The wheel with the newest TensorFlow of the ranges, the source distribution with the oldest.
  if [[ $file == *.gz ]]; then oldest="tensorflow<2.21"; fi
  pip install --quiet "$file" ${oldest:-}
  python -m pip check
  python -c 'import importlib.util, tensorflow
print("TensorFlow", tensorflow.__version__)
for script in ("run_classifier", "run_pretraining", "predict"):
    assert importlib.util.find_spec(script) is None, f"{script} is a top-level module"'

  for command in $(python -c 'from importlib import metadata
print(*metadata.distribution("albert_tf").entry_points.names)'); do
    "$command" --help > help
    grep -q "^  --" help
    "$command" --version | grep -q "^albert_tf [0-9]"
  done

  if [[ ! -e model ]]; then
    size="--max_seq_length=32 --max_predictions_per_seq=5"
    albert-spm --input_file=text --model_prefix=spm --vocab_size=1000 > log 2>&1
    albert-config --vocab=spm.model --size=tiny --max_position_embeddings=32 --output_file=config.json
    albert-data --input_file=text --output_file=records --spm_model_file=spm.model $size --dupe_factor=1
    albert-pretrain --do_train --input_file=records --output_dir=model --albert_config_file=config.json \
      $size --num_train_steps=2 --num_warmup_steps=1 --train_batch_size=4
    albert-predict --model=model --fill_mask="The [MASK] of a file." --top_k=1
  fi
  python -c 'import albert_tf, os
from albert_tf import models
assert os.path.exists(os.path.join(os.path.dirname(albert_tf.__file__), "py.typed"))
for name in ["model", *models.paths()]:
    (filling,) = albert_tf.load(name).fill_mask("The [MASK] of a file.", top_k=1)
    print(name, filling)'
  if python -m albert_tf.plot model 2> error; then exit 1; fi
  grep -F "pip install 'albert_tf[plot]'" error

  pip uninstall --quiet --yes albert_tf
  if python -c "import albert_tf" 2> error; then exit 1; fi
done
echo "--- installed and used in $SECONDS s"
