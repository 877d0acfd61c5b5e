#!/usr/bin/env python3
"""Makes PDFs as common programs write them: seven documents by six writers, or one table of any length.

    pip install reportlab fpdf2 weasyprint
    python3 benches/documents/make.py FOLDER                 # 42 files, NAME.WRITER.pdf
    python3 benches/documents/make.py FOLDER --table 2205    # table.pdf and table.json, 49 rows a page

Writers: Chromium, WeasyPrint, LibreOffice (of HTML), LaTeX, ReportLab, fpdf2. One that is not installed is
left out with a message.
"""
import argparse
import html
import json
import random
import shutil
import subprocess
import sys
from pathlib import Path

WORDS = ("time year people way day man thing woman life child world school state family student group country "
         "problem hand part place case week company system program question work government number night point "
         "home water room mother area money story fact month lot right study book eye job word business issue "
         "side kind head house service friend father power hour game line end member law car city").split()
NAMES = ["Åse Nørgård", "José Muñoz", "Zoë Müller", "Łukasz Wójcik", "Ann O'Neil", "François Lefèvre", "Jürgen Groß"]


def sentence(random):
    words = [random.choice(WORDS) for _ in range(random.randint(6, 16))]
    return " ".join(words).capitalize() + "."


def paragraph(random, count=4):
    return " ".join(sentence(random) for _ in range(count))


def amount(random):
    return f"{random.randint(1, 99999) + random.random():,.2f}"


def documents():
    """Yields names and blocks: ("h", text), ("p", text), ("table", rows, alignments), ("columns", texts)."""
    r = random.Random(1)
    lines = [[str(i), f"{r.choice(WORDS).title()} {r.choice(WORDS)}", str(r.randint(1, 20)), amount(r), amount(r)]
             for i in range(1, 9)]
    yield "invoice", [
        ("h", "Invoice 2026-0417"), ("p", f"{NAMES[0]}, Storgata 12, 0184 Oslo"), ("p", "Date: 17 April 2026"),
        ("table", [["No", "Item", "Qty", "Price", "Total"], *lines], "lllrr"),
        ("p", f"Total due: EUR {amount(r)}"), ("p", "IBAN: NO93 8601 1117 947, payable within 30 days."),
    ]
    yield "letter", [("p", f"{NAMES[1]}"), ("p", "14 March 2026"), ("h", "Your request of last week"),
                     *[("p", paragraph(r, 5)) for _ in range(5)], ("p", f"Kind regards, {NAMES[2]}")]
    yield "article", [("h", "On work and time"), ("p", paragraph(r, 3)),
                      ("columns", [paragraph(r, 6) for _ in range(8)])]
    yield "report", [block for part in range(1, 5) for block in
                     [("h", f"{part}. {r.choice(WORDS).title()} of the year"), ("p", paragraph(r, 5)),
                      ("table", [["", "2024", "2025", "2026"],
                                 *[[r.choice(WORDS).title(), amount(r), f"({amount(r)})", amount(r)] for _ in range(6)]],
                       "lrrr"), ("p", paragraph(r, 4))]]
    yield "long", [("h", "Members"), ("table", [["Name", "City", "Since", "Paid"],
                   *[[r.choice(NAMES), r.choice(WORDS).title(), f"{r.randint(1, 28)}.{r.randint(1, 12)}.20{r.randint(10, 26)}",
                      amount(r)] for _ in range(110)]], "lllr")]
    yield "marks", [("h", "Efficient offices — “first” field"), ("p", "Fluffy affairs of the office: 50 % of 3 × 4 ≤ 12 …"),
                    ("p", " · ".join(NAMES)), ("table", [["a|b", "§ 3", "½"], ["€ 1", "£ 2", "5 °C"]], "lll"),
                    ("p", paragraph(r, 3))]
    yield "form", [("table", [["Name:", r.choice(NAMES), "Date of birth:", "3 May 1980"],
                              ["City:", "Oslo", "Phone:", "+47 22 33 44 55"],
                              ["Contract:", "A-77", "Ends:", "31 December 2027"]], "llll"),
                   ("p", paragraph(r, 2))]


def as_html(blocks):
    out = ["<meta charset=utf-8><style>body{font:10pt serif} td{padding:2pt 6pt} .r{text-align:right}"
           " .c{columns:2} p{text-align:justify}</style>"]
    for kind, *rest in blocks:
        if kind == "columns":
            out.append("<div class=c>" + "".join(f"<p>{html.escape(text)}</p>" for text in rest[0]) + "</div>")
        elif kind == "table":
            cell = lambda text, side: f"<td class={side} align={'right' if side == 'r' else 'left'}>{html.escape(text)}</td>"
            rows = ["<tr>" + "".join(map(cell, row, rest[1])) + "</tr>" for row in rest[0]]
            out.append("<table>" + "\n".join(rows) + "</table>")
        else:
            out.append(f"<{'h2' if kind == 'h' else 'p'}>{html.escape(rest[0])}</{'h2' if kind == 'h' else 'p'}>")
    return "\n".join(out)


def run(command):
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=180)


def chrome(blocks, path):
    source = path.with_suffix(".html")
    source.write_text(as_html(blocks))
    program = shutil.which("chromium") or shutil.which("google-chrome") or "chromium"
    run([program, "--headless", "--no-sandbox", "--disable-gpu", f"--print-to-pdf={path}", f"file://{source.resolve()}"])
    source.unlink()


