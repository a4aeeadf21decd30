# SPDX-License-Identifier: Apache-2.0
"""Flags that several scripts share, and how a script ends: flags come in here, values go out."""

import contextlib
import dataclasses
import functools
import json
import os
import platform
import shlex
import signal
import sys

import tensorflow as tf
import tf_keras
from absl import app, flags, logging

from albert_tf import __version__, files
from albert_tf.checkpoints import hub_modules, transformers
from albert_tf.config import AlbertConfig
from albert_tf.errors import UserError, one_line
from albert_tf.publish import saved_models, tflite_files
from albert_tf.publish.graph_tokenization import GraphTokenizer
from albert_tf.text.tokenization import FullTokenizer
from albert_tf.training import devices, run_record

FLAGS = flags.FLAGS
_INT32_MAX = 2**31 - 1  # what TensorFlow's loops count in

# The original's flags without any meaning left (D20): name -> (default, what to know instead).
_OBSOLETE = {
    "master": (None, "--tpu_name takes a TPU's grpc address"),
    "num_tpu_cores": (8, "all cores of the TPU are used"),
    "predict_feature_left_file": (None, "what it held is computed in every run"),
    "use_einsum": (True, "there is one implementation, with the same results"),
}


def define_obsolete_flags(*names):
    """Defines flags that are accepted and do nothing; `note_obsolete_flags` says so."""
    for name in names:
        default, instead = _OBSOLETE[name]
        text = f"Accepted and without effect: {instead}."
        if isinstance(default, bool):
            flags.DEFINE_bool(name, default, text)
        elif isinstance(default, int):
            flags.DEFINE_integer(name, default, text)
        else:
            flags.DEFINE_string(name, default, text)


def note_obsolete_flags():
    """Prints a line for each flag without effect that the user gave."""
    for name, (_, instead) in _OBSOLETE.items():
        if name in FLAGS and FLAGS[name].present:
            print(f"--{name} has no effect any more: {instead}.")


def define_device_flags():
    """Flags on devices, precision and chance, with the Model Garden's names."""
    flags.DEFINE_enum(
        "distribution_strategy",
        "one_device",
        devices.STRATEGIES,
        "Where to train: one_device (a GPU if there is one), mirrored (all GPUs of this machine), "
        "multi_worker_mirrored (machines named in TF_CONFIG), tpu, or off.",
    )
    flags.DEFINE_integer("num_gpus", None, "GPUs to use; all by default.")
    flags.DEFINE_bool("use_tpu", False, "Same as --distribution_strategy=tpu.")
    flags.DEFINE_string("tpu_name", None, "Cloud TPU name or grpc address; none for a local TPU.")
    flags.DEFINE_string("tpu_zone", None, "Zone of the Cloud TPU, if it cannot be found out.")
    flags.DEFINE_string("gcp_project", None, "Project of the Cloud TPU, if it cannot be found out.")
    flags.DEFINE_enum(
        "dtype",
        "fp32",
        sorted(devices.PRECISIONS),
        "Computation type; variables stay in fp32. bf16 for TPUs and new CPUs, fp16 for GPUs.",
    )
    flags.DEFINE_bool("enable_xla", False, "Compile with XLA (GPU; a TPU always does).")
    flags.DEFINE_integer(
        "seed", None, "Fixes weights, dropout and the order of records; random by default."
    )
    define_obsolete_flags("master", "num_tpu_cores")


