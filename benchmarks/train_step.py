# SPDX-License-Identifier: Apache-2.0
"""Pre-training steps: time against that of their matrix products, memory, peers.

Each implementation runs in a process of its own. The processes take turns, one step each, so that
other work of the machine affects all of them. "products" runs all matrix products of a step and
nothing else: the limit.

python benchmarks/train_step.py --sizes=base --lengths=128 --batch_sizes=8 --dtypes=fp32,bf16 \
  --peers=official
"""

import argparse
import contextlib
import functools
import itertools
import json
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import peers
import processes
import tensorflow as tf

from albert_tf import options
from albert_tf.config import AlbertConfig
from albert_tf.model import dropout, flops, fused, heads, objectives, optimization
from albert_tf.training import devices

SIZES = options.SIZES | {"demo": (2, 128, 4)}  # layers, hidden size, heads
PEERS = ("official", *peers.STEPS)
CASE = {  # what a case need not say
    "layers": 0, "vocab_size": 30000, "optimizer": "lamb", "dropout": 0.0, "recompute": False,
    "forward_only": False,
}  # fmt: skip


def config_of(case):
    """The AlbertConfig of a case."""
    layers, hidden, num_heads = SIZES[case["size"]]
    return AlbertConfig(
        vocab_size=case["vocab_size"],
        num_hidden_layers=case["layers"] or layers,
        hidden_size=hidden,
        intermediate_size=4 * hidden,
        num_attention_heads=num_heads,
        hidden_dropout_prob=case["dropout"],
        attention_probs_dropout_prob=case["dropout"],
    )


def features_of(case):
    """A batch of random pieces without padding."""
    arrays = peers.random_features(case)
    features = {name: tf.constant(array, tf.int32) for name, array in arrays.items()}
    features["input_mask"] = tf.ones_like(features["input_ids"])
    features["masked_lm_weights"] = tf.ones([case["batch"], case["predictions"]])
    return features


# --- What is measured: each returns a function of no arguments that does one step -----------------


def our_step(case, compiled=True):
    """A training step of this library; one forward pass with --forward_only."""
    config, features = config_of(case), features_of(case)
    model = heads.PretrainingModel(config, recompute=case["recompute"])
    if case["forward_only"]:
        forward = tf.function(lambda: model(features)["masked_lm_logits"])
        return lambda: forward().numpy()
    tf.function(lambda: model(features), autograph=False).get_concrete_function()  # the variables
    variables = model.trainable_variables
    optimizer = optimization.create_optimizer(case["optimizer"], 1e-4)
    optimizer.build(variables)

    @tf.function(autograph=False)
    def step():
        key = tf.stack([1, tf.cast(optimizer.iterations, tf.int32)])
        with dropout.seeded(key), fused.compiled(compiled):
            with tf.GradientTape() as tape:
                terms = objectives.pretraining_terms(features, model(features, training=True))
                loss = objectives.pretraining_loss(terms)
            apply_clipped(tape.gradient(loss, variables), variables, optimizer)
        return loss, terms["masked_lm_accuracy"]

    return lambda: step()[0].numpy()


def apply_clipped(gradients, variables, optimizer):
    """Updates the variables that have a gradient by what clipping leaves of it."""
    used = [v for g, v in zip(gradients, variables, strict=True) if g is not None]
    dense = [tf.convert_to_tensor(g) for g in gradients if g is not None]
    clipped, _ = optimization.clip_by_global_norm(dense)
    optimizer.apply_gradients(zip(clipped, used, strict=True))


