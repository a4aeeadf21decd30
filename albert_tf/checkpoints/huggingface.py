# SPDX-License-Identifier: Apache-2.0
"""Configs of the transformers library, and directories for it.

Its kernels are [outputs, inputs], the transpose of the original's. Its `hidden_act` "gelu_new" is
the original's "gelu". Otherwise the numbers agree.
"""

import json
import os
import re

import numpy as np
import safetensors.numpy
import tensorflow as tf
from absl import logging

from albert_tf import files, vocabulary_record
from albert_tf.checkpoints import name_table, readers, run_directory
from albert_tf.config import AlbertConfig
from albert_tf.errors import UserError, check_choice

CONFIG, TOKENIZER_CONFIG, TOKENIZER = "config.json", "tokenizer_config.json", "tokenizer.json"
SENTENCE_CONFIG = "sentence_bert_config.json"  # of Sentence-Transformers
_TOKENIZER = {  # what their tokenizers may do otherwise -> what ours does
    "word_tokenizer_type": "basic", "subword_tokenizer_type": "wordpiece",
    "tokenize_chinese_chars": True, "do_basic_tokenize": True,
}  # fmt: skip
_SPECIAL = {"cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]"}
_ADDED = "added_tokens.json"
_TOKENIZER_CLASSES = (  # whose pieces are ours, also with Fast at the end; the last are generic
    "AlbertTokenizer", "BertTokenizer", "DistilBertTokenizer", "ElectraTokenizer",
    "PreTrainedTokenizer", "TokenizersBackend", "",
)  # fmt: skip

# Class in transformers -> its heads. The first class whose heads are all there is written.
_CLASSIFICATION = "AlbertForSequenceClassification"
MULTIPLE_CHOICE = "AlbertForMultipleChoice"
_TOKENS = "AlbertForTokenClassification"
ENCODER = "AlbertModel"
# Classes with the same head, told apart by the task.
_OF_TASK = {"race": MULTIPLE_CHOICE, "ner": _TOKENS}
_ARCHITECTURES = {
    "AlbertForQuestionAnswering": ("squad",),
    MULTIPLE_CHOICE: ("classifier",),
    _TOKENS: ("classifier",),
    _CLASSIFICATION: ("classifier",),
    "AlbertForPreTraining": ("masked_lm", "sentence_order"),
    "AlbertForMaskedLM": ("masked_lm",),
    ENCODER: (),
}
_ONE_LABEL = "single_label_classification"
_SEVERAL_LABELS = "multi_label_classification"
WITH_MASKED_LM = [name for name, parts in _ARCHITECTURES.items() if "masked_lm" in parts]
_ACTIVATIONS = {"gelu": "gelu_new", "relu": "relu", "tanh": "tanh", "linear": "linear"}
_SAME_KEYS = (
    "vocab_size", "embedding_size", "hidden_size", "num_hidden_layers", "num_attention_heads",
    "intermediate_size", "inner_group_num", "hidden_dropout_prob", "attention_probs_dropout_prob",
    "max_position_embeddings", "type_vocab_size", "initializer_range",
)  # fmt: skip
_FIXED_KEYS = {"layer_norm_eps": 1e-12, "position_embedding_type": "absolute"}


# --- Config -----------------------------------------------------------------------------------


def from_their_config(values):
    """Makes a config from the values in `config.json`.

    Args:
        values: dict, the parsed JSON object.

    Returns:
        AlbertConfig.

    Raises:
        UserError: the model is not ALBERT, or this project cannot compute it.
    """
    model_type = values.get("model_type", "albert")
    if model_type != "albert":
        raise UserError(f"model_type must be albert. Received: {model_type!r}")
    for key, value in _FIXED_KEYS.items():
        if values.get(key, value) != value:
            raise UserError(f"{key} must be {value}. Received: {values[key]!r}")
    groups = {"num_hidden_groups": values.get("num_hidden_groups", 1)}
    same = {key: values[key] for key in _SAME_KEYS if key in values}
    hidden_act = _our_activation(values.get("hidden_act", "gelu_new"))
    config = AlbertConfig.from_dict({**same, **groups, "hidden_act": hidden_act})
    check_expressible(config)
    return config


def read_labels(directory):
    """Reads the class names in `config.json` of a directory, in order; None if there are none.

    Args:
        directory: str.

    Returns:
        tuple of str or None.
    """
    names = read_values(directory).get("id2label")
    try:
        labels = tuple(str(names[str(number)]) for number in range(len(names)))
    except (KeyError, TypeError):
        return None
    return None if set(labels) == set(_default_labels(len(labels))) else labels


