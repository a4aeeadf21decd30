# SPDX-License-Identifier: Apache-2.0
"""The rules of the house (CONTRIBUTING.md), read from the imports of every source file."""

import ast
import graphlib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

# file in albert_tf/ -> what it may import from albert_tf; `errors` and `files` are open to all.
MAY_IMPORT = {
    "__init__": {"config", "modeling", "tokenization"},
    "config": set(),
    "modeling": {"config"},
    "heads": {"config", "modeling"},
    "optimization": set(),
    "huggingface": {"config"},
    "checkpoints": {"huggingface"},
    "hub_modules": {"config", "checkpoints"},
    "export": {"config", "modeling", "heads", "checkpoints"},
    "training": {"optimization", "checkpoints"},
    "results": {"checkpoints"},
    "finetuning": {
        "checkpoints",
        "heads",
        "huggingface",
        "optimization",
        "records",
        "results",
        "training",
    },
    "tokenization": set(),
    "huggingface_tokenizer": {"tokenization"},
    "graph_tokenization": {"tokenization"},
    "records": set(),
    "pretraining_data": {"tokenization", "records"},
    "glue": {"tokenization", "records"},
    "race": {"tokenization", "records"},
    "squad_files": set(),
    "squad_features": {"tokenization", "records", "squad_files"},
    "squad_predictions": {"tokenization", "records", "squad_features"},
    "squad_metrics": {"squad_files"},
    "text_inputs": {"graph_tokenization", "race", "squad_features"},
    "serving": {"checkpoints", "export", "heads"},
    "run_record": set(),
    "cli": {
        "__init__",
        "config",
        "graph_tokenization",
        "hub_modules",
        "huggingface",
        "run_record",
        "serving",
        "tokenization",
        "training",
    },
    "predict": {"cli"},
    "errors": set(),
    "files": set(),
}
FLAG_READERS = {"cli", "predict"}  # the latter is a script that is installed with the package
OPEN_TO_ALL = {"errors", "files"}
GLOBAL_STATE = {"Graph", "set_global_policy", "set_random_seed", "set_jit"}
MAY_SET_GLOBAL_STATE = {"cli", "training"}  # in functions that scripts call for that purpose
SCRIPT_FOLDERS = {"demo", "benchmarks"}  # and the root
MODEL_SIDE = {
    "config",
    "modeling",
    "heads",
    "optimization",
    "huggingface",
    "checkpoints",
    "hub_modules",
    "export",
    "serving",
    "training",
}
DATA_SIDE = {name for name in MAY_IMPORT if name.startswith("squad_")} | {
    "tokenization",
    "huggingface_tokenizer",
    "graph_tokenization",
    "records",
    "pretraining_data",
    "glue",
    "race",
    "text_inputs",
}
SPDX = "# SPDX-License-Identifier: Apache-2.0"


def imports(tree):
    """Yields the dotted names a file imports, also inside functions: `from a import b` is a.b."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            # Relative imports can only stand in the package, which is flat.
            package = "albert_tf" if node.level else ""
            prefix = ".".join(part for part in (package, node.module) if part)
            yield from (f"{prefix}.{alias.name}" for alias in node.names)


def package_imports(tree):
    """Returns the modules of albert_tf that a file imports; an attribute of it is `__init__`'s."""
    modules = set()
    for name in imports(tree):
        package, _, rest = name.partition(".")
        if package == "albert_tf":
            module = rest.partition(".")[0]
            modules.add(module if module in MAY_IMPORT else "__init__")
    return modules


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
    if uses_keras_3(tree):
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
    name = path.stem
    if name not in MAY_IMPORT or len(path.parts) != 2:
        yield "is not in the table of files"
        return
    for module in sorted(package_imports(tree) - MAY_IMPORT[name] - OPEN_TO_ALL):
        yield f"may not import albert_tf.{module}"
    if name not in FLAG_READERS and imports_any(tree, "absl.flags"):
        yield "reads absl.flags: take values"
    if name not in MAY_SET_GLOBAL_STATE and changes_global_state(tree):
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


def test_the_house_keeps_its_rules():
    assert broken_rules(ROOT) == []


