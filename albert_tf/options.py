# SPDX-License-Identifier: Apache-2.0
"""Definitions of all options of the commands: name, type, default, range or choices, and help.

A group is a frozen dataclass with a heading for --help. Scripts turn groups into flags
(`cli.flag_groups.define`), and the library uses the same dataclasses. This module does not import
TensorFlow, so that --help and checks of flags are quick.
"""

import dataclasses
import difflib
import errno
import math
import operator
import os
import re
import types
from typing import dataclass_transform

from albert_tf.errors import UserError

INT32_MAX = 2**31 - 1  # TensorFlow's loops count in int32
LARGEST_THRESHOLD = 3e38  # within float32, the type in which models and exports compare
STRATEGIES = ("off", "one_device", "mirrored", "multi_worker_mirrored", "tpu")
PRECISIONS = {  # name -> policy of Keras
    "fp32": "float32",
    "tf32": "float32",  # matrix products in TensorFloat-32, on GPUs that have it
    "bf16": "mixed_bfloat16",
    "fp16": "mixed_float16",
}
OPTIMIZERS = ("adamw", "lamb", "muon")
WORD_STARTS = ("original", "piece")
SENTENCE_PAIRS = ("order", "next", "none")
SCORE_METHODS = ("within_word_l2r", "original")
LONG_TEXTS = ("head", "head_tail", "windows")  # what is read of them
F1_UNITS = ("words", "characters")  # of answers
EMBEDDINGS = ("pooled_output", "sequence_output")
GLUE_TASKS = (
    "cola", "mnli", "mismnli", "mrpc", "sst-2", "sts-b", "qqp", "qnli", "rte", "wnli", "ax",
)  # fmt: skip
OF_WORDS, MULTI_LABEL = "ner", "multi_label"
OWN_FILES = ("tsv", OF_WORDS, MULTI_LABEL)  # tasks on the user's own files
MODEL_TASKS = {"mismnli": "mnli", "ax": "mnli"}  # task of GLUE -> the one whose models it takes
WORK = "do_train|do_eval|do_predict"
_OF_TEXTS = "task_name=tsv,multi_label"
_ON_TPU = "~use_tpu|distribution_strategy=tpu"
NO_QUERY = "!fill_mask !sentence_order"  # of predict.py
_FROM_FILE = f"!text !text_pair !article !question !context !options {NO_QUERY}"
LABEL_SEPARATOR = "|"  # between the labels of a text
SIZES = {  # name -> layers, hidden size, heads
    "tiny": (2, 128, 2),
    "mini": (4, 256, 4),
    "small": (4, 512, 8),
    "base": (12, 768, 12),
    "large": (24, 1024, 16),
    "xlarge": (24, 2048, 16),
    "xxlarge": (12, 4096, 64),
}
LARGEST_WINDOW = 10**7  # more fit into no memory
WINDOW = 10_000  # records shuffled together; 30 MB of pre-training records of length 512
NO_WEIGHTS = "no weights to start from: give --init_checkpoint (or --allow_random_init)"
NUM_SPECIALS = 3  # of a pair of texts: [CLS] a [SEP] b [SEP]
NUM_SPECIALS_OF_ONE = 2  # of a text alone: [CLS] a [SEP]
SHORTEST = NUM_SPECIALS + 2  # length of a sequence with one token of each of two texts
# From the original's README on training SentencePiece, without the comma, which separates values.
SPM_SYMBOLS = ("(", ")", '"', "-", ".", "–", "£", "€")
# Languages whose rules for lower-casing differ: Turkish, Azerbaijani, Lithuanian.
CASING_LANGUAGES = ("other", "tr", "az", "lt")
NORMALIZATION_RULES = ("nmt_nfkc", "nfkc", "nmt_nfkc_cf", "nfkc_cf", "identity")  # SentencePiece's
_LONGEST = 2**16  # far beyond any model; making a record of this size takes megabytes
_STRIP_ACCENTS = (
    "Remove the accents of letters, as the released models need: \u00e9 becomes e, \u0439 becomes "
    "\u0438. With a WordPiece vocabulary, only if --do_lower_case is set too."
)
_CARD = (
    "A Markdown file that describes the data, the licence and the use of the model. It becomes a "
    "part of the README.md of the export; a YAML block at its start becomes the header. The rest "
    "of the card comes from run.json of the training."
)
_KEEP_EVALUATED = "Number of evaluated checkpoints to keep in addition to the best; 0 for all."
_METHOD = (
    "Tokens to mask while a token is scored. within_word_l2r: the token and the later tokens of "
    "its word; original: only the token."
)
_MAY_BE_LACKING = "Settings that the directory of --model may lack"
_FEATURES = "TFRecord file for the {} features; in --output_dir by default."
_RULES = {
    "at least": operator.ge, "at most": operator.le, "above": operator.gt, "below": operator.lt,
}  # fmt: skip
# Columns of an option: its limits -> their names in messages; the others -> what they are by
# default, except that a group decides on read_by and on_record.
_LIMITS = {"low": "at least", "high": "at most", "above": "above", "below": "below"}
_COLUMNS = {"or_zero": False, "repeated": False, "required": False} | dict.fromkeys(
    ("choices", "path", "read_by", "on_record", "fits")
)
# Our names, in order of preference, of what other libraries call so. A command gets its first.
_CALLED_ELSEWHERE = {
    "num_train_epochs|train_step|num_train_steps": (
        "epoch|epochs|num_epochs|n_epochs|max_epochs|num_train_epochs"
    ),
    "train_step|num_train_steps|num_train_epochs": (
        "steps|max_steps|train_steps|num_steps|train_step|num_train_steps"
    ),
    "warmup_step|num_warmup_steps|warmup_proportion": (
        "warmup|warmup_steps|warmup_ratio|warmup_step|num_warmup_steps|warmup_proportion"
    ),
    "learning_rate": "lr|max_lr|peak_lr",
    "iterations_per_loop": "steps_per_loop",
    "train_batch_size|predict_batch_size": "batch|bs|batch_size|per_device_train_batch_size",
    "eval_batch_size|predict_batch_size": "per_device_eval_batch_size|valid_batch_size",
    "max_seq_length": "max_length|max_len|max_seq_len|seq_len|seq_length|block_size",
    "init_checkpoint|model|albert_directory": (
        "model|model_name|model_path|model_name_or_path|pretrained_model|checkpoint|"
        "init_checkpoint|bert_model|albert_directory"
    ),
    "output_dir|model|albert_directory": "model_dir",
    "albert_config_file": "config|config_file|config_name|bert_config_file",
    "spm_model_file|vocab|vocab_file": "tokenizer|tokenizer_name|spm_model|spm_file|vocabulary",
    "input_file|data_dir|train_file": (
        "input|corpus|data|dataset|dataset_name|train_data|train_path|train_file|data_dir|file|"
        "text_file"
    ),
    "predict_file|eval_input_file|data_dir|input_file": (
        "validation_file|eval_file|dev_file|eval_data|test_file|predict_file"
    ),
    "output_dir|output_file|export_path|model_prefix": (
        "out|output|outdir|out_dir|save_dir|output_path|logging_dir"
    ),
    "text": "texts|sentence|sentences|input_text|prompt",
    "fill_mask": "mask|masked_text",
    "text_column": "text_column_name|sentence1_key",
    "text_pair_column": "sentence2_key",
    "label_column": "label_column_name|label|target|target_column",
    "labels": "classes|label_list|num_labels|num_classes",
    "task_name": "task",
    "do_train": "train",
    "do_eval": "eval|evaluate|do_valid",
    "do_predict": "predict|test|do_test",
    "weight_decay_rate": "weight_decay|wd",
    "beta_1": "adam_beta1",
    "beta_2": "adam_beta2",
    "epsilon": "adam_epsilon",
    "gradient_clip_norm": "max_grad_norm|clip_norm|grad_clip",
    "save_checkpoints_steps": "save_steps|eval_steps",
    "keep_checkpoint_max|num_keep_checkpoint": "save_total_limit",
    "gradient_accumulation_steps": "grad_accum|accumulate_grad_batches",
    "recompute": "gradient_checkpointing",
    "dtype": "fp16|bf16|amp|precision|mixed_precision",
    "optimizer": "optim",
    "seed|random_seed": "random_state|random_seed|seed",
    "num_gpus": "gpus|n_gpu|device|devices",
    "num_workers": "num_proc|workers|jobs|threads|dataloader_num_workers",
    "masked_lm_prob|masked_lm_budget": "mlm_prob|mlm_probability",
    "do_lower_case": "lowercase|uncased",
    "top_k": "topk",
}
_NAMES_HERE = {
    theirs: ours.split("|")
    for ours, text in _CALLED_ELSEWHERE.items()
    for theirs in text.split("|")
}
KINDS: dict[str, type] = {}  # option of any group -> type of its value, without None
UNSET: dict = {}  # option that run.json decides -> the value that is not written: None or False
OF_USE: set = set()  # options that run.json decides for a trained model, without paths
_CLOSE = 0.8  # similarity of words of a name and of a misspelt one
_SMALLEST_VOCABULARY = 5 + len(SPM_SYMBOLS) + 1  # with the special pieces, and a space


