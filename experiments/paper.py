# SPDX-License-Identifier: Apache-2.0
"""Runs the tables of the ALBERT paper (Lan et al., 2020): a study of experiments/paper/ for each.

python -m experiments.paper --table=4 --scale=small --output_dir=output/paper --seeds=3 \
    --set text='DIR/train*.txt' --set heldout_text=DIR/heldout.txt --set blimp=DIR --set glue=DIR

The scale `paper` only prints the commands, and the parameters of each row next to the paper's.
"""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from albert_tf.config import AlbertConfig
from albert_tf.errors import UserError, check_whole, exit_code
from experiments import run

STUDIES = sorted((run.ROOT / "experiments" / "paper").glob("table-*.toml"))
TABLES = {name: path for path in STUDIES for name in path.stem.split("-")[1:]}
COUNT = "million_parameters"
LARGEST_DIFFERENCE = 0.06  # of a count: the paper has 235 million where the released model has 223


def sizes(study, scale):
    """Lines on the parameters of each row.

    Raises:
        UserError: at the scale of the paper, a row does not have about as many as the paper says.
    """
    lines = []
    for row in run.runs_of(study, Path(), [], [1]):
        count = AlbertConfig.from_dict(row.config).num_parameters
        published = study["rows"][row.row].get("paper", {}).get(COUNT, "no number")
        lines.append(f"# {row.row}: {count:,} parameters; the paper has {published} (million)")
        is_checked = scale == "paper" and published != "no number"
        if is_checked and abs(count / 1e6 / published - 1) > LARGEST_DIFFERENCE:
            raise UserError(f"{lines[-1]}: the config of the row is wrong")
    return lines


def main(arguments=None):
    """Runs the rows of a table; returns the table of results, or the commands."""
    parser = run.parser_of(__doc__)
    parser.add_argument("--table", required=True, choices=TABLES, help="table of the paper")
    parser.add_argument("--scale", choices=("small", "paper"), default="small")
    parser.add_argument("--seeds", type=int, default=1, help="number of seeds (default: 1)")
    given = parser.parse_args(arguments)
    check_whole("--seeds", given.seeds, 1)
    path, base = TABLES[given.table], Path(os.path.abspath(given.output_dir)) / given.scale
    given.output_dir, given.seeds = base / path.stem, [*range(1, given.seeds + 1)]
    values = {"scale": given.scale, "data": f"{base}/data", "runs": str(given.output_dir)}
    study = run.read_study(str(path), values | dict(given.set))
    given.dry_run |= given.scale == "paper"
    lines = sizes(study, given.scale) if given.dry_run else []
    return "\n".join([*lines, run.run_study(study, given)])


if __name__ == "__main__":
    sys.exit(exit_code("experiments.paper", main))
