# SPDX-License-Identifier: Apache-2.0
"""The rules of docs/architecture.md, read from the imports of every source file."""

import ast
import graphlib

import pytest

from tests import ROOT

# Package of albert_tf, or module at its top -> what it may import of these. Arrows run downwards.
MAY_IMPORT = {
    "cli": {
        "api",
        "checkpoints",
        "config",
        "corpus",
        "models",
        "records",
        "tasks",
        "text",
        "training",
    },
    "api": {"checkpoints", "config", "model", "records", "tasks", "text", "training"},
    "tasks": {"checkpoints", "model", "publish", "records", "text", "training"},
    "training": {"__init__", "checkpoints", "config", "model", "publish", "records"},
    "publish": {"checkpoints", "config", "model", "text"},
    "model": {"checkpoints", "config"},
    "checkpoints": {"config", "models"},
    "models": set(),
    "inspect": {"api"},
    "corpus": {"records", "text"},
    "records": {"text"},
    "text": set(),
    "config": set(),
    "options": set(),
    "files": set(),
    "locks": set(),
    "errors": set(),
    "progress": set(),
    "state": set(),
    "squad_metrics": {"tasks"},
    "similarity": {"api", "tasks"},
    "plot": {"training"},
    "__init__": set(),  # it imports what is asked for,
}
OPEN_TO_ALL = {"errors", "files", "locks", "options", "progress", "state"}
FLAG_READERS = {"cli"}
GLOBAL_STATE = {"Graph", "set_global_policy", "set_random_seed", "set_jit"}
MAY_SET_GLOBAL_STATE = {"cli", "training"}  # in functions that scripts call for that purpose
SCRIPT_FOLDERS = {"demo", "benchmarks"}  # and the root
SQUAD = ("albert_tf", "tasks", "squad")  # the one package inside another
INSPECT = "albert_tf/checkpoints/inspect.py"  # a command, which stands above its package
RUNS_APART = "benchmarks/peers.py"  # measures a library on Keras 3 in a process of its own
SPDX = "# SPDX-License-Identifier: Apache-2.0"