def define_finetuning_flags(
    max_seq_length, learning_rate, save_checkpoints_steps, do_train=False, do_eval=False
):
    """Flags that the fine-tuning scripts share; the arguments are the script's own defaults."""
    flags.DEFINE_string(
        "albert_config_file",
        None,
        "JSON file with the model's architecture: albert_config.json, or config.json of the "
        "transformers library.",
    )
    flags.DEFINE_string(
        "spm_model_file", None, "SentencePiece model; empty or unset where --vocab_file is given."
    )
    flags.DEFINE_string("vocab_file", None, "WordPiece vocabulary, for models without the former.")
    flags.DEFINE_string("output_dir", None, "Directory for checkpoints and results.")
    flags.DEFINE_string(
        "init_checkpoint",
        None,
        "Encoder weights to start from: a prefix, its .index file, a directory, or "
        "model.safetensors of the transformers library. The head starts afresh. Without "
        "--do_train: a fine-tuned model to evaluate or predict with. Not read if --output_dir "
        "holds a run.",
    )
    flags.DEFINE_string(
        "albert_hub_module_handle",
        None,
        "Local directory of an exported module, of TensorFlow 1 or 2, in place of "
        "--albert_config_file, --init_checkpoint, --spm_model_file, --vocab_file and "
        "--do_lower_case.",
    )
    flags.DEFINE_bool("allow_random_init", False, "Train from random weights if none are given.")
    flags.DEFINE_bool("do_lower_case", True, "Lower-case the text, as the released models need.")
    flags.DEFINE_integer("max_seq_length", max_seq_length, "Longest sequence, in pieces.")
    flags.DEFINE_bool("do_train", do_train, "Train.")
    flags.DEFINE_bool("do_eval", do_eval, "Evaluate every checkpoint and keep the best.")
    flags.DEFINE_bool("do_predict", False, "Predict the test set with the best checkpoint.")
    flags.DEFINE_integer("train_batch_size", 32, "Examples of an update, over all replicas.")
    flags.DEFINE_integer("eval_batch_size", 8, "Examples of an evaluation batch.")
    flags.DEFINE_integer("predict_batch_size", 8, "Examples of a prediction batch.")
    flags.DEFINE_integer(
        "shuffle_buffer_size",
        100,
        "Records from which training draws at random; more, up to all, where a file is sorted.",
    )
    flags.DEFINE_float("learning_rate", learning_rate, "Peak learning rate.")
    flags.DEFINE_integer(
        "save_checkpoints_steps", save_checkpoints_steps, "Updates between checkpoints."
    )
    flags.DEFINE_integer(
        "iterations_per_loop", 1000, "Updates between two points of the TensorBoard curves."
    )
    flags.DEFINE_integer(
        "steps_per_loop", None, "The Model Garden's name of --iterations_per_loop."
    )
    flags.DEFINE_float(
        "continuous_eval_timeout",
        0.0,
        "Without --do_train: seconds to wait for a newer checkpoint of a run that goes on "
        "elsewhere.",
    )
    define_device_flags()


def define_export_flags():
    """Flags of the scripts that export what they trained."""
    flags.DEFINE_string(
        "export_dir",
        None,
        "Where to write the best checkpoint as a SavedModel, in a folder named after the time: ids "
        "in or text in, predictions out. predict.py runs it. Settings of text are the training's.",
    )
    flags.DEFINE_bool(
        "export_text",
        True,
        "Let the SavedModel take text too, which needs tensorflow-text to be loaded; without, it "
        "takes ids alone and tensorflow suffices.",
    )
    flags.DEFINE_bool(
        "export_tflite",
        False,
        "Write TFLite files of the model into --export_dir too: float32, float16 and int8.",
    )


def read_config():
    """The model's config, from --albert_config_file or the hub module, checked for its length.

    Raises:
        UserError: there is none, or it has fewer positions than --max_seq_length.
    """
    path, module = FLAGS.albert_config_file, hub_module()
    if not path and not module:
        raise UserError("give --albert_config_file or --albert_hub_module_handle")
    config = transformers.read_config(path) if path else hub_modules.read_config(module)
    if FLAGS.max_seq_length > config.max_position_embeddings:
        raise UserError(
            f"--max_seq_length={FLAGS.max_seq_length} exceeds max_position_embeddings="
            f"{config.max_position_embeddings} of {path or module}"
        )
    return config


