# SPDX-License-Identifier: Apache-2.0
"""run.json when a run is resumed: what has changed, earlier starts, the seed."""

import dataclasses
import json
import types

import pytest
import tensorflow as tf
from absl import flags

from albert_tf import options, resolve
from albert_tf.checkpoints import run_directory, source
from albert_tf.checkpoints.run_directory import RunSettings
from albert_tf.config import AlbertConfig
from albert_tf.training import devices, run_record, runs
from tests import tiny
from tests.errors import assert_says, names, refuses
from tests.test_resolve import rows_of

CONFIG = AlbertConfig.from_dict(tiny.CONFIG)
FLAGS = {"optimizer": "lamb", "train_batch_size": 4, "output_dir": "out", "seed": 1}
FLAGS |= {"length_buckets": ["8", "16"], "init_checkpoint": "first", "data_dir": "here/data"}


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
    return run_record.describe(run, inputs)


def write(directory, run, inputs=()):
    run_record.write(run, described(directory, run, inputs, 7))


def rewrite(directory, **parts):
    """Changes parts of a record, or removes those that are None."""
    path = directory / "run.json"
    content = json.loads(path.read_text()) | parts
    path.write_text(json.dumps({k: v for k, v in content.items() if v is not None}))


def say(directory, run, config=CONFIG, **changes):
    before = run_directory.RunDirectory(str(directory)).resumed
    inputs = [str(directory / "input")]
    run_record.say_changes(before, described(directory, run, inputs, config=config, **changes))


def test_nothing_is_said_where_nothing_changed_or_of_a_new_run(written, run, capsys):
    say(written, run)
    say(written, run, albert_config_file="out/albert_config.json")  # what is in it is the same
    say(written, run, allow_changes_on_resume=True)
    (written / "model.ckpt-2.index").unlink()
    say(written, run, optimizer="adamw")
    assert capsys.readouterr().out == ""


def test_each_change_is_a_line(written, run, capsys):
    rewrite(written, versions={"python": "3.0"}, devices=["TPU:0", "TPU:1"])
    (written / "input").write_text("longer")
    changed = {"output_dir": "moved", "learning_rate": 0.1}
    say(written, run, input_file="x" * 500, **changed)
    first, *lines = capsys.readouterr().out.splitlines()
    assert not first.startswith(" ")
    assert_says(
        "\n".join(lines),
        "--output_dir ... out ... moved",
        "--learning_rate ... none ... 0.1",
        f"--input_file ... none ... {'x' * 120}...",  # long values are cut
        f"tensorflow ... none ... {tf.__version__}",
        f"{written}/input ... 3 ... 6",
    )
    assert run_record._shown("x" * 120) == "x" * 120
    assert not any("seed" in line for line in lines)  # it is still the one from before
    assert_says("\n".join(lines), 'devices ... ["TPU:0", "TPU:1"] ... ["', "python ... 3.0")


def test_of_many_input_files_some_are_named(written, run, capsys):
    rewrite(written, input_files={f"{number}": 1 for number in range(30)})
    say(written, run)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 12 and names(lines[-1], "21")


def test_records_of_before_are_read(written, run, capsys):
    """Directories of the original have no settings; those of older versions have a part."""
    rewrite(written, seed=None, starts=None, flags=None, input_files=None, devices=None)
    say(written, run, optimizer="adamw")
    assert_says(capsys.readouterr().out, "--optimizer ... none ... adamw")
    (written / "run.json").unlink()
    say(written, run, optimizer="adamw")
    assert capsys.readouterr().out == ""


def test_scripts_read_lists_in_the_flags(written, run):
    settings = described(written, run, [], labels=["no", 'say "yes", please'])
    run_record.write(run, settings)
    text = (written / "flags.txt").read_text()
    values = flags.FlagValues()
    flags.DEFINE_list("length_buckets", None, "", flag_values=values)
    flags.DEFINE_list("labels", None, "", flag_values=values)
    known = ("--length_buckets", "--labels")
    values(["script", *(line for line in text.splitlines() if line.startswith(known))])
    assert values.length_buckets == ["8", "16"]
    assert values.labels == ["no", 'say "yes", please']


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


@pytest.mark.parametrize("changes", [{}, {"text": 16}, {"num_attention_heads": 4}])
def test_another_model_or_text_needs_new_evaluations(changes, written, run):
    rewrite(written, text={"max_seq_length": 8})
    paths = [written / name for name in (run_directory.BEST_STATE, run_directory.EVALUATED_ON)]
    for path in paths:
        path.write_text("x")
    text = {"max_seq_length": changes.pop("text", 8), "doc_stride": 4}  # one was not recorded
    config = dataclasses.replace(CONFIG, **changes)
    now = dataclasses.replace(described(written, run, [], config=config), text=text)
    before = run_directory.RunDirectory(str(written)).resumed
    run_record.forget_evaluations(str(written), before, now)
    is_same = text["max_seq_length"] == 8 and config == CONFIG
    assert [path.exists() for path in paths] == [is_same] * 2


def test_a_done_run_has_the_settings_that_it_was_trained_with(written, run):
    def check(last_step=2, directory=written, text=None, **changes):
        found, values = source.Source(str(directory)), FLAGS | {"do_train": True} | changes
        typed = {name: value for name, value in values.items() if value is not None}
        settings = resolve.resolve(rows_of("run_classifier"), typed)
        now = dataclasses.replace(described(directory, run, [], **changes), text=text or {})
        run_record.check_done(found, 2, last_step, settings, now)

    check(init_checkpoint="second", output_dir="moved", data_dir="other/data", do_eval=True)
    changed = {"length_buckets": None}
    check(3, **changed)
    check(directory="of the original", **changed)
    for others, shown in (
        (changed, "--length_buckets=none, before ["),
        ({"class_weights": ["1", "2"]}, '--class_weights=["1", "2"], before none'),
        ({"data_dir": "data-2"}, "--data_dir=data-2, before here/data"),
        ({"best_metric": "macro_f1"}, "--best_metric=macro_f1, before none"),
    ):
        with refuses(f"step 2 of 2 ... run.json ... {shown} ... --do_train=false"):
            check(**others)
    check(text={"max_seq_length": 8})  # earlier versions did not record it
    rewrite(written, text={"max_seq_length": 16})
    with refuses("--max_seq_length=8, before 16"):
        check(text={"max_seq_length": 8})


@pytest.mark.parametrize("is_chief", [True, False])
def test_workers_take_the_seed_of_the_chief(is_chief, monkeypatch):
    of_others = 0 if is_chief else 7
    monkeypatch.setattr(devices, "is_chief", lambda _: is_chief)
    monkeypatch.setattr(devices, "sum_over_workers", lambda _, values: [sum(values) + of_others])
    given = {"input_file": "x", "output_dir": "x", "train_steps": 1, "do_train": True}
    seed = runs.seeded(options.Pretraining(**given, seed=None), None).seed
    assert seed > 0 if is_chief else seed == 7
