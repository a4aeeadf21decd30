# SPDX-License-Identifier: Apache-2.0
"""Training steps of other libraries, for train_step.py, which starts this file as a process.

It needs nothing of this project but processes.py, so it runs in an environment of its own
(--peer_python) with the library to measure: transformers on PyTorch, or keras-hub on TensorFlow.
"""

import json
import os
import resource
import sys

import numpy as np
import processes

PREDICTIONS, WEIGHT_DECAY = "masked_lm_ids", 0.01


def serve(who, prepare):
    """Prepares a step, then does one for each question of a `Worker`, and reports it.

    Args:
        who: str, "products" if a step returns its own times.
        prepare: callable without arguments that returns the step.
    """

    def prepare_reports():
        step = prepare()
        step()

        def report(_):
            times, result = processes.timed(step)
            seconds, cpu = result if who == "products" else times.tolist()
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
            return {"seconds": seconds, "cpu": cpu, "peak": peak}

        return report

    processes.serve(prepare_reports)


def random_features(case):
    """A batch of random pieces without padding: dict of numpy arrays."""
    state = np.random.RandomState(0)
    batch, length, predictions = case["batch"], case["length"], case["predictions"]
    pieces = case["vocab_size"]
    shapes = {
        "input_ids": (pieces, length),
        "segment_ids": (2, length),
        "masked_lm_positions": (length, predictions),
        "masked_lm_ids": (pieces, predictions),
        "next_sentence_labels": (2, 1),
    }
    return {
        name: state.randint(0, high, [batch, columns]) for name, (high, columns) in shapes.items()
    }


def transformers_step(case):
    """AlbertForPreTraining on PyTorch, with AdamW: PyTorch has no LAMB."""
    import torch
    import transformers

    config = transformers.AlbertConfig(
        **{name: case["config"][name] for name in (
            "vocab_size", "embedding_size", "hidden_size", "num_hidden_layers",
            "num_attention_heads", "intermediate_size", "hidden_dropout_prob",
            "attention_probs_dropout_prob",
        )}
    )  # fmt: skip
    model = transformers.AlbertForPreTraining(config).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=WEIGHT_DECAY)
    features = {name: torch.tensor(array) for name, array in random_features(case).items()}
    # It computes logits of all positions; those without a label have -100.
    labels = torch.full_like(features["input_ids"], -100)
    labels.scatter_(1, features["masked_lm_positions"], features["masked_lm_ids"])
    inputs = {
        "input_ids": features["input_ids"],
        "token_type_ids": features["segment_ids"],
        "labels": labels,
        "sentence_order_label": features["next_sentence_labels"][:, 0],
    }

    def step():
        with torch.autocast("cpu", torch.bfloat16, enabled=case["dtype"] == "bf16"):
            loss = model(**inputs).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return loss.item()

    return step


def keras_hub_step(case):
    """AlbertMaskedLM, which has no sentence-order loss, with the LAMB of Keras 3."""
    os.environ["TF_USE_LEGACY_KERAS"] = "0"  # it wants Keras 3; the process that asks has Keras 2
    os.environ.setdefault("KERAS_BACKEND", "tensorflow")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import keras
    import keras_hub
    import tensorflow as tf

    keras.config.set_dtype_policy("mixed_bfloat16" if case["dtype"] == "bf16" else "float32")
    config = case["config"]
    backbone = keras_hub.models.AlbertBackbone(
        vocabulary_size=config["vocab_size"],
        num_layers=config["num_hidden_layers"],
        num_heads=config["num_attention_heads"],
        embedding_dim=config["embedding_size"],
        hidden_dim=config["hidden_size"],
        intermediate_dim=config["intermediate_size"],
        dropout=config["hidden_dropout_prob"],
    )
    model = keras_hub.models.AlbertMaskedLM(backbone)
    optimizer = keras.optimizers.Lamb(1e-4, weight_decay=WEIGHT_DECAY, global_clipnorm=1.0)
    optimizer.build(model.trainable_variables)
    features = {name: tf.constant(array) for name, array in random_features(case).items()}
    inputs = {
        "token_ids": features["input_ids"],
        "segment_ids": features["segment_ids"],
        "padding_mask": tf.ones_like(features["input_ids"]),
        "mask_positions": features["masked_lm_positions"],
    }
    loss_of = keras.losses.SparseCategoricalCrossentropy()  # of the probabilities it returns

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            loss = loss_of(features[PREDICTIONS], model(inputs, training=True))
        variables = [variable.value for variable in model.trainable_variables]
        optimizer.apply(tape.gradient(loss, variables), model.trainable_variables)
        return loss

    return lambda: step().numpy()


STEPS = {"transformers": transformers_step, "keras_hub": keras_hub_step}

if __name__ == "__main__":
    serve(sys.argv[1], lambda: STEPS[sys.argv[1]](json.loads(sys.argv[2])))
