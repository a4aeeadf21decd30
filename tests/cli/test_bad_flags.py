# SPDX-License-Identifier: Apache-2.0
"""Bad values of flags in all commands: one plain line that names the flag, first of all."""

import json
import re
import sys

import pytest

from albert_tf.cli import flag_groups
from albert_tf.config import AlbertConfig
from albert_tf.errors import COMMANDS, as_called
from tests import ROOT
from tests.processes import run_python
from tests.script_flags import flags_of, module_of, no_flags


def names_of(script, test):
    """Names of the script's flags that pass a test: list of str."""
    with flags_of(module_of(script)):
        return [flag.name for flag in flag_groups.own_flags() if test(flag)]


def is_path(flag):
    return flag.option.metadata["path"]


def answer_to(script, launched, *words):
    """What the command says to these words: its one line on standard error."""
    done = launched(module_of(script), *words)
    start, _, message = done.stderr.partition(": error: ")
    assert (done.returncode, start) == (1, script) and message.count("\n") == 1
    return message


@pytest.mark.parametrize("script", COMMANDS)
@pytest.mark.parametrize(
    "value, message",
    [
        ("https://example.org/x", "nothing is downloaded. Download it first"),
        ("none\udcff", "a path must be UTF-8"),
        ("{loop}/x", "Too many levels of symbolic links"),
    ],
)
def test_paths_that_no_file_can_have(script, value, message, launched, tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    value = value.replace("{loop}", str(tmp_path / "loop"))
    paths = names_of(script, is_path)
    assert len(paths) > 1
    for name in paths:  # whether what is required is given or not
        said = answer_to(script, launched, f"--{name}={value}")
        assert said.startswith(f"--{name}=") and message in said
    required = [f"--{name}=none" for name in names_of(script, flag_groups.requirement)]
    assert message in answer_to(script, launched, *required, f"--{paths[0]}={value}")


@pytest.mark.parametrize(
    "script, words, message",
    [
        ("run_pretraining", "--dtype=float16", "--dtype=float16: value should be one of"),
        ("run_squad", "--dtype=float16", "--dtype=float16: value should be one of"),
        ("run_classifier", "--train_step=abc", "--train_step=abc is not a whole number."),
        ("run_squad", "--shuffle_buffer_size=100000000", "at least 1 and at most 10000000. Rec"),
        ("run_race", "--train_step=-1", "--train_step must be at least 1. Received: -1"),
        ("run_pretraining", "--learning_rate=x", "--learning_rate=x is not a number."),
        ("make_config", "--size=medium", "--size=medium: value should be one of"),
        ("create_pretraining_data", "--ngram=three", "--ngram=three is not a whole number."),
        ("create_pretraining_data", "--ngram=0", "--ngram must be at least 1"),
        ("train_sentencepiece", "--vocab_size=30k", "--vocab_size=30k is not a whole number."),
        ("export_checkpoints", "--export_format=pt", "--export_format=pt: value should be one"),
        ("export_to_tfhub", "--export_type=x", "--export_type=x: value should be one of"),
        ("predict", "--top_k=all", "--top_k=all is not a whole number."),
        ("run_race", "--do_train=perhaps", "--do_train=perhaps: "),
    ],
)
def test_a_bad_value_comes_before_what_is_not_given(script, words, message, launched):
    assert message in answer_to(script, launched, *words.split())


@pytest.mark.parametrize(
    "words, expected",
    [
        ("python predict.py --x", "albert-predict --x"),
        ("see run_pretraining.py, or my_run_squad.py", "see albert-pretrain, or my_run_squad.py"),
    ],
)
def test_hints_name_the_command_as_it_was_called(words, expected, monkeypatch):
    assert as_called(words) == words
    monkeypatch.setattr(sys, "argv", ["/usr/bin/albert-squad", "--x"])
    assert as_called(words) == expected


@pytest.mark.parametrize(
    "script, words",
    [
        ("create_pretraining_data", "--input_file=none --output_file=none"),
        ("run_classifier", "--task_name=rte --data_dir=none --output_dir=none --do_train"),
        ("predict", "--model=none"),
    ],
)
def test_a_vocabulary_that_another_one_replaces_is_named(script, words, launched):
    done = launched(module_of(script), "--spm_model_file=a", "--vocab_file=b", *words.split())
    assert "--vocab_file=b is not used, as there is a --spm_model_file" in done.stderr


def test_commands_are_those_of_the_package():
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    scripts = re.findall(r'^(albert-[\w-]+) = "(?:albert_tf\.cli\.)?(\w+):run"$', text, re.M)
    assert {script: command for command, script in scripts} == COMMANDS


def test_help_names_the_command_as_it_was_called(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["/usr/bin/albert-spm", "--help"])
    module = module_of("train_sentencepiece")
    with no_flags(), pytest.raises(SystemExit):
        module.run()
    shown = capsys.readouterr().out
    assert "albert-spm --input_file" in shown and "python " not in shown


# --- Before TensorFlow is imported ---------------------------------------------------------------

RUN = r"""
import json, runpy, sys
sys.path.insert(0, ".")
sys.modules["tensorflow"] = None  # an import is an error, which ends in a traceback
for script, words in json.loads(sys.argv[1]):
    sys.argv = [f"{script}.py", *words]
    for name in [name for name in sys.modules if name.split(".")[0] in ("absl", "albert_tf")]:
        del sys.modules[name]
    try:
        runpy.run_path(f"{script}.py", run_name="__main__")
    except SystemExit as end:
        print(f"exit code {end.code}", file=sys.stderr)
    except BaseException as error:
        print(f"{error!r}\nno exit", file=sys.stderr)
"""
CONFIG = "--albert_config_file={here}/config.json"
MODEL = (CONFIG, "--vocab_file={here}/vocab.txt")
FRESH = (*MODEL, "--allow_random_init")
TRAIN = ("--output_dir={here}/out", "--do_train")
PREDICT = ("--output_dir={here}/ou", "--do_predict")
GLUE = ("--task_name=rte", "--data_dir={here}")
DATA = ("--output_file={here}/x.tfrecord", "--vocab_file={here}/vocab.txt")
RECORDS = (CONFIG, "--output_dir={here}/out")
EXPORT = ("--export_path={here}/export",)
NO_FILE = "there is no such file"
VOCABULARY = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n"
CONFIG_TEXT = AlbertConfig(
    vocab_size=5, hidden_size=8, num_attention_heads=2, intermediate_size=8
).to_json_string()
MISTAKES_OF = {  # script -> rows of words and a part of the answer
    "run_classifier": [
        ((*GLUE, "--output_dir="), "--output_dir is empty: give a path, such as ./output_dir"),
        ((*GLUE, *TRAIN, "--export_dir="), "--export_dir is empty"),
        ((*GLUE, *TRAIN, "--vocab_file=none", CONFIG), "--vocab_file=none: " + NO_FILE),
        ((*GLUE, *TRAIN, "--albert_config_file=none"), "config_file=none: " + NO_FILE),
        ((*GLUE, *TRAIN, "--albert_config_file={here}"), "is a directory: give a"),
        ((*GLUE, *TRAIN, "--albert_config_file={here}/bad.json"), "is not JSON"),
        ((*GLUE, *TRAIN, "--albert_config_file={here}/list.json"), "one JSON object"),
        ((*GLUE, *TRAIN, "--albert_config_file={here}/no.json"), "no.json: "),
        ((*GLUE, *TRAIN, *MODEL), "no weights to start from: give --init_checkpoint"),
        ((*GLUE, *TRAIN, "--allow_random_init"), "give --albert_config_file or"),
        ((*GLUE, *TRAIN, CONFIG, "--allow_random_init"), "give --spm_model_file or"),
        ((*GLUE, *TRAIN, *MODEL, "--init_checkpoint=none"), "--init_checkpoint=none:"),
        ((*GLUE, *TRAIN, "--albert_hub_module_handle=none"), "is not a directory"),
        ((*GLUE, *TRAIN, *FRESH, "--data_dir=none"), "--data_dir=none is not a directory"),
        ((*GLUE, *TRAIN, *FRESH, "--data_dir={here}/vocab.txt"), "is a file: give"),
        ((*GLUE, *TRAIN, *FRESH, "--task_name=SST2"), "Did you mean sst-2?"),
        ((*GLUE, *TRAIN, *FRESH, "--max_seq_length=4"), "must be at least 5"),
        ((*GLUE, *TRAIN, *FRESH, "--export_tflite"), "--export_tflite does nothing without"),
        (
            (*GLUE, *TRAIN, *FRESH, "--export_dir=a", "--card_file={here}/latin.md"),
            "latin.md: not UTF-8 text",
        ),
        ((*GLUE, *TRAIN, *FRESH, "--glue_submission_dir=a"), "nothing without --do_predict"),
        ((*GLUE, *TRAIN, *FRESH, "--id_column=a"), "--id_column does nothing"),
        ((*GLUE, *TRAIN, *FRESH, "--text_column=a"), "for --task_name=tsv"),
        ((*GLUE, *TRAIN, *FRESH, "--profile_steps=9"), "must be first:last"),
        (
            (*GLUE, *TRAIN, *FRESH, "--steps_per_loop=5", "--iterations_per_loop=7"),
            "--iterations_per_loop=7 and --steps_per_loop=5 are the same setting",
        ),
        ((*GLUE, *PREDICT, *MODEL), "/ou does not exist, so it holds no"),
        ((*GLUE, *PREDICT, *MODEL, "--output_dir={here}"), "holds no checkpoint to"),
        ((*GLUE, *PREDICT, "--albert_hub_module_handle={here}"), "holds no checkpoint to"),
        ((*PREDICT, "--predict_file=none", "--init_checkpoint={here}"), "file=none: "),
    ],
    "run_race": [
        (("--data_dir={here}", "--output_dir="), "--output_dir is empty"),
        ((*TRAIN, "--data_dir={here}", "--export_dir="), "--export_dir is empty"),
        ((*TRAIN, *FRESH, "--data_dir=none"), "--data_dir=none is not a directory"),
        ((*TRAIN, *FRESH, "--data_dir={here}", "--max_qa_length=510"), "--max_qa_length=510"),
        ((*TRAIN, "--data_dir={here}", "--high_only", "--middle_only"), "exclude each other"),
        ((*TRAIN, *FRESH, "--data_dir={here}", "--dropout_prob=1"), "--dropout_prob must be"),
        ((*PREDICT, "--data_dir={here}", "--nodo_train"), "/ou does not exist"),
        ((*PREDICT, "--data_dir={here}", "--seed=-1"), "--seed must be at least 0 and at most 4"),
    ],
    "run_squad": [
        (("--output_dir=",), "--output_dir is empty"),
        ((*TRAIN, "--export_dir="), "--export_dir is empty"),
        ((*TRAIN, *FRESH), "--do_train needs --train_file"),
        ((*TRAIN, *FRESH, "--train_file=none"), "--train_file=none: " + NO_FILE),
        ((*TRAIN, *FRESH, "--train_file={here}"), "is a directory: give a file"),
        ((*TRAIN, *FRESH, "--train_file={here}/bad.json", "--doc_stride=400"), "_stride=400"),
        ((*PREDICT, *MODEL, "--predict_file={here}/bad.json"), "/ou does not exist"),
        ((*PREDICT, "--predict_file={here}/bad.json", "--ensemble_dirs=a,b"), "_dirs=a is not a"),
        ((*PREDICT, "--predict_file=x", "--null_score_diff_threshold=nan"), "be a number"),
    ],
    "run_pretraining": [
        ((*RECORDS, "--input_file=x", "--output_dir="), "--output_dir is empty"),
        ((*RECORDS, "--input_file=none*"), "--input_file: no file matches 'none*'"),
        ((*RECORDS, "--input_file={here}/*", "--eval_input_file=none"), "matches 'none'"),
        ((*RECORDS, "--input_file={here}/*", "--init_checkpoint=none"), "=none: there"),
        ((*RECORDS, "--input_file={here}/*", CONFIG[:-4]), NO_FILE),
        ((*RECORDS, "--input_file={here}/*", "--masked_lm_budget=0.1"), "needs a voc"),
        ((*RECORDS, "--input_file={here}/*", "--init_from_group0"), "without --init_check"),
        (
            (*RECORDS, "--input_file={here}/*", "--steps_per_loop=5", "--iterations_per_loop=7"),
            "--iterations_per_loop=7 and --steps_per_loop=5",
        ),
        ((*RECORDS, "--input_file={here}/*", "--ngram=2"), "--ngram does nothing without --mask"),
        (
            (*RECORDS, "--input_file={here}/*", "--favor_shorter_ngram"),
            "does nothing without --masked",
        ),
        (
            (*RECORDS, "--input_file={here}/*", "--do_whole_word_mask"),
            "does nothing without --masked",
        ),
        ((*RECORDS, "--input_file=x", "--nodo_train"), "nothing to do: give --do_train"),
        (
            (*RECORDS, "--input_file={here}/*", "--nodo_train", "--do_eval"),
            "out does not exist, so it holds no checkpoint to evaluate",
        ),
    ],
    "create_pretraining_data": [
        ((*DATA, "--input_file=none"), "--input_file: no file matches 'none'"),
        ((*DATA, "--input_file={here}/*", "--vocab_file=none"), NO_FILE),
        ((*DATA, "--input_file={here}/*", "--dupe_factor=0"), "at least 1"),
        ((*DATA[:1], "--input_file={here}/*"), "needs a vocabulary: give --spm"),
        ((*DATA, "--input_file={here}/*", "--document_per_line"), "is for --in"),
    ],
    "train_sentencepiece": [
        (("--input_file=none", "--model_prefix=x"), "no file matches 'none'"),
        (("--input_file={here}/*", "--model_prefix=x/"), "--model_prefix=x/: give a name for the"),
        (
            ("--input_file={here}/*", "--model_prefix="),
            "--model_prefix=: give a name for the files",
        ),
        (("--input_file=x", "--model_prefix=x", "--vocab_size=2"), "--vocab_size"),
    ],
    "minimal_pairs": [
        (("--model=none", "--input_file={here}/*"), "--model=none: there is no such"),
        (("--model={here}", "--input_file=none"), "--input_file: no file matches"),
        (
            ("--model={here}", "--input_file={here}/*", "--output_file={here}"),
            "is a directory: give a file",
        ),
    ],
    "make_config": [
        (("--vocab=none",), "--vocab=none: " + NO_FILE),
        (("--vocab={here}",), "is a directory: give a file"),
    ],
    "export_checkpoints": [
        (("--albert_directory={here}/model", "--export_path="), "--export_path is empty"),
        ((*EXPORT, "--albert_directory="), "--albert_directory is empty"),
        ((*EXPORT, "--albert_directory={here}/vocab.txt"), "is a file: give a"),
        ((*EXPORT, "--albert_directory=none"), "--albert_directory=none is not a dir"),
        ((*EXPORT, "--albert_directory={here}/empty"), "holds no albert_config.json: put"),
        ((*EXPORT, "--albert_directory={here}/model"), "no checkpoint at "),
        ((*EXPORT, "--albert_directory={here}/bad"), "is not JSON"),
    ],
    "export_to_tfhub": [
        (("--albert_directory={here}/model", "--export_path="), "--export_path is empty"),
        ((*EXPORT, "--albert_directory="), "--albert_directory is empty"),
        ((*EXPORT, "--albert_directory={here}/bad"), "is not JSON"),
        ((*EXPORT, "--albert_directory={here}/vocab.txt"), "is a file: give a"),
        ((*EXPORT, "--albert_directory={here}/model"), "no checkpoint at "),
        ((*EXPORT, "--albert_directory={here}", "--max_seq_length=9"), "is for --export"),
    ],
    "predict": [
        ((), "give --saved_model, an export, or --model"),
        (("--saved_model=none", "--text=a"), "--saved_model=none is not a directory"),
        (("--model=none", "--text=a"), "--model=none: there is no such checkpoint or"),
        (("--model={here}", "--input_file=none"), "--input_file=none: " + NO_FILE),
        (("--model={here}", "--text=a", "--spm_model_file=none"), "_file=none: " + NO_FILE),
        (("--model={here}", "--text=a", "--albert_config_file={here}/bad.json"), "is not JSON"),
    ],
}
MISTAKES = [(script, *row) for script, rows in MISTAKES_OF.items() for row in rows]


@pytest.fixture(scope="module")
def said_without_tensorflow(tmp_path_factory):
    """The line on standard error and the exit code of each of MISTAKES, where TensorFlow is not."""
    here = tmp_path_factory.mktemp("files")
    for folder in ("model", "bad", "empty"):
        (here / folder).mkdir()
    texts = {"config.json": CONFIG_TEXT, "model/albert_config.json": CONFIG_TEXT}
    texts |= {"bad.json": "{", "bad/albert_config.json": "{", "list.json": "[1]"}
    texts |= {"no.json": '{"vocab_size": -1}', "vocab.txt": VOCABULARY}
    for name, text in texts.items():
        (here / name).write_text(text)
    (here / "latin.md").write_bytes(b"\xe9")
    before = sorted(here.rglob("*"))
    calls = [
        (script, [w.replace("{here}", str(here)) for w in words]) for script, words, _ in MISTAKES
    ]
    done = run_python("-c", RUN, json.dumps(calls))
    assert done.returncode == 0, done.stderr
    lines = done.stderr.splitlines()
    assert len(lines) == 2 * len(MISTAKES), done.stderr
    assert sorted(here.rglob("*")) == before
    return list(zip(lines[::2], lines[1::2], strict=True))


@pytest.mark.parametrize("number", range(len(MISTAKES)))
def test_mistakes_are_answered_before_tensorflow_is_imported(number, said_without_tensorflow):
    script, _, message = MISTAKES[number]
    line, code = said_without_tensorflow[number]
    assert line.startswith(f"{script}: error: ") and message in line
    assert code == "exit code 1"


# --- Remote paths --------------------------------------------------------------------------------


@pytest.fixture
def valid(tmp_path):
    """Flags of each script that hold together, up to what lies in the files: script -> dict."""
    text, vocabulary = tmp_path / "text.txt", tmp_path / "vocab.txt"
    config_file = tmp_path / "albert_config.json"
    text.write_text("a\n")
    config_file.write_text(CONFIG_TEXT)
    vocabulary.write_text(VOCABULARY)
    (tmp_path / "model.ckpt-best.index").write_text("")
    model = {"albert_config_file": config_file, "vocab_file": vocabulary}
    tuning = model | {"output_dir": tmp_path / "out", "do_train": True, "allow_random_init": True}
    export = {"albert_directory": tmp_path, "export_path": tmp_path / "export" / "x"}
    return {
        "create_pretraining_data": {
            "input_file": text, "output_file": tmp_path / "x", "vocab_file": vocabulary
        },
        "run_pretraining": {
            "albert_config_file": config_file, "input_file": text, "output_dir": tmp_path / "out"
        },
        "run_classifier": tuning | {"task_name": "rte", "data_dir": tmp_path},
        "run_race": tuning | {"data_dir": tmp_path},
        "run_squad": tuning | {"train_file": text},
        "predict": {"model": tmp_path, "text": "a"},
        "minimal_pairs": {"model": tmp_path, "input_file": text},
        "make_config": {"vocab": vocabulary, "output_file": tmp_path / "config.json"},
        "export_to_tfhub": export,
        "export_checkpoints": export,
        "train_sentencepiece": {"input_file": text, "model_prefix": tmp_path / "spm"},
    }  # fmt: skip


@pytest.mark.parametrize("script", COMMANDS)
def test_remote_paths_of_no_known_file_system(script, valid, launched):
    for name in names_of(script, is_path):
        flags = {"predict": {"text": "a"}}.get(script, valid[script])
        done = launched(module_of(script), **flags | {name: "foo://x/y"})
        last = done.stderr.splitlines()[-1:]
        assert "Traceback" not in done.stderr and done.returncode == 1 and last, name
        assert last[0].startswith(f"{script}: error: "), (name, last)
