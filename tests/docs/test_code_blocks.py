"""Every Python block in README and docs is run, in a fresh process and an empty folder, as a reader would."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("**/*.md"))]
BLOCKS = [
    pytest.param(block, id=f"{page.name}-{i}", marks=pytest.mark.slow)
    for page in PAGES
    for i, block in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL))
]
LINKS = [
    pytest.param(page.parent / link, id=f"{page.name}-{link}")
    for page in [*PAGES, ROOT / "benchmarks" / "README.md"]
    for link in re.findall(r"\]\((?!http|#)([^)#]+)", page.read_text(encoding="utf-8"))
]


@pytest.mark.parametrize("block", BLOCKS)
def test_code_block_runs(block, tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", block],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("target", LINKS)
def test_link_leads_somewhere(target):
    assert target.exists()
