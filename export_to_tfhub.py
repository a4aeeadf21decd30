# SPDX-License-Identifier: Apache-2.0
r"""Makes a TF Hub module of a model: the encoder, or the preprocessing of its text.

python export_to_tfhub.py --albert_directory=albert_base --export_path=modules/albert_base
python export_to_tfhub.py --albert_directory=albert_base --export_path=modules/albert_preprocess \
  --export_type=preprocessing
"""

import dataclasses
import os
import tempfile

from albert_tf import options, resolve
from albert_tf.cli import flag_groups, launch
from albert_tf.config import CONFIG_FILE


def export_model(given, tokenizer):
    """Writes the encoder, with the heads that the checkpoint has.

    Raises:
        UserError: the checkpoint lacks part of the encoder.
    """
    import tensorflow as tf

    from albert_tf import files
    from albert_tf.checkpoints import loading, name_table, source
    from albert_tf.model import heads
    from albert_tf.publish import hub, saved_models

    found = source.Source(given.albert_directory)
    config = found.read_config()
    config.check_vocabulary(tokenizer)
    model = heads.PretrainingModel(config)
    path = flag_groups.exported_checkpoint(given)
    report = loading.load(path, name_table.named_variables(model))
    loading.check_fit(report)
    print(dataclasses.replace(report, missing=()))  # heads, which are left out
    trained = []
    for name, title in (("sop", "sentence-order"), ("mlm", "masked-LM")):
        if not {*name_table.HEAD_NAMES[hub.HEADS[name]]} & {*report.not_loaded}:
            trained.append(name)
        else:
            print(f"The checkpoint has no {title} head, and so no {name} in the module.")
    kind = "sp_model_file" if tokenizer.is_sentencepiece else "vocab_file"
    assets = {"config_file": found.config_file() or "", kind: tokenizer.path}
    readable = tokenizer.path.removesuffix(".model") + ".vocab"
    if tokenizer.is_sentencepiece and tf.io.gfile.exists(readable):
        assets["sp_vocab_file"] = readable
    with tempfile.TemporaryDirectory() as scratch:
        if os.path.basename(assets["config_file"]) != CONFIG_FILE:  # of transformers or a module
            assets["config_file"] = os.path.join(scratch, CONFIG_FILE)
            files.write_text(assets["config_file"], config.to_json_string())
        module = hub.HubModule(model, trained, assets, **tokenizer.casing)
        signatures = module.signatures()
        card = hub.model_card(
            config, module, signatures, given.export_path, tokenizer, report, given.card_file
        )
        saved_models.save_module(module, given.export_path, signatures, card)


def export_preprocessing(given, tokenizer):
    """Writes the preprocessing.

    Raises:
        UserError: the model has fewer positions than --max_seq_length.
    """
    from albert_tf.checkpoints import source
    from albert_tf.publish import hub, saved_models

    path = source.Source(given.albert_directory).config_file()
    if path:
        given, _ = resolve.fitted(given, source.read_config(path), path)
    module = hub.Preprocessing(tokenizer, given.max_seq_length)
    card = hub.preprocessing_card(
        tokenizer, given.max_seq_length, given.export_path, given.card_file
    )
    saved_models.save_module(module, given.export_path, card=card)
    if tokenizer.is_sentencepiece:
        print(hub.EQUAL_SPLITS)


def main(given):
    """Checks everything, then exports."""
    flag_groups.check_albert_directory(given, reads_model=given.export_type == "model")

    from albert_tf.cli import model_flags
    from albert_tf.publish import saved_models

    saved_models.check_export_path(given.export_path)
    export = export_model if given.export_type == "model" else export_preprocessing
    export(given, model_flags.directory_tokenizer(given))
    print(f"Written: {given.export_path}, with a README.md that shows how to call it.")


run = launch.command(main, options.HubExport, options.Einsum)  # albert-export-hub


if __name__ == "__main__":
    run()