# === Options and groups ==========================================================================


def option(default, help, **columns):
    """Makes an option, a field of a group.

    Args:
        default: default value; None if there is no default.
        help: str, text for --help.
        **columns: any of those that follow.
        low: smallest value.
        high: largest value.
        above: exclusive lower limit.
        below: exclusive upper limit.
        or_zero: bool, whether 0 is allowed too, for "off".
        choices: allowed names.
        repeated: bool, whether the flag may be given several times.
        path: str, kind of path: "file", "config", "directory", "files" (comma-separated patterns),
            "checkpoint" (a prefix or a directory), "output" or "output file" (not a directory);
            None if the value is not a path.
        required: bool, whether the flag must be given; or str, the names of flags with | between
            them: it must have a value, typed or recorded, if one of these is on.
        read_by: str, conditions in which the option is read, with spaces between them; by default
            those of its group, or always. `export_dir` holds if that flag has a value,
            `!export_dir` if it has none, `task_name=tsv,ner` if it has one of these values, `a|b`
            if one of both holds. A condition on a flag that the command lacks, or on a task that is
            unknown, holds. A typed option that is not read is an error, or only noted if the
            condition begins with ~: for flags of the original, and of a training whose command is
            typed again to evaluate.
        on_record: str, what run.json of the run and the source of the weights decide. `equal`: the
            value is theirs, and another typed value is an error; `follow`: the value is theirs
            unless one is typed; `start`: as `equal`, but only in a resumed run, which also keeps
            the checkpoint that it started from; `free`: they do not matter. By default as its group
            says, or `follow` if only a training reads it, else `free`.
        fits: (str, int), what it must fit into: the name of a size of the model or of another
            option, and how many tokens of that are for something else. A default that is larger
            than the size of the model becomes that size. If the other option has become smaller so,
            a default that leaves tokens to something else shrinks in proportion.
    """
    assert columns.keys() <= _LIMITS.keys() | _COLUMNS.keys(), columns
    limits = {rule: columns.pop(name) for name, rule in _LIMITS.items() if name in columns}
    metadata = _COLUMNS | columns | {"help": help, "limits": limits}
    return dataclasses.field(default=default, metadata=metadata)


def options_of(group):
    """Fields of a group that are options: tuple of dataclasses.Field."""
    return tuple(field for field in dataclasses.fields(group) if field.metadata)


def kind_of(field):
    """Type of an option's value, without None."""
    return field.type.__args__[0] if isinstance(field.type, types.UnionType) else field.type


def decides_training(columns):
    """Whether an option decides a training, or names its data or vocabulary (bool).

    Args:
        columns: mapping, the columns of the option.
    """
    read_by, path, rule = columns["read_by"], columns["path"], columns["on_record"]
    is_of_training = "~do_train" in read_by
    if not path:  # what every command reads too, but not what only evaluations read
        return rule != "free" and (is_of_training or "do_eval" not in read_by)
    # Vocabularies and data, but not outputs, weights to start from, and files of other work.
    is_always_read = not read_by and rule != "start"
    is_input = path in ("file", "files", "directory")
    return is_input and (rule == "equal" or is_of_training or is_always_read)


def name_here(name, known):
    """The flag of a command that a user may mean by another name: str, or None.

    Args:
        name: str, as typed, such as "epochs" or "learning-rate".
        known: sequence of str, the flags of the command.
    """
    name = name.lower().replace("-", "_")
    close = difflib.get_close_matches(name, [n for n in known if _is_close(name, n)], 1, 0.7)
    meant = [name, *_NAMES_HERE.get(name, ()), *close]
    return next((ours for ours in meant if ours in known), None)


def _is_close(name, ours):
    """Whether a name seems to be a misspelt one (bool): text_file is no output_file."""
    pairs = [*zip(name.split("_"), ours.split("_"), strict=False)]
    if name.count("_") != ours.count("_"):
        pairs = [(name.replace("_", ""), ours.replace("_", ""))]
    return all(difflib.SequenceMatcher(None, *pair).ratio() >= _CLOSE for pair in pairs)


def check(field, value):
    """Raises UserError if a value is not allowed for an option; the message names the flag."""
    if field.metadata["path"]:
        for path in [value] if isinstance(value, str) else value or ():
            check_path(f"--{field.name}", path)
    limits, or_zero = field.metadata["limits"], field.metadata["or_zero"]
    is_unset = value is None or (value != value and field.default != field.default)  # nan
    if is_unset or not limits or (or_zero and value == 0):
        return
    is_finite = isinstance(value, int) or math.isfinite(value)
    if isinstance(value, int) and value > INT32_MAX and not limits.keys() & {"at most", "below"}:
        limits = {"at most": INT32_MAX}
    elif is_finite and all(_RULES[rule](value, limits[rule]) for rule in limits):
        return
    rule = " and ".join(f"{rule} {limit}" for rule, limit in limits.items())
    finite = "" if is_finite else "finite and "
    off = ", or 0 for off" if or_zero else ""
    raise UserError(f"--{field.name} must be {finite}{rule}{off}. Received: {value}")


def check_path(name, paths):
    """Raises UserError for a URL, a name that is not UTF-8, and a link to itself.

    Args:
        name: str, name of the flag or argument.
        paths: str, one path or several comma-separated ones.
    """
    if not paths.isascii() and paths != paths.encode(errors="replace").decode():
        raise UserError(f"{name}={paths!a}: a path must be UTF-8. Rename the file")
    for path in paths.split(","):
        if re.match(r"\s*(https?|ftp)://", path):
            raise UserError(
                f"{name}={path}: nothing is downloaded. Download it, and give its path; "
                "download_model.py downloads the released models"
            )
        try:
            os.stat(path)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENAMETOOLONG):
                raise UserError(f"{name}={path}: {error.strerror}") from error


def parse_profile_steps(text):
    """Parses --profile_steps.

    Args:
        text: str, "first:last"; None or "" for none.

    Returns:
        (int, int), the first and last step to profile; or None.

    Raises:
        UserError: the text has another form.
    """
    if not text:
        return None
    match = re.fullmatch(r"(\d{1,18}):(\d{1,18})", text, re.ASCII)
    if not match or not 0 < int(match[1]) < int(match[2]):
        raise UserError(
            f"--profile_steps={text} must be first:last with 0 < first < last, such as 100:110"
        )
    return int(match[1]), int(match[2])


def check_task_name(name, shown=None, others=()):
    """Raises UserError if a name is not a task of run_classifier.py; case is ignored.

    Args:
        name: str.
        shown: str, the argument with its value, for the message; by default the flag.
        others: sequence of str, further tasks that are allowed.
    """
    names = (*GLUE_TASKS, *others, *OWN_FILES)
    if name.lower() not in names:
        known = f"{', '.join(names)}; tsv, ner and multi_label are for your own files"
        raise UserError(f"{shown or f'--task_name={name}'} is unknown; known are {known}")


