# SPDX-License-Identifier: Apache-2.0
"""Describes a checkpoint for `python -m albert_tf.checkpoints.inspect PATH`."""

import argparse
import json
import math
import re

import numpy as np

from albert_tf import files, options, progress, resolve
from albert_tf.api.load import ROWS, load
from albert_tf.checkpoints import loading, name_table, readers, source
from albert_tf.errors import UserError, exit_code
from albert_tf.model import heads
from albert_tf.models import released
from albert_tf.text import sequences
from albert_tf.text.tokenization import FullTokenizer

_CHINESE = 21128  # vocabulary size of the Chinese releases
_BLOCK = re.compile(r"bert/encoder/transformer/group_(\d+)/inner_group_(\d+)/")
_USES = {  # head -> its use, besides what any encoder can be used for
    "masked_lm": "fill masks and go on with pre-training (run_pretraining.py --init_checkpoint)",
    "classifier": "classify (run_classifier.py, run_race.py or --task_name=ner, by its run)",
    "squad": "answer questions of SQuAD 1.1 (run_squad.py)",
    "start_logits": "answer questions of SQuAD 2.0 (run_squad.py)",
}


def guess_config(shapes):
    """Derives config values from the shapes of an encoder.

    Args:
        shapes: dict of original name -> list of int.

    Returns:
        dict of keys of AlbertConfig. The number of layers that share parameters cannot be derived,
        nor can the number of attention heads.

    Raises:
        UserError: the shapes are not those of an ALBERT encoder.
    """
    names = [f"bert/embeddings/{name}_embeddings" for name in ("word", "token_type", "position")]
    blocks = [match for match in map(_BLOCK.match, shapes) if match]
    kernels = [shape for name, shape in shapes.items() if name.endswith("ediate/dense/kernel")]
    absent = [name for name in names if name not in shapes]
    if absent or not (blocks and kernels):
        raise UserError(f"this is no encoder of ALBERT: there is no {(absent or ['layer'])[0]}")
    words, types, positions = (shapes[name] for name in names)
    hidden, intermediate = kernels[0]
    return {
        "vocab_size": words[0],
        "embedding_size": words[1],
        "hidden_size": hidden,
        "intermediate_size": intermediate,
        "num_hidden_groups": max(int(match[1]) for match in blocks) + 1,
        "inner_group_num": max(int(match[2]) for match in blocks) + 1,
        "max_position_embeddings": positions[0],
        "type_vocab_size": types[0],
    }


def name_of_release(config):
    """Released model with this config (str), such as `ALBERT-base, version 2`; None if none has."""
    sizes = {options.SIZES[name][:2]: name for name in released.SIZES}
    size = sizes.get((config.num_hidden_layers, config.hidden_size))
    if size is None or config.embedding_size != 128 or config.num_hidden_groups != 1:
        return None
    if config.vocab_size == _CHINESE:
        return f"ALBERT-{size}, Chinese"
    if config.vocab_size != 30000:
        return None
    has_dropout = config.hidden_dropout_prob or config.attention_probs_dropout_prob
    # xxlarge was trained without dropout in both versions.
    version = "1" if has_dropout else "1 or 2" if size == "xxlarge" else "2"
    return f"ALBERT-{size}, version {version}"


def describe(path):
    """Describes a checkpoint.

    Args:
        path: str, anything that `source.find` takes.

    Returns:
        list of str, lines.

    Raises:
        UserError: the checkpoint cannot be read, or its config or vocabulary does not fit it.
    """
    options.check_path("PATH", path)
    found = source.find(path, takes_exports=True)
    reader = readers.open_reader(found.checkpoint)
    weights = {name: shape for name, shape in reader.shapes.items() if name_table.is_weight(name)}
    guessed = guess_config(weights)
    slots = sum(map(name_table.is_slot, reader.shapes))
    parts = [head for head, names in name_table.HEAD_NAMES.items() if names[0] in weights]
    return [
        f"{reader.prefix}: {len(weights)} variables, "
        f"{sum(math.prod(shape) for shape in weights.values()):,} parameters, step "
        f"{loading.step_in(reader.prefix)}",
        f"moments of the optimizer: {'yes' if slots else 'no'}",
        "from the shapes: " + ", ".join(f"{key} {value}" for key, value in guessed.items()),
        "not from the shapes: num_attention_heads, perhaps "
        f"{max(guessed['hidden_size'] // 64, 1)} (a guess: 64 features a head), and the number of "
        "layers",
        f"heads: {', '.join(parts) or 'none'}",
        *_lines_of_directory(found),
        "can be loaded to fine-tune on any task (--init_checkpoint)",
        *(f"can be loaded to {use}" for head, use in _USES.items() if head in parts),
    ]


