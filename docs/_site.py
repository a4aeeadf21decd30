# SPDX-License-Identifier: Apache-2.0
"""Hooks of the documentation site: pages and files outside docs/, and the links to them.

Links in Markdown files work in the repository. These functions change the links between docs/ and
other directories to links within the site.
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
    "SECURITY.md": "security.md",
    "LICENSE": "licence.md",
    "benchmarks/README.md": "benchmarks.md",
    "experiments/README.md": "experiments.md",
}
RESULTS = "experiments/results/"  # the pages link to these files
# Place of a page among the results of a search; 1 for the others. The changelog names everything.
BOOSTS = {"faq.md": 2, "changelog.md": 0.1, "contributing.md": 0.5, "experiments.md": 0.5}
_SOURCES = {page: file for file, page in PAGES.items()}
_LINK = re.compile(r"(\]\(|^\[[^\]]+\]: )(?!\w+:|#)([^)\s#]+)", re.MULTILINE)


def on_files(files, config):
    """Adds the pages and the results that are outside docs/."""
    for name, page in PAGES.items():
        content = (ROOT / name).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=content))
    for path in (ROOT / RESULTS).rglob("*.*"):
        name = path.relative_to(ROOT).as_posix()
        files.append(File.generated(config, name, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown, page, config, files):
    """Changes the links of a page, and says where it stands in a search."""
    if page.file.src_uri in BOOSTS:
        page.meta["search"] = {"boost": BOOSTS[page.file.src_uri]}
    source = _SOURCES.get(page.file.src_uri, f"docs/{page.file.src_uri}")

    def changed(match):
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), match[2]))
        if path in PAGES:
            return match[1] + PAGES[path]
        if path.startswith("docs/"):
            return match[1] + path.removeprefix("docs/")
        if path.startswith(RESULTS):
            return match[1] + path
        raise ValueError(f"{source}: {match[2]} is not on the site")

    return _LINK.sub(changed, markdown)
