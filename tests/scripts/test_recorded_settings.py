# SPDX-License-Identifier: Apache-2.0
"""What run.json says of a run decides in every later command; a flag that contradicts it fails."""

import json
import re
import shutil
from pathlib import Path

import pytest

import create_pretraining_data
import run_classifier
import run_race
import run_squad
from albert_tf.checkpoints.run_directory import RunDirectory
from albert_tf.cli import flag_groups
from albert_tf.sentencepiece_proto import ModelProto
from tests import tiny
from tests.errors import assert_says, refuses
from tests.script_flags import flags_of, module_of

pytestmark = pytest.mark.usefixtures("eagerly")

GLUE = tiny.GLUE_DATA
CASED_MODEL = tiny.CASED_VOCABULARY
CONFIG = tiny.CONFIG | {"initializer_range": 0.5}  # random models that tell texts apart
# What a later command need not repeat.
CASED = {"do_lower_case": False, "strip_accents": False}
SHARED = {"allow_random_init": True, "do_train": True, "learning_rate": 1e-4, "seed": 1}
SHARED |= {"train_batch_size": 2}
SCRIPTS = {  # module, flags of data, settings of text, flags of training, files to compare
    "classifier": (
        run_classifier, {"data_dir": GLUE, "task_name": "CoLA"}, CASED | {"max_seq_length": 24},
        {"train_step": 2, "do_eval": True}, "test_results.tsv",
    ),
    "race": (
        run_race, {"data_dir": GLUE}, CASED | {"max_seq_length": 48, "max_qa_length": 12},
        {"train_step": 1, "warmup_step": 0, "do_eval": False}, "predictions.tsv",
    ),
    "squad": (
        run_squad, tiny.SQUAD_FILES["1.1"] | {"predict_batch_size": 64},
        CASED | tiny.WINDOWS | {"max_answer_length": 2, "n_best_size": 3},
        {"num_train_epochs": 0.2, "save_checkpoints_steps": 1000}, "nbest_predictions.json",
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    """Directory of a config, one with other heads, a vocabulary, and another of the same size."""
    folder = tmp_path_factory.mktemp("parts")
    (folder / "config.json").write_text(json.dumps(CONFIG))
    (folder / "heads.json").write_text(json.dumps(CONFIG | {"num_attention_heads": 4}))
    content = CASED_MODEL.read_bytes()
    (folder / "spm.model").write_bytes(content)
    model = ModelProto.FromString(content)
    one, two = model.pieces[-2:]
    one.piece, two.piece = two.piece, one.piece
    (folder / "other.model").write_bytes(model.SerializeToString())
    return folder


@pytest.fixture(scope="module")
def trained(eagerly, parts, run_once):
    """Trains once: trained(a key of SCRIPTS) -> the output directory."""

    def train(name):
        script, data, text, training, _ = SCRIPTS[name]
        flags = SHARED | data | text | training | {"spm_model_file": parts / "spm.model"}
        return run_once(script, CONFIG, **flags) / "out"

    return train


@pytest.fixture
def predict(trained, run_main, tmp_path):
    """Predicts with a run: predict(a key of SCRIPTS, **flags) -> what it writes."""

    def run(name, out="out", **flags):
        script, data, _, _, file = SCRIPTS[name]
        quiet = {"do_train": False, "do_eval": False} if name == "race" else {}
        out = tmp_path / out
        if "init_checkpoint" not in flags and not out.exists():
            shutil.copytree(trained(name), out)
        run_main(script, **data, **quiet | {"do_predict": True} | flags, output_dir=out)
        return (out / file).read_text()

    return run


@pytest.mark.parametrize(
    "name",
    ["classifier", *(pytest.param(name, marks=pytest.mark.long) for name in ("race", "squad"))],
)
def test_nothing_has_to_be_typed_again(predict, trained, parts, tmp_path, name):
    """Not with the run as --output_dir, and not as --init_checkpoint."""
    typed = SCRIPTS[name][2] | {
        "albert_config_file": parts / "config.json",
        "spm_model_file": parts / "spm.model",
    }
    expected = predict(name, **typed)
    assert predict(name, out="again") == expected
    assert predict(name, out="elsewhere", init_checkpoint=trained(name)) == expected


TEXT = ["max_seq_length", "do_lower_case", "strip_accents"]  # what all fine-tuning scripts share
EQUAL = {"albert_config_file", "spm_model_file", "vocab_file", "train_batch_size", "optimizer"}
EQUAL |= {*TEXT, "length_buckets"}
START = {"init_checkpoint", "albert_hub_module_handle", "class_weights"}
OF_RECORDS = {  # script -> options that must equal the recorded ones, and that follow them
    "run_classifier": (
        EQUAL | {"task_name", "text_pair_column", "labels", "regression", "multi_label"}
        | {"long_texts", "max_windows"},
        {"text_column", "label_column", "delimiter", "header", "skip_other_labels"}
        | {"best_metric", "seed", "keep_checkpoint_max"},
    ),
    "run_race": (
        EQUAL | {"task_name", "max_qa_length"},
        {"best_metric", "seed", "num_keep_checkpoint"},
    ),
    "run_squad": (
        EQUAL | {"version_2_with_negative", "doc_stride", "max_query_length"},
        {"n_best_size", "max_answer_length", "start_n_top", "end_n_top", "best_metric", "seed"},
    ),
    "run_pretraining": (
        EQUAL - {*TEXT},
        {"input_file", "eval_input_file"}
        | {"max_seq_length", "max_predictions_per_seq", "sentence_loss_weight", "eval_batch_size"}
        | {"num_train_steps", "max_eval_steps", "do_whole_word_mask", "favor_shorter_ngram", "seed"}
        | {"ngram", "masked_lm_keep_prob", "masked_lm_random_prob", "masked_lm_budget"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("script", OF_RECORDS)
def test_what_a_record_decides(script):
    """How tests/test_resolve.py shows what the rules mean."""
    rules = {"equal": set(), "follow": set(), "start": set(), "free": set()}
    with flags_of(module_of(script)):
        columns = {flag.name: flag.option.metadata for flag in flag_groups.own_flags()}
    for name, of_option in columns.items():
        rules[of_option["on_record"]].add(name)
        if "~do_train" in of_option["read_by"] and not of_option["path"]:
            assert of_option["on_record"] != "free"  # a resumed run goes on as it was
            rules["follow"] -= {name} - OF_RECORDS[script][1]
    assert (rules["equal"], rules["follow"]) == OF_RECORDS[script]
    start = START if script != "run_pretraining" else {"init_checkpoint", "init_from_group0"}
    levels = {"high_only", "middle_only"} if script == "run_race" else set()
    assert rules["start"] == start | levels


@pytest.mark.parametrize(
    ("name", "flag", "value", "message"),
    [
        ("classifier", "do_lower_case", True, "=true ... --do_lower_case=false ... run.json"),
        ("race", "max_qa_length", 9, "=9 ... --max_qa_length=12 ... run.json"),
        ("squad", "doc_stride", 8, "=8 ... --doc_stride=16 ... run.json"),
        ("classifier", "spm_model_file", "other.model", "/other.model ... {out}/run.json"),
        ("classifier", "albert_config_file", "heads.json",
         "/heads.json ... num_attention_heads=4 ... {out}"),
    ],
)  # fmt: skip
def test_a_flag_that_says_otherwise_is_an_error(
    predict, parts, trained, name, flag, value, message
):
    out = trained(name)
    value = parts / value if isinstance(value, str) else value
    message = message.format(out=out) if isinstance(value, Path) else f"--{flag}{message}"
    with refuses(message):
        predict(name, init_checkpoint=out, **{flag: value})
    with refuses(value.name if isinstance(value, Path) else f"{flag}="):
        predict(name, **{flag: value})


def test_a_run_without_a_record_follows_the_flags(trained, predict, parts, tmp_path):
    expected = predict("classifier")
    for name in ("run.json", "finetuned_task.json", "test_results.tsv"):
        (tmp_path / "out" / name).unlink()
    text = SCRIPTS["classifier"][2]
    with refuses("--spm_model_file"):
        predict("classifier")
    given = {"spm_model_file": parts / "spm.model", "albert_config_file": parts / "config.json"}
    assert predict("classifier", **text, **given) == expected
    assert predict("classifier", **text | {"do_lower_case": True}, **given) != expected


@pytest.mark.parametrize(
    ("part", "values", "message"),
    [
        ("text", {"doc_stride": 8}, "--doc_stride=16 ... two/run.json ... --doc_stride=8"),
        ("vocabulary", {"sha256": "00"}, "spm.model ... two/run.json"),
    ],
)
def test_models_of_an_ensemble_read_the_same(trained, run_main, tmp_path, part, values, message):
    one = trained("squad")
    two = Path(shutil.copytree(one, tmp_path / "two"))
    content = json.loads((two / "run.json").read_text())
    content[part] |= values
    (two / "run.json").write_text(json.dumps(content))
    flags = {"predict_file": SCRIPTS["squad"][1]["predict_file"], "do_predict": True}
    with refuses(message):
        run_main(run_squad, **flags, output_dir=tmp_path / "both", ensemble_dirs=f"{one},{two}")


# --- Training ------------------------------------------------------------------------------------


@pytest.fixture
def pretrained(parts, tmp_path):
    """A directory as pre-training leaves it: weights, config, and a record of its vocabulary."""
    folder = tmp_path / "pretrained"
    folder.mkdir()
    tiny.write_release(folder, config=CONFIG)
    (folder / "30k-clean.model").unlink()
    tiny.write_record(folder, parts / "spm.model", CONFIG, **CASED, max_seq_length=64)
    return folder


@pytest.fixture
def train(run_main):
    """Trains a classifier: train(output_dir, flag=value, ...)."""

    def run(out, **flags):
        _, data, _, training, _ = SCRIPTS["classifier"]
        given = SHARED | data | training | {"max_seq_length": 24, "allow_random_init": False}
        run_main(run_classifier, **given | flags, output_dir=out)

    return run


@pytest.mark.long
def test_fine_tuning_takes_over_what_pretraining_recorded(pretrained, train, parts, tmp_path):
    train(tmp_path / "out", init_checkpoint=pretrained)
    settings = RunDirectory(str(tmp_path / "out")).settings
    assert settings.text == CASED | {"max_seq_length": 24}  # the length is its own
    assert settings.vocabulary.path == str(parts / "spm.model")
    assert settings.flags["do_lower_case"] is False


@pytest.mark.parametrize("start", ["run", "package"])
def test_fine_tuning_with_another_text_is_an_error(start, pretrained, train, parts, tmp_path):
    of_run = pretrained, "run.json", True
    given, told, other = of_run if start == "run" else ("english-small", "english-small", False)
    values = dict.fromkeys(CASED, other) | {"spm_model_file": parts / "other.model"}
    for flag, value in values.items():
        named = "other.model" if flag == "spm_model_file" else f"{flag}={str(other).lower()}"
        with refuses(f"{named} ... {told}"):
            train(tmp_path / "out", init_checkpoint=given, **{flag: value})
    assert not (tmp_path / "out").exists()


@pytest.fixture
def release(tmp_path):
    (tmp_path / "release").mkdir()
    return tiny.write_release(tmp_path / "release", config=CONFIG)


def test_what_lies_next_to_released_weights_is_used(release, train, tmp_path, capsys):
    train(tmp_path / "out", init_checkpoint=release / "model.ckpt-best")
    files = f"{release}/30k-clean.model ... {release}/albert_config.json"
    assert_says(capsys.readouterr().out, files)
    vocabulary = RunDirectory(str(tmp_path / "out")).settings.vocabulary
    assert vocabulary.path == f"{release}/30k-clean.model"


def test_another_vocabulary_than_the_one_next_to_a_release_is_a_warning(
    release, train, parts, tmp_path, capsys
):
    other = parts / "other.model"
    # A directory without data ends the run after the warning.
    with refuses("CoLA/train.tsv"):
        given = {"init_checkpoint": release, "spm_model_file": other, "data_dir": release}
        train(tmp_path / "out", **given)
    assert_says(capsys.readouterr().out, f"Warning ... {other} ... {release}/30k-clean.model")


def test_a_resumed_training_keeps_its_text(trained, parts, train, tmp_path):
    out = shutil.copytree(trained("classifier"), tmp_path / "out")
    other = {"spm_model_file": parts / "other.model", "do_lower_case": True}
    with refuses("--do_lower_case=true ... other.model"):
        train(out, train_step=3, allow_random_init=True, **other)
    train(out, train_step=3, allow_random_init=True)
    assert RunDirectory(str(out)).settings.text == SCRIPTS["classifier"][2]


@pytest.mark.long
def test_a_resumed_training_keeps_its_length_buckets(train, tmp_path):
    tiny.write_release(tmp_path)
    flags = {"init_checkpoint": tmp_path / "model.ckpt-best", "do_eval": False}
    flags |= {"shuffle_buffer_size": 100}
    train(tmp_path / "out", length_buckets="8,16", **flags)
    train(tmp_path / "out", train_step=3, **flags)
    assert RunDirectory(str(tmp_path / "out")).settings.flags["length_buckets"] == ["8", "16"]
    with refuses("--length_buckets=16 ... 8,16"):
        train(tmp_path / "out", train_step=4, length_buckets="16", **flags)


def test_a_training_next_to_the_best_checkpoint_of_another_is_an_error(trained, train, tmp_path):
    out = shutil.copytree(trained("classifier"), tmp_path / "out")
    for path in [*out.glob("model.ckpt-[0-9]*"), out / "checkpoint"]:
        path.unlink()
    with refuses(f"--output_dir={out}"):
        train(out, init_checkpoint=out)
    assert (out / "model.ckpt-best.index").exists()


def test_the_name_of_a_packaged_model_is_no_directory(train, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with refuses("output/english-small"):
        train("english-small", init_checkpoint="english-small")
    assert not (tmp_path / "english-small").exists()


# --- Pre-training --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def records(parts, tmp_path_factory, run_main):
    """Makes records of two vocabularies: a directory with the files `mine` and `others`."""
    folder = tmp_path_factory.mktemp("records")
    text = "\n\n".join("\n".join(["the first line", "and the second one"] * 9) for _ in range(3))
    (folder / "in.txt").write_text(text)
    for name, vocabulary in (("mine", "spm.model"), ("others", "other.model")):
        files = {"input_file": folder / "in.txt", "output_file": folder / name}
        files["spm_model_file"] = parts / vocabulary
        run_main(create_pretraining_data, **files, **CASED, **SHORT, dupe_factor=1)
    return folder


SHORT = {"max_seq_length": 32, "max_predictions_per_seq": 4}
ONE_STEP = {"train_batch_size": 2, "eval_batch_size": 2, "max_eval_steps": 1}
ONE_STEP |= {"num_warmup_steps": 0, "num_train_steps": 1}


@pytest.fixture
def flags(parts, tmp_path):
    """What `pretrain` takes."""
    places = {"albert_config_file": parts / "config.json", "output_dir": tmp_path / "out"}
    return SHORT | ONE_STEP | places


@pytest.mark.parametrize("flag", ["input_file", "eval_input_file"])
def test_records_of_two_vocabularies_are_an_error(records, pretrain, tmp_path, flag):
    both = f"{records}/mine,{records}/others" if flag == "input_file" else records / "others"
    inputs = {"input_file": records / "mine", "do_eval": True} | {flag: both}
    with refuses(f"{records}/mine ... {records}/others"):
        pretrain(**inputs)
    assert not (tmp_path / "out").exists()


def test_weights_of_another_vocabulary_are_an_error(records, pretrain, tmp_path, pretrained):
    mine = {"input_file": records / "mine", "init_checkpoint": pretrained}
    pretrain(**mine)
    message = "--input_file ... other.model ... run.json"
    other = mine | {"input_file": records / "others"}
    with refuses(message):
        pretrain(output_dir=tmp_path / "new", **other)
    with refuses(message):  # evaluation of the run
        pretrain(do_train=False, do_eval=True, **other)
    with refuses("other.model ... allow_changes"):
        pretrain(num_train_steps=2, **other)


def test_weights_next_to_the_vocabulary_of_the_records_are_continued(
    records, release, pretrain, parts, tmp_path
):
    shutil.copy(parts / "spm.model", release / "30k-clean.model")
    mine = {"input_file": records / "mine", "init_checkpoint": release}
    pretrain(**mine)
    with refuses(f"{release} ... other.model"):
        pretrain(output_dir=tmp_path / "new", **mine | {"input_file": records / "others"})


# --- A training that is done: its command changes nothing, and other settings are an error -------


def contents(directory):
    return {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}


@pytest.fixture
def out(trained, tmp_path):
    """A copy of the directory of a training that is done."""
    return Path(shutil.copytree(trained("classifier"), tmp_path / "out"))


@pytest.fixture
def again(out, parts, run_main):
    """Types its command again, with other flags: again(**flags)."""

    def run(**others):
        _, data, text, training, _ = SCRIPTS["classifier"]
        files = {"spm_model_file": parts / "spm.model", "albert_config_file": parts / "config.json"}
        run_main(run_classifier, **SHARED | data | text | training | files | others, output_dir=out)

    return run


def test_the_same_command_changes_no_file(again, out, run_main, capsys):
    before = contents(out)
    again()
    short = {"task_name": "CoLA", "data_dir": GLUE, "do_train": True, "do_eval": True}
    run_main(run_classifier, **short, output_dir=out)  # what is not typed is as before
    assert contents(out) == before
    shown = capsys.readouterr().out
    assert shown.count("Nothing left to train: step 2 of 2 is done.") == 2
    assert "changed since" not in shown


def test_a_changed_file_is_named_although_nothing_is_left_to_train(again, out, tmp_path, capsys):
    data = shutil.copytree(GLUE / "CoLA", tmp_path / GLUE.name / "CoLA")
    record = out / "run.json"
    record.write_text(record.read_text().replace(str(GLUE), str(data.parent)))
    with (data / "train.tsv").open("a") as file:
        file.write("a\t1\t\tOne more.\n")
    again(data_dir=data.parent)
    (line,) = (x for x in capsys.readouterr().out.splitlines() if "changed since" in x)
    assert line.count("bytes") == 1 and "train.tsv" in line


@pytest.mark.parametrize(
    ("flags", "shown"),
    [
        ({"learning_rate": 2e-4}, "--learning_rate=0.0002, before 0.0001"),
        ({"max_seq_length": 32}, "--max_seq_length=32, before 24"),
        ({"train_step": 1}, "--train_step=1, before 2"),
        ({"warmup_step": 1}, "--warmup_step=1, before 0"),
        ({"seed": 2}, "--seed=2, before 1"),
        ({"best_metric": "loss"}, "--best_metric=loss, before none"),
        ({"data_dir": GLUE.parent}, f"--data_dir={GLUE.parent}, before {GLUE}"),
    ],
)
def test_other_settings_are_an_error_and_change_no_file(again, out, flags, shown):
    before = contents(out)
    with refuses(shown, "step 2 of ", out):
        again(**flags)
    assert contents(out) == before


@pytest.mark.long
def test_more_updates_and_predictions_are_something_to_do(again, out, run_main, capsys):
    record = (out / "run.json").read_bytes()
    again(do_predict=True)
    assert (out / "test_results.tsv").exists() and (out / "run.json").read_bytes() == record
    again(train_step=3)
    assert (out / "model.ckpt-3.index").exists() and (out / "run.json").read_bytes() != record
    changed = re.findall(r"^  (--\w+): before", capsys.readouterr().out, re.MULTILINE)
    assert changed == ["--output_dir", "--train_step"]  # the run is a copy
    data = {"task_name": "CoLA", "data_dir": GLUE}
    run_main(run_classifier, **data, do_train=True, num_train_epochs=2, output_dir=out)
    flags = json.loads((out / "run.json").read_text())["flags"]
    assert flags["num_train_epochs"] == 2 and "train_step" not in flags
    assert "after each epoch" in capsys.readouterr().out


def test_a_pretraining_that_is_done(records, pretrain, tmp_path, capsys):
    given = {"input_file": records / "mine", "learning_rate": 1e-3}
    pretrain(**given)
    before = contents(tmp_path / "out")
    pretrain(**given)
    assert "Nothing left to train: step 1 of 1 is done." in capsys.readouterr().out
    with refuses("step 1 of 1 ... --learning_rate=0.002 ... 0.001"):
        pretrain(**given | {"learning_rate": 2e-3})
    assert contents(tmp_path / "out") == before