def _lines_of_directory(found):
    """Checks config and vocabulary of a checkpoint, and describes them: list of str, lines."""
    if not (found.config_file() or found.is_module or found.settings):
        return ["config: none next to it"]
    facts = source.facts(found, source.USE, {})
    settings = resolve.resolve(ROWS, {}, facts, key=source.key)
    config, _ = source.config_of(settings, found)
    model = heads.PretrainingModel(config)
    named = name_table.named_variables(model)
    loading.check_fit(loading.load(found.checkpoint, named, reads_pooler=model.reads_pooler))
    vocabulary = "none next to it"
    if found.vocabulary_file() or (found.settings and found.settings.vocabulary):
        tokenizer = FullTokenizer(**source.tokenizer_arguments(settings, found))
        config.check_vocabulary(tokenizer)
        vocabulary = f"{tokenizer.path}, {tokenizer.vocab_size:,} pieces"
    ids = np.arange(min(8, config.vocab_size), dtype=np.int32)[None]
    output = model.encoder(ids)["pooled_output"].numpy()
    if not np.isfinite(output).all():
        raise UserError("a forward pass gives infinite or NaN values: give an earlier checkpoint")
    return [
        f"config: {found.config_file() or found.directory}, "
        f"{name_of_release(config) or 'no released model'}; the shapes fit. Only the config says "
        f"that there are {config.num_attention_heads} attention heads",
        f"vocabulary: {vocabulary}",
        f"forward pass: all values finite, pooled output {output.mean():.4f} on average",
    ]


def states_of_layers(loaded, text):
    """The input of the first layer and the output of each: float32 array [L + 1, T, H].

    Args:
        loaded: albert_tf.api.loaded.Loaded.
        text: str; what exceeds the model's length is cut.
    """
    encoder = getattr(loaded.model, "encoder", loaded.model)
    features = sequences.packed(loaded.tokenizer, text, None, loaded.max_seq_length)
    outputs = encoder(features["input_ids"][:, : features["input_mask"].sum()])
    mapped = outputs["embedding_output"]
    if encoder.embedding_hidden_mapping_in is not None:
        mapped = encoder.embedding_hidden_mapping_in(mapped)
    return np.concatenate([mapped, *outputs["encoder_outputs"]])


def _describe_layers(path, text_file, layers_file):
    """Lines on how far each layer moves the states of tokens: Figure 1 of the paper.

    The numbers are written to a file too, if one is given.
    """
    options.check_path("text_file", text_file)
    texts = [line for line in files.read_text(text_file).splitlines() if line.strip()]
    if not texts:
        raise UserError(f"--text_file={text_file} has no text: give lines that the model may read")
    loaded, changes = load(path), []
    with progress.bar("reading", len(texts), " texts") as bar:
        for text in texts:
            states = states_of_layers(loaded, text)
            before, after = states[:-1], states[1:]  # [L, T, H]
            lengths = np.linalg.norm(states, axis=2)
            cosine = (before * after).sum(axis=2) / (lengths[:-1] * lengths[1:])
            angle = np.degrees(np.arccos(np.clip(cosine, -1, 1)))
            changes.append([np.linalg.norm(after - before, axis=2), angle])
            bar.update(1)
    distances, angles = np.concatenate(changes, axis=2).mean(axis=2).tolist()
    if layers_file:
        found = {"distance": distances, "angle": angles}
        found |= {"first_distance": distances[0], "last_distance": distances[-1]}
        files.write_text(layers_file, json.dumps(found, indent=2) + "\n")
    return [
        f"layer {number}: L2 distance {distance:.3f}, angle {angle:.2f} degrees (cosine "
        f"{math.cos(math.radians(angle)):.4f}) between input and output"
        for number, (distance, angle) in enumerate(zip(distances, angles, strict=True), 1)
    ]


def main(arguments=None):
    """Runs the command, which prints the description of a checkpoint.

    Args:
        arguments: list of str, or None for those of the command line.

    Returns:
        int, the exit code: 1 on bad input.
    """
    parser = argparse.ArgumentParser(
        prog="python -m albert_tf.checkpoints.inspect",
        description="Says what a checkpoint holds, checks it against config and vocabulary next to "
        "it, and names what can load it.",
    )
    parser.add_argument(
        "path",
        metavar="PATH",
        help="Directory (an unpacked release, a training, a hub module, one of the transformers "
        "library), prefix of a checkpoint, or name of a packaged model.",
    )
    parser.add_argument(
        "--text_file",
        help="Text: show how far each layer moves the states of its tokens (Figure 1 of ALBERT).",
    )
    parser.add_argument("--layers_file", help="JSON file to write these numbers into.")
    given = parser.parse_args(arguments)

    def lines():
        if given.layers_file and not given.text_file:
            raise UserError(f"--layers_file={given.layers_file} needs --text_file")
        more = _describe_layers(**vars(given)) if given.text_file else []
        return "\n".join([*describe(given.path), *more])

    return exit_code("inspect", lines)
