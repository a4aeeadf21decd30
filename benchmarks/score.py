# SPDX-License-Identifier: Apache-2.0
"""Scoring texts: masked positions per second, against transformers on PyTorch with equal weights.

transformers runs in a process of its own, in an environment of its own (--peer_python), and takes
turns with ours: once with logits at all places, as its model returns them, and once with logits at
the masked places only. All have batches of the same number of pieces, with texts of like length.

python benchmarks/score.py --model=albert_base --hf_directory=albert_hf --input_file=sentences.txt \
  --peer_python=peers/bin/python
"""

import argparse
import sys
from pathlib import Path

import numpy as np
import processes

TOKENS_PER_BATCH = 4096
PEERS = ("transformers", "transformers, masked places only")


def their_score(directory, masked_only):
    """A function that scores lists of ids with transformers: rows -> list of float."""
    import torch
    import transformers

    model = transformers.AlbertForMaskedLM.from_pretrained(directory).eval()
    mask = transformers.AutoTokenizer.from_pretrained(directory).mask_token_id

    def score(rows):
        totals = np.zeros(len(rows))
        places = [(k, at) for k, row in enumerate(rows) for at in range(1, len(row) - 1)]
        places.sort(key=lambda place: -len(rows[place[0]]))
        while places:
            width = len(rows[places[0][0]])
            count = max(1, TOKENS_PER_BATCH // width)
            batch, places = places[:count], places[count:]
            ids = torch.zeros([len(batch), width], dtype=torch.long)
            real, at = torch.zeros_like(ids), torch.tensor([at for _, at in batch])
            for n, (k, _) in enumerate(batch):
                ids[n, : len(rows[k])], real[n, : len(rows[k])] = torch.tensor(rows[k]), 1
            index = torch.arange(len(batch))
            targets = ids[index, at]
            ids[index, at] = mask
            with torch.no_grad():
                if masked_only:
                    hidden = model.albert(input_ids=ids, attention_mask=real).last_hidden_state
                    logits = model.predictions(hidden[index, at])
                else:
                    logits = model(input_ids=ids, attention_mask=real).logits[index, at]
                found = torch.log_softmax(logits, -1)[index, targets]
            np.add.at(totals, [k for k, _ in batch], found.double().numpy())
        return totals.tolist()

    return score


def serve(directory):
    """Runs in the other process: answers rows with seconds and scores of each of PEERS."""

    def prepare_scores():
        both = [their_score(directory, masked_only) for masked_only in (False, True)]

        def answer(rows):
            found = [processes.timed(score, rows) for score in both]
            return [(seconds, scores) for (seconds, _), scores in found]

        return answer

    processes.serve(prepare_scores)


def main():
    """Measures and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", help="what albert_tf.load takes")
    parser.add_argument("--hf_directory", help="its export by --export_format=hf")
    parser.add_argument("--input_file", help="texts, one a line; blank lines are left out")
    parser.add_argument("--num_texts", type=int, default=500, help="how many of them to score")
    parser.add_argument("--peer_python", default=sys.executable, help="Python with transformers")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        serve(args.hf_directory)
        return
    lines = Path(args.input_file).read_text(encoding="utf-8").splitlines()
    texts = [line for line in lines if line.strip()][: args.num_texts]
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    import albert_tf  # here, since the Python of the other process may lack it

    loaded = albert_tf.load(args.model)
    special = loaded.tokenizer.special_ids()
    rows = [[special.cls, *loaded.tokenizer.encode_ids(text), special.sep] for text in texts]
    positions = sum(map(len, rows)) - 2 * len(rows)
    command = [args.peer_python, __file__, "--serve", f"--hf_directory={args.hf_directory}"]
    difference, times = 0.0, {"albert_tf": [], **{peer: [] for peer in PEERS}}
    with processes.Worker(command) as worker:
        for _ in range(args.rounds + 1):  # the first round traces and warms up
            (seconds, _), scores = processes.timed(loaded.score, texts, method="original")
            times["albert_tf"].append(seconds)
            scores = [score["log_prob"] for score in scores]
            for peer, (seconds, others) in zip(PEERS, worker.ask(rows), strict=True):
                times[peer].append(seconds)
                difference = max(difference, np.abs(np.subtract(scores, others)).max())
    print(f"{len(texts)} texts, {positions} masked positions; largest difference {difference:.1e}")
    print("| who | seconds | positions per second | ratio |\n| --- | --- | --- | --- |")
    ours = min(times["albert_tf"][1:])
    for who, (_, *seconds) in times.items():
        best = min(seconds)
        print(f"| {who} | {best:.2f} | {positions / best:.0f} | {best / ours:.2f} |")


if __name__ == "__main__":
    main()
