# SPDX-License-Identifier: Apache-2.0
"""Bad values of flags in all commands: one plain line that names the flag, first of all."""

import json
import re
import sys

import pytest

import albert_tf
from albert_tf import options
from albert_tf.cli import flag_groups
from albert_tf.config import AlbertConfig
from albert_tf.errors import COMMANDS, as_called
from tests import ROOT
from tests.errors import assert_names
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
def test_paths_that_no_file_can_have(script, launched):
    """tests/test_options.py has other such paths."""
    value, paths = "https://example.org/x", names_of(script, is_path)
    assert paths
    for name in paths:  # whether what is required is given or not
        assert answer_to(script, launched, f"--{name}={value}").startswith(f"--{name}={value}")
    required = [f"--{name}=none" for name in names_of(script, flag_groups.requirement)]
    assert_names(answer_to(script, launched, *required, f"--{paths[0]}={value}"), value)


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
    assert_names(done.stderr, "--vocab_file=b ... --spm_model_file")


def test_commands_are_those_of_the_package():
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    scripts = re.findall(
        r'^(albert-[\w-]+) = "albert_tf(?:\.cli|_scripts)\.(\w+):run"$', text, re.M
    )
    assert {script: command for command, script in scripts} == COMMANDS


@pytest.mark.parametrize(
    "words, shown",
    [
        ("albert-spm --input_file=none --version", f"albert_tf {albert_tf.__version__}\n"),
        ("/usr/bin/albert-spm --help", "albert-spm --input_file"),
    ],
)
def test_version_and_help(words, shown, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", words.split())
    with no_flags(), pytest.raises(SystemExit) as ended:
        module_of("train_sentencepiece").run()
    out = capsys.readouterr().out
    assert shown in out and "python " not in out and ended.value.code == 0


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
VOCABULARY = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n"
CONFIG_TEXT = AlbertConfig(
    vocab_size=5, hidden_size=8, num_attention_heads=2, intermediate_size=8
).to_json_string()
MISTAKES_OF = {  # script -> rows of words and a part of the answer
    "run_classifier": [
        (("--epochs=3",), "--epochs=3 ... --num_train_epochs"),
        (("--num_epochs", "2"), "--num_epochs ... --num_train_epochs"),
        (("--learning-rate=1",), "--learning-rate=1 ... --learning_rate"),
        (("--max_seq_lenght=9",), "--max_seq_lenght=9 ... --max_seq_length"),
        (("--do_train=yes",), "--do_train=yes ... true or false"),
        ((*GLUE, "--output_dir=a", "--do_train", "true"), "true ... --do_train=true"),
        ((*GLUE, "--output_dir="), "--output_dir ... ./output_dir"),
        ((*GLUE, *TRAIN, "--export_dir="), "--export_dir"),
        ((*GLUE, *TRAIN, "--vocab_file=none", CONFIG), "--vocab_file=none"),
        ((*GLUE, *TRAIN, "--albert_config_file=none"), "config_file=none"),
        ((*GLUE, *TRAIN, "--albert_config_file={here}"), "--albert_config_file="),
        ((*GLUE, *TRAIN, "--albert_config_file={here}/bad.json"), "JSON"),
        ((*GLUE, *TRAIN, "--albert_config_file={here}/no.json"), "no.json"),
        ((*GLUE, *TRAIN, *MODEL), "--init_checkpoint"),
        ((*GLUE, *TRAIN, "--allow_random_init"), "--albert_config_file"),
        ((*GLUE, *TRAIN, CONFIG, "--allow_random_init"), "--spm_model_file"),
        ((*GLUE, *TRAIN, *MODEL, "--init_checkpoint=none"), "--init_checkpoint=none"),
        ((*GLUE, *TRAIN, "--albert_hub_module_handle=none"), "--albert_hub_module_handle=none"),
        ((*GLUE, *TRAIN, *FRESH, "--data_dir=none"), "--data_dir=none"),
        ((*GLUE, *TRAIN, *FRESH, "--data_dir={here}/vocab.txt"), "--data_dir="),
        ((*GLUE, *TRAIN, *FRESH, "--task_name=SST2"), "sst-2"),
        ((*GLUE, *TRAIN, *FRESH, "--max_seq_length=4"), "5"),
        ((*GLUE, *TRAIN, *FRESH, "--export_tflite"), "--export_tflite"),
        ((*GLUE, *TRAIN, *FRESH, "--export_dir=a", "--card_file={here}/latin.md"), "md ... UTF-8"),
        ((*GLUE, *TRAIN, *FRESH, "--export_dir=a", "--card_file={here}/open.md"), "open.md ... 3"),
        ((*GLUE, *TRAIN, *FRESH, "--glue_submission_dir=a"), "--do_predict"),
        ((*GLUE, *TRAIN, *FRESH, "--text_column=a"), "--task_name=rte ... tsv"),
        ((*GLUE, *TRAIN, *FRESH, "--profile_steps=9"), "first:last"),
        ((*GLUE, *PREDICT, *MODEL), "/ou"),
        ((*GLUE, *PREDICT, *MODEL, "--output_dir={here}"), "--output_dir="),
        ((*GLUE, *PREDICT, "--albert_hub_module_handle={here}"), "--output_dir="),
    ],
    "run_race": [
        ((), "--data_dir, --output_dir ... --help"),
        (("--data_dir=x", "--output_di=y"), "--output_di ... --output_dir ... --help"),
        ((*TRAIN, *FRESH, "--data_dir=none"), "--data_dir=none"),
        ((*TRAIN, "--data_dir={here}", "--high_only", "--middle_only"), "--high_only"),
        ((*PREDICT, "--data_dir={here}", "--nodo_train"), "/ou"),
        ((*PREDICT, "--data_dir={here}", "--ensemble_dirs=a,b"), "--ensemble_dirs ... --do_train"),
        ((*PREDICT, "--data_dir={here}", "--nodo_train", "--ensemble_dirs=a,b"), "_dirs=a"),
    ],
    "run_squad": [
        ((*TRAIN, *FRESH), "--do_train ... --train_file"),
        ((*TRAIN, *FRESH, "--train_file=none"), "--train_file=none"),
        ((*TRAIN, *FRESH, "--train_file={here}"), "--train_file="),
        ((*TRAIN, *FRESH, "--train_file={here}/bad.json", "--doc_stride=400"), "_stride=400"),
        ((*PREDICT, *MODEL, "--predict_file={here}/bad.json"), "/ou"),
        ((*PREDICT, "--predict_file={here}/bad.json", "--ensemble_dirs=a,b"), "_dirs=a"),
        ((*PREDICT, "--predict_file=x", "--null_score_diff_threshold=nan"), "_threshold ... nan"),
    ],
    "run_pretraining": [
        (("--epochs=3",), "--epochs=3 ... --num_train_steps"),
        ((*RECORDS, "--input_file=x", "--output_dir="), "--output_dir"),
        ((*RECORDS, "--input_file=none*"), "--input_file ... 'none*'"),
        ((*RECORDS, "--input_file={here}/*", "--eval_input_file=none", "--do_eval"), "'none'"),
        ((*RECORDS, "--input_file={here}/*", "--init_checkpoint=none"), "=none"),
        ((*RECORDS, "--input_file={here}/*", CONFIG[:-4]), "--albert_config_file="),
        ((*RECORDS, "--input_file={here}/*", "--init_from_group0"), "--init_check"),
        ((*RECORDS, "--input_file={here}/*", "--ngram=2"), "--ngram ... --mask"),
        ((*RECORDS, "--input_file={here}/*", "--nodo_whole_word_mask"), "--masked"),
        ((*RECORDS, "--input_file=x", "--nodo_train"), "--do_train"),
        ((*RECORDS, "--input_file={here}/*", "--nodo_train", "--do_eval"), "_dir= ... /out"),
    ],
    "create_pretraining_data": [
        ((*DATA, "--input_file=none"), "--input_file ... 'none'"),
        ((*DATA, "--input_file={here}/*", "--vocab_file=none"), "--vocab_file=none"),
        ((*DATA, "--input_file={here}/*", "--dupe_factor=0"), "1"),
        ((*DATA[:1], "--input_file={here}/*"), "--spm"),
        ((*DATA, "--input_file={here}/*", "--document_per_line"), "--in"),
    ],
    "train_sentencepiece": [
        (("--input_file=none", "--model_prefix=x"), "'none'"),
        (("--input_file={here}/*", "--model_prefix=x/"), "--model_prefix=x/"),
        (("--input_file={here}/*", "--model_prefix="), "--model_prefix="),
        (("--input_file=x", "--model_prefix=x", "--vocab_size=2"), "--vocab_size"),
    ],
    "minimal_pairs": [
        (("--model=none", "--input_file={here}/*"), "--model=none"),
        (("--model={here}", "--input_file=none"), "--input_file"),
        (("--model={here}", "--input_file={here}/*", "--output_file={here}"), "--output_file="),
    ],
    "make_config": [(("--vocab=none",), "--vocab=none"), (("--vocab={here}",), "--vocab=")],
    "export_checkpoints": [
        (("--albert_directory={here}/model", "--export_path="), "--export_path"),
        ((*EXPORT, "--albert_directory="), "--albert_directory"),
        ((*EXPORT, "--albert_directory={here}/vocab.txt"), "--albert_directory="),
        ((*EXPORT, "--albert_directory=none"), "--albert_directory=none"),
        ((*EXPORT, "--albert_directory=english-small"), "=english-small ... models/english-small"),
        ((*EXPORT, "--albert_directory={here}/empty"), "albert_config.json"),
        ((*EXPORT, "--albert_directory={here}/model"), "model.ckpt-best"),
        ((*EXPORT, "--albert_directory={here}/bad"), "JSON"),
    ],
    "export_to_tfhub": [
        (("--albert_directory={here}/model", "--export_path="), "--export_path"),
        ((*EXPORT, "--albert_directory="), "--albert_directory"),
        ((*EXPORT, "--albert_directory={here}/bad"), "JSON"),
        ((*EXPORT, "--albert_directory={here}/vocab.txt"), "--albert_directory="),
        ((*EXPORT, "--albert_directory={here}/model"), "model.ckpt-best"),
        ((*EXPORT, "--albert_directory={here}", "--max_seq_length=9"), "--export"),
    ],
    "predict": [
        (("--text=a", "film"), "film ... --text="),
        ((), "--saved_model ... --model"),
        (("--saved_model=none", "--text=a"), "--saved_model=none"),
        (("--model=none", "--text=a"), "--model=none"),
        (("--model={here}", "--input_file=none"), "--input_file=none"),
        (("--model={here}", "--text=a", "--spm_model_file=none"), "_file=none"),
        (("--model={here}", "--text=a", "--albert_config_file={here}/bad.json"), "JSON"),
    ],
}
BAD_VALUES = [  # which come before what is not given
    ("run_pretraining", "--dtype=float16"),
    ("run_classifier", "--train_step=abc"),
    ("run_pretraining", "--learning_rate=x"),
    ("create_pretraining_data", "--ngram=0", "--ngram ... 1"),
    ("export_checkpoints", "--export_format=pt"),
    ("run_race", "--do_train=perhaps"),
]
MISTAKES = [(script, *row) for script, rows in MISTAKES_OF.items() for row in rows]
MISTAKES += [(script, (word,), *(message or [word])) for script, word, *message in BAD_VALUES]


@pytest.fixture(scope="module")
def said_without_tensorflow(tmp_path_factory):
    """The line on standard error and the exit code of each of MISTAKES, where TensorFlow is not."""
    here = tmp_path_factory.mktemp("files")
    for folder in ("model", "bad", "empty"):
        (here / folder).mkdir()
    texts = {"config.json": CONFIG_TEXT, "model/albert_config.json": CONFIG_TEXT}
    texts |= {"bad.json": "{", "bad/albert_config.json": "{"}
    texts |= {"no.json": '{"vocab_size": -1}', "vocab.txt": VOCABULARY}
    for name, text in texts.items():
        (here / name).write_text(text)
    (here / "latin.md").write_bytes(b"\xe9")
    (here / "open.md").write_text("---\nlicense: mit\nTrained on films.\n")
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
    assert line.startswith(f"{script}: error: ")
    assert_names(line, message)
    assert code == "exit code 1"


@pytest.mark.parametrize("ours", options._CALLED_ELSEWHERE)
def test_names_of_other_libraries_mean_flags_of_commands(ours):
    flags = {script: names_of(script, lambda _: True) for script in COMMANDS}
    assert set(ours.split("|")) <= {name for names in flags.values() for name in names}
    for theirs in options._CALLED_ELSEWHERE[ours].split("|"):
        for names in flags.values():
            meant = options.name_here(theirs, names)
            if theirs not in names and set(ours.split("|")) & set(names):
                assert meant == next(name for name in ours.split("|") if name in names)


@pytest.mark.parametrize(
    ("script", "typed", "meant"),
    [
        ("predict", "text_file", "input_file"),
        ("predict", "model_dir", "model"),
        ("run_classifier", "num_train_steps", "train_step"),
        ("run_classifier", "learnig-rate", "learning_rate"),
        ("run_squad", "train_step", "num_train_epochs"),
        ("run_squad", "warmup_step", "warmup_proportion"),
        ("run_pretraining", "use_gpu", None),
        ("run_pretraining", "model_dir", "output_dir"),
        ("run_pretraining", "outputdir", "output_dir"),
        ("create_pretraining_data", "dup_factor", "dupe_factor"),
        ("train_sentencepiece", "max_sentencepiece_length", None),
        ("train_sentencepiece", "model_type", None),
    ],
)
def test_names_that_nobody_has_mean_the_nearest_flag(script, typed, meant):
    assert options.name_here(typed, names_of(script, lambda _: True)) == meant


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
        "download_model": {"model": "base", "address": "http://127.0.0.1:1"},
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