def hub_module():
    """The directory of --albert_hub_module_handle; None if the flag is not given or not known.

    Raises:
        UserError: it is no directory.
    """
    # run_pretraining.py shares functions of this file and has no such flag.
    handle = "albert_hub_module_handle" in FLAGS and FLAGS.albert_hub_module_handle
    if handle and not tf.io.gfile.isdir(handle):
        raise UserError(
            f"--albert_hub_module_handle={handle} is no directory: download the module and give "
            "the directory that holds its saved_model.pb"
        )
    return handle or None


def vocabulary_file():
    """Path of the vocabulary in use: the SentencePiece model, or vocab.txt.

    That of a hub module comes first, as in the original, whose users give a mere word such as
    `from_tf_hub` as --spm_model_file then.
    """
    module = hub_module()
    return (
        (module and hub_modules.vocabulary_file(module)) or FLAGS.spm_model_file or FLAGS.vocab_file
    )


def do_lower_case():
    """Whether text is lower-cased: as the hub module says or, if there is none, --do_lower_case.

    A flag that was given and says otherwise than the module is not followed, and a line says so.
    """
    module = hub_module()
    given = FLAGS["do_lower_case"]
    return _casing(module, given.value, given.present > 0) if module else given.value


@functools.cache  # so that the line comes once
def _casing(module, flag, is_given):
    told = hub_modules.lower_case(module)
    if told is None:
        return flag
    if is_given and flag != told:
        print(
            f"--do_lower_case={str(flag).lower()} is not followed: {module} was made for "
            f"{'lower-cased text' if told else 'text with its capitals'}."
        )
    return told


def make_tokenizer():
    """The tokenizer of the flags.

    Raises:
        UserError: no vocabulary is given, or it cannot be read.
    """
    return FullTokenizer(**_vocabulary())


def make_graph_tokenizer():
    """The same for a graph, a GraphTokenizer."""
    return GraphTokenizer(**_vocabulary())


def _vocabulary():
    path = vocabulary_file()
    if not path:
        raise UserError("give --spm_model_file or --vocab_file")
    if path.endswith(".txt") or path == FLAGS.vocab_file:
        return {"vocab_file": path, "do_lower_case": do_lower_case()}
    return {"spm_model_file": path, "do_lower_case": do_lower_case()}


def directory_vocabulary():
    """The vocabulary in --albert_directory.

    Returns:
        (str, dict): its path, and the arguments of FullTokenizer and its likes.

    Raises:
        UserError: there is none, or several.
    """
    path = hub_modules.vocabulary_in(FLAGS.albert_directory)
    if path is None:
        raise UserError(
            f"--albert_directory={FLAGS.albert_directory} holds no vocabulary: put the "
            "SentencePiece model (*.model) or vocab.txt there"
        )
    record = run_record.read(FLAGS.albert_directory)
    if record:
        _follow_flag("do_lower_case", record)
        _check_same_vocabulary(path, record)
    kind = "vocab_file" if path.endswith(".txt") else "spm_model_file"
    return path, {kind: path, "do_lower_case": FLAGS.do_lower_case}


def check_vocabulary(config, tokenizer, path=None):
    """Raises UserError if the tokenizer has ids for which the model has no embedding.

    Args:
        config: AlbertConfig.
        tokenizer: FullTokenizer.
        path: str or None, its file; that of the flags by default.
    """
    if tokenizer.vocab_size > config.vocab_size:
        raise UserError(
            f"{path or vocabulary_file()} has {tokenizer.vocab_size} pieces and the config has "
            f"vocab_size={config.vocab_size}: one belongs to another model"
        )


def init_checkpoint():
    """Where to take weights from: --init_checkpoint, or the hub module's variables; or None."""
    return FLAGS.init_checkpoint or hub_module()


