# SPDX-License-Identifier: Apache-2.0
"""Hooks of the documentation site: pages that stand outside docs/, and links to them.

Links in Markdown files are written so that they work in the repository. Here those between docs/
and other directories are changed to links between pages of the site, or to files of the repository.
"""

import posixpath
import re
from pathlib import Path

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[1]
PAGES = {  # file of the repository -> page of the site
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "LICENSE": "licence.md",
    "benchmarks/README.md": "benchmarks.md",
    "experiments/README.md": "experiments.md",
}
_SOURCES = {page: file for file, page in PAGES.items()}
_LINK = re.compile(r"(\]\(|^\[[^\]]+\]: )(?!\w+:|#)([^)\s#]+)", re.MULTILINE)


def on_files(files, config):
    """Adds the pages that stand outside docs/."""
    for name, page in PAGES.items():
        content = (ROOT / name).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=content))
    return files


def on_page_markdown(markdown, page, config, files):
    """Changes the links of a page."""
    source = _SOURCES.get(page.file.src_uri, f"docs/{page.file.src_uri}")

    def changed(match):
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), match[2]))
        if path in PAGES:
            return match[1] + PAGES[path]
        if path.startswith("docs/"):
            return match[1] + path.removeprefix("docs/")
        raise ValueError(f"{source}: {match[2]} is not a page of the site")

    return _LINK.sub(changed, markdown)