@dataclass_transform(frozen_default=True, kw_only_default=True)
class Options:
    """Base class of groups, which become dataclasses. A new group checks the ranges of its options.

    Args:
        heading: str, for --help, in the definition of the class.
        read_by: str, as of `option`, for options of this class that do not say it.
        on_record: str, as of `option`, for options of this class that do not say it.

    Raises:
        UserError: a value is out of range; the message names the flag.
    """

    def __init_subclass__(cls, heading=None, read_by="", on_record=None):
        cls.heading = heading
        for field in vars(cls).values():
            if isinstance(field, dataclasses.Field):
                columns = dict(field.metadata)
                if columns["read_by"] is None:
                    columns["read_by"] = read_by
                of_training = "~do_train" in columns["read_by"] and not columns["path"]
                usual = on_record or ("follow" if of_training else "free")
                columns["on_record"] = columns["on_record"] or usual
                field.metadata = types.MappingProxyType(columns)
        dataclasses.dataclass(frozen=True, kw_only=True)(cls)
        for field in options_of(cls):
            name, columns = field.name, field.metadata
            rule, is_of_work = columns["on_record"], "do_" in columns["read_by"]
            KINDS[name] = kind_of(field)
            if rule in ("equal", "start") and not field.default:
                UNSET[name] = field.default
            if rule in ("equal", "follow") and not columns["path"] and not is_of_work:
                OF_USE.add(name)

    def __post_init__(self):
        for field in options_of(self):
            check(field, getattr(self, field.name))


# fmt: off
# === All scripts that train ======================================================================


class Devices(Options, heading="Devices and seed"):
    """Devices, precision and random seed, with the Model Garden's names."""

    distribution_strategy: str = option("one_device", choices=STRATEGIES, help=
        "Where to train: one_device (a GPU if there is one), mirrored (all GPUs of this machine), "
        "multi_worker_mirrored (machines named in TF_CONFIG), tpu, or off (no strategy: TensorFlow "
        "chooses the device).")
    num_gpus: int | None = option(None, "Number of GPUs for mirrored; all by default.",
        read_by="distribution_strategy=mirrored")
    use_tpu: bool = option(False, "Same as --distribution_strategy=tpu.",
        read_by="distribution_strategy=one_device,tpu")
    tpu_name: str | None = option(None, "Cloud TPU name or grpc address; none for a local TPU.",
        read_by=_ON_TPU)
    tpu_zone: str | None = option(None, "Zone of the Cloud TPU, if it cannot be detected.",
        read_by=_ON_TPU)
    gcp_project: str | None = option(None, "Project of the Cloud TPU, if it cannot be detected.",
        read_by=_ON_TPU)
    dtype: str = option("fp32", choices=PRECISIONS, help=
        "Computation type; variables stay in fp32. bf16 for TPUs and new CPUs, fp16 for GPUs; tf32 "
        "is fp32 with faster, less exact products on GPUs.")
    enable_xla: bool = option(False, "Compile the training step with XLA; a TPU always does.")
    seed: int | None = option(None, low=0, high=2**32 - 1, on_record="follow", help=
        "Seed of initial weights, dropout and the order of records. By default a resumed run keeps "
        "its seed, and a new run draws one.")


class Optimizer(Options, heading="Optimizer", read_by="~do_train"):
    """Constants of the optimizers, with the Model Garden's names and the original's defaults."""

    weight_decay_rate: float = option(0.01, low=0, help=
        "Weight decay of matrices; it is multiplied by the learning rate.")
    beta_1: float = option(0.9, "Decay rate of the mean of the gradients.", low=0, below=1)
    beta_2: float = option(0.999, low=0, below=1, help=
        "Decay rate of the mean of the squared gradients.")
    epsilon: float = option(1e-6, above=0, help=
        "Added to the root of the mean of the squared gradients.")
    momentum: float = option(0.95, low=0, below=1, read_by="~do_train optimizer=muon", help=
        "With --optimizer=muon: decay rate of the sum of the gradients of matrices.")


ORIGINAL_OPTIMIZER = Optimizer()


class Clipping(Options, heading="Optimizer"):
    """Limit on the size of an update."""

    gradient_clip_norm: float = option(1.0, above=0, read_by="~do_train", help=
        "Largest norm of the gradient of a whole batch; larger gradients are scaled down.")


class Checkpoints(Options, heading="Checkpoints and curves"):
    """When a run saves checkpoints, and which ones it keeps."""

    save_checkpoints_steps: int = option(1000, "Number of steps between checkpoints.", low=1,
        read_by="~do_train")
    iterations_per_loop: int = option(1000, low=1, read_by="~do_train", help=
        "Number of steps between two points of the curves. Unless it is given, at most a "
        "hundredth of the training.")
    continuous_eval_timeout: float = option(0.0, low=0, read_by="~!do_train ~do_eval", help=
        "Without --do_train: seconds to wait for the next checkpoint of a training in another "
        "process.")
    save_moments_for_best: bool = option(False, read_by="~do_eval", help=
        "Keep the optimizer's moments in model.ckpt-best, which makes it three times as large.")
    allow_changes_on_resume: bool = option(False, help=
        "Resume a run even if optimizer, architecture, batch size, --length_buckets, vocabulary or "
        "casing differ from those in run.json.")


class Memory(Options, heading="Memory and speed", read_by="~do_train"):
    """Settings that trade memory for speed, lengths of batches, and profiling."""

    gradient_accumulation_steps: int = option(1, low=1, help=
        "Number of parts in which a device computes its share of a batch, one after another: the "
        "same batch in less memory.")
    recompute: bool = option(False, help=
        "Compute the activations of each block again in the backward pass: less memory, more time.")
    length_buckets: list | None = option(None, on_record="equal", help=
        "Comma-separated lengths of batches, such as 64,128,256. Sequences of similar length are "
        "batched together and padded to the next of these lengths. By default, a batch of "
        "pre-training has the length --max_seq_length, one of fine-tuning that of its longest "
        "sequence.")
    profile_steps: str | None = option(None, help=
        "Steps to profile for TensorBoard, first:last, such as 100:110; none by default.")

    def __post_init__(self):
        super().__post_init__()
        parse_profile_steps(self.profile_steps)


NO_EFFECT = "Accepted and without effect"  # flags of the original that have no meaning any more


class TpuEstimator(Options, heading=NO_EFFECT):
    """Flags of the original for devices."""

    master: str | None = option(None, "--tpu_name takes a TPU's grpc address.")
    num_tpu_cores: int = option(8, "All cores of the TPU are used.")


class Einsum(Options, heading=NO_EFFECT):
    """Flags of the original for implementations."""

    use_einsum: bool = option(True, "There is one implementation, with the same results.")


class SquadLeftovers(Einsum, heading=NO_EFFECT):
    """Flags of the original for implementations and files."""

    predict_feature_left_file: str | None = option(None, "Its contents are computed in every run.")


class CorpusLeftovers(Options, heading=NO_EFFECT):
    """Flags of the original for text."""

    input_file_mode: str = option("r", "Input is always read as UTF-8 text.")


TRAINING = (Optimizer, Clipping, Checkpoints, Memory, Devices, TpuEstimator)  # of all that train


class Loop(Optimizer, Clipping, Checkpoints, Memory, Devices):
    """Settings of the training loop.

    Args:
        output_dir: str, the run's directory.
        train_steps: int, total number of steps.
        warmup_steps: int, steps of the linear warm-up.
        keep_checkpoint_max: int, number of newest checkpoints to keep; None or 0 for all.
        record: run_directory.RunSettings; None without training.
        length_buckets: tuple of int, ascending lengths to which batches are cut; or None.
    """

    output_dir: str
    train_steps: int
    warmup_steps: int = 0
    keep_checkpoint_max: int | None = 5
    record: object = None
    length_buckets: tuple | None = None


# === Fine-tuning =================================================================================


class FineTuningWork(Options, heading="What to do"):
    """The work to do, and the directory for it."""

    output_dir: str | None = option(None, path="output", required=True, help=
        "Directory for checkpoints and results.")
    do_train: bool = option(False, "Train.")
    do_eval: bool = option(False, "Evaluate every checkpoint and keep the best.")
    do_predict: bool = option(False, help=
        "Predict the test data with the best checkpoint.")


