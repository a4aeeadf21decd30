# SPDX-License-Identifier: Apache-2.0
"""README.md, docs/*.md, docs/notebooks: commands parse, links resolve, the Python examples run.

`make docs-check` runs the commands too.
"""

import ast
import contextlib
import json
import posixpath
import re

import pytest

import albert_tf
from tests import ROOT
from tests.docs import check, markdown, stand_ins

LONGEST_README = 200  # lines
RUN_HERE = (  # their Python needs no output of a command
    "README.md",
    pytest.param("docs/python.md", marks=pytest.mark.long),  # it trains
)


@contextlib.contextmanager
def naming(block, what):
    """Adds the place of a block to whatever is raised."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"{block.page}:{block.line}: {what}")
        raise


def text_of(page):
    return (ROOT / page).read_text(encoding="utf-8")


def test_the_readme_is_short():
    assert len(text_of("README.md").splitlines()) <= LONGEST_README


def test_every_command_of_the_pages_is_parsed_by_its_script():
    checked = []
    for block in markdown.code("bash"):
        for command in block.commands:
            for program, arguments in markdown.programs(command):
                with naming(block, command):
                    markdown.check_arguments(program, arguments)
                checked.append(program)
    scripts = {path.name for path in ROOT.glob("*.py")}
    assert scripts <= set(checked), "no page shows these"


@pytest.mark.parametrize(
    "command",
    [
        "python run_race.py --output_dir=o --data_dir=d --no_such_flag=1",
        "python run_race.py --output_dir=o --data_dir=d --train_step=many",
        "python run_race.py --data_dir=d",
        "A=b ./run_glue.sh --data_dir=glue --task_name=RTE --output_dir=o --warmup=3",
        "python train_sentencepiece.py --input_file=a.txt --model_prefix=b --size=3",
        "python -m demo.make_corpus --train_file=a.txt --heldout_file=b.txt --size=3",
        "printf 'one\n' | python predict.py --saved_models=exports > lines",
    ],
)
def test_a_wrong_command_is_seen(command):
    ((program, arguments),) = markdown.programs(command)
    with pytest.raises(Exception, match="flag"):
        markdown.check_arguments(program, arguments)


def test_blocks_and_their_marks(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "Text.\n```bash\n# said\npython run_x.py \\\n  --a=b\nmake demo\n```\n"
        "<!-- docs-check: skip, needs a TPU -->\n```python\nx = 1\n```\n"
    )
    first, second = markdown.blocks(page)
    assert (first.line, first.language, first.skipped) == (2, "bash", None)
    assert first.commands == ["python run_x.py --a=b", "make demo"]
    assert (second.line, second.text, second.skipped) == (9, "x = 1", "needs a TPU")


def test_sizes_above_the_table_are_lowered_and_said():
    given = ["--do_train", "--train_step=800", "--warmup_step=1", "--task_name=RTE"]
    arguments, changed = check.smaller("run_classifier.py", given)
    assert arguments[:3] == ["--do_train", "--warmup_step=1", "--task_name=RTE"]
    assert {"--train_step=2", "--train_batch_size=2"} <= set(arguments[3:])
    assert {"train_step 800 -> 2", "train_batch_size 32 -> 2"} <= set(changed)


@pytest.mark.parametrize("page", [*markdown.pages(), "CONTRIBUTING.md", "CHANGELOG.md"])
def test_links_lead_somewhere(page):
    for link in markdown.links(text_of(page)):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = (ROOT / page).parent / path if path else ROOT / page
        assert target.exists(), link
        if anchor:
            assert anchor in markdown.anchors(target.read_text(encoding="utf-8")), link


@pytest.mark.parametrize("page", [*markdown.pages(), "benchmarks/README.md", "CONTRIBUTING.md"])
def test_code_is_not_wider_than_the_site(page):
    lines = [line for block in markdown.blocks(page) for line in block.text.splitlines()]
    assert [line for line in lines if len(line) > markdown.WIDEST_CODE] == []


def test_every_page_is_reached_from_the_readme():
    reached, new = set(), {"README.md"}
    while new:
        page = new.pop()
        reached.add(page)
        links = {link.partition("#")[0] for link in markdown.links(text_of(page))}
        found = {
            posixpath.normpath(f"{posixpath.dirname(page)}/{link}").lstrip("/") for link in links
        }
        new |= (found & {*markdown.pages()}) - reached
    assert reached == {*markdown.pages()}


def test_the_reference_has_every_public_name():
    found = re.findall(r"^::: albert_tf\.(\S+)$", text_of("docs/api.md"), re.MULTILINE)
    of_checkpoints = [f"checkpoints.{name}" for name in albert_tf.checkpoints.__all__]
    assert sorted(found) == sorted([*albert_tf._HOME, *of_checkpoints])


def test_every_page_is_on_the_site():
    listed = re.findall(r": ([\w-]+\.md)$", text_of("mkdocs.yml"), re.MULTILINE)
    assert {f"docs/{page}" for page in listed} >= {*markdown.pages()} - {"README.md"}


def strings_of(path):
    """Yields the strings of a source file; values within them are left out."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.JoinedStr):
            yield "".join(part.value for part in node.values if isinstance(part, ast.Constant))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def test_messages_on_the_page_of_remedies_exist():
    _, _, table = text_of("docs/troubleshooting.md").partition("## By message")
    messages = re.findall(r"^\| `(.+?)` \|", table, re.MULTILINE)
    sources = [*ROOT.glob("*.py"), *ROOT.glob("albert_tf/**/*.py")]
    strings = [string for path in sources for string in strings_of(path)]
    assert messages and [m for m in messages if not any(m in s for s in strings)] == []