def follow_run(checkpoint):
    """Sets the flags that make a model's text and vocabulary to those of its training (D24).

    Where the run left no record, as those of the original, the flags hold.

    Args:
        checkpoint: str, prefix or directory; or None.

    Raises:
        UserError: a flag was given and says otherwise, or the vocabulary is gone.
    """
    is_directory = checkpoint and tf.io.gfile.isdir(checkpoint)
    directory = checkpoint if is_directory else os.path.dirname(checkpoint or "")
    record = run_record.read(directory) if checkpoint else None
    if record is None:
        return
    for name in record.text:
        if name in FLAGS:
            _follow_flag(name, record)
    if vocabulary_file():
        _check_same_vocabulary(vocabulary_file(), record)
    elif record.vocabulary:
        flag, path, expected = (record.vocabulary[name] for name in ("flag", "path", "sha256"))
        if not tf.io.gfile.exists(path) or run_record.sha256(path) != expected:
            raise UserError(
                f"{path}, the vocabulary according to {record.path}, is gone or another file now: "
                f"give the right one as --{flag}"
            )
        FLAGS[flag].value = path
    if FLAGS.albert_config_file or hub_module():
        _check_same_config(read_config(), record)


def _follow_flag(name, record):
    flag, value = FLAGS[name], record.text.get(name)
    if value is None:
        return
    if flag.present and flag.value != value:
        raise UserError(
            f"--{name}={json.dumps(flag.value)}, but the model was trained with "
            f"--{name}={json.dumps(value)} ({record.path}): leave the flag out"
        )
    flag.value = value


def _check_same_vocabulary(path, record):
    expected = record.vocabulary
    if expected and run_record.sha256(path) != expected["sha256"]:
        raise UserError(
            f"{path} is not the vocabulary that the model was trained with, {expected['path']} "
            f"with sha256 {expected['sha256'][:12]}... ({record.path}): give that file"
        )


def _check_same_config(config, record):
    chance = {"hidden_dropout_prob", "attention_probs_dropout_prob", "initializer_range"}
    keys = {field.name for field in dataclasses.fields(AlbertConfig)} - chance
    ours = config.to_dict()
    for key in sorted(keys):
        if ours.get(key) != record.config.get(key):
            raise UserError(
                f"{FLAGS.albert_config_file or hub_module()} has {key}={ours.get(key)!r}, but the "
                f"model was trained with {record.config.get(key)!r} ({record.path}): give the "
                "config of the training"
            )


def check_export_flags():
    """Raises UserError for flags of `define_export_flags` that do not go together."""
    if FLAGS.export_tflite and not FLAGS.export_dir:
        raise UserError("--export_tflite needs --export_dir")
    if not (FLAGS.export_text or FLAGS.export_dir):
        raise UserError("--export_text=false needs --export_dir")


def export(model, functions, tokenizer, config, labels=None, folder=""):
    """Writes a fine-tuned model as --export_dir and --export_tflite ask for; says what and where.

    Args:
        model: one of `heads`, with its weights.
        functions: classifier_functions.ClassifierFunctions or squad_functions.SquadFunctions of it.
        tokenizer: GraphTokenizer.
        config: AlbertConfig.
        labels: sequence of str or None, the class names.
        folder: str, where in --export_dir the folders named after the time lie.
    """
    tflite = {}
    if FLAGS.export_tflite:  # first: nothing is written if it fails
        length = FLAGS.max_seq_length
        tflite = tflite_files.convert_to_tflite(model, functions, length, config.vocab_size)
    path = saved_models.new_directory(os.path.join(FLAGS.export_dir, folder))
    contents = {"albert_config.json": config.to_json_string()}
    if labels is not None:
        contents[saved_models.LABELS_FILE] = "".join(f"{label}\n" for label in labels)
    vocabulary = "sp_model_file" if tokenizer.is_sentencepiece else "vocab_file"
    assets = {vocabulary: vocabulary_file()}
    tokenizer = tokenizer if FLAGS.export_text else None
    saved_models.save(path, model, functions, tokenizer, assets, contents)
    if FLAGS.export_text:
        texts = " ".join(f"--{name}=..." for name in functions.texts.signature)
        print(f"Exported. Try it: python predict.py --saved_model={shlex.quote(path)} {texts}")
    else:
        print(f"Exported, for ids alone: {path}")
    paths = tflite_files.save_tflite(FLAGS.export_dir, tflite)
    for path, (kind, file) in zip(paths, tflite.items(), strict=True):
        print(
            f"TFLite, {kind}: {path}, {len(file.content) / 2**20:.2f} MiB, largest difference "
            f"from the model {file.difference:.1e}"
        )


