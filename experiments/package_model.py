# SPDX-License-Identifier: Apache-2.0
"""Makes a packaged model of a pre-training: half-precision weights, metrics and a model card.

python experiments/package_model.py output/model output/english-small \
    --card=experiments/english_small_card.md

The weights are measured on the held-out records of the run, in float32 and in half precision. If
the masked-LM accuracies differ by more than 0.1 point, nothing is written. The metrics go into
metrics.json, with those on experiments/sample/, which the tests compare.
"""

import argparse
import dataclasses
import json
import os
import re
import shutil
import statistics
import string
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import albert_tf
from albert_tf import files, options
from albert_tf.api import minimal_pairs
from albert_tf.checkpoints import run_directory, source
from albert_tf.config import AlbertConfig
from albert_tf.errors import UserError, exit_code
from albert_tf.records import record_files

ROOT = Path(__file__).resolve().parents[1]
SAMPLE = ROOT / "experiments" / "sample"
METRICS, CARD = "metrics.json", "README.md"
LARGEST_DIFFERENCE = 0.001  # of accuracies in float32 and in half precision
KEY = "masked_lm_accuracy"
PLACES = {  # of a card, next to those of the config
    "name", "parameters", "phases", KEY, "float32_accuracy", "sentence_order_accuracy",
    "word_accuracy", "minimal_pairs",
}  # fmt: skip
OF_EVALUATION = (  # flags of the training that its evaluations need; for masks, if it has them
    "max_seq_length", "max_predictions_per_seq", "eval_batch_size", "sentence_loss_weight",
    "masked_lm_budget", "ngram", "favor_shorter_ngram",
    "do_whole_word_mask", "spm_model_file", "vocab_file",
)  # fmt: skip
PHASE = {  # column of the card -> flag of the training
    "length": "max_seq_length", "batch": "train_batch_size", "steps": "num_train_steps",
    "optimizer": "optimizer", "peak rate": "learning_rate", "share masked": "masked_lm_budget",
    "longest n-gram": "ngram", "whole words": "do_whole_word_mask",
    "weight of the sentence-order loss": "sentence_loss_weight",
}  # fmt: skip


# --- Metrics -------------------------------------------------------------------------------------


