# SPDX-License-Identifier: Apache-2.0
"""Scores a file of SQuAD predictions: `python -m albert_tf.squad_metrics --help`.

    python -m albert_tf.squad_metrics --data_file=dev-v2.0.json \
        --predictions_file=predictions.json --na_prob_file=null_odds.json

Needs no TensorFlow.
"""

import argparse
import json
import math
import reprlib
import sys

from albert_tf.errors import UserError, about, exit_code, parse_json
from albert_tf.options import F1_UNITS, LARGEST_THRESHOLD
from albert_tf.tasks import json_file
from albert_tf.tasks.squad import scores


def main(arguments=None):
    """Scores a predictions file against a data file and prints JSON; 1 on bad input.

    Args:
        arguments: list of str, or None for those of the command line.

    Returns:
        int, exit code.
    """
    parser = argparse.ArgumentParser(
        prog="python -m albert_tf.squad_metrics", description="Official SQuAD scores, as JSON."
    )
    parser.add_argument("--data_file", required=True, help="SQuAD JSON; its keys show the version.")
    parser.add_argument("--predictions_file", required=True, help="JSON, question id to answer.")
    parser.add_argument(
        "--na_prob_file",
        help="JSON, question id to probability (or logit) of no answer, such as null_odds.json. "
        "Version 2 only, adds best_exact and best_f1.",
    )
    parser.add_argument(
        "--na_prob_thresh",
        type=float,
        help="Above this value of --na_prob_file a question counts as unanswered (default: "
        f"{scores.NO_ANSWER_ABOVE}).",
    )
    parser.add_argument(
        "--f1_unit",
        default=F1_UNITS[0],
        choices=F1_UNITS,
        help="What F1 counts: characters for languages without spaces between words.",
    )
    args = parser.parse_args(arguments)
    return exit_code("squad_metrics", lambda: json.dumps(_evaluate_files(args), indent=2))


def _evaluate_files(args):
    threshold = scores.NO_ANSWER_ABOVE if args.na_prob_thresh is None else args.na_prob_thresh
    if math.isnan(threshold):
        raise UserError("--na_prob_thresh must be a number. Received: nan")
    if args.na_prob_thresh is not None and not args.na_prob_file:
        raise UserError("--na_prob_thresh does nothing without --na_prob_file: give both or none")

    def is_number(value):
        return type(value) in (int, float) and abs(value) <= LARGEST_THRESHOLD  # and no bool

    gold, version_2 = scores.read_gold(args.data_file)
    predictions = _read_dict(args.predictions_file, "text", lambda value: isinstance(value, str))
    if args.na_prob_file and not version_2:
        raise UserError(f"--na_prob_file is for version 2, but {args.data_file} is of version 1.1")
    na_scores = _read_dict(args.na_prob_file, "number", is_number) if args.na_prob_file else None
    names = " and ".join(filter(None, (args.predictions_file, args.na_prob_file)))
    with about(f"{names} for {args.data_file}"):
        if gold.keys().isdisjoint(predictions):
            raise UserError("none of the questions has a prediction: are they of another file?")
        if version_2:
            return scores.evaluate_v2(gold, predictions, na_scores, threshold, args.f1_unit)
        return scores.evaluate_v1(gold, predictions, args.f1_unit)


def _read_dict(path, what, is_valid):
    expected = f"must hold one JSON object, from question id to {what}"
    found = parse_json(json_file.content(path, expected), path)
    if not isinstance(found, dict):
        raise UserError(f"{path} {expected}")
    for qas_id, value in found.items():
        if not is_valid(value):
            raise UserError(f"{path}: {qas_id!r} has {reprlib.repr(value)}, which is not a {what}")
    return found


if __name__ == "__main__":
    sys.exit(main())