def read_task(directory, outputs):
    """Reads the task of a fine-tuned model from `config.json`; None if unknown.

    Args:
        directory: str.
        outputs: int, number of outputs of its classifier.

    Returns:
        str or None: race, ner, regression, multi_label, or tsv for texts with a label each.

    Raises:
        UserError: this project does not have the task, or does not know the class.
    """
    values = read_values(directory)
    names = values.get("architectures")
    if not isinstance(names, list) or len(names) != 1:
        return None
    name = re.sub("^(TF|Flax)", "", str(names[0]))
    if name == _CLASSIFICATION:
        # One output without a problem_type is a score in transformers too.
        problem = values.get("problem_type") or ("regression" if outputs == 1 else _ONE_LABEL)
        if problem == _SEVERAL_LABELS:
            return "multi_label"
        if problem not in ("regression", _ONE_LABEL) or (problem == "regression" and outputs > 1):
            raise UserError(
                f"{directory}/{CONFIG}: no task has problem_type {problem!r} with {outputs} outputs"
            )
        return "regression" if problem == "regression" else "tsv"
    if name not in _ARCHITECTURES:
        raise UserError(
            f"{directory}/{CONFIG} names the class {name}, which albert_tf does not know: "
            f"give the task, or write one of {', '.join(_ARCHITECTURES)} there"
        )
    return next((task for task, theirs in _OF_TASK.items() if theirs == name), None)


def read_values(directory, name=CONFIG):
    """The values in a JSON file of a directory: dict, empty if there are none."""
    path = os.path.join(directory, name)
    values = files.read_json(path) if tf.io.gfile.exists(path) else None
    return values if isinstance(values, dict) else {}


def other_modules(directory):
    """Modules of Sentence-Transformers beyond the mean of the last layer: list of str, types."""
    path = os.path.join(directory, "modules.json")
    modules = files.read_json(path) if tf.io.gfile.exists(path) else []
    kinds = [str(module.get("type")).rpartition(".")[2] for module in modules]
    pooling = read_values(directory, os.path.join("1_Pooling", CONFIG))
    modes = {key for key, value in pooling.items() if value is True and "mode" in key}
    others = [kind for kind in kinds if kind not in ("Transformer", "Pooling", "Normalize")]
    return others + sorted(modes - {"pooling_mode_mean_tokens"})


def read_casing(directory, key):
    """What the files of a tokenizer say of casing or accents.

    Args:
        directory: str.
        key: str, do_lower_case or strip_accents.

    Returns:
        (bool, or None if unknown; str, the path of the file that says it).
    """
    values = read_values(directory, TOKENIZER_CONFIG)
    value, kept = values.get(key), values.get("keep_accents")  # the name of AlbertTokenizer
    if key == "strip_accents" and not isinstance(value, bool) and isinstance(kept, bool):
        value = not kept
    if isinstance(value, bool):
        return value, os.path.join(directory, TOKENIZER_CONFIG)
    normalizer = read_values(directory, TOKENIZER).get("normalizer")
    value = _normalizes(normalizer, key) if isinstance(normalizer, dict) else None
    return value, os.path.join(directory, TOKENIZER)


def _normalizes(normalizer, key):
    """Whether a normalizer of the library `tokenizers`, a dict, does what `key` says (bool)."""
    steps = _steps(normalizer)
    kind, option = {
        "do_lower_case": ("Lowercase", "lowercase"),
        "strip_accents": ("StripAccents", "strip_accents"),
    }[key]
    for step in steps:
        if step.get("type") == "BertNormalizer":
            value = step.get(option)
            return bool(step.get("lowercase") if value is None else value)
    return any(step.get("type") == kind for step in steps)


def _steps(normalizer):
    """The steps of a normalizer, also of sequences in it: list of dict."""
    inner = normalizer.get("normalizers")
    if not inner:
        return [normalizer]
    return [step for each in inner if isinstance(each, dict) for step in _steps(each)]