class FineTunedModel(Options, heading="Model and text"):
    """The model to start from, and the conversion of text to its input."""

    albert_config_file: str | None = option(None, path="config",
        read_by="~!ensemble_dirs", on_record="equal", help=
        "JSON file with the model's architecture: albert_config.json, or config.json of the "
        "transformers library. Leave it out if it is next to the weights.")
    spm_model_file: str | None = option(None, path="file", on_record="equal", help=
        "SentencePiece model. Leave it out if you give --vocab_file, or if the vocabulary is next "
        "to the weights.")
    vocab_file: str | None = option(None, path="file", on_record="equal", help=
        "WordPiece vocabulary, for models without a SentencePiece model.")
    ensemble_dirs: list = option((), path="directory",
        read_by="!do_train !export_dir task_name!=multi_label", help=
        "Comma-separated directories of runs to evaluate or predict with together, instead of "
        "--init_checkpoint: their outputs are averaged.")
    init_checkpoint: str | None = option(None, path="checkpoint",
        read_by="~!ensemble_dirs", on_record="start", help=
        "Encoder weights to start from: a prefix, its .index file, a directory, model.safetensors "
        "of the transformers library, or the name of a packaged model. For SQuAD, the head of a "
        "SQuAD model is read too; other heads start randomly. Without --do_train: a fine-tuned "
        "model to evaluate or predict with. Ignored if --output_dir contains a run.")
    albert_hub_module_handle: str | None = option(None, path="directory", on_record="start", help=
        "Local directory of a hub module, of TensorFlow 1 or 2, instead of "
        "--albert_config_file, --init_checkpoint, --spm_model_file, --vocab_file and "
        "--do_lower_case.")
    max_seq_length: int = option(512, low=SHORTEST,
        on_record="equal", fits=("max_position_embeddings", 0), help=
        "Maximum length of a sequence, in tokens. If the model has fewer positions, the default is "
        "their number.")
    do_lower_case: bool = option(True, "Lower-case the text, as the released models need.",
        on_record="equal")
    strip_accents: bool = option(True, _STRIP_ACCENTS, on_record="equal")
    allow_random_init: bool = option(False, "Train from random weights if none are given.")


class FineTuningUpdates(Options, heading="Training and evaluation"):
    """Batches and optimizer of fine-tuning."""

    train_batch_size: int = option(32, "Examples per step, over all replicas.", low=1,
        read_by="~do_train", on_record="equal")
    eval_batch_size: int = option(8, "Examples per evaluation batch.", low=1, read_by="~do_eval")
    predict_batch_size: int = option(8, "Examples per prediction batch.", low=1,
        read_by="~do_predict")
    shuffle_buffer_size: int = option(WINDOW, low=1, high=LARGEST_WINDOW, read_by="~do_train", help=
        "Number of examples that are shuffled together. If a larger file is sorted by label, give "
        "more, up to the number of its examples. 1 keeps the order.")
    learning_rate: float = option(5e-5, "Peak learning rate.", low=0, read_by="~do_train")
    optimizer: str = option("adamw", choices=OPTIMIZERS,
        read_by="~do_train", on_record="equal", help=
        "adamw and lamb are the original's; muon was no better than adamw in our fine-tunings.")
    class_weights: list | None = option(None, read_by="~do_train", on_record="start", help=
        "Weights of the classes in the loss: balanced, which makes all classes equally important, "
        "or a number for each class, with commas between them, in the order of the classes. Not "
        "for scores and --multi_label.")
    best_metric: str | None = option(None, on_record="follow", help=
        "The metric in eval_results.txt that chooses the best checkpoint, such as macro_f1: the "
        "lowest loss is best, the highest value of another metric. By default that of the task, "
        "such as accuracy, F1 or a correlation.")


class FineTuningSteps(Options, heading="Training and evaluation"):
    """The length of training, counted in steps."""

    train_step: int = option(1000, low=1,
        read_by="!num_train_epochs ~do_train|continuous_eval_timeout", help=
        "Total number of steps; the learning rate decays until then.")
    num_train_epochs: float | None = option(None, above=0, high=INT32_MAX,
        read_by="~do_train", help=
        "Number of passes over the training data, instead of --train_step.")
    warmup_step: int = option(0, "Number of steps of the linear warm-up.", low=0,
        read_by="~do_train")
    num_trials: int = option(1, low=1, read_by="do_train do_eval task_name!=multi_label", help=
        "Number of runs, each with its own seed and folder; the best is kept. The paper reports "
        "the median of five.")


class Export(Options, heading="Export"):
    """Exports of the best checkpoint."""

    export_dir: str | None = option(None, path="output", help=
        "Directory for the best checkpoint as a SavedModel, in a folder named after the time. It "
        "takes text or ids and returns predictions; predict.py runs it. The settings of the text "
        "are those of the training.")
    export_text: bool = option(True, read_by="export_dir", help=
        "Let the SavedModel take text and ids; loading it needs tensorflow-text. If false, the "
        "SavedModel takes only ids and needs only tensorflow.")
    export_tflite: bool = option(False, read_by="export_dir", help=
        "Write TFLite files of the model into --export_dir too: float32, float16 and int8.")
    card_file: str | None = option(None, path="file", read_by="export_dir", help=_CARD)


# Of every fine-tuning script, after those of its task.
FINE_TUNING = (FineTuningWork, FineTunedModel, FineTuningUpdates, *TRAINING, Export)


class FineTuning(Loop, Export, FineTuningUpdates, FineTunedModel, FineTuningWork):
    """All settings of a fine-tuning run.

    Args:
        num_trials: int, number of runs, each with its own seed.
        ensemble: tuple of (AlbertConfig, prefix of a checkpoint), to evaluate and predict with
            together.
    """

    start_warmup_step: int = 0
    decay_steps: int | None = None
    poly_power: float = 1.0
    num_trials: int = 1
    ensemble: tuple = ()


# === run_classifier.py ===========================================================================


class ClassifierData(Options, heading="Task and data"):
    """The task and its files."""

    data_dir: str | None = option(None, path="directory",
        required=WORK, read_by=f"~{WORK}", help=
        "Directory of the GLUE data, with a folder for each task, or of your own files.")
    task_name: str | None = option(None, required=WORK, on_record="equal", help=
        "One of cola, mnli, mismnli, mrpc, sst-2, sts-b, qqp, qnli, rte, wnli, ax; or tsv for your "
        "own texts: train.tsv, dev.tsv and test.tsv, or .csv, .jsonl or .json, in --data_dir; or "
        "ner for named entities: train.conll, dev.conll and test.conll, with a word and its label "
        "on each line. If --output_dir has a run, its task is used.")
    cached_dir: str | None = option(None, path="output", read_by=f"~{WORK}", help=
        "Directory for the TFRecords of features; --output_dir by default.")
    text_column: str | None = option("0", read_by=f"{_OF_TEXTS},ner", on_record="follow", help=
        "tsv: column of the text, a name or a number from 0. ner: column of the words; by default "
        "the first that does not only count the words.")
    text_pair_column: str | None = option(None, "tsv: column of a second text.",
        read_by=_OF_TEXTS, on_record="equal")
    label_column: str | None = option(None, read_by=f"{_OF_TEXTS},ner", on_record="follow", help=
        "tsv: column of the label. ner: column of the labels; by default the last.")
    delimiter: str | None = option(None, read_by=_OF_TEXTS, on_record="follow", help=
        "tsv: the character between columns, such as ';' or 'tab'. By default it is recognised.")
    header: bool | None = option(None, read_by=_OF_TEXTS, on_record="follow", help=
        "tsv: whether the first line names the columns. By default yes if a column is given by "
        "name, if the line numbers the columns, or if several files begin with the line.")
    labels: list | None = option(None, "tsv, ner: the classes; by default those of the training.",
        read_by="!regression task_name=tsv,multi_label,ner", on_record="equal")
    skip_other_labels: bool = option(False, on_record="follow", read_by=f"labels {_OF_TEXTS}", help=
        "tsv: leave out the rows with a label that is not among --labels, and count them. In a "
        "test file, they are predicted and not scored.")
    regression: bool = option(False, help=
        "tsv: the labels are numbers to predict, of one column or of several, separated by commas.",
        read_by="task_name=tsv", on_record="equal")
    multi_label: bool = option(False, read_by=_OF_TEXTS, on_record="equal", help=
        "tsv: a text can have several labels. --label_column names a column with all of them, "
        "separated by '|', ';' or ',' or as a list; or, with commas between the names, a column of "
        "0 and 1 for each label.")
    long_texts: str = option("head", choices=LONG_TEXTS, read_by=_OF_TEXTS, on_record="equal", help=
        "tsv: what is read of texts longer than --max_seq_length. head: the beginning; head_tail: "
        "the beginning and the end; windows: up to --max_windows parts, one after another, whose "
        "logits are averaged.")
    max_windows: int = option(4, low=2, high=64, on_record="equal",
        read_by=f"long_texts=windows {_OF_TEXTS}", help=
        "With --long_texts=windows: the largest number of parts of a text.")
    glue_submission_dir: str | None = option(None, path="output",
        read_by="do_predict task_name!=tsv,multi_label,ner", help=
        "Directory for predictions in the form that the GLUE server takes.")
    threshold_to_export: float = option(math.nan, low=-LARGEST_THRESHOLD, high=LARGEST_THRESHOLD,
        read_by="export_dir task_name!=multi_label,ner", help=
        "A number that the export returns with its predictions.")

    def __post_init__(self):
        super().__post_init__()
        if self.task_name:  # otherwise it comes from run.json
            check_task_name(self.task_name)