def libreoffice(blocks, path):
    source = path.with_suffix(".html")
    source.write_text(as_html(blocks))
    run(["soffice", "--headless", "--convert-to", "pdf:writer_web_pdf_Export", "--outdir", str(path.parent), str(source)])
    source.unlink()


def weasyprint(blocks, path):
    import weasyprint as writer

    writer.HTML(string=as_html(blocks)).write_pdf(path)


def latex(blocks, path):
    special = {"&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "×": r"$\times$", "≤": r"$\leq$",
               "½": r"\textonehalf{}", "€": r"\texteuro{}", "·": r"\textperiodcentered{}", "°": r"\textdegree{}", "|": r"\textbar{}"}
    plain = lambda text: "".join(special.get(c, c) for c in text)
    out = [r"\documentclass[10pt]{article}\usepackage[T1]{fontenc}\usepackage[utf8]{inputenc}\usepackage{textcomp,multicol,longtable}"
           r"\begin{document}"]
    for kind, *rest in blocks:
        if kind == "h":
            out.append(rf"\section*{{{plain(rest[0])}}}")
        elif kind == "p":
            out.append(plain(rest[0]) + "\n")
        elif kind == "columns":
            out.append(r"\begin{multicols}{2}" + "\n\n".join(map(plain, rest[0])) + r"\end{multicols}")
        else:
            rows = (r" \\" + "\n").join(" & ".join(map(plain, row)) for row in rest[0])
            out.append(rf"\begin{{longtable}}{{{rest[1]}}}{rows}\end{{longtable}}")
    source = path.with_suffix(".tex")
    source.write_text("\n".join(out) + r"\end{document}")
    run(["pdflatex", "-interaction=nonstopmode", "-output-directory", str(path.parent), str(source)])
    for ending in (".tex", ".log", ".aux"):
        path.with_suffix(ending).unlink(missing_ok=True)


def reportlab(blocks, path):
    from reportlab.lib.pagesizes import A4
    from reportlab.lib.styles import getSampleStyleSheet
    from reportlab.platypus import BalancedColumns, Paragraph, SimpleDocTemplate, Table

    style = getSampleStyleSheet()
    flow = []
    for kind, *rest in blocks:
        if kind == "table":
            flow.append(Table(rest[0], style=[("ALIGN", (i, 0), (i, -1), "RIGHT") for i, a in enumerate(rest[1]) if a == "r"]))
        elif kind == "columns":
            flow.append(BalancedColumns([Paragraph(html.escape(text), style["Normal"]) for text in rest[0]], nCols=2))
        else:
            flow.append(Paragraph(html.escape(rest[0]), style["Heading2" if kind == "h" else "Normal"]))
    SimpleDocTemplate(str(path), pagesize=A4).build(flow)


def fpdf(blocks, path):
    from fpdf import FPDF

    pdf = FPDF()
    pdf.add_page()
    pdf.set_font("Helvetica", size=10)
    plain = lambda text: text.encode("cp1252", "replace").decode("cp1252")
    pdf.core_fonts_encoding = "cp1252"
    for kind, *rest in blocks:
        if kind == "table":
            align = tuple("RIGHT" if a == "r" else "LEFT" for a in rest[1])
            with pdf.table(text_align=align, first_row_as_headings=False) as table:
                for row in rest[0]:
                    table.row([plain(text) for text in row])
        elif kind == "columns":
            with pdf.text_columns(ncols=2, gutter=8) as columns:
                for text in rest[0]:
                    columns.write(plain(text) + "\n\n")
        else:
            pdf.set_font("Helvetica", style="B" if kind == "h" else "", size=14 if kind == "h" else 10)
            pdf.multi_cell(0, text=plain(rest[0]), new_x="LMARGIN", new_y="NEXT")
    pdf.output(str(path))


WRITERS = [chrome, weasyprint, libreoffice, latex, reportlab, fpdf]


def table(folder, count):
    """A table of transactions over many pages, with its rows as JSON."""
    from reportlab.lib.pagesizes import A4
    from reportlab.platypus import SimpleDocTemplate, Table

    r = random.Random(2)
    rows = [{"number": f"T{i:05}", "date": f"2026-{r.randint(1, 12):02}-{r.randint(1, 28):02}",
             "payee": f"{r.choice(WORDS).title()} {r.choice(WORDS)}", "amount": f"{r.randint(1, 9999) + r.randint(0, 99) / 100:.2f}"}
            for i in range(1, count + 1)]
    pages = [rows[i:i + 49] for i in range(0, count, 49)]
    flow = [Table([["Number", "Date", "Payee", "Amount"], *[list(row.values()) for row in page]],
                  colWidths=[80, 90, 200, 80], rowHeights=14) for page in pages]
    SimpleDocTemplate(str(folder / "table.pdf"), pagesize=A4, topMargin=36, bottomMargin=36).build(flow)
    (folder / "table.json").write_text(json.dumps({"transactions": rows}, ensure_ascii=False))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--table", type=int, help="make a table with this number of rows only")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    if options.table:
        return table(options.folder, options.table)
    for writer in WRITERS:
        for name, blocks in documents():
            try:
                path = options.folder / f"{name}.{writer.__name__}.pdf"
                writer(blocks, path)
                made = options.folder / f"{name}.{writer.__name__}.pdf"
                if not made.exists():
                    raise FileNotFoundError(made)
            except (ImportError, OSError, subprocess.SubprocessError) as error:
                print(f"{name} by {writer.__name__} is left out: {error!r}"[:300], file=sys.stderr)


if __name__ == "__main__":
    main()
