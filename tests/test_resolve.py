# SPDX-License-Identifier: Apache-2.0
"""What a command means: every option of every command, typed or not, recorded or not."""

import pytest

from albert_tf import options, resolve
from albert_tf.config import AlbertConfig
from albert_tf.errors import UserError
from albert_tf.resolve import DEFAULT, RECORD, SOURCE, TYPED, Fact
from tests.errors import refuses
from tests.processes import run_python
from tests.script_flags import flags_of, module_of

COMMANDS = (
    "create_pretraining_data", "run_pretraining", "run_classifier", "run_race", "run_squad",
    "predict", "minimal_pairs", "make_config", "train_sentencepiece", "export_checkpoints",
    "export_to_tfhub",
)  # fmt: skip
FILE = "somewhere/run.json"
HUB_LENGTH = {"export_type": "preprocessing", "max_seq_length": 65}


def rows_of(command):
    from albert_tf.cli import flag_groups

    with flags_of(module_of(command)):
        rows = [
            resolve.Row(flag.name, flag.default, flag.option.metadata | {"heading": flag.subject})
            for flag in flag_groups.own_flags()
        ]
        return {row.name: row for row in rows}


ROWS = {command: rows_of(command) for command in COMMANDS}
CASES = [
    pytest.param(rows, row, id=f"{command}.{row.name}")
    for command, rows in ROWS.items()
    for row in rows.values()
    if row.columns["heading"] != options.NO_EFFECT
]
CONDITIONAL = [case for case in CASES if case.values[1].columns["read_by"]]


def values_of(row):
    """Two values of an option that differ from each other and from its default."""
    kind, choices = options.KINDS[row.name], row.columns["choices"]
    if choices and not row.columns["repeated"]:
        found = [value for value in choices if value != row.default]
        return [*found, row.default, "another"][:2]
    if kind is bool:
        return [not row.default, bool(row.default)]
    if kind in (int, float):
        return [kind(n) for n in (3, 7, 9) if n != row.default][:2]
    return [["a"], ["b"]] if kind is list else ["a", "b"]


def meeting(rows, row, seen=()):
    """Typed values with which an option is read."""
    typed = {}
    for condition in row.columns["read_by"].split():
        name, is_about_value, values = condition.strip("~").split("|")[0].partition("=")
        excluded = name.removeprefix("!")
        if name != excluded and excluded in rows and rows[excluded].default is True:
            typed[excluded] = False
        if name not in rows or name in seen:
            continue
        if is_about_value:
            negated, wanted = name.endswith("!"), values.split(",")[0]
            typed[name.removesuffix("!")] = {"true": True}.get(wanted, "rte" if negated else wanted)
        else:
            typed[name] = values_of(rows[name])[0] if not rows[name].default else rows[name].default
            typed |= meeting(rows, rows[name], (*seen, row.name))
    if "task_name" in rows and row.name == "task_name":
        typed.pop("task_name", None)
    return typed


def resolved(rows, row, typed, value, **fact):
    others = {name: given for name, given in meeting(rows, row).items() if name != row.name}
    needed = {name: "x" for name in rows if isinstance(rows[name].columns["required"], str)}
    given = needed | (others if typed else {}) | typed
    if row.name not in typed:
        given.pop(row.name, None)
    return resolve.resolve(rows, given, {row.name: Fact(value, FILE, **fact)})


@pytest.mark.parametrize(("rows", "row"), CASES)
def test_typed_against_recorded(rows, row):
    """Each option with a recorded value: absent, as recorded, and contradicting."""
    recorded, other = values_of(row)
    rule = row.columns["on_record"]
    assert rule in ("equal", "follow", "start", "free")

    if rule != "free" or not isinstance(row.columns["required"], str):
        absent = resolved(rows, row, {}, recorded)
        expected = (row.default, DEFAULT) if rule == "free" else (recorded, RECORD)
        assert (absent.get(row.name), absent.origin(row.name)) == expected

    same = resolved(rows, row, {row.name: recorded}, recorded)
    assert same.get(row.name) == recorded
    is_start = rule == "start" and row.columns["path"]  # the checkpoint from which a run started
    assert same.origin(row.name) == (RECORD if is_start else TYPED)

    if rule in ("equal", "start") and not is_start:
        with pytest.raises(UserError) as caught:
            resolved(rows, row, {row.name: other}, recorded)
        words = resolve.as_flag(row.name, other), FILE, resolve.as_flag(row.name, recorded)
        assert all(text in str(caught.value) for text in words)
        unbound = resolved(rows, row, {row.name: other}, recorded, origin=SOURCE, binds=False)
        assert unbound.get(row.name) == other
    else:
        contradicting = resolved(rows, row, {row.name: other}, recorded)
        assert contradicting.get(row.name) == (recorded if is_start else other)