def official_step(case):
    """The same step with encoder, pre-training heads and LAMB of the TensorFlow Model Garden."""
    from official.modeling import activations
    from official.modeling.optimization import lamb
    from official.nlp.modeling import layers, models, networks

    config, features = config_of(case), features_of(case)
    network = networks.AlbertEncoder(
        vocab_size=config.vocab_size,
        embedding_width=config.embedding_size,
        hidden_size=config.hidden_size,
        num_layers=config.num_hidden_layers,
        num_attention_heads=config.num_attention_heads,
        type_vocab_size=config.type_vocab_size,
        intermediate_size=config.intermediate_size,
        dropout_rate=case["dropout"],
        attention_dropout_rate=case["dropout"],
        dict_outputs=True,
    )
    order = layers.ClassificationHead(config.hidden_size, 2, dropout_rate=0.0, name="order")
    model = models.BertPretrainerV2(
        network, mlm_activation=activations.gelu, classification_heads=[order]
    )
    inputs = {
        "input_word_ids": features["input_ids"],
        "input_mask": features["input_mask"],
        "input_type_ids": features["segment_ids"],
        "masked_lm_positions": features["masked_lm_positions"],
    }
    model(inputs)
    variables = model.trainable_variables
    excluded = ["LayerNorm", "layer_norm", "bias"]
    optimizer = lamb.LAMB(1e-4, weight_decay_rate=0.01, exclude_from_weight_decay=excluded)

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            outputs = model(inputs, training=True)
            found = {
                "masked_lm_logits": tf.cast(outputs["mlm_logits"], tf.float32),
                "sentence_order_logits": tf.cast(outputs["order"], tf.float32),
            }
            terms = objectives.pretraining_terms(features, found)
            loss = objectives.pretraining_loss(terms)
        apply_clipped(tape.gradient(loss, variables), variables, optimizer)
        return loss, terms["masked_lm_accuracy"]

    return lambda: step()[0].numpy()


def products_of(case):
    """Matrix products of a step: batch dimensions, rows, inner size, columns, how often."""
    config = config_of(case)
    batch, length, hidden = case["batch"], case["length"], config.hidden_size
    layers, embedding = config.num_hidden_layers * config.inner_group_num, config.embedding_size
    matrices = batch * config.num_attention_heads
    rows, size = batch * length, config.head_size
    yield 1, rows, hidden, hidden, 2 * layers  # keys and values
    # The last block computes the rest only for the masked pieces and the first one.
    for count, places in ((layers - 1, length), (1, case["predictions"] + 1)):
        yield 1, batch * places, hidden, hidden, 2 * count
        yield 1, batch * places, hidden, config.intermediate_size, count
        yield 1, batch * places, config.intermediate_size, hidden, count
        yield matrices, places, size, length, count
        yield matrices, places, length, size, count
    yield 1, rows, embedding, hidden, 1
    yield 1, batch * case["predictions"], hidden, embedding, 1
    yield 1, batch * case["predictions"], embedding, config.vocab_size, 1


def products_step(case):
    """The products of a step, each measured once and counted as often as a step has it."""
    dtype = tf.bfloat16 if case["dtype"] == "bf16" else tf.float32
    todo = []
    for matrices, rows, inner, columns, count in products_of(case):
        x, kernel, y = (
            tf.cast(tf.random.normal([matrices, *shape] if matrices > 1 else shape), dtype)
            for shape in ([rows, inner], [inner, columns], [rows, columns])
        )
        todo += [(count, x, kernel, False, False)]
        todo += [(count, y, kernel, False, True), (count, x, y, True, False)]

    @tf.function(autograph=False)
    def product(a, b, transpose_a, transpose_b):
        return tf.matmul(a, b, transpose_a=transpose_a, transpose_b=transpose_b)

    def step():
        totals = np.zeros(2)
        for count, *args in todo:
            times, _ = processes.timed(product, *args)
            totals += count * times
        return totals.tolist()

    return step


WORKERS = {
    "products": products_step,
    "ours": our_step,
    "plain": functools.partial(our_step, compiled=False),  # in its elementwise functions
    "official": official_step,
}


def work(who, case):
    """Runs in the process of one of WORKERS."""

    def prepare():
        devices.set_precision(case["dtype"])
        return WORKERS[who](case)

    peers.serve(who, prepare)


# --- The process that asks ------------------------------------------------------------------------


def start(who, case):
    """The process of one of WORKERS or of `peers.STEPS`: a Worker that does steps."""
    command = [sys.executable, __file__, "--worker", who]
    if who in peers.STEPS:
        case = case | {"config": config_of(case).to_dict()}
        command = [case["peer_python"], peers.__file__, who]
    return processes.Worker([*command, json.dumps(case)])