class ClassifierSteps(FineTuningSteps, heading="Training and evaluation"):
    """The length of training, and which checkpoints to keep."""

    keep_checkpoint_max: int = option(5, _KEEP_EVALUATED, low=0, read_by="~do_eval",
        on_record="follow")


# === run_race.py =================================================================================


class Race(Options, heading="Task and data"):
    """Questions of RACE, and the files of their features."""

    data_dir: str | None = option(None, path="directory",
        required=WORK, read_by=f"~{WORK}", help=
        "Directory that contains the folder RACE, or tables with a question in each row: "
        "train.jsonl, dev.jsonl and test.jsonl, or .csv, .tsv or .json.")
    task_name: str = option("race", "Always race.", choices=("race",), on_record="equal")
    train_file: str | None = option(None, _FEATURES.format("training"), path="output",
        read_by="~do_train")
    eval_file: str | None = option(None, _FEATURES.format("development"), path="output",
        read_by="~do_eval")
    predict_file: str | None = option(None, _FEATURES.format("test"), path="output",
        read_by="~do_predict")
    dropout_prob: float = option(0.1, "Dropout of the pooled output, in training.", low=0, below=1,
        read_by="~do_train")
    # NUM_SPECIALS + 1: a token of the passage fits too
    max_qa_length: int = option(128, low=1,
        on_record="equal", fits=("max_seq_length", NUM_SPECIALS + 1), help=
        "Maximum number of tokens of a question and an option together. Longer ones lose their "
        "beginning.")
    high_only: bool = option(False, "Only the questions of high school.", on_record="start")
    middle_only: bool = option(False, "Only the questions of middle school.",
        read_by="!high_only", on_record="start")


class RaceSteps(FineTuningSteps, heading="Training and evaluation"):
    """The length of training, and which checkpoints to keep."""

    num_keep_checkpoint: int = option(5, _KEEP_EVALUATED, low=0, read_by="~do_eval",
        on_record="follow")


# === run_squad.py ================================================================================


class Squad(Options, heading="Questions and answers"):
    """Questions about paragraphs, the files of their features, and how they are answered."""

    train_file: str | None = option(None, "SQuAD JSON to train on.", path="file",
        required="do_train", read_by="~do_train")
    predict_file: str | None = option(None, path="file",
        required="do_predict", read_by="~do_predict", help=
        "SQuAD JSON with the questions to answer. If it has answers too, every checkpoint is "
        "evaluated on it, and the one with the best f1 is kept.")
    train_feature_file: str | None = option(None, _FEATURES.format("training"), path="output",
        read_by="~do_train")
    predict_feature_file: str | None = option(None, _FEATURES.format("predicted"), path="output",
        read_by="~do_predict")
    version_2_with_negative: bool | None = option(None, on_record="equal", help=
        "Whether questions may have no answer (SQuAD 2.0). Read from --train_file by default or, "
        "without --do_train, from the checkpoint.")
    null_score_diff_threshold: float | None = option(None,
        low=-LARGEST_THRESHOLD, high=LARGEST_THRESHOLD,
        read_by="version_2_with_negative=true", help=
        "Version 2: a question gets an answer only if its no-answer logit is below this. By "
        "default it is tuned if --predict_file has answers; otherwise the one tuned last is used.")
    doc_stride: int = option(128, "Tokens between the starts of two windows of a context.",
        low=1, on_record="equal", fits=("max_seq_length", NUM_SPECIALS))
    max_query_length: int = option(64, low=1, on_record="equal", help=
        "Maximum number of tokens of a question; the rest is cut off.")
    n_best_size: int = option(20, "Maximum number of answers to list for a question.", low=1,
        on_record="follow")
    max_answer_length: int = option(30, "Maximum length of an answer, in tokens.", low=1,
        on_record="follow")
    start_n_top: int = option(5, "Version 2: number of starts in the beam.", low=1,
        read_by="~version_2_with_negative=true", on_record="follow", fits=("max_seq_length", 0))
    end_n_top: int = option(5, "Version 2: number of ends in the beam for each start.", low=1,
        read_by="~version_2_with_negative=true", on_record="follow", fits=("max_seq_length", 0))
    dropout_prob: float = option(0.1, low=0, high=0.999,
        read_by="~do_train ~version_2_with_negative=true", help=
        "Version 2: dropout before the no-answer logit.")
    num_train_epochs: float = option(3.0, low=0, high=INT32_MAX, read_by="~do_train", help=
        "Number of passes over the training data, counted in questions and not in windows.")
    warmup_proportion: float = option(0.1, low=0, high=1, read_by="~do_train", help=
        "Share of the steps for the linear warm-up.")
    f1_unit: str = option(F1_UNITS[0], choices=F1_UNITS, read_by="~do_predict", help=
        "What F1 counts: words, or characters for languages without spaces between words, such as "
        "Chinese.")


# === run_pretraining.py ==========================================================================


class PretrainingData(Options, heading="Model and data"):
    """The model, and the records to train and evaluate on."""

    albert_config_file: str | None = option(None, path="config", on_record="equal", help=
        "JSON file with the model's architecture; by default the one next to --init_checkpoint.")
    input_file: str | None = option(None, path="files", required="do_eval|do_train",
        on_record="follow", help="Comma-separated globs of TFRecords to train on.")
    eval_input_file: str | None = option(None, path="files", read_by="~do_eval",
        on_record="follow", help=
        "Comma-separated globs of held-out TFRecords to evaluate on. By default, as in the "
        "original, the training data: --input_file.")
    output_dir: str | None = option(None, path="output", required=True, help=
        "Directory for checkpoints and results.")
    init_checkpoint: str | None = option(None, path="checkpoint", on_record="start", help=
        "Weights to start from: a prefix, its .index file, a directory or the name of a packaged "
        "model. Step and moments are not read. Ignored if --output_dir contains a run to resume.")
    init_from_group0: bool = option(False, read_by="init_checkpoint", on_record="start", help=
        "Fill every parameter group from the checkpoint's group 0.")
    max_seq_length: int = option(512, low=1,
        on_record="follow", fits=("max_position_embeddings", 0), help=
        "Length of the records, as given to create_pretraining_data.py. If the model has fewer "
        "positions, the default is their number.")
    max_predictions_per_seq: int = option(20, low=1, on_record="follow", help=
        "Predictions per record, as given to create_pretraining_data.py; twice that for data of "
        "--do_permutation. With --masked_lm_budget, the maximum number of tokens to mask.")


