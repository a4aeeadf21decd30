# SPDX-License-Identifier: Apache-2.0
"""Model cards: the `README.md` of an export, from a template and `run.json` of the training."""

import dataclasses
import importlib.resources
import os
import string

from albert_tf import files
from albert_tf.checkpoints import huggingface, loading
from albert_tf.checkpoints.run_directory import EVAL_RESULTS, NOT_COMPARED, RunDirectory
from albert_tf.publish import card_header

FILE = "README.md"
_SETTINGS = (  # flags of a training that the card shows
    "task_name", "init_checkpoint", "albert_hub_module_handle", "optimizer", "learning_rate",
    "num_train_steps", "train_step", "num_train_epochs", "num_warmup_steps", "warmup_step",
    "warmup_proportion", "train_batch_size", "gradient_accumulation_steps", "weight_decay_rate",
    "max_seq_length", "long_texts", "max_windows", "masked_lm_budget", "dtype",
)  # fmt: skip
_MOST_FILES = 10  # input files to name
_NO_RECORD = "Not recorded: no `run.json` of a training was there. Describe the training here."
_NO_METRICS = "Not recorded: this checkpoint was not evaluated in its training run."
_NO_HEAD = "Not listed: metrics of this checkpoint are of a head that is not in this export."
_LIMITS = (
    "The model knows only the language, the casing and the kind of text that it was trained on. It "
    "can repeat errors and prejudices of that text. Test it on your own data before you rely on it."
)
_NO_DATA = (
    "Not recorded. Describe here the data that the model was trained on and the "
    "licences of the data and the model before you publish it. `--card_file` takes this text from "
    "a file."
)


def card(template, prefix=None, card_file=None, left_out=(), **values):
    """Text of a model card.

    Args:
        template: str, name of a Markdown file next to this one.
        prefix: str, the exported checkpoint; None for an export without weights.
        card_file: str or None, a Markdown file on data, licence and use, from the user. A YAML
            block at its start is merged into that of the template.
        left_out: list of str, weights of the checkpoint's heads that the export lacks.
        **values: str or numbers, for the placeholders of the template. Of `path`, only the last
            part is shown.

    Returns:
        str, Markdown.

    Raises:
        UserError: a file is damaged.
    """
    text = importlib.resources.files(__package__).joinpath(template).read_text(encoding="utf-8")
    values["path"] = os.path.basename(files.absolute_path(values["path"]).rstrip("/"))
    header, text = card_header.split(string.Template(text).substitute(values, limits=_LIMITS))
    theirs, about = card_header.split(files.read_text(card_file) if card_file else "", card_file)
    parts = [card_header.merge(header, theirs), text.strip()]
    if prefix:
        run, step = RunDirectory(os.path.dirname(prefix)), loading.step_in(prefix)
        parts += ["## Training", _training(run.settings, step)]
        parts += ["## Evaluation", _NO_HEAD if left_out else _evaluation(run, step)]
    parts += ["## Data and licence", about.strip() or _NO_DATA]
    return "\n\n".join(filter(None, parts)) + "\n"


def model_values(config, variables, tokenizer):
    """Values of a card on a model's sizes and vocabulary.

    Args:
        config: AlbertConfig.
        variables: iterable of tf.Variable, the parameters.
        tokenizer: FullTokenizer or GraphTokenizer.
    """
    count = sum(variable.shape.num_elements() for variable in variables)
    return dataclasses.asdict(config) | {
        "parameters": f"{count:,}",
        "vocabulary": os.path.basename(tokenizer.path),
        "casing": "lower-cased" if tokenizer.clean_up.do_lower_case else "with its capitals",
        "accents": "dropped" if tokenizer.clean_up.strip_accents else "kept",
    }


def transformers_example(architecture):
    """Python lines of a card that call a model of a class of the transformers library."""
    how = 'truncation=True, return_tensors="pt"'
    if architecture != huggingface.MULTIPLE_CHOICE:
        return f'outputs = model(**tokenizer("A sentence.", {how}))'
    return (
        f'rows = tokenizer(["Why?"] * 2, ["Yes.", "No."], padding=True, {how})\n'
        "outputs = model(**{name: ids[None] for name, ids in rows.items()})  # [1, choices, T]"
    )


def listed(names):
    """Names as code, with commas between them, also for a cell of a table."""
    return _escaped(f"`{'`, `'.join(names)}`")


def table(*rows):
    """A Markdown table; the first row is its header."""
    head, *body = rows
    return "\n".join(
        f"| {' | '.join(map(_escaped, row))} |" for row in [head, ["---"] * len(head), *body]
    )


def _escaped(value):
    """A value in a cell of a table, where | ends the cell, also in code."""
    return str(value).replace("|", "\\|")


def _training(settings, step):
    if settings is None or not settings.versions:  # a model may be saved without a training
        return _NO_RECORD
    rows = [("setting", "value"), ("steps", step)]
    for name in _SETTINGS:
        if settings.flags.get(name):
            rows.append((f"`--{name}`", _short(settings.flags[name])))
    names = [f"{_short(path)} ({size} bytes)" for path, size in settings.input_files.items()]
    if len(names) > _MOST_FILES:
        names[_MOST_FILES:] = [f"{len(names) - _MOST_FILES} more"]
    rows += [
        ("seed", settings.seed),
        ("input files", ", ".join(names)),
        ("devices", ", ".join(str(name).rpartition("device:")[2] for name in settings.devices)),
        ("versions", ", ".join(f"{name} {value}" for name, value in settings.versions.items())),
    ]
    return f"From `run.json` of the training:\n\n{table(*rows)}"


def _short(value):
    """The end of a path, without the directories of the machine; other values unchanged."""
    return "/".join(value.rstrip("/").split("/")[-2:]) if isinstance(value, str) else value


def _evaluation(run, step):
    metrics = _metrics(files.read_text(run.file(EVAL_RESULTS)), step)
    if not metrics:
        return _NO_METRICS
    return (
        f"From `{EVAL_RESULTS}` of the training, for this checkpoint (step {step}). The data are "
        f"those that the training evaluates on.\n\n{table(('metric', 'value'), *metrics.items())}"
    )


def _metrics(text, step):
    """Metrics of the last evaluation of a step that counts for the training: dict of name -> str.

    Args:
        text: str, content of `eval_results.txt`: lines `name = value`. An evaluation ends where a
            name comes again.
        step: int.
    """
    blocks, found = [{}], {}
    for line in text.splitlines():
        name, equals, value = line.partition(" = ")
        if name in blocks[-1]:
            blocks.append({})
        if equals or name in NOT_COMPARED:
            blocks[-1][name] = value
    for block in blocks:
        if block.get("global_step") == str(step) and block.keys().isdisjoint(NOT_COMPARED):
            found = block
    return {
        name: value
        for name, value in found.items()
        if name not in ("global_step", "best", "best f1")
    }
