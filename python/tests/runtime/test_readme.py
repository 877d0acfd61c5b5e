"""The programs of the README run, as far as they need no model of the reader's."""

import re
import shutil

import pytest

from .conftest import ROOT

README = (ROOT / "python" / "README.md").read_text()


def test_the_programs_of_the_readme_run(engine, capsys, tmp_path, monkeypatch):
    pytest.importorskip("pydantic", reason="pydantic is not installed")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "invoices").mkdir()
    shutil.copy(ROOT / "crates/documents/testdata/form.fpdf.pdf", "invoices/form.pdf")
    blocks = re.findall(r"```python\n(.*?)```", README, re.S)
    runnable = [block for block in blocks if "# yours" not in block or "Engine.embedded" in block]
    assert len(runnable) == len(blocks) - 2 > 4
    names = {"__name__": "readme"}
    for block in runnable:
        exec(compile(block, "README.md", "exec"), names)
    printed = capsys.readouterr().out
    assert "Bright Glacier Consulting 1840.0\n" in printed
    assert "invoices/form.pdf vendor=" in printed
    assert "/vendor" in printed and "spam" in printed
