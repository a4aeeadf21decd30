# SPDX-License-Identifier: Apache-2.0
"""How TFLite files are compared with the model; test_serving.py has whole exports."""

from types import SimpleNamespace

import numpy as np
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.model import heads
from albert_tf.publish import graph_inputs, saved_models, signatures, tflite_files
from tests import tiny
from tests.errors import refuses


def test_a_tflite_file_with_nan():
    model = heads.ClassificationModel(AlbertConfig.from_dict(tiny.CONFIG), 2)
    functions = signatures.ClassifierFunctions(
        model, SimpleNamespace(choices=1, max_seq_length=8), ["a", "b"]
    )
    ids = tf.ones([1, 8], tf.int32)
    model(dict.fromkeys(graph_inputs.FEATURES, ids))
    model.classifier.bias.assign([np.nan, 0])
    with refuses("--export_tflite ... float ... nan"):
        tflite_files.convert(saved_models.Holder(model), functions)


def test_names_of_outputs_are_those_of_the_files_next_to_them(tmp_path):
    path = tmp_path / "labels.txt"
    path.write_text("of the user")
    files = {"float": (b"content", 0.0)}
    for converted, names, expected in (
        ({}, "no\nyes\n", "of the user"),
        (files, "", "of the user"),  # there were no files that it belongs to
        (files, "no\nyes\n", "no\nyes\n"),
        (files, "", None),
    ):
        tflite_files.save(str(tmp_path), converted, names)
        assert (path.read_text() if path.exists() else None) == expected


def test_places_in_a_beam_are_no_difference():
    expected = {
        "start_top_index": np.array([[[3, 4]]]),
        "start_top_log_probs": np.array([[[-1.0, -2.0]]]),
        "end_top_log_probs": np.array([[[-1.0, -3.0, -5.0, -7.0]]]),
    }
    swapped = expected | {
        "start_top_log_probs": np.array([[[-2.0, -1.0]]]),
        "end_top_log_probs": np.array([[[-3.0, -1.0, -5.0, -6.0]]]),
    }

    def differences(found):
        names = ("start_top_log_probs", "end_top_log_probs")
        return [tflite_files._differences(name, found, expected).max() for name in names]

    assert differences(swapped) == [0, 1]
    swapped["start_top_index"] = np.array([[[3, 5]]])
    assert differences(swapped) == [0, 0]
    swapped["end_top_log_probs"] = np.full([1, 1, 4], np.nan)
    assert np.isnan(differences(swapped)[1])