def test_the_rules_see_this_house():
    names = {path.stem for path in (ROOT / "albert_tf").glob("*.py")}
    assert {"__init__", "config", "modeling", "tokenization"} <= names
    tree = ast.parse((ROOT / "albert_tf" / "heads.py").read_text(encoding="utf-8"))
    assert "modeling" in package_imports(tree)


def test_the_table_has_no_cycle_and_its_two_sides_never_meet():
    order = list(graphlib.TopologicalSorter(MAY_IMPORT).static_order())
    assert set(order) == set(MAY_IMPORT)
    for side in (MODEL_SIDE, DATA_SIDE):
        for name in side:
            assert MAY_IMPORT[name] <= side, name
    assert not MODEL_SIDE & DATA_SIDE


@pytest.fixture
def house(tmp_path):
    """A made-up source tree that keeps the rules; returns a function that adds a file to it."""

    def add(path, *lines, first_line=SPDX):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("\n".join([first_line, *lines, ""]), encoding="utf-8")
        return broken_rules(tmp_path)

    add("albert_tf/__init__.py", "from albert_tf.config import AlbertConfig")
    add("albert_tf/config.py", "from absl import logging")
    add("albert_tf/modeling.py", "import tf_keras", "from albert_tf import config, files")
    add("albert_tf/cli.py", "from absl import flags")
    add("albert_tf/files.py")
    add("tests/test_it.py", "import run_it", "from absl import flags")
    add("demo/show.py", "import albert_tf.modeling", "from absl import flags")
    add("run_it.py", "import numpy as np", "np.load('a', allow_pickle=False)")
    return add


def test_a_tree_that_keeps_the_rules_passes(house):
    assert house("run_more.py", "from absl import flags", "from albert_tf import cli") == []


@pytest.mark.parametrize(
    "path, line, rule",
    [
        # the table, by each way to write an import
        ("albert_tf/config.py", "import albert_tf.modeling", "may not import albert_tf.modeling"),
        ("albert_tf/config.py", "from albert_tf import heads", "may not import albert_tf.heads"),
        ("albert_tf/config.py", "from albert_tf.cli import x", "may not import albert_tf.cli"),
        ("albert_tf/config.py", "from . import modeling", "may not import albert_tf.modeling"),
        ("albert_tf/config.py", "from .records import x", "may not import albert_tf.records"),
        ("albert_tf/config.py", "import albert_tf", "may not import albert_tf.__init__"),
        ("albert_tf/config.py", "def f():\n    import albert_tf.race", "may not import albert"),
        # data side and model side
        ("albert_tf/records.py", "from albert_tf import config", "may not import albert_tf.config"),
        ("albert_tf/heads.py", "from albert_tf import records", "may not import albert_tf.records"),
        # files outside the table
        ("albert_tf/extra.py", "", "is not in the table of files"),
        ("albert_tf/more/config.py", "", "is not in the table of files"),
        ("albert_tf/utils.py", "", "a utils.py"),
        ("demo/utils.py", "", "a utils.py"),
        # flags
        ("albert_tf/config.py", "from absl import flags", "reads absl.flags"),
        ("albert_tf/config.py", "import absl.flags", "reads absl.flags"),
        ("albert_tf/config.py", "def f():\n    from absl.flags import FLAGS", "reads absl.flags"),
        # what belongs to the caller
        ("albert_tf/config.py", "with tf.Graph().as_default():\n    pass", "global state"),
        ("albert_tf/config.py", "tf_keras.utils.set_random_seed(1)", "global state"),
        # scripts
        ("albert_tf/config.py", "import run_it", "imports a script"),
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
)  # fmt: skip
def test_each_broken_rule_is_found(house, path, line, rule):
    found = house(path, line)
    assert any(entry.startswith(f"{path}: ") and rule in entry for entry in found), found


@pytest.mark.parametrize("path", ["run_it.py", "albert_tf/config.py", "tests/test_it.py"])
def test_a_file_without_the_licence_line_is_found(house, path):
    assert house(path, first_line='"""No licence."""') == [
        f"{path}: the first line is not {SPDX!r}"
    ]