def run_script(name, **flags):
    """Runs a script of the repository.

    Raises:
        UserError: it failed.
    """
    words = [f"--{flag}={value}" for flag, value in flags.items()]
    done = subprocess.run(
        [sys.executable, str(ROOT / name), *words], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise UserError(f"{name} failed: {done.stderr.strip()[-1000:]}")


def heldout_metrics(checkpoint, config_file, flags, directory):
    """Metrics of a checkpoint on all held-out records of a training: means of those of each file.

    Every file counts the same, however many records it has.

    Args:
        checkpoint: str, anything that --init_checkpoint takes.
        config_file: str.
        flags: dict of name -> value, flags of the training.
        directory: str, for the evaluation's output.

    Returns:
        dict of metric -> float.
    """
    found = []
    paths = record_files.expand_patterns(flags["eval_input_file"], "eval_input_file")
    for number, path in enumerate(paths):
        output = os.path.join(directory, str(number))
        run_script(
            "run_pretraining.py",
            do_train=False, do_eval=True, init_checkpoint=checkpoint,
            albert_config_file=config_file, input_file=path, output_dir=output,
            max_eval_steps=1_000_000,  # the training may have looked at a part
            **{name: flags[name] for name in OF_EVALUATION if name in flags},
        )  # fmt: skip
        lines = files.read_text(os.path.join(output, "eval_results.txt")).splitlines()
        found.append(dict(line.split(" = ") for line in lines if " = " in line))
    return {
        name: statistics.mean(float(metrics[name]) for metrics in found)
        for name in found[0]
        if "_" in name and name != "global_step"
    }


def sample_metrics(loaded):
    """Metrics of a model on experiments/sample/.

    Args:
        loaded: albert_tf.api.loaded.Loaded.

    Returns:
        dict: `minimal_pairs`, the accuracy on the pairs; `word_accuracy`, the share of the words of
        the sentences that the model finds when one at a time is masked, among those of one piece.
    """
    paradigms = minimal_pairs.read([str(SAMPLE / "pairs.jsonl")])
    found = minimal_pairs.evaluate(loaded, paradigms, options.SCORE_METHODS[0])
    texts, answers = [], []
    for line in files.read_text(str(SAMPLE / "sentences.txt")).splitlines():
        words = line.split()
        for number, word in enumerate(words):
            bare = word.strip(string.punctuation)
            pieces = loaded.tokenizer.tokenize(bare)
            if len(pieces) == 1:
                masked = [*words[:number], word.replace(bare, "[MASK]"), *words[number + 1 :]]
                texts.append(" ".join(masked))
                answers.append(pieces[0])
    filled = loaded.fill_mask(texts, top_k=1)
    correct = sum(
        best["piece"] == answer for ((best,),), answer in zip(filled, answers, strict=True)
    )
    return {
        "minimal_pairs": found["overall"]["accuracy"],
        "word_accuracy": correct / len(answers),
    }


# --- The card ------------------------------------------------------------------------------------


def phases_of(run):
    """Settings of a training and of those whose weights it started from, the first one first.

    Weights without a record, such as a release, begin no phase.

    Args:
        run: str, directory of a training.

    Returns:
        list of run_directory.RunSettings.

    Raises:
        UserError: the directory has no record, or one that leads back to it.
    """
    settings = run_directory.RunDirectory(run).settings
    if settings is None:
        raise UserError(f"{run} holds no {run_directory.SETTINGS}: name a training's --output_dir")
    phases, directory, seen = [], run, set()
    while settings:
        if directory in seen:
            raise UserError(f"{directory}/{run_directory.SETTINGS} names itself as its start")
        seen.add(directory)
        phases.insert(0, settings)
        earlier = settings.flags.get("init_checkpoint")
        directory = run_directory.directory_of(earlier) if earlier else None
        settings = directory and run_directory.RunDirectory(directory).settings
    return phases


def card(template, name, config, phases, metrics):
    """The model card: str, Markdown.

    Args:
        template: str, with places such as $parameters.
        name: str, of the model.
        config: AlbertConfig.
        phases: list from `phases_of`.
        metrics: dict, as in metrics.json.
    """
    rows = [["phase", *PHASE], ["---"] * (len(PHASE) + 1)]
    for number, settings in enumerate(phases, 1):
        values = {flag: settings.flags.get(flag, "") for flag in PHASE.values()}
        for later in phases[number : number + 1]:  # it may have started from before the end
            step = re.search(r"ckpt-(\d+)(\.index)?$", later.flags["init_checkpoint"])
            if step and step[1] != str(values["num_train_steps"]):
                values["num_train_steps"] = f"{step[1]} of {values['num_train_steps']}"
        rows.append([number, *values.values()])
    percent = {
        key: f"{100 * value:.1f}"
        for part in ("heldout", "sample")
        for key, value in metrics[part].items()
    }
    return string.Template(template).substitute(
        vars(config) | percent,
        name=name,
        parameters=f"{phases[-1].parameter_count / 1e6:.1f}",
        phases="\n".join("| " + " | ".join(map(str, row)) + " |" for row in rows),
        float32_accuracy=f"{100 * metrics['heldout_float32'][KEY]:.1f}",
    )


# --- The command ---------------------------------------------------------------------------------


def package(run, model_dir, checkpoint_name, template):
    """Makes the directory of a packaged model.

    Args:
        run: str, directory of a pre-training.
        model_dir: str, to make; its last part is the model's name.
        checkpoint_name: str, in `run`.
        template: str, of the card.

    Returns:
        str, a line for each metric.

    Raises:
        UserError: a file is missing, the directory is there, or half precision changes the
            accuracy.
    """
    _check_card(template)
    if os.path.exists(model_dir):
        raise UserError(f"{model_dir} is there already: give another directory")
    phases = phases_of(run)
    flags = phases[-1].flags
    if not flags.get("eval_input_file"):
        raise UserError(f"{run} was trained without --eval_input_file: nothing is held out")
    config = source.Source(run).read_config()
    with tempfile.TemporaryDirectory() as work:
        made = os.path.join(work, "model")
        run_script(
            "export_checkpoints.py",
            albert_directory=run, checkpoint_name=checkpoint_name, export_path=made,
            export_format="hf", dtype="fp16",
        )  # fmt: skip
        config_file = os.path.join(made, "config.json")
        checkpoints = {"heldout": made, "heldout_float32": os.path.join(run, checkpoint_name)}
        metrics = {
            key: heldout_metrics(checkpoint, config_file, flags, os.path.join(work, key))
            for key, checkpoint in checkpoints.items()
        }
        half, whole = (metrics[key][KEY] for key in checkpoints)
        accuracies = f"{100 * whole:.2f}% in float32, {100 * half:.2f}% in half precision"
        if abs(half - whole) > LARGEST_DIFFERENCE:
            raise UserError(f"the masked-LM accuracy is {accuracies}: the difference is too large")
        metrics["sample"] = sample_metrics(albert_tf.load(made))
        files.write_text(os.path.join(made, METRICS), json.dumps(metrics, indent=2) + "\n")
        name = os.path.basename(model_dir.rstrip("/"))
        text = card(template, name, config, phases, metrics)
        files.write_text(os.path.join(made, CARD), text)
        with files.replacing_directory(model_dir) as directory:
            shutil.copytree(made, directory, dirs_exist_ok=True)
    sample = ", ".join(f"{key} {100 * value:.1f}%" for key, value in metrics["sample"].items())
    return f"held-out masked-LM accuracy {accuracies}\nsample: {sample}\nwrote {model_dir}"


def _check_card(template):
    """Raises UserError if a card has a place without a value, before anything is measured."""
    known = {field.name for field in dataclasses.fields(AlbertConfig)} | PLACES
    try:
        string.Template(template).substitute(dict.fromkeys(known))
    except (KeyError, ValueError) as error:
        places = ", ".join(sorted(known))
        raise UserError(f"--card: {error}; known are {places}; write $$ for a dollar") from error


def main(arguments=None):
    """Runs the command; returns what it prints."""
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("run", help="--output_dir of the pre-training")
    parser.add_argument("model_dir", help="directory to make, named as the model")
    parser.add_argument("--checkpoint_name", default=run_directory.BEST, help="checkpoint in it")
    parser.add_argument("--card", required=True, help="template of the model card")
    given = parser.parse_args(arguments)
    if not os.path.isfile(given.card):
        raise UserError(f"--card={given.card}: there is no such file")
    return package(given.run, given.model_dir, given.checkpoint_name, files.read_text(given.card))


if __name__ == "__main__":
    sys.exit(exit_code("experiments/package_model.py", main))
