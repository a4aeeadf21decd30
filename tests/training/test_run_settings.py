# SPDX-License-Identifier: Apache-2.0
"""run.json when a run is resumed: what has changed, earlier starts, the seed."""

import json
import os
import types

import pytest
import tensorflow as tf
from absl import flags

from albert_tf.checkpoints import run_directory
from albert_tf.checkpoints.run_directory import RunSettings
from albert_tf.config import AlbertConfig
from albert_tf.errors import UserError
from albert_tf.training import run_settings
from tests import TINY_CONFIG
from tests.processes import run_python
from tests.training.clusters import in_two_workers

CONFIG = AlbertConfig.from_dict(TINY_CONFIG)
FLAGS = {"optimizer": "lamb", "train_batch_size": 4, "output_dir": "out", "seed": 1}
FLAGS |= {"length_buckets": ["8", "16"], "init_checkpoint": "first"}


@pytest.fixture
def run():
    """The parts of a run that its settings are made of, at step 2."""
    variables = {"a": tf.Variable(tf.zeros([2, 3]))}
    strategy = tf.distribute.OneDeviceStrategy("cpu:0")
    settings = types.SimpleNamespace(allow_changes_on_resume=False)
    return types.SimpleNamespace(
        step=2, is_chief=True, strategy=strategy, variables=variables, settings=settings
    )


@pytest.fixture
def written(tmp_path, run):
    """The directory of a run with a record, a checkpoint and an input file."""
    for name in ("model.ckpt-2.index", "model.ckpt-2.data-00000-of-00001"):
        (tmp_path / name).touch()
    (tmp_path / "input").write_text("abc")
    write(tmp_path, run, [str(tmp_path / "input")])
    return tmp_path


def described(directory, run, inputs, own_seed=None, config=CONFIG, **changes):
    values = {name: value for name, value in (FLAGS | changes).items() if value is not None}
    run.settings.record = RunSettings(flags=values, config=config.to_dict(), text={})
    run.settings.output_dir, run.settings.seed = str(directory), own_seed
    return run_settings.describe(run, inputs)


def write(directory, run, inputs=()):
    run_settings.write(run, described(directory, run, inputs, 7))


def rewrite(directory, **parts):
    """Changes parts of a record, or removes those that are None."""
    path = directory / "run.json"
    content = json.loads(path.read_text()) | parts
    path.write_text(json.dumps({k: v for k, v in content.items() if v is not None}))


def check(directory, run, config=CONFIG, allow=False, **changes):
    inputs = [str(directory / "input")]
    run.settings.allow_changes_on_resume = allow
    run_settings.check_changes(run, described(directory, run, inputs, config=config, **changes))


# --- Changes --------------------------------------------------------------------------------------


def test_nothing_is_said_where_nothing_changed_or_by_other_workers_or_of_a_new_run(
    written, run, capsys
):
    check(written, run)
    check(written, run, albert_config_file="out/albert_config.json")  # what is in it is the same
    run.is_chief = False
    check(written, run, output_dir="moved")
    run.is_chief = True
    (written / "model.ckpt-2.index").unlink()
    check(written, run, optimizer="adamw")
    assert capsys.readouterr().out == ""


def test_each_change_is_a_line(written, run, capsys):
    rewrite(written, versions={"python": "3.0"}, devices=["TPU:0", "TPU:1"])
    (written / "input").write_text("longer")
    changed = {"output_dir": "moved", "seed": None, "learning_rate": 0.1}
    check(written, run, input_file="x" * 500, **changed)
    first, *lines = capsys.readouterr().out.splitlines()
    assert first == "Changed since the last start of this run:"
    for line in (
        "--output_dir: before out, now moved",
        "--learning_rate: before none, now 0.1",
        f"--input_file: before none, now {'x' * 120}...",  # long values are cut
        f"tensorflow: before none, now {tf.__version__}",
        f"input file {written}/input, bytes: before 3, now 6",
    ):
        assert f"  {line}" in lines
    assert not any("seed" in line for line in lines)  # it is still the one from before
    assert any(line.startswith('  devices: before ["TPU:0", "TPU:1"], now ["') for line in lines)
    assert any(line.startswith("  python: before 3.0, now 3.") for line in lines)


def test_of_many_input_files_some_are_named(written, run, capsys):
    rewrite(written, input_files={f"{number}": 1 for number in range(30)})
    check(written, run)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 12 and lines[-1] == "  and 21 more input files"


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"optimizer": "adamw"}, "--optimizer=adamw, before lamb"),
        ({"train_batch_size": 8}, "--train_batch_size=8, before 4"),
        ({"length_buckets": ["9"]}, "--length_buckets=9, before 8,16"),
        ({"length_buckets": None}, "--length_buckets=none, before 8,16"),
        ({"config": {"num_attention_heads": 1}}, "num_attention_heads=1 in .*file, before 2"),
        ({"config": {"parameter_sharing": "none"}}, "parameter_sharing=none in .*, before all"),
    ],
)
def test_what_may_not_change(written, run, capsys, changes, message):
    assert TINY_CONFIG["num_attention_heads"] == 2
    if "config" in changes:
        changes = {"config": AlbertConfig.from_dict(TINY_CONFIG | changes["config"])}
    with pytest.raises(UserError, match=message) as error:
        check(written, run, **changes)
    assert "run.json" in str(error.value)
    assert str(error.value).endswith("with the change, give --allow_changes_on_resume")
    check(written, run, allow=True, allow_changes_on_resume=True, **changes)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2, "the flag that allows it is no change"