class PretrainingUpdates(Options, heading="Training and evaluation"):
    """Batches, steps and learning rate of pre-training."""

    sentence_loss_weight: float = option(1.0, low=0, on_record="follow", help=
        "Weight of the sentence-order loss; 0 leaves it out.")
    do_train: bool = option(True, "Train.")
    do_eval: bool = option(False, help=
        "Evaluate every checkpoint when it is written; without --do_train, only the newest one.")
    train_batch_size: int = option(4096, "Sequences per step, over all replicas.", low=1,
        read_by="~do_train", on_record="equal")
    eval_batch_size: int = option(64, "Sequences per evaluation batch.", low=1,
        read_by="~do_eval", on_record="follow")
    optimizer: str = option("lamb", choices=OPTIMIZERS,
        read_by="~do_train", on_record="equal", help=
        "lamb, for large batches, and adamw, for small ones, are the original's; muon is not, and "
        "needs fewer steps.")
    learning_rate: float = option(0.00176, "Peak learning rate, for a batch of 4096.", low=0,
        read_by="~do_train")
    poly_power: float = option(1.0, "Exponent of the polynomial decay.", low=0, read_by="~do_train")
    num_train_steps: int = option(125000, low=1,
        read_by="~do_train|do_eval", on_record="follow", help=
        "Total number of steps; the learning rate decays until then.")
    num_warmup_steps: int = option(3125, "Number of steps of the linear warm-up.", low=0,
        read_by="~do_train")
    start_warmup_step: int = option(0, "Step at which the warm-up begins.", low=0,
        read_by="~do_train")
    decay_steps: int | None = option(None, low=1, read_by="~do_train", help=
        "Number of steps at the end in which the learning rate decays; before them, it stays at "
        "the peak. By default, it decays from the first step, as in the original.")
    keep_checkpoint_max: int = option(5, "Number of newest checkpoints to keep; 0 for all.", low=0,
        read_by="~do_train")
    max_eval_steps: int = option(100, "Maximum number of batches of an evaluation.", low=1,
        read_by="~do_eval", on_record="follow")
    shuffle_buffer_size: int = option(WINDOW, low=1, high=LARGEST_WINDOW, read_by="~do_train", help=
        "Number of records that are shuffled together, after blocks of 1024 records were shuffled; "
        "twice as many are in memory. 1 keeps the order of files and records.")


class NGrams(Options, read_by="masked_lm_budget masked_lm_prob", on_record="follow"):
    """The n-grams to mask: in records as they are made, or as they are read.

    Only the latter needs --masked_lm_budget.
    """

    do_whole_word_mask: bool = option(True, help=
        "Mask whole words; if false, the n-grams consist of tokens.")
    favor_shorter_ngram: bool = option(True, help=
        "Draw n-gram lengths n with probability proportional to 1/n; if false, the probabilities "
        "are reversed, so that the longest are the most frequent.")
    ngram: int = option(3, low=1, high=_LONGEST, help=
        "Maximum length of an n-gram to mask, in words.")
    masked_lm_keep_prob: float = option(0.1, low=0, high=1, help=
        "Share of the tokens to predict that are not replaced. With 0, small models learn grammar "
        "better (Huebner et al., 2021).")
    masked_lm_random_prob: float = option(0.1, low=0, high=1, help=
        "Share of the tokens to predict that are replaced by random tokens; the rest is replaced "
        "by [MASK].")

    def __post_init__(self):
        super().__post_init__()
        keep, random = self.masked_lm_keep_prob, self.masked_lm_random_prob
        if keep + random > 1:
            raise UserError(
                f"--masked_lm_keep_prob={keep} and --masked_lm_random_prob={random} must not add "
                "up to more than 1")


class OnlineMasking(NGrams, heading="Masking while records are read, with --masked_lm_budget"):
    """Masking of records while they are read, with the names of create_pretraining_data.py."""

    masked_lm_budget: float = option(0.0, low=0, below=1, on_record="follow", help=
        "Share of the tokens to mask, such as 0.15, for records made with "
        "create_pretraining_data.py --masked_lm_prob=0. Each epoch has new masks. 0 if the records "
        "have masks.")
    spm_model_file: str | None = option(None, path="file", on_record="equal", help=
        "SentencePiece model of the records, if it is no longer where their summary says. With "
        "--masked_lm_budget, either this or --vocab_file is needed, for [MASK] and the random "
        "tokens.")
    vocab_file: str | None = option(None, path="file",
        on_record="equal", help="WordPiece vocabulary of the records.")


class Pretraining(Loop, PretrainingUpdates, PretrainingData):
    """All settings of a pre-training run.

    Args:
        masking: graph_masking.Masking, how to mask records; None for records already masked.
    """

    do_predict: bool = False  # only fine-tuning can predict
    masking: object = None


# === create_pretraining_data.py and train_sentencepiece.py =======================================


class Corpus(Options, heading="Text"):
    """Text files, and the cleaning of their text."""

    input_file: str | None = option(None, path="files", required=True, help=
        "Comma-separated glob patterns of text files, plain or compressed by gzip, bzip2, xz or "
        "Zstandard: one sentence per line, a blank line between documents. See --input_format for "
        "other forms.")
    do_lower_case: bool = option(True, "Lower-case the text, as the released models need.",
        on_record="equal")
    strip_accents: bool = option(True, _STRIP_ACCENTS, on_record="equal")


class TextFormat(Options, heading="Text"):
    """The format of text files."""

    input_format: str = option("sentences", choices=("sentences", "documents", "jsonl"), help=
        "sentences: one per line, and a blank line between documents. documents: a blank line "
        "between them, or see --document_per_line. jsonl: one JSON object per line. Documents are "
        "split into sentences by the package sentence-splitter.")
    document_per_line: bool = option(False, read_by="input_format=documents", help=
        "With --input_format=documents: every line is a document.")
    text_key: str = option("text", "With --input_format=jsonl: the key of the text; a.b is the "
        "key b of an object, or of each object in a list, under a.",
        read_by="input_format=jsonl")
    language: str = option("en", "Language of the documents, for splitting: a code such as de.",
        read_by="input_format=documents,jsonl")
    file_is_document: bool = option(False,
        read_by="input_format=sentences,documents !document_per_line", help=
        "Also end a document at the end of a file. By default only a blank line ends one, as in "
        "the original.")
    on_decode_error: str = option("stop", choices=("stop", "skip"), help=
        "How to treat a line that is not UTF-8: stop, or skip it; the summary counts them.")


class CorpusVocabulary(Options, heading="Vocabulary"):
    """The vocabulary of the records."""

    spm_model_file: str | None = option(None, path="file", help=
        "SentencePiece model, for instance 30k-clean.model. If it records casing and accents, the "
        "records follow it. Either this or --vocab_file is needed.")
    vocab_file: str | None = option(None, path="file", help=
        "WordPiece vocabulary, one piece per line. Not used if there is a --spm_model_file.")


class Selection(Options, heading="Choice of documents"):
    """Which documents of a corpus to leave out or hold out."""

    drop_duplicates: bool = option(False, help=
        "Leave out documents with the same tokens as an earlier one; the summary counts them.")
    drop_near_duplicates: float = option(0.0, low=0.5, high=1, or_zero=True, help=
        "Leave out documents that are at least this similar to an earlier one, such as 0.8. The "
        "similarity is the share of sequences of five tokens that both have. 0 keeps all.")
    heldout_fraction: float = option(0.0, low=0, below=1,
        read_by="heldout_output_file", help=
        "Approximate share of the documents to write to --heldout_output_file instead. Whether a "
        "document is held out depends only on its tokens.")


class WordStart(Options, heading="Pairs and masks"):
    """Where words begin, for whole-word masking."""

    word_start: str = option("original", choices=WORD_STARTS, read_by="do_whole_word_mask", help=
        "Which pieces begin a word. piece: those after a space. original: also those "
        "with anything but the letters a-z and some punctuation, which suits English and languages "
        "without spaces between words.")