def set_up_devices():
    """Sets seed, precision and XLA from the flags and builds the strategy.

    To be called before anything is computed or read by TensorFlow: it then accepts no other
    machines any more (multi_worker_mirrored).

    Returns:
        tf.distribute.Strategy.
    """
    if FLAGS.enable_xla:
        tf.config.optimizer.set_jit(True)
    for gpu in tf.config.list_physical_devices("GPU"):
        tf.config.experimental.set_memory_growth(gpu, True)
    name = "tpu" if FLAGS.use_tpu else FLAGS.distribution_strategy
    strategy = devices.create_strategy(
        name, FLAGS.num_gpus, FLAGS.tpu_name, FLAGS.tpu_zone, FLAGS.gcp_project
    )
    set_seed(FLAGS.seed)
    devices.set_precision(FLAGS.dtype)
    workers = ", ".join(strategy.extended.worker_devices)
    print(f"Devices ({name}, {FLAGS.dtype}): {strategy.num_replicas_in_sync} replica(s): {workers}")
    return strategy


def set_seed(seed):
    """Fixes weights, dropout and shuffling to come; None leaves them to chance.

    Raises:
        UserError: NumPy has no such seed.
    """
    if seed is not None and not 0 <= seed < 2**32:
        raise UserError(f"--seed must be from 0 to {2**32 - 1}. Received: {seed}")
    if seed is not None:
        tf_keras.utils.set_random_seed(seed)


def check_at_least(smallest, *names):
    """Raises UserError for a flag with a smaller value, infinity or beyond int32; None is none."""
    for name in names:
        value = FLAGS[name].value
        if value is not None and not value >= smallest:  # nan is neither
            raise UserError(f"--{name} must be at least {smallest}. Received: {value}")
        largest = _INT32_MAX if isinstance(value, int) else sys.float_info.max
        if value is not None and value > largest:
            raise UserError(f"--{name} must be at most {largest}. Received: {value}")


def check_not_empty(*names):
    """Raises UserError for a flag of a path that is given and empty."""
    for name in names:
        if FLAGS[name].value == "":
            raise UserError(f"--{name} is empty: give a path, such as ./{name}")


@contextlib.contextmanager
def locked(directory, strategy):
    """Keeps other processes from training or evaluating in a directory while the block runs.

    What the flags ask for is locked: a process that evaluates, beside one that only trains, is
    nothing wrong. Of several workers, the chief alone locks.

    Args:
        directory: str, a run's.
        strategy: tf.distribute.Strategy.

    Raises:
        UserError: another process trains or evaluates there.
    """
    evaluates = any(name in FLAGS and FLAGS[name].value for name in ("do_eval", "do_predict"))
    purposes = {"training": FLAGS.do_train, "evaluating": evaluates}
    with contextlib.ExitStack() as held:
        for purpose, is_wanted in purposes.items():
            if is_wanted and devices.is_chief(strategy):
                files.lock(directory, purpose)
                held.callback(files.unlock, directory, purpose)
        yield


