# SPDX-License-Identifier: Apache-2.0
"""Small valid inputs: text, data sets, and what the scripts themselves make of them."""

import json
import re
import shlex
import shutil

from tests import tiny
from tests.fuzz import processes

SMALL = {"embedding_size": 8, "hidden_size": 16, "num_hidden_layers": 1, "intermediate_size": 32}
CONFIG = tiny.CONFIG | SMALL | {"max_position_embeddings": 40}  # trained in a second or two
SENTENCES = (
    "The old clerk closed the ledger and went home.",
    "She paid £2,000 in cash for the Blue Boar inn.",
    "Nobody in the café knew when the train would come.",
    "He said no twice, and then he said yes.",
    "The river was high after three days of rain.",
    "A letter from London lay on the table.",
    "They built the bridge in 1889 out of grey stone.",
    "Her brother sailed to Norway with the herring fleet.",
)


def _tsv():
    """A table with two classes."""
    rows = [f"{text}\t{SENTENCES[0]}\t{'ab'[i % 2]}\n" for i, text in enumerate(SENTENCES)]
    return "first\tsecond\tlabel\n" + "".join(rows)


def _conll():
    """The sentences as words with labels; what begins with a capital is a name."""
    labels = {False: "O", True: "B-NAME"}
    sentences = (
        "".join(f"{word}\t{labels[word[0].isupper()]}\n" for word in text.split())
        for text in SENTENCES
    )
    return "\n".join(sentences)


def _squad(version):
    """Two paragraphs of four questions; of version 2 every fourth has no answer."""
    paragraphs = []
    for i in range(2):
        context, questions = " ".join(SENTENCES[4 * i : 4 * i + 4]), []
        for j, sentence in enumerate(SENTENCES[4 * i : 4 * i + 4]):
            answer = " ".join(sentence.split()[1:3])
            row = {"id": f"q{i}{j}", "question": f"What about {answer}?"}
            row["answers"] = [{"text": answer, "answer_start": context.index(answer)}]
            if version == 2:
                row["is_impossible"] = j == 3
                row["answers"] = [] if j == 3 else row["answers"]
            questions.append(row)
        paragraphs.append({"context": context, "qas": questions})
    return {"version": f"{version}", "data": [{"title": "t", "paragraphs": paragraphs}]}


FILES = {  # name -> content: str, bytes, or what JSON can hold
    "config.json": CONFIG,
    "spm.model": tiny.VOCABULARY.read_bytes(),
    "vocab.txt": tiny.WORDPIECE.read_bytes(),
    "text.txt": "\n\n".join("\n".join(SENTENCES[i:] + SENTENCES[:i]) for i in range(4)) + "\n",
    "examples.txt": "".join(f"{text}\t{SENTENCES[0]}\n" for text in SENTENCES),
    "examples.jsonl": "".join(
        json.dumps({"question": "Who went home?", "context": text}) + "\n" for text in SENTENCES
    ),
    **{f"tsv/{split}.tsv": _tsv() for split in ("train", "dev", "test")},
    **{f"conll/{split}.conll": _conll() for split in ("train", "dev", "test")},
    **{
        f"{place}/{path.relative_to(tiny.GLUE_DATA)}": path.read_bytes()
        for place, task in (("glue", "CoLA"), ("race", "RACE"))
        for path in (tiny.GLUE_DATA / task).rglob("*.t*")
    },
    "pretrained/spm.model": tiny.VOCABULARY.read_bytes(),  # for exports
    "squad1.json": _squad(1),
    "squad2.json": _squad(2),
    "answers.json": {f"q{i}{j}": "old clerk" for i in range(2) for j in range(4)},
    "odds.json": {f"q{i}{j}": j - 1.5 for i in range(2) for j in range(4)},
    "packages/small.py": '"""{}"""\n'.format("\n".join(SENTENCES)),
    "packages/other.py": '"""{}"""\n'.format(" ".join(reversed(SENTENCES)).replace("The", "A")),
}


def arguments(command):
    """A command line as a list, with its script as the first."""
    return shlex.split(command)


def inputs(command, root):
    """Names of the corpus (in its directory `root`) among the values of a command's flags."""
    values = [value.partition("=")[2] for value in arguments(command)[1:]]
    return sorted(
        {value.split("/")[0] for value in values} & {path.name for path in root.iterdir()}
    )


def copy(names, root, directory):
    """Copies files and directories of the corpus to where a command will run."""
    directory.mkdir(parents=True)
    for name in names:
        source = root / name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, directory / name)


def write_files(root):
    """Writes the part of the corpus that no script makes into a directory (Path)."""
    for name, content in FILES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not isinstance(content, str | bytes):
            content = json.dumps(content)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())


def needed(levels, wanted):
    """What has to be made for some command lines: for each level a list of (name, command).

    `levels` are dicts from a name to the command that makes it of what earlier ones hold.
    """
    text, found = " ".join(wanted), []
    for level in reversed(levels):
        rows = [row for row in level.items() if re.search(rf"={re.escape(row[0])}(?![\w.])", text)]
        text = " ".join((text, *(command for _, command in rows)))
        found.insert(0, rows)
    return found


def make(row, root):
    """Makes a part of the corpus in `root`, a row (name, command), unless it is there."""
    name, command = row
    directory = root.parent / f"making-{name}"
    if (done := root / f"{name}.made").exists():
        return
    shutil.rmtree(directory, ignore_errors=True)
    copy(inputs(command, root), root, directory)
    outcome = processes.run_script(arguments(command), directory, seconds=300)
    assert outcome.code == 0, f"{command}\n{outcome.errors}"
    for path in directory.glob(f"{name}/**/events.out.*"):
        path.unlink()
    shutil.rmtree(root / name, ignore_errors=True)
    (directory / name).rename(root / name)
    done.touch()