class Instances(NGrams, heading="Pairs and masks"):
    """Contents of the records for pre-training."""

    do_permutation: bool = option(False, read_by="masked_lm_prob", help=
        "Also shuffle as many tokens as are masked, and predict them. The masked_lm_* features get "
        "twice as long: give run_pretraining.py twice this --max_predictions_per_seq.")
    random_next_sentence: bool = option(False, read_by="sentence_pairs=order,next", help=
        "Make records for BERT's next-sentence task: the second segment of a pair with the label 1 "
        "is from a random document. If false, for ALBERT's sentence order: the segments of a pair "
        "with the label 1 are swapped. Pairs in order have the label 0. A text of a single "
        "sentence gets a random second segment and the label 1 either way.")
    # The smallest has room for two tokens, which a short instance has at least.
    max_seq_length: int = option(512, low=SHORTEST, high=_LONGEST, help=
        "Maximum number of tokens per instance, with [CLS] and both [SEP]; shorter instances are "
        "padded with 0.")
    max_predictions_per_seq: int = option(20, low=1, high=_LONGEST, help=
        "Maximum number of tokens to predict per instance.")
    random_seed: int = option(12345, low=0, high=2**64 - 1, help=
        "Seed; the same seed gives the same records.")
    dupe_factor: int = option(40, low=1, high=10_000, help=
        "Number of passes over the text, each with other pairs and masks. Every pass takes disk "
        "space. With --masked_lm_prob=0, one pass is usually enough.")
    masked_lm_prob: float = option(0.15, low=0, high=1, help=
        "Share of the tokens to predict. 0 masks nothing: run_pretraining.py --masked_lm_budget "
        "masks such records while it reads them, anew in each epoch.")
    short_seq_prob: float = option(0.1, low=0, high=1, help=
        "Probability, per document and pass, of instances shorter than --max_seq_length.")
    sentence_pairs: str = option("order", choices=SENTENCE_PAIRS, help=
        "The segments of an instance. order: two, in order or swapped. next: as with "
        "--random_next_sentence. none: one, and no label, for short texts and text without "
        "sentences; train with run_pretraining.py --sentence_loss_weight=0.")
    max_line_length: int = option(0, low=2, high=_LONGEST, or_zero=True, help=
        "Cut lines (or sentences) with more tokens than this into parts, which are then treated "
        "like lines: for text without ends of sentences. 0 cuts none; with --sentence_pairs=none, "
        "all lines are cut that are longer than an instance.")
    line_overlap: int = option(0, low=0, read_by="sentence_pairs=none", help=
        "With --sentence_pairs=none: number of tokens that a part of a line has in common with the "
        "part before it.")

    def __post_init__(self):
        super().__post_init__()
        if self.pairs != "none":
            return
        room = self.max_seq_length - NUM_SPECIALS_OF_ONE
        if self.max_line_length > room:
            raise UserError(
                f"--max_line_length={self.max_line_length} must be at most {room}, the tokens of "
                f"an instance of --max_seq_length={self.max_seq_length}")
        if self.line_overlap >= self.longest_line:
            raise UserError(
                f"--line_overlap={self.line_overlap} must be below {self.longest_line}, the tokens "
                "of a part of a line")

    @property
    def pairs(self):
        """The segments of an instance: one of SENTENCE_PAIRS."""
        return "next" if self.random_next_sentence else self.sentence_pairs

    @property
    def longest_line(self):
        """Number of pieces from which on lines are cut (int); 0 for never."""
        if self.pairs == "none" and not self.max_line_length:
            return self.max_seq_length - NUM_SPECIALS_OF_ONE
        return self.max_line_length


class RecordFiles(Options, heading="Output"):
    """Output files for records, and the processes that write them."""

    output_file: str | None = option(None, path="output", required=True, help=
        "Comma-separated names of the TFRecord files to write; the instances go to them in turn. "
        "Names that end in .gz are compressed. name@64 stands for 64 files: name-00000-of-00064 "
        "and so on.")
    heldout_output_file: str | None = option(None, path="output",
        read_by="heldout_fraction", help=
        "Like --output_file, for the held-out documents.")
    num_output_shards: int | None = option(None, low=1, help=
        "Number of files to write, if --output_file is a single name; the same as name@N.")
    num_workers: int = option(1, low=1, read_by="!runner", help=
        "Number of processes. It does not change the records. Each file is written by one process, "
        "so name at least as many files.")
    work_directory: str | None = option(None, path="output", help=
        "Directory on a local disk (with --runner: a shared one, such as gs://...) for the state "
        "of the command and the tokenized text, which later commands reuse. By default a hidden "
        "directory next to the first output file, removed at the end.")


class Runner(Options, heading="Apache Beam"):
    """Apache Beam in place of processes of this machine."""

    runner: str | None = option(None, help=
        "Apache Beam runner that does the work: DataflowRunner, FlinkRunner, SparkRunner, "
        "DaskRunner, DirectRunner (this machine) or another one that Beam knows. All machines must "
        "be able to read all paths. The records are the same as without it.")
    beam_pipeline_options: list = option((), read_by="runner", help=
        "With --runner: Beam's pipeline options, such as project=my-project,region=us-east1.")


class SentencePieceFile(Options, heading="Model"):
    """Output file for a SentencePiece model."""

    model_prefix: str | None = option(None, path="output", required=True, help=
        "Path of the model without its ending; .model and .vocab are added.")


class SentencePiece(Options, heading="Model"):
    """A SentencePiece model to train, with SentencePiece's names."""

    vocab_size: int = option(30000, low=_SMALLEST_VOCABULARY, high=INT32_MAX, help=
        "Number of pieces, including the special ones.")
    # SentencePiece takes no fewer; its 0 means all.
    input_sentence_size: int = option(10_000_000, low=101, high=INT32_MAX, help=
        "Maximum number of sentences to train on; they are kept in memory. A larger text is "
        "sampled at random.")
    max_sentence_length: int = option(4192, low=10, high=2**30, help=
        "Maximum length of a sentence, in bytes; longer ones are left out and counted.")
    # SentencePiece takes no less.
    character_coverage: float = option(0.99995, low=0.98, high=1, help=
        "Share of the text's characters that get a piece; about 0.9995 for Chinese or Japanese.")
    seed: int = option(12345, "Seed for sampling sentences.", low=0, high=2**32 - 1)
    normalization_rule_name: str = option("nmt_nfkc", choices=NORMALIZATION_RULES, help=
        "SentencePiece's table that unifies characters. nfkc keeps joiners without width, as "
        "Persian needs them, which nmt_nfkc replaces by spaces; _cf: folds the case too; identity: "
        "no table, and letters with accents are not decomposed.")
    user_defined_symbols: list = option((), help=
        "Comma-separated texts that always are a piece of their own, such as <url>.")
    byte_fallback: bool = option(False, help=
        "Write characters without a piece as their bytes in UTF-8, with 256 pieces for bytes, so "
        "that nothing is unknown.")


class CasingLanguage(Options, heading="Text"):
    """The language whose rules hold for lower-casing."""

    casing_language: str = option("other", choices=CASING_LANGUAGES, read_by="do_lower_case", help=
        "The language whose own rules hold for lower-casing: tr Turkish and az Azerbaijani (I "
        "becomes \u0131, \u0130 becomes i), lt Lithuanian. The model records it.")


# === make_config.py, download_model.py and the exports ===========================================


class ConfigFile(Options, heading="Flags"):
    """A model's config to write."""

    size: str = option("base", "The size of the model.", choices=SIZES)
    vocab: str | None = option(None, path="file", required=True, help=
        "The SentencePiece model, or a WordPiece vocabulary (a file *.txt).")
    max_position_embeddings: int = option(512, "Maximum length of a sequence, in tokens.")
    output_file: str = option("albert_config.json", "File to write.", path="output")


class Download(Options, heading="Flags"):
    """A published model to download."""

    model: str | None = option(None, help=
        "Name of the model, such as base, base-v1 or albert/albert-base-v2; also without --model=.")
    output_dir: str | None = option(None, path="output", help=
        "Directory to write; by default it is named after the model, such as albert_base.")
    address: str | None = option(None, help=
        "Address to download from, such as that of a mirror, in place of "
        "https://storage.googleapis.com/albert_models or https://huggingface.co.")


class ExportedModel(Options):
    """A model to write in another form, and where to write it."""

    albert_directory: str | None = option(None, path="directory", required=True, help=
        "Directory with albert_config.json (or config.json of transformers), the checkpoint, and "
        "the SentencePiece model (and its .vocab, if there is one) or vocab.txt.")
    checkpoint_name: str = option("model.ckpt-best", path="output",
        read_by="~export_type=model", help=
        "Checkpoint in that directory: a prefix, or model.safetensors of the transformers library. "
        "Without a model.ckpt-best, the default is the newest checkpoint of a training.")
    do_lower_case: bool = option(True, on_record="equal", help=
        "Whether the text is lower-cased. By default as in run.json of the training, if there is "
        "one.")
    strip_accents: bool = option(True, _STRIP_ACCENTS, on_record="equal")
    card_file: str | None = option(None, path="file", read_by="export_format=hf", help=
        f"{_CARD} Hub modules and directories for transformers have a card.")