def measure(case, names, rounds):
    """Rows of the table for one case; "ours" is measured with each of the optimizers."""
    optimizers = case["optimizer"].split(",")
    kinds = [(who, each) for who in names for each in optimizers[: None if who == "ours" else 1]]
    with contextlib.ExitStack() as stack:
        workers = [
            stack.enter_context(start(who, case | {"optimizer": optimizer}))
            for who, optimizer in kinds
        ]
        turns = [[worker.ask() for worker in workers] for _ in range(rounds)]
    config = config_of(case)
    count = flops.forward_flops if case["forward_only"] else flops.training_flops
    operations = count(config, case["batch"], case["length"], case["predictions"])
    times = [min(report["seconds"] for report in reports) for reports in zip(*turns, strict=True)]
    limit, first = times[0], times[names.index("ours")]  # "products" is the first if it is there
    for (who, optimizer), worker, seconds, *reports in zip(
        kinds, workers, times, *turns, strict=True
    ):
        is_limit = who == "products"
        name = f"{who}, {optimizer}" if who == "ours" else who
        yield {
            "size": case["size"],
            "layers": config.num_hidden_layers,
            **{key: case[key] for key in ("length", "batch", "dtype")},
            "who": name + (" recompute" if case["recompute"] and not is_limit else ""),
            "step s": round(seconds, 4 if seconds < 0.1 else 3),
            "CPU s": round(min(report["cpu"] for report in reports), 3),
            "of products": f"{limit / seconds:.0%}" if "products" in names else "",
            "of the first": f"{seconds / first:.2f}",
            "GFLOP/s": round(operations / seconds / 1e9),
            "peak GiB": "" if is_limit else round(reports[-1]["peak"] / 2**30, 2),
            "start s": round(worker.start, 1),
        }


def table_of(rows):
    """The rows, dicts with the same keys in the same order, as a Markdown table."""
    lines = [rows[0], ["---"] * len(rows[0]), *(row.values() for row in rows)]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def arguments():
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__)

    def listed(kind):
        return lambda text: [kind(part) for part in text.split(",") if part]

    parser.add_argument("--sizes", type=listed(str), default=["base"], help=", ".join(SIZES))
    parser.add_argument("--layers", type=listed(int), default=[0], help="instead of the size's")
    parser.add_argument("--lengths", type=listed(int), default=[128])
    parser.add_argument("--batch_sizes", type=listed(int), default=[8], help="one per length")
    parser.add_argument("--dtypes", type=listed(str), default=["fp32"], help="fp32, bf16")
    parser.add_argument("--predictions", type=int, default=20, help="masked pieces of a sequence")
    parser.add_argument("--vocab_size", type=int, default=CASE["vocab_size"])
    parser.add_argument(
        "--optimizer",
        default=CASE["optimizer"],
        help="of ours: lamb, adamw as with PyTorch, muon, or several, such as adamw,muon",
    )
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--recompute", action="store_true", help="measure it too")
    parser.add_argument("--plain", action="store_true", help="measure the plain operations too")
    parser.add_argument("--peers", type=listed(str), default=[], help=", ".join(PEERS))
    parser.add_argument(
        "--peer_python", default=sys.executable, help=f"interpreter for {', '.join(peers.STEPS)}"
    )
    parser.add_argument("--forward_only", action="store_true", help="one forward pass of ours")
    parser.add_argument("--rounds", type=int, default=10, help="steps of each")
    return parser.parse_args()


def installed(names, python):
    """Yields the peers that can be measured here, and says which cannot."""
    for name in names:
        own = python if name in peers.STEPS else sys.executable
        find = f"import importlib.util as u, sys; sys.exit(not u.find_spec({name!r}))"
        if name in PEERS and not subprocess.run([own, "-c", find], check=False).returncode:
            yield name
        else:
            print(f"{name} is not measured: it is not installed, or not one of {', '.join(PEERS)}")


def main():
    """Measures all cases, and prints a table."""
    args = arguments()
    names = ["ours"] if args.forward_only else ["products", "ours"]
    names += (["plain"] if args.plain else []) + list(installed(args.peers, args.peer_python))
    batches = itertools.cycle(args.batch_sizes)
    rows = []
    for size, layers, (length, batch), dtype in itertools.product(
        args.sizes, args.layers, zip(args.lengths, batches, strict=False), args.dtypes
    ):
        given = {"size": size, "layers": layers, "length": length, "batch": batch, "dtype": dtype}
        for recompute in [False, True] if args.recompute else [False]:
            case = vars(args) | given | {"recompute": recompute}
            rows += measure(case, ["ours"] if recompute else names, args.rounds)
    print(table_of(rows))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        work(sys.argv[2], CASE | json.loads(sys.argv[3]))
    else:
        main()