@pytest.mark.parametrize(("rows", "row"), CONDITIONAL)
def test_an_option_that_is_not_read(rows, row):
    """Without each of its conditions, a typed option is an error or a note that names it."""
    value = next(value for value in values_of(row) if value != row.default)
    for condition in row.columns["read_by"].split():
        text = condition.strip("~")
        names = {part.strip("!").partition("=")[0].strip("!") for part in text.split("|")}
        if not names <= rows.keys():
            continue
        typed = meeting(rows, row)
        for part in text.split("|"):
            name, is_about_value, values = part.partition("=")
            if is_about_value:
                bad = values.split(",")[0] if name.endswith("!") else "other"
                typed[name.strip("!")] = False if values == "true" else bad
            elif name.startswith("!"):
                name = name.strip("!")
                typed |= meeting(rows, rows[name], (row.name,))
                typed[name] = True if options.KINDS[name] is bool else values_of(rows[name])[0]
            else:
                typed[name] = False if options.KINDS[name] is bool else None
        typed[row.name] = value
        needed = {name: "x" for name in rows if isinstance(rows[name].columns["required"], str)}
        shown = f"{resolve.as_flag(row.name, value)} does nothing w"
        if condition.startswith("~"):
            found = resolve.resolve(rows, needed | typed)
            assert any(note.startswith(shown) for note in found.notes), condition
            assert row.name not in found.effective()
        else:
            with pytest.raises(UserError) as caught:
                resolve.resolve(rows, needed | typed)
            assert "does nothing w" in str(caught.value), condition


@pytest.mark.parametrize("command", COMMANDS)
def test_options_that_must_have_a_value(command):
    rows = ROWS[command]
    for row in rows.values():
        if not isinstance(row.columns["required"], str):
            continue
        for mode in row.columns["required"].split("|"):
            others = {name: False for name in ("do_train", "do_eval", "do_predict") if name in rows}
            with refuses(f"--{mode}"):
                resolve.resolve(rows, others | {mode: True}, {})
        if row.columns["on_record"] != "free":  # it may be recorded
            others = {name: "x" for name in rows if isinstance(rows[name].columns["required"], str)}
            del others[row.name]
            resolve.resolve(rows, {mode: True} | others)
            found = resolve.resolve(rows, {mode: True} | others, {row.name: Fact("tsv", FILE)})
            assert found.get(row.name) == "tsv"


def test_sources_that_a_command_uses_together_agree():
    rows = ROWS["run_squad"]
    one = {"doc_stride": Fact(16, "one"), "n_best_size": Fact(5, "one")}
    assert resolve.agreed(rows, {}, [one, one]) == one
    for name in one:
        two = one | {name: Fact(9, "two")}
        with refuses(f"one ... two ... --{name}=9"):
            resolve.agreed(rows, {}, [one, two])
    assert resolve.agreed(rows, {"n_best_size": 3}, [one, one | {"n_best_size": Fact(9, "two")}])
    for name, values in {"learning_rate": (1e-5, 3e-5), "train_batch_size": (8, 16)}.items():
        trained = [one | {name: Fact(value, "two")} for value in values]  # in different ways
        assert resolve.agreed(rows, {}, trained)["doc_stride"] == one["doc_stride"]


def test_what_is_compared_may_be_another_value():
    rows = ROWS["run_classifier"]
    facts = {"spm_model_file": Fact("there/spm.model", FILE, key="hash")}
    hashes = {"copy.model": "hash", "other.model": "other"}
    key = lambda name, value: hashes[value]  # noqa: E731
    settings = resolve.resolve(rows, {"spm_model_file": "copy.model"}, facts, key=key)
    assert settings.spm_model_file == "copy.model"
    with refuses("other.model ... there/spm.model"):
        resolve.resolve(rows, {"spm_model_file": "other.model"}, facts, key=key)
    typed, how = {"spm_model_file": "other.model"}, {"key": key, "may_differ": facts}
    with refuses("other.model ... --allow_changes_on_resume"):
        resolve.resolve(rows, typed, facts, **how)
    allowed = typed | {"allow_changes_on_resume": True}
    assert resolve.resolve(rows, allowed, facts, **how).spm_model_file == "other.model"
    with refuses("other.model") as caught:
        resolve.resolve(rows, allowed, facts, key=key)
    assert "--allow_changes_on_resume" not in str(caught.value)