def check_tokenizer(directory, vocabulary):
    """Raises UserError if texts become other pieces in transformers than here.

    Args:
        directory: str, of a model of transformers; nothing is checked without its files on tokens.
        vocabulary: str, path of its vocabulary.
    """
    of_model = {key: v for key, v in read_values(directory).items() if key == "tokenizer_class"}
    own = read_values(directory, TOKENIZER_CONFIG)
    values = own if own.get("tokenizer_class") else own | of_model
    added = _added(directory, own)
    if not (values or added):
        return
    content, is_wordpiece = files.read_bytes(vocabulary), vocabulary.endswith(".txt")
    if is_wordpiece:
        text = content.decode("utf-8-sig", "replace").replace("\r\n", "\n")
        tokens = text.rstrip("\n").split("\n")
    else:
        tokens = vocabulary_record.pieces(content)
    others = [token for token, id_ in added.items() if tokens[id_:][:1] != [token]]
    if others and tokens:
        raise UserError(
            f"{directory} adds tokens to {vocabulary}, which albert_tf cannot do: use "
            f"transformers. They are {', '.join(others)}"
        )
    if unlike := _unlike_ours(values, is_wordpiece):
        key, value = next(iter(unlike.items()))
        path = os.path.join(directory, TOKENIZER_CONFIG if key in own else CONFIG)
        raise UserError(
            f"{path} has {key}={json.dumps(value)}, which albert_tf cannot do: use transformers"
        )
    seen = set()
    for number, line in enumerate(tokens if is_wordpiece else (), 1):
        if line in seen:
            raise UserError(
                f"{vocabulary}, line {number} repeats {line!r}: replace the first of the two by a "
                "token that no text has"
            )
        seen.add(line)


def _unlike_ours(values, is_wordpiece):
    """The values in `tokenizer_config.json` of what our tokenizers do not do: dict."""
    name = str(values.get("tokenizer_class") or "").removesuffix("Fast")
    found = {} if name in _TOKENIZER_CLASSES else {"tokenizer_class": name}
    for key, ours in _SPECIAL.items():
        value = values.get(key)
        if (value.get("content") if isinstance(value, dict) else value) not in (None, ours):
            found[key] = value
    if is_wordpiece:
        known = _TOKENIZER.items()
        found |= {key: values[key] for key, ours in known if values.get(key) not in (None, ours)}
        if values.get("strip_accents") and values.get("do_lower_case") is False:
            found["strip_accents"] = True  # ours are stripped with capitals alone
    return found


def _added(directory, values):
    """What a tokenizer cuts out of texts before all else: dict from token to id.

    Special tokens are among them. Three versions of transformers write them to three places.
    """
    try:
        found = {token: int(id_) for token, id_ in read_values(directory, _ADDED).items()}
        for id_, token in (values.get("added_tokens_decoder") or {}).items():
            found[token["content"]] = int(id_)
        for token in read_values(directory, TOKENIZER).get("added_tokens") or ():
            found[token["content"]] = int(token["id"])
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UserError(
            f"{directory}: the added tokens of its tokenizer cannot be read ({error!r})"
        ) from error
    return found


def _default_labels(count):
    return [f"LABEL_{number}" for number in range(count)]


def _our_activation(theirs):
    if theirs == "gelu":
        logging.warning('hidden_act "gelu" is read as "gelu_new", the form of the released models')
        return "gelu"
    ours = {value: key for key, value in _ACTIVATIONS.items()} | {"gelu_pytorch_tanh": "gelu"}
    check_choice("hidden_act", theirs, ours)
    return ours[theirs]


def to_their_config(config, architecture, special_ids, outputs=None):
    """Makes the content of `config.json`.

    Args:
        config: AlbertConfig that passes `check_expressible`.
        architecture: str, class in transformers.
        special_ids: dict of str -> int: pad_token_id, bos_token_id, eos_token_id.
        outputs: dict from `architecture_of`, or None.

    Returns:
        dict.
    """
    return {
        "architectures": [architecture],
        "model_type": "albert",
        **{key: getattr(config, key) for key in _SAME_KEYS},
        "num_hidden_groups": len({*config.groups("attention")}),
        "hidden_act": _ACTIVATIONS[config.hidden_act.lower() or "linear"],
        "classifier_dropout_prob": 0.1,  # what the original's fine-tuning uses
        "tie_word_embeddings": True,
        **_FIXED_KEYS,
        **special_ids,
        **(outputs or {}),
    }


def check_expressible(config):
    """Raises UserError for an architecture that transformers computes differently or not at all.

    Args:
        config: AlbertConfig.
    """
    if config.embedding_size == config.hidden_size:
        raise UserError(
            "transformers projects the embeddings also if embedding_size = hidden_size = "
            f"{config.hidden_size}, and ALBERT does not: give another --export_format"
        )
    groups = config.groups("attention")
    if groups != config.groups("ffn"):
        raise UserError(
            f"transformers cannot share parameters as parameter_sharing="
            f"{config.parameter_sharing!r} does: give another --export_format"
        )
    count = max(groups) + 1
    for layer, ours in enumerate(groups):
        theirs = int(layer / (len(groups) / count))
        if ours != theirs:
            raise UserError(
                f"layer {layer} has parameter group {ours} of {count} here, and {theirs} in "
                "transformers: give another --export_format"
            )


