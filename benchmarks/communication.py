# SPDX-License-Identifier: Apache-2.0
"""Measures what two workers exchange in a training step, with shared and unshared parameters.

Section 3.1 of the paper: with shared parameters, less has to be communicated. The script starts two
processes on this machine, which compute gradients of the masked-LM loss and add them up over
loopback. Both models have the shape of ALBERT-large, which is that of BERT-large. There is no
optimizer: its moments would take more memory than the gradients do.

python benchmarks/communication.py --batch_size=2 --length=64
"""

import argparse
import dataclasses
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import tensorflow as tf
import train_step

from albert_tf.checkpoints import name_table
from albert_tf.model import heads, objectives

KINDS = {  # what differs from the config of ALBERT-large
    "ALBERT": {},
    "BERT": {"parameter_sharing": "none", "embedding_size": 1024},
}


def step_of(strategy, variables, model, exchanges):
    """A function of features that computes gradients and, if asked, adds them up over workers."""

    def replica_step(features):
        with tf.GradientTape() as tape:
            terms = objectives.pretraining_terms(features, model(features))
            loss = objectives.pretraining_loss(terms)
        gradients = [tf.convert_to_tensor(g) for g in tape.gradient(loss, variables)]
        if exchanges:
            context = tf.distribute.get_replica_context()
            gradients = context.all_reduce(tf.distribute.ReduceOp.SUM, gradients)
        return tf.add_n([g[0, 0] for g in gradients if g.shape.rank == 2])

    return tf.function(lambda features: strategy.run(replica_step, args=(features,)))


def work(args):
    """One worker's part; the first worker prints its measurements as JSON."""
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    case = train_step.CASE | {"size": "large", "layers": args.layers, "predictions": 10}
    case |= {"batch": args.batch_size, "length": args.length}
    config = dataclasses.replace(train_step.config_of(case), **KINDS[args.worker])
    with strategy.scope():
        model = heads.PretrainingModel(config)
    variables = list(name_table.named_variables(model).values())
    features, seconds = train_step.features_of(case), {}
    for name, exchanges in (("computing", False), ("both", True)):
        step, times = step_of(strategy, variables, model, exchanges), []
        for _ in range(args.steps + 1):  # the first traces
            start = time.perf_counter()
            value = step(features)
            strategy.experimental_local_results(value)[0].numpy()
            times.append(time.perf_counter() - start)
        seconds[name] = float(np.median(times[1:]))
    parameters = sum(v.shape.num_elements() for v in variables)
    print(json.dumps({"parameters": parameters, **seconds}), flush=True)


def run_two(kind):
    """Measurements of two workers with a model of this kind: a dict."""
    sockets = [socket.create_server(("localhost", 0)) for _ in range(2)]
    addresses = [f"localhost:{one.getsockname()[1]}" for one in sockets]
    for one in sockets:
        one.close()
    processes = []
    for index in range(2):
        task = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
        processes.append(
            subprocess.Popen(
                [sys.executable, __file__, *sys.argv[1:], f"--worker={kind}"],
                env={**os.environ, "TF_CONFIG": json.dumps(task)},
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
        )
    outputs = [process.communicate()[0] for process in processes]
    if any(process.returncode for process in processes):
        sys.exit(f"a worker of {kind} failed: the memory may not suffice; try fewer --layers")
    return json.loads(outputs[0].splitlines()[-1])


def main():
    """Prints a table of both kinds and their ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", type=int, default=24)
    parser.add_argument("--batch_size", type=int, default=2, help="sequences of a worker")
    parser.add_argument("--length", type=int, default=64)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--worker", choices=KINDS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        work(args)
        return
    found = {kind: run_two(kind) for kind in KINDS}
    rows = [
        {
            "parameters": f"{kind}'s, {measured['parameters'] / 1e6:.1f} M",
            "gradients of a step": f"{measured['parameters'] * 4 / 2**20:.0f} MiB",
            "step, exchanging": f"{measured['both']:.2f} s",
            "step, only computing": f"{measured['computing']:.2f} s",
        }
        for kind, measured in found.items()
    ]
    print(train_step.table_of(rows))
    ratios = [
        found["BERT"][key] / found["ALBERT"][key] for key in ("parameters", "both", "computing")
    ]
    print(
        "BERT to ALBERT: {:.1f} times the bytes, {:.2f} and {:.2f} times the time".format(*ratios)
    )


if __name__ == "__main__":
    main()