def test_all_contradictions_are_in_one_error():
    rows = ROWS["run_pretraining"]
    facts = {"optimizer": Fact("lamb", FILE), "train_batch_size": Fact(4, FILE)}
    with refuses("--optimizer=adamw ... --train_batch_size=8 ... wait"):
        resolve.resolve(rows, {"optimizer": "adamw", "train_batch_size": 8}, facts, remedy="wait")


def test_settings_cannot_be_changed():
    settings = resolve.resolve(ROWS["run_race"], {"data_dir": "race"})
    with pytest.raises(AttributeError):
        settings.do_train = False
    with refuses("do_trian", error=AttributeError):
        _ = settings.do_trian


def test_neither_absl_nor_tensorflow_is_imported():
    code = "import sys; sys.modules['tensorflow'] = sys.modules['absl'] = None"
    run_python("-c", f"{code}; import albert_tf.resolve", check=True)


@pytest.mark.parametrize(
    ("command", "typed", "positions", "found"),
    [
        ("run_squad", {}, 128, {"max_seq_length": 128, "doc_stride": 42}),
        ("run_squad", {}, 512, {"max_seq_length": 384, "doc_stride": 128}),
        ("run_squad", {}, 16, {"max_seq_length": 16, "doc_stride": 5, "start_n_top": 5}),
        ("run_squad", {"max_seq_length": 256}, 256, {"max_seq_length": 256, "doc_stride": 128}),
        ("run_squad", {"doc_stride": 125}, 128, {"max_seq_length": 128, "doc_stride": 125}),
        ("run_race", {"data_dir": "race"}, 128, {"max_seq_length": 128, "max_qa_length": 32}),
        ("run_race", {"data_dir": "race"}, 5, {"max_seq_length": 5, "max_qa_length": 1}),
        (
            "run_race",
            {"data_dir": "race", "max_qa_length": 508},
            512,
            {"max_seq_length": 512, "max_qa_length": 508},
        ),
        ("run_classifier", {}, 64, {"max_seq_length": 64}),
        ("export_to_tfhub", {}, 64, {"max_seq_length": 64}),
        ("export_to_tfhub", {}, 512, {"max_seq_length": 128}),
    ],
)
def test_defaults_fit_the_positions_of_the_model(command, typed, positions, found):
    given = resolve.resolve(ROWS[command], typed)
    config = AlbertConfig(vocab_size=9, max_position_embeddings=positions)
    settings, replaced = resolve.fitted(given, config)
    assert {name: settings.get(name) for name in found} == found
    for name in found.keys() - typed.keys():
        is_cut = found[name] != given.rows[name].default
        assert is_cut == any(text.startswith(f"--{name}={found[name]} ") for text in replaced)
    assert settings.typed() == typed


@pytest.mark.parametrize(
    ("command", "typed", "positions", "message"),
    [
        ("run_squad", {"max_seq_length": 256}, 128, "--max_seq_length=256 ... 128 ... =128 of DIR"),
        ("run_squad", {"max_seq_length": 64}, 0, "--doc_stride=128 ... 1 ... 61 ... _length=64"),
        ("run_squad", {"doc_stride": 126}, 128, "--doc_stride=126 ... 1 ... 125 ... _length=128"),
        ("run_squad", {"doc_stride": 382}, 0, "--doc_stride=382 ... 381 ... --max_seq_length=384"),
        ("run_squad", {"end_n_top": 129}, 128, "--end_n_top=129 ... 128 ... --max_seq_length=128"),
        (
            "run_race",
            {"data_dir": "race", "max_qa_length": 125},
            128,
            "--max_qa_length=125 ... 1 ... 124 ... =128",
        ),
        (
            "run_race",
            {"data_dir": "race", "max_qa_length": 509},
            0,
            "--max_qa_length=509 ... 1 ... 508 ... =512",
        ),
        ("run_classifier", {}, 4, "--max_seq_length=4 ... 5 ... max_position_embeddings=4 of DIR"),
        ("run_pretraining", {"max_seq_length": 65}, 64, "--max_seq_length=65 ... 1 ... 64"),
        ("export_to_tfhub", HUB_LENGTH, 64, "--max_seq_length=65 ... 3 ... 64"),
    ],
)
def test_lengths_that_do_not_fit(command, typed, positions, message):
    """Without positions, of options alone."""
    config = AlbertConfig(vocab_size=9, max_position_embeddings=positions) if positions else None
    with refuses(message):
        resolve.fitted(resolve.resolve(ROWS[command], typed), config, "DIR")