def test_all_that_may_not_change_is_in_one_error(written, run):
    with pytest.raises(UserError, match="--optimizer=adamw, before lamb; --train_batch_size=8"):
        check(written, run, optimizer="adamw", train_batch_size=8)


def test_a_hub_module_is_named_as_the_source_of_the_config(written, run):
    other = AlbertConfig.from_dict(TINY_CONFIG | {"num_hidden_layers": 7})
    with pytest.raises(UserError, match="num_hidden_layers=7 in --albert_hub_module_handle,"):
        check(written, run, config=other, albert_hub_module_handle="module")


def test_length_buckets_may_not_be_added(written, run):
    flags = {name: value for name, value in FLAGS.items() if name != "length_buckets"}
    rewrite(written, flags=flags)
    with pytest.raises(UserError, match="--length_buckets=8,16, before none"):
        check(written, run)


def test_records_of_before_are_read(written, run, capsys):
    """Directories of the original have no settings; those of older versions have a part."""
    rewrite(written, seed=None, starts=None, flags=None, input_files=None, devices=None)
    check(written, run, optimizer="adamw")
    assert "--optimizer: before none, now adamw" in capsys.readouterr().out
    (written / "run.json").unlink()
    check(written, run, optimizer="adamw")
    assert capsys.readouterr().out == ""


def test_scripts_read_lists_in_the_flags(written, run):
    settings = described(written, run, [], labels=["no", 'say "yes", please'])
    run_settings.write(run, settings)
    text = (written / "flags.txt").read_text()
    values = flags.FlagValues()
    flags.DEFINE_list("length_buckets", None, "", flag_values=values)
    flags.DEFINE_list("labels", None, "", flag_values=values)
    known = ("--length_buckets", "--labels")
    values(["script", *(line for line in text.splitlines() if line.startswith(known))])
    assert values.length_buckets == ["8", "16"]
    assert values.labels == ["no", 'say "yes", please']


@pytest.mark.parametrize("given", [None, "second"])
def test_the_weights_of_the_start_stay_recorded(written, run, capsys, given):
    settings = described(written, run, [], init_checkpoint=given)
    run_settings.check_changes(run, settings)
    assert "init_checkpoint" not in capsys.readouterr().out
    run_settings.write(run, settings)
    flags_now = run_directory.RunDirectory(str(written)).settings.flags
    assert flags_now["init_checkpoint"] == "first"


def test_a_resumed_run_can_be_repeated_with_its_flags(written, run, capsys):
    run.step = 0
    run_settings.write(run, described(written, run, [], init_from_group0=True))
    run.step = 2
    settings = described(written, run, [], seed=None)
    run_settings.check_changes(run, settings)
    assert "init_from_group0" not in capsys.readouterr().out
    run_settings.write(run, settings)
    lines = (written / "flags.txt").read_text().splitlines()
    assert {"--init_from_group0=True", "--seed=1"} <= {*lines}
    run_settings.write(run, described(written, run, [], seed=2))
    assert run_directory.RunDirectory(str(written)).settings.flags["seed"] == 2


# --- Starts and seed ------------------------------------------------------------------------------


def test_earlier_starts_are_kept(written, run):
    for step in range(3, 40):
        run.step = step
        write(written, run)
    content = run_directory.RunDirectory(str(written)).settings
    assert [start["step"] for start in content.starts] == list(range(20, 40))
    assert content.starts[-1]["devices"] == content.devices
    assert content.starts[-1]["versions"] == content.versions
    run.step = 0  # a new run in the directory
    write(written, run)
    assert len(run_directory.RunDirectory(str(written)).settings.starts) == 1


def test_the_seed_is_that_given_then_that_recorded_then_a_new_one(written, run, tmp_path_factory):
    def seed(directory, value=None):
        return run_settings.seed_of(str(directory), value, run.strategy)

    assert seed(written, 3) == 3
    assert seed(written, 0) == 0
    assert seed(written) == 7
    drawn = {seed(tmp_path_factory.mktemp("new")) for _ in range(3)}
    assert len(drawn) > 1 and all(0 <= value < 2**31 for value in drawn)
    rewrite(written, seed=None)
    assert seed(written) is not None


WORKER = """
import sys
from albert_tf.training import devices, run_settings
strategy = devices.create_strategy("multi_worker_mirrored")
print(run_settings.seed_of(sys.argv[1], None, strategy))
"""


@pytest.mark.long
def test_workers_take_the_seed_of_the_chief(tmp_path):
    def work(_, environment):
        return run_python("-c", WORKER, tmp_path, env=os.environ | environment).stdout.split()[-1]

    seeds = in_two_workers(work)
    assert seeds[0] == seeds[1] and int(seeds[0]) >= 0
