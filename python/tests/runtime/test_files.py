"""Records of documents: those of the program, with pages and boxes."""

import email.message
import json

import pytest

import ffwd

from .conftest import INVOICE, ROOT, run_program

PDFS = ROOT / "crates" / "documents" / "testdata"
SCHEMA = {
    "properties": {"number": {"type": "string", "maxLength": 40}, "total": {"type": "string", "maxLength": 20}},
    "required": ["number", "total"],
}


@pytest.fixture
def folder(tmp_path):
    """A PDF, a text, an e-mail with an attached PDF, and a PDF that cannot be opened."""
    pdf = (PDFS / "form.fpdf.pdf").read_bytes()
    (tmp_path / "a.pdf").write_bytes(pdf)
    (tmp_path / "b.txt").write_text(INVOICE)
    mail = email.message.EmailMessage()
    mail["Subject"] = "The form"
    mail.set_content("See the form.")
    mail.add_attachment(pdf, maintype="application", subtype="pdf", filename="form.pdf")
    (tmp_path / "c.eml").write_bytes(bytes(mail))
    (tmp_path / "d.pdf").write_bytes((PDFS / "encrypted.pdf").read_bytes())
    return tmp_path


def test_the_records_are_those_of_the_program(engine, folder):
    (folder / "d.pdf").unlink()
    schema = folder / "schema.json"
    schema.write_text(json.dumps(SCHEMA))
    options = {"verbatim": True, "max_tokens": 64, "close_before_limit": True}
    found = list(engine.extract_files(folder, SCHEMA, details=True, errors="return", **options))
    files = ("--include", "*.pdf", "--include", "*.txt", "--include", "*.eml")
    arguments = ("extract", folder, *files, "--schema", schema, "--verbatim", "--spans", "--batch", 16)
    lines = run_program(*arguments, "--max-tokens", 64, "--close-before-limit").splitlines()
    found = [one for one in found if not str(getattr(one, "source", "")).endswith("schema.json")]
    lines = [json.loads(line) for line in lines]
    assert [one.source for one in found] == [line["source"] for line in lines]
    assert [one.source.rpartition("/")[2] for one in found] == ["a.pdf", "b.txt", "c.eml", "c.eml#form.pdf"]
    places = 0
    for one, line in zip(found, lines, strict=True):
        assert one.record == line["record"]
        for pointer, [span, *_] in one.spans.items():
            own = line["spans"][pointer]
            own = own.get("occurrences", [own])[0]
            assert [span.start, span.end] == own["chars"]
            assert (span.page, list(span.box or ())) == (own.get("page"), own.get("box", []))
            places += span.page is not None
    assert places > 1


def test_a_file_that_cannot_be_read_fails_in_its_place(engine, folder):
    found = list(engine.extract_files([folder / "d.pdf", folder / "b.txt"], SCHEMA, errors="return"))
    assert isinstance(found[0], ffwd.Error) and "d.pdf" in str(found[0])
    assert set(found[1]) == {"number", "total"}
    pattern = engine.extract_files(f"{folder}/*.pdf", SCHEMA)
    assert set(next(pattern)) == {"number", "total"}
    with pytest.raises(ffwd.Error, match="encrypted|password"):
        next(pattern)
    with pytest.raises(StopIteration):
        next(pattern)
    with pytest.raises(ffwd.Error, match="no file is there"):
        engine.extract_files(folder / "*.docx", SCHEMA)


def test_what_is_not_read_is_a_warning(engine, folder):
    mail = email.message.EmailMessage()
    mail.set_content("Customer: Ann")
    mail.add_attachment(b"\x00\x01", maintype="image", subtype="png", filename="logo.png")
    (folder / "e.eml").write_bytes(bytes(mail))
    with pytest.warns(UserWarning, match="logo.png"):
        assert len(list(engine.extract_files(folder / "e.eml", SCHEMA))) == 1