class CheckpointExport(ExportedModel, heading="Flags"):
    """A checkpoint to write in another form."""

    export_path: str | None = option(None, path="output", required=True, help=
        "Directory to write, or prefix of the checkpoint for --export_format=tf1 and tf2.")
    export_format: str = option("tf1", choices=("tf1", "tf2", "hf"), help=
        "tf1: the original's form, which every TensorFlow reads. tf2: tf.train.Checkpoint's. "
        "Neither needs a vocabulary. hf: a directory that from_pretrained of the transformers "
        "library reads.")
    dtype: str = option("fp32", choices=("fp32", "fp16"), read_by="export_format=hf", help=
        "For --export_format=hf: type of the weights in the file. fp16 halves it; albert_tf still "
        "computes in float32.")
    new_vocabulary: str | None = option(None, path="file", help=
        "Another vocabulary for the model, to go on training with: a SentencePiece model, or "
        "vocab.txt if the model has one. Pieces that the model knows keep their embeddings, new "
        "ones start from the mean of their parts, and others are dropped. The vocabulary is "
        "written with the model.")


class HubExport(ExportedModel, heading="Flags"):
    """A TF Hub module to write."""

    export_path: str | None = option(None, "Directory to write.", path="output", required=True)
    max_seq_length: int = option(128, low=NUM_SPECIALS_OF_ONE + 1,
        read_by="export_type=preprocessing", fits=("max_position_embeddings", 0), help=
        "Preprocessing: length of its output in tokens. If albert_config.json is there and has "
        "fewer positions, the default is their number.")
    export_type: str = option("model", choices=("model", "preprocessing"), help=
        "model: the encoder, with .mlm and .sop if the checkpoint has these heads. preprocessing: "
        "converts text to the inputs of the encoder.")


# === predict.py ==================================================================================


class PredictedModel(Options, heading="Model"):
    """The model to run."""

    saved_model: str | None = option(None, path="directory", read_by="!model", help=
        "Directory of an export, or a directory with several exports: the newest is used.")
    model: str | None = option(None, path="checkpoint", help=
        "Instead of --saved_model: the directory of a training, an unpacked release, a hub module "
        "or a transformers model; the prefix of a checkpoint; or the name of a packaged model. In "
        "the directory of a fine-tuning, the best checkpoint is used.")


class Examples(Options, heading="Examples and predictions"):
    """Examples to predict, questions to ask, and the output file."""

    text: list | None = option(None, repeated=True, read_by=NO_QUERY, help=
        "Text of an example; give the flag once for each example.")
    text_pair: list | None = option(None, repeated=True, read_by=NO_QUERY, help=
        "Second text of an example, once or as often as --text.")
    article: str | None = option(None, "Article of an example (RACE).", read_by=NO_QUERY)
    question: list | None = option(None, repeated=True, read_by=NO_QUERY, help=
        "Question of an example (RACE, SQuAD); give the flag once for each question of SQuAD.")
    context: list | None = option(None, repeated=True, read_by=NO_QUERY, help=
        "Context of an example (SQuAD), once or as often as --question.")
    options: list | None = option(None, repeated=True, read_by=NO_QUERY, help=
        "Options of an example (RACE); give the flag once for each option.")
    input_file: str | None = option(None, path="file", read_by=_FROM_FILE, help=
        "File with an example on each line; by default standard input, if no text is given.")
    delimiter: str | None = option(None, read_by=_FROM_FILE, help=
        "The character between columns, such as ';' or 'tab'. By default it is recognised.")
    header: bool | None = option(None, read_by=_FROM_FILE, help=
        "Whether the first line names the columns. By default it does if it names all inputs of "
        "the model.")
    text_column: str | None = option(None, read_by=_FROM_FILE, help=
        "Column of --input_file with the texts: a name in the first line or a number from 0. By "
        "default that of the training, if the file has it. With this flag, other columns are not "
        "copied to the predictions.")
    text_pair_column: str | None = option(None, read_by=f"text_column {_FROM_FILE}", help=
        "Column with the second texts.")
    id_column: str | None = option(None, read_by=_FROM_FILE, help=
        "Column that is copied to the predictions as `id`. Without flags for columns, all other "
        "columns are copied.")
    output_file: str | None = option(None, path="output file", help=
        "File for the predictions; by default standard output.")
    fill_mask: list | None = option(None, repeated=True,
        read_by="model !sentence_order !score", help=
        "A text with [MASK] in it, for a pre-trained --model; may be repeated.")
    top_k: int = option(5, low=1, read_by="fill_mask", help=
        "Number of tokens that --fill_mask shows for each [MASK].")
    sentence_order: list | None = option(None, repeated=True, read_by="model !score", help=
        "A text; give the flag twice. Prints the probability that the two texts are in this order. "
        "For a pre-trained --model.")
    score: bool | None = option(None, read_by="model", help=
        "Print the pseudo-log-likelihood of each text under a pre-trained --model, and the "
        "pseudo-perplexity of all texts on standard error.")
    method: str = option(SCORE_METHODS[0], choices=SCORE_METHODS, read_by="score", help=_METHOD)
    embeddings: list = option((), choices=EMBEDDINGS, repeated=True,
        read_by="!fill_mask !sentence_order !score", help=
        "Print the encoder's output instead of predictions: for each text (pooled_output) or for "
        "each token (sequence_output); for both, give the flag twice. RACE gives a list with an "
        "entry for each option, SQuAD for each window of the context. --model only gives "
        "pooled_output, of text and text_pair.")
    predict_batch_size: int = option(8, "Number of examples that are computed together.", low=1)


class TrainedModel(Options, heading=_MAY_BE_LACKING, read_by="model", on_record="equal"):
    """Settings that the directory of a model may lack."""

    albert_config_file: str | None = option(None, path="config", help=
        "JSON file with the model's architecture.")
    spm_model_file: str | None = option(None, "SentencePiece model.", path="file")
    vocab_file: str | None = option(None, "WordPiece vocabulary.", path="file")
    do_lower_case: bool | None = option(None, "Whether the text is lower-cased.")
    strip_accents: bool | None = option(None, "Whether the accents of letters are removed.")
    max_seq_length: int | None = option(None, "Maximum length of a sequence, in tokens.",
        on_record="follow")


class TrainedTask(Options, heading=_MAY_BE_LACKING, read_by="model", on_record="equal"):
    """The task of a fine-tuned model, which its directory may lack."""

    task_name: str | None = option(None, help=
        "The task of the fine-tuned model: a task of GLUE, tsv, multi_label, regression, ner or "
        "race.")
    labels: list | None = option(None, "The classes of the model in the order of their ids.")


# === minimal_pairs.py ============================================================================


class MinimalPairs(Options, heading="Minimal pairs"):
    """A pre-trained model, pairs of sentences, and what is measured on them."""

    model: str | None = option(None, path="checkpoint", required=True, help=
        "Directory of a pre-training, an unpacked release, a hub module or a transformers model; "
        "the prefix of a checkpoint; or the name of a packaged model.")
    input_file: str | None = option(None, path="files", required=True, help=
        "Comma-separated glob patterns of files with pairs: JSON lines with sentence_good, "
        "sentence_bad and optionally UID, field, linguistics_term, as in BLiMP; a good and a bad "
        "sentence with a tab between them; or a line for each, the good one first.")
    output_file: str | None = option(None, path="output file", help=
        "JSON file for the metrics. It is updated while the command runs, and a stopped command "
        "resumes from it.")
    pairs_per_paradigm: int = option(0, low=0, help=
        "Number of pairs to use of each paradigm, such as 100 for a quick look; 0 for all.")
    method: str = option(SCORE_METHODS[0], choices=SCORE_METHODS, help=_METHOD)

# fmt: on