def record_run(directory, config, run, input_files):
    """Writes down what a training run is made with, so that it can be read, repeated and exported.

    `flags.txt` and `albert_config.json` are for scripts to take again, `run.json` for `follow_run`
    and for people. To be called once the run's weights are found to fit: a run that fails must not
    leave another config beside the checkpoints of the one before.

    Args:
        directory: str.
        config: AlbertConfig.
        run: training.Run.
        input_files: sequence of str, what is trained and evaluated on.
    """
    own = FLAGS.get_key_flags_for_module(sys.argv[0])
    given = {flag.name: flag.value for flag in own if flag.value is not None}
    lines = [f"--{name}={value}\n" for name, value in given.items()]
    files.write_text(os.path.join(directory, "flags.txt"), "".join(lines))
    files.write_text(os.path.join(directory, "albert_config.json"), config.to_json_string())
    content = {
        # JSON has no nan; absl's flags have one where none was given
        "flags": {name: value for name, value in given.items() if value == value},
        "config": config.to_dict(),
        **_text_settings(),
        "versions": {
            "python": platform.python_version(),
            "tensorflow": tf.__version__,
            "albert_tf": __version__,
        },
        "devices": list(run.strategy.extended.worker_devices),
        "parameter_count": sum(v.shape.num_elements() for v in run.task.variables.values()),
        "input_files": {path: tf.io.gfile.stat(path).length for path in input_files},
    }
    run_record.write(directory, content)


def _text_settings():
    """What `run_record.Record` holds of the flags: `text` and `vocabulary`."""
    text = {name: FLAGS[name].value for name in run_record.TEXT_FLAGS if name in FLAGS}
    if "spm_model_file" not in FLAGS:  # pre-training
        return {"text": text, "vocabulary": None}
    path = vocabulary_file()
    vocabulary = {
        "flag": "vocab_file" if "vocab_file" in _vocabulary() else "spm_model_file",
        "path": path if "://" in path else os.path.abspath(path),
        "sha256": run_record.sha256(path),
    }
    return {"text": text | {"do_lower_case": do_lower_case()}, "vocabulary": vocabulary}


def run(main):
    """Runs a script: flags are parsed, and bad input ends in one plain line and exit code 1.

    ALBERT_TF_TRACEBACK=1 in the environment shows where such an error was raised.

    Args:
        main: callable, takes the arguments that are no flags.
    """
    script = os.path.splitext(os.path.basename(sys.argv[0]))[0]
    logging.set_verbosity(logging.WARNING)

    def guarded(argv):
        # How schedulers end a job; training saves on it. Only as long as somebody catches it.
        signal.signal(signal.SIGTERM, interrupt)
        try:
            if len(argv) > 1:
                raise UserError(f"not a flag: {' '.join(argv[1:])}. Flags begin with --")
            main(argv)
        except (UserError, *_OF_THE_MACHINE) as error:
            if os.environ.get("ALBERT_TF_TRACEBACK"):
                raise
            message = str(error) if isinstance(error, UserError) else one_line(error)
            print(f"{script}: error: {message}", file=sys.stderr)
            sys.exit(1)
        except KeyboardInterrupt:
            print(f"{script}: stopped", file=sys.stderr)
            sys.exit(130)
        finally:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def interrupt(*_):
        raise KeyboardInterrupt

    module = sys.modules[main.__module__]  # albert_tf.cli.predict, else the script itself
    sys.modules["__main__"].__doc__ = module.__doc__  # --help shows it, and the flags of:
    for defining in (sys.modules[__name__], module):
        for flag in FLAGS.get_key_flags_for_module(defining):
            FLAGS.register_key_flag_for_module(sys.argv[0], flag)
    app.run(guarded)


# What files, disks, memory and devices may raise; all else that is no UserError is a defect.
_OF_THE_MACHINE = (
    OSError,
    MemoryError,
    tf.errors.NotFoundError,
    tf.errors.PermissionDeniedError,
    tf.errors.ResourceExhaustedError,
    tf.errors.UnavailableError,
    tf.errors.UnauthenticatedError,
)
