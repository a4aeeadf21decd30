# SPDX-License-Identifier: Apache-2.0
"""Rules for source files that neither ruff nor import-linter checks (see docs/architecture.md).

And tests/messages.txt, which holds the words of all messages, is up to date.
"""

import ast
from pathlib import PurePath

import pytest

from tests import ROOT, messages

GLOBAL_STATE = {"Graph", "set_global_policy", "set_random_seed", "set_jit"}
MAY_SET_GLOBAL_STATE = {"cli", "training"}  # in functions that scripts call for that purpose
SPDX = "# SPDX-License-Identifier: Apache-2.0"


def imports(tree):
    """Yields the dotted names a file imports, inside functions too, without relative imports.

    `from a import b` is a.b.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def reads_flags(tree):
    return any(f"{name}.".startswith("absl.flags.") for name in imports(tree))


def changes_global_state(tree):
    """Whether a file makes a graph, after which Keras models fail, or sets what is set for all."""
    return any(
        isinstance(node, ast.Attribute) and node.attr in GLOBAL_STATE for node in ast.walk(tree)
    )


def loads_pickled_arrays(tree):
    return any(
        node.arg == "allow_pickle"
        and not (isinstance(node.value, ast.Constant) and node.value.value is False)
        for node in ast.walk(tree)
        if isinstance(node, ast.keyword)
    )


def pins_words(tree):
    """Whether a test compares the words of an error for users."""
    return any(
        isinstance(node, ast.Call)
        and ast.unparse(node.func) == "pytest.raises"
        and ast.unparse(node.args[0]) in ("UserError", "ValueError")
        and node.keywords
        for node in ast.walk(tree)
    )


def broken_rules(path, source):
    """Yields the broken rules of a file, given its path from the root."""
    tree = ast.parse(source)
    if source.splitlines()[:1] != [SPDX]:
        yield f"the first line is not {SPDX!r}"
    if path.name == "utils.py":
        yield "a utils.py: name the file after what it does"
    if path.parts[0] != "tests" and loads_pickled_arrays(tree):
        yield "pickles: use TFRecord, JSON or npz"
    if path.parts[0] == "tests" and pins_words(tree):
        yield "pins words: say with tests.errors.refuses what an error names"
    if path.parts[0] == "albert_tf":
        if path.parts[1] != "cli" and reads_flags(tree):
            yield "reads absl.flags: take values"
        if path.parts[1] not in MAY_SET_GLOBAL_STATE and changes_global_state(tree):
            yield "changes TensorFlow's global state, and so its caller's models"


def test_the_sources_keep_the_rules():
    folders = ("albert_tf", "benchmarks", "demo", "experiments", "tests")
    paths = {path for name in folders for path in (ROOT / name).rglob("*.py")}
    paths |= {*ROOT.glob("*.py")}
    assert len(paths) > 100
    broken = {
        str(path): rules
        for path in paths
        if (rules := [*broken_rules(path.relative_to(ROOT), path.read_text(encoding="utf-8"))])
    }
    assert broken == {}


def test_each_package_says_what_it_is_for():
    for path in (ROOT / "albert_tf").glob("*/__init__.py"):
        assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))), path


CONFIG = "albert_tf/config.py"


@pytest.mark.parametrize(
    "path, line, rule",
    [
        (CONFIG, "from absl import flags", "reads absl.flags"),
        (CONFIG, "import absl.flags", "reads absl.flags"),
        (CONFIG, "def f():\n    from absl.flags import FLAGS", "reads absl.flags"),
        (CONFIG, "with tf.Graph().as_default():\n    pass", "changes TensorFlow's global state"),
        (CONFIG, "tf_keras.utils.set_random_seed(1)", "changes TensorFlow's global state"),
        ("albert_tf/utils.py", "", "a utils.py"),
        ("demo/utils.py", "", "a utils.py"),
        ("run_it.py", "np.load('a', allow_pickle=True)", "pickles"),
        ("tests/test_it.py", "with pytest.raises(UserError, match='no'):\n    f()", "pins words"),
        ("tests/test_it.py", "with pytest.raises(UserError):\n    f()", None),
        (CONFIG, "from absl import logging", None),
        (
            "albert_tf/cli/launch.py",
            "from absl import flags\ntf.config.optimizer.set_jit(True)",
            None,
        ),
        ("tests/model/test_it.py", "from absl import flags\nnp.load('a', allow_pickle=True)", None),
        ("run_it.py", "np.load('a', allow_pickle=False)", None),
    ],
)
def test_each_broken_rule_is_found_and_no_other(path, line, rule):
    found = [*broken_rules(PurePath(path), f"{SPDX}\n{line}\n")]
    assert len(found) == bool(rule) and "".join(found).startswith(rule or "")


@pytest.mark.parametrize("path", ["run_it.py", "albert_tf/config.py", "tests/test_it.py"])
def test_a_file_without_the_licence_line_is_found(path):
    (found,) = broken_rules(PurePath(path), '"""No licence."""\n')
    assert found == f"the first line is not {SPDX!r}"


MODULE = '''
"""A docstring of words."""


def check(path, kind="the first one"):
    """Another docstring."""
    assert path, "for those who program"
    option("what --help says")
    print(f"{path} is not {kind}: "
          "give another one")
    raise UserError("cannot read %s" % path if kind else "no")
'''


def test_messages_are_those_of_the_snapshot():
    said = messages.SNAPSHOT.read_text(encoding="utf-8")
    assert said == messages.snapshot(), "run `make messages`, and read the change like prose"


def test_what_is_a_message():
    found = messages.messages(ast.parse(MODULE))
    assert found == {"the first one", "{} is not {}: give another one", "cannot read %s"}