@pytest.mark.parametrize("page", markdown.pages())
def test_files_of_the_repository_that_a_page_names_exist(page):
    for name in re.findall(r"`((?:albert_tf|tests|demo|benchmarks)/[\w./*-]+)`", text_of(page)):
        assert list(ROOT.glob(name)), name


def test_files_in_the_table_of_the_architecture_exist():
    """Those without a path are next to the one before them, or scripts at the root."""
    rows = [row for row in text_of("docs/architecture.md").splitlines() if row.startswith("| ")]
    names = [re.findall(r"`([\w/]+\.(?:py|sh))`", row) for row in rows]
    assert 30 < sum(bool(found) for found in names) <= 45
    for found in names:
        folder = ROOT
        for name in found:
            path = ROOT / name if (ROOT / name).exists() else folder / name
            assert path.exists(), name
            folder = path.parent


def test_the_picture_of_the_packages_has_their_order():
    layers = re.findall(r"^layers = \[(.+?)^\]", text_of("pyproject.toml"), re.M | re.DOTALL)[0]
    layers = [re.findall(r"\w+", line.partition("#")[0]) for line in layers.splitlines()]
    place = {name: number for number, names in enumerate(layers) for name in names}
    shown = re.findall(r"<text [^>]*>([\w, ]+)</text>", text_of("docs/images/code.svg"))
    titles = [text for text in shown if re.fullmatch(r"\w+(, \w+)*", text)]
    order = [place[word] for text in titles for word in text.split(", ") if word in place]
    assert order == sorted(order) and len(order) > 15


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    path = tmp_path_factory.mktemp("docs") / "work"
    stand_ins.write(path)
    stand_ins.write_weights(path)
    stand_ins.write_finetuned(path)
    return path


@pytest.mark.parametrize("page", RUN_HERE)
def test_the_python_of_a_page_runs(page, directory, monkeypatch):
    monkeypatch.chdir(directory)
    names = {}  # a page is read from top to bottom
    for block in markdown.blocks(page):
        if block.language == "python" and not block.skipped:
            with naming(block, "python"):
                exec(compile(block.text, f"{page}:{block.line}", "exec"), names)
    assert names, "no example"


def test_the_page_on_cost_shows_what_its_code_prints(capsys):
    names, printed = {}, []
    for block in markdown.blocks("docs/cost.md"):
        if block.language == "python":
            exec(compile(block.text, f"docs/cost.md:{block.line}", "exec"), names)
            printed.append(capsys.readouterr().out.rstrip("\n"))
    shown = [b.text for b in markdown.blocks("docs/cost.md") if b.language == "text"]
    assert len(printed) == 2 and shown[1:] == printed  # the first has the formula


GOOD = {  # notebook -> what holds of its variables at the end
    "first-steps": lambda names: names["answer"] == "york" and names["better"],
    "own-data": lambda names: names["accuracy"] >= 0.8,
}


def code_of(notebook):
    """Yields the source of each cell with code."""
    path = ROOT / "docs" / "notebooks" / f"{notebook}.ipynb"
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            yield "".join(cell["source"])


def test_every_notebook_is_run():
    assert {path.stem for path in ROOT.glob("docs/notebooks/*.ipynb")} == set(GOOD)


@pytest.mark.long
@pytest.mark.parametrize("notebook", GOOD)
def test_the_cells_of_a_notebook_run(notebook, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    for number, source in enumerate(code_of(notebook), 1):
        exec(compile(source, f"{notebook}, cell {number}", "exec"), names)
    assert GOOD[notebook](names)
