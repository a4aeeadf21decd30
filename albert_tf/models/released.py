# SPDX-License-Identifier: Apache-2.0
"""Names of the published models: archives of the authors, and directories of Hugging Face."""

import os
import re
from typing import NamedTuple

from albert_tf.errors import as_called

ARCHIVES = "https://storage.googleapis.com/albert_models"
HUB = "https://huggingface.co"
HUB_FILES = ("config.json", "spiece.model", "model.safetensors")
HUB_EXTRAS = ("tokenizer_config.json",)  # which not every directory has
SIZES = ("base", "large", "xlarge", "xxlarge")
_NAME = re.compile(rf"(?:albert[-_])?({'|'.join(SIZES)})(?:[-_](v1|v2|zh))?")
_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


class Released(NamedTuple):
    """A published model.

    Attributes:
        address: str, of the site that has it.
        files: tuple of str, paths below the address; one path is that of an archive.
        extras: tuple of str, further paths, which may be absent.
        directory: str, name for the directory of the model.
    """

    address: str
    files: tuple
    extras: tuple
    directory: str


def names():
    """Text for messages: the names that `find` knows."""
    return f"{', '.join(SIZES)} (version 2; base-v1 and base-zh are the others)"


def find(name):
    """The published model of a name.

    Args:
        name: str, such as "base", "base-v1", "albert_base_v2" or "albert/albert-base-v2".

    Returns:
        Released; None if no model can have this name.
    """
    match = _NAME.fullmatch(name)
    if match:
        size, version = match[1], match[2] or "v2"
        suffix = "" if version == "v2" else f"_{version}"
        archive = f"albert_{size}_{version}.tar.gz"
        return Released(ARCHIVES, (archive,), (), f"albert_{size}{suffix}")
    if _HUB_NAME.fullmatch(name):
        files, extras = (
            tuple(f"{name}/resolve/main/{file}" for file in some)
            for some in (HUB_FILES, HUB_EXTRAS)
        )
        return Released(HUB, files, extras, os.path.basename(name))
    return None


def hint(path):
    """Sentence of a message on a path that does not exist: the command that downloads a model.

    Args:
        path: str, which may be the name of a published model.
    """
    name = path.rstrip("/").removesuffix(".tar.gz")
    owner = name.partition("/")[0]
    is_path = "/" in name and ("albert" not in name.lower() or os.path.isdir(owner))
    if find(name) and not is_path:
        return f"{as_called(f'python download_model.py {name}')} downloads it"
    return f"{as_called('python download_model.py base')} downloads a published model"