def imports(tree, package="albert_tf"):
    """Yields the dotted names a file imports, inside functions too.

    `from a import b` is a.b.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: package.count(".") + 2 - node.level] if node.level else []
            prefix = ".".join([*above, *filter(None, [node.module])])
            yield from (f"{prefix}.{alias.name}" for alias in node.names)


def part_of(path):
    """The key of MAY_IMPORT that a file of albert_tf/ belongs to."""
    if len(path.parts) == 2 or path.as_posix() == INSPECT:
        return path.stem
    return path.parts[1]


def imported_parts(path, tree):
    """Returns the parts of albert_tf that one of its files imports; itself is not among them."""
    parts = set()
    for name in imports(tree, ".".join(path.parts[:-1])):
        top, _, rest = name.partition(".")
        if top == "albert_tf":
            part = rest.partition(".")[0]
            parts.add(part if part in MAY_IMPORT else "__init__")
    return parts - {part_of(path)}


def imports_any(tree, *forbidden):
    """Whether a file imports one of the dotted names or something below it."""
    return any(f"{name}.".startswith(f"{other}.") for name in imports(tree) for other in forbidden)


def uses_keras_3(tree):
    chains = (node for node in ast.walk(tree) if isinstance(node, ast.Attribute))
    return imports_any(tree, "tensorflow.keras", "keras") or any(
        node.attr == "keras"
        and isinstance(node.value, ast.Name)
        and node.value.id in ("tf", "tensorflow")
        for node in chains
    )


def changes_global_state(tree):
    """Whether a file makes a graph, after which Keras models fail, or sets what is set for all."""
    return any(
        isinstance(node, ast.Attribute) and node.attr in GLOBAL_STATE for node in ast.walk(tree)
    )


def uses_pickle(tree):
    return imports_any(tree, "pickle", "cloudpickle", "dill", "joblib", "shelve") or any(
        node.arg == "allow_pickle"
        and not (isinstance(node.value, ast.Constant) and node.value.value is False)
        for node in ast.walk(tree)
        if isinstance(node, ast.keyword)
    )


def everywhere_rules(path, source, tree):
    """Yields the broken rules that hold in every file, tests among them."""
    if source.splitlines()[:1] != [SPDX]:
        yield f"the first line is not {SPDX!r}"
    if path.name == "utils.py":
        yield "a utils.py: name the file after what it does"
    if uses_keras_3(tree) and path.as_posix() != RUNS_APART:
        yield "tf.keras or keras is Keras 3: use tf_keras"
    if imports_any(tree, "tensorflow_models"):
        yield "imports tensorflow_models: import submodules of official"


def product_rules(tree, script_names):
    """Yields the broken rules of a file that is no test."""
    if imports_any(tree, *script_names):
        yield "imports a script"
    if uses_pickle(tree):
        yield "pickles: use TFRecord, JSON or npz"


def library_rules(path, tree):
    """Yields the broken rules of a file in albert_tf/."""
    part = part_of(path)
    if part not in MAY_IMPORT or (len(path.parts) > 3 and path.parts[:3] != SQUAD):
        yield "is in no package of the table"
        return
    for imported in sorted(imported_parts(path, tree) - MAY_IMPORT[part] - OPEN_TO_ALL):
        yield f"may not import albert_tf.{imported}"
    if part not in FLAG_READERS and imports_any(tree, "absl.flags"):
        yield "reads absl.flags: take values"
    if part not in MAY_SET_GLOBAL_STATE and changes_global_state(tree):
        yield "changes TensorFlow's global state, and so its caller's models"


def broken_rules(root):
    """Returns the broken rules of a source tree, each as 'file: rule'."""
    folders = (root, *(root / name for name in SCRIPT_FOLDERS))
    scripts = [path.relative_to(root) for folder in folders for path in folder.glob("*.py")]
    library = [path.relative_to(root) for path in root.glob("albert_tf/**/*.py")]
    tests = [path.relative_to(root) for path in root.glob("tests/**/*.py")]
    script_names = {path.stem for path in scripts if len(path.parts) == 1} | SCRIPT_FOLDERS
    broken = []
    for path in sorted(scripts + library + tests):
        source = (root / path).read_text(encoding="utf-8")
        tree = ast.parse(source)
        rules = list(everywhere_rules(path, source, tree))
        if path in library:
            rules += library_rules(path, tree)
        if path not in tests:
            rules += product_rules(tree, script_names)
        broken += [f"{path.as_posix()}: {rule}" for rule in rules]
    return broken


def test_the_sources_keep_the_rules():
    assert broken_rules(ROOT) == []


def test_every_permission_is_used():
    used = {part: set() for part in MAY_IMPORT}
    for path in (ROOT / "albert_tf").rglob("*.py"):
        tree, path = ast.parse(path.read_text(encoding="utf-8")), path.relative_to(ROOT)
        used[part_of(path)] |= imported_parts(path, tree) - OPEN_TO_ALL
    assert used == MAY_IMPORT


def test_the_table_has_no_cycle_and_model_and_text_never_meet():
    order = list(graphlib.TopologicalSorter(MAY_IMPORT).static_order())
    assert set(order) == set(MAY_IMPORT)
    packages = [part for part in MAY_IMPORT if (ROOT / "albert_tf" / part).is_dir()]
    for number, part in enumerate(packages):
        assert not MAY_IMPORT[part] & set(packages[:number]), part
    assert "model" not in MAY_IMPORT["records"] | MAY_IMPORT["text"]
    assert not {"corpus", "records", "text"} & MAY_IMPORT["model"]


def test_each_package_says_what_it_is_for():
    for path in (ROOT / "albert_tf").glob("*/__init__.py"):
        assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))), path


@pytest.fixture
def sources(tmp_path):
    """A made-up source tree that keeps the rules; returns a function that adds a file to it."""

    def add(path, *lines, first_line=SPDX):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("\n".join([first_line, *lines, ""]), encoding="utf-8")
        return broken_rules(tmp_path)

    add("albert_tf/__init__.py")
    add("albert_tf/config.py", "from absl import logging")
    add("albert_tf/model/encoder.py", "import tf_keras", "from albert_tf import errors, files")
    add("albert_tf/model/heads.py", "from albert_tf.model import encoder", "from . import encoder")
    add("albert_tf/cli/launch.py", "from absl import flags")
    add("albert_tf/files.py")
    add("tests/model/test_it.py", "import run_it", "from absl import flags")
    add("demo/show.py", "import albert_tf.model.encoder", "from absl import flags")
    add("run_it.py", "import numpy as np", "np.load('a', allow_pickle=False)")
    return add


def test_a_tree_that_keeps_the_rules_passes(sources):
    assert sources("run_more.py", "from absl import flags", "from albert_tf.cli import x") == []


CONFIG, ENCODER = "albert_tf/config.py", "albert_tf/model/encoder.py"


@pytest.mark.parametrize(
    "path, line, rule",
    [
        # the table, by each way to write an import
        (CONFIG, "import albert_tf.model.encoder", "may not import albert_tf.model"),
        (CONFIG, "from albert_tf import model", "may not import albert_tf.model"),
        (CONFIG, "from albert_tf.cli.launch import x", "may not import albert_tf.cli"),
        (CONFIG, "from . import model", "may not import albert_tf.model"),
        (CONFIG, "from .records.schemas import x", "may not import albert_tf.records"),
        (CONFIG, "import albert_tf", "may not import albert_tf.__init__"),
        (CONFIG, "def f():\n    import albert_tf.tasks.race", "may not import albert_tf.tasks"),
        (ENCODER, "from ..records import schemas", "may not import albert_tf.records"),
        (ENCODER, "from .. import text", "may not import albert_tf.text"),
        (ENCODER, "from albert_tf.api import load", "may not import albert_tf.api"),
        (
            "albert_tf/records/schemas.py",
            "from albert_tf import config",
            "may not import albert_tf.",
        ),
        # files outside the table
        ("albert_tf/extra.py", "", "is in no package of the table"),
        ("albert_tf/more/config.py", "", "is in no package of the table"),
        ("albert_tf/model/more/config.py", "", "is in no package of the table"),
        ("albert_tf/utils.py", "", "a utils.py"),
        ("demo/utils.py", "", "a utils.py"),
        # flags
        (CONFIG, "from absl import flags", "reads absl.flags"),
        (CONFIG, "import absl.flags", "reads absl.flags"),
        (CONFIG, "def f():\n    from absl.flags import FLAGS", "reads absl.flags"),
        # what belongs to the caller
        (CONFIG, "with tf.Graph().as_default():\n    pass", "global state"),
        (CONFIG, "tf_keras.utils.set_random_seed(1)", "global state"),
        # scripts
        (CONFIG, "import run_it", "imports a script"),
        ("run_more.py", "from run_it import main", "imports a script"),
        ("run_more.py", "from demo import show", "imports a script"),
        ("demo/more.py", "import demo.show", "imports a script"),
        ("benchmarks/speed.py", "import run_it", "imports a script"),
        # Keras 3, the model garden's umbrella (in tests too), pickles
        ("tests/test_it.py", "import tensorflow as tf\ntf.keras.layers.Dense(1)", "tf.keras"),
        ("tests/test_it.py", "from tensorflow import keras", "tf.keras"),
        ("tests/test_it.py", "import keras", "tf.keras"),
        ("run_it.py", "import tensorflow_models as tfm", "imports tensorflow_models"),
        ("run_it.py", "def f():\n    import pickle", "pickles"),
        ("run_it.py", "np.load('a', allow_pickle=True)", "pickles"),
    ],
)
def test_each_broken_rule_is_found(sources, path, line, rule):
    found = sources(path, line)
    assert any(entry.startswith(f"{path}: ") and rule in entry for entry in found), found


@pytest.mark.parametrize("path", ["run_it.py", "albert_tf/config.py", "tests/test_it.py"])
def test_a_file_without_the_licence_line_is_found(sources, path):
    assert sources(path, first_line='"""No licence."""') == [
        f"{path}: the first line is not {SPDX!r}"
    ]
