# SPDX-License-Identifier: Apache-2.0
"""Fine-tuning: five steps equal those of the original, and trimming batches changes nothing."""

import dataclasses
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from albert_tf import options
from albert_tf.checkpoints import loading
from albert_tf.config import AlbertConfig
from albert_tf.model import heads, objectives
from albert_tf.tasks.classification import ClassificationTask
from albert_tf.training import finetuning
from tests import GOLDEN, read_arrays
from tests.errors import refuses


def three_classes(**options):
    """A task of three classes, as far as runs need it."""
    return SimpleNamespace(
        make_model=lambda config, **_: heads.ClassificationModel(config, 3, **options),
        objective=objectives.CLASSIFICATION,
        inputs=ClassificationTask.inputs,
    )


def test_an_export_that_lacks_a_package_is_refused_before_the_training(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "tensorflow_text", None)  # an import fails
    both = options.FineTuning(
        output_dir=str(tmp_path), export_dir=str(tmp_path / "export"), train_steps=1
    )
    with refuses("'albert_tf[export]'"):
        finetuning.fine_tune(None, None, both, tf.distribute.get_strategy())
    both = dataclasses.replace(both, export_text=False)  # needs no package
    with pytest.raises(AttributeError, match="check_export"):
        finetuning.fine_tune(SimpleNamespace(task=None), None, both, tf.distribute.get_strategy())


@pytest.mark.usefixtures("optimized")
def test_five_steps_equal_the_originals(tmp_path):
    """Through the loop; we clip by a norm 0.8% larger, to which Adam is nearly blind."""
    folder = GOLDEN / "heads" / "classifier3_mnli"
    golden = read_arrays(folder / "adamw_5steps_nodropout.npz")
    config = AlbertConfig.from_json_file(str(GOLDEN / "heads" / "albert_config.json"))
    strategy = tf.distribute.OneDeviceStrategy("device:CPU:0")
    steps = {"train_steps": 6, "save_checkpoints_steps": 5, "warmup_steps": 2}
    given = steps | {"output_dir": str(tmp_path), "learning_rate": 1e-3, "train_batch_size": 6}
    settings = options.FineTuning(**given)
    task = three_classes(dropout_prob=0.0)
    run = finetuning.make_run(task, config, strategy, settings, trains=True)
    run.settings = dataclasses.replace(run.settings, train_steps=5)  # of the 6 of the schedule
    loading.load(str(folder), run.variables)
    features = read_arrays(folder / "inputs.npz")
    run.train(lambda **_: tf.data.Dataset.from_tensors(features).repeat(), 6)
    for name, variable in run.variables.items():
        tolerance = 1e-2 if name.endswith("key/bias") else 1e-3
        difference = np.abs(variable.numpy() - golden[name]).max()
        assert difference <= tolerance * np.abs(golden[name]).max(), name