# --- Writing ----------------------------------------------------------------------------------


def architecture_of(shapes, hidden_size, head=None):
    """Finds the class in transformers for a checkpoint's heads; fine-tuned heads come first.

    Args:
        shapes: dict of original name -> list of int.
        hidden_size: int, H.
        head: run_directory.FinetunedTask of the head, or None if unknown.

    Returns:
        (str, dict): the class, and the values of `config.json` for its outputs. Labels with unknown
        names are LABEL_0 and so on.

    Raises:
        UserError: the head is of another model or task, or the task must be known and is not.
    """
    of_other_tasks = {*_OF_TASK.values()} - {_OF_TASK.get(head.task_name) if head else None}
    architecture = next(
        architecture
        for architecture in _ARCHITECTURES
        if all(name in shapes for name in _names_of_heads(architecture))
        and architecture not in of_other_tasks
    )
    parts, names = _ARCHITECTURES[architecture], _names_of_heads(architecture)
    if parts not in (("squad",), ("classifier",)):
        return architecture, {}
    weights, bias = (shapes[name] for name in names)
    count = weights[0] if weights else 0
    if weights != [count, hidden_size] or bias != [count] or (parts == ("squad",) and count != 2):
        raise UserError(f"{names[0]} {weights} with a bias {bias} do not fit H={hidden_size}")
    if parts == ("squad",):
        return architecture, {}
    if head is None and count == 1:
        raise UserError(
            f"{names[0]} has one row, and so have the heads of regression and of RACE: put a "
            'finetuned_task.json next to the checkpoint with {"task_name": "sts-b", "labels": '
            'null}, or {"task_name": "race", "labels": ["A", "B", "C", "D"]}'
        )
    if head is not None and count != head.num_outputs:
        raise UserError(f"{names[0]} has {count} outputs, which do not fit {head}")
    if architecture == MULTIPLE_CHOICE:
        return architecture, {}
    is_regression = head is not None and head.labels is None
    labels = (head and (head.labels or head.scores)) or _default_labels(count)
    classes = {
        "id2label": {str(number): label for number, label in enumerate(labels)},
        "label2id": {label: number for number, label in enumerate(labels)},
    }
    if architecture == _TOKENS:
        return architecture, classes
    several = head is not None and head.task_name == "multi_label"
    problem = "regression" if is_regression else _SEVERAL_LABELS if several else _ONE_LABEL
    return architecture, {"problem_type": problem} | classes


def _names_of_heads(architecture):
    return [name for head in _ARCHITECTURES[architecture] for name in name_table.HEAD_NAMES[head]]


def write(directory, config, tensors, tokenizer_files, dtype=np.float32):
    """Writes a directory for `from_pretrained` of transformers.

    Args:
        directory: str, empty.
        config: dict, from `to_their_config`.
        tensors: dict of original name -> array, of the encoder and any heads.
        tokenizer_files: dict of file name -> bytes, from `transformers_tokenizer`.
        dtype: type of the weights in the file, np.float32 or np.float16.

    Returns:
        list of str, the original names of the written tensors; others are not in the class.

    Raises:
        UserError: a weight is too large for float16.
    """
    (architecture,) = config["architectures"]
    heads, weights = _names_of_heads(architecture), {}
    names = [name for name in tensors if name in heads or name_table.is_encoder(name)]
    for name in names:
        with np.errstate(over="ignore"):  # reported below
            array = np.asarray(tensors[name], dtype)
        if not np.isfinite(array).all():
            raise UserError(f"{name} has values that are too large for --dtype=fp16")
        array = array.T if name.endswith("/kernel") else array
        weights[name_table.to_transformers(name)] = np.ascontiguousarray(array)
    if not _ARCHITECTURES[architecture]:
        weights = {name.removeprefix(readers.BASE): value for name, value in weights.items()}
    contents = tokenizer_files | {
        CONFIG: files.json_bytes(config),
        # transformers refuses a file that does not say which library's layout it has.
        run_directory.SAFETENSORS: safetensors.numpy.save(weights, metadata={"format": "pt"}),
    }
    files.write_bytes({os.path.join(directory, n): content for n, content in contents.items()})
    return names
